"""Depthwise kernels on bytes against the sums they stand for, bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.core.table import row
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.window.pick import Window
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
from tests.kernels.harness import each_integer_tier, f32_bits, run
from tests.kernels.int8 import DTYPES, stored, stores
from tests.kernels.windows import Case, cases, padded_taps

PIXEL, ACROSS, WINDOW, ANY = (f"depthwise_int8{name}" for name in ("", "_across", "_window", "_any"))


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

    def acc(self) -> Any:
        g = self.case.window
        total = np.zeros((g.images, *g.out, g.channels)) + self.bias
        for (_, p, q), part, inside in padded_taps(self.case, self.x):
            reals = np.where(inside, np.repeat(part, self.multiplier, -1) - self.zero_x, 0)
            total += reals * self.weights[p, q]
        return total

    def sums(self) -> Any:
        return self.acc().astype(np.float32) * self.factors

    def expected(self) -> Any:
        return np.clip(np.rint(self.sums()) + self.zero_y, self.low, self.high).astype(np.uint8)

    def compute(self, tier: Any, parts: Sequence[Part], threads: int = 1) -> Any:
        """What the kernels of a plan write, one after the other into the same memory."""
        g, gap = self.case.window, self.case.gap
        x = np.concatenate([self.x, np.full((*self.x.shape[:-1], gap), 99, np.uint8)], -1)
        dtype = DTYPES[self.out]
        y = np.full((g.images, *g.out, g.channels + (gap if parts[0].name != ACROSS else 0)), 7, dtype)
        for part in parts:
            y = self._run(tier, part, x, y, threads)
        assert (y[..., g.channels :] == 7).all()
        return y[..., : g.channels]

    def _run(self, tier: Any, part: Part, x: Any, y: Any, threads: int) -> Any:
        name, params, own = part.name, part.params, slice(part.start, part.start + part.channels)
        g, bias = self.case.window._replace(channels=part.channels), self.bias[own]
        if name != ANY:
            bias = bias - self.zero_x * self.weights[..., own].sum((0, 1))
        shift = 128 if self.out == "s8" else 0
        zero_y, low, high = (z - shift for z in (self.zero_y, self.low, self.high))
        if self.out == "f32":
            low, high = (f32_bits(z - self.zero_y) for z in (low, high))
        # A part begins at its first channel.
        flat_x, flat_y = x.reshape(-1)[part.start :], y.reshape(-1)[part.start :]
        args: dict[str, Any] = {
            **depthwise_int8_args(tier, name, params, g, threads), "x": flat_x, "ldx": x.shape[-1], "y": flat_y,
            "ldy": y.shape[-1], **stored(self.out, zero_y, low, high),
        }  # fmt: skip
        if name in (PIXEL, WINDOW):
            args["fill"] = np.full(fill_bytes(tier, params, x.shape[-1]), self.zero_x, np.uint8)
        else:
            args["zero_x"] = self.zero_x
        if name == ANY:
            args |= {"weights": halves(self.weights), "bias": bias.astype(np.int32), "multipliers": self.factors}
            args["multiplier"] = self.multiplier
        else:
            args["packed"] = pack_depthwise_int8(name, params, tier, self.weights[..., own], bias, self.factors[own])
        if name == ACROSS:
            args["scratch"] = np.zeros(args["scratch_bytes"] * threads, np.uint8)
        offset = 4 if y.itemsize == 4 else 3
        written = run(row(name), params, row(name).args.filled(**args), tier, threads, offset)[1]
        return np.concatenate([y.reshape(-1)[: part.start], written]).reshape(y.shape)


def best(tier: Any, g: Window, dense: bool = True) -> list[Part]:
    """The kernels that take the least time; dense: whether pixels of the result are beside one another."""
    wide = not tier.byte_dot
    if not is_unrolled(g):
        return [Part(0, g.channels, WINDOW, {"wide": wide})]
    parts, across = in_pixels(tier, g, wide), across_pixels(tier, g, wide)
    pays = dense and across and across_cycles(tier, g, across, g.channels) < pixel_cycles(tier, parts)
    return [across] if across and pays else list(parts)


def planned(tier: Any, layer: Layer, across: bool) -> list[Part]:
    """An unrolled kernel in the given form."""
    g = layer.case.window
    (part, *_) = in_pixels(tier, g, not (tier.byte_dot and layer.bytewise))
    params = {key: part.params[key] for key in ("size", "stride", "wide")}
    return [Part(0, g.channels, *((ACROSS, params) if across else (PIXEL, {**params, "pieces": 1})))]


FORMS = list(product((3, 5), (1, 2), ("pixel", "pixel wide", "across", "across wide")))
"""Kernel, strides, form."""


@each_integer_tier
@pytest.mark.parametrize(("size", "stride", "form"), FORMS, ids=str)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_fast_kernels(tier: Any, size: int, stride: int, form: str, data: Any) -> None:
    across, wide = "across" in form, "wide" in form
    case = data.draw(cases(tier.lanes, (1, size, size), (1, stride, stride)))
    if not across:
        # Less than a vector, or vectors that overlap.
        g = case.window
        case = replace(case, window=g._replace(channels=g.channels + 4 * tier.lanes * data.draw(st.integers(0, 1))))
    layer = Layer(case, wide=wide)
    rows = scheme_of(tier, size, stride, wide or not tier.byte_dot).rows
    check(layer, tier, planned(tier, layer, across and case.window.out[1] >= rows))


def check(layer: Layer, tier: Any, parts: Sequence[Part]) -> None:
    results = [layer.compute(tier, parts, n) for n in (1, 3)]
    np.testing.assert_array_equal(results[0], layer.expected())
    assert results[0].tobytes() == results[1].tobytes()


@each_integer_tier
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_any_window(tier: Any, data: Any) -> None:
    multiplier = data.draw(st.sampled_from([1, 3, 19]))
    kernel = (1, data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5)))
    strides = (1, data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)))
    case = data.draw(cases(tier.lanes, kernel, strides, data.draw(st.integers(1, 2)), multiplier))
    layer = Layer(case, multiplier, data.draw(st.booleans()))
    check(layer, tier, general(layer))
    if multiplier == 1:
        wide = not (tier.byte_dot and layer.bytewise)
        check(layer, tier, [Part(0, case.window.channels, WINDOW, {"wide": wide})])


def general(layer: Layer) -> list[Part]:
    return [Part(0, layer.case.window.channels, ANY, {"out": stores(layer.out)})]


@each_integer_tier
def test_other_results(tier: Any) -> None:
    case = Case(Window(1, 69, (1, 5, 4), (1, 3, 3), (1, 5, 4), pads=(0, 1, 1)), 2, 5)
    layer = Layer(case, out="s8")
    for parts in (general(layer), planned(tier, layer, False), planned(tier, layer, True)):
        np.testing.assert_array_equal(layer.compute(tier, parts), layer.expected().astype(int) - 128)
    layer = Layer(case, out="f32")
    real = layer.compute(tier, general(layer))
    least, most = layer.low - layer.zero_y, layer.high - layer.zero_y
    np.testing.assert_array_equal(real, np.clip(layer.sums(), least, most))
    layer = Layer(case, out="i32")
    np.testing.assert_array_equal(layer.compute(tier, general(layer)), layer.acc())


@each_integer_tier
@pytest.mark.parametrize("c", [8, 24, 32, 48, 96])
def test_what_is_planned(tier: Any, c: int) -> None:
    """Channels that don't fill vectors, in the form and tile that the plan chooses."""
    g = Window(1, c, (1, 8, 9), (1, 3, 3), (1, 8, 9), pads=(0, 1, 1), ends=(0, 1, 1))
    layer = Layer(Case(g, 0, c))
    check(layer, tier, best(tier, g))


@each_integer_tier
@pytest.mark.parametrize("stride", [1, 2])
def test_several_pixels_in_a_vector(tier: Any, stride: int) -> None:
    """The rest of the channels in vectors of several pixels, also where parts of a row overlap."""
    for rest, width in ((2 * tier.lanes, 17), (tier.lanes, 23)):
        for more in (0, 4 * tier.lanes):
            if rest < 16:
                continue
            out = -(-width // stride)
            g = Window(2, more + rest, (1, 5, width), (1, 3, 3), (1, -(-5 // stride), out), (1, stride, stride),
                       pads=(0, 1, 1), ends=(0, 1, 1))  # fmt: skip
            layer = Layer(Case(g, 0, rest))
            parts = best(tier, g, dense=False)
            assert parts[-1].params["pieces"] == 4 * tier.lanes // rest
            check(layer, tier, parts)


def test_schemes_hold_every_tap_once() -> None:
    for size in (3, 5):
        for stride, rows, group in product((1, 2), (1, 2, 3, 4), (2, 4)):
            scheme = Scheme(size, stride, rows, group)
            for i in range(rows):
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


@pytest.mark.parametrize("across", [False, True])
def test_empty_tensors(across: bool) -> None:
    tier = tiers.choose()
    for images, height in ((0, 4), (2, 0)):
        layer = Layer(Case(Window(images, 64, (1, height, 9), (1, 3, 3), (1, height, 9), pads=(0, 1, 1))))
        assert layer.compute(tier, planned(tier, layer, across)).size == 0
