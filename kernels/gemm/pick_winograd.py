"""A 3x3 convolution's geometry -> tile sizes, bands and scratch of the winograd kernel. Pure arithmetic."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..isa.tiers import Tier
from .heights import mains
from .pick_conv import Geometry, row_of_band
from .pick_dot import F32, L2, STANDARD, columns_first, max_rows, tile_cost

BANDWIDTH = {1: 6.5, 2: 9.2}
"""Bytes per cycle that so many threads together read from memory, where a network's weights come from."""
MOST_CHANNELS = 512
"""Input channels up to which the error of m = 4 was measured: it grows with their square root."""
TRANSFORM_CYCLES = {2: (50, 45), 4: (130, 130)}
"""Of one vector of a tile's input, and of its output."""


class WinogradChoice(NamedTuple):
    """How winograd computes a convolution; `params` makes the kernel.

    fields: the slots of `rows.WINOGRAD` that the geometry decides; x, w, y, ldy and scratch are left.
    """

    m: int
    nv: int
    params: dict[str, Any]
    fields: dict[str, int]

    @property
    def scratch(self) -> int:
        """Bytes for each thread, 64-byte aligned."""
        return self.fields["scratch_bytes"]


def suits_winograd(g: Geometry) -> bool:
    """Whether the kernel can compute it: 3x3, two spatial dimensions, stride and dilation 1, one group."""
    plain = g.strides == g.dilations == (1, 1, 1)
    return plain and g.kernel == (1, 3, 3) and g.groups == 1 and g.out[0] == 1 == g.size[0]


def best_winograd(tier: Tier, g: Geometry, largest: int = 4, l2: int = L2) -> int | None:
    """The m (at most `largest`, 2 or 4) to compute a convolution with; None where the conv kernel is as good.

    m = 2 is more exact than the plain sum. m = 4 errs up to twice as much as it: by less than 5e-6 of the largest
    output for up to MOST_CHANNELS channels, above which it isn't chosen. Threads don't matter: m changes the result.
    """
    if not suits_winograd(g) or g.c < tier.lanes:
        return None
    plain = _times(_plain_cycles(tier, g), 9 * g.c * g.n)
    two, four = (_times(_cycles(tier, g, m, l2), (m + 2) ** 2 * g.c * g.n) for m in (2, 4))
    if largest >= 4 and g.c <= MOST_CHANNELS and _beats(four, two, 1.2) and _beats(four, plain, 1.15):
        return 4
    return 2 if _beats(two, plain, 1.15) else None


def _times(cycles: float, weights: int) -> list[float]:
    """Cycles until one thread, or two, have done the work and read the weights from memory."""
    pairs = [(cycles / threads, weights * 4 / bandwidth) for threads, bandwidth in BANDWIDTH.items()]
    return [max(pair) + min(pair) / 8 for pair in pairs]


def _beats(times: list[float], others: list[float], factor: float) -> bool:
    """Whether it is faster by that factor on one thread, and faster at all on two."""
    return times[0] * factor < others[0] and times[1] < others[1]


def _plain_cycles(tier: Tier, g: Geometry) -> float:
    """Of the conv kernel in full tiles."""

    def cost(nv: int) -> float:
        mr = max_rows(tier, nv)
        return tile_cost(tier, mr, nv, g.k) / mr * -(-g.n // (nv * tier.lanes))

    return g.images * g.out[1] * g.out[2] * min(cost(nv) for nv in range(1, 9 if tier.registers == 32 else 5))


def _cycles(tier: Tier, g: Geometry, m: int, l2: int) -> float:
    """Of the dots, in tiles of one height, and of the transforms, without waiting for memory."""
    band, nv = _bands(tier, g, m, 1, l2)
    down, across, places = -(-g.out[1] // m), -(-g.out[2] // m), (m + 2) ** 2
    largest = max_rows(tier, nv)
    whole, rest = divmod(down, band)

    def cost(rows: int) -> float:
        count = whole * -(-band * across // rows) + -(-rest * across // rows)
        return count * tile_cost(tier, rows, nv, g.c)

    best = min(range(1, min(largest, band * across) + 1), key=lambda h: cost(h) * (STANDARD if h == largest else 1))
    dots = g.images * cost(best) * -(-g.n // (nv * tier.lanes)) * places
    there, back = TRANSFORM_CYCLES[m]
    transforms = -(-g.c // tier.lanes) * there + -(-g.n // tier.lanes) * back
    return dots + g.images * down * across * transforms


def _v_row(tier: Tier, g: Geometry) -> int:
    """Bytes from tile to tile of the transformed input; multiples of 4 KiB would collide in the cache."""
    row = -(-g.c // tier.lanes) * tier.lanes * 4
    return row + 64 if row % 4096 == 0 else row


def _bands(tier: Tier, g: Geometry, m: int, units: int, l2: int) -> tuple[int, int]:
    """(rows of Winograd tiles in a band, nv); the number of bands is a multiple of `units` where it can be."""
    down, across, places = -(-g.out[1] // m), -(-g.out[2] // m), (m + 2) ** 2
    nv = 1 if g.n <= tier.lanes else 2
    largest = max_rows(tier, nv)
    # Every band reads all weights, so that it has enough tiles even where they leave the cache.
    tiles = max(l2 * 3 // 4 // (places * (_v_row(tier, g) + nv * tier.lanes * 4)), 2 * largest)
    bands = -(-down // min(max(tiles // across, 1), down))
    return -(-down // min(-(-bands // units) * units, down)), nv


def _height(tier: Tier, g: Geometry, band: int, across: int, down: int, nv: int) -> int:
    """The best height of dot's tiles, each row of which is a Winograd tile."""

    def cost(height: int) -> float:
        whole, last = (F32.rows_cost(tier, rows * across, height, nv, g.c) for rows in (band, down % band))
        return down // band * whole + last

    return min(sorted(mains(band * across, max_rows(tier, nv), nv, g.c)), key=cost)


def pick_winograd(tier: Tier, g: Geometry, m: int = 2, threads: int = 1, l2: int = L2) -> WinogradChoice:
    """The choice for a geometry that suits_winograd; m x m outputs a tile."""
    lanes = tier.lanes
    down, across, places = -(-g.out[1] // m), -(-g.out[2] // m), (m + 2) ** 2
    band, nv = _bands(tier, g, m, 1, l2)
    panels = -(-g.n // (nv * lanes))
    size = g.c * g.size[1] * g.size[2]
    by_columns = columns_first(g.images * down, panels, size, places * g.c * g.n, threads)
    if not by_columns and g.images % threads:
        band, nv = _bands(tier, g, m, threads, l2)
    height, v_row = _height(tier, g, band, across, down, nv), _v_row(tier, g)

    row = row_of_band(g, across * m + 2, g.c * 4, 1)
    v_plane, s_plane = band * across * v_row + 64, band * across * nv * lanes * 4 + 64
    v_start = -(-((band * m + 2) * row["band_y"] + 128) // 64) * 64
    s_start = v_start + places * v_plane + 64
    o_start = s_start + places * s_plane
    fields = {
        "images": g.images, "out_h": g.out[1], "out_w": g.out[2], "n": g.n, "k": g.c, "x_image": 4 * g.x_strides[0],
        "x_y": 4 * g.x_strides[2], "h": g.size[1], "pad_y": g.pads[1], "band": band, "across": across,
        "height": height, **row, "pixel": g.c * 4, "v_start": v_start, "v_row": v_row, "v_plane": v_plane,
        "s_start": s_start, "s_plane": s_plane, "o_start": o_start,
        "scratch_bytes": o_start + m * g.out[2] * nv * lanes * 4, "by_columns": int(by_columns),
    }  # fmt: skip
    return WinogradChoice(m, nv, {"m": m, "nv": nv}, fields)
