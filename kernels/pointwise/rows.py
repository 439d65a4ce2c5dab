"""Rows of the table for elementwise kernels, and for those along one axis. Strides are in elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.record import Record, chain, flag, number, reads, strides, writes
from ..core.table import Row, has_rounds, rounds
from ..isa.tiers import Tier
from .steps import STEPS


def _loops(item: str) -> Record:
    """The slots of the loops of elementwise kernels and of the result's address, of elements of `item` bytes."""
    return Record(
        y=writes("the result; its rows are dense", f"{item} * cols", _steps("y", item)),
        cols="elements of a row",
        rows="rows of a plane",
        d2="planes, and so on outwards",
        d1="",
        d0="the outermost loop",
        **strides("y", "row d2 d1 d0"),
    )


def _steps(name: str, item: str) -> str:
    """The loops over rows of y or of an operand, whose strides are in elements of `item` bytes."""
    return ", ".join(f"{n}: {item} * {name}_{step}" for n, step in zip(("d0", "d1", "d2", "rows"), _DIMS, strict=True))


_DIMS = ("d0", "d1", "d2", "row")
LOOPS = _loops("item")
"""Slots that `elementwise_shape.loops` derives from shapes."""


def _operand(item: str, y_item: str, over: str = "0") -> Record:
    """The slots of an input of elements of `item` bytes with dense rows, which follow LOOPS; strides of 0 repeat.
    over: elements that may be read behind a row."""
    here = f"({item}) == ({y_item})"
    return Record(
        x=reads("an input", f"{item} * cols", _steps("x", item), over=f"{item} * ({over})", here=here),
        **strides("x", "row d2 d1 d0"),
    )


UNARY = LOOPS + _operand("item", "item")
"""The first slots of elementwise kernels with one input."""
_VECTORS = "short(cols, 4 * lanes) if index == value == 1 and tier.byte_shuffle else 0"
"""Elements behind the end that a kernel which looks bytes up in a table reads."""
TABLE = Record(table=reads("the 256 or 65536 entries, of y's type", "value << 8 * index"))
LOOKUP = _loops("value") + _operand("index", "value", _VECTORS) + TABLE
_COVERED = "short(cols, (4 if tier.masks and cols % (4 * lanes) > lanes else 1) * lanes)"
"""Bytes behind the end that a walk by whole vectors touches: with more than one vector it takes blocks of four."""
FLIP = _loops("1") + _operand("1", "1", _COVERED)

TARGETS = ("i8", "i16", "i32", "i64", "f16", "f32", "f64", "bool", "u32", "u64")
"""Types that floats and integers are cast to; u32 and u64 differ from i32 and i64 only as casts of floats."""
_BYTES = tuple(1 if kind == "bool" else int(kind[1:]) // 8 for kind in TARGETS)
CAST = Record(
    target=number("what is made of x: its place in TARGETS", f"in range({len(TARGETS)})"),
    signed="1 where whole numbers of x have a sign, else 0; which means nothing for other x",
)
CONVERT = _loops(f"{_BYTES}[target]") + _operand("bytes_of(source)", f"{_BYTES}[target]") + CAST


def _axis(item: str, y: str, over: str = "0", here: str = "0", least: int = 0) -> Record:
    """The slots of kernels along an axis, of elements of `item` bytes; `y`: bytes of a result."""
    return Record(
        y=writes("the result, dense: [outer, n, inner] of softmax and running sums, else [outer, inner]", y),
        x=reads("the input [outer, n, inner], dense", f"{item} * outer * n * inner", over=over, here=here),
        outer="",
        n=number("elements along the axis", f">= {least}"),
        inner="",
    )


AXIS = _axis("4", "4 * outer * n * inner", here="1")
_SIGNED = Record(signed=flag("1 where whole numbers have a sign, else 0; which means nothing for floats"))

CALL = Record(
    table="address of the chain's table: CHAIN, READ for each operand, then the steps",
    d0="where the elements begin: the place in the outermost loop of the operands",
    d1="",
    image="",
    row="",
    column="",
    rows="how many",
    columns="of each row",
    x="address of the f32 that are value 0",
    x_row="bytes from row to row of it",
    y="address of the result, which may be that of an operand that is read in the same way",
    y_row="bytes from row to row of it",
)
"""The record of the kernel `chain`: rows x columns of a chain's result."""

CHAIN = Record(
    operands="how many",
    steps="how many",
    item="bytes of an element of the result",
    temporaries="values that wait on the stack for later steps",
    block="f32 of each of them: elements that go through all steps before the next",
)
"""The head of a chain's table."""
READ = Record(
    operand="address of its first element",
    operand_d0="bytes from place to place of the outermost loop",
    operand_d1="",
    operand_image="",
    operand_row="",
    operand_column="bytes of an element, or 0: a row has one number",
)
"""An operand of a chain; for a number all slots behind its address are 0."""
STEP = Record(kernel="address of a `vector_op`", words="of this step; after these two come its result and operands")
"""A step of a chain, whose values are given by the offsets of their VALUEs: see `value`."""
VALUE = Record(address="of an element", row="bytes from row to row", column="bytes from column to column")
"""A value during a walk. In memory: rows, columns, then a VALUE for 0 (x), 1 (y), each operand and each temporary."""
MOST_VALUES = 192
ROOM = 4096
"""f32 that all temporaries of a chain have on the stack together."""


def value(number: int) -> int:
    """The offset in bytes of a VALUE from the start of a walk's values."""
    return 16 + 8 * len(VALUE) * number


_WALK = "address of the kernel `chain`, or 0: there is none"
_TABLE = "the chain's table, or 0"
WALK = Record(walk=_WALK, table=f"address of {_TABLE}")


_BITS = "in range(-1 << 31, 1 << 32)"


def ending(
    images: str, rows: str, n: str = "n", columns: str = "", forms: int = 3, here: str = "1", **facts: str
) -> Record:
    """EPILOGUE of a kernel that sums, of each of so many `images`, `rows` rows of n f32, in all `columns`.

    forms: how many it has; here: of what its chain reads; facts: of all that is read.
    """
    places = f"{images}: 4 * addend_image, {rows}: 4 * addend_row, {columns}"
    return Record(
        form=number("what is made of sums: the place of an operation in FORMS", f"in range({forms})"),
        low=number(
            "f32 bits: clip's least result, -inf without; slope of leaky_relu, hard_sigmoid; alpha of swish", _BITS
        ),
        high=number("alike: clip's greatest result, inf without; what hard_sigmoid adds", _BITS),
        addend=reads(
            "f32 that are added first, 0 without",
            f"4 * {n}",
            places,
            when="form == 0",
            optional=True,
            here="1",
            **facts,
        ),
        addend_image="f32 from image to image of it",
        addend_row="f32 from row to row",
        walk=_WALK,
        table=chain(_TABLE, f"1, 1, {images}, {rows}", f"4 * {n}", columns, here=here, **facts),
    )


EPILOGUE = ending("images", "rows")
"""How a kernel turns its sums into results: y = clip(sum + addend, low, high), another of FORMS, or a chain whose value
0 is the sum (then nothing is added). pointwise/epilogue.py implements it."""
FORMS = ("clip", "leaky_relu", "hard_sigmoid_mul")
"""`hard_sigmoid_mul`: x * hard_sigmoid(x)."""
LONG_FORMS = ("sigmoid_mul", "swish", "gelu", "gelu_tanh")
"""Further forms of f32 depthwise kernels and of tiles of bf16. `sigmoid_mul`: x * sigmoid(x), with the product rounded
too."""
ALL_FORMS = len(FORMS) + len(LONG_FORMS)
NO_EPILOGUE = {**dict.fromkeys(EPILOGUE, 0), "low": -0x800000, "high": 0x7F800000}
"""The slots with which results are the sums."""

ELEMENTWISE = LOOPS + Record(item=number("bytes of an element of y", "> 0")) + WALK

NUMBERS = ("i8", "i16", "i32", "i64", "f16", "f32", "f64")
"""Element types as they are in memory: signed and unsigned integers, and floats."""


def _looks_up(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Whether the tier can permute bytes across registers of 512 bits."""
    return not params["vbmi"] or (tier.masks and params["index"] == params["value"] == 1)


def permutes(params: Mapping[str, Any]) -> tuple[str, ...]:
    """The CPU flag for that."""
    return ("avx512vbmi",) if params["vbmi"] else ()


def _bytes(name: str) -> Record:
    """A tensor that the kernel `exact` reads."""
    return Record({
        name: "address of a tensor, 0 of one that the operation does not have",
        f"{name}_d0": "bytes from place to place of the outermost loop",
        f"{name}_d1": "", f"{name}_d2": "", f"{name}_row": "",
        f"{name}_column": "bytes of an element, or 0: a row has one number",
    })  # fmt: skip


EXACT = LOOPS + Record(
    operation="its place among `exact_names.operations` of the element type", item="bytes of an element of y"
) + _bytes("a") + _bytes("b") + _bytes("c")  # fmt: skip
"""c: the bools by which `where` chooses a or b."""

WIDE = ("i32", "i64", "f32", "f64")
"""Elements of sums and products; narrower ones are cast to these before."""
_BYTES_OVER = "(short(n, vector) if inner == 1 else short(inner, {})) if element == 'i8' else 0"
ARG = (
    _axis("bytes_of(element)", "8 * outer * inner", over=_BYTES_OVER.format("lanes"), least=1)
    + _SIGNED
    + Record(
        least=flag("1 where the smallest is looked for, 0 for the largest"),
        last="1 where the last of several is looked for, 0 for the first",
    )
)
RUNS = ("sum", "prod")
RUNNING = _axis("bytes_of(element)", "bytes_of(element) * outer * n * inner", here="1", least=1) + Record(
    operation=number("its place in RUNS; y is like x", f"in range({len(RUNS)})"),
    exclusive="1 where an element is not in its own sum, else 0",
    reverse="1 where it begins at the end, else 0",
)

_ITEM = "bytes_of(element)"
PRODUCT = Record(
    a=reads("A [batch, m, k]", f"{_ITEM} * m * k", "batch: a_batch"),
    b=reads("B [batch, k, n]", f"{_ITEM} * k * n", "batch: b_batch"),
    y=writes("the result [batch, m, n]", f"{_ITEM} * batch * m * n"),
    m="", k="", n="", batch="how many products",
    a_batch="bytes from one A to the next, 0 where it is the same",
    b_batch="alike, of B",
)  # fmt: skip

RANDOM = Record(
    y=writes("the words: blocks of 4 u32, of 2 where `threefry`", "(8 if threefry else 16) * blocks"),
    key=reads("a u64", "8"),
    high=reads("a u64: the upper half of the counters; means nothing to Threefry", "8"),
    counter=reads("a u64: the first counter's lower half", "8"),
    blocks="",
    threefry=flag("1: Threefry; 0: Philox"),
    fresh=flag("1 where the time is added to `high`, so that no two calls give the same words; else 0"),
)

_FLAG = (False, True)
_SUMS = "(4 if element == 'bf16' else bytes_of(element))"
REDUCE = (
    _axis("bytes_of(element)", f"{_SUMS} * outer * inner", over=_BYTES_OVER.format("vector"))
    + _SIGNED
    + Record(
        divisor="f32 bits: what sums of f32 are divided by: n for a mean, else 1",
        walk=_WALK,
        table=chain(_TABLE, "1, 1, 1, outer", "4 * inner"),
    )
)
"""The chain is walked over results, which are f32; so are those of bf16."""
NORM = Record(
    y=writes("the result, rows of n elements", "bytes_of(out) * n", "rows: y_row"),
    x=reads("the input, rows of n f32", "4 * n", "rows: x_row", here="out == 'f32'"),
    scale=reads("n f32", "4 * n"),
    bias=reads("n f32, or 0", "4 * n", optional=True),
    rows="how many",
    n=number("elements of a row", "> 0"),
    y_row="bytes from row to row of y",
    x_row="bytes from row to row of x",
    inverse="f32 bits: 1 / n",
    epsilon="f32 bits: what is added to the mean square",
    centered="whether the mean is taken off before",
)
_PLAIN = ("max", "min", "sum", "prod")
REDUCTIONS = {
    "i8": _PLAIN[:2], "bf16": ("sum",), "i32": _PLAIN, "i64": _PLAIN, "f64": _PLAIN,
    "f32": (*_PLAIN, "sum_square", "sum_abs", "log_sum_exp"),
}  # fmt: skip
"""Reductions by element type."""


def _reduces(tier: Tier, params: Mapping[str, Any]) -> bool:
    return params["op"] in REDUCTIONS[params["element"]] and has_rounds(tier, params)


_REDUCTIONS = {"element": tuple(REDUCTIONS), "op": REDUCTIONS["f32"]}
_TABLES = {"index": (1, 2), "value": (1, 2, 4), "vbmi": _FLAG}

ROWS: tuple[Row, ...] = (
    Row("chain", "pointwise.walk", "make", CALL),
    Row("vector_op", "pointwise.vector_op", "make", Record(), {"op": tuple(STEPS)}, has_rounds, needs=rounds),
    Row("elementwise", "pointwise.elementwise", "make", ELEMENTWISE),
    Row("table", "pointwise.lookup", "make", LOOKUP, _TABLES, _looks_up, needs=permutes),
    Row("flip", "pointwise.convert", "flip", FLIP),
    Row("cast", "pointwise.convert", "cast", CONVERT, {"source": NUMBERS}),
    Row("exact", "pointwise.exact", "make", EXACT, {"element": NUMBERS}),
    Row("product", "pointwise.product", "make", PRODUCT, {"element": WIDE}, product=True),
    Row("random", "pointwise.random", "make", RANDOM),
    Row("softmax", "pointwise.softmax", "make", AXIS, {"log": _FLAG}),
    Row("norm", "pointwise.norm", "make", NORM, {"out": ("f32", "bf16")}, has_rounds, needs=rounds),
    Row("reduce", "pointwise.reduce", "make", REDUCE, _REDUCTIONS, _reduces, needs=rounds),
    Row("arg_extreme", "pointwise.arg_extreme", "make", ARG, {"element": ("i8", *WIDE)}),
    Row("running", "pointwise.running", "make", RUNNING, {"element": WIDE}),
)
