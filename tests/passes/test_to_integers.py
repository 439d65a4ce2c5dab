"""Integer arithmetic out of quantized graphs: results stay what they are, and integers take the place of reals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fastgraph.freedoms import without
from fastgraph.ir import Graph, Node, Quantization, TensorType, Value, check, copy
from fastgraph.ops.evaluate import evaluate, infer_graph
from fastgraph.passes.stages import optimize
from fastgraph.plan.lower import Matches

F32, I8, U8 = np.dtype(np.float32), np.dtype(np.int8), np.dtype(np.uint8)
RNG = np.random.default_rng(7)


class Build:
    """A graph under construction."""

    def __init__(self) -> None:
        self.graph = Graph("g")

    def input(self, shape: tuple, dtype: np.dtype = F32, quant: Quantization | None = None) -> Value:
        value = Value(f"x{len(self.graph.inputs)}", TensorType(dtype, shape, quant))
        self.graph.inputs.append(value)
        return value

    def add(
        self, op: str, inputs: list, dtype: np.dtype = F32, quant: Quantization | None = None, **attrs: Any
    ) -> Value:
        out = Value(f"v{len(self.graph.nodes)}", TensorType(dtype, None, quant))
        self.graph.nodes.append(Node(op, inputs, [out], attrs, out.name))
        return out

    def done(self, *outputs: Value) -> Graph:
        self.graph.outputs = list(outputs)
        infer_graph(self.graph)
        check(self.graph)
        return self.graph


def q(scale: float, zero: int = 0) -> Quantization:
    return Quantization((scale,), (zero,))


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def weights(*shape: int) -> Value:
    quant = Quantization(tuple(RNG.uniform(0.005, 0.02, shape[0])), (0,) * shape[0], 0)
    return Value.constant("w", RNG.integers(-127, 128, shape).astype(np.int8), quant)


CONV = {"strides": (1, 1), "dilations": (1, 1), "pads": (1, 1, 1, 1), "groups": 1, "auto_pad": "NOTSET"}


def same_after(graph: Graph) -> Graph:
    """The graph after all stages but the last, which gives what it gave before, for random stored numbers."""
    after = copy(graph)
    with without("widen"):
        optimize(after, Matches())
    feeds = {}
    for value in graph.inputs:
        limits = {F32: (-3, 3), I8: (-128, 128), U8: (0, 256)}[value.type.dtype]
        feeds[value.name] = RNG.uniform(*limits, value.type.dims).astype(value.type.dtype)
    for a, b in zip(evaluate(graph, feeds), evaluate(after, feeds), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), atol=1e-5 if a.dtype == F32 else 0)
    return after


def test_a_convolution_between_changes_of_quantization_is_done_on_integers_and_clamped_there() -> None:
    b = Build()
    x = b.input((1, 6, 6, 3))
    stored = b.add("requantize", [x], I8, q(0.02, 3))
    real = b.add("requantize", [stored])
    w = b.add("requantize", [weights(4, 3, 3, 3)])
    y = b.add("relu", [b.add("conv", [real, w, None], **CONV)])
    out = b.add("requantize", [b.add("requantize", [y], I8, q(0.03, -128))])
    after = same_after(b.done(out))
    assert ops(after) == ["requantize", "conv", "requantize"]
    conv = after.nodes[1]
    assert conv.attrs["chain"] == (("relu", 0),)
    assert conv.x.type.dtype == U8 and conv.x.type.quant == q(0.02, 131)
    assert conv.out.type.dtype == U8 and conv.inputs[1].type.dtype == I8  # type: ignore[union-attr]


def test_signed_bytes_are_kept_at_the_edges_only() -> None:
    b = Build()
    x = b.input((1, 6, 6, 4), I8, q(0.02, 3))
    y = b.add("conv", [x, weights(4, 3, 3, 4), None], I8, q(0.05, -7), **CONV)
    z = b.add("add", [y, x], I8, q(0.06))
    after = same_after(b.done(z))
    assert ops(after) == ["requantize", "conv", "fused"]
    assert [v.type.dtype for node in after.nodes for v in node.outputs] == [U8, U8, I8]
    assert after.nodes[2].inputs == [after.nodes[1].out, after.inputs[0]]


@pytest.mark.parametrize(("rows", "expected"), [(1, ["dense", "softmax"]), (2, ["requantize", "dense", "softmax"])])
def test_a_layer_of_one_row_reads_signed_bytes(rows: int, expected: list[str]) -> None:
    b = Build()
    x = b.input((rows, 20), I8, q(0.02, 3))
    y = b.add("dense", [x, weights(7, 20), None], I8, q(0.05, -7))
    after = same_after(b.done(b.add("softmax", [y], I8, q(1 / 256, -128), axis=-1)))
    assert ops(after) == expected
    assert [node.out.type.dtype for node in after.nodes[-2:]] == [U8, I8]


def test_a_result_that_others_read_keeps_its_twin() -> None:
    b = Build()
    x = b.input((4, 20), I8, q(0.02, 3))
    y = b.add("dense", [x, weights(20, 20), None], I8, q(0.05, -7))
    z = b.add("dense", [y, weights(5, 20), None], I8, q(0.05, -7))
    assert ops(same_after(b.done(y, z))).count("requantize") == 2


def test_weights_without_sign_get_one() -> None:
    b = Build()
    x = b.input((2, 8), U8, q(0.02, 100))
    w = Value.constant("w", RNG.integers(0, 256, (5, 8)).astype(np.uint8), q(0.01, 120))
    after = same_after(b.done(b.add("dense", [x, w, None], U8, q(0.05, 128))))
    found = after.nodes[0].inputs[1]
    assert ops(after) == ["dense"] and found is not None
    assert found.type.dtype == I8 and found.type.quant == q(0.01, -8)


def unary(op: str, **attrs: Any) -> Callable[[Build, Value], Value]:
    return lambda b, x: b.add(op, [x], U8, q(0.01, 30), **attrs)


@pytest.mark.parametrize(
    "function",
    [
        unary("sigmoid"),
        unary("leaky_relu", alpha=0.1),
        lambda b, x: b.add("mul", [x, b.add("sigmoid", [x], U8, q(1 / 256))], U8, q(0.02, 14)),
        lambda b, x: b.add("tanh", [b.add("sigmoid", [x], U8, q(1 / 256))], U8, q(1 / 128, 128)),
        lambda b, x: b.add("mul", [x, Value.constant("c", np.uint8([7]), q(0.1, 3))], U8, q(0.02, 14)),
        lambda b, x: b.add("prelu", [x, Value.constant("c", np.float32([[0.3]]))], U8, q(0.02, 14)),
    ],
)
def test_a_function_of_one_byte_is_one_table(function: Callable[[Build, Value], Value]) -> None:
    b = Build()
    x = b.input((3, 100), U8, q(0.03, 128))
    after = same_after(b.done(function(b, x)))
    assert ops(after) == ["table"]


def through_floats(b: Build, x: Value) -> Value:
    """GELU of a byte with erf in f32, as quantize_static leaves it."""
    half = b.add("div", [b.add("requantize", [x]), Value.constant("root", np.float32(2**0.5))])
    y = b.add("requantize", [b.add("erf", [half])], U8, q(2 / 255, 128))
    y = b.add("add", [y, Value.constant("one", np.float32(1))], U8, q(2 / 255, 0))
    return b.add("mul", [x, y], U8, q(0.02, 14))


def test_a_function_of_one_byte_by_way_of_floats_is_one_table() -> None:
    b = Build()
    x = b.input((3, 100), U8, q(0.03, 128))
    assert ops(same_after(b.done(through_floats(b, x)))) == ["table"]


def test_a_function_of_two_bytes_is_no_table() -> None:
    b = Build()
    x, y = (b.add("requantize", [b.input((3, 100), U8, q(0.03, 128))]) for _ in range(2))
    after = same_after(b.done(b.add("requantize", [b.add("exp", [b.add("mul", [x, y])])], U8, q(0.1))))
    assert "table" not in ops(after)


def test_what_is_stored_in_integers_is_never_nan() -> None:
    b = Build()
    x = b.add("requantize", [b.input((3, 100), U8, q(0.03, 128))])
    zero = Value.constant("zero", np.float32(0))
    y = b.add("where", [b.add("is_nan", [x], np.dtype(bool)), zero, x])
    assert ops(same_after(b.done(b.add("requantize", [y], U8, q(0.05, 100))))) == ["requantize"]


def test_a_product_of_two_activations_reads_unsigned_bytes() -> None:
    b = Build()
    x, y = (b.add("softmax", [b.input((4, 4), I8, q(0.03, 12))], I8, q(0.01, -20), axis=-1) for _ in range(2))
    after = same_after(b.done(b.add("matmul", [x, y], I8, q(0.05, 3))))
    product = next(node for node in after.nodes if node.op == "matmul")
    assert [v.type.dtype for v in (*product.operands, product.out)] == [U8] * 3


def test_a_norm_of_stored_numbers_is_written_by_others() -> None:
    b = Build()
    x = b.input((3, 16), U8, q(0.03, 128))
    after = same_after(b.done(b.add("lp_normalization", [x], U8, q(1 / 128, 128), axis=-1)))
    assert "lp_normalization" not in ops(after)


def test_a_table_of_signed_bytes() -> None:
    b = Build()
    x = b.input((3, 100), I8, q(0.03, 12))
    after = same_after(b.done(b.add("sigmoid", [x], I8, q(1 / 256, -128))))
    assert ops(after) == ["table"]


def test_a_sum_and_its_clamp_are_one_chain() -> None:
    b = Build()
    x, y = b.input((2, 3, 8), U8, q(0.03, 128)), b.input((2, 3, 8), U8, q(0.01, 7))
    total = b.add("add", [x, y], U8, q(0.04, 90))
    after = same_after(b.done(b.add("relu", [total], U8, q(0.04, 90))))
    assert ops(after) == ["fused"] and after.nodes[0].attrs["chain"] == (("add", 0, 1), ("relu", 2))


def test_a_mean_of_bytes_rounds_before_a_reshape() -> None:
    b = Build()
    x = b.add("requantize", [b.input((2, 3, 5, 4), U8, q(0.03, 128))])
    mean = b.add("reduce_mean", [x, Value.constant("axes", np.array([1, 2]))], keepdims=1)
    shaped = b.add("reshape", [mean, Value.constant("shape", np.array([2, 4, 1, 1]))])
    after = same_after(b.done(b.add("requantize", [shaped], U8, q(0.01, 100))))
    assert ops(after) == ["reduce_mean", "reshape"] and after.nodes[0].out.type.dtype == U8


def test_moves_change_quantization_apart_and_concat_before() -> None:
    b = Build()
    x, y = b.input((2, 4), U8, q(0.03, 128)), b.input((2, 4), U8, q(0.01, 7))
    turned = b.add("transpose", [x], U8, q(0.05, 1), perm=(1, 0))
    joined = b.add("concat", [x, y], U8, q(0.03, 128), axis=1)
    after = same_after(b.done(turned, joined))
    assert sorted(ops(after)) == ["concat", "requantize", "requantize", "transpose"]
    for node in after.nodes:
        if node.op != "requantize":
            assert {v.type.quant for v in (*node.inputs, *node.outputs) if v is not None} == {node.out.type.quant}


def test_padding_is_the_zero_point_and_goes_into_the_convolution() -> None:
    b = Build()
    x = b.input((1, 6, 6, 4), U8, q(0.02, 77))
    pads = Value.constant("pads", np.array([0, 1, 1, 0, 0, 1, 1, 0]))
    padded = b.add("pad", [x, pads], U8, q(0.02, 77), mode="constant")
    y = b.add("conv", [padded, weights(4, 3, 3, 4), None], U8, q(0.05, 7), **{**CONV, "pads": (0, 0, 0, 0)})
    after = same_after(b.done(y, b.add("relu", [padded], U8, q(0.02, 77))))
    assert "pad" in ops(after)
    b.graph.outputs = b.graph.outputs[:1]
    after = same_after(b.graph)
    assert ops(after) == ["conv"] and after.nodes[0].attrs["pads"] == (1, 1, 1, 1)


def test_weights_that_are_only_stored_in_bytes_are_reals_beside_reals() -> None:
    b = Build()
    x = b.input((1, 6, 6, 4))
    after = same_after(b.done(b.add("conv", [x, weights(4, 3, 3, 4), None], **CONV)))
    assert ops(after) == ["conv"] and after.nodes[0].inputs[1].type.dtype == F32  # type: ignore[union-attr]


def test_signed_padding_is_a_number_too() -> None:
    b = Build()
    x = b.input((1, 6, 6, 4), I8, q(0.02, -51))
    pads = Value.constant("pads", np.array([0, 1, 1, 0, 0, 1, 1, 0]))
    padded = b.add("pad", [x, pads], I8, q(0.02, -51), mode="constant")
    y = b.add("max_pool", [padded], I8, q(0.02, -51), kernel_shape=(3, 3), strides=(2, 2))
    assert ops(same_after(b.done(y))) == ["requantize", "pad", "max_pool", "requantize"]


@pytest.mark.parametrize("op", ["mul", "add", "sub", "div"])
@pytest.mark.parametrize("bias", [None, F32, np.dtype(np.int32)])
def test_a_factor_or_summand_after_a_layer_of_stored_weights(op: str, bias: np.dtype | None) -> None:
    """Stored weights keep their scales, so no factor goes into them."""
    b = Build()
    x = b.input((1, 6, 6, 3), I8, q(0.02, 3))
    w = weights(4, 3, 3, 3)
    units = Quantization(tuple(0.02 * s for s in w.type.quant.scale), (0,) * 4, 0) if bias == np.int32 else None
    added = None if bias is None else Value.constant("b", RNG.integers(-9, 9, 4).astype(bias), units)
    y = b.add("conv", [x, w, added], **CONV)
    after = same_after(b.done(b.add(op, [y, Value.constant("c", RNG.uniform(0.5, 2, 4).astype(F32))])))
    conv = next(node for node in after.nodes if node.op == "conv")
    assert conv.inputs[1].type.quant is not None and len(ops(after)) == 2


@pytest.mark.parametrize(
    "op", [("requantize", {}), ("relu", {}), ("softmax", {"axis": 1}), ("reduce_max", {"keepdims": 1})]
)
def test_results_with_scales_along_an_axis_keep_it_behind_a_transpose(op: tuple[str, dict[str, Any]]) -> None:
    b = Build()
    turned = b.add("transpose", [b.input((2, 3, 4))], perm=(2, 0, 1))
    axes = [Value.constant("axes", np.array([0]))] if op[0] == "reduce_max" else []
    same_after(b.done(b.add(op[0], [turned, *axes], I8, Quantization((0.1, 0.2, 0.3), (0, 1, 2), 2), **op[1])))


def test_what_is_stored_twice_alike_is_stored_once() -> None:
    """TensorFlow Lite's converter writes a QUANTIZE for each reader."""
    b = Build()
    x = b.add("tanh", [b.input((1, 4))])
    one, two, other = (b.add("requantize", [x], I8, q(scale)) for scale in (0.01, 0.01, 0.02))
    graph = b.done(
        *(b.add("reshape", [v, Value.constant("s", np.array([4]))], I8, v.type.quant) for v in (one, two)), other
    )
    expected = evaluate(copy(graph), {"x0": (fed := RNG.standard_normal((1, 4)).astype(F32))})
    optimize(graph, Matches())
    assert sum(node.op == "requantize" and node.x.type.quant is None for node in graph.nodes) == 2
    for found, wanted in zip(evaluate(graph, {"x0": fed}), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
