"""What callers hand in: converted where no number changes, else refused with a next step that works when taken."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastgraph as fg
from fastgraph.ir import Quantization
from tests.circle.write import Model as Tflite
from tests.circle.write import litert
from tests.mil.mil_write import Program
from tests.nets import F32, I64, Net

RNG = np.random.default_rng(5)


def same(shape: Any, dtype: Any = F32) -> fg.Model:
    """y = x"""
    net = Net()
    net.output(net("Identity", net.input("x", shape, dtype)), dtype=dtype)
    return net.load()


def byte_model(dtype: str, scale: float, zero: int) -> tuple[fg.Model, bytes]:
    """A max pool of quantized images [1, 4, 4, 2]."""
    m = Tflite()
    x = m.input((1, 4, 4, 2), dtype, (scale, zero), name="image")
    window = {"stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}
    data = m.bytes(m.op("MAX_POOL_2D", [x], [((1, 2, 2, 2), dtype, (scale, zero))], **window))
    return fg.load(data, threads=1), data


def refused(call: Any, *args: Any) -> str:
    with pytest.raises(fg.InputError) as caught:
        call(*args)
    return str(caught.value)


def follow(said: str, pattern: str, x: Any, model: Any) -> Any:
    """What the advice makes of x."""
    code = re.search(pattern, said)
    assert code, said
    return eval(code[1], {"np": np, "x": x, "model": model})


CONVERTED = [
    ([1, 2], F32), ([0.1, 2], F32), ((1.5, 2), F32), ([True, False], F32), (np.float64([0.5, np.inf]), F32),
    (np.float64([np.nan, 1]), F32), (np.arange(2), F32), (np.uint8([0, 255]), F32), (np.array([1, 2], ">f4"), F32),
    ([np.float32(1), 2], F32), ([1, 2], I64), (np.int32([-1, 2]), I64), (np.float32([1, 2]), I64),
    ([True, False], bool), (np.int64([0, 1]), bool), (np.array([1, -1]), np.dtype(np.int8)),
]  # fmt: skip


@pytest.mark.parametrize("fed, dtype", CONVERTED, ids=lambda v: str(v).replace("\n", " "))
def test_what_loses_nothing_is_converted(fed: Any, dtype: Any) -> None:
    model = same((2,), dtype)
    for found in (model(fed), next(iter(model.run({"x": fed}).values()))):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.asarray(fed, dtype))


@pytest.mark.parametrize("fed", [2, 2.5, np.float64(2.5), np.float32(2), np.int8(3), np.array(2.5), True])
def test_scalars(fed: Any) -> None:
    assert same(())(fed) == np.float32(fed)


@pytest.mark.parametrize("fed", [0.1, [0.1], np.float32(0.1), np.array([0.5]), (1,), 3])
def test_one_number_of_core_ml(fed: Any) -> None:
    assert core_ml(1)(fed).tolist() == np.asarray(fed, F32).reshape(1).tolist()


@pytest.mark.parametrize("fed, dtype, pattern", [
    (np.float64([0.1, 1]), F32, r"convert it with (\.astype\(np\.float32\))"),
    (np.int64([2**24 + 1, 0]), F32, r"convert it with (\.astype\(np\.float32\))"),
    (np.float32([0.5, 1]), I64, r"round it with (.*)$"), ([0.5, 1], I64, r"round it with (.*)$"),
    (np.int64([0, 2]), bool, r"feed (x != 0)"), (np.complex64([1j, 1]), F32, r"feed (x\.real\.astype\(np\.float32\))"),
])  # fmt: skip
def test_what_would_lose_something_is_refused_with_code_that_works(fed: Any, dtype: Any, pattern: str) -> None:
    model, kind = same((2,), dtype), np.dtype(dtype)
    said = refused(model, fed)
    assert "'x'" in said and str(np.asarray(fed).dtype) in said and str(kind) in said
    code = re.search(pattern, said)
    assert code, said
    made = eval(code[1] if "x" in code[1] else "x" + code[1], {"np": np, "x": np.asarray(fed)})
    np.testing.assert_array_equal(model(made), made)


@pytest.mark.parametrize("fed, dtype, says", [
    (np.uint8([200, 1]), np.dtype(np.int8), "from -128 to 127, found 1 to 200"),
    ([1, 300], np.dtype(np.uint8), "0 to 255"),
    (np.uint64([2**63, 0]), I64, "found 0 to 9223372036854775808"), ([1e300, 1], F32, "np.array(x, np.float32)"),
    (None, F32, "NoneType"), ("text", F32, "str"), ([None, 1], F32, "list"), ([[1], [1, 2]], F32, "can't be read"),
    ({"x": 1}, F32, "dict"), (object(), F32, "object"), (np.array(["a", "b"]), F32, "<U1"), ([2**70, 0], I64, "object"),
])  # fmt: skip
def test_what_fits_nowhere_is_refused(fed: Any, dtype: Any, says: str) -> None:
    said = refused(same((2,), dtype).run, {"x": fed})
    assert "'x'" in said and says in said


@pytest.mark.parametrize("dtype, scale, zero", [("int8", 1 / 255, -128), ("int8", 1 / 127.5, -1), ("uint8", 1 / 255, 0),
                                                ("int8", 0.05, 3)])  # fmt: skip
def test_the_advice_for_quantized_inputs_gives_what_litert_gives(dtype: str, scale: float, zero: int) -> None:
    model, data = byte_model(dtype, scale, zero)
    reals = RNG.uniform(-0.2, 1.2, (1, 4, 4, 2)).astype(F32)
    said = refused(model, reals)
    stored = follow(said, r"(np\.clip\(.*\)\.astype\(np\.u?int8\))", reals, model)
    np.testing.assert_array_equal(stored, model.inputs[0].quantization.quantize(reals))
    np.testing.assert_array_equal(model(stored), litert(data, [[stored]])[0][0])
    assert np.abs(model.outputs[0].quantization.dequantize(model(stored))).max() <= 256 * scale
    for other in (np.int64, bool, np.int16):
        assert "np.clip(" in refused(model, np.zeros((1, 4, 4, 2), other))
    listed = stored.tolist()
    np.testing.assert_array_equal(model(listed), model(stored))


@pytest.mark.parametrize("dtype, other, zero", [("int8", "uint8", -128), ("uint8", "int8", 128)])
def test_pixels_for_bytes_of_the_other_kind(dtype: str, other: str, zero: int) -> None:
    """Even where all of them would fit: what they stand for is something else."""
    model, _ = byte_model(dtype, 1 / 255, zero)
    low, high = np.iinfo(other).min, np.iinfo(other).max
    for pixels in (np.linspace(low, high, 32).astype(other).reshape(1, 4, 4, 2), np.ones((1, 4, 4, 2), other)):
        made = follow(refused(model, pixels), r"pixels are (.*?), real", pixels, model)
        shift = -128 if dtype == "int8" else 128
        np.testing.assert_array_equal(made.astype(int), pixels.astype(int) + shift)
        model(made)


SHAPES = [
    ((1, 3, 4, 5), (1, 4, 5, 3)), ((1, 3, 4, 5), (4, 5, 3)), ((1, 3, 4, 5), (3, 4, 5)), ((1, 4, 5, 3), (1, 3, 4, 5)),
    ((1, 4, 5, 3), (3, 4, 5)), ((1, 4, 5, 1), (4, 5)), ((1, 1, 4, 5), (4, 5)), ((4, 5), (1, 4, 5)), ((2, 3), (6,)),
    ((1, 8), (8,)), ((1, 6, 2), (1, 2, 6)), (("n", 3, 4, 5), (2, 4, 5, 3)), (("n", 3, None, None), (7, 9, 3)),
    ((1, 3, 2, 4, 5), (1, 2, 4, 5, 3)), ((1, 5), (4, 5)), ((2, 5), (4, 5)), ((1, 3, 4, 5), (60,)), ((), (1,)),
]  # fmt: skip


@pytest.mark.parametrize("declared, shape", SHAPES, ids=str)
def test_the_advice_for_shapes_works(declared: Any, shape: Any) -> None:
    model, x = same(declared), RNG.standard_normal(shape).astype(F32)
    said = refused(model, x)
    assert str(shape) in said and "declares" in said
    if "fixes the batch" in said:
        np.testing.assert_array_equal(follow(said, r"as in (.*)$", x, model), x)
    else:
        assert model(follow(said, r"feed (x.*)$", x, model)).size == x.size


def test_a_shape_that_is_far_off() -> None:
    assert "hold 7 samples: feed one at a time, x[0]" in refused(same((1, 3, 4, 5)), np.ones((7, 1, 3, 4, 5), F32))
    assert "feed an array that fits" in refused(same((1, 3, 4, 5)), np.ones((2, 2), F32))


@pytest.mark.parametrize("declared, shape", [(("n", 4, "h", "w"), (1, 4, 5)), (("n", "h", "w", 4), (5, 4, 1))])
def test_open_axes_are_not_taken_for_channels(declared: Any, shape: Any) -> None:
    assert "channels" not in refused(same(declared), np.ones(shape, F32))


def test_calls_as_in_onnxruntime() -> None:
    net = Net()
    net.output(net("Sub", net.input("a", (2,)), net.input("b", (2,))))
    model = net.load()
    feeds = {"a": np.ones(2, F32), "b": np.zeros(2, F32)}
    assert "model.run({'a': ..., 'b': ...})" in refused(model.run, None, feeds)
    assert "model.run(feeds)" in refused(model, feeds)
    assert "model(a, b)" in refused(model.run, list(feeds.values()))


def test_unknown_names_are_key_errors_too() -> None:
    model = same((2,))
    for ask in (model.input, model.output):
        for name in ("nope", 0, None, ["x"]):
            with pytest.raises(KeyError) as caught:
                ask(name)
            assert isinstance(caught.value, fg.InputError)
            assert str(caught.value).startswith("no ") and repr(name) in str(caught.value)


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    missing = FileNotFoundError
    for path, kind in ((tmp_path / "none.tflite", missing), ("a\0b", missing), (tmp_path, fg.ModelError)):
        with pytest.raises(fg.FastgraphError) as caught:
            fg.load(path)
        assert isinstance(caught.value, kind)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("fastgraph.frontends.read", closed)
    (tmp_path / "x.onnx").write_bytes(b"x")
    with pytest.raises(fg.FastgraphError, match="x.onnx.*Permission") as caught:
        fg.load(tmp_path / "x.onnx")
    assert isinstance(caught.value, OSError)


def test_quantizations_convert() -> None:
    quant = Quantization((0.5, 2.0), (1, 0), 0)
    reals = [[0.0, 0.25, 0.75, 1000], [-1, 1, 3, np.nan]]
    stored = quant.quantize(reals, "int8")
    assert stored.tolist() == [[1, 1, 3, 127], [0, 0, 2, -128]] and stored.dtype == np.int8
    assert quant.dequantize(stored).tolist() == [[0, 0, 1, 63], [0, 0, 4, -256]]
    for wrong in (("a", "int8"), ([1.0], "float32"), ([1.0], "nonsense"), ([1.0], None)):
        refused(quant.quantize, *wrong)
    refused(quant.dequantize, "text")


# -- a shape that the file names, and that does not work


def proposal() -> bytes:
    """x [n, m], which the file names [1, 3], reshaped to pairs."""
    m = Tflite()
    x = m.input((1, 3), name="x")
    m.now["tensors"][x]["shape_signature"] = [-1, -1]
    pairs = m.tensor((2, 2), shape_signature=[-1, 2])
    return m.bytes(m.op("RESHAPE", [x, m.const(np.int32([-1, 2]))], [pairs], new_shape=[-1, 2]))


def test_a_shape_that_the_file_only_proposes_may_fail() -> None:
    from ai_edge_litert.interpreter import Interpreter

    x = np.arange(8, dtype=F32).reshape(2, 4)
    peer = Interpreter(model_content=proposal())
    with pytest.raises(RuntimeError):
        peer.allocate_tensors()
    peer.resize_tensor_input(peer.get_input_details()[0]["index"], x.shape)
    peer.allocate_tensors()
    peer.set_tensor(peer.get_input_details()[0]["index"], x)
    peer.invoke()
    expected = peer.get_tensor(peer.get_output_details()[0]["index"])

    model = fg.load(proposal(), threads=1)
    assert "RESHAPE" in str(model) and "no plan" in str(model) and "3 elements" in str(model)
    assert "not planned" in repr(model)
    with pytest.raises(fg.FastgraphError) as caught:
        model(np.ones((1, 3), F32))
    assert str(caught.value) == model.unplanned
    assert model.unplanned in refused(lambda: model.execute)
    np.testing.assert_array_equal(model(x), expected)
    assert "arena" in repr(model)
    again = fg.load(proposal(), threads=1)
    again.resize({"x": x.shape})
    again.input("x")[...] = x
    again.execute()
    np.testing.assert_array_equal(again.output(again.outputs[0].name), expected)
    assert fg.load(proposal(), threads=1, shapes={"x": (2, 4)})(x).tolist() == expected.tolist()
    with pytest.raises(fg.FastgraphError):
        fg.load(proposal(), threads=1, shapes={"x": (1, 3)})


def test_inspect_says_why_there_is_no_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fastgraph.cli import main

    (tmp_path / "m.tflite").write_bytes(proposal())
    assert main(["inspect", str(tmp_path / "m.tflite")]) == 0
    assert "No plan yet" in (said := capsys.readouterr().out) and "RESHAPE" in said and "--shape x=" in said
    assert main(["inspect", str(tmp_path / "m.tflite"), "--memory"]) == 2
    assert "--shape x=" in (said := capsys.readouterr().err) and "resize" not in said
    assert main(["inspect", str(tmp_path / "m.tflite"), "--shape", "x=2,4"]) == 0


def test_texts_must_be_fed_every_time() -> None:
    net = Net()
    net.output(net("Identity", net.input("t", (2,), np.dtype(object))), dtype=object)
    net.output(net("Relu", net.input("x", (2,))))
    model = net.load()
    feeds = {"x": np.ones(2, F32), "t": ["a", "b"]}
    model.run(feeds)
    assert "'t' was not fed" in refused(model.run, {"x": feeds["x"]})
    assert "'t' was not fed" in refused(model.run, {})
    assert [v.tolist() for v in model.run(feeds | {"t": ["c", "d"]}).values()] == [["c", "d"], [1, 1]]


# -- garbage

words = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 2**70), st.floats(), st.text(max_size=4), st.binary(max_size=9),
    st.just(object()), st.just(len), st.just(np.float64), st.just(1j), st.just(slice(3)),
)  # fmt: skip
arrays = st.builds(
    lambda kind, shape: np.zeros(shape, kind),
    st.sampled_from(["f4", "f8", "i8", "u1", "c8", "O", "U3", "S2", "M8[s]", "m8[s]", "V3", "?", "f2", ">i4", "g"]),
    st.lists(st.integers(0, 3), max_size=4).map(tuple),
)
junk = st.recursive(
    st.one_of(words, arrays),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.just("x"), st.text(max_size=2), st.integers(0, 2)), inner, max_size=3),
    ),
    max_leaves=6,
)  # fmt: skip


def tries(call: Any, *args: Any, **options: Any) -> None:
    try:
        call(*args, **options)
    except fg.FastgraphError as error:
        assert str(error)


def core_ml(*shape: int, **about: Any) -> fg.Model:
    """A Core ML program: relu of an image, or of one number."""
    p = Program()
    p.output(p.op("relu", "y", x=p.input("x", shape, **about)))
    return fg.load(p.zip(), threads=1)


MODELS: dict[str, Any] = {
    "floats": lambda: same((2, 3)), "open": lambda: same(("n", None)), "bytes": lambda: byte_model("int8", 0.1, -3)[0],
    "texts": lambda: same((2,), np.dtype(object)), "scalar": lambda: same(()),
    "image": lambda: core_ml(1, 3, 4, 4, image="RGB"), "number": lambda: core_ml(1),
    "proposal": lambda: fg.load(proposal()),
}  # fmt: skip


@pytest.mark.parametrize("kind", MODELS)
def test_garbage_is_refused_in_our_own_words(kind: str) -> None:
    model = MODELS[kind]()

    @settings(max_examples=150)
    @given(junk, junk)
    def check(a: Any, b: Any) -> None:
        tries(model.run, a)
        tries(model.run, {"x": a})
        tries(model.run, {"image": a})
        tries(fg.verify, a)
        tries(model.run, a, b)
        tries(model, a)
        tries(model, a, b)
        tries(model.resize, a)
        tries(model.resize, {"x": a})
        tries(model.input, a)
        tries(model.output, a)
        tries(fg.verify, model, {"x": a})
        tries(fg.verify, model, a, b)
        for spec in model.inputs:
            if spec.quantization is not None:
                tries(spec.quantization.quantize, a, b)
                tries(spec.quantization.dequantize, a)

    check()
    model.reset_states()


@pytest.mark.parametrize("option", ["precision", "isa", "plans", "function", "shapes", "limits", "outputs", "float_io"])
@pytest.mark.parametrize(
    "given", [np.zeros(0, np.float32), np.zeros((), "V3"), b"avx2"], ids=["empty", "void", "bytes"]
)
def test_an_option_of_another_type_is_refused(option: str, given: Any) -> None:
    with pytest.raises(fg.FastgraphError, match=option):
        fg.load(NET, **{option: given})


@settings(max_examples=150)
@given(junk, st.sampled_from(["threads", "isa", "precision", "shapes", "function", "limits"]), junk)
def test_garbage_for_load_is_refused_in_our_own_words(source: Any, option: str, given: Any) -> None:
    tries(fg.load, source)
    if option != "threads" or not isinstance(given, int) or given < 9:
        tries(fg.load, NET, **{option: given})
    name = source if not isinstance(source, str) else 3
    tries(fg.register_custom_op, "my.domain", name, infer=given, kernel=given)
    tries(fg.register_custom_op, given, "Name", infer=given, kernel=given)


NET = (lambda net: (net.output(net("Relu", net.input("x", ("n", 3)))), net.bytes())[1])(Net())
