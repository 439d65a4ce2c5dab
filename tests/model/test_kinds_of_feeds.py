"""Inputs and outputs that no plain NumPy array is: element types that NumPy lacks, sequences, optionals."""

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto as T
from onnx import TypeProto, helper

import fastgraph as fg

ml_dtypes = pytest.importorskip("ml_dtypes")

NARROW = {
    T.BFLOAT16: "bfloat16", T.FLOAT8E4M3FN: "float8_e4m3fn", T.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    T.FLOAT8E5M2: "float8_e5m2", T.FLOAT8E5M2FNUZ: "float8_e5m2fnuz", T.FLOAT8E8M0: "float8_e8m0fnu",
    T.FLOAT4E2M1: "float4_e2m1fn", T.INT4: "int4", T.UINT4: "uint4", T.INT2: "int2", T.UINT2: "uint2",
}  # fmt: skip
FLOATS = [code for code, name in NARROW.items() if "int" not in name and code != T.FLOAT8E8M0]


def model(inputs: dict[str, Any], output: Any, *nodes: Any) -> fg.Model:
    named = [helper.make_value_info(name, kind) for name, kind in inputs.items()]
    graph = helper.make_graph(list(nodes), "g", named, [helper.make_value_info("y", output)])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    return fg.load(made.SerializeToString(), threads=1)


def same(kind: Any) -> fg.Model:
    return model({"x": kind}, kind, helper.make_node("Identity", ["x"], ["y"]))


def tensor(code: int = T.FLOAT, *dims: Any) -> Any:
    return helper.make_tensor_type_proto(code, dims)


SEQUENCE = helper.make_sequence_type_proto(tensor(T.FLOAT, 2))
OPTIONAL = helper.make_optional_type_proto(tensor(T.FLOAT, 2))
LISTS = helper.make_optional_type_proto(SEQUENCE)


@pytest.mark.parametrize("code", NARROW, ids=NARROW.get)
def test_every_number_of_a_narrow_type_goes_in_and_comes_out(code: int) -> None:
    dtype = np.dtype(getattr(ml_dtypes, NARROW[code]))
    bits = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4_e2m1fn": 4}.get(NARROW[code], 8 * dtype.itemsize)
    codes = np.arange(1 << bits, dtype=f"u{dtype.itemsize}")
    if "int" in NARROW[code]:
        info = ml_dtypes.iinfo(dtype)
        x = np.arange(int(info.min), int(info.max) + 1).astype(dtype)
    else:
        x = codes.view(dtype)
    net = same(tensor(code, "n"))
    y = net(x)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.astype(np.float32), x.astype(np.float32))
    wide = net.inputs[0].dtype
    assert wide in (np.float32, np.int8, np.uint8)
    np.testing.assert_array_equal(net(x.astype(wide)).astype(np.float32), x.astype(np.float32))
    np.testing.assert_array_equal(net.run({"x": x})["y"].astype(np.float32), x.astype(np.float32))


@pytest.mark.parametrize("code", FLOATS, ids=NARROW.get)
def test_wider_floats_are_rounded_as_ml_dtypes_rounds(code: int) -> None:
    dtype = np.dtype(getattr(ml_dtypes, NARROW[code]))
    limit = min(float(ml_dtypes.finfo(dtype).max), 1e4)
    x = np.random.default_rng(1).uniform(-limit, limit, 500).astype(np.float32)
    y = model({"x": tensor(code, "n")}, tensor(T.FLOAT, "n"), helper.make_node("Cast", ["x"], ["y"], to=T.FLOAT))(x)
    np.testing.assert_array_equal(y, x.astype(dtype).astype(np.float32))


@pytest.mark.parametrize("code, fed", [
    (T.INT4, [8]), (T.INT4, np.int8([-9])), (T.UINT4, np.uint8([16])), (T.INT2, [2]), (T.UINT2, [4]),
    (T.FLOAT8E4M3FN, [500.0]), (T.FLOAT8E5M2, np.float32([1e6])), (T.FLOAT8E4M3FNUZ, [np.inf]),
    (T.FLOAT4E2M1, [7.0]), (T.FLOAT4E2M1, [np.nan]), (T.FLOAT8E8M0, [0.0]), (T.FLOAT8E8M0, [-1.0]),
    (T.FLOAT8E4M3FN, np.array([57344], ml_dtypes.float8_e5m2)), (T.UINT4, np.array([-1], ml_dtypes.int4)),
])  # fmt: skip
def test_numbers_beyond_the_type_are_refused(code: int, fed: Any) -> None:
    with pytest.raises(fg.InputError, match="'x'.*(numbers from|takes numbers)"):
        same(tensor(code, 1))(fed)


def test_infinity_where_the_type_has_it() -> None:
    for code in (T.BFLOAT16, T.FLOAT8E5M2):
        assert same(tensor(code, 2))(np.float32([np.inf, -np.inf])).astype(np.float32).tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "int4"])
def test_arrays_of_ml_dtypes_are_converted_where_nothing_is_lost(name: str) -> None:
    x = np.array([1, -2, 0], getattr(ml_dtypes, name))
    for code, dtype in ((T.FLOAT, np.float32), (T.DOUBLE, np.float64), (T.INT64, np.int64)):
        y = same(tensor(code, 3))(x)
        assert y.dtype == dtype and y.tolist() == [1, -2, 0]


def test_without_ml_dtypes_results_are_as_they_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert same(tensor(T.BFLOAT16, 2))(np.float32([1, 1 + 2**-12])).tolist() == [1, 1]
    y = same(tensor(T.INT4, 2))([-8, 7])
    assert y.dtype == np.int8 and y.tolist() == [-8, 7]


@pytest.mark.parametrize("isa", [None, "numpy"])
def test_a_cast_to_a_narrow_type_rounds_though_memory_holds_floats(isa: str | None) -> None:
    nodes = [helper.make_node("Cast", ["x"], ["h"], to=T.FLOAT8E4M3FN), helper.make_node("Cast", ["h"], ["y"], to=1)]
    y = model({"x": tensor(T.FLOAT, 3)}, tensor(T.FLOAT, 3), *nodes)(np.float32([1.06, 1e6, -17]))
    assert y.tolist() == [1.0, 448.0, -16.0]


def test_sequences_and_optionals_beside_native_nodes() -> None:
    nodes = [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("SequenceInsert", ["s", "e"], ["y"])]
    net = model({"x": tensor(T.FLOAT, 2), "s": SEQUENCE}, SEQUENCE, *nodes)
    for items in ([], [[1, 2]], [np.float32([3, 4]), (5, 6)]):
        y = net.run({"x": np.zeros(2, np.float32), "s": items})["y"]
        assert [a.dtype for a in y] == [np.float32] * (len(items) + 1)
        assert [a.tolist() for a in y] == [*map(list, np.asarray(items).reshape(-1, 2).tolist()), [1, 1]]
    assert net.plan.tail is not None and [n.op for n in net.plan.tail.nodes] == ["sequence_insert"]
    with pytest.raises(fg.InputError, match="'s' is a sequence of float32\\[2\\]"):
        net.resize({"s": (2,)})


def test_optionals() -> None:
    has = model({"x": OPTIONAL}, tensor(T.BOOL), helper.make_node("OptionalHasElement", ["x"], ["y"]))
    assert has(None).tolist() is False and has([1, 2]).tolist() is True
    get = model({"x": OPTIONAL}, tensor(T.FLOAT, 2), helper.make_node("OptionalGetElement", ["x"], ["y"]))
    assert get([1, 2]).tolist() == [1, 2]
    with pytest.raises(fg.FastgraphError, match="empty"):
        get(None)
    assert same(LISTS)(None) is None and [a.tolist() for a in same(LISTS)([[1, 2]])] == [[1, 2]]


def test_results_are_the_callers_own() -> None:
    net, x = same(SEQUENCE), np.ones(2, np.float32)
    y = net.run({"x": [x]})["y"]
    y[0][:] = 5
    assert x.tolist() == [1, 1]
    assert net.run({"x": [x]})["y"][0].tolist() == [1, 1]


def test_a_sequence_of_a_narrow_type() -> None:
    y = same(helper.make_sequence_type_proto(tensor(T.BFLOAT16, None)))([np.array([1, 2], ml_dtypes.bfloat16)])
    assert [(a.dtype, a.tolist()) for a in y] == [(ml_dtypes.bfloat16, [1, 2])]


def test_what_an_error_says() -> None:
    for kind, fed, says in (
        (SEQUENCE, np.zeros((1, 2), np.float32), "'x' is a sequence of float32\\[2\\]: feed a list of arrays, ndarray"),
        (SEQUENCE, None, "feed a list of arrays, NoneType"), (SEQUENCE, [None], "'x\\[0\\]' has no value"),
        (SEQUENCE, [[1, 2], [1, 2, 3]], "'x\\[1\\]' has shape \\(3,\\)"), (LISTS, 5, "feed a list of arrays, int"),
        (OPTIONAL, "a", "'x' has dtype <U1"), (tensor(T.BFLOAT16, 2), None, "'x' has no value, .*bfloat16\\[2\\]"),
        (tensor(T.INT4, 2), [0.5, 1], "round it"),
    ):  # fmt: skip
        with pytest.raises(fg.InputError, match=says):
            same(kind)(fed)
    with pytest.raises(fg.InputError, match="the inputs are x: optional sequence of float32\\[2\\]"):
        same(LISTS).run({})


def test_an_input_without_a_known_element_type_is_unsupported() -> None:
    with pytest.raises(fg.UnsupportedError, match="'x' is no tensor, sequence or optional"):
        same(TypeProto(map_type=TypeProto.Map(key_type=T.INT64, value_type=tensor(T.FLOAT))))


ANYTHING = st.recursive(
    st.one_of(
        st.none(), st.integers(-300, 300), st.floats(), st.text(max_size=2), st.just({}), st.just(object()),
        st.sampled_from([np.zeros(2, d) for d in ("f4", "f8", "i1", "u2", "?", "c8", "O", "U1", "M8[s]")]),
        st.sampled_from([np.zeros(2, getattr(ml_dtypes, d)) for d in NARROW.values()]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner), max_leaves=6,
)  # fmt: skip
FUZZED = [same(k) for k in (SEQUENCE, OPTIONAL, LISTS, tensor(T.FLOAT, 2), tensor(T.STRING, 2),
                            helper.make_sequence_type_proto(tensor(T.STRING, None)),
                            *(tensor(code, 2) for code in NARROW))]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(FUZZED), ANYTHING)
def test_any_feed_is_taken_or_an_input_error(net: fg.Model, fed: Any) -> None:
    try:
        net(fed)
    except fg.InputError as error:
        assert "'x" in str(error)
