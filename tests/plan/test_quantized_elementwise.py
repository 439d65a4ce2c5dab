"""Elementwise nodes over quantized values: what kernels compute against the references."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastgraph as fg
from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.ops.evaluate import evaluate
from fastgraph.plan.lower.registry import matched
from tests.circle.write import Model as Writer
from tests.circle.write import litert
from tests.kernels.harness import widest_tier
from tests.nets import numpy_steps
from tests.plan.computed import ENDS, I16, agrees, compiled, fed, graph_of, inferred, kernels, numbers, results, stored

TIERS = {t.name: t for t in ENDS}
LAST = list(TIERS)[-1]
TYPES = {"u8": np.uint8, "s8": np.int8, "i16": np.int16, "f32": np.float32, "bool": np.bool_, "i32": np.int32}
TYPES |= {"i64": np.int64}


def typed(kind: str, shape: Sequence[int], scale: float = 1.0, zero: int = 0, plain: bool = False) -> TensorType:
    """A type: "u8" and the like are quantized unless `plain`, "f32", "bool" and "i64" are not."""
    quant = stored(scale, zero) if kind in ("u8", "s8", "i16") and not plain else None
    return TensorType(np.dtype(TYPES[kind]), tuple(shape), quant)


def both(graph: Graph, tier: str = LAST, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(what kernels give, what the reference gives) for random inputs."""
    feeds = fed(graph, seed)
    return results(compiled(graph, TIERS[tier]), feeds)[0], evaluate(graph, feeds)[0]


def check(graph: Graph, tier: str = LAST, seed: int = 0, few: float = 0.002, exact: bool = False) -> None:
    got, want = both(graph, tier, seed)
    agrees(got, want, few)
    assert not exact or np.array_equal(got, want)


SHAPES = [((2, 5, 7, 24), (2, 5, 7, 24)), ((1, 6, 6, 40), (1, 1, 1, 40)), ((3, 4, 5, 20), (3, 1, 1, 20)),
          ((7, 33), (1,)), ((2, 3, 70), (2, 3, 1))]  # fmt: skip


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_arithmetic_on_bytes(tier, op):
    for i, (one, other) in enumerate(SHAPES if tier == list(TIERS)[-1] else SHAPES[:2]):
        a, b = typed("u8", one, 0.0512347, 100 + i), typed("u8", other, 0.0313911, 3)
        out = typed("u8", one, 0.0718283 if op != "mul" else 0.3141593, 120)
        check(graph_of(op, [a, b], out), tier, i)


@pytest.mark.parametrize("op", ["add", "mul", "div", "min", "max", "sub", "prelu"])
@pytest.mark.parametrize("kinds", [("s8", "s8", "s8"), ("u8", "f32", "u8"), ("u8", "u8", "f32"), ("f32", "f32", "s8"),
                                   ("i16", "i16", "i16")], ids="-".join)  # fmt: skip
def test_types_mix(op, kinds):
    shape = (2, 3, 37)
    quants = ((0.0512347, 4), (0.0313911, -3), (0.1123581, 5))
    if "i16" in kinds:
        quants = ((1.07e-3, 0), (2.23e-3, 0), (0.003137, 0))
    a, b, out = (typed(kind, shape, *q) for kind, q in zip(kinds, quants, strict=True))
    check(graph_of(op, [a, b], out), few=0.005)


@pytest.mark.parametrize("op, attrs", [("sigmoid", {}), ("leaky_relu", {"alpha": 0.1}), ("gelu", {}), ("relu", {})])
@pytest.mark.parametrize("kinds", [("u8", "u8"), ("s8", "s8"), ("u8", "f32"), ("i16", "i16")], ids="-".join)
def test_functions_of_one_value(op, attrs, kinds):
    """Bytes become tables, which are exact."""
    x = typed(kinds[0], (3, 5, 50), 0.0512347 if kinds[0] != "i16" else 1e-3, 3)
    out = typed(kinds[1], (3, 5, 50), 0.0202943, -9)
    check(graph_of(op, [x], out, **attrs), few=0.02, exact=kinds[1] in ("u8", "s8"))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("kinds", [("f32", "u8"), ("f32", "s8"), ("f32", "i16"), ("u8", "f32"), ("s8", "f32"),
                                   ("i16", "f32"), ("u8", "s8"), ("s8", "i16"), ("i16", "u8"), ("u8", "u8")],
                         ids="-".join)  # fmt: skip
def test_requantize(tier, kinds):
    x, out = typed(kinds[0], (4, 77), 0.0132713, -3), typed(kinds[1], (4, 77), 0.0217829, 9)
    check(graph_of("requantize", [x], out), tier)


def test_special_numbers_are_held_in_the_type():
    graph = graph_of("requantize", [typed("f32", (8,))], typed("u8", (8,), 0.5, 7))
    x = np.float32([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.25, 0.75, -0.25])
    assert results(compiled(graph), {"x0": x})[0].tolist() == [0, 255, 0, 255, 0, 7, 9, 7]


@pytest.mark.parametrize("into", ["u8", "s8"])
def test_bytes_that_differ_by_128_are_flipped(into):
    other = "s8" if into == "u8" else "u8"
    shift = 128 if into == "u8" else -128
    graph = graph_of("requantize", [typed(other, (3, 200), 0.1, 5)], typed(into, (3, 200), 0.1, 5 + shift))
    check(graph, exact=True)
    assert kernels(compiled(graph)) == {"flip"}


@pytest.mark.parametrize("op", ["add", "mul"])
def test_constants(op):
    """Of one scale or several, scalars, and f32."""
    x, out = typed("u8", (2, 5, 12), 0.0512347, 100), typed("u8", (2, 5, 12), 0.0814723, 90)
    weights = np.random.default_rng(0).integers(-127, 128, (1, 1, 12)).astype(np.int8)
    channels = stored([0.01 * (i + 1) for i in range(12)], 0, 2)
    for value in (
        (weights, stored(0.0405279, 3)),
        (weights, channels),
        (np.float32(1.25),),
        (np.float32([[1.25]] * 5),),
    ):
        check(graph_of(op, [x, Value.constant("w", *value)], out))


@settings(max_examples=12)
@given(st.data())
def test_clamps_join_a_sum(draw_from):
    """add then relu6, of one scale: one step, held within the clamp's numbers."""
    draw = draw_from.draw
    zero = draw(st.integers(0, 255))
    scale = draw(st.sampled_from([0.0104729, 0.0512347, 0.4142136]))
    shape = (1, draw(st.integers(1, 5)), draw(st.integers(1, 90)))
    a, b = Value("a", typed("u8", shape, 0.0512347, 10)), Value("b", typed("u8", shape, 0.0202943, 30))
    total, y = (Value(name, typed("u8", shape, scale, zero)) for name in ("total", "y"))
    limits = [Value.constant("low", np.float32(0)), Value.constant("high", np.float32(6))]
    nodes = [Node("add", [a, b], [total]), Node("clip", [total, *limits], [y])]
    graph = Graph("two", [a, b], [y], nodes)
    check(graph)
    assert len(compiled(graph).program.steps) == 1


@pytest.mark.parametrize("op", ["equal", "less", "less_or_equal", "greater", "greater_or_equal"])
@pytest.mark.parametrize("kinds", [("f32", "f32"), ("u8", "u8"), ("u8", "f32")], ids="-".join)
def test_comparisons(op, kinds):
    a, b = (typed(kind, (3, 70), 0.0512347, 5 * i) for i, kind in enumerate(kinds))
    check(graph_of(op, [a, b], typed("bool", (3, 70))), exact=True)


@pytest.mark.parametrize("op", ["and", "or", "xor", "not"])
def test_logic(op):
    check(graph_of(op, [typed("bool", (5, 33))] * (1 if op == "not" else 2), typed("bool", (5, 33))), exact=True)


@pytest.mark.parametrize("kinds", [("f32", "f32", "f32"), ("u8", "u8", "u8"), ("s8", "f32", "s8")], ids="-".join)
def test_where(kinds):
    a, b, out = (typed(kind, (2, 3, 21), 0.0512347 * (1 + i), 5 * i) for i, kind in enumerate(kinds))
    check(graph_of("where", [typed("bool", (2, 3, 1)), a, b], out))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("source, target", [
    ("f32", "i32"), ("f32", "i64"), ("i32", "f32"), ("i64", "f32"), ("i64", "i32"), ("i32", "i64"), ("bool", "f32"),
    ("f32", "bool"), ("u8", "f32"), ("i32", "u8"), ("i64", "bool")])  # fmt: skip
def test_casts(tier, source, target):
    x, out = (typed(kind, (3, 45), plain=True) for kind in (source, target))
    got, want = both(graph_of("cast", [x], out, to=out.dtype.name), tier)
    assert got.dtype == want.dtype and np.array_equal(got, want)


@settings(max_examples=12)
@given(st.data())
def test_places_of_extremes(draw_from):
    draw = draw_from.draw
    n, op = draw(st.integers(1, 150)), draw(st.sampled_from(["arg_max", "arg_min"]))
    kind, tier = draw(st.sampled_from(["f32", "u8", "s8"])), draw(st.sampled_from(list(TIERS)))
    inner = draw(st.sampled_from([1, 1, 5, 70]))
    graph = graph_of(op, [typed(kind, (3, n, inner), 0.1, 3)], typed("i64", (3, inner)), axis=1, keepdims=0)
    got, want = both(graph, tier, seed=n)
    assert np.array_equal(got, want)


def test_the_first_nan_is_the_largest_and_the_smallest():
    x = np.zeros((2, 50), np.float32)
    x[0, [20, 40]], x[1, 3] = np.nan, np.inf
    for op, places in (("arg_max", [20, 3]), ("arg_min", [20, 0])):
        for axis, array in ((1, x), (0, x.T)):
            graph = graph_of(op, [typed("f32", array.shape)], typed("i64", (2,)), axis=axis, keepdims=0)
            assert results(compiled(graph), {"x0": array})[0].tolist() == places


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("shape, out, mode, exact", [
    ((1, 4, 8, 64), (8, 32), "linear", True), ((1, 8, 8, 37), (4, 16), "linear", True),
    ((2, 16, 16, 3), (32, 8), "linear", True), ((1, 4, 32, 1), (8, 64), "linear", True),
    ((1, 5, 6, 20), (9, 6), "linear", False), ((1, 9, 8, 64), (4, 5), "linear", False),
    ((1, 7, 6, 3), (5, 12), "cubic", False)], ids=str)  # fmt: skip
def test_resize_of_bytes(tier, shape, out, mode, exact):
    """Places by powers of two have exact weights, and with such a scale the reference rounds the same numbers."""
    kind = "s8" if shape[-1] == 37 else "u8"
    sizes = Value.constant("sizes", np.int64([shape[0], *out, shape[3]]))
    x, y = typed(kind, shape, 0.25, 7), typed(kind, (shape[0], *out, shape[3]), 0.25, 7)
    nothing = Value.constant("nothing", np.zeros(0, np.float32))
    graph = graph_of("resize", [x, nothing, nothing, sizes], y, mode=mode, coordinate_transformation_mode="half_pixel")
    check(graph, tier, few=0.015, exact=exact)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("kind", ["u8", "s8", "bool"])
@pytest.mark.parametrize("shape, axes", [
    ((3, 5, 90), [2]), ((2, 7, 70), [1]), ((4, 6), [0, 1]), ((2, 3, 4, 130), [1, 2])], ids=str)  # fmt: skip
def test_extremes_of_bytes(tier, kind, shape, axes):
    x = typed(kind, shape, 0.1, 3)
    out = typed(kind, [1 if i in axes else d for i, d in enumerate(shape)], 0.1, 3)
    for op in ("reduce_max", "reduce_min"):
        got, want = both(graph_of(op, [x, Value.constant("axes", np.int64(axes))], out, keepdims=1), tier)
        assert np.array_equal(got, want)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(1, 16, 18, 24), (1, 5, 7, 130), (2, 8, 8, 40)], ids=str)
def test_squeeze_and_excite(tier, turned, shape):
    """Channels times an image: several rows are done at once, and with any number of threads alike."""
    x, w = typed("u8", shape, 0.0512347, 90), typed("u8", (shape[0], 1, 1, shape[3]), 0.0039, 3)
    graph = graph_of("mul", [w, x] if turned else [x, w], typed("u8", shape, 0.0313911, 100))
    got, want = both(graph, tier)
    agrees(got, want)
    assert np.array_equal(results(compiled(graph, TIERS[tier], threads=2), fed(graph, 0))[0], got)


def test_concat_of_two_scales_is_written_in_place():
    """Both parts are made where the result has them."""
    a, b = (Value(name, typed("u8", (1, 5, 5, c), 0.125, z)) for name, c, z in (("a", 30, 3), ("b", 11, 9)))
    wide, out = typed("u8", (1, 5, 5, 41), 0.25, 40), typed("u8", (1, 5, 5, 11), 0.125, 20)
    c, y = Value("c", out), Value("y", wide)
    nodes = [Node("add", [b, b], [c]), Node("concat", [a, c], [y], {"axis": 3})]
    graph = Graph("parts", [a, b], [y], nodes)
    check(graph, exact=True)
    assert "copy" not in kernels(compiled(graph))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "min"])
def test_results_saturate_whatever_the_scales(op: str, tier: str) -> None:
    """Equal numbers cancel though their scale is 1e30 of the result's; what doesn't is at an end."""
    for ratio in (1e9, 1e30, 1e-30):
        for kinds, zero in ((("u8", "u8", "u8"), 255), (("s8", "i16", "s8"), -128), (("u8", "f32", "i16"), 0)):
            operands = [typed(kind, (3, 40), ratio, z) for kind, z in zip(kinds, (200, 0), strict=False)]
            graph = graph_of("fused", operands, typed(kinds[2], (3, 40), 1.0, zero), chain=((op, 0, 1),))
            check(graph, tier)
    same = typed("u8", (40,), 1e10, 77)
    graph = graph_of("fused", [same, same], typed("u8", (40,), 1.0, 9), chain=(("sub", 0, 1),))
    x = numbers(same, 0)
    assert (results(compiled(graph, TIERS[tier]), {"x0": x, "x1": x})[0] == 9).all()


@pytest.mark.parametrize("tier", TIERS)
def test_what_is_no_number_is_stored_as_the_least(tier: str) -> None:
    """As onnxruntime and LiteRT round NaN; infinities are held at the ends. A clamp of NaN is NaN."""
    x = np.float32([np.nan, np.inf, -np.inf, 3e38, -3e38, 0, 1, -1] * 9)
    for chain, least in (((), 0), ((("clip", 0, -1.0, 6.0),), 0)):
        type_ = typed("u8", (72,), 0.1, 3)
        graph = graph_of("fused", [typed("f32", (72,))], type_, chain=chain) if chain else graph_of(
            "requantize", [typed("f32", (72,))], type_)  # fmt: skip
        (got,) = results(compiled(graph, TIERS[tier]), {"x0": x})
        np.testing.assert_array_equal(got, evaluate(graph, {"x0": x})[0])
        assert got[0] == least and got[1] == (63 if chain else 255) and got[2] == (0 if not chain else 0)


def test_operands_that_do_not_broadcast_are_refused() -> None:
    """A lowering takes nothing for granted: a node that inference would refuse has none."""
    for shape in ((2, 40), (3, 1, 40), (4, 3, 40)):
        for kind in ("u8", "f32"):
            graph = graph_of("fused", [typed(kind, (3, 40)), typed(kind, (40,))], typed(kind, (3, 40)),
                             chain=(("add", 0, 1),))  # fmt: skip
            assert matched(graph.nodes[0]) is not None
            graph.nodes[0].inputs[1] = Value("x1", typed(kind, shape))
            assert matched(graph.nodes[0]) is None


# -- scales along an axis

SHAPE = (3, 5, 2, 37)
READ = ("float32", "int8", "uint8", "int16", "uint16", "int32")
WRITTEN = ("float32", "int8", "uint8", "int16")


def along_axis(rng: np.random.Generator, dtype: str, axis: int | None, zeros: bool) -> TensorType:
    """A quantized type with scales along an axis, or one; of floats the plain one."""
    if dtype == "float32":
        return TensorType(np.dtype(dtype), SHAPE)
    n, limits = 1 if axis is None else SHAPE[axis], np.iinfo(dtype)
    low = {"uint8": 100, "uint16": 32000}.get(dtype, -20)
    points = rng.integers(low, low + 50, n) if zeros and limits.max < 1 << 16 else np.full(n, 0)
    unit = 40.0 / (2.0 ** min(8 * np.dtype(dtype).itemsize, 16))
    return TensorType(np.dtype(dtype), SHAPE, stored(rng.uniform(unit, 2 * unit, n), points, axis))


@widest_tier
@pytest.mark.parametrize("seed", range(1, 24))
def test_scales_along_an_axis(tier: Any, seed: int) -> None:
    """Within a step of the reference, which divides in float64."""
    rng, source, target = np.random.default_rng(seed), READ[seed % 6], WRITTEN[seed // 6]
    axis, zeros = int(rng.integers(4)), bool(rng.integers(2))
    other = axis if rng.integers(2) or source == "float32" else None
    x, y = along_axis(rng, source, other, zeros), along_axis(rng, target, axis, zeros)
    limit = 120 if np.dtype(source).itemsize == 1 else 20000
    feed = rng.integers(0 if source.startswith("u") else -limit, limit, SHAPE).astype(source)
    feeds = {"x0": (rng.standard_normal(SHAPE) * 20).astype(source) if source == "float32" else feed}
    graph = graph_of("requantize", [x], y)
    agrees(results(compiled(graph, tier), feeds)[0], evaluate(graph, feeds)[0], 0.01)


@pytest.mark.parametrize("axis", range(3))
def test_there_and_back_as_litert_does(axis: int) -> None:
    rng, shape, m = np.random.default_rng(axis), (2, 3, 5), Writer()
    scales = rng.uniform(0.01, 0.05, shape[axis]).astype(np.float32)
    quant = (scales, np.zeros(shape[axis], np.int64), axis)
    data = m.bytes(m.op("DEQUANTIZE", m.op("QUANTIZE", [m.input(shape)], [(shape, np.int8, quant)]), [shape]))
    x, model = rng.standard_normal(shape).astype(np.float32), fg.load(data, threads=1)
    assert not numpy_steps(model)
    np.testing.assert_array_equal(model(x), litert(data, [[x]])[0][0])


# -- what runs on f32 kernels, with changes of quantization around it


def test_sixteen_bits_run_on_f32_kernels_and_give_what_the_reference_gives() -> None:
    rng = np.random.default_rng(3)
    x, y = Value("x", typed("i16", (1, 7, 5, 6), 3e-4)), Value("y", TensorType(I16, None, stored(2e-3)))
    weights = rng.integers(-127, 128, (6, 3, 3, 6)).astype(np.int8)
    w = Value.constant("w", weights, stored(rng.uniform(0.004, 0.006, 6), 0, 0))
    attrs = {"strides": (1, 1), "dilations": (1, 1), "pads": (1, 1, 1, 1), "groups": 1, "auto_pad": "NOTSET"}
    z = Value("z", TensorType(I16, None, stored(1e-4)))
    graph = inferred(Graph("g", [x], [z], [Node("conv", [x, w, None], [y], attrs), Node("tanh", [y], [z])]))
    feeds = {"x": rng.integers(-(2**15), 2**15, x.type.dims).astype(I16)}
    agrees(results(compiled(graph), feeds)[0], evaluate(graph, feeds)[0], 0.01)


def test_a_value_that_is_both_operands_is_made_real_once() -> None:
    x = Value("x", typed("u8", (5, 5), 0.1, 3))
    graph = graph_of("matmul", [x, x], TensorType(np.dtype(np.float32), None))
    graph.inputs = [x]
    plan = compiled(graph)
    assert [step.node.op for step in plan.program.steps].count("requantize") == 1
    agrees(results(plan, fed(graph))[0], evaluate(graph, fed(graph))[0])


def test_a_pool_that_rounds_halves_away_still_does() -> None:
    attrs = {"kernel_shape": (2, 2), "strides": (2, 2), "count_include_pad": 0, "auto_pad": "VALID", "ties": 0.0}
    kind = typed("i16", (1, 2, 2, 1))
    plan = compiled(graph_of("average_pool", [kind], TensorType(I16, None, kind.quant), **attrs))
    assert results(plan, {"x0": np.array([1, 0, 0, 1], I16).reshape(kind.dims)})[0] == 1
