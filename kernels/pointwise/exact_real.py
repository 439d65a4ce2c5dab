"""Operations on vectors of f32 or f64, rounded once each, with NumPy's results. Runs take subnormal numbers for 0."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from ..isa.functions import maximum, minimum
from ..lang import F32, Value, choose, during, integer, intrinsic, is_nan, register
from .exact_names import FLOATS

_MANTISSA = {32: 23, 64: 52}
_LEAST = {32: 2.0**-126, 64: 2.0**-1022}


def copysign(x: Any, y: Any) -> Value:
    """The size of x with the sign of y."""
    return intrinsic("copysign", x, y)


def _sign(x: Value) -> Value:
    one = copysign(1.0, x)
    return choose((x < 0) | (x > 0), one, x + 0.0)


def _prelu(x: Value, slope: Value) -> Value:
    return choose(x < 0, x * slope, x)


def round_(x: Value) -> Value:
    """Halves to even: from 2**52 (f32: 2**23) on there are whole numbers only."""
    far = 2.0 ** _MANTISSA[x.type.bits]
    shift = copysign(far, x)
    near = (x + shift) - shift
    small = abs(x) < far
    return choose(small, copysign(near, x), x)


def floor(x: Value) -> Value:
    near = round_(x)
    less = near - 1
    return copysign(choose(near > x, less, near), x)


def _ceil(x: Value) -> Value:
    near = round_(x)
    more = near + 1
    return copysign(choose(near < x, more, near), x)


def _fmod(x: Value, y: Value) -> Value:
    """x reduced by multiples of y with exact differences, as in a long division; the sign of x."""
    mantissa, least = _MANTISSA[x.type.bits], _LEAST[x.type.bits]
    real, whole = x.type.number, integer(x.type.bits)
    size, by = abs(x), abs(y)
    fine = (size < math.inf) & (by >= least)
    left = register(choose(fine, size, 0.0))
    for more in during(lambda: fine & (left.value >= by)):
        # y times the power of two that brings it to the exponent of what is left, or half of that.
        now = left.value
        part = ((now.bits(whole) & -1 << mantissa) | (by.bits(whole) & (1 << mantissa) - 1)).bits(real)
        part = choose(part > now, part * 0.5, part)
        left.value = choose(more, now - part, now)
    found = choose(by == math.inf, size, left.value)
    found = choose(size < math.inf, found, math.nan)
    found = choose(by >= least, found, math.nan)
    return copysign(found, x)


def _other_sign(rest: Value, y: Value) -> Value:
    negative, below = rest < 0, y < 0
    return (rest != 0) & (negative ^ below)


def _mod(x: Value, y: Value) -> Value:
    """The remainder with the sign of y."""
    rest = _fmod(x, y)
    other, zero = _other_sign(rest, y), rest == 0
    found = choose(other, rest + y, rest)
    return choose(zero, copysign(0.0, y), found)


def _floor_div(x: Value, y: Value) -> Value:
    rest = _fmod(x, y)
    whole = (x - rest) / y
    whole = choose(_other_sign(rest, y), whole - 1, whole)
    low = floor(whole)
    low = choose(whole - low > 0.5, low + 1, low)
    plain = x / y
    low = choose(whole == 0, copysign(0.0, plain), low)
    return choose(y == 0, plain, low)


def _rounded(x: Value, kind: str, opens: bool) -> Value:
    """f32 with fewer bits, rounded half to even, as `formats` says."""
    least, bits, greatest, beyond = FLOATS[kind]
    drop = 23 - bits
    raw = x.bits(integer(32, signed=False)) & 0x7FFFFFFF
    odd = raw >> drop & 1
    near = raw + (1 << drop - 1) - 1 + odd
    normal = (near & -1 << drop).bits(F32)
    size, shift = raw.bits(F32), 2.0 ** (least - bits + 23)
    y = choose(size < 2.0**least, (size + shift) - shift, normal)
    top = math.inf if beyond == "overflow" or (opens and beyond == "inf") else math.nan if opens else greatest
    y = copysign(choose(y > greatest, top, y), x)
    y = y + 0.0 if kind.endswith("fnuz") else y
    return choose(is_nan(x), -0.0 if beyond == "none" else x, y)


OPERATIONS: dict[str, Callable[..., Value]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "neg": operator.neg,
    "abs": abs,
    "sign": _sign,
    "min": minimum,
    "max": maximum,
    "equal": operator.eq,
    "less": operator.lt,
    "less_or_equal": operator.le,
    "prelu": _prelu,
    "floor": floor,
    "ceil": _ceil,
    "round": round_,
    "sqrt": partial(intrinsic, "sqrt"),
    "reciprocal": lambda x: 1.0 / x,
    "mod": _mod,
    "fmod": _fmod,
    "floor_div": _floor_div,
    "copysign": copysign,
    "is_nan": is_nan,
    "is_inf": lambda x: abs(x) == math.inf,
    "is_positive_inf": lambda x: x == math.inf,
    "is_negative_inf": lambda x: x == -math.inf,
    **{kind: partial(_rounded, kind=kind, opens=False) for kind in FLOATS},
    **{f"{kind}_open": partial(_rounded, kind=kind, opens=True) for kind in FLOATS},
}
"""The functions of `exact_names.REAL` and, for f32, `ROUNDED`, on one vector or two of a type."""
