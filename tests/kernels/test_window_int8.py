"""Depthwise convolutions and pools of bytes against the sums and maxima they stand for, bit by bit."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.core.table import row
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.window.pick import Window, pool_int8_args
from fastgraph.kernels.window.pick_depthwise_int8 import (
    Part,
    Scheme,
    across_cycles,
    across_pixels,
    depthwise_int8_args,
    fill_bytes,
    halves,
    in_pixels,
    is_unrolled,
    pack_depthwise_int8,
    pixel_cycles,
    scheme_of,
)
from fastgraph.kernels.window.pick_int8_pairs import has_pairs, pack_pairs
from tests.kernels.harness import drawn, each_integer_tier, f32_bits, run
from tests.kernels.int8 import DTYPES, draw_bytes, stored, stores
from tests.kernels.windows import Case, counted, padded_taps, pixels, random_case

PIXEL, ACROSS, WINDOW, ANY, PAIRS = (f"depthwise_int8{name}" for name in ("", "_across", "_window", "_any", "_pairs"))


class Layer:
    """Random numbers for a case; `wide`: weights that need more than a byte."""

    def __init__(self, case: Case, multiplier: int = 1, wide: bool = False, out: str = "u8") -> None:
        g, rng = case.window, np.random.default_rng(case.seed)
        self.case, self.multiplier, self.bytewise, self.out = case, multiplier, not wide, out
        most = 255 if wide else 127
        self.x = rng.integers(0, 256, (g.images, *g.size, g.channels // multiplier)).astype(np.uint8)
        self.weights = rng.integers(-most - (not wide), most + 1, (*g.kernel[1:], g.channels))
        self.bias = rng.integers(-9999, 9999, g.channels)
        self.factors = rng.uniform(1e-4, 6e-3, g.channels).astype(np.float32)
        self.zero_x, self.zero_y = (int(z) for z in rng.integers(0, 256, 2))
        self.low, self.high = (int(z) for z in sorted(rng.integers(0, 256, 2)))

    def expected(self) -> np.ndarray:
        g = self.case.window
        total = np.zeros((g.images, *g.out, g.channels)) + self.bias
        for (_, p, q), part, inside in padded_taps(self.case, self.x):
            reals = np.where(inside, np.repeat(part, self.multiplier, -1) - self.zero_x, 0)
            total += reals * self.weights[p, q]
        if self.out == "i32":
            return total
        scaled, shift = total.astype(np.float32) * self.factors, 128 if self.out == "s8" else 0
        if self.out == "f32":
            return np.clip(scaled, self.low - self.zero_y, self.high - self.zero_y)
        return np.clip(np.rint(scaled) + self.zero_y, self.low, self.high).astype(int) - shift

    def compute(self, tier: Any, parts: Sequence[Part], threads: int = 1) -> np.ndarray:
        """What the kernels of a plan write, one after the other into the same memory."""
        g, gap = self.case.window, self.case.gap if parts[0].name != ACROSS else 0
        y = np.full((g.images, *g.out, g.channels + gap), 7, DTYPES[self.out])
        for part in parts:
            y = self._run(tier, part, pixels(self.x, self.case.gap, 99), y, threads)
        assert (y[..., g.channels :] == 7).all()
        return y[..., : g.channels]

    def _run(self, tier: Any, part: Part, x: np.ndarray, y: np.ndarray, threads: int) -> np.ndarray:
        name, params, own = part.name, part.params, slice(part.start, part.start + part.channels)
        g, bias = self.case.window._replace(channels=part.channels), self.bias[own]
        if name != ANY:
            bias = bias - self.zero_x * self.weights[..., own].sum((0, 1))
        shift = 128 if self.out == "s8" else 0
        zero_y, low, high = (z - shift for z in (self.zero_y, self.low, self.high))
        if self.out == "f32":
            low, high = (f32_bits(z - self.zero_y) for z in (low, high))
        # A part begins at its first channel.
        memory = {"x": x.reshape(-1)[part.start :], "y": y.reshape(-1)[part.start :]}
        args = {**depthwise_int8_args(tier, name, params, g, threads), **stored(self.out, zero_y, low, high), **memory}
        args |= {"ldx": x.shape[-1], "ldy": y.shape[-1]}
        if name in (ANY, WINDOW) and threads > 1:
            args["run"] = 1 + self.case.seed % g.out[2]
        if name in (PIXEL, WINDOW):
            args["fill"] = np.full(fill_bytes(tier, params, x.shape[-1]), self.zero_x, np.uint8)
        else:
            args["zero_x"] = self.zero_x
        if name == PAIRS:
            constants = self.weights[..., own], bias, self.factors[own]
            args["packed"] = pack_pairs(tier, g.strides[1], args["block"], *constants)
        elif name == ANY:
            args |= {"weights": halves(self.weights), "bias": bias.astype(np.int32), "multipliers": self.factors}
            args["multiplier"] = self.multiplier
        else:
            args["packed"] = pack_depthwise_int8(name, params, tier, self.weights[..., own], bias, self.factors[own])
        if name in (ACROSS, PAIRS):
            args["scratch"] = np.zeros(args["scratch_bytes"] * threads, np.uint8)
        written = run(row(name), params, row(name).args.filled(**args), tier, threads, 4 if y.itemsize == 4 else 3)[1]
        return np.concatenate([y.reshape(-1)[: part.start], written]).reshape(y.shape)

    def check(self, tier: Any, *plans: Sequence[Part]) -> None:
        wanted = self.expected()
        for parts in plans:
            for threads in (1, 3):
                np.testing.assert_array_equal(self.compute(tier, parts, threads), wanted)

    def planned(self, tier: Any, across: bool) -> list[Part]:
        """An unrolled kernel in the given form."""
        g = self.case.window
        (part, *_) = in_pixels(tier, g, not (tier.byte_dot and self.bytewise))
        params = {key: part.params[key] for key in ("size", "stride", "wide")}
        return [Part(0, g.channels, *((ACROSS, params) if across else (PIXEL, {**params, "pieces": 1})))]

    def general(self) -> list[Part]:
        return [Part(0, self.case.window.channels, ANY, {"out": stores(self.out)})]


def best(tier: Any, g: Window, dense: bool = True) -> list[Part]:
    """The kernels that take the least time; dense: whether pixels of the result are beside one another."""
    wide = not tier.byte_dot
    if not is_unrolled(g):
        return [Part(0, g.channels, WINDOW, {"wide": wide})]
    parts, across = in_pixels(tier, g, wide), across_pixels(tier, g, wide)
    pays = dense and across and across_cycles(tier, g, across, g.channels) < pixel_cycles(tier, parts)
    return [across] if across and pays else list(parts)


FORMS = list(product((3, 5), (1, 2), ("pixel", "pixel wide", "across", "across wide")))
"""Kernel, strides, form."""
SLOW_FORMS = [form for form in FORMS if form[0] == 5 and form[1:] not in ((1, "pixel"), (2, "across"))]


@each_integer_tier
@pytest.mark.parametrize(
    ("size", "stride", "form"),
    [pytest.param(*form, marks=[pytest.mark.slow] if form in SLOW_FORMS else []) for form in FORMS],
)
@drawn(10)
def test_fast_depthwise(tier: Any, size: int, stride: int, form: str, pick: Random) -> None:
    across, wide = "across" in form, "wide" in form
    case = random_case(pick, tier.lanes, ((1, size, size), (1, stride, stride)))
    if not across:
        # Less than a vector, or vectors that overlap.
        g = case.window
        case = replace(case, window=g._replace(channels=g.channels + 4 * tier.lanes * pick.randint(0, 1)))
    layer = Layer(case, wide=wide)
    lines = scheme_of(tier, size, stride, wide or not tier.byte_dot).rows
    layer.check(tier, layer.planned(tier, across and case.window.out[1] >= lines))


@each_integer_tier
@drawn(20)
def test_any_depthwise(tier: Any, pick: Random) -> None:
    multiplier = pick.choice((1, 3, 19))
    kernel, strides = (1, pick.randint(1, 5), pick.randint(1, 5)), (1, pick.randint(1, 3), pick.randint(1, 3))
    case = random_case(pick, tier.lanes, (kernel, strides), pick.randint(1, 2), multiplier)
    layer = Layer(case, multiplier, pick.choice((False, True)))
    layer.check(tier, layer.general())
    if multiplier == 1:
        # More than a block of channels, too.
        g = case.window
        case = replace(case, window=g._replace(channels=g.channels + 4 * tier.lanes * pick.randint(0, 1)))
        layer = Layer(case, 1, not layer.bytewise)
        wide = not (tier.byte_dot and layer.bytewise)
        layer.check(tier, [Part(0, case.window.channels, WINDOW, {"wide": wide})])


@each_integer_tier
@pytest.mark.parametrize("stride", [1, 2])
@drawn(20)
def test_pairs(tier: Any, stride: int, pick: Random) -> None:
    case = random_case(pick, tier.lanes, ((1, pick.randint(4, 9), pick.randint(1, 6)), (1, stride, stride)))
    if not has_pairs(tier, case.window):
        pytest.skip("bytes are multiplied in fours, or vectors are longer")
    # One block, or several, the last of which is not full.
    more = pick.choice((0, 0, 50, 97))
    case = replace(case, window=case.window._replace(channels=case.window.channels + more))
    layer = Layer(case, wide=pick.choice((False, True)))
    layer.check(tier, [Part(0, case.window.channels, PAIRS, {"stride": stride})])


@each_integer_tier
@pytest.mark.parametrize("out", ["s8", "f32", "i32"])
def test_other_results(tier: Any, out: str) -> None:
    layer = Layer(Case(Window(1, 69, (1, 5, 4), (1, 3, 3), (1, 5, 4), pads=(0, 1, 1)), 2, 5), out=out)
    plans = [layer.general(), *(layer.planned(tier, across) for across in (False, True) if out == "s8")]
    layer.check(tier, *plans)


@each_integer_tier
@pytest.mark.parametrize("c", [8, 24, 32, 48, 96])
def test_depthwise_as_it_is_planned(tier: Any, c: int) -> None:
    """Channels that don't fill vectors, in the form and tile that the plan chooses."""
    g = Window(1, c, (1, 8, 9), (1, 3, 3), (1, 8, 9), pads=(0, 1, 1), ends=(0, 1, 1))
    Layer(Case(g, 0, c)).check(tier, best(tier, g))


@each_integer_tier
@pytest.mark.parametrize("stride", [1, 2])
def test_several_pixels_in_a_vector(tier: Any, stride: int) -> None:
    """The rest of the channels in vectors of several pixels, also where parts of a row overlap."""
    for (rest, width), more in product(((2 * tier.lanes, 17), (tier.lanes, 23)), (0, 4 * tier.lanes)):
        if rest < 16:
            continue
        out, pads = (1, -(-5 // stride), -(-width // stride)), (0, 1, 1)
        g = Window(2, more + rest, (1, 5, width), (1, 3, 3), out, (1, stride, stride), pads=pads, ends=pads)
        parts = best(tier, g, dense=False)
        assert parts[-1].params["pieces"] == 4 * tier.lanes // rest
        Layer(Case(g, 0, rest)).check(tier, parts)


@pytest.mark.parametrize("across", [False, True])
def test_empty_tensors(across: bool) -> None:
    tier = tiers.choose()
    for images, height in ((0, 4), (2, 0)):
        layer = Layer(Case(Window(images, 64, (1, height, 9), (1, 3, 3), (1, height, 9), pads=(0, 1, 1))))
        assert layer.compute(tier, layer.planned(tier, across)).size == 0


def test_schemes_hold_every_tap_once() -> None:
    for size, stride, count, group in product((3, 5), (1, 2), (1, 2, 3, 4), (2, 4)):
        scheme = Scheme(size, stride, count, group)
        for i in range(count):
            taps = [tap for k, s, q in scheme.terms if k == i for tap in scheme.taps(i, scheme.sources[s], q)]
            assert sorted(filter(None, taps)) == list(np.ndindex(size, size))
    assert len(Scheme(5, 1, 1, 4).terms) == 7


def test_plans() -> None:
    vnni = tiers.BY_NAME["avx512vnni"]

    def plan(c: int, k: int, s: int, size: int) -> list[Part]:
        out = -(-size // s)
        g = Window(1, c, (1, size, size), (1, k, k), (1, out, out), (1, s, s), pads=(0, 1, 1), ends=(0, 1, 1))
        return best(vnni, g)

    assert plan(8, 3, 1, 48)[0].name == plan(24, 3, 1, 56)[0].name == ACROSS
    for c, k, s, size, pieces in ((512, 3, 1, 14, 1), (64, 3, 2, 112, 1), (32, 3, 2, 24, 2)):
        (part,) = plan(c, k, s, size)
        assert (part.name, part.params["pieces"]) == (PIXEL, pieces)
    assert scheme_of(vnni, 3, 1, False).rows == 2 and scheme_of(vnni, 3, 2, False).rows == 1
    assert [(part.channels, part.params["pieces"]) for part in plan(144, 3, 2, 56)] == [(128, 1), (16, 4)]
    assert plan(64, 9, 1, 20)[0].name == WINDOW


# -- pools


def check_pool(tier: Any, case: Case, op: str, include_pad: bool = False) -> None:
    g, rng = case.window, np.random.default_rng(case.seed)
    x = draw_bytes(case.seed, g.images, *g.size, g.channels)
    zero_x, zero_y = (int(z) for z in rng.integers(0, 256, 2))
    low, high = (int(z) for z in sorted(rng.integers(0, 256, 2)))
    ratio = float(rng.uniform(0.5, 2))
    total = np.zeros((g.images, *g.out, g.channels))
    best, count = np.zeros(total.shape), np.zeros((1, *g.out, 1))
    for index, part, inside in padded_taps(case, x):
        total += np.where(inside, part - zero_x, 0)
        best = np.maximum(best, np.where(inside, part, 0))
        count += counted(g, index) if include_pad else inside
    factor = (ratio / count if op == "average" else np.float64(ratio)).astype(np.float32)
    want = np.clip(best if op == "max" else np.rint(total.astype(np.float32) * factor) + zero_y, low, high)
    params = {"op": "sum" if op == "average" else op}
    slots = {"zero_x": zero_x, "zero_point": zero_y, "low": low, "high": high}
    for threads in (1, 3):
        wide, y = pixels(x, case.gap, 255), np.full((*want.shape[:-1], g.channels + case.gap), 7, np.uint8)
        memory = {"x": wide, "ldx": wide.shape[-1], "y": y, "ldy": y.shape[-1]}
        args = {**pool_int8_args(tier, op, g, threads, ratio, include_pad), **memory, **slots}
        args["run"] = 1 + case.seed % g.out[2] if threads > 1 else g.out[2]
        record = row("pool_int8").args.filled(**args)
        written = run(row("pool_int8"), params, record, tier, threads, offset=3)[1]
        np.testing.assert_array_equal(written[..., : g.channels], want)
        assert (written[..., g.channels :] == 7).all()


@each_integer_tier
@pytest.mark.parametrize("op", ["max", "average"])
@drawn(50)
def test_pools(tier: Any, op: str, pick: Random) -> None:
    kernel, strides, dilation = pick.choice(((3, 2, 1), (2, 2, 1), (5, 1, 1), (6, 3, 2)))
    window = (1, min(kernel, 5), kernel), (1, 1 if kernel == 6 else strides, strides)
    case = random_case(pick, tier.lanes, window, dilation, ceil=True)
    check_pool(tier, case, op, op == "average" and pick.choice((False, True)))


@each_integer_tier
@pytest.mark.parametrize("op", ["max", "average", "sum"])
@pytest.mark.parametrize(("h", "w", "c"), [(7, 7, 130), (1, 700, 5), (3, 300, 1)], ids=str)
def test_pools_of_all_of_space(tier: Any, op: str, h: int, w: int, c: int) -> None:
    check_pool(tier, Case(Window(2, c, (1, h, w), (1, h, w), (1, 1, 1)), 0, c), op)
