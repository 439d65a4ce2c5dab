"""Ranges of products and convolutions by bands, and the sizes of their packed operands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import inf

import numpy as np

from ...kernels.gemm.pack_int8 import HEAD_LINES, WORD_HEAD, vectors_per_word
from ...kernels.gemm.pick_blocks import NV, few_rows, group_bytes, per_word, row_bytes
from ...kernels.gemm.pick_dot import F32_COSTS, max_rows
from ...kernels.gemm.pick_int8 import Sums, chains, int8_costs
from ...kernels.gemm.rows import ITEM, STORES
from .bands import band, copied, line_end, taps
from .call import KNOWN, Call, Reach, grid, need, offsets, parts, reaches, read, short, work, write


def _of_bytes(c: Call) -> bool:
    return c.kernel.endswith(("_dynamic", "_int8"))


def _item(c: Call) -> int:
    """Bytes of an element that is multiplied."""
    return 1 if _of_bytes(c) else ITEM.get(c.params.get("element", "f32"), 4)


def _beyond(c: Call) -> int:
    """Bytes behind a run that its last word may have, and weights of 0 meet."""
    return 3 if _of_bytes(c) else 0


def _panels(c: Call, n: int, k: int) -> int:
    """Bytes of packed panels of n columns and k words, each with a head."""
    nv, rowsum = int(c.params.get("nv", 4)), c.params.get("rowsum", True)
    word = nv
    if _of_bytes(c):
        word = vectors_per_word(c.tier, nv, rowsum, c.params.get("narrow") or bool(c.params.get("small")))
    return parts(n, nv * c.lanes) * (_head_lines(c) + k * word) * c.vector


def _head_lines(c: Call) -> int:
    """Vectors of a panel's head."""
    nv, small = int(c.params.get("nv", 4)), bool(c.params.get("small"))
    lines = HEAD_LINES[c.params.get("rowsum", True)] + c.kernel.endswith("_dynamic") + small if _of_bytes(c) else 1
    return lines * nv


def _few(c: Call, slot: str, count: int, step: int) -> int:
    """So many panels, if the constant has them."""
    need(count * step <= c.constant(slot).size, f"{slot} has fewer than {count} panels")
    return count


def _summed_again(c: Call, slot: str, starts: np.ndarray, runs: int, length: int) -> None:
    """Words of panels that are summed again lie in the constant, and in runs of `length` words of A. starts: where
    panels are.
    """
    nv, data = int(c.params["nv"]), c.constant(slot)
    head, size = _head_lines(c) * c.vector, WORD_HEAD + nv * c.vector
    need(
        bool(starts.size == 0 or 0 <= starts.min() and starts.max() + head <= data.size), f"{slot} ends within a panel"
    )
    for start in starts:
        at = int(start) + head - nv * c.vector
        block = int(start) + int(data[at : at + 8].view(np.int64)[0])
        need(0 <= block <= data.size - 4 * (runs + 1), f"{slot} has a panel whose words again are at {block}")
        ends = data[block : block + 4 * (runs + 1)].view(np.int32).astype(np.int64)
        counts, rest = np.divmod(np.diff(ends), size)
        inside = ends[0] >= 0 and (counts >= 0).all() and not rest.any() and block + ends[-1] <= data.size
        need(bool(inside), f"{slot} has words again that lie elsewhere")
        words = data[block + ends[0] : block + ends[-1]].reshape(-1, size)[:, :8].copy().view(np.int32)
        fits = (
            (words[:, 0] == np.repeat(np.arange(runs), counts)) & (words[:, 1] >= 0) & (words[:, 1] <= 4 * length - 4)
        )
        need(bool(fits.all()), f"{slot} has words again that A lacks")


def _most_rows(c: Call) -> int:
    """The most rows of a tile that fit the registers."""
    if c.kernel == "dot_blocks":
        return few_rows(c.tier) if c.record().few else max_rows(c.tier, NV)
    if not _of_bytes(c):
        return F32_COSTS.most_rows(c.tier, c.params["nv"])
    costs = int8_costs(Sums("words", c.params.get("rowsum", False), c.params.get("small", False)))
    return costs.most_rows(c.tier, c.params["nv"])


def _most_columns(c: Call) -> float:
    """The most columns of a call: one panel, where its last vector is half."""
    return (c.params["nv"] - 0.5) * c.lanes if c.params.get("half") else inf


def _row_bytes(c: Call) -> int:
    """Bytes of a row that is rounded for codes of a few bits."""
    r, bits = c.record(), c.params["bits"]
    return row_bytes(r.k, parts(r.k // per_word(bits), r.block))


def _group_bytes(c: Call) -> int:
    """Bytes of a group of columns in codes of a few bits."""
    r, bits = c.record(), c.params["bits"]
    blocks = parts(r.k // per_word(bits), r.block)
    return group_bytes(c.tier, bits, r.block * per_word(bits), blocks, bool(r.zeros))


KNOWN["item"], KNOWN["beyond"] = _item, _beyond
KNOWN["stored"] = lambda c: (STORES | ITEM)[c.params.get("out", "words")]
KNOWN["panels"] = lambda c: partial(_panels, c)
KNOWN["most_rows"], KNOWN["most_columns"], KNOWN["group_bytes"] = _most_rows, _most_columns, _group_bytes
KNOWN["row_bytes"], KNOWN["byte_dot"] = _row_bytes, lambda c: c.tier.byte_dot
KNOWN["per_word"] = lambda c: per_word(c.params["bits"])
KNOWN["chains"] = lambda c: chains(c.params["nv"])
KNOWN["walks"] = lambda c: int(c.slots["walk"] != 0)
KNOWN["by_row"] = lambda c: c.params.get("per_row", False)
KNOWN["winograd_places"] = lambda c: (c.params["m"] + 2) ** (1 if c.params["tall"] else 2)


@reaches("dot_int8", "dot_dynamic", "row_int8")
def of_bytes(c: Call) -> None:
    """Words that are summed again."""
    if c.params["small"]:
        r = c.record()
        step, count = _panels(c, 1, r.k), parts(r.n, c.params["nv"] * c.lanes)
        stride = 0 if c.kernel == "row_int8" else 4 * r.b_stride
        matrices = 1 if stride == 0 else _few(c, "b", r.batch, stride)
        panels = np.add.outer(stride * np.arange(matrices), step * np.arange(_few(c, "b", count, step)))
        _summed_again(c, "b", panels.reshape(-1), 1, r.k)


@reaches("conv", "conv_bf16", "conv_int8", "conv_dynamic")
def conv(c: Call) -> Iterator[Reach]:
    """Bands of rows, and taps in them or in x."""
    r, item = c.record(), _item(c)
    if not r.direct:
        yield from band(c, item, r.band, r.out_h)
    else:
        yield work("scratch", 0)
        step = r.stride_y * r.x_y
        need(step == r.gs or r.band >= r.out_h, f"gs is {r.gs}, but bands begin {step} bytes a row apart")
    runs = r.k // r.length
    first, end = c.table("inside", 2 * r.out_d * r.out_h).reshape(r.out_d, r.out_h, 2).transpose(2, 0, 1)
    fits = (first >= 0) & (end <= runs) & (first < np.minimum.accumulate(end, axis=1))
    need(bool(fits.all()), f"inside has runs that are none of the {runs}, or none for rows of one tile")
    yield from taps(c, c.table("taps", runs), 4 * r.length, _beyond(c), r.band, r.out_w)
    if c.params.get("small"):
        count, step = r.sets * parts(r.n, c.params["nv"] * c.lanes), _panels(c, 1, r.k)
        _summed_again(c, "w", step * np.arange(_few(c, "w", count, step)), runs, r.length)


@reaches("winograd")
def winograd(c: Call) -> Iterator[Reach]:
    """Bands of tiles, whose parts of scratch must have room."""
    m, tall, width = c.params["m"], c.params["tall"], c.params["nv"] * c.lanes
    r = c.record(
        "images sets out_d out_h out_w outputs y_z y_y n d h pixel lacking scratch_bytes band_y band_z "
        "v_start v_row v_plane s_start s_plane o_start"
    )
    places, down, outputs = KNOWN["winograd_places"](c), parts(r.out_h, m), r.images * r.out_d * r.outputs
    channels = r.sets * r.n
    tallest, used = min(r.band, down), int(bool(outputs * channels))
    tiles, blocks = r.out_w if tall else parts(r.out_w, m), r.k_d * r.parts_y * r.parts_x
    need(tiles == r.across, f"across is {r.across}, expected {tiles} tiles for {r.out_w} outputs")
    need(not tall or r.parts_x == 1, f"parts_x is {r.parts_x} for tall tiles")
    need(blocks * r.channels == r.k, f"k is {r.k}, expected {blocks} blocks of {r.channels}")
    need(r.outputs <= r.out_h * r.out_w, f"{r.outputs} outputs in {r.out_h} rows of {r.out_w}")
    need(r.lacking == 0 or (r.pixels == 1 and r.lacking < r.run), f"{r.lacking} elements of {r.run} lack")
    room = min(r.slices, r.images * r.out_d) * tallest * r.across
    beyond = 3 * r.parts_y - 1
    yield from _winograd_rows(c, down * m + beyond, used)
    above = (r.k_d - 1) * r.band_z + (tallest * m + beyond - 1) * r.band_y
    row = (r.across if tall else r.across * m + 3 * r.parts_x - 1) * r.pixel
    vector = parts(4 * r.channels, c.vector) * c.vector
    bounds = [
        ((tallest * m + beyond) * r.band_y, r.band_z if r.k_d > 1 else r.v_start),
        (above + line_end(c, 4), r.v_start), (row - r.pixel + 4 * r.channels, r.band_y),
        (above + row - r.pixel + vector, r.v_start), (4 * (r.k - r.channels) + vector, r.v_row),
        (room * r.v_row, r.v_plane), (r.v_start + places * r.v_plane, r.s_start),
        (4 * room * width, r.s_plane), (r.s_start + places * r.s_plane, r.o_start),
        (r.o_start + 4 * m * r.out_w * width, r.scratch_bytes),
    ]  # fmt: skip
    for taken, there in bounds:
        need(not used or taken <= there, f"{taken} bytes of scratch where there are {there}")
    if (r.y_z, r.y_y) == (r.outputs, r.out_w):
        yield write("y", 4 * channels, (outputs, 4 * r.ldy))
        return
    need(r.outputs == r.out_h * r.out_w, f"{r.outputs} outputs in {r.out_h} rows of {r.out_w} that are apart")
    need(r.y_y >= r.out_d * r.y_z and r.y_z >= r.out_w, f"{r.y_y} pixels of rows of {r.out_d} times {r.y_z}")
    steps = (r.images, r.out_d * r.outputs), (r.out_h, r.y_y), (r.out_d, r.y_z), (r.out_w, 1)
    yield write("y", 4 * channels, *((count, 4 * r.ldy * pixels) for count, pixels in steps))


def _winograd_rows(c: Call, rows: int, used: int) -> Iterator[Reach]:
    """Rows of x that bands of all outputs, so many rows of a slice, copy: the last one of a slice may be shorter."""
    r = c.record()
    z = grid(r.out_d, r.stride_z, r.k_d, r.dilation_z) - r.pad_z
    y = grid(rows, 1, 1, 0)[:, 0] - r.pad_y
    slices, inside = offsets(z[(z >= 0) & (z < r.d)] * r.x_z), y[(y >= 0) & (y < r.h)]
    images, sets = (r.images * used, r.x_image), (r.sets, r.x_set)
    if not r.lacking:
        yield from copied(c, 4, images, sets, slices, offsets(inside * r.x_y))
        return
    for lines, run in ((inside[inside < r.h - 1], r.run), (inside[inside == r.h - 1], r.run - r.lacking)):
        over = short(4 * run, c.vector)
        yield read("x", 4 * run, images, sets, slices, offsets(lines * r.x_y), start=r.x_first, over=over)
