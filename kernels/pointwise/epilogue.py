"""How kernels end: the slots EPILOGUE, applied to sums in registers or by walking a chain over a tile of them.

A kernel whose record has EPILOGUE from slot `first` on reads it once, `slots = loaded(b, args, EPILOGUE, first)`. Where
no chain is walked, its tiles pass their sums through `simple`, or `shaped` and `added`, and store results. Where one is
walked (`is_walked`), these do nothing, tiles store their sums to a buffer, or to y, and after the tile, once for all of
its shapes, `walk_from` applies the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

from ..core.primitives import call
from ..isa.functions import clip
from ..isa.math import OPS
from ..lang import F32, I32, I64, Registers, Value, choose, either, number, outlined, over, registers, room, tier, when
from .rows import CALL, FORMS, LONG_FORMS, NO_EPILOGUE


def is_walked(slots: Any) -> Value:
    """Whether a chain is walked behind each tile, so that sums are stored to a buffer."""
    walked = slots.walk != 0
    return walked & (slots.later == 0) if hasattr(slots, "later") else walked


def simple(slots: Any, values: Sequence[Value], addends: Callable[[int], Value]) -> list[Value]:
    """The record's form applied to value + addend; addends(i) loads the addend of values[i]."""
    results = registers(added(slots, values, addends))
    same = [getattr(slots, name) == NO_EPILOGUE[name] for name in ("form", "low", "high")]
    with when(~reduce(lambda x, y: x & y, same)):
        for result, x in zip(results.all, shaped(slots, results.values()), strict=True):
            result.value = x
    return results.values()


def shaped(slots: Any, values: Sequence[Value], long: bool = False, approximate: bool = False) -> list[Value]:
    """The record's form applied to these vectors; long: it may be one of LONG_FORMS; approximate: as of `formed`."""
    low, high = bounds(slots)
    results = registers(values)
    with either(slots.form == 0, likely=True) as (clipped, others):
        with clipped:
            with when(slots.low != NO_EPILOGUE["low"]):
                for result in results.all:
                    result.value = choose(low > result.value, low, result.value)
            with when(slots.high != NO_EPILOGUE["high"]):
                for result in results.all:
                    result.value = choose(high < result.value, high, result.value)
        with others:
            for form in range(1, len(FORMS)):
                with when(slots.form == form):
                    for result in results.all:
                        result.value = formed(form, result.value, low, high)
            if long:
                with when(slots.form >= len(FORMS)):
                    _one_by_one(slots, results, approximate)
    return results.values()


def _one_by_one(slots: Any, results: Registers, approximate: bool) -> None:
    """Apply one of LONG_FORMS to some variables, by a function of its own: a tile has many vectors."""
    kind = results[0].type
    memory = room(kind, len(results))
    places = [memory + i for i in range(len(results))]
    for place, result in zip(places, results.all, strict=True):
        place[0] = result.value
    count = I64(len(results))
    outlined("long_form", None, partial(_long_form, approximate), memory.address, count, slots.form, slots.low)
    for place, result in zip(places, results.all, strict=True):
        result.value = place[0]


def _long_form(approximate: bool, address: Value, count: Value, form: Value, alpha: Value) -> None:
    """Apply one of LONG_FORMS to vectors at an address, in place."""
    f32 = F32.vector(tier().lanes)
    low = f32(alpha.to(I32).bits(F32))
    for long in range(len(FORMS), len(FORMS) + len(LONG_FORMS)):
        with when(form == long):
            for i in over(count):
                place = f32.at(address) + i
                place[0] = formed(long, place[0], low, low, approximate=approximate)


def formed(form: int, x: Value, low: Value, high: Value, *, approximate: bool = False) -> Value:
    """One of FORMS, or of LONG_FORMS, applied to a vector; approximate: for results that are rounded to bf16."""
    match (*FORMS, *LONG_FORMS)[form]:
        case "clip":
            return clip(x, low, high)
        case "sigmoid_mul" if approximate:
            return OPS["swish"].emit_approximate(x, x.type(1))
        case "leaky_relu" | "swish" | "gelu" | "gelu_tanh" as name:
            write = OPS[name].emit_approximate if approximate else OPS[name].emit
            return write(x, low) if OPS[name].arity == 2 else write(x)
        case "hard_sigmoid_mul":
            return x * OPS["hard_sigmoid"].emit(x, low, high)
        case "sigmoid_mul":
            return x * OPS["sigmoid"].emit(x)
    raise AssertionError(form)


def added(slots: Any, values: Sequence[Value], addends: Callable[[int], Value]) -> list[Value]:
    """value + addend of these vectors; addends(i) loads the addend of values[i]."""
    results = registers(values)
    with when(slots.addend != 0):
        for i, result in enumerate(results.all):
            result.value += addends(i)
    return results.values()


def bounds(slots: Any) -> list[Value]:
    """The least and the greatest result, as vectors for `clip`."""
    return [F32.vector(tier().lanes)(found.to(I32).bits(F32)) for found in (slots.low, slots.high)]


def addend_at(slots: Any, image: Value, row: Value, column: Value) -> Value:
    """The pointer to the addend of the sum at (image, row, column), which are int64."""
    return F32.at(slots.addend) + index_of(slots, image, row, column)


def index_of(slots: Any, image: Value, row: Value, column: Value) -> Value:
    """The number of that addend's element from the first one on."""
    return image * slots.addend_image + (row * slots.addend_row + column)


class Area(NamedTuple):
    """rows x columns of a result, from (image, row, column) on."""

    image: Any
    row: Any
    column: Any
    rows: Any
    columns: Any


class Lines(NamedTuple):
    """Rows of f32 at an address, so many bytes apart."""

    address: Any
    step: Any


def walk_from(slots: Any, area: Area, x: Lines, y: Lines) -> None:
    """Where a chain is walked: compute the area of y from the sums at x."""
    with when(is_walked(slots), likely=False):
        walk(slots, area, x, y)


def walk_block(slots: Any, area: Area, y: Lines) -> None:
    """Where a chain is walked `later`: make the area of y of the sums that lie there."""
    with when(slots.later != 0, likely=False):
        walk(slots, area, y, y)


def walk(slots: Any, area: Area, x: Lines, y: Lines, outer: Sequence[Any] = (0, 0)) -> None:
    """As `walk_from`, of a record that has a chain; slots are EPILOGUE's or WALK's. outer: indices of the two outermost
    axes of the chain's operands."""
    words = CALL.filled(
        table=slots.table, d0=outer[0], d1=outer[1], **area._asdict(),
        x=x.address, x_row=x.step, y=y.address, y_row=y.step,
    )  # fmt: skip
    record = room(I64, len(CALL))
    for i, word in enumerate(words):
        record[i] = number(word)
    call(slots.walk, record.address, I64(0), I64(1))
