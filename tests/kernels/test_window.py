"""Depthwise convolutions and pools of f32 against sums and maxima in f64, and averages against onnxruntime."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.amx.pack_real import widened
from fastgraph.kernels.core.table import row
from fastgraph.kernels.gemm.pack_bf16 import pairs, rounded
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.pointwise.rows import FORMS, LONG_FORMS
from fastgraph.kernels.window.pick import (
    Window,
    across,
    copy_args,
    depthwise_any,
    depthwise_tiles,
    grouped_tiles,
    plan_pool,
    window_args,
)
from fastgraph.kernels.window.rows import STRIP
from tests.kernels.harness import drawn, each_tier, run, tier_params
from tests.kernels.test_amx_real import needs_bf16
from tests.kernels.walking import SHORT, Ending
from tests.kernels.windows import Case, counted, padded_taps, pixels, random_case
from tests.nets import Net, by_onnxruntime

PADDED = "average with padding"
OPS = ("depthwise", "max", "average", PADDED, "lp1", "lp2")


class Layer:
    """A window of one of OPS over random numbers. group: channels of x that a channel of the result reads, beside one
    another; narrow: what is bf16 of x and y."""

    def __init__(self, case: Case, op: str, multiplier: int = 1, group: int = 1, narrow: str = "") -> None:
        self.case, self.op, self.multiplier, self.group, g = case, op, multiplier, group, case.window
        rng = np.random.default_rng(case.seed)
        self.x = rng.standard_normal((g.images, *g.size, g.channels // multiplier)).astype(np.float32)
        self.weights = rng.standard_normal((*g.kernel, group, g.channels)).astype(np.float32)
        self.bias, self.narrow = rng.standard_normal(g.channels).astype(np.float32), narrow
        if narrow:
            self.x, self.weights = (widened(rounded(each)) for each in (self.x, self.weights))

    def expected(self) -> np.ndarray:
        g, op = self.case.window, self.op
        found = np.full((g.images, *g.out, g.channels), -np.inf if op == "max" else 0.0)
        count = np.zeros((1, *g.out, 1))
        for index, part, inside in padded_taps(self.case, self.x):
            count += counted(g, index) if op == PADDED else inside
            if op == "max":
                found = np.where(inside, np.maximum(found, part), found)
                continue
            if op == "depthwise":
                first = np.arange(g.channels) // self.group * self.group
                for i in range(self.group):
                    read = part[..., (first + i) // self.multiplier]
                    found += np.where(inside, read, 0) * self.weights[index][i]
                continue
            found += np.where(inside, {"lp1": abs(part), "lp2": part * part}.get(op, part), 0)
        with np.errstate(invalid="ignore"):
            mean = found / np.where(count, count, np.nan)
        results = {"depthwise": found + self.bias, "lp2": np.sqrt(abs(found)), "average": mean, PADDED: mean}
        return np.asarray(results.get(op, found))

    def kernel(self, tier: Any) -> tuple[str, dict[str, Any]]:
        g, case = self.case.window, self.case
        if self.op == "depthwise" and case.across:
            return "depthwise_any", {"vectors": STRIP, "repeated": False}
        if self.group > 1:
            params = grouped_tiles(tier, g, self.group, bool(self.narrow))
            assert params
            return "grouped", params
        if self.op == "depthwise":
            general = {"vectors": 1 + case.seed % 2 * (self.multiplier == 1), "repeated": self.multiplier > 1}
            tiles = depthwise_tiles(tier, g) if self.multiplier == 1 and not case.general else None
            own = general if case.general else depthwise_any(tier, g, self.multiplier)
            return ("depthwise", tiles) if tiles else ("depthwise_any", own)
        op = self.op.split()[0]
        return ("pool_any", {"op": op}) if case.general else plan_pool(tier, g, op)

    def compute(self, tier: Any, slots: dict[str, Any], threads: int = 1) -> np.ndarray:
        g, gap, seed = self.case.window, self.case.gap, self.case.seed
        name, params = self.kernel(tier)
        y = np.full((g.images, *g.out, g.channels + gap), 7, np.uint16 if "y" in self.narrow else np.float32)
        x, weights = pixels(self.x, gap, np.nan), self.weights
        if self.narrow:
            x, weights = rounded(x), np.ascontiguousarray(np.moveaxis(pairs(np.moveaxis(weights, -2, -1)), -1, -2))
        memory = {"x": x, "y": y, "ldx": self.x.shape[-1] + gap, "ldy": y.shape[-1]}
        if self.op == "depthwise":
            memory |= {"weights": weights, "bias": self.bias}
        else:
            memory["include_pad"] = int(self.op == PADDED)
        if name == "pool_any":
            memory["across"] = int(self.case.across)
        if name == "depthwise_any":
            count = across(tier, g) if self.case.across else 0
            memory |= {"multiplier": self.multiplier, "across": count}
            if count:
                again = np.arange(count) % g.channels
                taps = np.ascontiguousarray(weights[0, :, :, 0].swapaxes(0, 1)[..., again])
                memory |= {"weights": taps, "bias": self.bias[again]}
        if name == "grouped":
            memory["y_item"] = y.itemsize
        shape = window_args(tier, name, params, g, threads, near=seed % 2 << 30)
        if name == "depthwise" and self.case.copied:
            shape |= copy_args(params, g, self.case.copied * params["vectors"] * tier.lanes, threads)
            shape["band"] = max(shape["band"] // 2, 1)
            memory["scratch"] = np.full(threads * shape["scratch_bytes"], 0xFF, np.uint8)
            del shape["scratch"]
        elif threads > 1:
            shape["run"] = 1 + seed % g.out[2]
        record = row(name).args.filled(**shape, **memory, **slots)
        written = run(row(name), params, record, tier, threads)[1]
        assert (written[..., g.channels :] == 7).all()
        found = written[..., : g.channels]
        return widened(found) if "y" in self.narrow else found


def check(
    tier: Any, case: Case, op: str, multiplier: int = 1, end: str = "plain", group: int = 1, narrow: str = ""
) -> None:
    layer, g = Layer(case, op, multiplier, group, narrow), case.window
    forms = (*FORMS, *LONG_FORMS) if op == "depthwise" else FORMS
    ending = Ending(tier, end, (g.images, int(np.prod(g.out)), g.channels), forms)
    results = [layer.compute(tier, ending.slots, threads) for threads in (1, 3)]
    near = (2.0**-8 + 2.0**-10, 2.0**-13) if narrow else (1e-5, 3e-5)
    np.testing.assert_allclose(results[0], ending.of(layer.expected()), *near)
    assert results[0].tobytes() == results[1].tobytes()


def parsed(window: str) -> tuple[tuple[Any, Any], int]:
    """((kernel, strides), dilation) of KERNEL/STRIDES or KERNEL/STRIDES*DILATION."""
    shapes, _, dilation = window.partition("*")
    kernel, strides = ([int(n) for n in part.split("x")] for part in shapes.split("/"))
    return ((*[1] * (3 - len(kernel)), *kernel), (*[1] * (3 - len(strides)), *strides)), int(dilation or 1)


def each(quick: str, slow: str) -> list[Any]:
    """Windows, of which some are slow to compile and like the others."""
    return [*quick.split(), *(pytest.param(window, marks=pytest.mark.slow) for window in slow.split())]


SQUARES = each("3x3/1x1 3x3/2x2 5x5/1x1", "5x5/2x2 7x7/1x1")
"""These have bodies of their own; others are in tiles, their outputs neighbors or apart, or not."""
OTHERS = each(
    "5x4/2x1*2 3x3/3x2*3 1x5/1x1 3x5/2x3 4x1/1x3 5x9/1x1",
    "9x1/1x1*2 3x3/1x1*2 2x3/1x2*2 1x7/2x1*3 6x5/1x2*3 4x3/2x2 2x3/1x3*3 1x3/1x4*2 3x11/2x2 9x9/2x2",
)
POOLS = each(
    "2x2/2x2 3x3/2x2 3x1/2x2 4x2/1x1*3 1x3/1x3*2 3x3x3/2x2x2 2x3x3/1x1x1*2",
    "5x5/1x1 3x3/1x1 2x3/3x3 2x5/2x4*2 7x7/1x1 2x2/1x3 5x5/2x2*3 1x2/2x2*2 1x2x2/1x2x2 2x2x2/2x2x2 3x1x1/1x1x1 "
    "5x2x2/3x1x1",
)


@each_tier
@pytest.mark.parametrize("window", ["3x3/1x1", "4x5/2x1*2", "7x7/2x2"])
@drawn(10)
def test_depthwise_of_copies(tier: Any, window: str, pick: Random) -> None:
    """Of one to three vectors at a time, in bands."""
    case = replace(random_case(pick, tier.lanes, *parsed(window)), copied=pick.randint(1, 3))
    check(tier, case, "depthwise", end=pick.choice(("plain", "swish")))
    layer, plain = (Layer(each, "depthwise") for each in (case, replace(case, copied=0)))
    slots = Ending(tier, "plain", (1, 1, 1)).slots
    assert layer.compute(tier, slots).tobytes() == plain.compute(tier, slots).tobytes()


@each_tier
@pytest.mark.parametrize("window", [*SQUARES, *OTHERS])
@drawn(20)
def test_depthwise(tier: Any, window: str, pick: Random) -> None:
    case = random_case(pick, tier.lanes, *parsed(window))
    if window in ("3x3/1x1", "3x3/2x2", "5x5/1x1", "5x5/2x2", "7x7/1x1"):
        assert depthwise_tiles(tier, case.window)
    check(tier, case, "depthwise")


@each_tier
@pytest.mark.parametrize("window", each("3x3/1x1 1x1/1x1 5x5/2x2", "3x3/2x2 1x3/1x1 3x3/1x1*2 4x5/3x1 5x5/1x1*2"))
@drawn(20)
def test_groups_of_few_channels(tier: Any, window: str, pick: Random) -> None:
    case = random_case(pick, tier.lanes, *parsed(window))
    group = pick.choice([n for n in (2, 4, 8) if n < tier.lanes])
    channels = group * pick.randint(1, 3 * tier.lanes // group)
    case = replace(case, window=case.window._replace(channels=channels))
    if grouped_tiles(tier, case.window, group):
        check(tier, case, "depthwise", end=pick.choice(("plain", "swish")), group=group)


@pytest.mark.skipif(not tiers.has_pairs(tiers.BY_NAME["avx512"]), reason="no avx512bf16")
@pytest.mark.parametrize("window", ["3x3/1x1", "3x3/2x2", "3x3/1x1*2", "5x5/1x1", "2x5/1x1"])
@drawn(20)
def test_groups_of_bf16(window: str, pick: Random) -> None:
    tier = tiers.BY_NAME["avx512"]
    case, group = random_case(pick, tier.lanes, *parsed(window)), pick.choice((2, 4, 8))
    channels = group * pick.randint(1, 3 * tier.lanes // group)
    case = replace(case, window=case.window._replace(channels=channels))
    if grouped_tiles(tier, case.window, group, narrow=True):
        end, narrow = pick.choice(("plain", "bounds", "swish")), pick.choice(("x", "xy"))
        check(tier, case, "depthwise", end=end, group=group, narrow=narrow)


@each_tier
@pytest.mark.parametrize("window", POOLS)
@drawn(20)
def test_pools(tier: Any, window: str, pick: Random) -> None:
    op = pick.choice(("max", "average", PADDED))
    check(tier, random_case(pick, tier.lanes, *parsed(window), ceil=True), op)


@each_tier
@drawn(60)
def test_any_window(tier: Any, pick: Random) -> None:
    op = pick.choice(OPS)
    multiplier = pick.choice((1, 1, 2, 3, 19)) if op == "depthwise" else 1
    check(tier, random_case(pick, tier.lanes, multiplier=multiplier, ceil=op != "depthwise"), op, multiplier)


@pytest.mark.parametrize("tier", tier_params(("avx2", "avx512")))
@pytest.mark.parametrize("rows", [3, 5, 7, 0])
@drawn(15)
def test_depthwise_across_pixels(tier: Any, rows: int, pick: Random) -> None:
    """Any number of channels; windows whose rows are unrolled, and others."""
    kernel, far = (1, rows or pick.randint(6, 13), pick.randint(2, 6)), pick.randint(1, 3)
    case = random_case(pick, tier.lanes, (kernel, (1, 1, 1)))
    g, span = case.window, (kernel[2] - 1) * far
    before, after, wide = pick.randint(0, span), pick.randint(0, span), pick.randint(1, 40)
    wide = max(wide, span + 1 - before - after)
    out = wide + before + after - span
    size, end, pads = (1, g.size[1], wide), (1, g.out[1], out), (0, g.pads[1], before)
    case = Case(g._replace(size=size, out=end, dilations=(1, 1, far), pads=pads), 0, case.seed, across=True)
    assert across(tier, case.window)
    check(tier, case, "depthwise", end=pick.choice(("plain", "bounds", "swish", "gelu")))


@each_tier
@drawn(60)
def test_pools_with_pixels_in_lanes(tier: Any, pick: Random) -> None:
    """Maps of one channel, some wider than what is pooled at a time."""
    kernel, strides = (1, pick.randint(1, 5), pick.randint(1, 6)), (1, pick.randint(1, 3), 1)
    case = random_case(pick, tier.lanes, (kernel, strides), pick.randint(1, 3), ceil=True)
    g, more = case.window._replace(channels=1), pick.choice((0, 0, 7, 150, 300))
    (_, high, wide), (_, out_h, out_w) = g.size, g.out
    g = g._replace(size=(1, high, wide + more), out=(1, out_h, out_w + more))
    check(tier, Case(g, 0, case.seed, general=True, across=True), pick.choice(OPS[1:]))


@each_tier
@pytest.mark.parametrize("end", [*SHORT[1:], "sigmoid_mul", "swish", "gelu", "gelu_tanh"])
def test_endings(tier: Any, end: str) -> None:
    cases = ("depthwise", 1, False), ("depthwise", 2, True), ("average", 1, False), ("lp2", 1, False), ("max", 2, False)
    for op, dilation, general in cases:
        out = (1, 9 - dilation, 12 - dilation)
        size, apart = (1, 7 + dilation, 10 + dilation), (1, dilation, dilation)
        g = Window(2, 35, size, (1, 3, 3), out, dilations=apart, pads=(0, 1, 1))
        check(tier, Case(g, 1, 4 + dilation, general), op, end=end)


@each_tier
@pytest.mark.parametrize("width", [1, 3, 5, 40, 64, 65, 200])
def test_wide_pools(tier: Any, width: int) -> None:
    """Windows whose columns fill the buffer, and more than that; stride and dilation leave gaps in some."""
    for stride, dilation, pad in ((1, 1, 0), (3, 1, 1), (70, 1, 0), (1, 3, 0), (2, 70, 0)):
        span = (width - 1) * dilation + 1
        size = max(span + 2 * stride - 2 * pad, 1)
        out, pads = (1, 1, (size + 2 * pad - span) // stride + 1), (0, 0, pad)
        g = Window(1, 5, (1, 2, size), (1, 2, width), out, (1, 1, stride), (1, 1, dilation), pads, pads)
        for op in OPS[1:]:
            if (op == PADDED) <= (pad > 0):
                check(tier, Case(g, general=True), op)


@each_tier
def test_padding_multiplies_nothing(tier: Any) -> None:
    """An infinite weight on a tap that only ever meets padding leaves no trace."""
    layer = Layer(Case(Window(1, 5, (1, 1, 9), (1, 3, 3), (1, 1, 9), pads=(0, 1, 1))), "depthwise")
    layer.x[...], layer.weights[...], layer.bias[...] = 1, 1, 0
    layer.weights[0, 0] = np.inf
    y = layer.compute(tier, Ending(tier, "plain", (1, 9, 5)).slots)
    assert y[0, 0, 0, :, 0].tolist() == [2, 3, 3, 3, 3, 3, 3, 3, 2]


@each_tier
@pytest.mark.parametrize("size, stride, dilation", [(2, 2, 1), (3, 1, 1), (3, 2, 1), (5, 1, 1), (7, 2, 1), (3, 1, 2)])
def test_max_passes_over_nan_wherever_it_is(tier: Any, size: int, stride: int, dilation: int) -> None:
    """A window of nothing but NaN gives -inf, and -inf is a number."""
    out = (10 - (size - 1) * dilation) // stride + 1
    each, apart = (1, stride, stride), (1, dilation, dilation)
    layer = Layer(Case(Window(1, 17, (1, 11, 11), (1, size, size), (1, out, out), each, apart)), "max")
    hidden = np.random.default_rng(6).random(layer.x.shape) < 0.3
    hidden[:, :, :5, :5, 0] = True
    layer.x = np.where(hidden, -np.inf, layer.x).astype(np.float32)
    layer.x[..., 1] = -np.inf
    want = layer.expected()
    layer.x = np.where(hidden, np.nan, layer.x).astype(np.float32)
    np.testing.assert_array_equal(layer.compute(tier, Ending(tier, "plain", (1, out * out, 17)).slots), want)


@needs_bf16
@pytest.mark.parametrize("window", [*SQUARES, *OTHERS])
@drawn(10)
def test_depthwise_of_bf16(window: str, pick: Random) -> None:
    """The result of f32, rounded; SiLU as rough as that."""
    tier, end = tiers.BY_NAME["avx512"], pick.choice(("plain", "swish"))
    case = random_case(pick, tier.lanes, *parsed(window))
    layer, g = Layer(case, "depthwise"), case.window
    params = depthwise_tiles(tier, g, narrow=True)
    if params is None:
        return
    x = rounded(layer.x)
    layer.x = (x.astype(np.uint32) << 16).view(np.float32)
    shape = g.images, int(np.prod(g.out)), g.channels
    slots = Ending(tier, end, shape, (*FORMS, *LONG_FORMS)).slots
    want = layer.compute(tier, slots)
    for threads in (1, 3):
        y = np.full((*want.shape[:-1], g.channels + case.gap), 7, np.uint16)
        memory = {"x": pixels(x, case.gap, 0x7FC0), "y": y, "ldx": y.shape[-1], "ldy": y.shape[-1]}
        memory |= {"weights": layer.weights, "bias": layer.bias}
        record = row("depthwise").args.filled(**window_args(tier, "depthwise", params, g, threads), **memory, **slots)
        written = run(row("depthwise"), params, record, tier, threads, offset=2)[1]
        found = written[..., : g.channels]
        if end == "plain":
            np.testing.assert_array_equal(found, rounded(want))
        np.testing.assert_allclose(widened(found), want, 2.0**-8 + 2.0**-10, 2.0**-13)
        assert (written[..., g.channels :] == 7).all()


@each_tier
@pytest.mark.parametrize("window", [*POOLS, "8x8/1x1"])
@drawn(15)
def test_maxima_of_bf16(tier: Any, window: str, pick: Random) -> None:
    """Those of f32, rounded: NaN is passed over here too, whatever its sign."""
    case = random_case(pick, 2 * tier.lanes, *parsed(window), ceil=True)
    layer, g = Layer(case, "max"), case.window
    x = rounded(layer.x)
    for bits in (0x7F80, 0xFF80, 0x7F81, 0x7FC0, 0xFF81, 0xFFFF, 1, 0x8001):
        x[np.random.default_rng(bits).random(x.shape) < pick.choice((0.1, 0.5))] = bits
    layer.x = (x.astype(np.uint32) << 16).view(np.float32)
    want = rounded(layer.compute(tier, Ending(tier, "plain", (g.images, int(np.prod(g.out)), g.channels)).slots))
    for threads in (1, 3):
        y = np.full((*want.shape[:-1], g.channels + case.gap), 7, np.uint16)
        memory = {"x": pixels(x, case.gap, 0x7F7F), "y": y, "ldx": y.shape[-1], "ldy": y.shape[-1]}
        record = row("pool_bf16").args.filled(**window_args(tier, "pool_bf16", {}, g, threads), **memory)
        written = run(row("pool_bf16"), {}, record, tier, threads, offset=2)[1]
        np.testing.assert_array_equal(written[..., : g.channels], want)
        assert (written[..., g.channels :] == 7).all()


def test_average_like_onnxruntime() -> None:
    """ceil_mode with and without count_include_pad: what lies beyond the padded image never counts."""
    tier = tiers.choose()
    for size, k, s, pad, include in (
        (7, 3, 2, 1, 1),
        (8, 3, 2, 1, 1),
        (8, 3, 2, 1, 0),
        (6, 2, 3, 0, 1),
        (10, 4, 3, 2, 1),
    ):
        net = Net(22)
        attrs = {"kernel_shape": [k, k], "strides": [s, s], "pads": [pad] * 4, "ceil_mode": 1}
        net.output(net("AveragePool", net.input("x", (1, 3, size, size)), count_include_pad=include, **attrs))
        x = np.random.default_rng(size).standard_normal((1, 3, size, size)).astype(np.float32)
        want = by_onnxruntime(net.bytes(), {"x": x})[0].transpose(0, 2, 3, 1)
        pads, out = (0, pad, pad), (1, *want.shape[1:3])
        g = Window(1, 3, (1, size, size), (1, k, k), out, (1, s, s), pads=pads, ends=pads)
        layer = Layer(Case(g), PADDED if include else "average")
        layer.x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)[:, None])
        got = layer.compute(tier, Ending(tier, "plain", (1, int(np.prod(out)), 3)).slots)
        np.testing.assert_allclose(got[:, 0], want, rtol=1e-5, atol=1e-6, err_msg=str((size, k, s, pad, include)))


@pytest.mark.parametrize("general", [False, True])
def test_empty_tensors(general: bool) -> None:
    for images, height in ((0, 4), (2, 0)):
        g = Window(images, 5, (1, height, 9), (1, 3, 3), (1, height, 9), pads=(0, 1, 1))
        check(tiers.choose(), Case(g, general=general), "depthwise")


def test_windows_of_one_column_see_pixels_in_one_row() -> None:
    g = Window(2, 5, (1, 30, 4), (1, 9, 1), (1, 26, 4), dilations=(1, 2, 1), pads=(0, 6, 0), ends=(0, 6, 0))
    flat = g.flattened()
    assert (flat.size, flat.kernel, flat.out) == ((1, 1, 120), (1, 1, 9), (1, 1, 104))
    assert (flat.dilations, flat.pads, flat.ends) == ((1, 1, 8), (0, 0, 24), (0, 0, 24))


def test_tiles_divide_common_maps() -> None:
    tier = tiers.BY_NAME["avx512"]
    for out_w, tile in ((112, 7), (7, 7), (8, 8), (80, 8), (1, 7)):
        window = Window(1, 96, (1, out_w, out_w), (1, 3, 3), (1, out_w, out_w), pads=(0, 1, 1))
        params = depthwise_tiles(tier, window)
        assert params and params["tile"] == tile, out_w


@pytest.mark.parametrize(
    ("isa", "columns", "vectors", "size", "together"),
    [
        # Rows of 8 are one tile of a vector, but two of pairs; an odd number of vectors leaves half a pair.
        ("avx512", 14, 2, 5, 2), ("avx512", 8, 4, 5, 1), ("avx512", 14, 3, 5, 1), ("avx512", 14, 15, 5, 2),
        ("avx512", 14, 9, 3, 1), ("avx512", 14, 2, 9, 2), ("avx512", 8, 4, 9, 1), ("avx512", 40, 3, 9, 1),
        # 16 registers hold neither the sums of pairs nor these and the weights of three taps.
        ("avx2", 14, 4, 5, 1), ("avx2", 14, 6, 9, 1), ("avx2", 14, 16, 9, 1),
        # Lines of pixels 1 or 2 KiB apart would be read once for each half of them.
        ("avx2", 28, 32, 13, 2), ("avx2", 14, 64, 13, 2),
    ],
)  # fmt: skip
def test_vectors_of_channels_together(isa: str, columns: int, vectors: int, size: int, together: int) -> None:
    tier, sides = tiers.BY_NAME[isa], (1, columns, columns)
    pad = size // 2
    window = Window(1, vectors * tier.lanes, sides, (1, size, size), sides, pads=(0, pad, pad))
    params = depthwise_tiles(tier, window) or depthwise_any(tier, window, 1)
    assert params["vectors"] == together


@pytest.mark.parametrize(
    ("isa", "channels", "size", "copied"),
    [
        ("avx2", 256, 7, 32), ("avx2", 512, 3, 32), ("generic", 256, 7, 32), ("avx2", 256, 13, 0), ("avx2", 144, 7, 0),
        ("avx512", 256, 7, 0),
    ],
)  # fmt: skip
def test_pixels_that_lie_in_few_sets_are_copied(isa: str, channels: int, size: int, copied: int) -> None:
    tier, pad = tiers.BY_NAME[isa], size // 2
    window = Window(1, channels, (1, 28, 28), (1, size, size), (1, 28, 28), pads=(0, pad, pad))
    params = depthwise_tiles(tier, window)
    name = "depthwise" if params else "depthwise_any"
    args = window_args(tier, name, params or depthwise_any(tier, window, 1), window)
    assert args.get("copied", 0) == copied == (copied and args["block"])


@pytest.mark.parametrize(
    ("isa", "channels", "tile"), [("avx512", 16, 8), ("avx512", 72, 8), ("avx512", 96, 7), ("avx2", 8, 7)]
)
def test_tiles_of_wide_windows_have_as_many_sums_as_multiply_adds_are_under_way(
    isa: str, channels: int, tile: int
) -> None:
    window = Window(1, channels, (1, 28, 28), (1, 7, 7), (1, 28, 28), pads=(0, 3, 3))
    params = depthwise_tiles(tiers.BY_NAME[isa], window)
    assert params and params["tile"] == tile
