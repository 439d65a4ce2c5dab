"""Elementary functions on vectors of f32, as polynomials.

Coefficients are minimax fits of our own (Lawson's method). tests/kernels/test_math.py has the error of each.
Subnormal numbers count as zero, as they do in a run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..lang import F32, F64, I32, Value, choose, fma, intrinsic, is_nan, tier

_SHIFT = 12582912.0
"""1.5 * 2**23: adding it rounds to a whole number, kept in the low bits of the sum."""
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
"""ln 2 in two parts; the high one has 9 bits, so that its product with an exponent is exact."""
_LOG2_E, _LOG2_E_LOW = 1.4426950216293335, 1.92596299e-8
"""1 / ln 2 in two parts."""
_TINY = 1.1754943508222875e-38
"""The smallest normal f32."""


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """coefficients[0] + coefficients[1] * x + ...; a long one as two in x**2, to wait less."""
    if len(coefficients) > 6:
        square = x * x
        return fma(x, _horner(square, coefficients[1::2]), _horner(square, coefficients[::2]))
    return _horner(x, coefficients)


def series(x: Value, terms: Sequence[float]) -> Value:
    """terms[0] + terms[1] * x + ..., each product rounded."""
    found: Value = x.type(terms[-1])
    for term in terms[-2::-1]:
        found = found * x + term
    return found


def _horner(x: Value, coefficients: Sequence[float]) -> Value:
    *rest, last = coefficients
    y: Any = x.type(last)
    for c in reversed(rest):
        y = fma(y, x, c)
    return y


def maximum(x: Value, y: Value) -> Value:
    """The larger one, NaN when either is NaN; two instructions less when one of them is a constant."""
    # x86's min and max are exactly this choice: it gives y when one is NaN, so a constant is best as x.
    if y.known:
        x, y = y, x
    best = choose(x > y, x, y)
    return best if x.known else choose(is_nan(x), x, best)


def minimum(x: Value, y: Value) -> Value:
    """The smaller one, NaN when either is NaN; two instructions less when one of them is a constant."""
    if y.known:
        x, y = y, x
    best = choose(x < y, x, y)
    return best if x.known else choose(is_nan(x), x, best)


def clamp(x: Value, low: float, high: float) -> Value:
    """x clamped between two constants; NaN stays NaN."""
    return clip(x, x.type(low), x.type(high))


def clip(x: Value, low: Value, high: Value) -> Value:
    """x clamped between two vectors; NaN stays NaN."""
    x = at_least(x, low)
    return choose(high < x, high, x)


def at_least(x: Value, low: Any) -> Value:
    """The larger of x and a vector of numbers; NaN stays NaN."""
    low = x.type(low)
    return choose(low > x, low, x)


def round_even(x: Value) -> Value:
    """The nearest whole number, halves to even."""
    if tier().fma:
        return intrinsic("roundeven", x)
    shift = intrinsic("copysign", x.type(8388608.0), x)
    near = (x + shift) - shift
    return intrinsic("copysign", choose(abs(x) < 8388608.0, near, x), x)


def floor(x: Value) -> Value:
    """The largest whole number not above x."""
    if tier().fma:
        return intrinsic("floor", x)
    near = round_even(x)
    over = near > x
    return choose(over, near - 1, near)


def ceil(x: Value) -> Value:
    """The smallest whole number not below x."""
    return intrinsic("ceil", x) if tier().fma else -floor(-x)


_EXP = (0.5, 0.166665177, 0.0416662023, 0.00836902505, 0.00139507239)
"""(exp(r) - 1 - r) / r**2 for |r| <= ln(2) / 2."""


def _exp_parts(x: Value, bias: int) -> tuple[Value, Value]:
    """(exp(r) - 1, 2**(n + bias - 127)) with x = n * ln 2 + r; the exponent n + bias must be in [0, 255)."""
    shifted = fma(x, 1 / math.log(2), _SHIFT + bias)
    n = shifted - (_SHIFT + bias)
    r = fma(n, -_LN2_HIGH, x)
    r = fma(n, -_LN2_LOW, r)
    q = polynomial(r, _EXP)
    less1 = fma(r * r, q, r)
    return less1, (shifted.bits(I32) << 23).bits(F32)


def exp(x: Value) -> Value:
    """e**x; 0 below -86.98, inf above 88.72."""
    # The scale is half of 2**n: 2**128 is no f32, and at the lower clamp its exponent field is 0, so it is 0.
    less1, half = _exp_parts(clamp(x, -126 * math.log(2), 88.73), bias=126)
    y = fma(less1, half, half)
    return y + y


def half_exp(x: Value, relative: bool = True) -> Value:
    """e**x / 2 of x <= 0 (or NaN); 0 below -86.98. relative: else within 2**-23 of 1."""
    x = at_least(x, -126 * math.log(2))
    if not tier().fma:
        less1, half = _exp_parts(x, bias=126)
        return fma(less1, half, half)
    power, bias = x.type(_LOG2_E), _SHIFT + 126
    shifted = fma(x, power, bias)
    r = fma(x, power, bias - shifted)
    if relative:
        r = fma(x, _LOG2_E_LOW, r)
    return _horner(r, _EXP2_NEAR) * (shifted.bits(I32) << 23).bits(F32)


def expm1_negative(x: Value) -> Value:
    """e**x - 1 of min(x, 0), without cancellation near 0."""
    x = minimum(x.type(0), maximum(x.type(-87), x))
    less1, scale = _exp_parts(x, bias=127)
    return fma(less1, scale, scale - 1)


_LOG = (0.333333317, -0.250008211, 0.200012267, -0.166233565, 0.142017625, -0.131601951, 0.127615504, -0.0763442991)
"""(log(1 + f) - f + f**2 / 2) / f**3 for 1 + f in [sqrt(1/2), sqrt(2)]."""


def _split(x: Value) -> tuple[Value, Value]:
    """(m - 1, e) with x = m * 2**e and m in [sqrt(1/2), sqrt(2)), for normal positive x."""
    raw = x.bits(I32)
    e = (raw - 0x3F3504F3) >> 23
    m = (raw - (e << 23)).bits(F32)
    return m - 1, e.to(F32)


def log(x: Value) -> Value:
    """The natural logarithm; -inf at 0, NaN below."""
    f, e = _split(x)
    square = f * f
    tail = fma(e, _LN2_LOW, square * f * polynomial(f, _LOG))
    tail = fma(square, -0.5, tail)
    y = fma(e, _LN2_HIGH, f + tail)
    y = choose(x < math.inf, y, x)
    y = choose(x < _TINY, -math.inf, y)
    return choose(x < 0, math.nan, y)


_LOG1P = (
    1.0,
    -0.499999024,
    0.333299623,
    -0.249541321,
    0.196759315,
    -0.153055701,
    0.106036169,
    -0.0569591592,
    0.0198512627,
    -0.00324398088,
)
"""log(1 + u) / u for u in [0, 1]."""


def log1p_unit(u: Value) -> Value:
    """log(1 + u) for u in [0, 1]."""
    return u * polynomial(u, _LOG1P)


def tanh(x: Value) -> Value:
    """The hyperbolic tangent."""
    over, under = _tanh_parts(x)
    return intrinsic("copysign", over / under, x)


def _tanh_parts(x: Value) -> tuple[Value, Value]:
    """The operands of the division that gives tanh(|x|): e and e + 2, with e = exp(2 * |x|) - 1."""
    a = abs(x)
    less1, scale = _exp_parts(minimum(x.type(20), a + a), bias=127)
    e = fma(less1, scale, scale - 1)
    return e, e + 2


_ERFC = (
    1.12837917,
    0.636619629,
    0.102773906,
    -0.0191303828,
    -0.000223277873,
    0.00176139081,
    -0.000713293415,
    0.000156412659,
    -1.90454504e-05,
    1.00201392e-06,
)
"""-log(erfc(a)) / a for a in [0, 4.2]."""


def _log_erfc(a: Value) -> Value:
    """log(1 - erf(a)) for a >= 0; beyond 4.2 it is so negative that 1 - erf is 0."""
    q = polynomial(minimum(a.type(4.2), a), _ERFC)
    return -(a * q)


def erf(x: Value) -> Value:
    """The error function: 1 - exp(log(erfc(|x|))) without cancellation, and x's sign."""
    return intrinsic("copysign", expm1_negative(_log_erfc(abs(x))), x)


_EXP2_NEAR = (1.0, 0.693147004, 0.240222424, 0.0555073358, 0.00967151299, 0.00132647273)
"""2**r for |r| <= 1/2."""
_EXP2_APPROXIMATE = (0.999925196, 0.695833564, 0.226067156, 0.0780245215)
"""2**f for 0 <= f < 1, to 2**-13.7: our own minimax fit."""


def approximate_exp2(x: Value) -> Value:
    """2**x to 2**-13.7, 0 at -inf; on tiers with masks."""
    return tier().isa.power_of_two(x, lambda f: _horner(f, _EXP2_APPROXIMATE))


class Tail(NamedTuple):
    """log2(T(a)) of a function that falls from 1/2 at 0, as a polynomial of a, and where that is -127."""

    powers: tuple[float, ...]
    end: float


_GELU = {
    False: Tail((-1.0, -1.15111101, -0.459162146, -0.0526276119, 0.00724542094, -0.000272075646, -0.000131473251,
                 2.80569457e-05, -1.90206595e-06), 10.39),
    True: Tail((-1.0, -1.15075958, -0.460484087, -0.0510957316, 0.00671294937, -0.000412834692), 11.8),
}  # fmt: skip
"""T(a) = (1 - erf(a / sqrt(2))) / 2: best where a * T(a) is large."""
_GELU_TANH = Tail((-1.0, -1.14715064, -0.473242104, -0.0366770737, 0.003453732, -0.00113045797), 9.14)
"""T(a) = (1 - tanh(sqrt(2 / pi) * (a + 0.044715 * a**3))) / 2, approximately."""


def gelu(x: Value, approximate: bool = False) -> Value:
    """x * (1 + erf(x / sqrt(2))) / 2; approximate: within 2**-12 of it or 2**-15, whichever is more."""
    return _without_tail(x, _GELU[approximate], approximate)


def approximate_gelu_tanh(x: Value) -> Value:
    """x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2, as exact as `gelu` where that is approximate."""
    return _without_tail(x, _GELU_TANH, True)


def _without_tail(x: Value, tail: Tail, approximate: bool) -> Value:
    """x * (1 - T(x)), with 1 - T(x) = T(-x): max(x, 0) - |x| * T(|x|); NaN at -inf."""
    a = abs(x)
    a = choose(tail.end < a, tail.end, a)
    slope = polynomial(a, tail.powers[1:])
    if approximate:
        t = approximate_exp2(fma(slope, a, tail.powers[0]))
    else:
        # The power is rounded to a whole number, and only its rest is computed, in one step each.
        shifted = fma(slope, a, tail.powers[0] + _SHIFT + 127)
        r = fma(slope, a, (tail.powers[0] + _SHIFT + 127) - shifted)
        t = _horner(r, _EXP2_NEAR) * (shifted.bits(I32) << 23).bits(F32)
    return fma(-a, t, x - choose(x < 0, x, 0.0))


def sigmoid(x: Value) -> Value:
    """1 / (1 + e**-x)."""
    return 1.0 / (1.0 + exp(-x))


def approximate_swish(u: Value, x: Value) -> Value:
    """x / (1 + e**-u) as exact as `gelu` where that is approximate; NaN where e**-u is 0 or infinite, and x too."""
    e = approximate_exp2(u * (-1 / math.log(2)))
    return x * tier().isa.approximate_reciprocal(1.0 + e)


def gated_tanh(x: Value, gate: Value) -> Value:
    """tanh(x) * sigmoid(gate), in one division."""
    over, under = _tanh_parts(x)
    return intrinsic("copysign", over / (under * (1.0 + exp(-gate))), x)


_EXP2 = (1.0, 0.693147207, 0.240226513, 0.0555032708, 0.00961800441, 0.00134005505, 0.000154761913)
"""2**r for |r| <= 1/2."""
_ATANH = (1.0, 0.33333332818549077, 0.20000168626491274, 0.14268583931993128, 0.11792494629486457)
"""log(m) / (2 * s) in powers of s**2, with s = (m - 1) / (m + 1) and m in [sqrt(1/2), sqrt(2)]."""


def _log2_wide(x: Value) -> Value:
    """log2(x) of positive f32 as f64; -inf at 0, inf at inf."""
    f, e = _split(x)
    f = f.to(F64)
    s = f / (f + 2)
    t = s * s
    y = s * series(t, _ATANH) * (2 / math.log(2)) + e.to(F64)
    y = choose(x < math.inf, y, x.to(F64))
    return choose(x < _TINY, -math.inf, y)


def power(x: Value, y: Value) -> Value:
    """x**y as C's pow: a negative x needs a whole y; x**0 and 1**y are 1 even for NaN.

    The logarithm is taken in f64.
    """
    size = abs(x)
    t = _log2_wide(size) * y.to(F64)
    t = choose((size == 1) | (y == 0), 0.0, t)
    t = choose(t < -126.0, -126.0, t)
    t = choose(t > 128.5, 128.5, t)
    shift = 1.5 * 2.0**52
    n = (t + shift) - shift
    p = polynomial((t - n).to(F32), _EXP2)
    # As in exp, the scale is half of 2**n.
    shifted = n.to(F32) + (_SHIFT + 126)
    z = p * (shifted.bits(I32) << 23).bits(F32)
    return _signed_power(x, y, z + z)


def _signed_power(x: Value, y: Value, z: Value) -> Value:
    """|x|**y with the sign, or the NaN, for a negative x."""
    half = y * 0.5
    whole = round_even(y) == y
    odd = whole & (round_even(half) != half)
    z = choose(odd, intrinsic("copysign", z, x), z)
    outside = (x > -math.inf) & (x < 0) & ~whole
    return choose(outside, math.nan, z)
