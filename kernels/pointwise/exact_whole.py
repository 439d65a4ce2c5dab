"""Operations on vectors of whole numbers of one width. They wrap around; division by 0 gives 0. Types are signed or
unsigned."""

from __future__ import annotations

import operator
from collections.abc import Callable

from ..lang import F32, F64, I32, I64, Value, below, choose, during, integer, larger, quotient, register, smaller


def _sign(x: Value) -> Value:
    above = (x != 0).to(x.type)
    return choose(x < 0, -1, above) if x.type.signed else above


def _prelu(x: Value, slope: Value) -> Value:
    return choose(x < 0, x * slope, x) if x.type.signed else x


def _shift_left(x: Value, count: Value) -> Value:
    """x << n; 0 where n is negative or no less than the number of bits."""
    near = below(count, x.type.bits)
    return choose(near, x << choose(near, count, 0), 0)


def _shift_right(x: Value, count: Value) -> Value:
    """x >> n likewise; signed numbers keep their sign."""
    near = below(count, x.type.bits)
    if x.type.signed:
        return x >> choose(near, count, x.type.bits - 1)
    return choose(near, x >> choose(near, count, 0), 0)


def _pow(x: Value, y: Value) -> Value:
    """x ** n by squaring. For negative n: 1 and -1 give their powers, 0 gives the least number, all others 0."""
    signed, bits = x.type.signed, x.type.bits
    one, every_bit, under = x.type(1), integer(bits * x.lanes), y < 0
    power, factor, left = register(one), register(x), register(choose(under, 0, y).unsigned)
    for _ in during(lambda: left.value.bits(every_bit) != 0):
        exponent, now, by = left.value, power.value, factor.value
        power.value = choose((exponent & 1) != 0, now * by, now)
        factor.value = by * by
        left.value = exponent >> 1
    found = power.value
    if not signed:
        return found
    odd = (y & 1) != 0
    unit = choose((x == 1) | ~odd, one, -1)
    least = -1 << bits - 1 if bits >= 32 else 0
    inverse = choose((x == 1) | (x == -1), unit, choose(x == 0, least, x.type(0)))
    return choose(under, inverse, found)


def _div(x: Value, y: Value) -> Value:
    """x / y towards 0."""
    none = y == 0
    return choose(none, 0, _quotient(x, choose(none, 1, y)))


def _quotient(x: Value, y: Value) -> Value:
    """x / y towards 0; y is not 0."""
    kind = x.type
    if kind.bits < 64:
        # Floats of more than twice as many bits never round a quotient up to a whole number.
        real, wide = (F32, I32) if kind.bits <= 16 else (F64, I64)
        return (x.to(real) / y.to(real)).to(wide).to(kind)
    if not kind.signed:
        return x // y
    # The least number divided by -1 is no number, and would trap.
    minus = y == -1
    found = quotient(x, choose(minus, 1, y))
    return choose(minus, -x, found)


def _div_rem(x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient and remainder towards 0, both 0 where y is."""
    found = _div(x, y)
    return found, choose(y == 0, 0, x - found * y)


def _other_sign(rest: Value, y: Value) -> Value:
    """Whether the remainder's sign differs from y's."""
    return ((rest ^ y) < 0) & (rest != 0)


def _floor_div(x: Value, y: Value) -> Value:
    found, rest = _div_rem(x, y)
    return choose(_other_sign(rest, y), found - 1, found) if x.type.signed else found


def _mod(x: Value, y: Value) -> Value:
    _, rest = _div_rem(x, y)
    return choose(_other_sign(rest, y), rest + y, rest) if x.type.signed else rest


OPERATIONS: dict[str, Callable[..., Value]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "abs": lambda x: choose(x < 0, -x, x),
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "not": operator.invert,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "equal": operator.eq,
    "less": operator.lt,
    "less_or_equal": operator.le,
    "pow": _pow,
    "div": _div,
    "floor_div": _floor_div,
    "mod": _mod,
    "fmod": lambda x, y: _div_rem(x, y)[1],
    "min": smaller,
    "max": larger,
    "sign": _sign,
    "prelu": _prelu,
}
"""The functions of `exact_names.WHOLE`, without its `_u`, on one vector or two of a type."""
