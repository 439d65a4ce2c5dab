"""Rows of f32 as bf16 or f16 in scratch, rounded or split into planes, with zeros where a convolution pads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..gemm.band import fill_words, rows_of_band
from ..isa.tiers import Tier
from ..lang import F16, F32, I32, I64, U16, U32, Register, Value, cases, divide, either, over, register, traced, when
from ..lang.instructions import choose, is_nan, larger, smaller
from ..lang.lanes import any_lane, halves, joined, shuffle
from .pack_real import SIZES, held_planes

FEW = (1, 3)
"""Channels of grey or coloured pixels, which are copied by whole vectors where they become f16."""


@dataclass(frozen=True)
class Parts:
    """How numbers are written: rounded, as sums of `planes` bf16 or as one f16; or `exact`, as upper and lower halves
    of their bits, in two planes behind these.
    """

    tier: Tier
    planes: int
    element: str
    exact: bool = False

    @property
    def places(self) -> range:
        """The planes that are written."""
        return range(self.planes, self.planes + 2) if self.exact else range(self.planes)

    @property
    def asked(self) -> bool:
        """Whether numbers that the parts do not hold are looked for."""
        return not self.exact and held_planes(self.planes, self.element) > self.planes


@traced
def split_band(parts: Parts, r: Any, to: Value, source: Value, z: Value, y: Value, rows: Value) -> Any:
    """As gemm's fill_band, in planes r.plane bytes apart; whether some number, or a pixel's numbers together, may lose
    bits in parts (`lost`).
    """
    odd = register(I64(0))
    for line, plane, iy, inside in rows_of_band(r, to, source, z, y, rows):
        with either(inside) as (there, padding):
            with there:
                _fill(parts, r, line, 2 * r.left)
                first = line + 2 * r.left
                odd.value |= split_pixels(parts, r, first, plane + iy * r.x_y + r.x_first, r.pixels)
                _fill(parts, r, first + r.pixels * r.pixel_step, 2 * r.right)
            with padding:
                _fill(parts, r, line, r.band_y)
    return odd.value


@traced
def split_pixels(parts: Parts, r: Any, to: Value, source: Value, count: Value) -> Any:
    """Copy pixels that lie x_step bytes apart; returns what `split_band` does."""
    odd = register(U32.vector(parts.tier.lanes)(0))
    if parts.element == "f16":
        bodies = {k: partial(_few, parts, r, k, to, source, count, odd) for k in FEW}
        adjacent = (r.x_step == 4 * r.run) & (r.pixel_step == 2 * r.run + 2)
        cases(choose(adjacent, r.run, 0), bodies, partial(_runs, parts, r, to, source, (count, r.run), odd))
    else:
        adjacent = r.x_step == r.x_item * r.run
        with either(adjacent & (r.run < 16) & (r.pixel_step == 2 * r.run + 2)) as (few, others):
            with few:
                _paired(parts, r, to, source, count, odd)
            with others:
                dense = adjacent & (r.pixel_step == 2 * r.run)
                runs = choose(dense, 1, count), choose(dense, r.run * count, r.run)
                with either(r.x_item == 2, likely=False) as (narrow, wide):
                    with narrow:
                        _copy(parts.tier, r, to, source, runs)
                    with wide:
                        _runs(parts, r, to, source, runs, odd)
    return any_lane(odd.value != 0).to(I64)


def _fill(parts: Parts, r: Any, to: Value, nbytes: Value) -> None:
    """Zeros in each plane."""
    for p in parts.places:
        fill_words(to + p * r.plane, I32.vector(parts.tier.lanes)(0), nbytes)


def _copy(tier: Tier, r: Any, to: Value, source: Value, runs: tuple[Value, Value]) -> None:
    """`count` pixels, each `run` numbers that are bf16, and zeros up to a whole line; runs: both."""
    u16, (count, run) = U16.vector(2 * tier.lanes), runs
    whole, rest = run >> 5, run & 31
    for j in over(count):
        first, line = source + j * r.x_step, to + j * r.pixel_step
        for i in over(whole):
            u16[line + i * 64] = u16[first + i * 64]
        with when(rest > 0):
            u16[line + whole * 64] = u16[first + whole * 64, u16.below(rest)]


def _paired(parts: Parts, r: Any, to: Value, source: Value, count: Value, odd: Register) -> None:
    """`count` pixels of an odd number of numbers that follow one another, each with a zero behind it: as many at a time
    as a line has.
    """
    u16, f32, each = U16.vector(2 * parts.tier.lanes), F32.vector(parts.tier.lanes), r.run + 1
    places, held = u16(range(u16.lanes)), divide(I64(u16.lanes), each)
    # The pixel of each place: with fewer than 32 places and 16 numbers, 1024 / each rounded up divides as `each` does.
    pixel = places * u16((divide(r.run + 1024, each)).to(U16)) >> 10
    inside = places - pixel * u16(each.to(U16)) < u16(r.run.to(U16))

    def spread(bits: Value) -> Value:
        return choose(inside, parts.tier.isa.permute_halves(bits, places - pixel), u16(0))

    for j in over(0, count, held):
        numbers, at, into = r.run * smaller(count - j, held), source + j * r.x_step, to + j * r.pixel_step
        with either(r.x_item == 2, likely=False) as (narrow, wide):
            with narrow:
                u16[into] = spread(u16[at, u16.below(numbers)])
            with wide:
                found = [f32[at, f32.below(numbers)], f32[at + 64, f32.below(numbers - 16)]]
                put_parts(parts, r, into, found, spread)
                if parts.asked:
                    odd.value = seen(parts.element, odd.value, found)


def _few(parts: Parts, r: Any, k: int, to: Value, source: Value, count: Value, odd: Register) -> None:
    """`count` pixels of k numbers that follow one another, each with a zero behind it."""
    lanes = parts.tier.lanes
    f32, held = F32.vector(lanes), lanes // (k + 1)
    order = [k * (i // (k + 1)) + i % (k + 1) if i % (k + 1) < k else lanes for i in range(lanes)]

    def group(j: Value, rest: Value) -> None:
        """2 * held pixels from the j-th on, of which there are `rest`."""
        at = source + j * (4 * k)
        found = [f32[at + 4 * k * held * i, f32.below(k * smaller(rest - held * i, held))] for i in range(2)]
        found = [shuffle(x, order, f32(0.0)) for x in found]
        put_parts(parts, r, to + j * (2 * k + 2), found)
        for x in found if parts.asked else ():
            odd.value |= lost(parts.element, seen(parts.element, U32.vector(lanes)(0), [x]), k + 1)

    whole = count & -(2 * held)
    for j in over(0, whole, 2 * held):
        group(j, I64(2 * held))
    with when(whole < count):
        group(whole, count - whole)


def _runs(parts: Parts, r: Any, to: Value, source: Value, runs: tuple[Value, Value], odd: Register) -> None:
    """`count` pixels, each `run` numbers, and zeros up to a whole line; runs: both."""
    count, run = runs
    f32, lanes = F32.vector(parts.tier.lanes), parts.tier.lanes
    found = register(U32.vector(lanes)(0))

    def put(at: Value, left: list[Value]) -> None:
        put_parts(parts, r, at, left)
        if parts.asked:
            found.value = seen(parts.element, found.value, left)

    for j in over(count):
        first, line = source + j * r.x_step, to + j * r.pixel_step
        whole, rest = run >> 5, run & 31
        for i in over(whole):
            at = first + i * 128
            put(line + i * 64, [f32[at], f32[at + 64]])
        with when(rest > 0):
            at = first + whole * 128
            put(line + whole * 64, [f32[at, f32.below(rest)], f32[at + 64, f32.below(rest - 16)]])
        odd.value |= lost(parts.element, found.value, lanes)
        found.value = U32.vector(lanes)(0)


def put_parts(
    parts: Parts, r: Any, to: Value, left: list[Value], placed: Callable[[Value], Value] = lambda bits: bits
) -> None:
    """32 numbers, a line of each plane; placed: the order in which they are stored."""
    u16 = U16.vector(2 * parts.tier.lanes)
    if parts.exact:
        for p, shift in zip(parts.places, (16, 0), strict=True):
            u16[to + p * r.plane] = placed(joined(*((x.bits(U32) >> shift).to(U16) for x in left)))
        return
    if parts.element == "f16":
        u16[to] = joined(*(x.to(F16).bits(U16) for x in left))
        return
    for p in parts.places:
        cut = p == 0 and parts.planes > 2
        bits = parts.tier.isa.to_bf16(*([_cut(x) for x in left] if cut else left))
        u16[to + p * r.plane] = placed(bits)
        left = [x - (half.to(U32) << 16).bits(F32) for x, half in zip(left, halves(bits), strict=True)]


def _cut(x: Value) -> Value:
    """f32 truncated to bf16: unlike rounding it never overflows."""
    return choose(is_nan(x), x, (x.bits(U32) & 0xFFFF0000).bits(F32))


def seen(element: str, before: Value, numbers: list[Value]) -> Value:
    """`before`, updated by numbers lane by lane: for bf16 whether one is out of range, for f16 the largest size."""
    for x in numbers:
        size = x.bits(U32) & 0x7FFFFFFF
        before = larger(before, size) if element == "f16" else before | _is_odd(element, size)
    return before


def lost(element: str, found: Value, lanes: int) -> Value:
    """Not 0 in lanes whose `seen` numbers may lose bits in parts; of f16 all `lanes` lanes count together."""
    if element == "bf16":
        return found
    for step in (1, 2, 4, 8):
        if step < lanes:
            found = larger(found, shuffle(found, [i ^ step for i in range(found.lanes)]))
    return _is_odd(element, found)


def _is_odd(element: str, size: Value) -> Value:
    """Not 0 in lanes whose size (the bits of f32) is not 0, and not within pack_real.SIZES."""
    least, most = (int(np.float32(bound).view(np.uint32)) for bound in SIZES[element])
    return ((size - least > most - least) & (size != 0)).to(U32)
