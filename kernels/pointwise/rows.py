"""Rows of the table for elementwise kernels, and for those that go along one axis. Strides are in elements."""

from __future__ import annotations

from ..core.record import Record
from ..core.table import OPEN, Row

LOOPS = Record(
    y="address of the result; its rows are dense",
    cols="elements of a row",
    rows="rows of a plane",
    d2="planes, and so on outwards",
    d1="",
    d0="the outermost loop",
    y_row="from row to row of y",
    y_d2="from plane to plane of y, and so on outwards",
    y_d1="",
    y_d0="",
)
"""What elementwise kernels loop over, and where the result lies. `elementwise_shape.loops` makes it from shapes."""

OPERAND = Record(
    x="address of an input",
    row="from row to row, 0 where all are the same",
    d2="from plane to plane, and so on outwards",
    d1="",
    d0="",
)
"""Records of LOOPS go on with this for each input: those of kind "vector" have dense rows, a "scalar" one number."""

ROUNDING = Record(
    zero="the stored number for 0.0",
    low="the least number to store",
    high="the greatest",
)
"""How `elementwise_stored` rounds: its record ends with this, behind the f32 bits of each number of the chain."""

TABLE = Record(table="address of the 256 or 65536 entries, of y's type")

AXIS = Record(
    y="address of the result, dense: [outer, n, inner] for softmax, else [outer, inner]",
    x="address of the input [outer, n, inner], dense",
    outer="",
    n="elements along the axis",
    inner="1 where the parameter `last` says that there are no inner axes",
)
"""Of kernels that go along an axis."""

ROWS: tuple[Row, ...] = (
    Row("elementwise", "pointwise.elementwise", "make", LOOPS, dict.fromkeys(("chain", "kinds"), OPEN)),
    Row("elementwise_stored", "pointwise.elementwise_stored", "make", LOOPS,
        dict.fromkeys(("chain", "kinds", "out", "limits"), OPEN)),
    Row("table", "pointwise.lookup", "make", LOOPS, dict.fromkeys(("index", "value", "vbmi"), OPEN)),
    Row("flip", "pointwise.convert", "flip", LOOPS),
    Row("cast", "pointwise.convert", "cast", LOOPS, dict.fromkeys(("source", "target"), OPEN)),
    Row("softmax", "pointwise.softmax", "make", AXIS, dict.fromkeys(("log", "last"), OPEN)),
    Row("reduce", "pointwise.reduce", "make", AXIS, dict.fromkeys(("op", "last", "chain"), OPEN)),
    Row("reduce_bytes", "pointwise.reduce_bytes", "make", AXIS, dict.fromkeys(("op", "element", "last"), OPEN)),
    Row("arg_extreme", "pointwise.arg_extreme", "make", AXIS, dict.fromkeys(("least", "element", "last"), OPEN)),
)  # fmt: skip
