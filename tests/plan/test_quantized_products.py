"""Quantized layers as kernels, within one step of their references on reals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastgraph.ir import Graph, Node, Quantization, TensorType, Value
from fastgraph.kernels.core.table import rows
from fastgraph.kernels.gemm.pick_conv import Geometry, widened
from fastgraph.kernels.gemm.pick_int8 import pixels_together_int8
from fastgraph.kernels.isa import tiers
from fastgraph.ops.evaluate import evaluate, infer_graph
from fastgraph.plan import layer
from fastgraph.plan.program import HostStep
from fastgraph.plan.quantized import bounds, fits_int32, folded_bias, stored_bias
from fastgraph.runtime.executable import Executable, compile_graph

TIERS = [tier for tier in tiers.usable() if tier.name != "generic"][:: max(len(tiers.usable()) - 2, 1)]
"""The narrowest that is quick to compile, and the widest."""
U8, S8, F32 = (np.dtype(kind) for kind in (np.uint8, np.int8, np.float32))


def quantization(scale: Any, zero: Any, axis: int | None = None) -> Quantization:
    return Quantization(tuple(np.atleast_1d(scale).tolist()), tuple(np.atleast_1d(zero).tolist()), axis)


def sums_bytes(plan: Executable) -> bool:
    """Whether a kernel multiplies bytes: one of int8, or of AMX tiles."""
    return any("int8" in kernel.name or rows()[kernel.name].family == "amx" for kernel in plan.kernels())


def network(op: str, x: tuple[int, ...], w: tuple[int, ...], more: dict[str, Any]) -> Graph:
    """A layer on u8. `more`: attributes, and out ("u8", "s8" or "f32"), zero (of weights), axis (of their channels)."""
    more = dict(more)
    out, zero, axis = more.pop("out", "u8"), more.pop("zero", 0), more.pop("axis", 0)
    rng = np.random.default_rng(sum(x) + sum(w))
    n = w[axis]
    scales = np.full(1, 0.005) if zero else rng.uniform(0.001, 0.01, n)
    weights = Value.constant(
        "w", rng.integers(-127, 128, w).astype(np.int8),
        quantization(scales, [zero] * len(scales), None if zero else axis),
    )  # fmt: skip
    bias = rng.integers(-3000, 3000, n).astype(np.int32)
    units = np.broadcast_to(0.02 * scales, n)
    b = Value.constant("b", bias, quantization(units, [0] * n, 0))
    types = {"u8": (U8, quantization(0.15, 30)), "s8": (S8, quantization(0.15, -98)), "f32": (F32, None)}
    type_ = TensorType(types[out][0], None, types[out][1])
    given, made = Value("x", TensorType(U8, x, quantization(0.02, 117))), Value("y", type_)
    if "conv" in op:
        rank = len(x) - 2
        window = {"strides": (1,) * rank, "dilations": (1,) * rank, "pads": (0,) * 2 * rank, "groups": 1}
        more = {**window, "auto_pad": "NOTSET", **more}
    inputs = [given, weights] if op == "matmul" else [given, weights, b]
    return Graph(op, [given], [made], [Node(op, inputs, [made], more)])


CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "3x3": ("conv", (2, 9, 9, 8), (20, 3, 3, 8), {"pads": (1,) * 4, "strides": (2, 2)}),
    "1x1": ("conv", (1, 7, 9, 12), (24, 1, 1, 12), {"chain": (("clip", 0, 0.0, 6.0),)}),
    "1d": ("conv", (1, 31, 3), (5, 4, 3), {"pads": (2, 0), "dilations": (2,), "zero": 3}),
    "merged groups": ("conv", (2, 6, 6, 8), (16, 3, 3, 2), {"groups": 4, "pads": (1,) * 4}),
    "merged groups of shifted weights": ("conv", (2, 6, 6, 8), (16, 3, 3, 2), {"groups": 4, "zero": -5}),
    "pixels together": ("conv", (2, 11, 12, 3), (4, 3, 3, 3), {"pads": (1,) * 4, "chain": (("relu", 0),)}),
    "pixels together, a step of two": ("conv", (1, 16, 3), (4, 3, 3), {"pads": (0, 1), "strides": (2,), "zero": 9}),
    "dense": ("dense", (3, 17), (10, 17), {"chain": (("relu", 0),)}),
    "3x3 to s8": ("conv", (1, 9, 9, 8), (20, 3, 3, 8), {"out": "s8", "zero": 2, "chain": (("clip", 0, -9.0, 9.0),)}),
    "dense to s8": ("dense", (3, 17), (10, 17), {"out": "s8"}),
    "transposed to s8": ("conv_transpose", (1, 4, 6), (5, 3, 6), {"out": "s8", "chain": (("relu", 0),)}),
    "dense to f32": ("dense", (3, 17), (10, 17), {"zero": -7, "out": "f32", "chain": (("clip", 0, -1.0, 2.5),)}),
    "matmul": ("matmul", (2, 3, 17), (17, 10), {"axis": 1}),
    "transposed": ("conv_transpose", (2, 5, 6, 6), (20, 3, 3, 6), {"strides": (2, 2), "pads": (1, 0, 1, 0)}),
    "transposed groups": (
        "conv_transpose", (1, 5, 6, 6), (14, 2, 3, 3), {"groups": 2, "strides": (2, 1), "zero": 4},
    ),
    "transposed to f32": ("conv_transpose", (1, 4, 6), (5, 3, 6), {"out": "f32"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_layer(name: str) -> None:
    op, x, w, more = CASES[name]
    graph = network(op, x, w, more)
    infer_graph(graph)
    stored = np.random.default_rng(1).integers(0, 256, x).astype(np.uint8)
    (wanted,) = evaluate(graph, {"x": stored})
    for tier in TIERS:
        plan = compile_graph(network(op, x, w, more), {}, tier, 2)
        assert not any(isinstance(step, HostStep) for step in plan.program.steps), str(plan)
        plan.fill({"x": stored})
        plan.execute()
        found = plan.results()["y"]
        assert found.dtype == wanted.dtype
        if found.dtype == np.float32:
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
            continue
        off = np.abs(found.astype(int) - wanted.astype(int))
        assert len(np.unique(wanted)) > 5
        assert off.max() <= 1 and np.mean(off > 0) < 0.005, (tier.name, off.max(), np.mean(off > 0))


def test_the_numbers_of_a_layer_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage that looks for nodes without kernels keeps them for the plan."""
    seen: list[int] = []

    def counted(*args: Any) -> bool:
        seen.append(1)
        return fits_int32(*args)

    monkeypatch.setattr(layer, "fits_int32", counted)
    for name in ("3x3", "1x1", "pixels together", "dense", "matmul", "transposed"):
        seen.clear()
        compile_graph(network(*CASES[name]), {}, TIERS[-1], 2)
        assert len(seen) == 1, name


@pytest.mark.parametrize(("a", "b"), [((2, 3, 5, 37), (2, 3, 37, 70)), ((3, 9, 8), (8, 5)), ((4, 6), (6, 33))])
def test_product_of_two_activations(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    def graph() -> Graph:
        x = Value("x", TensorType(U8, a, quantization(0.02, 117)))
        y = Value("y", TensorType(U8, b, quantization(0.03, 99)))
        z = Value("z", TensorType(U8, None, quantization(0.4, 130)))
        return Graph("matmul", [x, y], [z], [Node("matmul", [x, y], [z])])

    reference = graph()
    infer_graph(reference)
    rng = np.random.default_rng(0)
    feeds = {name: rng.integers(0, 256, shape).astype(np.uint8) for name, shape in (("x", a), ("y", b))}
    (wanted,) = evaluate(reference, feeds)
    for tier in TIERS:
        plan = compile_graph(graph(), {}, tier, 2)
        assert [kernel.name for kernel in plan.kernels()] == ["pack_b_int8", "dot_int8"], str(plan)
        plan.fill(feeds)
        plan.execute()
        off = np.abs(plan.results()["z"].astype(int) - wanted.astype(int))
        assert off.max() <= 1 and np.mean(off > 0) < 0.005


def test_neighbors_are_computed_together_where_channels_are_few() -> None:
    """As one pixel of more channels, whose windows share what they read."""
    wide = tiers.BY_NAME["avx512vnni"]

    def window(c: int, n: int, stride: int) -> Geometry:
        return Geometry(
            1, 1, c, n, (1, 96, 96), (1, 3, 3), (1, 96 // stride, 96 // stride), (96 * 96 * c, 96 * 96 * c, 96 * c, c),
            (1, stride, stride), pads=(0, 1, 1), item=1,
        )  # fmt: skip

    assert pixels_together_int8(wide, window(3, 8, 2)) == 2
    assert widened(window(3, 8, 2), 2).kernel == (1, 3, 5)
    assert widened(window(3, 8, 2), 2).words == 12 and window(3, 8, 2).words == 9
    assert pixels_together_int8(wide, window(3, 32, 2)) == pixels_together_int8(wide, window(64, 64, 1)) == 1


def test_sums_that_may_leave_int32_take_another_way() -> None:
    graph = network("dense", (1, 16), (4, 16), {})
    largest = np.full(4, 2**31 - 1, np.int32)
    graph.nodes[0].inputs[2] = Value.constant("b", largest, graph.nodes[0].inputs[2].type.quant)  # type: ignore[union-attr]
    plan = compile_graph(graph, {}, TIERS[-1], 1)
    assert not sums_bytes(plan)
    plan.fill({"x": np.full((1, 16), 255, np.uint8)})
    plan.execute()
    assert (plan.results()["y"] == 255).all()


def test_bounds_are_the_clamps_of_the_chain_as_stored() -> None:
    out = Value("y", TensorType(U8, (1,), quantization(0.05, 10)))
    node = Node("dense", [], [out], {"chain": (("relu", 0), ("clip", 1, -1.0, 6.0))})
    assert bounds(node) == (10, 130)
    assert bounds(Node("dense", [], [out])) == (0, 255)


def test_zero_points_fold_into_the_bias() -> None:
    rng = np.random.default_rng(0)
    x, w, zx, zw = rng.integers(0, 256, 9), rng.integers(-128, 128, (4, 9)), 77, rng.integers(-9, 9, 4)
    bias = rng.integers(-99, 99, 4)
    direct = ((x - zx) * (w - zw[:, None])).sum(axis=1) + bias
    start = folded_bias(w.astype(np.int8), bias, zx, zw)
    np.testing.assert_array_equal(start + w @ x - zw * x.sum(), direct)
    assert fits_int32(w, bias, zw)


def test_how_long_a_sum_may_be() -> None:
    """2**31 is 255 * 128 * 65793 and a little: the worst case up to there, beyond it what the weights make of it."""
    none = np.zeros(1, np.int64)
    assert fits_int32(np.full((1, 65793), -128), none) and not fits_int32(np.full((1, 65794), -128), none)
    assert fits_int32(np.full((1, 200000), 42), none) and not fits_int32(np.full((1, 200000), 43), none)
    assert not fits_int32(np.full((1, 65793), -128), np.full(1, 2**20))
    assert not fits_int32(np.zeros((1, 70000)), none, 127)


@pytest.mark.parametrize("op", ["dense", "matmul", "conv", "conv_transpose"])
def test_sums_of_very_many_extremes_are_right(op: str) -> None:
    """80,000 products of 255 and 127, or -128: no int8 kernel sums them."""
    k = 80000
    shape, w = ((1, 1, 1, k), (2, 1, 1, k)) if "conv" in op else ((1, k), (k, 2) if op == "matmul" else (2, k))

    def graph() -> Graph:
        made = network(op, shape, w, {"axis": int(op == "matmul")})
        weights = np.repeat(np.array([[127], [-128]], np.int8), k, axis=1)
        weights = weights.T if op == "matmul" else weights.reshape(w)
        given = Value("x", TensorType(U8, shape, quantization(0.02, 0)))
        made.inputs[0] = made.nodes[0].inputs[0] = given
        made.nodes[0].inputs[1] = Value.constant("w", np.ascontiguousarray(weights), quantization(0.01, 0))
        made.nodes[0].inputs[2:] = []
        return made

    plan = compile_graph(graph(), {}, TIERS[-1], 1)
    assert not sums_bytes(plan)
    plan.fill({"x": np.full(shape, 255, np.uint8)})
    plan.execute()
    assert plan.results()["y"].ravel().tolist() == [255, 0]


@pytest.mark.parametrize("tier", tiers.usable(), ids=lambda tier: tier.name)
@pytest.mark.parametrize("out", ["u8", "f32"])
@pytest.mark.parametrize("name", ["3x3", "pixels together", "dense", "matmul", "transposed"])
def test_layers_saturate(name: str, out: str, tier: tiers.Tier) -> None:
    """Sums times weights' scales that leave int32, and f32, are held at an end of the result's numbers."""
    op, x, w, more = CASES[name]
    # Powers of two, so that the reference's sums of reals are exact.
    for scale, zero in ((2.0**40, 0), (2.0**100, 255)) if out == "u8" else ((2.0**100, 0),):

        def graph(scale: float = scale, zero: int = zero) -> Graph:
            made = network(op, x, w, {**more, "out": out, "chain": ()})
            weights = made.nodes[0].inputs[1]
            assert weights is not None and weights.data is not None
            made.nodes[0].inputs[1] = Value.constant("w", weights.data, quantization(scale, 0))
            made.nodes[0].inputs[2:] = []
            made.inputs[0].type = TensorType(U8, x, quantization(2.0**-6, 117))
            if out == "u8":
                made.outputs[0].type = TensorType(U8, None, quantization(2.0**-66 if zero else 0.125, zero))
            return made

        reference = graph()
        infer_graph(reference)
        stored = np.random.default_rng(1).integers(0, 256, x).astype(np.uint8)
        stored.ravel()[: stored.size // 2] = 117
        (wanted,) = evaluate(reference, {"x": stored})
        plan = compile_graph(graph(), {}, tier, 2)
        assert sums_bytes(plan)
        plan.fill({"x": stored})
        plan.execute()
        np.testing.assert_allclose(plan.results()["y"], wanted, rtol=1e-5)


def test_a_bias_of_other_scales_is_rounded_to_those_of_the_sums() -> None:
    x = Value("x", TensorType(U8, (1, 2), quantization(0.5, 0)))
    w = Value.constant("w", np.ones((2, 2), np.int8), quantization([0.5, 1.0], [0, 0], 0))
    same = Value.constant("b", np.array([8, 8], np.int32), quantization([0.25, 0.5], [0, 0], 0))
    other = Value.constant("b", np.array([8, 8], np.int32), quantization(0.125, 0))
    plain = Value.constant("b", np.array([1.0, -0.75], np.float32))
    assert stored_bias(x, w, same, 2).tolist() == [8, 8]
    assert stored_bias(x, w, other, 2).tolist() == [4, 2]
    assert stored_bias(x, w, plain, 2).tolist() == [4, -2]
