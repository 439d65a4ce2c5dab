"""A convolution's geometry -> tile sizes, bands and scratch of the conv kernel. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import ceil, prod
from typing import Any, NamedTuple

import numpy as np

from ..isa.tiers import Tier
from .pick_dot import AHEAD, F32_COSTS, L2, Costs, column_parts, crossing, grids, real_costs, split_columns

Triple = tuple[int, int, int]
CROSSING = 1.0
"""Cycles for each output of a tile that goes on in another row of the map."""
NEAR, NEAR_ROWS = 24 << 10, 4
"""Bytes of a band that stays in the first-level cache, where the weights do so, too, and the rows of the result that it
is for at least: the rows that two bands share are copied twice.

On Granite Rapids 0.83 to 0.93 of the time of bands for the second level, of 3 channels into 16 by 3x3/2; up to 32
channels into 32 by 3x3 0.93 to 1.0."""

COPIED, CALL, SHARE = 10, 4000, 0.04
"""Bytes of a map that are copied into bands in a cycle; cycles that each further call of the kernel must save, and the
least share of a layer's cycles that all of them together must. Measured on Granite Rapids: 3 planes of 96 to 320 pixels
a side."""


class Geometry(NamedTuple):
    """A convolution over x [images, d, h, w, groups * c] with n output channels for each group.

    All triples are (depth, height, width); fewer dimensions have leading ones (and pads of 0). pads: before the first
    element. x_strides: elements from image to image, slice, row and pixel; item: bytes of an element; zeros: whether
    padding is 0, which sums may leave out; gaps: whether there is anything between rows of the result.
    """

    images: int
    groups: int
    c: int
    n: int
    size: Triple
    kernel: Triple
    out: Triple
    x_strides: tuple[int, int, int, int]
    strides: Triple = (1, 1, 1)
    dilations: Triple = (1, 1, 1)
    pads: Triple = (0, 0, 0)
    item: int = 4
    zeros: bool = True
    gaps: bool = False

    @property
    def k(self) -> int:
        """Products per output."""
        return self.kernel[0] * self.kernel[1] * self.kernel[2] * self.c

    @property
    def padded(self) -> bool:
        """Whether any tap may lie outside of x."""
        return any(
            pad or (o - 1) * s + (k - 1) * d >= size
            for pad, o, s, k, d, size in zip(
                self.pads, self.out, self.strides, self.kernel, self.dilations, self.size, strict=True
            )
        )

    @property
    def moves(self) -> tuple[int, int]:
        """Rows and columns of a band from one output to the next; a kernel of width 1 skips columns that no output
        reads.
        """
        return (1 if self.kernel[1] == 1 else self.strides[1]), (1 if self.kernel[2] == 1 else self.strides[2])

    @property
    def direct(self) -> bool:
        """Whether taps are read from x itself, without a band: where no output is a multiple of 4 KiB from the next,
        which would collide in the cache.
        """
        _, stride_y, stride_x = self.strides
        _, _, y, x = self.x_strides
        return not self.padded and (stride_x * x if self.out[2] > 1 else stride_y * y) * self.item % 4096 != 0

    @property
    def pixel(self) -> int:
        """Bytes of a pixel in a band, in which no output is a multiple of 4 KiB from the next either."""
        dense, (move_y, move_x) = self.c * self.item, self.moves
        columns = move_x if self.out[2] > 1 else move_y * ((self.kernel[2] - 1) * self.dilations[2] + 1)
        return dense + 64 if dense * columns % 4096 == 0 else dense

    @property
    def band_y(self) -> int:
        """Bytes of a row in a band."""
        return ((self.out[2] - 1) * self.moves[1] + (self.kernel[2] - 1) * self.dilations[2] + 1) * self.pixel

    @property
    def runs(self) -> tuple[int, int]:
        """Taps (down, across) that are adjacent in memory, and so form one run."""
        (_, k_h, k_w), (_, dil_y, dil_x) = self.kernel, self.dilations
        y, x = (self.item * s for s in self.x_strides[2:]) if self.direct else (self.band_y, self.pixel)
        if dil_x != 1 or x != self.c * self.item:
            return 1, 1
        return (k_h if dil_y * y == k_w * x else 1), k_w

    @property
    def run(self) -> int:
        """Elements in a run."""
        down, across = self.runs
        return self.c * down * across

    @property
    def words(self) -> int:
        """Words of 4 bytes per output: each run is rounded up to whole ones."""
        run = self.run
        return self.k // run * -(-run * self.item // 4)

    @property
    def inside(self) -> np.ndarray:
        """`inside` of `rows.CONV`: by the slices of the kernel where it has several, else by its rows."""
        (_, k_h, k_w), (run_y, run_x) = self.kernel, self.runs
        axis, runs = (0, k_h // run_y * k_w // run_x) if self.kernel[0] > 1 else (1, k_w // run_x)
        start = np.arange(self.out[axis]) * self.strides[axis] - self.pads[axis]
        edges = np.stack([start, start - self.size[axis]], -1)
        each = runs * np.clip(-(edges // self.dilations[axis]), 0, self.kernel[axis])
        cut = self.zeros and (axis == 0 or run_y == 1)
        each[(each[:, 0] == each[:, 1]) | (not cut)] = 0, self.k // self.run
        return np.repeat(each, self.out[1], 0) if axis == 0 else np.tile(each, (self.out[0], 1))

    @property
    def summed(self) -> int:
        """Words that are summed for an output where a tile lies in one row, on average."""
        return round(self.words * float(np.diff(self.inside).mean()) * self.run / self.k)


class ConvPiece(NamedTuple):
    """One conv call: `columns` channels of each group from `start` on, packed with `nv`; `params` makes the kernel.

    taps, inside, fields: the slots of its record that depend on the geometry, two tables and numbers.
    """

    start: int
    columns: int
    nv: int
    params: dict[str, Any]
    taps: np.ndarray
    inside: np.ndarray
    fields: dict[str, int]

    @property
    def scratch(self) -> int:
        """Bytes for each thread, 64-byte aligned."""
        return self.fields["scratch_bytes"]


def upright(g: Geometry, l2: int) -> Geometry:
    """A long single row as a column, so that it can be split into bands; other geometries unchanged, and those whose
    rows are apart: pixels of a column would be.
    """
    flat = g.size[1] == g.kernel[1] == g.out[1] == 1 and g.pads[1] == 0 and not g.gaps
    if not flat or g.size[2] * g.c * g.item <= l2 // 8:
        return g

    def transposed(t: Triple) -> Triple:
        return t[0], t[2], t[1]

    triples: dict[str, Any] = {
        name: transposed(getattr(g, name)) for name in ("size", "kernel", "out", "strides", "dilations", "pads")
    }
    image, z, y, x = g.x_strides
    return g._replace(x_strides=(image, z, x, y), **triples)


@lru_cache(64)
def pick_conv(tier: Tier, g: Geometry, threads: int = 1, l2: int = L2) -> tuple[ConvPiece, ...]:
    """The conv calls for a geometry: one, or two that share the channels."""
    return conv_pieces(tier, upright(g, min(l2, L2)), threads, F32_COSTS, {}, l2)


def pick_conv_bf16(tier: Tier, g: Geometry, element: str, out: str, threads: int, l2: int) -> tuple[ConvPiece, ...]:
    """As `pick_conv`, of elements of the map and of the result, f32 or bf16."""
    params = {"element": element, "out": out}
    return conv_pieces(tier, upright(g, min(l2, L2)), threads, real_costs(element), params, l2)


def conv_pieces(
    tier: Tier, g: Geometry, threads: int, costs: Costs, params: Mapping[str, Any], l2: int
) -> tuple[ConvPiece, ...]:
    """As `pick_conv`, for operands of any type; params: the kernel's parameters beside nv."""
    _, out_h, out_w = g.out
    rows = g.images * g.groups * g.out[0] * out_h
    words, summed = g.words, g.summed

    def unfetched(nv: float) -> float:
        """Cycles that a panel's weights are waited for, where the cache lacks room to have them come ahead."""
        panel = 4 * tier.lanes * words * ceil(nv)
        return panel / AHEAD if tier.registers >= 32 and 2 * panel > l2 * 3 // 4 else 0.0

    def best(nv: float) -> tuple[float, int]:
        share = min(grids(rows, -(-g.n // (ceil(nv) * tier.lanes)), threads).values())
        most, pixels = costs.most_rows(tier, ceil(nv)), out_h * out_w
        tallest = crossing(most, ceil(nv))
        within = costs.choices(tier, out_w, nv, summed, most).items()
        across = costs.choices(tier, pixels, nv, words, tallest) if not g.gaps else {}
        found = {h: c + pixels * CROSSING for h, c in across.items()}
        found |= {h: c * out_h for h, c in within if h > tallest or out_w % h == 0 or g.gaps}
        return min(((c + unfetched(nv)) * share, -h) for h, c in found.items())

    chosen, pieces = {nv: best(nv) for nv in costs.widths(tier)}, []
    for start, columns, nv in split_columns(tier, g.n, {nv: cycles for nv, (cycles, _) in chosen.items()}):
        wide = ceil(nv)
        laid = layout(g, -chosen[nv][1], columns, wide * tier.lanes, threads, l2)
        pieces.append(ConvPiece(start, columns, wide, {**costs.params(nv), **params}, *laid))
    return tuple(pieces)


def plain_cycles(tier: Tier, g: Geometry) -> float:
    """Cycles of the conv kernel in full tiles, rows of padding among them unless taps are dilated, as Winograd's model
    goes by.
    """
    words = g.summed if g.dilations[1] > 1 else g.words

    def cost(nv: int) -> float:
        most = F32_COSTS.most_rows(tier, nv)
        return F32_COSTS.tile_cost(tier, most, nv, words) / most * -(-g.n // (nv * tier.lanes))

    pixels = g.images * g.out[0] * g.out[1] * g.out[2]
    return g.groups * pixels * min(cost(nv) for nv in range(1, 9 if tier.registers >= 32 else 5))


def pixels_together(tier: Tier, g: Geometry) -> int:
    """How many adjacent outputs of a row to compute as one with as many times the channels (`widened`), where channels
    fill less than a vector: a divisor of the row's outputs, or for a single row any number, if those that are left over
    begin in x (`split_row`).
    """
    if g.groups > 1 or g.dilations[2] != 1 or g.n * 2 > tier.lanes:
        return 1
    single = g.images * g.out[0] * g.out[1] == 1
    most = min(2 * tier.lanes // g.n, g.out[2] // 8 if single else g.out[2])

    def parts(factor: int) -> bool:
        return g.out[2] % factor == 0 or (single and 0 <= split_row(g, factor)[2] < g.size[2])

    fits = [f for f in range(1, most + 1) if parts(f)] or [1]
    costs = {f: plain_cycles(tier, widened(g, f)) for f in fits}
    best = min(fits, key=lambda f: costs[f])
    return best if costs[best] < 0.9 * costs[1] else 1


def widened(g: Geometry, factor: int) -> Geometry:
    """The geometry with `factor` adjacent outputs of a row as one, whose channels follow one another."""
    (k_d, k_h, k_w), (s_d, s_h, s_w) = g.kernel, g.strides
    return g._replace(
        n=g.n * factor,
        kernel=(k_d, k_h, k_w + (factor - 1) * s_w),
        strides=(s_d, s_h, s_w * factor),
        out=(*g.out[:2], g.out[2] // factor),
    )


def split_row(g: Geometry, together: int) -> tuple[Geometry, Geometry, int]:
    """A single row of outputs in two: a multiple of `together`, and the rest; and the offset of the rest in x, in
    pixels.
    """
    rest = g.out[2] % together
    first = g.out[2] - rest
    further = first * g.strides[2] - g.pads[2]
    (d, h, w), (out_d, out_h, _) = g.size, g.out
    left = g._replace(out=(out_d, out_h, first))
    return left, g._replace(size=(d, h, w - further), out=(out_d, out_h, rest), pads=(*g.pads[:2], 0)), further


class Part(NamedTuple):
    """A part of a map of results: its convolution, the row and column where it begins, its offset in x in elements."""

    g: Geometry
    row: int = 0
    column: int = 0
    x: int = 0


def inner_and_edges(tier: Tier, g: Geometry, height: int, call: float = CALL) -> list[Part]:
    """The results of an image in parts: strips along its edges, as wide as tiles of `height` outputs, whose taps may
    lie in padding, and those within, which are read without a band. All as one part where that saves too little, less
    than `call` cycles for each further call among it, and of single rows, which threads could not share.
    """
    whole = Part(g)
    single = g.images == g.groups == g.out[0] == 1 < g.out[1]
    if not g.padded or not single or g.pads[0] or g.size[0] > g.kernel[0]:
        return [whole]
    (top, bottom), (left, right) = _inner(g, 1), _inner(g, 2)
    out_h, out_w = g.out[1:]
    left, right = -(-left // height) * height, out_w - -(-(out_w - right) // height) * height
    rows, columns = range(top, bottom), range(left, right)
    strips = [(range(top), range(out_w)), (range(bottom, out_h), range(out_w)), (rows, range(left))]
    strips += [(rows, range(right, out_w)), (rows, columns)]
    parts = [_cut(_cut(whole, 1, down), 2, across) for down, across in strips if down and across]
    saved = g.item * g.c * prod(g.size) / COPIED * len(rows) * len(columns) / (out_h * out_w)
    pays = saved > max(call * (len(parts) - 1), SHARE * plain_cycles(tier, g))
    return parts if pays and parts[-1].g.direct else [whole]


def _inner(g: Geometry, axis: int) -> tuple[int, int]:
    """The first output along an axis all of whose taps lie in x, and the one behind the last."""
    reach = (g.kernel[axis] - 1) * g.dilations[axis]
    first = -(-g.pads[axis] // g.strides[axis])
    end = (g.size[axis] - 1 - reach + g.pads[axis]) // g.strides[axis] + 1
    return min(first, g.out[axis]), min(max(end, first), g.out[axis])


def _cut(part: Part, axis: int, outputs: range) -> Part:
    """Some outputs along an axis of a part."""

    def here(values: Triple, value: int) -> Triple:
        found = list(values)
        found[axis] = value
        return found[0], found[1], found[2]

    g = part.g
    start = outputs.start * g.strides[axis] - g.pads[axis]
    further = min(max(start, 0), g.size[axis])  # behind x all is padding
    size, out = here(g.size, g.size[axis] - further), here(g.out, len(outputs))
    g = g._replace(size=size, out=out, pads=here(g.pads, max(-start, 0)), gaps=True)
    where = {"row": outputs.start} if axis == 1 else {"column": outputs.start}
    return part._replace(g=g, x=part.x + further * g.x_strides[axis + 1], **where)


def conv_args(piece: ConvPiece, **operands: Any) -> dict[str, Any]:
    """The slots of `rows.CONV`: the piece's, and `operands`: x, w (this piece's channels packed), y (whole), ldy,
    scratch; fill unless it is 0, and y_y unless rows follow one another.
    """
    tables = {"taps": piece.taps, "inside": piece.inside}
    return {
        "fill": 0,
        "y_y": piece.fields["out_w"] * operands["ldy"],
        **piece.fields,
        **tables,
        "n0": piece.start,
        **operands,
    }


def layout(
    g: Geometry, height: int, columns: int, width: int, threads: int, l2: int
) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    """The slots of `rows.CONV` that depend on the geometry and the tiles' height: taps, inside, and the numbers."""
    (_, stride_y, stride_x), (move_y, move_x), direct = g.strides, g.moves, g.direct
    (slices, reach, shift, band), parts = _shared_band(g, columns, width, threads, l2)
    band_z = g.band_y * ((band - 1) * move_y + reach)
    taps, length = _taps(g, band_z, shift), -(-g.run * g.item // 4)
    _, x_z, x_y, x_x = (g.item * s for s in g.x_strides)
    pixel_step, row_step = (stride_x * x_x, stride_y * x_y) if direct else (move_x * g.pixel, move_y * g.band_y)
    dilation_z = 0 if shift else g.dilations[0]
    tiling = {"n": columns, "k": len(taps) * length, "length": length, "height": height, "column_parts": parts}
    bands = {"direct": int(direct), "band": band, "reach": reach, "shift": shift, "band_z": band_z, "k_d": slices}
    steps = {"rs": pixel_step, "gs": row_step, "step_y": stride_y // move_y, "move_y": move_y, "dilation_z": dilation_z}
    row = row_of_band(g, g.band_y // g.pixel, g.pixel, stride_x // move_x)
    scratch = {"scratch_bytes": 0 if direct else -(-(slices * band_z + 128) // 64) * 64}
    return np.array(taps, np.int64), g.inside, _map_fields(g) | row | tiling | bands | steps | scratch


def _map_fields(g: Geometry) -> dict[str, int]:
    """The slots of the result, of x, and of the window's place in it."""
    out_d, out_h, out_w = g.out
    x_image, x_z, x_y, _ = (g.item * s for s in g.x_strides)
    y = {"images": g.images, "sets": g.groups, "out_d": out_d, "out_h": out_h, "out_w": out_w, "n_set": g.n}
    x = {"x_image": x_image, "x_set": g.c * g.item, "x_z": x_z, "x_y": x_y, "d": g.size[0], "h": g.size[1]}
    return y | x | {"stride_z": g.strides[0], "pad_z": g.pads[0], "stride_y": g.strides[1], "pad_y": g.pads[1]}


def _taps(g: Geometry, band_z: int, shift: int) -> list[int]:
    """The offset in bytes of each run of taps from the first, in x or in a band with slices of `band_z` bytes."""
    (k_d, k_h, k_w), (dil_z, dil_y, dil_x), (run_y, run_x) = g.kernel, g.dilations, g.runs
    _, x_z, x_y, x_x = (g.item * s for s in g.x_strides)
    z, y, x = band_z, band_z if shift else dil_y * g.band_y, g.pixel
    if g.direct:
        z, y, x = dil_z * x_z, dil_y * x_y, x_x
    rows, columns = range(0, k_h, run_y), range(0, k_w, run_x)
    return [i * z + j * y + k * dil_x * x for i in range(k_d) for j in rows for k in columns]


def _shared_band(g: Geometry, columns: int, width: int, threads: int, l2: int) -> tuple[tuple[int, int, int, int], int]:
    """`_band`, with as many bands as these threads share evenly, and the parts of the panels by which they are a grid.

    Every band reads all weights: where these don't stay in the cache, bands are larger and fewer.
    """
    (out_d, out_h, _), weight_bytes = g.out, 4 * columns * g.words
    budget = l2 // 6 if weight_bytes <= l2 // 4 else l2 * 3 // 8
    if weight_bytes <= NEAR and not g.direct:
        budget = min(budget, max(NEAR, _lines(g, NEAR_ROWS) * g.band_y))
    slices, reach, shift, band = _band(g, budget)
    images = g.images * g.groups * out_d
    input_bytes = g.c * g.item * g.size[1] * g.size[2]
    parts = column_parts(images * out_h, -(-columns // width), input_bytes, weight_bytes, threads)
    bands = -(-out_h // band)
    if images % (threads // parts):
        bands = min(-(-bands * parts // threads) * (threads // parts), out_h)
    return (slices, reach, shift, -(-out_h // bands)), parts


def _lines(g: Geometry, rows: int) -> int:
    """The rows of a band for so many of the result, of all slices."""
    return g.kernel[0] * ((rows - 1) * g.moves[0] + (g.kernel[1] - 1) * g.dilations[1] + 1)


def _band(g: Geometry, budget: int) -> tuple[int, int, int, int]:
    """(slices, rows of each for the first row of the result, shift, rows of the result) of a band of so many bytes: of
    dilated taps without the rows between these, where it copies less for each row of the result.
    """
    (k_d, k_h, _), dilation, move = g.kernel, g.dilations[1], g.moves[0]

    def fitting(slices: int, reach: int) -> tuple[float, int]:
        """Rows that are copied for each row of the result, and how many of these fit."""
        rows = min(max((budget // (slices * g.band_y) - reach) // move + 1, 1), g.out[1])
        return slices * ((rows - 1) * move + reach) / rows, rows

    reach = (k_h - 1) * dilation + 1
    (copied, rows), (copied_apart, rows_apart) = fitting(k_d, reach), fitting(k_h, 1)
    if k_d == 1 < dilation and not g.direct and copied_apart < copied:
        return k_h, 1, dilation, rows_apart
    return k_d, reach, 0, rows


def row_of_band(g: Geometry, width: int, pixel: int, step: int) -> dict[str, int]:
    """The slots for copying a row into a band: `width` pixels of `pixel` bytes, every step-th of x's row."""
    x_step, dense = g.item * g.x_strides[3] * step, g.c * g.item
    left, inside = cover(-g.pads[2], step, g.size[2], width)
    merged = x_step == pixel == dense
    return {
        "x_first": (left * step - g.pads[2]) * g.item * g.x_strides[3], "left": left * pixel // g.item,
        "pixels": 1 if merged else inside, "run": inside * g.c if merged else g.c, "x_step": x_step,
        "pixel_step": inside * pixel if merged else pixel, "right": (width - left - inside) * pixel // g.item,
        "band_y": width * pixel,
    }  # fmt: skip


def cover(start: int, step: int, size: int, count: int) -> tuple[int, int]:
    """(before, inside): how many of start, start + step, ... (count of them) are < 0 and in [0, size)."""
    before = min(max(-(start // step), 0), count)
    inside = min(max(-((start - size) // step), 0), count) - before
    return before, inside


def merge_factor(lanes: int, groups: int, n: int) -> int:
    """How many groups of n channels to compute as one (pack.merge_groups) to fill so many lanes."""
    return max(f for f in range(1, groups + 1) if groups % f == 0 and (f == 1 or f * n <= lanes))
