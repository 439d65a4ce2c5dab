"""Sliding windows -> kernel, parameters and shapes of a depthwise convolution or a pool. Pure arithmetic."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache, partial
from math import gcd, prod
from typing import Any, NamedTuple

from ..core.table import row
from ..gemm.pick_conv import Triple
from ..gemm.pick_dot import L2, idle
from ..isa.tiers import Tier
from .rows import GROUP, UNROLLED_ROWS, across_channels, has_across, wide_tile

TILES = (7, 8)
"""Outputs in a tile of depthwise convolution. Most maps are 7 * 2**n wide."""
ROWS = 3
"""The most rows of a window of this width in tiles: they are unrolled. Others have any number."""
STANDARD = 0.97
"""Factor on the cost of the first of TILES, which prefers it: fewer kernels to load."""
OVERHEAD = 6
"""Cycles that a tile takes beyond its arithmetic."""
STEP, UNROLLED_STEP = 4, 1
"""Cycles that a tile takes for a row of the window, or for each of its taps or of the groups of them that it adds
together, beyond the arithmetic; the second where rows are unrolled."""
SPILLED = 1.4
"""So much longer takes the arithmetic of taps that are added together, where two vectors of them and of their sums are
more than there are registers. One vector is as slow where the pixels of a tile want more than CROWDED lines of a set of
the first-level cache: it reads half of each line at a time."""
CROWDED, SETS, LINE, L1 = 20, 64, 64, 32 << 10
APART = 5
"""So many lines of a set under a tile stay in the cache. Where there are more, tiers of 16 registers copy a line or two
of each pixel: as many as leave the rows of a window in the cache. Fitted to 22 layers of windows of 3 to 11."""
LEAST_SPACED = 3
"""Where the outputs of a tile are n columns apart, tiles are used for rows of at least LEAST_SPACED * n outputs."""
LEAST_ROWS = 3
"""Rows of y for each thread, at least, where threads share them and not the channels."""
UNEVEN = 1.15
"""So much more work than the mean has no thread then."""
LEAST_COLUMNS = 16
"""Columns of y for each thread, at least, where they share these instead, as in maps of one long row."""
BLOCK, LONG_BLOCK = 128, 512
"""Channels of a pixel that are computed before the next pixels, and in pools of few rows or of bytes: memory is faster
in longer runs, and pixels a power of two apart fall into few sets of the cache."""


class Window(NamedTuple):
    """Windows over x [images, d, h, w, channels] at `out` positions; channels counts y's.

    All triples are (depth, height, width); fewer dimensions have leading ones (and pads of 0). pads: those
    before, ends: those after, of interest only to averages that include them.
    """

    images: int
    channels: int
    size: Triple
    kernel: Triple
    out: Triple
    strides: Triple = (1, 1, 1)
    dilations: Triple = (1, 1, 1)
    pads: Triple = (0, 0, 0)
    ends: Triple = (0, 0, 0)

    @property
    def flat(self) -> bool:
        """Whether the depth is one throughout."""
        return self.size[0] == self.kernel[0] == self.out[0] == 1 and self.pads[0] == self.ends[0] == 0

    @property
    def reach(self) -> Triple:
        """Extents of x that a window spans: (kernel - 1) * dilation + 1."""
        d, h, w = ((k - 1) * step + 1 for k, step in zip(self.kernel, self.dilations, strict=True))
        return d, h, w

    @property
    def dilated(self) -> bool:
        return any(d > 1 and k > 1 for d, k in zip(self.dilations, self.kernel, strict=True))

    def flattened(self) -> Window:
        """The same with fewer dimensions: windows of one column that go down row by row see all pixels in one row."""
        (_, h, w), (_, out_h, out_w), (_, k_h, k_w) = self.size, self.out, self.kernel
        (_, top, left), dilation_y = self.pads, self.dilations[1]
        if not self.flat or k_h == 1 or k_w > 1 or self.strides[1:] != (1, 1) or left or out_w != w:
            return self
        return self._replace(
            size=(1, 1, h * w), out=(1, 1, out_h * w), kernel=(1, 1, k_h), dilations=(1, 1, dilation_y * w),
            pads=(0, 0, top * w), ends=(0, 0, self.ends[1] * w),
        )  # fmt: skip

    def near_taps(self) -> Window:
        """The window with its column dilation set to the column stride where it has one column, and so no dilation."""
        (dilation_z, dilation_y, _), (_, _, k_w) = self.dilations, self.kernel
        return self if k_w > 1 else self._replace(dilations=(dilation_z, dilation_y, self.strides[2]))

    def slots(self) -> dict[str, int]:
        """The window's slots, by the names that kernels' records give them."""
        axes = ("stride", "dilation", "pad", "far_pad")
        names = [*"d h w out_d out_h out_w k_d k_h k_w".split(), *(f"{name}_{axis}" for name in axes for axis in "zyx")]
        triples = (self.size, self.out, self.kernel, self.strides, self.dilations, self.pads, self.ends)
        numbers = (number for triple in triples for number in triple)
        return {"n": self.images, "c": self.channels, **dict(zip(names, numbers, strict=True))}


@lru_cache(1024)
def depthwise_tiles(tier: Tier, g: Window, narrow: bool = False) -> dict[str, Any] | None:
    """The parameters of the kernel that computes outputs of a row in tiles; None where it can't. narrow: x and y are
    bf16."""
    shapes = ((vectors, _tiled("depthwise", g, vectors, wide_tile(tier, vectors))) for vectors in (1, 2))
    found = [{**shape, "vectors": vectors, "narrow": narrow} for vectors, shape in shapes if shape]
    usable = [params for params in found if row("depthwise").exists(tier, params)]
    step = UNROLLED_STEP if g.kernel[2] == ROWS else STEP

    def cycles(params: dict[str, Any]) -> float:
        """Outputs that a row's last tile lacks take none."""
        return _row_cycles(tier, g, params["vectors"], g.out[2], step * -(-g.out[2] // params["tile"]))

    return min(usable, key=cycles, default=None)


@lru_cache(1024)
def grouped_tiles(tier: Tier, g: Window, group: int, narrow: bool = False) -> dict[str, Any] | None:
    """As `depthwise_tiles`, for `group` channels in and out of each group: None unless a vector has several groups.
    narrow: x is bf16."""
    fits = group < tier.lanes and group in row("grouped").params["group"]
    shape = _tiled("grouped", g, group, TILES[0]) if fits else None
    if shape is None:
        return None
    more = {"element": "bf16", "tile": TILES[0]} if narrow else {"element": "f32"}
    params = {**shape, "group": group, **more}
    return params if row("grouped").exists(tier, params) else None


def _tiled(name: str, g: Window, products: int, wide: int) -> dict[str, int] | None:
    """The parameters of a kernel of tiles that follow from the window, for so many products of vectors a tap. wide: the
    tile of windows of other than 3 columns."""
    _, k_h, size = g.kernel
    fixed = row(name).params
    found = _spacing(g, fixed["stride"]) if g.flat and size in fixed["size"] else None
    if found is None or (size == ROWS and k_h > ROWS):
        return None
    stride, apart = found
    tile = _tile(-(-g.out[2] // apart), size, products) if size == 3 else wide
    return {"size": size, "stride": stride, "tile": tile}


def depthwise_any(tier: Tier, g: Window, multiplier: int) -> dict[str, Any]:
    """The parameters of the kernel for any window, in which output channel o reads input channel o // multiplier."""
    vectors = min((1, 2), key=partial(_any_cycles, tier, g.flattened())) if multiplier == 1 else 1
    return {"vectors": vectors, "repeated": multiplier > 1}


def across(tier: Tier, g: Window) -> int:
    """`across` of the kernel for any window, where its vectors run across pixels of dense rows; 0 where they can't."""
    steps, (_, k_h, k_w) = {*g.strides, *g.dilations[:2]}, g.kernel
    fits = g.flat and steps == {1} and k_w > 1 and has_across(tier, k_h)
    return across_channels(g.channels, tier.lanes) if fits and g.channels <= BLOCK else 0


def _row_cycles(tier: Tier, g: Window, vectors: int, outputs: float, beyond: float) -> float:
    """Of a row of the window in a row of y, so many outputs of which are computed, `vectors` of channels at a time;
    beyond: cycles that these take beyond the arithmetic."""
    return -(-g.channels // (vectors * tier.lanes)) * (outputs * g.kernel[2] * vectors / 2 + beyond)


def _any_cycles(tier: Tier, g: Window, vectors: int) -> float:
    """As `_row_cycles`, of the kernel for any window, in whose tiles outputs that a row lacks are computed too."""
    k_w, near, tile = g.kernel[2], g.strides[2] in (g.dilations[2], 2 * g.dilations[2]), wide_tile(tier, vectors)
    steps, tiles = k_w // GROUP + k_w % GROUP if near else k_w, -(-g.out[2] // tile)
    spilled = near and vectors > 1 and tier.registers < 32 and _lines_of_a_set(g, tile) <= CROWDED
    return _row_cycles(tier, g, vectors, tiles * tile * (SPILLED if spilled else 1), STEP * steps * tiles)


def _lines_of_a_set(g: Window, tile: int) -> float:
    """How many lines with the same channels of the pixels under a tile lie in a set of the cache."""
    pixels = g.kernel[1] * min((tile - 1) * g.strides[2] + g.reach[2], g.size[2])
    return pixels * gcd(SETS * LINE, max(4 * g.channels, LINE)) / (SETS * LINE)


def depthwise_cycles(tier: Tier, g: Window, way: str) -> float:
    """Of one thread. way: "tiles" and "across" (vectors that run across pixels) load each column once for all outputs
    of a tile; "any", a window of any size, does so within a map, not at its edges.

    Speeds of "across" are taps of a vector a cycle, fitted to 100 shapes of 2 to 60 channels, windows of 3 to 11 and
    maps of 7 to 112, on AVX-512 and AVX2.
    """
    if way == "any":
        g = g.flattened()
    rows = g.images * g.out[0] * g.out[1] * g.kernel[0] * g.kernel[1]
    if way == "any":
        return rows * min(_any_cycles(tier, g, vectors) for vectors in (1, 2))
    if way == "tiles":
        return rows * _row_cycles(tier, g, 1, g.out[2], 0)
    speed = 1.2 if g.kernel[1] not in UNROLLED_ROWS else 1.8 if tier.registers >= 32 else 1.4
    return rows * -(-g.out[2] * g.channels // tier.lanes) * g.kernel[2] / speed


def plan_pool(tier: Tier, window: Window, op: str) -> tuple[str, dict[str, Any]]:
    """(kernel, its parameters) for a pool; op as in the table."""
    pool = row("pool")
    for stride in pool.params["stride"]:
        params = {"op": op, "size": window.kernel[2], "stride": stride}
        known = all(value in pool.params[name] for name, value in params.items())
        if known and pool.exists(tier, params) and _spacing(window, (stride,)):
            return "pool", params
    return "pool_any", {"op": op}


def lies_across(window: Window, ldx: int, ldy: int) -> bool:
    """Whether a pool without an epilogue is computed with pixels in lanes, by pool_any."""
    return window.flat and window.channels == ldx == ldy == window.strides[2] == 1 and window.out[2] > 1


def pool_int8_args(
    tier: Tier, op: str, window: Window, threads: int, ratio: float, include_pad: bool
) -> dict[str, int]:
    """The slots of pool_int8 that follow from the window and op: "max", "average" or "sum"; ratio: scale of x by scale
    of y.
    """
    return {
        **window_args(tier, "pool_int8", {}, window, threads), "block": LONG_BLOCK, "band": 1,
        "average": int(op == "average"), "include_pad": int(op == "average" and include_pad),
        "ratio": struct.unpack("<q", struct.pack("<d", ratio))[0],
    }  # fmt: skip


def _spacing(window: Window, strides: Sequence[int]) -> tuple[int, int] | None:
    """(stride, spacing): outputs `spacing` columns apart have windows that begin `stride` taps apart, for the first of
    `strides` where that is a whole number; None where there is none, or so few outputs that tiles would be mostly
    empty."""
    dilation_x, stride_x = window.near_taps().dilations[2], window.strides[2]
    for stride in strides:
        apart = stride * dilation_x // stride_x
        if stride * dilation_x % stride_x == 0 and (apart == 1 or apart * LEAST_SPACED <= window.out[2]):
            return stride, apart
    return None


def window_args(
    tier: Tier, name: str, params: dict[str, Any], window: Window, threads: int = 1, near: int = 0, apart: int = APART
) -> dict[str, int]:
    """The slots of a planned kernel that follow from the window: all but addresses and strides of pixels. near: bytes
    of maps that the caches hold, which kernels that fetch ask for."""
    window = window.flattened() if name in ("depthwise_any", "depthwise_int8_any") else window.near_taps()
    shapes, slots = window.slots(), row(name).args
    found = {slot: shapes[slot] for slot in slots if slot in shapes}
    if "run" in slots:
        found["block"] = _block(tier, name, params, window)
        found["run"] = run_columns(window, threads)
        sharing = threads if found["run"] == window.out[2] else 1
        found["band"] = band_rows(window, found["block"], sharing)
    if "fetch" in slots:
        found["fetch"] = int(_map_bytes(params, window) > near)
    if "copied" in slots:
        block = _copied(tier, params, window, apart)
        found |= copy_args(params, window, block, threads) if block else {"copied": 0, "scratch": 0, "scratch_bytes": 0}
    return found


def _copied(tier: Tier, params: dict[str, Any], g: Window, apart: int) -> int:
    """Channels that are copied together: those of one or two lines, where reading them where they lie is slower; else
    0."""
    if tier.registers >= 32 or _lines_of_a_set(g, params["tile"]) <= apart:
        return 0
    few = LINE // (2 if params["narrow"] else 4)
    return 2 * few if 2 * LINE * g.size[2] * g.kernel[1] <= L1 else few


def copy_args(params: dict[str, Any], g: Window, block: int, threads: int) -> dict[str, int]:
    """The slots of a kernel that copies so many channels at a time, but for the scratch."""
    line = (2 if params["narrow"] else 4) * block * g.size[2]
    band = band_rows(g, block, threads, line)
    rows, taps = (band - 1) * g.strides[1] + g.reach[1], 4 * block * g.kernel[1] * g.kernel[2]
    whole = {"block": block, "band": band, "run": g.out[2]}
    return {**whole, "copied": block, "scratch_bytes": rows * line + taps}


def _block(tier: Tier, name: str, params: dict[str, Any], window: Window) -> int:
    """Channels that are computed for a tile before the next tile."""
    if name == "pool_bf16":
        return 2 * BLOCK
    most = LONG_BLOCK if name in ("pool", "pool_any") and window.kernel[1] <= ROWS else BLOCK
    width = params.get("vectors", 1) * tier.lanes
    return min(most, -(-window.channels // width) * width)


def _map_bytes(params: dict[str, Any], g: Window) -> int:
    """Bytes of x and y."""
    item = 2 if params.get("narrow") or params.get("element") == "bf16" else 4
    return item * g.channels * g.images * (prod(g.size) + prod(g.out))


def band_rows(g: Window, block: int, threads: int, row: int = 0) -> int:
    """Rows of y to compute for `block` channels before the next: their input takes half of the cache. row: bytes of a
    row of it, if not those of all channels.

    Threads share the rows where these are enough, as in the layers before and after: what a core has written is near
    it. Else there are enough bands if blocks don't divide among the threads.
    """
    row = row or 4 * g.size[2] * g.channels
    fits = max(4, (L2 // 2 // row - g.kernel[1]) // g.strides[1] + 1)
    rows = g.out[0] * g.out[1]
    if _shares_rows(g, threads):
        own = -(-rows // threads)
        return max(band for band in range(1, min(own, fits) + 1) if own % band == 0 or 2 * band <= fits)
    bands = max(1, -(-rows // fits))
    units = g.images * -(-g.channels // block)
    if units % threads and units * bands < 8 * threads:
        bands = -(-bands // threads) * threads
    return max(1, -(-rows // bands))


def run_columns(g: Window, threads: int) -> int:
    """Columns of y to compute before the next: all, unless images or rows are too few for the threads."""
    out_w = g.out[2]
    alone = g.images % threads == 0 or _shares_rows(g, threads) or out_w < LEAST_COLUMNS * threads
    return out_w if alone else -(-out_w // threads)


def _shares_rows(g: Window, threads: int) -> bool:
    """Whether threads share the rows of each image."""
    rows = g.out[0] * g.out[1]
    return g.images % threads > 0 and -(-rows // threads) >= LEAST_ROWS and idle(rows, threads) < UNEVEN


def _tile(out_w: int, size: int, products: int) -> int:
    """The tile that covers `out_w` outputs in the least time, with so many products of vectors a tap."""

    def cost(tile: int) -> float:
        taps = min(tile, out_w) * size * size
        return -(-out_w // tile) * (taps * products / 2 + OVERHEAD) * (STANDARD if tile == TILES[0] else 1.0)

    return min(TILES, key=cost)
