"""What matrix products and convolutions reach, and the packing of a right operand: floats, bytes, bytes rounded at run
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...kernels.gemm.pack_int8 import HEAD_LINES, vectors_per_word
from ...kernels.gemm.pick_blocks import NV, few_rows, group_bytes, per_word
from ...kernels.gemm.pick_dot import F32_COSTS, max_rows
from ...kernels.gemm.pick_int8 import INT8_COSTS, chains
from ...kernels.gemm.rows import GRIDS, RANGE_BYTES, STORES
from .bands import band, copied, line_end, taps
from .call import SIZES, Call, Reach, need, offsets, parts, reaches, read, short, work, write
from .walked import epilogue


@dataclass(frozen=True)
class _Kind:
    """Bytes of an element of A and of C, of a panel's head and of the weights of one word of A.

    A's rows are read in words of 4 bytes; `over` of the last one may lie behind the row.
    """

    item: int
    out: int
    head: int
    word: int

    @property
    def over(self) -> int:
        return 4 - self.item


def _kind(c: Call) -> _Kind:
    """How the kernel of a product computes."""
    nv, name = c.params["nv"], c.kernel
    if name.endswith(("_dynamic", "_int8")):
        rowsum, dynamic = c.params["rowsum"], name.endswith("_dynamic")
        words, head = vectors_per_word(c.tier, nv, rowsum), HEAD_LINES[rowsum] + dynamic
        return _Kind(1, 4 if dynamic else STORES[c.params["out"]], head * nv * c.vector, words * c.vector)
    return _Kind(4, 4, nv * c.vector, nv * c.vector)


def _panels(c: Call, n: int) -> int:
    """Panels of n columns."""
    return parts(n, c.params["nv"] * c.lanes)


def _ending(c: Call, images: int, rows: int, run: int, *columns: tuple[int, int], start: int) -> Iterator[Reach]:
    """What is read to finish a product: ranges of what was rounded at run time, and the operands of its chain."""
    if c.kernel.endswith("_dynamic"):
        r, apart = c.record("per_image per_row"), c.params.get("per_row", False)
        need(bool(r.per_row) == apart, f"per_row is {r.per_row} for a kernel with per_row={apart}")
        yield read("ranges", RANGE_BYTES, (images, RANGE_BYTES * r.per_image), (rows, RANGE_BYTES * r.per_row))
    if not c.kernel.endswith("_int8"):
        yield from epilogue(c, images, rows, run, *columns, start=start)


@reaches("dot", "dot_int8", "dot_dynamic")
def dot(c: Call) -> Iterator[Reach]:
    kind, r = _kind(c), c.record("m n n0 batch", "k block")
    _tiles(c)
    rows = (r.batch, r.a_stride * kind.item), (r.m, r.lda * kind.item)
    yield read("a", 4 * r.k - kind.over if r.m and r.n and r.batch else 0, *rows, over=kind.over)
    yield read("b", _panels(c, r.n) * (kind.head + r.k * kind.word) if r.m else 0, (r.batch, 4 * r.b_stride))
    yield from _ending(c, r.batch, r.m, 4 * r.n, start=4 * r.n0)
    columns = (r.batch, r.c_stride * kind.out), (r.m, r.ldc * kind.out)
    yield write("c", r.n * kind.out, *columns, start=r.n0 * kind.out)


@reaches("dot_few")
def dot_few(c: Call) -> Iterator[Reach]:
    r = c.record("m n k batch", "block")
    yield read("a", 4 * r.k if r.m and r.n and r.batch else 0, (r.batch, 4 * r.a_stride), (r.m, 4 * r.k))
    yield read("b", 4 * r.k * r.n if r.m else 0, (r.batch, 4 * r.b_stride))
    yield from epilogue(c, r.batch, r.m, 4 * r.n)
    yield write("c", 4 * r.m * r.n, (r.batch, 4 * r.c_stride))


@reaches("dot_blocks")
def dot_blocks(c: Call) -> Iterator[Reach]:
    bits = c.params["bits"]
    r, width = c.record("m n batch", "k block height"), NV * c.lanes
    used, most = bool(r.m and r.n and r.batch), few_rows(c.tier) if r.few else max_rows(c.tier, NV)
    need(r.k % per_word(bits) == 0, f"k is {r.k}, expected a multiple of {per_word(bits)}")
    need(r.height <= most, f"height is {r.height}, more than the {most} rows of a tile")
    blocks = parts(r.k // per_word(bits), r.block)
    size = group_bytes(c.tier, bits, r.block * per_word(bits), blocks, bool(r.zeros))
    yield read("a", 4 * r.k * used, (r.batch * r.m, 4 * r.lda))
    yield read("b", size * used, (parts(r.n, width), r.group))
    panel = 0 if r.few else 4 * (1 + r.k) * width * used
    need(panel <= r.scratch_bytes, f"scratch_bytes is {r.scratch_bytes}, less than a panel of {panel}")
    yield work("scratch", panel, (c.threads, r.scratch_bytes))
    yield from epilogue(c, r.batch, r.m, 4 * r.n)
    yield write("c", 4 * r.n, (r.batch * r.m, 4 * r.ldc))


@reaches("row_int8")
def row_int8(c: Call) -> Iterator[Reach]:
    nv, rowsum, out = c.params["nv"], c.params["rowsum"], STORES[c.params["out"]]
    r, together = c.record("n n0", "k"), chains(nv)
    need(r.k % together == 0, f"k is {r.k}, expected a multiple of {together}")
    over = 4 * together - 1
    yield read("a", 4 * r.k - over, over=over)
    words = HEAD_LINES[rowsum] * nv + r.k * vectors_per_word(c.tier, nv, rowsum)
    yield read("b", _panels(c, r.n) * words * c.vector)
    yield write("c", r.n * out, start=r.n0 * out)


@reaches("conv", "conv_int8", "conv_dynamic")
def conv(c: Call) -> Iterator[Reach]:
    kind, r = _kind(c), c.record("images sets n n0 n_set out_d out_h out_w k", "band length")
    need(r.k % r.length == 0, f"k is {r.k}, expected runs of {r.length}")
    _tiles(c)
    pixels = r.out_d * r.out_h * r.out_w
    used = int(bool(r.images * r.sets * pixels * r.n))
    table = c.table("taps", used * r.k // r.length)
    yield read("taps", 8 * used * r.k // r.length)
    if r.direct:
        yield work("scratch", 0)
        step = r.stride_y * r.x_y
        need(step == r.gs or r.band >= r.out_h, f"gs is {r.gs}, but bands begin {step} bytes a row apart")
    else:
        yield from band(c, kind.item, used * r.band, r.out_h)
    yield from taps(c, table, 4 * r.length, kind.over, r.band, r.out_w)
    yield read("w", used * r.sets * _panels(c, r.n) * (kind.head + r.k * kind.word))
    yield from _ending(c, r.images, pixels, 4 * r.n, (r.sets, 4 * r.n_set), start=4 * r.n0)
    rows = (r.images * pixels, r.ldy * kind.out), (r.sets, r.n_set * kind.out)
    yield write("y", r.n * kind.out, *rows, start=r.n0 * kind.out)


def _tiles(c: Call) -> None:
    """Misfit unless the kernel has tiles of the height that the record says."""
    costs = INT8_COSTS[c.params.get("rowsum", False)] if c.kernel.endswith(("_int8", "_dynamic")) else F32_COSTS
    most, height = costs.most_rows(c.tier, c.params["nv"]), c.record().height
    need(1 <= height <= most, f"height is {height}, expected 1 to {most}")


@reaches("winograd")
def winograd(c: Call) -> Iterator[Reach]:
    m, tall, width = c.params["m"], c.params["tall"], c.params["nv"] * c.lanes
    _tiles(c)
    r = c.record(
        "images out_d out_h out_w outputs y_z y_y n d h pixel lacking scratch_bytes band_y band_z "
        "v_start v_row v_plane s_start s_plane o_start",
        "k channels k_d parts_y parts_x band slices across",
    )
    places, down, outputs = (m + 2) ** (1 if tall else 2), parts(r.out_h, m), r.images * r.out_d * r.outputs
    tallest, used = min(r.band, down), int(bool(outputs * r.n))
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
    yield work("scratch", r.scratch_bytes * used, (c.threads, r.scratch_bytes))
    count = _panels(c, r.n)
    yield read("w", used * 4 * (places * count * (r.k + 1) + count) * width)
    yield from epilogue(c, r.images, r.out_d * r.outputs, 4 * r.n)
    if (r.y_z, r.y_y) == (r.outputs, r.out_w):
        yield write("y", 4 * r.n, (outputs, 4 * r.ldy))
        return
    need(r.outputs == r.out_h * r.out_w, f"{r.outputs} outputs in {r.out_h} rows of {r.out_w} that are apart")
    need(r.y_y >= r.out_d * r.y_z and r.y_z >= r.out_w, f"{r.y_y} pixels of rows of {r.out_d} times {r.y_z}")
    steps = (r.images, r.out_d * r.outputs), (r.out_h, r.y_y), (r.out_d, r.y_z), (r.out_w, 1)
    yield write("y", 4 * r.n, *((count, 4 * r.ldy * pixels) for count, pixels in steps))


def _winograd_rows(c: Call, rows: int, used: int) -> Iterator[Reach]:
    """Rows of x that bands of all outputs, so many rows of a slice, copy: the last one of a slice may be shorter."""
    r = c.record()
    z = np.arange(r.out_d)[:, None] * r.stride_z - r.pad_z + np.arange(r.k_d) * r.dilation_z
    y = np.arange(rows) - r.pad_y
    slices, inside = offsets(z[(z >= 0) & (z < r.d)] * r.x_z), y[(y >= 0) & (y < r.h)]
    images = (r.images * used, r.x_image)
    if not r.lacking:
        yield from copied(c, 4, images, slices, offsets(inside * r.x_y))
        return
    for lines, run in ((inside[inside < r.h - 1], r.run), (inside[inside == r.h - 1], r.run - r.lacking)):
        yield read("x", 4 * run, images, slices, offsets(lines * r.x_y), start=r.x_first, over=short(4 * run, c.vector))


@reaches("pack_b")
def pack_b(c: Call) -> Iterator[Reach]:
    r, width = c.record("n batch", "k"), c.params["nv"] * c.lanes
    yield read("b", 4 * r.n, (r.batch, 4 * r.b_stride), (r.k, 4 * r.ldb))
    yield write("packed", 4 * r.batch * parts(r.n, width) * (1 + r.k) * width)


@reaches("pack_b_int8")
def pack_b_int8(c: Call) -> Iterator[Reach]:
    r = c.record("n batch", "k")
    yield read("b", r.n, (r.batch, r.b_stride), (r.k, r.ldb), over=short(r.n, c.vector))
    size = (HEAD_LINES[True] * 4 + parts(r.k, 4) * vectors_per_word(c.tier, 4, True)) * c.vector
    yield write("packed", r.batch * parts(r.n, c.vector) * size)


@reaches("col2im", "col2im_int8")
def col2im(c: Call) -> Iterator[Reach]:
    r = c.record(
        "images sets n d h w out_d out_h out_w k_d k_h k_w scratch_bytes", "stride_z stride_y stride_x",
        "dilation_z dilation_y dilation_x pad_z pad_y pad_x",
    )  # fmt: skip
    pixels, item = r.out_d * r.out_h * r.out_w, STORES[c.params.get("out", "words")]
    used = int(bool(r.images * r.sets * pixels))
    line, channels = 4 * used * r.out_w * r.n, r.sets * r.n
    yield read("t", 4 * used * channels * r.images * r.d * r.h * r.w * r.k_d * r.k_h * r.k_w)
    yield read("bias", 4 * used * channels)
    need(line <= r.scratch_bytes, f"scratch_bytes is {r.scratch_bytes}, less than a row of {line}")
    yield work("scratch", line, (c.threads, r.scratch_bytes))
    if c.kernel == "col2im_int8":
        yield read("multipliers", 4 * used * channels)
    else:
        yield from epilogue(c, r.images, pixels, 4 * channels)
    yield write("y", item * channels, (r.images * pixels, item * r.ldy))


@reaches("extremes")
def extremes(c: Call) -> Iterator[Reach]:
    r = c.record("images count", "parts")
    yield read("x", 4 * r.images * r.count)
    yield write("extremes", 8 * r.images * r.parts)


@reaches("dynamic_round")
def dynamic_round(c: Call) -> Iterator[Reach]:
    r = c.record("images rows run top left bottom right", "parts")
    need(0 <= r.grid < len(GRIDS), f"grid is {r.grid}, expected the place of one in {GRIDS}")
    need(r.per_image in (0, 1), f"per_image is {r.per_image}, expected 0 or 1")
    lines, item = r.top + r.rows + r.bottom, SIZES[c.params["out"]]
    used = r.images if lines else 0
    yield read("x", 4 * used * r.rows * r.run, here=item == 4)
    ranges = used if r.per_image else min(used, 1)
    yield read("extremes", 8 * ranges * r.parts)
    yield write("ranges", RANGE_BYTES * ranges)
    yield write("y", item * used * lines * (r.left + r.run + r.right))
