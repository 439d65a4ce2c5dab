"""Quantized layers, windows and rounded activations by integer kernels, within a step of their references on reals."""

import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

from fastgraph.compile import planned
from fastgraph.freedoms import thresholds, without
from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.kernels.core.table import rows
from fastgraph.kernels.gemm.pick_conv import Geometry, widened
from fastgraph.kernels.gemm.pick_int8 import pixels_together_int8
from fastgraph.kernels.isa import tiers
from fastgraph.ops.evaluate import evaluate
from fastgraph.plan.layer import Integers
from fastgraph.plan.lower.registry import matched
from fastgraph.plan.quantized import bounds, fits_int32, folded_bias, stored_bias
from fastgraph.runtime.executable import Executable
from tests.amx_trap import AMX, needs_amx, tiles
from tests.kernels.geometries import square
from tests.kernels.harness import each_integer_tier
from tests.plan.computed import (
    ENDS,
    F32,
    S8,
    U8,
    WIDEST,
    agrees,
    bytes_like,
    compiled,
    fed,
    graph_of,
    inferred,
    kernels,
    results,
    stored,
)

Case = tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]
OUT = {
    "u8": TensorType(U8, None, stored(0.15, 30)),
    "s8": TensorType(S8, None, stored(0.15, -98)),
    "f32": TensorType(F32),
}


def sums_bytes(plan: Executable) -> bool:
    """Whether a kernel multiplies bytes: one of int8, or of AMX tiles."""
    return any("int8" in name or rows()[name].family == "amx" for name in kernels(plan))


def window(op: str, rank: int) -> dict[str, Any]:
    """Attributes of a convolution."""
    if "conv" not in op:
        return {}
    each = {"strides": (1,) * rank, "dilations": (1,) * rank, "pads": (0,) * 2 * rank}
    return {**each, "groups": 1, "auto_pad": "NOTSET"}


def layer(op: str, x: tuple[int, ...], w: tuple[int, ...], more: dict[str, Any], bias: bool = True) -> Graph:
    """A layer on u8. `more`: attributes, and out, zero (of weights), axis (of their channels), scale (of weights), most
    (of their numbers; of one in ten of them, the others an eighth of that, where `rare`).
    """
    own = {"out": "u8", "zero": 0, "axis": 0, "scale": None, "most": 127, "rare": False}
    more = {**window(op, len(x) - 2), **own, **more}
    out, zero, axis, scale, most, rare = (more.pop(key) for key in own)
    rng, n = np.random.default_rng(sum(x) + sum(w)), w[axis]
    scales = np.full(1, scale or 0.005) if zero or scale else rng.uniform(0.001, 0.01, n)
    along = axis if scales.size > 1 else None
    numbers = rng.integers(-most, most + 1, w)
    numbers //= np.where(rng.uniform(size=w) < 0.1, 1, 8) if rare else 1
    weights = Value.constant("w", numbers.astype(np.int8), stored(scales, zero, along))
    units = stored(np.broadcast_to(0.02 * scales, n), 0, 0)
    b = Value.constant("b", rng.integers(-3000, 3000, n).astype(np.int32), units)
    operands = [bytes_like("x", x, 0.02, 117), weights, *([b] if bias and op != "matmul" else [])]
    return graph_of(op, operands, OUT[out], **more)


LAYERS: dict[str, Case] = {
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
    "3x3 of small weights": ("conv", (2, 9, 9, 8), (20, 3, 3, 8), {"pads": (1,) * 4, "most": 64}),
    "groups of small, shifted weights": ("conv", (2, 6, 6, 8), (16, 3, 3, 2), {"groups": 4, "zero": -5, "most": 59}),
    "dense of small weights": ("dense", (3, 17), (10, 17), {"most": 64}),
    "3x3 of rare large weights": ("conv", (2, 9, 9, 8), (20, 3, 3, 8), {"pads": (1,) * 4, "rare": True}),
    "3x3 of three channels": ("conv", (1, 9, 9, 3), (20, 3, 3, 3), {"pads": (1,) * 4, "rare": True, "zero": 6}),
    "groups of rare large weights": ("conv", (2, 6, 6, 8), (16, 3, 3, 2), {"groups": 4, "zero": -5, "rare": True}),
    "dense of rare large weights": ("dense", (13, 170), (50, 170), {"rare": True, "zero": -100}),
    "dense of rare large weights to f32": ("dense", (13, 17), (10, 17), {"rare": True, "out": "f32"}),
    "a row of rare large weights": ("dense", (1, 170), (50, 170), {"rare": True, "out": "s8", "zero": 9}),
    "transposed of rare large weights": ("conv_transpose", (1, 5, 6, 6), (20, 3, 3, 6), {"zero": 2, "rare": True}),
    "a row of small weights": ("dense", (1, 17), (10, 17), {"most": 64, "zero": 1, "out": "s8"}),
    "transposed": ("conv_transpose", (2, 5, 6, 6), (20, 3, 3, 6), {"strides": (2, 2), "pads": (1, 0, 1, 0)}),
    "transposed groups": ("conv_transpose", (1, 5, 6, 6), (14, 2, 3, 3), {"groups": 2, "strides": (2, 1), "zero": 4}),
    "transposed of small weights": ("conv_transpose", (1, 5, 6, 6), (20, 3, 3, 6), {"zero": 2, "most": 62}),
    "transposed to f32": ("conv_transpose", (1, 4, 6), (5, 3, 6), {"out": "f32"}),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    graph = layer(*LAYERS[name])
    feeds = fed(graph)
    (wanted,) = evaluate(graph, feeds)
    assert len(np.unique(wanted)) > 5
    for tier in ENDS:
        agrees(results(compiled(graph, tier, 2), feeds)[0], wanted, rtol=1e-5)


def test_weights_are_small_where_few_sums_exceed_16_bits() -> None:
    """Of two words, or of one where a single row is multiplied; and the part of the words that are summed again."""
    tier, rng = tiers.BY_NAME["avx2"], np.random.default_rng(0)
    rare = np.where(rng.uniform(size=(16, 256)) < 0.003, 127, 20).astype(np.int8)
    cases = ((np.full((8, 8), 32), 0), (np.full((8, 8), 33), None), (np.full((8, 8), -64), None), (rare, 0.1))
    for weights, parts in cases:
        numbers = Integers(weights.astype(np.int8), *np.zeros((2, len(weights)), np.int64), np.ones(len(weights)))
        sums, again = numbers.sums(tier)
        assert sums.small == (parts is not None) and abs(again - (parts or 0)) <= (parts or 0) / 2
        assert numbers.sums(tier, together=1)[0].small
        assert not numbers.sums(tiers.BY_NAME["avxvnni"])[0].small


@pytest.mark.parametrize("name", ["3x3", "1x1", "pixels together", "dense", "matmul", "transposed"])
def test_the_numbers_of_a_layer_are_found_once(name: str) -> None:
    """The stage that looks for nodes without kernels keeps them for the plan."""
    seen: list[str] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is fits_int32.__code__:
            seen.append(name)

    graph = layer(*LAYERS[name])
    sys.setprofile(watch)
    try:
        planned(graph, {}, WIDEST, 2)
    finally:
        sys.setprofile(None)
    assert len(seen) == 1


@pytest.mark.parametrize(("a", "b"), [((2, 3, 5, 37), (2, 3, 37, 70)), ((3, 9, 8), (8, 5)), ((4, 6), (6, 33))])
def test_product_of_two_activations(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    operands = [bytes_like("x", a, 0.02, 117), bytes_like("y", b, 0.03, 99)]
    graph = graph_of("matmul", operands, TensorType(U8, None, stored(0.4, 130)))
    feeds = fed(graph)
    (wanted,) = evaluate(graph, feeds)
    for tier in ENDS:
        plan = compiled(graph, tier, 2)
        assert kernels(plan) == {"pack_b_int8", "dot_int8"}, str(plan)
        agrees(results(plan, feeds)[0], wanted)


def test_neighbors_are_computed_together_where_channels_are_few() -> None:
    """As one pixel of more channels, whose windows share what they read."""
    wide = tiers.BY_NAME["avx512vnni"]

    def of(c: int, n: int, stride: int) -> Geometry:
        return square(c, n, 96, 3, stride, 1)._replace(item=1)

    assert pixels_together_int8(wide, of(3, 8, 2), 1) == 2 and pixels_together_int8(wide, of(3, 8, 2), 2) == 1
    assert widened(of(3, 8, 2), 2).kernel == (1, 3, 5)
    assert widened(of(3, 8, 2), 2).words == 12 and of(3, 8, 2).words == 9
    assert pixels_together_int8(wide, of(3, 32, 2), 2) == pixels_together_int8(wide, of(64, 64, 1), 2) == 1
    assert pixels_together_int8(wide, of(32, 3, 1), 1) == 4 and pixels_together_int8(wide, of(32, 3, 1), 2) == 2


@needs_amx
@pytest.mark.parametrize(("c", "kernel", "stride"), [(8, 7, 1), (12, 9, 1), (16, 7, 2), (13, 11, 1), (16, 6, 1)])
def test_wide_windows_of_few_channels_are_products_on_tiles(c: int, kernel: int, stride: int) -> None:
    """A vector of bytes would be mostly empty; that other channels' weights are 0 costs tiles less."""
    more = {"groups": c, "pads": (kernel // 2,) * 4, "strides": (stride, stride), "chain": (("relu", 0),)}
    graph, found = layer("conv", (2, 14, 13, c), (c, kernel, kernel, 1), more), []
    feeds = fed(graph)
    (wanted,) = evaluate(graph, feeds)
    for tier, threads in ((AMX, 1), (AMX, 3), (tiers.BY_NAME["avx512vnni"], 1)):
        plan = compiled(graph, tier, threads)
        assert ("amx_conv" in kernels(plan)) == tier.tiles, str(plan)
        with tiles():
            found.append(results(plan, feeds)[0])
        agrees(found[-1], wanted)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    plan = compiled(layer("conv", (1, 9, 9, 3), (3, 7, 7, 1), {"groups": 3, "pads": (3,) * 4}), AMX)
    assert "amx_conv" not in kernels(plan)


# -- sums and results at their ends


def test_sums_that_may_leave_int32_take_another_way() -> None:
    graph = layer("dense", (1, 16), (4, 16), {})
    bias = graph.nodes[0].inputs[2]
    assert bias is not None
    graph.nodes[0].inputs[2] = Value.constant("b", np.full(4, 2**31 - 1, np.int32), bias.type.quant)
    plan = compiled(graph)
    assert not sums_bytes(plan)
    assert (results(plan, {"x": np.full((1, 16), 255, np.uint8)})[0] == 255).all()


@pytest.mark.parametrize("op", ["dense", "matmul", "conv", "conv_transpose"])
def test_sums_of_very_many_extremes_are_right(op: str) -> None:
    """80,000 products of 255 and 127, or -128: no int8 kernel sums them."""
    k = 80000
    shape, w = ((1, 1, 1, k), (2, 1, 1, k)) if "conv" in op else ((1, k), (k, 2) if op == "matmul" else (2, k))
    weights = np.repeat(np.array([[127], [-128]], np.int8), k, axis=1)
    weights = np.ascontiguousarray(weights.T) if op == "matmul" else weights.reshape(w)
    operands = [bytes_like("x", shape, 0.02, 0), Value.constant("w", weights, stored(0.01))]
    plan = compiled(graph_of(op, operands, OUT["u8"], **window(op, len(shape) - 2)))
    assert not sums_bytes(plan)
    assert results(plan, {"x": np.full(shape, 255, np.uint8)})[0].ravel().tolist() == [255, 0]


@each_integer_tier
@pytest.mark.parametrize("out", ["u8", "f32"])
@pytest.mark.parametrize("name", ["3x3", "pixels together", "dense", "matmul", "transposed"])
def test_layers_saturate(name: str, out: str, tier: tiers.Tier) -> None:
    """Sums times weights' scales that leave int32, and f32, are held at an end of the result's numbers."""
    op, x, w, more = LAYERS[name]
    # Powers of two, so that the reference's sums of reals are exact.
    # Bytes are of sums whose multiples stay in int32, as those of the first do; else layers are float32's.
    cases = ((2.0**8, 0, True), (2.0**40, 0, False), (2.0**100, 255, False)) if out == "u8" else ((2.0**100, 0, True),)
    for scale, zero, within in cases:
        graph = layer(op, x, w, {**more, "out": out, "chain": (), "scale": scale}, bias=False)
        graph.inputs[0].type = bytes_like("x", x, 2.0**-6, 117).type
        if out == "u8":
            type_ = graph.outputs[0].type
            graph.outputs[0].type = TensorType(U8, type_.shape, stored(2.0**-66 if zero else 0.125, zero))
        feeds = fed(graph)
        feeds["x"].ravel()[: feeds["x"].size // 2] = 117
        (wanted,) = evaluate(graph, feeds)
        plan = compiled(graph, tier, 2)
        assert sums_bytes(plan) == within
        np.testing.assert_allclose(results(plan, feeds)[0], wanted, rtol=1e-5)


def test_bounds_are_the_clamps_of_the_chain_as_stored() -> None:
    out = Value("y", TensorType(U8, (1,), stored(0.05, 10)))
    node = Node("dense", [], [out], {"chain": (("relu", 0), ("clip", 1, -1.0, 6.0))})
    assert bounds(node) == (10, 130)
    assert bounds(Node("dense", [], [out])) == (0, 255)


def test_zero_points_fold_into_the_bias() -> None:
    rng = np.random.default_rng(0)
    x, w, zx, zw = rng.integers(0, 256, 9), rng.integers(-128, 128, (4, 9)), 77, rng.integers(-9, 9, 4)
    bias = rng.integers(-99, 99, 4)
    start = folded_bias(w.astype(np.int8), bias, zx, zw)
    np.testing.assert_array_equal(start + w @ x - zw * x.sum(), ((x - zx) * (w - zw[:, None])).sum(axis=1) + bias)
    assert fits_int32(w, bias, zw)


def test_how_long_a_sum_may_be() -> None:
    """2**31 is 255 * 128 * 65793 and a little: the worst case up to there, beyond it what the weights make of it."""
    none = np.zeros(1, np.int64)
    assert fits_int32(np.full((1, 65793), -128), none) and not fits_int32(np.full((1, 65794), -128), none)
    assert fits_int32(np.full((1, 200000), 42), none) and not fits_int32(np.full((1, 200000), 43), none)
    assert not fits_int32(np.full((1, 65793), -128), np.full(1, 2**20))
    assert not fits_int32(np.zeros((1, 70000)), none, 127)


def test_a_bias_of_other_scales_is_rounded_to_those_of_the_sums() -> None:
    x, w = bytes_like("x", (1, 2), 0.5, 0), Value.constant("w", np.ones((2, 2), np.int8), stored([0.5, 1.0], 0, 0))
    eights = np.array([8, 8], np.int32)
    for bias, wanted in (
        (Value.constant("b", eights, stored([0.25, 0.5], 0, 0)), [8, 8]),
        (Value.constant("b", eights, stored(0.125)), [4, 2]),
        (Value.constant("b", np.array([1.0, -0.75], np.float32)), [4, -2]),
    ):
        assert stored_bias(x, w, bias, 2).tolist() == wanted


# -- depthwise layers, pools and means


def depthwise(shape: tuple[int, ...], kernel: tuple[int, ...], more: dict[str, Any]) -> Graph:
    """A depthwise layer; `more`: attributes, and zero (of weights) and multiplier."""
    more = {**window("conv", len(shape) - 2), "zero": 0, "multiplier": 1, **more}
    zero, n = more.pop("zero"), shape[-1] * more.pop("multiplier")
    rng = np.random.default_rng(n)
    scales = np.full(1, 0.01) if zero else rng.uniform(0.005, 0.02, n)
    quant = stored(scales, zero, None if zero else 0)
    weights = Value.constant("w", rng.integers(-127, 128, (n, *kernel, 1)).astype(np.int8), quant)
    units = stored(np.broadcast_to(0.02 * scales, n), 0, 0)
    bias = Value.constant("b", rng.integers(-3000, 3000, n).astype(np.int32), units)
    more["groups"] = shape[-1]
    return graph_of(
        "conv", [bytes_like("x", shape, 0.02, 117), weights, bias], TensorType(U8, None, stored(0.1, 30)), **more
    )


def reduction(op: str, shape: tuple[int, ...], attrs: dict[str, Any], axes: Any = None, same: bool = False) -> Graph:
    operands = [bytes_like("x", shape, 0.02, 117)]
    operands += [] if axes is None else [Value.constant("axes", np.array(axes, np.int64))]
    return graph_of(op, operands, TensorType(U8, None, stored(0.02, 117) if same else stored(0.013, 90)), **attrs)


POOL = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
WINDOWS: dict[str, Any] = {
    "3x3": lambda: depthwise((1, 14, 14, 128), (3, 3), {"pads": (1,) * 4, "chain": (("clip", 0, 0.0, 6.0),)}),
    "3x3 of few channels": lambda: depthwise((2, 9, 9, 24), (3, 3), {"pads": (0, 0, 1, 1), "strides": (2, 2)}),
    "5x5": lambda: depthwise((1, 7, 7, 80), (5, 5), {"pads": (2,) * 4, "chain": (("relu", 0),)}),
    "shifted weights": lambda: depthwise((1, 6, 5, 64), (3, 3), {"pads": (1,) * 4, "zero": 23}),
    "1d": lambda: depthwise((1, 31, 8), (4,), {"pads": (2, 1), "dilations": (1,)}),
    "far taps of few channels": lambda: depthwise(
        (2, 12, 13, 3), (9, 7), {"pads": (4, 3, 4, 3), "chain": (("relu", 0),)}
    ),
    "several outputs of a channel": lambda: depthwise((1, 6, 6, 5), (3, 3), {"multiplier": 3}),
    "max_pool": lambda: reduction("max_pool", (1, 9, 9, 40), POOL, same=True),
    "max_pool with chain": lambda: reduction("max_pool", (1, 9, 9, 40), {**POOL, "chain": (("relu", 0),)}, same=True),
    "average_pool": lambda: reduction("average_pool", (2, 9, 9, 40), POOL),
    "average_pool with padding": lambda: reduction("average_pool", (1, 8, 8, 5), {**POOL, "count_include_pad": 1}),
    "global mean": lambda: reduction("reduce_mean", (2, 7, 7, 96), {"keepdims": 1}, (1, 2)),
    "mean of the last axis": lambda: reduction("reduce_mean", (3, 4, 50), {"keepdims": 0}, (-1,)),
    "sum": lambda: reduction("reduce_sum", (2, 3, 17), {"keepdims": 0}, (1,)),
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.slow
def test_windows(name: str) -> None:
    graph = WINDOWS[name]()
    feeds = fed(graph)
    (wanted,) = evaluate(graph, feeds)
    assert len(np.unique(wanted)) > 5
    for tier in tiers.usable()[1:]:
        agrees(results(compiled(graph, tier, 2), feeds)[0], wanted, 0.02)


@pytest.mark.parametrize("ratio", [1e12, 1e37, 1e60, 1e-12, 1e-60])
@pytest.mark.parametrize("name", ["average_pool", "average_pool with padding", "global mean", "sum"])
def test_averages_saturate(name: str, ratio: float) -> None:
    """Whatever the scales are, and at both ends of the zero points."""
    for zero in (0, 255):
        graph = WINDOWS[name]()
        # A power of two, so that the reference's sums of reals are exact.
        graph.inputs[0].type = bytes_like("x", graph.inputs[0].type.dims, 2.0**-6, 117).type
        graph.outputs[0].type = TensorType(U8, graph.outputs[0].type.shape, stored(2.0**-6 / ratio, zero))
        feeds = fed(graph)
        feeds["x"][..., 0] = 117
        (wanted,) = evaluate(graph, feeds)
        for tier in ENDS:
            np.testing.assert_array_equal(results(compiled(graph, tier), feeds)[0], wanted)


@pytest.mark.parametrize(("op", "attrs"), [("reduce_sum", {}), ("average_pool", {"strides": (1, 1), "pads": (0,) * 4})])
def test_sums_of_bytes_fit_int32(op: str, attrs: dict[str, Any]) -> None:
    """2**23 bytes may be summed; more are left to the references."""
    for n, accepted in ((1 << 23, True), ((1 << 23) + 1, False)):
        more = {**attrs, "kernel_shape": (n, 1)} if attrs else {}
        made = reduction(op, (1, n, 1, 1), more, None if attrs else (1,))
        assert (matched(made.nodes[0]) is not None) == accepted
    if attrs:
        ties = {**attrs, "kernel_shape": (150, 150), "ties": 0.0}
        assert matched(reduction("average_pool", (1, 200, 200, 1), ties, same=True).nodes[0]) is None


@pytest.mark.parametrize("budget", [1, 1 << 14, 1 << 30], ids=["single rows", "some rows", "one band"])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1)])
def test_blocks_in_bands(budget: int, kernel: int, stride: int) -> None:
    """An inverted residual block, done band by band, gives what it gives layer by layer."""
    x, nodes = bytes_like("x", (1, 11, 9, 8), 0.05, 3), list[Node]()
    more: dict[str, Any] = {"strides": (stride,) * 2, "pads": (kernel // 2,) * 4, "groups": 32}
    shapes = {"expand": (32, 1, 1, 8), "middle": (32, kernel, kernel, 1), "project": (16, 1, 1, 32)}
    for name, w in shapes.items():
        rng, n = np.random.default_rng(len(name)), w[0]
        weights = Value.constant(f"{name}.w", rng.integers(-127, 128, w).astype(np.int8), stored(0.01))
        bias = Value.constant(f"{name}.b", np.arange(n, dtype=np.int32) * 100, stored(0.0005))
        taken = nodes[-1].out if nodes else x
        attrs = {**window("conv", 2), **(more if name == "middle" else {}), "chain": (("clip", 0, 0.0, 6.0),)}
        nodes.append(Node("conv", [taken, weights, bias], [bytes_like(name, None, 0.05, 0)], attrs))
    graph = inferred(Graph("block", [x], [nodes[-1].out], nodes))
    feeds, found, steps = fed(graph), [], []
    for worth, threads in ((1 << 40, 1), (1, 1), (1, 2)):
        with thresholds(bands_worth=worth, bands_budget=budget):
            plan = compiled(graph, ENDS[-1], threads)
        found.append(results(plan, feeds)[0])
        steps.append(len(plan.program.steps))
    assert steps[0] == 3 and (steps[1] > 3 or budget == 1 << 30)
    assert len(np.unique(found[0])) > 5
    assert all(np.array_equal(found[0], other) for other in found[1:])


# -- activations of f32 that layers round by their range

ROUNDED: dict[str, Case] = {
    "3x3": ("conv", (2, 9, 9, 8), (20, 3, 3, 8), {"pads": (1, 1, 1, 1), "strides": (2, 2)}),
    "3x3, uneven padding": ("conv", (1, 10, 7, 3), (16, 3, 3, 3), {"pads": (0, 0, 2, 1), "grid": "symmetric"}),
    "one channel": ("conv", (1, 49, 10, 1), (64, 10, 4, 1), {"pads": (4, 1, 5, 1), "strides": (2, 2)}),
    "1x1": ("conv", (3, 7, 9, 12), (24, 1, 1, 12), {"relu": True}),
    "1d": ("conv", (1, 31, 3), (5, 4, 3), {"pads": (2, 0), "dilations": (2,)}),
    "one scale": ("conv", (2, 6, 6, 8), (16, 3, 3, 8), {"scales": 1}),
    "residual": ("conv", (2, 6, 6, 16), (16, 1, 1, 16), {"add": True, "relu": True}),
    "dense": ("gemm", (5, 17), (10, 17), {"relu": True}),
    "dense, symmetric": ("gemm", (1, 130), (40, 130), {"grid": "symmetric"}),
    "matrices": ("matmul", (2, 3, 20), (24, 20), {"grid": "symmetric"}),
    "one range": ("gemm", (6, 19), (33, 19), {"per": "tensor", "grid": "onnx"}),
    "zero points": ("gemm", (6, 19), (33, 19), {"per": "tensor", "grid": "onnx", "zeros": 33, "relu": True}),
    "one zero point": ("matmul", (2, 3, 130), (24, 130), {"per": "tensor", "grid": "onnx", "zeros": 1, "scales": 1}),
    "3x3, zero points": ("conv", (2, 9, 9, 8), (20, 3, 3, 8), {"pads": (1, 1, 1, 1), "strides": (2, 2), "zeros": 20}),
    "groups": ("conv", (2, 9, 8, 32), (24, 3, 3, 8), {"pads": (1, 1, 0, 2), "groups": 4, "zeros": 24}),
    "narrow groups": ("conv", (1, 9, 8, 12), (24, 3, 3, 2), {"groups": 6, "zeros": 24, "relu": True}),
    "a range for all images": ("conv", (3, 9, 8, 6), (8, 3, 3, 6), {"pads": (1,) * 4, "per": "tensor", "grid": "onnx"}),
    "1x1, a range for all images": ("conv", (3, 9, 8, 6), (8, 1, 1, 6), {"per": "tensor", "grid": "onnx", "zeros": 8}),
    "1x1, zero points": ("conv", (3, 7, 9, 12), (24, 1, 1, 12), {"zeros": 24, "relu": True}),
}


def rounding(op: str, x: tuple[int, ...], w: tuple[int, ...], more: dict[str, Any]) -> Graph:
    """A layer of what dynamic_round makes of x, as frontends write it; perhaps x is added, and a relu ends it."""
    own = {"scales": w[0], "per": "batch" if op == "conv" else "row", "grid": "asymmetric", "zeros": 0}
    more = {**window(op, len(x) - 2), **own, "add": False, "relu": False, **more}
    count, per, grid, zeros, add, relu = (more.pop(key) for key in ("scales", "per", "grid", "zeros", "add", "relu"))
    rng, axis = np.random.default_rng(sum(x) + sum(w)), 0 if count > 1 else None
    scales, numbers = rng.uniform(0.001, 0.01, count), rng.integers(-127, 128, w).astype(np.int8)
    points = rng.integers(-128, 128, zeros) if zeros else 0
    if op == "matmul":
        numbers, axis = numbers.T, None if axis is None else 1
    weights = Value.constant("w", numbers, stored(scales, points, axis))
    bias = [] if op == "matmul" else [Value.constant("b", rng.normal(size=w[0]).astype(np.float32))]
    given, rounded, y = Value("x", TensorType(F32, x)), Value("r", TensorType(F32)), Value("y", TensorType(F32))
    attrs = {"trans_b": 1} if op == "gemm" else more
    nodes = [Node("dynamic_round", [given], [rounded], {"per": per, "grid": grid})]
    nodes.append(Node(op, [rounded, weights, *bias], [y], attrs))
    for name, operands in [("add", [given])] * add + [("relu", [])] * relu:
        nodes.append(Node(name, [nodes[-1].out, *operands], [Value(name, TensorType(F32))], {}))
    return inferred(Graph(op, [given], [], nodes))


def draw(shape: tuple[int, ...]) -> np.ndarray:
    """Numbers whose range differs from row to row."""
    rng = np.random.default_rng(len(shape))
    return (rng.normal(0.3, 1, shape) * rng.uniform(0.1, 9, (shape[0], *[1] * (len(shape) - 1)))).astype(np.float32)


@pytest.mark.parametrize("name", ROUNDED)
def test_layers_that_round_are_computed_on_integers(name: str) -> None:
    feeds, graph, begin = {"x": draw(ROUNDED[name][1])}, rounding(*ROUNDED[name]), {"extremes", "dynamic_round"}
    (expected,) = evaluate(graph, feeds)
    for tier, threads in zip(ENDS, (1, 3), strict=True):
        plan = compiled(graph, tier, threads)
        (product,) = kernels(plan) - begin
        assert product in ("dot_dynamic", "conv_dynamic", "amx_dynamic"), str(plan)
        agrees(results(plan, feeds)[0], expected, rtol=1e-5)


@needs_amx
@pytest.mark.parametrize("name", ROUNDED)
def test_layers_that_round_are_the_same_on_tiles(name: str) -> None:
    feeds, graph, found = {"x": draw(ROUNDED[name][1])}, rounding(*ROUNDED[name]), []
    with thresholds(tiles_least=1):
        for tier, threads in ((AMX, 1), (AMX, 3), (tiers.BY_NAME["avx512vnni"], 1)):
            plan = compiled(graph, tier, threads)
            assert ("amx_dynamic" in kernels(plan)) == tier.tiles, str(plan)
            with tiles():
                found.append(results(plan, feeds)[0])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def quantize_dynamic(op: str, x: tuple[int, ...], w: tuple[int, ...], dtype: type, zero: int) -> Graph:
    """What onnxruntime's tool of that name makes of a product; a convolution's x is channels first."""
    rng, rank, turned = np.random.default_rng(len(w)), len(x), op == "conv_integer"
    weights = Value.constant("w", rng.integers(zero - 100, zero + 100, w).astype(dtype))
    factors = np.array(0.01) if turned else rng.uniform(0.001, 0.01, w[1])
    scales, zeros = Value.constant("c", factors.astype(np.float32)), Value.constant("zero", np.array(zero, dtype))
    given, values = Value("x", TensorType(F32, x)), [Value(name, TensorType(None)) for name in "qszptauvy"]
    q, s, z, p, t, a, u, v, y = values
    attrs = {**window("conv", 2), "pads": (1, 1, 1, 1)} if turned else {}
    nodes = [Node("dynamic_quantize_linear", [given], [q, s, z]), Node("mul", [s, scales], [p])]
    nodes += [Node("transpose", [q], [t], {"perm": (0, *range(2, rank), 1)})] * turned
    nodes.append(Node(op, [t if turned else q, weights, z, zeros], [a], attrs))
    nodes += [Node("transpose", [a], [u], {"perm": (0, rank - 1, *range(1, rank - 1))})] * turned
    nodes += [Node("cast", [u if turned else a], [v], {"to": F32}), Node("mul", [v, p], [y])]
    return inferred(Graph(op, [given], [], nodes))


PRODUCTS = [
    ("matmul_integer", (2, 5, 20), (20, 12)),
    ("conv_integer", (1, 6, 9, 8), (10, 3, 3, 6)),
    ("conv_integer", (2, 6, 9, 8), (10, 3, 3, 6)),
]


@pytest.mark.parametrize(("dtype", "zero"), [(np.int8, 0), (np.uint8, 128), (np.uint8, 120)])
@pytest.mark.parametrize(("op", "x", "w"), PRODUCTS)
def test_products_of_dynamically_quantized_activations(op: str, x: Any, w: Any, dtype: type, zero: int) -> None:
    """On integers, and never by NumPy."""
    graph, feeds = quantize_dynamic(op, x, w, dtype, zero), {"x": draw(x)}
    plan = compiled(graph, WIDEST)
    assert any(name.endswith("_dynamic") for name in kernels(plan)) and "dynamic_round" in kernels(plan)
    agrees(results(plan, feeds)[0], evaluate(graph, feeds)[0], rtol=1e-5)


@each_integer_tier
@pytest.mark.parametrize(("dtype", "zero"), [(np.int8, 0), (np.uint8, 120)])
@pytest.mark.parametrize(("rows", "k"), [(1, 20), (4, 21), (5, 24), (65, 8)])
def test_weights_of_few_rows_stay_bytes(rows: int, k: int, dtype: type, zero: int, tier: tiers.Tier) -> None:
    """Where kernels widen them, or sum their products in 16 bits, and with the same bits."""
    graph, feeds = quantize_dynamic("matmul_integer", (rows, k), (k, 12), dtype, zero), {"x": draw((rows, k))}
    plan = compiled(graph, tier)
    with without("byte_weights"):
        wide = compiled(graph, tier)
    (params,) = [dict(kernel.params) for kernel in plan.kernels() if kernel.name == "dot_dynamic"]
    if params["small"]:
        return
    found = params["narrow"]
    few = rows <= 4 and k % 4 == 0 if zero else rows <= 64
    assert found == (few and not tier.byte_dot)
    np.testing.assert_array_equal(results(plan, feeds)[0], results(wide, feeds)[0])
