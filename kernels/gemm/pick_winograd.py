"""A convolution's geometry -> tile sizes, bands and scratch of the winograd kernel. Pure arithmetic."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from ..isa.tiers import Tier
from .pick_conv import Geometry, plain_cycles, row_of_band
from .pick_dot import F32_COSTS, L2, STANDARD, beats, column_parts, mains, max_rows, tile_cost

BANDWIDTH = {1: 6.5, 2: 9.2}
"""Bytes per cycle that so many threads together read from memory, where a network's weights come from."""
LEAST_CHANNELS = 12
"""Channels from which on vectors of them are full enough, where they are less than a vector."""
MOST_CHANNELS = 512
"""Products in a sum up to which the error of m = 4 was measured: it grows with their square root."""
WIDE = 128
"""Pixels of a row at most where slices are rows."""
GAIN = 1.15
"""How many times faster it must be by the cost model."""
TRANSFORM_CYCLES = {(2, False): (50, 45), (4, False): (130, 130), (4, True): (16, 50)}
"""Of one vector of a tile's input, and of its output, by m and whether tiles are tall."""


class WinogradForm(NamedTuple):
    """A convolution as the winograd kernel computes it; `tall`: tiles are columns, for a kernel with one column.

    outputs: pixels of a slice, the last row of which may have fewer; lacking: pixels that the last row of x lacks. y:
    pixels of the result from slice to slice and from row to row.
    """

    g: Geometry
    tall: bool
    outputs: int
    y: tuple[int, int]
    lacking: int = 0

    @property
    def parts(self) -> tuple[int, int]:
        """Blocks of three taps, down and across."""
        _, rows, columns = self.g.kernel
        return -(-rows // 3), -(-columns // 3)

    @property
    def blocks(self) -> int:
        return self.g.kernel[0] * self.parts[0] * self.parts[1]

    @property
    def k(self) -> int:
        """Products in a sum."""
        return self.blocks * self.g.c

    def places(self, m: int) -> int:
        return (m + 2) ** (1 if self.tall else 2)

    def tiles(self, m: int) -> tuple[int, int]:
        """Rows of tiles, and tiles of each."""
        return -(-self.g.out[1] // m), self.g.out[2] if self.tall else -(-self.g.out[2] // m)


class WinogradChoice(NamedTuple):
    """How winograd computes a convolution; `params` makes the kernel.

    fields: slots of `rows.WINOGRAD` without x, w, y, ldy and scratch.
    """

    m: int
    nv: int
    params: dict[str, Any]
    fields: dict[str, int]

    @property
    def scratch(self) -> int:
        """Bytes for each thread, 64-byte aligned."""
        return self.fields["scratch_bytes"]


def winograd_form(g: Geometry, wide: int = WIDE) -> WinogradForm | None:
    """The convolution in the kernel's form; None unless it has stride 1, and several taps down and across without
    dilation, or along one axis.
    """
    if g.strides[1:] != (1, 1):
        return None
    (depth, rows, columns), (_, h, w) = g.kernel, g.size
    outputs = g.out[1] * g.out[2]
    if rows > 1 and columns > 1:
        return WinogradForm(g, False, outputs, (outputs, g.out[2])) if g.dilations[1:] == (1, 1) else None
    if rows > 1:
        fits = g.dilations[1] == 1 and g.out[2] == w and not g.pads[2]
        return WinogradForm(g, True, outputs, (outputs, w)) if fits else None
    if columns > 1:
        return _upright(g) if depth == h == g.out[1] == 1 and not g.pads[1] else None
    whole = g.strides[0] == g.dilations[0] == 1 and g.out[1:] == (h, w) and g.x_strides[2] == w * g.x_strides[3]
    if depth == 1 or not whole or any(g.pads[1:]):
        return None
    return _along_slices(g, wide)


def _along_slices(g: Geometry, wide: int) -> WinogradForm:
    """Slices as rows of as many pixels as stay in the cache; the rest of a slice's pixels are other slices."""
    (d, h, w), (image, z, _, x), out_d = g.size, g.x_strides, g.out[0]
    part = max(n for n in range(1, wide + 1) if h * w % n == 0)
    size, out = (h * w // part, d, part), (h * w // part, out_d, part)
    strides, kernel, pads = (image, part * x, z, x), (1, g.kernel[0], 1), (0, g.pads[0], 0)
    upright = g._replace(size=size, kernel=kernel, out=out, x_strides=strides, dilations=(1, 1, 1), pads=pads)
    return WinogradForm(upright, True, out_d * part, (part, h * w))


def _upright(g: Geometry) -> WinogradForm | None:
    """The row of each slice as a map of rows of `dilation` pixels, so that taps follow one another down a column."""
    dilation, pad, w, out_w, (image, z, _, x) = g.dilations[2], g.pads[2], g.size[2], g.out[2], g.x_strides
    lacking = -w % dilation
    if pad % dilation or (lacking and x != g.c):
        return None
    size, out = (g.size[0], -(-w // dilation), dilation), (g.out[0], -(-out_w // dilation), dilation)
    strides, kernel, pads = (image, z, dilation * x, x), (1, g.kernel[2], 1), (g.pads[0], pad // dilation, 0)
    upright = g._replace(size=size, kernel=kernel, out=out, x_strides=strides, pads=pads, dilations=(1, 1, 1))
    return WinogradForm(upright, True, out_w, (out_w, dilation), lacking)


@lru_cache(1024)
def best_winograd(tier: Tier, g: Geometry, largest: int = 4) -> tuple[WinogradForm, int, list[float]] | None:
    """The form and the m (at most `largest`, 2 or 4) to compute a convolution with, and cycles on one thread
    and on two; None where it can't, or never pays.

    m = 2 is more exact than the plain sum. The error of m = 4 is up to twice that of the plain sum: less than 5e-6 of
    the largest output for up to MOST_CHANNELS channels, above which it isn't chosen. The choice does not depend on
    threads, as m changes the result.
    """
    form = winograd_form(g)
    if form is None or g.c < min(tier.lanes, LEAST_CHANNELS):
        return None
    exact = form.k <= MOST_CHANNELS and largest >= 4
    if form.tall:
        kept = _tile_bytes(tier, form, 4) * form.tiles(4)[1] <= L2
        return (form, 4, _reading(tier, form, 4)) if exact and kept else None
    two, four = (_reading(tier, form, m) for m in (2, 4))
    pays = beats(two, reading_times(plain_cycles(tier, g), g.groups * g.k * g.n), GAIN)
    return (form, 4, four) if exact and (beats(four, two, 1.2) or not pays) else (form, 2, two)


def _reading(tier: Tier, form: WinogradForm, m: int) -> list[float]:
    """`reading_times` of tiles of m outputs a side."""
    return reading_times(_cycles(tier, form, m), form.g.groups * form.places(m) * form.k * form.g.n)


def reading_times(cycles: float, weights: int) -> list[float]:
    """Cycles until one thread, or two, have done the work and read the weights from memory."""
    pairs = [(cycles / threads, weights * 4 / bandwidth) for threads, bandwidth in BANDWIDTH.items()]
    return [max(pair) + min(pair) / 8 for pair in pairs]


def _cycles(tier: Tier, form: WinogradForm, m: int) -> float:
    """Cycles of the dots, in tiles of one height, and of the transforms, without memory."""
    g, (down, across) = form.g, form.tiles(m)
    band, slices, nv = _bands(tier, form, m, 1, L2)
    largest, total = max_rows(tier, nv), g.images * g.out[0]
    rounds = [
        (a * b, i * j * across)
        for a, i in zip((total // slices, 1), (slices, total % slices), strict=True)
        for b, j in zip((down // band, 1), (band, down % band), strict=True)
    ]

    k = form.k

    def cost(rows: int) -> float:
        return sum(times * -(-tiles // rows) for times, tiles in rounds) * tile_cost(tier, rows, nv, k)

    heights = range(1, min(largest, slices * band * across) + 1)
    best = min(heights, key=lambda h: cost(h) * (STANDARD if h == largest else 1))
    dots = cost(best) * -(-g.n // (nv * tier.lanes)) * form.places(m)
    there, back = TRANSFORM_CYCLES[m, form.tall]
    transforms = -(-g.c // tier.lanes) * there * form.blocks + -(-g.n // tier.lanes) * back
    return g.groups * (dots + total * down * across * transforms)


def _v_row(tier: Tier, form: WinogradForm) -> int:
    """Bytes from tile to tile of the transformed input; not a multiple of 4 KiB, which would collide in the cache."""
    row = (form.k - form.g.c + -(-form.g.c // tier.lanes) * tier.lanes) * 4
    row = -(-row // 64) * 64
    return row + 64 if row % 4096 == 0 else row


def _width(tier: Tier, form: WinogradForm) -> int:
    """Vectors in a panel."""
    return 1 if form.g.n <= tier.lanes else 2


def _tile_bytes(tier: Tier, form: WinogradForm, m: int) -> int:
    """Bytes of a tile: its transformed input, and its sums of a panel."""
    return form.places(m) * (_v_row(tier, form) + _width(tier, form) * tier.lanes * 4)


def _bands(tier: Tier, form: WinogradForm, m: int, units: int, l2: int) -> tuple[int, int, int]:
    """(rows of Winograd tiles in a band, slices whose bands are multiplied together, nv). The number of bands, or of
    such groups of slices, is a multiple of `units` where possible.
    """
    (down, across), total = form.tiles(m), form.g.images * form.g.out[0]
    nv = _width(tier, form)
    largest = max_rows(tier, nv)
    # Every band reads all weights, so that it has enough tiles even where they leave the cache.
    tiles = max(l2 * 3 // 4 // _tile_bytes(tier, form, m), 2 * largest)
    bands = -(-down // min(max(tiles // across, 1), down))
    if bands > 1 or total == 1:
        return -(-down // min(-(-bands // units) * units, down)), 1, nv
    rounds = -(-total // min(max(tiles // (down * across), 1), total))
    if total < units:
        return -(-down // min(units, down)), 1, nv
    return down, -(-total // min(-(-rounds // units) * units, total)), nv


def _height(tier: Tier, form: WinogradForm, rows: int, rest: int, m: int, nv: int) -> int:
    """The best height of dot's tiles, whose rows are Winograd tiles: for bands of `rows` rows of them, and a last band
    of `rest`.
    """
    across = form.tiles(m)[1]

    def cost(height: int) -> float:
        whole, last = (F32_COSTS.rows_cost(tier, n * across, height, nv, form.k) for n in (rows, rest))
        return form.tiles(m)[0] * form.g.images * form.g.out[0] // rows * whole + last

    return min(sorted(mains(tier, rows * across, max_rows(tier, nv), nv, form.k)), key=cost)


def pick_winograd(tier: Tier, form: WinogradForm, m: int, threads: int, l2: int = L2) -> WinogradChoice:
    """The choice for a form; m x m outputs a tile, or m of a tall one."""
    g, (down, across), (parts_y, parts_x) = form.g, form.tiles(m), form.parts
    band, slices, nv, parts = _shared_bands(tier, form, m, threads, l2)
    total = g.images * g.out[0]
    rest = total % slices * band if slices > 1 else down % band
    height = _height(tier, form, slices * band, rest, m, nv)
    row = row_of_band(g, across if form.tall else across * m + 3 * parts_x - 1, g.c * 4, 1)
    band_z = (band * m + 3 * parts_y - 1) * row["band_y"]
    sums = {"k": form.k, "channels": g.c, "k_d": g.kernel[0], "parts_y": parts_y, "parts_x": parts_x, "band_z": band_z}
    tiling = {"band": band, "slices": slices, "across": across, "height": height, "column_parts": parts}
    scratch = _scratch(tier, form, m, slices * band * across, g.kernel[0] * band_z)
    params = {"m": m, "tall": form.tall, "nv": nv}
    return WinogradChoice(m, nv, params, _map_fields(form) | row | sums | tiling | scratch)


def _shared_bands(tier: Tier, form: WinogradForm, m: int, threads: int, l2: int) -> tuple[int, int, int, int]:
    """`_bands` for these threads, and the parts of the panels by which threads are a grid."""
    g, down = form.g, form.tiles(m)[0]
    band, slices, nv = _bands(tier, form, m, 1, l2)
    panels, total = -(-g.n // (nv * tier.lanes)), g.images * g.out[0]
    size = g.c * g.size[1] * g.size[2]
    parts = column_parts(g.groups * total * down, panels, size, form.places(m) * form.k * g.n, threads)
    if total > 1 and g.groups * -(-total // slices) % (threads // parts):
        band, slices, nv = _bands(tier, form, m, threads // parts, l2)
    share = -(-g.groups * -(-total // slices) * down // (threads // parts))  # rows of tiles of a thread
    if share < down:
        band = -(-share // -(-share // band))
    return band, slices, nv, parts


def _map_fields(form: WinogradForm) -> dict[str, int]:
    """The slots of the result, of x, and of the window's place in it."""
    g, (out_d, out_h, out_w), (y_z, y_y) = form.g, form.g.out, form.y
    x_image, x_z, x_y, _ = (4 * stride for stride in g.x_strides)
    y = {"images": g.images, "out_d": out_d, "out_h": out_h, "out_w": out_w, "outputs": form.outputs, "y_z": y_z}
    x = {"x_image": x_image, "x_set": g.c * 4, "x_z": x_z, "x_y": x_y, "d": g.size[0], "h": g.size[1]}
    window = {"stride_z": g.strides[0], "dilation_z": g.dilations[0], "pad_z": g.pads[0], "pad_y": g.pads[1]}
    return y | {"y_y": y_y, "sets": g.groups, "n": g.n, "lacking": form.lacking * g.c, "pixel": g.c * 4} | x | window


def _scratch(tier: Tier, form: WinogradForm, m: int, tiles: int, band_bytes: int) -> dict[str, int]:
    """The slots of a thread's scratch: the band, transformed inputs (v) and sums (s) of so many tiles, and rows of
    outputs (o). Places are 64 bytes more than they hold from one another, so that they don't collide in the cache.
    """
    places, line = form.places(m), _width(tier, form) * tier.lanes * 4
    v_row = _v_row(tier, form)
    v_plane, s_plane = tiles * v_row + 64, tiles * line + 64
    v_start = -(-(band_bytes + 128) // 64) * 64
    s_start = v_start + places * v_plane + 64
    o_start = s_start + places * s_plane
    inputs = {"v_start": v_start, "v_row": v_row, "v_plane": v_plane}
    sums = {"s_start": s_start, "s_plane": s_plane}
    return inputs | sums | {"o_start": o_start, "scratch_bytes": o_start + m * form.g.out[2] * line}
