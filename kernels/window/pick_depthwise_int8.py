"""Depthwise convolution of bytes: which products a tile sums and how, its packed constants, kernel and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from ..isa.lanes import PARTS, lane_order
from ..isa.tiers import Tier
from .pick import Window, window_args
from .pick_int8_pairs import pair_args

SIZES, STRIDES = (3, 5), (1, 2)
"""Of kernels that are unrolled."""
TILES = {3: (7, 5, 3, 1), 5: (7, 3, 1)}
"""Outputs of a row that such a kernel computes together, as long as there are so many, by its size: most maps are 7 *
2**n wide.
"""
L1 = 32 << 10
"""Bytes of the first-level cache that lines and constants may fill."""
INTERLEAVED = {1: 2.75, 2: 2.2}
"""So much longer than by the count of products take windows of 5 columns, by the stride, on tiers that multiply pairs
only and have 16 registers: fitted to 28 layers on AVX2, beside the kernel of pairs across pixels."""


class Scheme:
    """How `rows` rows of outputs come from interleaved input: `group` input rows make up a 32-bit lane.

    The kernel has size x size taps. Weights are 16-bit numbers in pairs when `group` is 2, bytes in fours when it is 4.
    """

    def __init__(self, size: int, stride: int, rows: int, group: int) -> None:
        self.size, self.stride, self.rows, self.group = size, stride, rows, group

    @cached_property
    def lines(self) -> range:
        """The input rows that are read, counted from the first output row's first."""
        return range((self.rows - 1) * self.stride + self.size)

    @cached_property
    def sources(self) -> list[tuple[int, ...]]:
        """The operands of each interleaving: up to `group` lines of one column, or one line of as many columns."""
        full = len(self.lines) // self.group * self.group
        groups = [tuple(range(k, k + self.group)) for k in range(0, full, self.group)]
        rest = tuple(self.lines[full:])
        flat = [(line,) for line in rest]
        return min([*groups, rest] if rest else groups, [*groups, *flat], key=lambda found: len(self._terms(found)))

    def taps(self, row: int, source: tuple[int, ...], q: int) -> list[tuple[int, int] | None]:
        """The (row, column) of the kernel that output row `row` multiplies each interleaved byte with, if any."""
        count = min(self.group, self.size - q) if len(source) == 1 else len(source)
        found: list[tuple[int, int] | None] = [None] * self.group
        for k in range(count):
            line, column = (source[0], q + k) if len(source) == 1 else (source[k], q)
            if 0 <= line - row * self.stride < self.size:
                found[k] = line - row * self.stride, column
        return found

    def _terms(self, sources: list[tuple[int, ...]]) -> list[tuple[int, int, int]]:
        steps = [self.group if len(source) == 1 else 1 for source in sources]
        terms = [(i, s, q) for s, step in enumerate(steps) for q in range(0, self.size, step) for i in range(self.rows)]
        return [(i, s, q) for i, s, q in terms if any(self.taps(i, sources[s], q))]

    @cached_property
    def terms(self) -> list[tuple[int, int, int]]:
        """(output row, source, first column of the kernel): one vector of products for each of PARTS."""
        return self._terms(self.sources)


def group_of(wide: bool) -> int:
    """Rows of input that are interleaved for weights of 16 bits, or of bytes."""
    return 2 if wide else 4


@cache
def scheme_of(tier: Tier, size: int, stride: int, wide: bool) -> Scheme:
    """The scheme of a kernel: its rows are as many as its groups hold anyhow, and the registers."""
    group = group_of(wide)
    one = Scheme(size, stride, 1, group)
    best = one
    parts = PARTS if tier.registers >= 32 else PARTS // 2
    for rows in (2, 3, 4):
        scheme = Scheme(size, stride, rows, group)
        held = (size * len(scheme.sources) + rows) * parts
        if len(scheme.sources) <= len(one.sources) and held <= tier.registers - 4:
            best = scheme
    return best


class Part(NamedTuple):
    """A kernel and its parameters for `channels` of a layer's channels (of y) from `start` on."""

    start: int
    channels: int
    name: str
    params: dict[str, Any]


def is_unrolled(g: Window) -> bool:
    """Whether there are unrolled kernels for a window, no output of which sees padding only."""
    size, stride = g.kernel[1], g.strides[1]
    square = g.kernel == (1, size, size) and g.strides[1:] == (stride, stride) and not g.dilated
    beyond = any(pad >= reach for pad, reach in zip((*g.pads, *g.ends), g.reach * 2, strict=True))
    return square and size in SIZES and stride in STRIDES and not beyond


def in_pixels(tier: Tier, g: Window, wide: bool) -> tuple[Part, ...]:
    """The unrolled kernels whose vectors hold the channels of one pixel, or of a few."""
    params = {"size": g.kernel[1], "stride": g.strides[1], "wide": wide}
    blocks = _blocks(tier, g.channels, g.out[2], 4 if g.kernel[1] == 3 else 2)
    return tuple(Part(start, n, "depthwise_int8", {**params, "pieces": pieces}) for start, n, pieces in blocks)


def across_pixels(tier: Tier, g: Window, wide: bool) -> Part | None:
    """The unrolled kernel whose vectors run across pixels; None where there are too few rows."""
    params = {"size": g.kernel[1], "stride": g.strides[1], "wide": wide}
    return Part(0, g.channels, "depthwise_int8_across", params) if g.out[1] >= _scheme(tier, params).rows else None


def _blocks(tier: Tier, c: int, out_w: int, most: int) -> list[tuple[int, int, int]]:
    """(start, channels, pixels in a vector, at most `most`) of the kernels that share c channels."""
    full = 4 * tier.lanes
    rest = c % full
    # Of many channels the rest is too small a part to pay for a second pass.
    if rest in (full // 2, full // 4) and rest >= max(16, full // most) and c < 3 * full and out_w * rest >= 2 * full:
        return [(0, c - rest, 1)] * (c > rest) + [(c - rest, rest, full // rest)]
    return [(0, c, 1)]


def window_cycles(tier: Tier, g: Window) -> float:
    """Cycles per output pixel of the kernel for any window."""
    return (8 + PARTS * g.kernel[1] * g.kernel[2]) * -(-g.channels // (4 * tier.lanes))


def pixel_cycles(tier: Tier, parts: Sequence[Part]) -> float:
    """Cycles per output pixel of the kernels by pixel, whose vectors few channels don't fill."""
    full = 4 * tier.lanes
    vectors = sum(-(-p.channels // full) * (1 / p.params["pieces"] + 0.15 * (p.params["pieces"] > 1)) for p in parts)
    return _vector_cycles(tier, parts[0].params) * vectors


def across_cycles(tier: Tier, g: Window, part: Part, ldx: int) -> float:
    """Cycles per output pixel of the kernel across pixels: arithmetic, shared by fewer outputs, and copies of lines."""
    scheme, c = _scheme(tier, part.params), g.channels
    line, _, lines, period = _lines(part.params, g, tier)
    constants = period * (2 + len(scheme.terms)) * PARTS * 4 * tier.lanes
    slow = 2 if line * lines + constants > L1 else 1.4
    copies = 5 * scheme.stride if scheme.stride > 1 or ldx != c else 0.05 * c
    vector = _vector_cycles(tier, part.params)
    return slow * vector * max(c / (4 * tier.lanes), 1 / g.out[2]) + copies * scheme.stride


def _vector_cycles(tier: Tier, params: dict[str, Any]) -> float:
    scheme, beside = _scheme(tier, params), params["size"] == 5 and not tier.byte_dot and tier.registers < 32
    return (8 + PARTS * len(scheme.terms) / scheme.rows / 2) * (INTERLEAVED[scheme.stride] if beside else 1)


def vectors_of(params: dict[str, Any], c: int, width: int) -> np.ndarray:
    """[vectors, width]: the channel of each byte of the vectors that have constants of their own."""
    if params.get("pieces", 0 if "size" in params else 1) != 1:
        return (np.arange(c // gcd(c, width) * width) % c).reshape(-1, width)
    starts = np.minimum(np.arange(0, c, width), max(c - width, 0))
    return np.minimum(starts[:, None] + np.arange(width), c - 1)


def pack_depthwise_int8(
    name: str, params: dict[str, Any], tier: Tier, weights: np.ndarray, bias: np.ndarray, multipliers: np.ndarray
) -> np.ndarray:
    """The constants of a kernel as bytes, but for those of `depthwise_int8_any`.

    weights: [k_h, k_w, c] less their zero point; bias: int32 [c], folded with x's zero point; multipliers: f32 [c].
    """
    width = 4 * tier.lanes
    channels = vectors_of(params, weights.shape[-1], width)[:, lane_order(width)]
    kind = np.dtype(np.int16 if params["wide"] else np.int8)
    assert (weights == weights.astype(kind)).all()
    parts = [bias.astype(np.int32)[channels][..., None], multipliers.astype(np.float32)[channels][..., None]]
    for taps in _taps(name, params, tier, *weights.shape[:2]):
        columns = [np.zeros(channels.shape) if tap is None else weights[tap][channels] for tap in taps]
        parts.append(np.stack(columns, -1).astype(kind))
    raw = [np.ascontiguousarray(p).view(np.uint8).reshape(len(channels), -1) for p in parts]
    return np.concatenate(raw, 1).reshape(-1)


def halves(weights: np.ndarray) -> np.ndarray:
    """Weights less their zero point, of up to 16 bits, as the lower halves of int32; the upper ones are 0."""
    return weights.astype(np.int32) & 0xFFFF


def _taps(name: str, params: dict[str, Any], tier: Tier, k_h: int, k_w: int) -> list[list[tuple[int, int] | None]]:
    """For each vector of products: the (row, column) of the kernel whose weights are together in a lane."""
    if name == "depthwise_int8_window":
        group = group_of(params["wide"])
        rows = [[p if p < k_h else None for p in range(first, first + group)] for first in range(0, k_h, group)]
        return [[None if p is None else (p, q) for p in lines] for lines in rows for q in range(k_w)]
    scheme = _scheme(tier, params)
    return [scheme.taps(i, scheme.sources[g], q) for i, g, q in scheme.terms]


def depthwise_int8_args(tier: Tier, name: str, params: dict[str, Any], window: Window, threads: int) -> dict[str, int]:
    """The slots of a planned kernel that follow from the window: all but addresses, strides of pixels and the layer's
    zero points and bounds."""
    found = window_args(tier, name, params, window, 1 if "size" in params else threads)
    if name in ("depthwise_int8", "depthwise_int8_window"):
        band = _band(tier, window, params, threads) if "size" in params else 1
        found |= {"block": 4 * tier.lanes, "band": band}
    if name == "depthwise_int8_across":
        line, plane, lines, period = _lines(params, window, tier)
        found |= {"line": line, "plane": plane, "lines": lines, "period": period, "scratch_bytes": line * lines + 128}
    if name == "depthwise_int8_pairs":
        found |= pair_args(tier, window, threads)
    return found


def _scheme(tier: Tier, params: dict[str, Any]) -> Scheme:
    return scheme_of(tier, params["size"], params["stride"], params["wide"])


def _band(tier: Tier, g: Window, params: dict[str, Any], threads: int) -> int:
    """Rows of y computed for a vector of channels before the next: all, but enough bands for all threads."""
    rows, blocks = _scheme(tier, params).rows, -(-g.channels // (4 * tier.lanes))
    tiles, units = -(-g.out[1] // rows), g.images * blocks
    bands = 1 if units % threads == 0 or units >= 8 * threads else threads
    return max(1, -(-tiles // min(bands, max(tiles, 1)))) * rows


def _lines(params: dict[str, Any], g: Window, tier: Tier) -> tuple[int, int, int, int]:
    """(bytes of a padded line, of a plane of it, lines kept, vectors after which constants repeat).

    A line has a plane for each remainder of columns by the stride: there the outputs' columns are neighbors.
    """
    c, stride = g.channels, params["stride"]
    plane = (g.out[2] + (params["size"] - 1) // stride) * c
    line = -(-(stride * plane + 64) // 64) * 64
    width = 4 * tier.lanes
    return line, plane, len(_scheme(tier, params).lines), c // gcd(c, width)


def fill_bytes(tier: Tier, params: dict[str, Any], ldx: int) -> int:
    """How many zero points of x a kernel reads in place of padding."""
    if "size" not in params:
        return 4 * tier.lanes
    return ((TILES[params["size"]][0] - 1) * params["stride"] + params["size"] - 1) * ldx + 4 * tier.lanes
