"""Rows of the table for elementwise kernels, and for those that go along one axis. Strides are in elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.record import Record
from ..core.table import OPEN, Row
from ..isa.tiers import Tier

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
CAST = Record(signed="1 where whole numbers of x have a sign, else 0; which means nothing for other x")
"""Behind LOOPS and the one OPERAND, as TABLE."""

AXIS = Record(
    y="address of the result, dense: [outer, n, inner] for softmax, else [outer, inner]",
    x="address of the input [outer, n, inner], dense",
    outer="",
    n="elements along the axis",
    inner="1 where the parameter `last` says that there are no inner axes",
)
"""Of kernels that go along an axis."""
FLIPPED = AXIS + Record(flip="bits that are turned in each element of x, so that the greatest is what is looked for")
"""Of kernels that look for an extreme: f32 are negated for the least, bytes become unsigned, or their opposites."""

NUMBERS = ("i8", "i16", "i32", "i64", "f16", "f32", "f64")
"""What numbers are in memory: whole ones with or without a sign, and floats."""


def _casts(tier: Tier, params: Mapping[str, Any]) -> bool:
    """To the same type nothing is done. Of floats, what an int32 or int64 can't hold is the processor's choice."""
    source, target = params["source"], params["target"]
    if "f16" in (source, target):
        return "f32" in (source, target)
    return source != target and (source[0] == "i" or target not in ("i8", "i16"))


def _looks_up(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Bytes are permuted across registers of 512 bits."""
    return not params["vbmi"] or (tier.lanes == 16 and params["index"] == params["value"] == 1)


_FLAG = (False, True)
ROWS: tuple[Row, ...] = (
    Row("elementwise", "pointwise.elementwise", "make", LOOPS, dict.fromkeys(("chain", "kinds"), OPEN)),
    Row("elementwise_stored", "pointwise.elementwise_stored", "make", LOOPS,
        dict.fromkeys(("chain", "kinds", "out", "limits"), OPEN)),
    Row("table", "pointwise.lookup", "make", LOOPS, {"index": (1, 2), "value": (1, 2, 4), "vbmi": _FLAG}, _looks_up),
    Row("flip", "pointwise.convert", "flip", LOOPS),
    Row("cast", "pointwise.convert", "cast", LOOPS, {"source": NUMBERS, "target": (*NUMBERS, "bool")}, _casts),
    Row("softmax", "pointwise.softmax", "make", AXIS, {"log": _FLAG, "last": _FLAG}),
    Row("reduce", "pointwise.reduce", "make", AXIS, dict.fromkeys(("op", "last", "chain"), OPEN)),
    Row("reduce_bytes", "pointwise.reduce_bytes", "make", FLIPPED, {"last": _FLAG}),
    Row("arg_extreme", "pointwise.arg_extreme", "make", FLIPPED, {"element": ("f32", "u8"), "last": _FLAG}),
)  # fmt: skip
