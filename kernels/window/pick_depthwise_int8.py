"""Depthwise convolution of bytes: which products a tile sums and how, its packed constants, kernel and shapes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from ..isa.lanes import PARTS, lane_order
from ..isa.tiers import Tier
from .pick import Window, window_args

TILES = (7, 8, 6, 5, 4, 3, 2, 1)
"""Outputs of a row in a tile; most maps are 7 * 2**n wide."""
STANDARD = 0.97
"""What a cost is multiplied by for the first of the tiles that fit: fewer kernels to compile."""
MOST_TAPS = 64
"""Taps of the largest window that is unrolled."""
L1 = 32 << 10
"""Bytes of the first-level cache that lines and constants may fill."""


@dataclass(frozen=True)
class Scheme:
    """How `rows` rows of outputs come from interleaved input: `group` input rows make up a 32-bit lane.

    Weights are 16-bit numbers in pairs when `group` is 2, bytes in fours when it is 4.
    """

    kh: int
    kw: int
    sh: int
    dh: int
    rows: int
    group: int

    @cached_property
    def lines(self) -> list[int]:
        """The input rows that are read, counted from the first output row's first."""
        return sorted({i * self.sh + p * self.dh for i in range(self.rows) for p in range(self.kh)})

    @cached_property
    def sources(self) -> list[tuple[int, ...]]:
        """What is interleaved: `group` lines, or fewer, of one column; or one line, of as many columns."""
        full = len(self.lines) // self.group * self.group
        groups = [tuple(range(k, k + self.group)) for k in range(0, full, self.group)]
        rest = tuple(range(full, len(self.lines)))
        flat = [(line,) for line in rest]
        return min([*groups, rest] if rest else groups, [*groups, *flat], key=lambda found: len(self._terms(found)))

    def taps(self, row: int, source: tuple[int, ...], q: int) -> list[tuple[int, int] | None]:
        """The (row, column) of the kernel that output row `row` multiplies each interleaved byte with, if any."""
        count = min(self.group, self.kw - q) if len(source) == 1 else len(source)
        found: list[tuple[int, int] | None] = [None] * self.group
        for k in range(count):
            line, column = (source[0], q + k) if len(source) == 1 else (source[k], q)
            p, odd = divmod(self.lines[line] - row * self.sh, self.dh)
            if 0 <= p < self.kh and not odd:
                found[k] = p, column
        return found

    def _terms(self, sources: list[tuple[int, ...]]) -> list[tuple[int, int, int]]:
        steps = [self.group if len(source) == 1 else 1 for source in sources]
        terms = [(i, s, q) for s, step in enumerate(steps) for q in range(0, self.kw, step) for i in range(self.rows)]
        return [(i, s, q) for i, s, q in terms if any(self.taps(i, sources[s], q))]

    @cached_property
    def terms(self) -> list[tuple[int, int, int]]:
        """(output row, source, first column of the kernel): one vector of products for each of PARTS."""
        return self._terms(self.sources)


def scheme_of(params: dict[str, Any]) -> Scheme:
    """The scheme of a kernel's parameters."""
    p = params
    return Scheme(p["kh"], p["kw"], p["sh"], p["dh"], p["rows"], 2 if p["wide"] else 4)


class Part(NamedTuple):
    """A kernel and its parameters for `channels` of a layer's channels (of y) from `start` on."""

    start: int
    channels: int
    name: str
    params: dict[str, Any]


@lru_cache(1024)
def plan_depthwise_int8(
    tier: Tier, window: Window, ldx: int, ldy: int, bytewise: bool, multiplier: int = 1, out: str = "bytes"
) -> tuple[Part, ...]:
    """The kernels of a layer whose output channel o reads input channel o // multiplier.

    bytewise: the weights less their zero point fit into signed bytes. out: one of gemm's STORES.
    """
    g, c = window, window.channels
    (kh, kw), (sh, sw), (dh, dw) = g.kernel[1:], g.strides[1:], g.dilations[1:]
    # A larger padding than the kernel reaches would have outputs that see nothing else.
    beyond = any(pad >= reach for pad, reach in zip((*g.pads, *g.ends), g.reach * 2, strict=True))
    if multiplier != 1 or out != "bytes" or kh * kw > MOST_TAPS or beyond:
        return (Part(0, c, "depthwise_int8_any", {"out": out}),)
    wide = not (tier.vnni and bytewise)
    dh, dw = dh if kh > 1 else 1, dw if kw > 1 else 1
    rows = _rows(tier, kh, kw, sh, dh, 2 if wide else 4, min(g.out[1], 4))
    params = {"kh": kh, "kw": kw, "sh": sh, "sw": sw, "dh": dh, "dw": dw, "rows": rows, "wide": wide}
    blocks = _blocks(tier, c, g.out[2])
    if ldy == c and _across_pays(tier, g, params, ldx, blocks):
        return (Part(0, c, "depthwise_int8_across", params),)
    return tuple(
        Part(start, channels, "depthwise_int8", {
            **params, "tile": _tile(-(-g.out[2] // pieces), kw, sw), "lanes": width // 4, "partial": channels < width
            and pieces == 1, "pieces": pieces,
        })
        for start, channels, width, pieces in blocks
    )  # fmt: skip


def _blocks(tier: Tier, c: int, ow: int) -> list[tuple[int, int, int, int]]:
    """(start, channels, bytes of a vector, pixels in a vector) of the kernels that share c channels."""
    full = 4 * tier.lanes
    rest = c % full
    # Of many channels the rest is too small a part to pay for a second pass.
    if rest in (full // 2, full // 4) and rest >= 16 and c < 3 * full and ow * rest >= 2 * full:
        return [(0, c - rest, full, 1)] * (c > rest) + [(c - rest, rest, full, full // rest)]
    return [(0, c, max((w for w in (64, 32, 16) if w <= min(full, c)), default=16), 1)]


def _across_pays(
    tier: Tier, g: Window, params: dict[str, Any], ldx: int, blocks: list[tuple[int, int, int, int]]
) -> bool:
    """Whether vectors across pixels take less time than those of a pixel, which few channels don't fill.

    Estimates in cycles per output pixel: the arithmetic, shared by fewer outputs across pixels, and copies of lines.
    """
    c, scheme = g.channels, scheme_of(params)
    vector = 8 + PARTS * len(scheme.terms) / scheme.rows / 2
    line, _, lines, period = _lines(params, g, tier)
    constants = period * (2 + len(scheme.terms)) * PARTS * 4 * tier.lanes
    slow = 2 if line * lines + constants > L1 else 1.4
    copies = 5 * params["sw"] if params["sw"] > 1 or ldx != c else 0.05 * c
    across = slow * vector * max(c / (4 * tier.lanes), 1 / g.out[2]) + copies * params["sh"]
    pixel = sum(-(-n // width) * (1 / pieces + 0.15 * (pieces > 1)) for _, n, width, pieces in blocks)
    return across < vector * pixel


@cache
def _rows(tier: Tier, kh: int, kw: int, sh: int, dh: int, group: int, most: int) -> int:
    """Rows of outputs that share interleaved input: as many as its groups hold anyhow, and the registers."""
    one = Scheme(kh, kw, sh, dh, 1, group)
    best = 1
    for rows in (2, 3, 4):
        scheme = Scheme(kh, kw, sh, dh, rows, group)
        parts = PARTS if tier.registers == 32 else PARTS // 2
        held = (kw * len(scheme.sources) + rows) * parts
        if rows <= most and len(scheme.sources) <= len(one.sources) and held <= tier.registers - 4:
            best = rows
    return best


def _tile(ow: int, kw: int, sw: int) -> int:
    """The tile whose outputs, the last ones perhaps computed twice, cost least."""

    def cost(t: int) -> float:
        return -(-ow // t) * (t * 40 + (kw - sw) * 8 + 12) * (STANDARD if t == TILES[0] else 1)

    return min((t for t in TILES if t <= max(ow, 1)), key=cost)


def vectors_of(params: dict[str, Any], c: int, width: int) -> np.ndarray:
    """[vectors, width]: the channel of each byte of the vectors that have constants of their own."""
    if params.get("pieces", 0) != 1:
        return (np.arange(c // gcd(c, width) * width) % c).reshape(-1, width)
    starts = np.minimum(np.arange(0, c, width), max(c - width, 0))
    return np.minimum(starts[:, None] + np.arange(width), c - 1)


def pack_depthwise_int8(
    name: str, params: dict[str, Any], tier: Tier, weights: np.ndarray, bias: np.ndarray, multipliers: np.ndarray
) -> np.ndarray:
    """The constants of a kernel as bytes.

    weights: [kh, kw, c] less their zero point; bias: int32 [c], folded with x's zero point; multipliers: f32 [c].
    Kernel "depthwise_int8_any" has int32 weights and multiplies x less its zero point: its bias is not folded.
    """  # fmt: skip
    if name == "depthwise_int8_any":
        parts = [bias.astype(np.int32), multipliers.astype(np.float32), weights.astype(np.int32)]
        return np.concatenate([np.ascontiguousarray(p).view(np.uint8).reshape(-1) for p in parts])
    scheme, across = scheme_of(params), name == "depthwise_int8_across"
    width = 4 * (tier.lanes if across else params["lanes"])
    channels = vectors_of(params, weights.shape[-1], width)[:, lane_order(width)]
    kind = np.dtype(np.int16 if scheme.group == 2 else np.int8)
    assert (weights == weights.astype(kind)).all()
    parts = [bias.astype(np.int32)[channels][..., None], multipliers.astype(np.float32)[channels][..., None]]
    for i, g, q in scheme.terms:
        taps = scheme.taps(i, scheme.sources[g], q)
        columns = [np.zeros(channels.shape) if tap is None else weights[tap][channels] for tap in taps]
        parts.append(np.stack(columns, -1).astype(kind))
    raw = [np.ascontiguousarray(p).view(np.uint8).reshape(len(channels), -1) for p in parts]
    return np.concatenate(raw, 1).reshape(-1)


def depthwise_int8_args(
    tier: Tier, name: str, params: dict[str, Any], window: Window, threads: int = 1
) -> dict[str, int]:
    """The slots of a planned kernel that follow from the window: all but addresses, distances of pixels and numbers of
    the layer.
    """
    found = window_args(tier, name, params, window)
    if name == "depthwise_int8":
        found["band"] = _band(window, params, threads)
    if name == "depthwise_int8_across":
        line, plane, lines, period = _lines(params, window, tier)
        found |= {"line": line, "plane": plane, "lines": lines, "period": period, "scratch_bytes": line * lines + 128}
    return found


def _band(g: Window, params: dict[str, Any], threads: int) -> int:
    """Rows of y computed for a vector of channels before the next: all, but enough bands for all threads."""
    rows, blocks = params["rows"], -(-g.channels // (4 * params["lanes"]))
    tiles, units = -(-g.out[1] // rows), g.images * blocks
    bands = 1 if units % threads == 0 or units >= 8 * threads else threads
    return max(1, -(-tiles // min(bands, max(tiles, 1)))) * rows


def _lines(params: dict[str, Any], g: Window, tier: Tier) -> tuple[int, int, int, int]:
    """(bytes of a padded line, of a plane of it, lines kept, vectors after which constants repeat).

    A line has a plane for each remainder of columns by the stride: there the outputs' columns are neighbors.
    """
    c, sw = g.channels, params["sw"]
    plane = (g.out[2] + (params["kw"] - 1) * params["dw"] // sw) * c
    line = -(-(sw * plane + 64) // 64) * 64
    width = 4 * tier.lanes
    return line, plane, scheme_of(params).lines[-1] + 1, c // gcd(c, width)


def fill_bytes(params: dict[str, Any], ldx: int) -> int:
    """How many zero points of x "depthwise_int8" reads in place of what lies outside of x."""
    return ((params["tile"] - 1) * params["sw"] + (params["kw"] - 1) * params["dw"]) * ldx + 64
