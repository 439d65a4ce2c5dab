"""The data-movement kernels: their records and their rows of the table.

Strides, offsets and runs are bytes (`..._s` in the source, `..._d` in the destination), the rest are elements, unless a
slot says otherwise. copy_plan.py, take_plan.py, gather_scatter_plan.py and resize_plan.py fill the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.record import Record, flag, number, reads, works, writes
from ..core.table import Row
from ..isa.tiers import Tier

WORDS = (1, 2, 4, 8)
"""Bytes that are moved as one element."""
NARROW = 8
"""Up to how many rows or columns of a transpose are interleaved."""
SHORT = 4
"""Up to how many elements that lie together have a body of their own in a resize, which reads no more."""
OUTER = 6
"""Outer loops that a record has room for."""


def outer_loops(loop: Record) -> Record:
    """The slots of the outer loops, innermost first: their number `rank`, then the fields of loop 0 as n0 ..., of loop
    1 ...
    """
    each = {f"{name}{k}": f"{meaning}, in outer loop {k}" for k in range(OUTER) for name, meaning in loop.items()}
    rank = number("how many outer loops there are; the others' slots have no meaning", f"in range({OUTER + 1})")
    return Record(rank=rank) + Record(each)


LOOP = Record(n="places", s="from one to the next in src", d="from one to the next in dst")

PAD_LOOP = Record(
    n="places in dst",
    low="the first of them that exists in src",
    inside="how many exist in src",
    s="from one to the next in src",
    d="from one to the next in dst",
)

TAKE_LOOP = Record(
    n="places", table="address of their int64 offsets in src; negative: outside of it", d="from one to the next in dst"
)

_DST, _SRC = "the destination", "the source"


def _moved(loop: Record, dst: str, src: str, **slots: str) -> Record:
    """The record of a move: source and destination, its own slots, its outer loops."""
    return Record(dst=dst, src=src, **slots) + outer_loops(loop)


_STEPS = "count if mode == 'step' else 1"
_RUN = "itemsize * (1 if mode == 'step' else {})"
COPY = _moved(
    LOOP,
    writes(_DST, _RUN.format("count"), f"**each(rank, 'n', 'd'), rows: row_d, ({_STEPS}): step_d"),
    reads(
        _SRC,
        _RUN.format("min(count, 1) if mode == 'fill' else count"),
        f"**each(rank, 'n', 's'), rows: row_s, ({_STEPS}): step_s",
    ),
    itemsize=number(
        "bytes of an element; 1 in mode run, where all counts in bytes", f"in ((1,) if mode == 'run' else {WORDS})"
    ),
    count="elements of a row",
    step_s=number("from one to the next in src", "== (mode == 'run') or mode == 'step'"),
    step_d=number("from one to the next in dst", "== itemsize or mode == 'step'"),
    rows="how many rows: the innermost loop around them",
    row_s="from row to row of src",
    row_d="from row to row of dst",
)

_TILE = "{1: 16, 2: 8, 4: lanes, 8: max(2, lanes // 2)}[itemsize]"
"""Rows and columns of a transpose's tile. Only those that lack some read on behind a row."""
TRANSPOSE = _moved(
    LOOP,
    writes(_DST, "itemsize * cols", "**each(rank, 'n', 'd'), rows: row_d"),
    reads(
        _SRC,
        "itemsize * rows",
        "**each(rank, 'n', 's'), cols: col_s",
        over=f"0 if narrow or min(rows, cols) >= {_TILE} else short(rows, {_TILE}) * itemsize",
    ),
    rows=number("rows of dst, elements in a row of src", f">= ({_TILE} if narrow > 0 else 0)"),
    row_d=number("from row to row of dst", "== few * itemsize or narrow <= 0"),
    cols=number("elements in a row of dst, rows of src", f">= ({_TILE} if narrow < 0 else 0)"),
    col_s=number("from row to row of src", "== -few * itemsize or narrow >= 0"),
    few=number(
        "if narrow is 1: cols, where rows of dst are dense; if -1: minus rows, where those of src are; else 0",
        f"== narrow * (cols if narrow > 0 else rows) and few * narrow in range(2 * abs(narrow), {NARROW + 1})",
    ),
    high=number("rows of dst that are done together; if narrow: places of either side", f"> 0 and high % {_TILE} == 0"),
    wide=number("columns of dst that are done together; fewer than a tile's count as those", "> 0"),
)

PAD = _moved(
    PAD_LOOP,
    writes(_DST, "left + run + right", "**each(rank, 'n', 'd')"),
    f"address of {_SRC}",
    fill="an element's bits, repeated to 8 bytes",
    left="bytes of fill before a run",
    run="bytes of a run, 0 or more",
    right="bytes of fill after a run",
)

SLICE = Record(
    dst=writes(_DST, "run", "(turns if turn_d else 1): turn_d, rows: row_d"),
    src=reads(_SRC, "run", "(turns if turn_s else 1): turn_s, rows: row_s"),
    turn=reads("an int64, 0 to turns - 1: which slice is copied", "8"),
    turns=number("how many slices there are", "> 0"),
    turn_s="from slice to slice of src",
    turn_d="from slice to slice of dst",
    rows="rows of a slice",
    run="bytes of a row",
    row_s="from row to row of src",
    row_d="from row to row of dst",
)

ROUND = Record(
    go=writes("the byte that becomes 1 when another round begins, else 0", "1"),
    turn=writes("the int64 that becomes its number", "8"),
    limit=reads("an int64: how many rounds there are at most", "8"),
    test=reads("the byte that says whether there is another below that", "1"),
    first="1 before the first round: `turn` becomes 0; then 0: it becomes one more",
)

PLACE_LOOP = Record(
    n="places",
    s="from one to the next in src",
    i="from one to the next in the indices",
    d="from one to the next in dst",
)
COMPONENT = Record(
    extent="places that an index can say",
    stride="from one to the next in what is indexed",
    wrap="what is added to an index below 0",
)
DEPTH = 6
"""Indices that say one place."""
REPORTED, MOVED, LEFT_OUT = range(3)
"""How indices out of range are treated: as an error; clamped to the nearest; or nothing is written."""


def _places(dst: str, components: str, fates: Sequence[int]) -> Record:
    """The record of a gather or a scatter; `components`: the loops over all places of src that indices say; `fates`:
    what may become of indices out of range.
    """
    each = {name: f"{meaning}, of index {{}} of a place" for name, meaning in COMPONENT.items()}
    return _moved(
        PLACE_LOOP,
        dst,
        reads(_SRC, "run", f"count: s, **each(rank, 'n', 's'), {components}"),
        index=reads("the indices, whole numbers", "index_size", "depth: component, count: i, **each(rank, 'n', 'i')"),
        index_size=number("bytes of an index: 1, 2, 4 or 8", f"in {WORDS}"),
        signed=flag("1 where indices have a sign, else 0"),
        component=number("from one index of a place to the next", ">= 0"),
        depth=number("indices that say a place, 1 or more", f"in range(1, {DEPTH + 1})"),
        outside=number("what becomes of indices out of range: REPORTED 0, MOVED 1, LEFT_OUT 2", f"in {fates}"),
        error=writes(
            "an int64 that becomes 1 when an index is REPORTED", f"8 * (outside == {REPORTED} and places > 0)"
        ),
        parts=number(
            "equal parts that threads may share: those of the outermost loops that never write the same bytes",
            "> 0 and places % parts == 0",
        ),
        word=number(
            "bytes of what is moved at once: 1, 2, 4, 8, or 0, where that are runs; means nothing to scatter_reduce",
            f"in (0, run) and word in {(0, *WORDS)}",
        ),
        run="bytes of what lies at a place",
        count="places of the innermost loop",
        s="from one to the next in src",
        i="from one to the next in the indices",
        d="from one to the next in dst",
        **{
            f"{name}{k}": number(meaning.format(k), f"> 0 or {k} >= depth") if name == "extent" else meaning.format(k)
            for k in range(DEPTH)
            for name, meaning in each.items()
        },
    )


PLACES = _places(
    writes(_DST, "run", "count: d, **each(rank, 'n', 'd')"), "**each(depth, 'extent', 'stride')", (REPORTED, MOVED)
)
SCATTERED = _places(f"address of {_DST}", "", (REPORTED, MOVED, LEFT_OUT))
"""Of src in a gather, of dst in a scatter, the places are offset by index * stride."""

NUMBERS = ("f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
"""Element types that kernels compare and reduce, by their place here."""
OPERATIONS = ("add", "mul", "min", "max", "div")
"""The reduction of a scatter, of the old element and the update; whole numbers wrap around, and are not divided."""
_KIND = f"in range({len(NUMBERS)})"
_KIND_BYTES = f"bytes_of({NUMBERS}[kind])"
REDUCED = Record(
    kind=number("the place of the element type in NUMBERS", f"{_KIND} and run % {_KIND_BYTES} == 0"),
    operation=number("the place in OPERATIONS", f"in range({len(OPERATIONS)})"),
)


def size_of(kind: str) -> int:
    """Bytes of one of NUMBERS."""
    return int(kind[1:]) // 8


def entry_bytes(wide: bool) -> int:
    """Bytes of a heap's entry with keys of 64 bits (`wide`) or 32."""
    return 16 if wide else 8


TAKE = _moved(
    TAKE_LOOP,
    f"address of {_DST}",
    f"address of {_SRC}",
    fill="the bits of what lies outside, repeated to 8 bytes",
    itemsize=number("bytes of an element, where those are no `runs`", f"in {WORDS} or runs and itemsize >= 0"),
    rows="entries of the innermost table",
    table="its address: int64 offsets in src, or (offset in dst, offset in src, bytes) of runs",
    d="from element to element of the innermost axis in dst",
)

_OUTER_IMAGE = Record(
    outer="places of the loop around the axes",
    outer_s="from one to the next in src",
    outer_d="from one to the next in dst",
)

_ZERO = Record(zero="zero point of a result that is stored in a byte, else 0")
_PIXEL = "run * bytes_of({})"

RESIZE = Record(
    dst=writes(_DST, _PIXEL.format("target"), "outer: outer_d, n: d"),
    src=reads(
        _SRC,
        _PIXEL.format("source"),
        "outer: outer_s, **at('offset', n * taps)",
        over=f"0 if run <= {SHORT} else short(run, lanes) * bytes_of(source)",
    ),
    offset=reads("int64 [n, taps], offsets in src", "8 * n * taps"),
    weight=reads("f32 [n, taps]", "4 * n * taps"),
    bias=reads("f32 [n], what a sum begins with", "4 * n"),
    taps="terms of a sum",
) + _OUTER_IMAGE + Record(
    n="places of the axis in dst",
    d="from one to the next in dst",
    run="elements that lie together at a place",
) + _ZERO  # fmt: skip

BILINEAR = Record(
    dst=writes(_DST, _PIXEL.format("target"), "outer: outer_d, height: dy, width: dx"),
    src=reads(
        _SRC,
        _PIXEL.format("source"),
        "outer: outer_s, **at('offset_y', 2 * height), **at('offset_x', 2 * width)",
        over="short(run, lanes) * bytes_of(source)",
    ),
    offset_y=reads("int64 [height, 2], offsets in src", "16 * height"),
    weight_y=reads("f32 [height, 2]", "8 * height"),
    offset_x=reads("int64 [width, 2], offsets in src", "16 * width"),
    weight_x=reads("f32 [width, 2]", "8 * width"),
) + _OUTER_IMAGE + Record(
    height="rows of dst",
    dy="from row to row of dst",
    width="pixels in a row of dst",
    dx="from pixel to pixel of dst",
    run="elements of a pixel",
) + _ZERO  # fmt: skip

BACKWARDS = Record(
    places=writes("int64 [count, steps]", "8 * count * steps"),
    lengths=reads("the lengths, whole numbers", "count * index_size"),
    index_size=number("bytes of a length: 1, 2, 4 or 8", f"in {WORDS}"),
    signed=flag("1 where lengths have a sign, else 0"),
    count="sequences",
    steps="of each",
)

TRIANGLE = Record(
    dst=writes(_DST, "matrices * rows * columns * size"),
    src=reads(_SRC, "matrices * rows * columns * size"),
    k=reads("an int64: the diagonal up to which columns count, 0 the main one, above 0 those right of it", "8"),
    matrices="",
    rows="of a matrix",
    columns="of a matrix; rows are dense",
    size=number("bytes of an element", f"in {WORDS}"),
    upper=flag("1 where what lies on the diagonal and to its right is kept; 0: on it and to its left"),
)

POINT = Record(
    at="from a point's place in the grid to its coordinate along the axis",
    row="from row to row of points of that",
    column="from column to column",
    before="f64 bits: a coordinate g says ((g + before) * scale + after) * factor pixels",
    scale="",
    after="",
    factor="",
    low="f64 bits: what is reflected is so from here",
    high="to here",
    size="pixels",
    stride="from one to the next in src",
)
"""An axis that is sampled."""
SAMPLED = 3
"""Axes that a record has room for."""
NEAREST, LINEAR, CUBIC = range(3)
ZEROS, BORDER, REFLECTED, PADDED, REGION = range(5)
"""What lies outside: zeros (`pad`), the border's pixels, the image in a mirror; or a sample outside is `pad` itself, as
is that of a region which lies more than a pixel outside."""
MOST_POOLED = 16
"""Samples of a result along an axis."""

SAMPLE = Record(
    dst=writes(_DST, "4", "items: dst_item, channels: dst_channel, rows * columns: dst_point"),
    src=reads(_SRC, "4", "image_count: src_image, channels: src_channel, **each(axes, 'size', 'stride')"),
    grid="address of the coordinates",
    grid_size=number("bytes of one: 4 (f32) or 8 (f64)", "in (4, 8)"),
    grid_item="from item to item of them",
    share=number("items that have the same, one after the other", "> 0"),
    images=reads("an int64 for each item: which image it samples", "8 * items"),
    image_count=number("images there are", "> 0"),
    error=writes("an int64 that becomes 1 when there is no such image", "8 * (items > 0)"),
    items="",
    rows=number("rows of points of an item", "> 0"),
    columns=number("points of a row", "> 0"),
    pool=number("samples of a point along each axis, whose mean it is", f"in range(1, {MOST_POOLED + 1})"),
    channels="",
    src_image="from image to image of src",
    src_channel="from channel to channel",
    dst_item="from item to item of dst",
    dst_channel="from channel to channel",
    dst_point="from point to point",
    mode=number("NEAREST 0, LINEAR 1, CUBIC 2", "in range(3)"),
    outside=number("ZEROS 0, BORDER 1, REFLECTED 2, PADDED 3, REGION 4", "in range(5)"),
    fold=flag("1 where coordinates are reflected before they are rounded, else 0"),
    pad="bits of an f32",
    axes=number("how many are sampled, 1 or more", f"in range(1, {SAMPLED + 1})"),
) + Record({f"{name}{k}": f"{meaning}, of axis {k}" for k in range(SAMPLED) for name, meaning in POINT.items()})
"""f32 in and out."""

BOX = 5
"""f32 that `suppress` keeps of a box: low y, low x, high y, high x, area; each in a vector of its own in a block."""

BUCKETS, BUCKET_BYTES = 64, 16
"""Buckets of kept boxes: the newest block's address, int32 how many boxes are in it, f32 the highest edge. A block's
last vector has the address of an older one. Before the buckets: f32 where the first begins, and how many to a pixel.
"""

SUPPRESS = Record(
    places=writes("int64 [items, most]: the boxes that are kept, best first", "8 * most * items"),
    counts=writes("int64 [items]: how many that are", "8 * items"),
    found=writes("f32 [items, most]: their scores; or 0", "4 * most * items", optional=True),
    boxes=reads("f32 [items / share, n, 4]", "16 * n * ceil_div(items, share)"),
    scores=reads("f32 [items, n]", "4 * n * items"),
    limit=reads("an f32: the overlap up to which a box is kept", "4"),
    least=reads("an f32: scores count that are above it, or 0: all do", "4", optional=True),
    items="",
    share=number("items that have the same boxes, one after the other", "> 0"),
    n=number("boxes", "< 1 << 32"),
    most="how many are kept at most",
    count=reads("an int64: how many of the n boxes there are, or 0: all", "8", optional=True),
    wanted=reads("an int64: how many are kept at most, if that is less than `most`; or 0", "8", optional=True),
    empty="what stands behind the kept ones in `places`",
    centered=flag("1 where boxes are (x, y, width, height) of their middles; 0: opposite corners"),
    strict=flag("1 where an overlap of `limit` is too much already, else 0"),
    reaches=flag("1 where a score of `least` counts, else 0"),
    scratch=works("memory for each thread", "scratch_bytes"),
    scratch_bytes=number(
        "bytes of it: 8 for each of n, the buckets, and blocks of a vector's boxes: one started in each bucket",
        f">= 8 * n + {BUCKET_BYTES * (BUCKETS + 1)} + {4 * (BOX + 1)} * lanes * (ceil_div(most, lanes) + {BUCKETS})",
    ),
)

TOP_K = Record(
    values=writes("the best [outer, k, inner]", "outer * k * inner * size"),
    places=writes("their places along the axis, int64 [outer, k, inner]", "8 * outer * k * inner"),
    x=reads("the input [outer, n, inner]", "outer * n * inner * size"),
    outer="",
    n=number("elements along the axis", "in range(1, 1 << 32)"),
    inner="",
    k=number("how many are wanted, 1 to n", "in range(1, n + 1)"),
    count=reads("an int64: how many of the n elements there are, or 0: all", "8", optional=True),
    wanted=reads("an int64: how many are wanted, or 0: k. Zeros stand behind them", "8", optional=True),
    kind=number("the place of the element type in NUMBERS", _KIND),
    size=number("its bytes", f"== {_KIND_BYTES} and (size == 8) == wide"),
    least=flag("1 where the smallest are the best, else 0"),
    scratch=works("memory for each thread", "k * (16 if wide else 8)"),
    scratch_bytes="bytes of it: 8 for each of k, or 16 where elements have 8 bytes",
)

NON_ZERO = Record(
    places=writes("int64 [rank, n]: the place along each axis of each element that is not 0", "8 * rank * n"),
    count=writes("an int64: how many that are; zeros stand behind their places", "8"),
    x=reads("the input", "n * size"),
    dims=reads("its extents, int64 [rank]", "8 * rank"),
    rank=number("1 or more", "> 0"),
    n=number("its elements", "== prod(table('dims', rank)) and min(table('dims', rank)) > 0"),
    size=number("bytes of one: 1, 2, 4 or 8", f"in {WORDS}"),
    real=flag("1 where they are floats, of which -0 is 0, else 0"),
)

RESIZED = ("f32", "u8", "s8")


def _keeps_type(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Resizes in several passes have f32 between them; no kernel makes u8 of s8."""
    return params["source"] == params["target"] or "f32" in params.values()


_FLAG = (False, True)
ROWS = (
    Row("copy", "move.copy", "copy", COPY, {"mode": ("run", "fill", "step")}),
    Row("transpose", "move.transpose", "transpose", TRANSPOSE, {"itemsize": WORDS, "narrow": (0, 1, -1)}),
    Row("slice", "move.rounds", "slice_", SLICE),
    Row("round", "move.rounds", "round_", ROUND),
    Row("pad", "move.pad", "pad", PAD),
    Row("gather", "move.gather_scatter", "gather", PLACES),
    Row("scatter", "move.gather_scatter", "scatter", SCATTERED),
    Row("scatter_reduce", "move.gather_scatter", "scatter_reduce", SCATTERED + REDUCED),
    Row("backwards", "move.gather_scatter", "backwards", BACKWARDS),
    Row("top_k", "move.top_k", "top_k", TOP_K, {"wide": _FLAG}),
    Row("triangle", "move.triangle", "triangle", TRIANGLE),
    Row("sample", "move.sample", "sample", SAMPLE),
    Row("suppress", "move.suppress", "suppress", SUPPRESS),
    Row("non_zero", "move.non_zero", "non_zero", NON_ZERO),
    Row("take", "move.take", "take", TAKE, {"runs": _FLAG}),
    Row("resize", "move.resize", "resize", RESIZE, {"source": RESIZED, "target": RESIZED}, _keeps_type),
    Row("bilinear", "move.resize", "bilinear", BILINEAR, {"source": RESIZED, "target": RESIZED}, _keeps_type),
)
