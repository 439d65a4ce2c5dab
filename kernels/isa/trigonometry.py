"""Sine and cosine of f32 vectors, correct for every finite number.

x is reduced by the nearest multiple of pi. Up to NEAR that is arithmetic in f32 with pi in parts (Cody and Waite); for
larger numbers, by a branch per vector, the fraction of a turn comes from the bits of 1 / (2 * pi) that matter for the
number's exponent (Payne and Hanek), in integers.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

from ..lang import Value, any_lane, choose, fma, joined, outlined, register, shuffle, table, tier, when
from ..lang.types import F32, F64, I32, I64, U64
from .functions import polynomial

NEAR = 8192.0
"""Up to here the products of pi's parts are exact."""
_SHIFT = 12582912.0
"""1.5 * 2**23: adding it rounds to a whole number, kept in the low bits of the sum."""
_PI_PARTS = (3.140625, 0.0009675025939941406, 1.5099067240953445e-07, 5.126688136514179e-12)
_SIN = (-0.166666595, 0.00833306461, -0.000198094748, 2.60548128e-06)
"""(sin(r) / r - 1) / r**2 for |r| <= pi / 2."""
_LEAST, _MOST = 140, 254
"""Biased exponents of the f32 from NEAR on."""


def sin(x: Value) -> Value:
    """The sine; NaN at infinities."""
    return _sine(x, 0.0)


def cos(x: Value) -> Value:
    """The cosine; NaN at infinities."""
    return _sine(x, 0.5)


def _sine(x: Value, quarter: float) -> Value:
    """sin(x + quarter * pi) for quarter 0 or 1/2."""
    result = register(_near(x, quarter))
    beyond = abs(x) > NEAR
    with when(any_lane(beyond), likely=False):
        width = min(x.lanes, tier().lanes)
        name = f"fastgraph.far_{'cosine' if quarter else 'sine'}.{width}"
        vectors = [shuffle(x, range(i, i + width)) for i in range(0, x.lanes, width)]
        parts = [outlined(name, F32.vector(width), partial(_far, quarter=quarter), part) for part in vectors]
        result.value = choose(beyond, joined(*parts), result.value)
    return result.value


def _near(x: Value, quarter: float) -> Value:
    """For |x| <= NEAR: x less the nearest (n - quarter) * pi, n whole; NaN for infinities."""
    shifted = fma(x, 1 / math.pi, _SHIFT)
    if quarter:
        shifted = fma(x, 1 / math.pi, quarter) + _SHIFT
    n = (shifted - _SHIFT) - quarter
    r = x
    for part in _PI_PARTS:
        r = fma(n, -part, r)
    return (_folded(r).bits(I32) ^ (shifted.bits(I32) << 31)).bits(F32)


def _folded(r: Value) -> Value:
    """sin(r) for |r| <= pi / 2."""
    t = r * r
    return fma(t * r, polynomial(t, _SIN), r)


def _far(x: Value, quarter: float) -> Value:
    """For |x| > NEAR, of one vector of the tier, or less."""
    raw = x.bits(I32)
    size = raw & 0x7FFFFFFF
    mantissa = ((raw & 0x7FFFFF) | 0x800000).unsigned.to(U64)
    entry = (size.unsigned >> 23).signed - _LEAST
    high, low = (_looked_up(name, _held(entry)) for name in ("high", "low"))
    # 2**64 is a turn: what is lost on top are whole turns.
    turn = mantissa * high + (mantissa * low >> 32)
    sign: Any = raw & -(1 << 31)
    if quarter:
        turn, sign = turn + (1 << 62), raw.type(0)
    half = (turn + (1 << 62)) & (1 << 63)
    radians = (turn - half).signed.to(F64) * (math.pi / 2.0**63)
    y = _folded(radians.to(F32)).bits(I32)
    y = (y ^ (sign ^ (half >> 32).to(I32))).bits(F32)
    return choose(size < 0x7F800000, y, math.nan)


def _held(entry: Value) -> Value:
    entry = choose(entry < 0, 0, entry)
    return choose(entry > _MOST - _LEAST, _MOST - _LEAST, entry)


def _looked_up(name: str, entry: Value) -> Value:
    """The numbers of a table of the module at these entries."""
    numbers = table(f"fastgraph.turns_{name}", U64, _turns()[name == "low"])
    found = U64.like(entry.type).undefined()
    for lane in range(entry.lanes):
        found = found.with_lane(lane, numbers[entry[lane].unsigned.to(I64)])
    return found


@cache
def _turns() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The fraction of a turn of an f32's last bit, by its exponent: 64 bits behind the point, then 32 more."""
    inverse = (1 << 800) // (2 * pi_bits(400))
    shares = [(inverse << e >> 150) % (1 << 400) >> 304 for e in range(_LEAST, _MOST + 1)]
    return tuple(s >> 32 for s in shares), tuple(s & 0xFFFFFFFF for s in shares)


def pi_bits(count: int) -> int:
    """pi * 2**count, by Machin's formula."""

    def atan_inverse(n: int) -> int:
        term, total, k = (1 << count + 32) // n, 0, 1
        while term:
            total += term // k if k % 4 == 1 else -(term // k)
            term //= n * n
            k += 2
        return total

    return 4 * (4 * atan_inverse(5) - atan_inverse(239)) >> 32
