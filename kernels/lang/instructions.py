"""Instructions that Python has no operator for."""

from __future__ import annotations

from typing import Any

from .traced import traced
from .types import BIT
from .values import Value, alike, builder, intrinsic, number, tier


@traced
def fma(x: Any, y: Any, z: Any) -> Value:
    """x * y + z, rounded once where the tier can."""
    x, y, z = alike("fma of", x, y, z)
    return intrinsic("fma", x, y, z) if tier().fma else x * y + z


@traced
def choose(condition: Value, yes: Any, no: Any) -> Value:
    """yes where the condition or the mask has it, else no; numbers of Python alone are int64s."""
    if not isinstance(yes, Value) and not isinstance(no, Value):
        yes = number(yes)
    yes, no = alike("choice of", yes, no)
    return Value(builder().select(condition.x, yes.x, no.x), yes.type)


@traced
def smaller(x: Any, y: Any) -> Any:
    """The smaller of two numbers; y where one is NaN."""
    return choose(x < y, x, y) if isinstance(x, Value) or isinstance(y, Value) else min(x, y)


@traced
def larger(x: Any, y: Any) -> Any:
    """The larger of two numbers; y where one is NaN."""
    return choose(x > y, x, y) if isinstance(x, Value) or isinstance(y, Value) else max(x, y)


@traced
def below(x: Value, y: Any) -> Value:
    """0 <= x < y of signed integers, in one comparison; y >= 0."""
    return x.unsigned < (y.unsigned if isinstance(y, Value) else y)


@traced
def divide(x: Any, y: Any) -> Any:
    """x // y of integers from 0 on, y > 0: one instruction, where Python's rule takes many."""
    if isinstance(x, int) and isinstance(y, int):
        return x // y
    x, y = alike("division of", x, y)
    return Value(builder().udiv(x.x, y.x), x.type)


@traced
def remainder(x: Any, y: Any) -> Any:
    """x % y of integers from 0 on, y > 0."""
    if isinstance(x, int) and isinstance(y, int):
        return x % y
    x, y = alike("division of", x, y)
    return Value(builder().urem(x.x, y.x), x.type)


@traced
def div_rem(x: Any, y: Any) -> Any:
    """(x // y, x % y) of integers from 0 on, y > 0."""
    found = divide(x, y)
    return found, x - found * y


@traced
def quotient(x: Any, y: Any) -> Value:
    """x / y of integers, cut off towards 0."""
    x, y = alike("division of", x, y)
    b = builder()
    return Value((b.sdiv if x.type.signed else b.udiv)(x.x, y.x), x.type)


def is_nan(x: Value) -> Value:
    return Value(builder().fcmp_unordered("uno", x.x, x.x), BIT.like(x.type))
