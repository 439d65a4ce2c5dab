"""What matrix products reach, and the packing of their right operand: floats, bytes, and bytes rounded at run time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...kernels.gemm.pack_int8 import HEAD_LINES, vectors_per_word
from ...kernels.gemm.pick_int8 import chains
from ...kernels.gemm.rows import RANGE_BYTES
from .call import Call, Reach, need, parts, prod, reaches, read, short, work, write
from .moves import SIZES


@dataclass(frozen=True)
class Kind:
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


def kind_of(c: Call) -> Kind:
    """How the kernel of a product computes."""
    nv, name = c.params["nv"], c.step.kernel.name
    if name.endswith("_dynamic"):
        return Kind(1, 4, 3 * nv * c.vector, vectors_per_word(c.tier, nv, False) * c.vector)
    if name.endswith("_int8"):
        rowsum = c.params["rowsum"]
        words = vectors_per_word(c.tier, nv, rowsum)
        return Kind(1, SIZES[c.params["out"]], HEAD_LINES[rowsum] * nv * c.vector, words * c.vector)
    return Kind(4, 4, nv * c.vector, nv * c.vector)


def panels(c: Call, n: int) -> int:
    """Panels of n columns; what isn't ragged stores whole ones."""
    width = c.params["nv"] * c.lanes
    need(c.params["ragged"] or n % width == 0, f"n is {n}, expected whole panels of {width}")
    return parts(n, width)


def ending(
    c: Call, images: int, rows: int, run: int, *columns: tuple[int, int], start: int, here: bool = True
) -> Iterator[Reach]:
    """What follows a product's own slots: ranges of what was rounded at run time, and the operands of its chain."""
    if c.step.kernel.name.endswith("_dynamic"):
        image, row = c.counts("per_image per_row")
        loops = (images, RANGE_BYTES * image), (rows, RANGE_BYTES * row)
        yield read("ranges", RANGE_BYTES, *loops)
    yield from c.extras(images, rows, run, *columns, start=start, here=here)


@reaches("dot", "dot_int8", "dot_dynamic")
def dot(c: Call) -> Iterator[Reach]:
    kind, params = kind_of(c), c.params
    m, n, n0, batch = c.counts("m n n0 batch")
    k = c.count("k", 1)
    c.count("block", 1)
    lda, ldc, sa, sb, sc = c.numbers("lda ldc a_stride b_stride c_stride")
    mr, tail = params["mr"], params["tail"]
    whole = m % mr == 0 or tail == m % mr or (tail == 0 and m >= mr)
    need(whole, f"m is {m}, with tiles of {mr} rows and a last one of {tail}")
    size = kind.head + k * kind.word
    rows = (batch, sa * kind.item), (m, lda * kind.item)
    yield read("a", 4 * k - kind.over if m and n and batch else 0, *rows, over=kind.over)
    yield read("b", panels(c, n) * size if m else 0, (batch, 4 * sb))
    yield from ending(c, batch, m, 4 * n, start=4 * n0, here=m % mr in (0, tail))
    yield write("c", n * kind.out, (batch, sc * kind.out), (m, ldc * kind.out), start=n0 * kind.out)


@reaches("row_int8")
def row_int8(c: Call) -> Iterator[Reach]:
    nv, rowsum, out = c.params["nv"], c.params["rowsum"], SIZES[c.params["out"]]
    n, n0, together = *c.counts("n n0"), chains(nv)
    k = c.count("k", together)
    need(k % together == 0, f"k is {k}, expected a multiple of {together}")
    word = vectors_per_word(c.tier, nv, rowsum) * c.vector
    over = 4 * together - 1
    yield read("a", 4 * k - over, over=over)
    yield read("b", panels(c, n) * (HEAD_LINES[rowsum] * nv * c.vector + k * word))
    yield write("c", n * out, start=n0 * out)


@reaches("pack_b")
def pack_b(c: Call) -> Iterator[Reach]:
    n, batch = c.counts("n batch")
    k, width = c.count("k", 1), c.params["nv"] * c.lanes
    ldb, step = c.numbers("ldb b_stride")
    yield read("b", 4 * n, (batch, 4 * step), (k, 4 * ldb))
    yield write("packed", 4 * batch * parts(n, width) * (1 + k) * width)


@reaches("pack_b_int8")
def pack_b_int8(c: Call) -> Iterator[Reach]:
    n, batch = c.counts("n batch")
    k = c.count("k", 1)
    ldb, step = c.numbers("ldb b_stride")
    yield read("b", n, (batch, step), (k, ldb), over=short(n, c.vector))
    size = (HEAD_LINES[True] * 4 + parts(k, 4) * vectors_per_word(c.tier, 4, True)) * c.vector
    yield write("packed", batch * parts(n, c.vector) * size)


@reaches("col2im", "col2im_int8")
def col2im(c: Call) -> Iterator[Reach]:
    images, sets, n = c.counts("images sets n")
    size, out = c.counts("d h w"), c.counts("out_d out_h out_w")
    kernel = c.counts("k_d k_h k_w")
    c.counts("stride_z stride_y stride_x", 1)
    c.numbers("dilation_z dilation_y dilation_x pad_z pad_y pad_x")
    pixels = prod(out)
    used = 1 if images and sets and pixels else 0
    need(not used or out[2] > 0, "no pixels in a row")
    yield read("t", used * 4 * sets * images * prod(size) * prod(kernel) * n)
    yield read("bias", used * 4 * sets * n)
    line = c.count("scratch_bytes")
    need(not used or 4 * out[2] * n <= line, f"scratch_bytes is {line}, less than a row of {4 * out[2] * n}")
    yield work("scratch", used * 4 * out[2] * n, (c.threads, line))
    item = SIZES[c.params.get("out", "f32")]
    if c.step.kernel.name == "col2im_int8":
        yield read("multipliers", used * 4 * sets * n)
    yield from c.extras(images, pixels, 4 * sets * n)
    yield write("y", item * sets * n, (images * pixels, item * c.number("ldy")))


@reaches("extremes")
def extremes(c: Call) -> Iterator[Reach]:
    images, n, each = *c.counts("images count"), c.count("parts", 1)
    yield read("x", 4 * images * n)
    yield write("extremes", 8 * images * each)


@reaches("dynamic_round")
def dynamic_round(c: Call) -> Iterator[Reach]:
    images, rows, run, each = *c.counts("images rows run"), c.count("parts", 1)
    top, left, bottom, right = c.counts("top left bottom right")
    lines, item = top + rows + bottom, SIZES[c.params["out"]]
    used = images if lines else 0
    yield read("x", 4 * used * rows * run, here=item == 4)
    yield read("extremes", 8 * used * each)
    yield write("ranges", RANGE_BYTES * used)
    yield write("y", item * used * lines * (left + run + right))
