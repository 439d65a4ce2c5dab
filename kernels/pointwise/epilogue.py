"""How kernels end: what EPILOGUE says, done with sums in registers or by walking a chain over a tile of them.

A kernel whose record has EPILOGUE from slot `first` on reads it once, `slots = loaded(b, args, EPILOGUE, first)`. Its
tiles store the result itself, which has gone through `simple`, or `shaped` and `added`; these do nothing where a chain
is walked (`is_walked`). Then tiles store their sums to a buffer, or where results go, and behind the tile, once for all
of its shapes, `walk_from` has the chain make the result of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from llvmlite import ir

from ..core.primitives import call
from ..isa.functions import clip
from ..isa.loops import loop, room, variable
from ..isa.math import OPS
from ..isa.vector import F32, I8, I32, I64, Vector
from ..lang.both import both
from .rows import CALL, FORMS, LONG_FORMS, NO_EPILOGUE


@both
def is_walked(b: Any, slots: Any) -> Any:
    """Whether a chain is walked: then sums go to a buffer."""
    return b.icmp_signed("!=", slots.walk, I64(0))


@both
def simple(v: Vector, slots: Any, values: Sequence[Any], addends: Callable[[int], Any]) -> list[Any]:
    """What the record's form makes of value + addend; addends(i) loads what is added to values[i]."""
    b = v.b
    results = [variable(b, x) for x in added(v, slots, values, addends)]
    same = [b.icmp_signed("==", getattr(slots, name), I64(NO_EPILOGUE[name])) for name in ("form", "low", "high")]
    with b.if_then(b.not_(reduce(b.and_, same))):
        for result, x in zip(results, shaped(v, slots, [b.load(result) for result in results]), strict=True):
            b.store(x, result)
    return [b.load(result) for result in results]


@both
def shaped(v: Vector, slots: Any, values: Sequence[Any], long: bool = False) -> list[Any]:
    """What the record's form makes of these vectors; long: it may be one of LONG_FORMS."""
    b = v.b
    low, high = bounds(v, slots)
    results = [variable(b, x) for x in values]
    with b.if_else(b.icmp_signed("==", slots.form, I64(0)), likely=True) as (clipped, others):
        with clipped:
            for name, relation, bound in (("low", ">", low), ("high", "<", high)):
                with b.if_then(b.icmp_signed("!=", getattr(slots, name), I64(NO_EPILOGUE[name]))):
                    for result in results:
                        x = b.load(result)
                        b.store(b.select(b.fcmp_ordered(relation, bound, x), bound, x), result)
        with others:
            for form in range(1, len(FORMS)):
                with b.if_then(b.icmp_signed("==", slots.form, I64(form))):
                    for result in results:
                        b.store(formed(v, form, b.load(result), low, high), result)
            if long:
                with b.if_then(b.icmp_signed(">=", slots.form, I64(len(FORMS)))):
                    _one_by_one(v, slots, results)
    return [b.load(result) for result in results]


@both
def _one_by_one(v: Vector, slots: Any, results: Sequence[Any]) -> None:
    """Put some variables through one of LONG_FORMS, which has a function of its own: a tile has many vectors."""
    b = v.b
    memory = room(b, v.type, len(results))
    places = [b.gep(memory, [I64(i)]) for i in range(len(results))]
    for place, result in zip(places, results, strict=True):
        b.store(b.load(result), place)
    function = b.module.globals.get("long_form") or _long_form(v)
    b.call(function, [b.ptrtoint(memory, I64), I64(len(results)), slots.form, slots.low])
    for place, result in zip(places, results, strict=True):
        b.store(b.load(place), result)


@both
def _long_form(v: Vector) -> Any:
    """The function of (address of vectors, how many, form, low) that makes one of LONG_FORMS of each."""
    function = ir.Function(v.b.module, ir.FunctionType(ir.VoidType(), [I64] * 4), "long_form")
    function.linkage = "internal"
    function.attributes.add("noinline")
    address, count, form, alpha = function.args
    b = type(v.b)(function.append_basic_block())
    w = Vector(b, v.tier)
    low = w.splat(b.bitcast(b.trunc(alpha, I32), F32))
    for number in range(len(FORMS), len(FORMS) + len(LONG_FORMS)):
        with b.if_then(b.icmp_signed("==", form, I64(number))), loop(b, 0, count, 1) as i:
            place = b.gep(b.inttoptr(address, v.type.as_pointer()), [i])
            b.store(formed(w, number, b.load(place), low, low), place)
    b.ret_void()
    return function


@both
def formed(v: Vector, form: int, x: Any, low: Any, high: Any) -> Any:
    """What one of FORMS, or of LONG_FORMS, makes of a vector."""
    match (*FORMS, *LONG_FORMS)[form]:
        case "clip":
            return clip(v, x, low, high)
        case "leaky_relu" | "swish" as name:
            return OPS[name].emit(v, x, low)
        case "hard_sigmoid_mul":
            return v.b.fmul(x, OPS["hard_sigmoid"].emit(v, x, low, high))
        case "sigmoid_mul":
            return v.b.fmul(x, OPS["sigmoid"].emit(v, x))
    raise AssertionError(form)


@both
def added(v: Vector, slots: Any, values: Sequence[Any], addends: Callable[[int], Any]) -> list[Any]:
    """value + addend of these vectors; addends(i) loads what is added to values[i]."""
    b = v.b
    results = [variable(b, x) for x in values]
    with b.if_then(b.icmp_signed("!=", slots.addend, I64(0))):
        for i, result in enumerate(results):
            b.store(b.fadd(b.load(result), addends(i)), result)
    return [b.load(result) for result in results]


@both
def bounds(v: Vector, slots: Any) -> list[Any]:
    """The least and the greatest result, as vectors for `clip`."""
    b = v.b
    return [v.splat(b.bitcast(b.trunc(found, I32), F32)) for found in (slots.low, slots.high)]


@both
def addend_at(v: Vector, slots: Any, image: Any, row: Any, column: Any) -> Any:
    """The pointer to what is added to the sum at (image, row, column), which are int64."""
    b = v.b
    index = b.add(b.mul(image, slots.addend_image), b.add(b.mul(row, slots.addend_row), column))
    return v.at(v.pointer(slots.addend), index)


@both
def buffer(b: Any, nbytes: int) -> Any:
    """The address (int64) of memory on the stack for the sums of a tile."""
    with b.goto_entry_block():
        room = b.alloca(ir.ArrayType(I8, nbytes))
        room.align = 64
    return b.ptrtoint(room, I64)


@both
def walk_from(
    b: Any, slots: Any, image: Any, row: Any, column: Any, rows: Any, columns: Any, x: Any, x_row: Any, y: Any,
    y_row: Any,
) -> None:  # fmt: skip
    """Where a chain is walked: make rows x columns of y, from (image, row, column) on, of the sums at x. All int64;
    x_row and y_row are bytes from row to row.
    """
    with b.if_then(is_walked(b, slots), likely=False):
        walk(b, slots, image, row, column, rows, columns, x, x_row, y, y_row)


@both
def walk(
    b: Any, slots: Any, image: Any, row: Any, column: Any, rows: Any, columns: Any, x: Any, x_row: Any, y: Any,
    y_row: Any, d0: Any = 0, d1: Any = 0,
) -> None:  # fmt: skip
    """As `walk_from`, of a record that has a chain: slots are EPILOGUE's or WALK's."""
    words = CALL.filled(
        table=slots.table, d0=d0, d1=d1, image=image, row=row, column=column, rows=rows, columns=columns, x=x,
        x_row=x_row, y=y, y_row=y_row,
    )  # fmt: skip
    with b.goto_entry_block():
        record = b.alloca(ir.ArrayType(I64, len(CALL)))
    for i, word in enumerate(words):
        b.store(I64(word) if isinstance(word, int) else word, b.gep(record, [I32(0), I32(i)]))
    call(b, slots.walk, b.ptrtoint(record, I64), I64(0), I64(1))
