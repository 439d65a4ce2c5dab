"""Functions of vectors of f64, accurate to a few units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from ..isa.functions import series
from ..isa.trigonometry import pi_bits
from ..lang import Value, any_lane, choose, is_nan, outlined, over, register, table, when
from ..lang.types import BIT, F64, I32, I64, U64, integer
from .exact_real import copysign, floor

NEAR = 2.0**20
"""The greatest |x| for which products with the 33-bit parts of pi, used for range reduction, are exact."""
_SHIFT = 1.5 * 2.0**52
"""Adding it rounds to a whole number, kept in the low bits of the sum."""
_SIN = [(-1) ** k / math.factorial(2 * k + 1) for k in range(1, 12)]
_INVERSE = (1 << 2 * 1300) // (2 * pi_bits(1300))
"""2**1300 / (2 pi)."""
_WORDS = [_INVERSE >> 1300 - 64 * k & (1 << 64) - 1 for k in range(20)]
"""The bits of 1 / (2 pi) after the binary point, preceded by 64 zeros."""
_ERF = [2 / math.sqrt(math.pi) * (-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(21)]
_ERFC = [
    0.21080636406114364, -0.371736733948974, 0.2517131932174419, -0.12503305237878484,
    0.03992253907553821, -0.003993701166559636, -0.002642365943061956, 0.000875915446568714,
    0.00022837968573535626, -0.00012887701173884216, -3.4172541475150075e-05, 1.861344154532522e-05,
    7.4838304337397e-06, -2.2993273916201125e-06, -1.5582314578335203e-06, 1.069183324452273e-07,
]  # fmt: skip
"""erfc(a) exp(a**2) for a from 1 to 6, of t = (a - 2.5) / (a + 2.5)."""
_SPLIT = 2.0**27 + 1
_THIRD = (1 / 3, 2.0**-54 / 3)
_LN2 = (float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33"))
_ROOT_HALF = 0x3FE6A09E667F3BCD


# -- powers


def _powers(x: Value, low: Value | None = None) -> tuple[Value, Value, Value]:
    """(e**r - 1, one, other) of e**(x + low) = e**r * one * other, of which the latter are powers of two."""
    x = choose(x < -746, -746, x)
    x = choose(x > 710, 710, x)
    shifted = x * (1 / math.log(2)) + _SHIFT
    n = shifted - _SHIFT
    rest = x - n * _LN2[0] - n * _LN2[1]
    rest = rest if low is None else rest + low
    less1 = rest * series(rest, [1 / math.factorial(k) for k in range(1, 15)])
    whole = shifted.bits(I64) - F64.like(x.type)(_SHIFT).bits(I64)
    half = whole >> 1
    one, other = ((part + 1023 << 52).bits(F64) for part in (half, whole - half))
    return less1, one, other


def _exp(x: Value, low: Value | None = None) -> Value:
    """e**(x + low)."""
    less1, one, other = _powers(x, low)
    found = (less1 + 1) * one * other
    return choose(is_nan(x), x, found)


def _expm1(x: Value) -> Value:
    less1, one, other = _powers(x)
    power = one * other
    near = less1 * power + (power - 1)
    far = (less1 + 1) * one * other
    found = choose(x > 64, far, near)
    found = choose(abs(x) < 2.0**-54, x, found)
    return choose(is_nan(x), x, found)


def _pow(x: Value, y: Value) -> Value:
    """exp(y log |x|), with the logarithm to 100 bits, and the sign of a power of a negative number."""
    size = abs(x)
    high, low = _log_parts(size)
    most = 1e21
    held = choose(abs(y) < most, y, copysign(most, y))
    held = choose(is_nan(y), y, held)
    product, rest = _product(high, held)
    rest = rest + low * held
    finite = size < math.inf
    plain = (size >= 2.0**-1022) & finite
    product = choose(plain, product, _log(size) * held)
    small = plain & (abs(product) < 1000)
    found = _exp(product, choose(small, rest, 0.0))
    whole = floor(y) == y
    half = y * 0.5
    odd = whole & (floor(half) != half)
    turned = odd & (x.bits(I64) < 0)
    found = choose(turned, -found, found)
    wrong = plain & (x < 0) & ~whole
    found = choose(wrong, math.nan, found)
    return choose((y == 0) | (x == 1), 1.0, found)


# -- logarithms


def _exponent(x: Value) -> tuple[Value, Value]:
    """(n, m) of x = 2**n m, with m from the root of 1 / 2 on to that of 2."""
    raw = x.bits(I64)
    n = raw - _ROOT_HALF >> 52
    return n.to(F64), (raw - (n << 52)).bits(F64)


def _log(x: Value) -> Value:
    """n ln(2) + 2 atanh(s) with x = 2**n (1 + s) / (1 - s), |s| below 0.172; in f64."""
    n, m = _exponent(x)
    f = m - 1
    s = f / (f + 2)
    # 2 atanh(s) is f - s (f - rest): f is exact.
    square = s * s
    rest = square * 2 * series(square, [1 / (2 * k + 1) for k in range(1, 13)])
    tail = s * (rest - f) + n * _LN2[1]
    found = n * _LN2[0] + (f + tail)
    found = choose(x < math.inf, found, x)
    found = choose(x < 2.0**-1022, -math.inf, found)
    return choose(x < 0, math.nan, found)


def _log1p(x: Value) -> Value:
    """log(u) + (x - (u - 1)) / u with u = 1 + x, as it is rounded."""
    u = x + 1
    rest = (x - (u - 1)) / u
    small = abs(x) < 2.0**52
    found = _log(u) + choose(small, rest, 0.0)
    found = choose(u == 0, -math.inf, found)
    return choose(abs(x) < 2.0**-54, x, found)


def _log_parts(x: Value) -> tuple[Value, Value]:
    """log(x) of positive normal numbers as a sum of two, the second below the last bit of the first.

    n ln(2) + 2 atanh(s) with x = 2**n m and s = (m - 1) / (m + 1): 2 s + 2 s**3 (1 / 3 + s**2 / 5 + ...).
    """
    n, m = _exponent(x)
    f, below = m - 1, m + 1
    below_low = m - (below - 1)
    s = f / below
    product, error = _product(s, below)
    s_low = (f - product - error - s * below_low) / below
    z, z_low = _product(s, s)
    z_low = z_low + s * s_low * 2
    tail = z * series(z, [1 / (2 * k + 3) for k in range(1, 13)])
    c, c_low = _sum(x.type(_THIRD[0]), tail)
    c_low = c_low + _THIRD[1]
    q, q_low = _product(z, c)
    q_low = q_low + (z * c_low + z_low * c)
    w, w_low = _product(s, q)
    w_low = w_low + (s * q_low + s_low * q)
    log, log_low = _sum(s, w)
    log_low = log_low + (s_low + w_low)
    high, low = _sum(n * _LN2[0], log * 2)
    return _sum(high, low + (log_low * 2 + n * _LN2[1]))


def _sum(x: Value, y: Value) -> tuple[Value, Value]:
    """(x + y, its rounding error); |x| >= |y|, or x is 0."""
    total = x + y
    return total, y - (total - x)


def _product(x: Value, y: Value) -> tuple[Value, Value]:
    """(x * y, its rounding error), by halves of the mantissas."""

    def halves(v: Value) -> tuple[Value, Value]:
        far = v * _SPLIT
        high = far - (far - v)
        return high, v - high

    product, (x1, x2), (y1, y2) = x * y, halves(x), halves(y)
    return product, (x1 * y1 - product) + x1 * y2 + x2 * y1 + x2 * y2


# -- angles


def _atan(x: Value) -> Value:
    """atan(x): 1 / |x| above 1, then (a - 1) / (a + 1) above tan(pi / 8), then a series."""
    size = abs(x)
    large = size > 1
    a = choose(large, 1.0 / size, size)
    high = a > math.sqrt(2) - 1
    t = choose(high, (a - 1) / (a + 1), a)
    found = t * series(t * t, [(-1) ** k / (2 * k + 1) for k in range(22)])
    found = choose(high, found + math.pi / 4, found)
    found = choose(large, math.pi / 2 - found, found)
    return copysign(found, x)


def _parts_of_pi() -> list[float]:
    """pi as a sum of 33-bit numbers and a remainder."""
    left, parts = pi_bits(400), []
    for k in range(3):
        high = left >> 400 - 31 - 33 * k << 400 - 31 - 33 * k
        parts.append(math.ldexp(float(high >> 400 - 140), -140))
        left -= high
    return [*parts, math.ldexp(float(left >> 100), -300)]


def _sine(x: Value, quarter: float) -> Value:
    """sin(x + quarter * pi) for every finite number, NaN for infinities: the sine of x less the nearest (n - quarter) *
    pi, with the sign of n's parity."""
    shifted = x * (1 / math.pi) + quarter + _SHIFT
    n = shifted - _SHIFT - quarter
    left = x
    for part in _parts_of_pi():
        left = left - n * part
    sign = shifted.bits(I64) << 63
    left = (left.bits(I64) ^ sign).bits(F64)
    angle, far = register(left), ~(abs(x) <= NEAR)
    with when(any_lane(far), likely=False):
        found = register(left)
        for i in over(x.lanes):
            lane = i.to(I32)
            found.value = found.value.with_lane(lane, _far_angle(x[lane], quarter))
        angle.value = choose(far, found.value, left)
    t = angle.value
    square = t * t
    found_sine = t + square * t * series(square, _SIN)
    return choose(abs(t) < 2.0**-27, t, found_sine)


def _far_angle(x: Value, quarter: float) -> Value:
    """For one |x| > NEAR: an angle in [-pi / 2, pi / 2] with the same sine; a function of the module."""
    name = f"fastgraph.far_angle.{int(2 * quarter)}"
    return outlined(name, F64, partial(_folded, quarter=quarter), x)


def _folded(x: Value, quarter: float) -> Value:
    """The range reduction for |x| >= 2: the fraction of a turn is the mantissa of x times the 192 bits of 1 / (2 pi)
    that its exponent leaves after the binary point."""
    u192, u256 = integer(192, signed=False), integer(256, signed=False)
    words, raw = table("fastgraph.inverse_turn", I64, _WORDS), x.bits(U64)
    exponent = raw >> 52 & 0x7FF
    finite = exponent < 0x7FF
    start = choose(finite & (exponent > 1023), exponent - (1075 - 64), 64)
    bits = u256(0)
    for k in range(4):
        bits = bits | words[(start >> 6).signed + k].unsigned.to(u256) << 64 * (3 - k)
    bits = bits << (start & 63).to(u256)
    share = (bits >> 64).to(u192)
    share = share * (raw & (1 << 52) - 1 | 1 << 52).to(u192)
    negative = raw.signed < 0
    if quarter:
        share, negative = share + (1 << 190), BIT(0)
    half = (share + (1 << 190)) & 1 << 191
    share = share - half
    below = share.signed < 0
    share = choose(below, -share, share)
    total = F64(0.0)
    for k in range(3):
        total = total + (share >> 64 * k).to(U64).to(F64) * (2 * math.pi * 2.0 ** (64 * k - 192))
    turned = below ^ negative ^ (half != 0)
    return choose(finite, choose(turned, -total, total), math.nan)


def _erf(x: Value) -> Value:
    """A series up to 1, then 1 - erfc(|x|); beyond 6 that is 1."""
    size = abs(x)
    near = x * series(x * x, _ERF)
    a = choose(size < 6, size, 6.0)
    t = (a - 2.5) / (a + 2.5)
    rest = _exp(-(a * a)) * series(t, _ERFC)
    far = copysign(1.0 - rest, x)
    found = choose(size < 1, near, far)
    return choose(is_nan(x), x, found)


OPERATIONS: dict[str, Callable[..., Value]] = {
    "exp": _exp,
    "expm1": _expm1,
    "log": _log,
    "log1p": _log1p,
    "atan": _atan,
    "sin": partial(_sine, quarter=0.0),
    "cos": partial(_sine, quarter=0.5),
    "erf": _erf,
    "pow": _pow,
}
"""The functions of `exact_names.WIDE`, on one vector or two."""
