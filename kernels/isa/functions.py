"""Elementary functions on f32 vectors, as polynomials in generic LLVM IR: `function(v, x) -> value`.

Coefficients are minimax fits of our own (Lawson's method). The error of each is in tests/kernels/test_math.py.
Subnormal numbers count as zero, as they do in a run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .vector import Vector

_SHIFT = 12582912.0
"""1.5 * 2**23: adding it rounds to a whole number, kept in the low bits of the sum."""
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
"""ln 2 in two parts; the high one has 9 bits, so that its product with an exponent is exact."""
_PI_PARTS = (3.140625, 0.0009675025939941406, 1.5099578831723193e-07)
_TINY = 1.1754943508222875e-38
"""The smallest normal f32."""


def polynomial(v: Vector, x: Any, coefficients: Sequence[float]) -> Any:
    """coefficients[0] + coefficients[1] * x + ... by Horner's rule."""
    *rest, last = coefficients
    y = v.const(last)
    for c in reversed(rest):
        y = v.fma(y, x, v.const(c))
    return y


def maximum(v: Vector, a: Any, b: Any) -> Any:
    """The larger one, NaN when either is NaN; two instructions less when one of them is a constant."""
    return _extreme(v, ">", a, b)


def minimum(v: Vector, a: Any, b: Any) -> Any:
    """The smaller one, NaN when either is NaN; two instructions less when one of them is a constant."""
    return _extreme(v, "<", a, b)


def _extreme(v: Vector, relation: str, a: Any, b: Any) -> Any:
    # x86's min/max is exactly this select: it gives b when one is NaN, so a constant is best as a.
    if hasattr(b, "constant"):
        a, b = b, a
    best = v.b.select(v.b.fcmp_ordered(relation, a, b), a, b)
    if hasattr(a, "constant"):
        return best
    return v.b.select(v.b.fcmp_unordered("uno", a, a), a, best)


def clamp(v: Vector, x: Any, low: float, high: float) -> Any:
    """x held between two constants; NaN stays NaN."""
    return minimum(v, v.const(high), maximum(v, v.const(low), x))


def bits(v: Vector, x: Any) -> Any:
    """The bits of floats as integers."""
    return v.b.bitcast(x, v.itype)


def floats(v: Vector, x: Any) -> Any:
    """Integers taken as the bits of floats."""
    return v.b.bitcast(x, v.type)


def round_even(v: Vector, x: Any) -> Any:
    """The nearest whole number, halves to even."""
    if v.tier.fma:
        return v.call("roundeven", x)
    shift = v.call("copysign", v.const(8388608.0), x)
    near = v.b.fsub(v.b.fadd(x, shift), shift)
    small = v.b.fcmp_ordered("<", v.call("fabs", x), v.const(8388608.0))
    return v.call("copysign", v.b.select(small, near, x), x)


def floor(v: Vector, x: Any) -> Any:
    """The largest whole number not above x."""
    if v.tier.fma:
        return v.call("floor", x)
    near = round_even(v, x)
    over = v.b.fcmp_ordered(">", near, x)
    return v.b.select(over, v.b.fsub(near, v.const(1)), near)


def ceil(v: Vector, x: Any) -> Any:
    """The smallest whole number not below x."""
    if v.tier.fma:
        return v.call("ceil", x)
    return v.b.fneg(floor(v, v.b.fneg(x)))


_EXP = (0.5, 0.166665177, 0.0416662023, 0.00836902505, 0.00139507239)
"""(exp(r) - 1 - r) / r**2 for |r| <= ln(2) / 2."""


def _exp_parts(v: Vector, x: Any, bias: int) -> tuple[Any, Any]:
    """(exp(r) - 1, 2**(n + bias - 127)) with x = n * ln 2 + r; the exponent n + bias must be in [0, 255)."""
    shifted = v.fma(x, v.const(1 / math.log(2)), v.const(_SHIFT + bias))
    n = v.b.fsub(shifted, v.const(_SHIFT + bias))
    r = v.fma(n, v.const(-_LN2_HIGH), x)
    r = v.fma(n, v.const(-_LN2_LOW), r)
    q = polynomial(v, r, _EXP)
    less1 = v.fma(v.b.fmul(r, r), q, r)
    return less1, floats(v, v.b.shl(bits(v, shifted), v.iconst(23)))


def exp(v: Vector, x: Any) -> Any:
    """e**x; 0 below -87.3, inf above 88.73."""
    # The scale is half of 2**n: 2**128 is no f32, and at the lower clamp its exponent field is 0, so it is 0.
    less1, half = _exp_parts(v, clamp(v, x, -126 * math.log(2), 88.73), bias=126)
    y = v.fma(less1, half, half)
    return v.b.fadd(y, y)


def expm1_negative(v: Vector, x: Any) -> Any:
    """e**x - 1 of min(x, 0), without cancellation near 0."""
    x = minimum(v, v.const(0), maximum(v, v.const(-87), x))
    less1, scale = _exp_parts(v, x, bias=127)
    return v.fma(less1, scale, v.b.fsub(scale, v.const(1)))


_LOG = (0.333333317, -0.250008211, 0.200012267, -0.166233565, 0.142017625, -0.131601951, 0.127615504, -0.0763442991)
"""(log(1 + f) - f + f**2 / 2) / f**3 for 1 + f in [sqrt(1/2), sqrt(2)]."""


def _split(v: Vector, x: Any) -> tuple[Any, Any]:
    """(m - 1, e) with x = m * 2**e and m in [sqrt(1/2), sqrt(2)), for normal positive x."""
    raw = bits(v, x)
    e = v.b.ashr(v.b.sub(raw, v.iconst(0x3F3504F3)), v.iconst(23))
    m = floats(v, v.b.sub(raw, v.b.shl(e, v.iconst(23))))
    return v.b.fsub(m, v.const(1)), v.b.sitofp(e, v.type)


def log(v: Vector, x: Any) -> Any:
    """The natural logarithm; -inf at 0, NaN below."""
    f, e = _split(v, x)
    square = v.b.fmul(f, f)
    tail = v.fma(e, v.const(_LN2_LOW), v.b.fmul(v.b.fmul(square, f), polynomial(v, f, _LOG)))
    tail = v.fma(square, v.const(-0.5), tail)
    y = v.fma(e, v.const(_LN2_HIGH), v.b.fadd(f, tail))
    y = v.b.select(v.b.fcmp_ordered("<", x, v.const(math.inf)), y, x)
    y = v.b.select(v.b.fcmp_ordered("<", x, v.const(_TINY)), v.const(-math.inf), y)
    return v.b.select(v.b.fcmp_ordered("<", x, v.const(0)), v.const(math.nan), y)


_LOG1P = (1.0, -0.499999024, 0.333299623, -0.249541321, 0.196759315, -0.153055701, 0.106036169, -0.0569591592,
          0.0198512627, -0.00324398088)
"""log(1 + u) / u for u in [0, 1]."""


def log1p_unit(v: Vector, u: Any) -> Any:
    """log(1 + u) for u in [0, 1]."""
    return v.b.fmul(u, polynomial(v, u, _LOG1P))


_TANH_P = (1.0, 0.13379716542, 0.0034940329377, 2.0583456086e-05, 1.3319039835e-08)
_TANH_Q = (1.0, 0.46713031780, 0.0258710669289, 0.00032830902525, 7.7620057167e-07)


def tanh(v: Vector, x: Any) -> Any:
    """The hyperbolic tangent as x * P(x**2) / Q(x**2); 1 from 9.02 on."""
    return _odd_ratio(v, clamp(v, x, -9.02, 9.02), _TANH_P, _TANH_Q)


_ERF_P = (1.1283791516, 0.187560484589, 0.0524446428624, 0.00366180544054, 0.000285826176817, 2.11674251079e-06)
_ERF_Q = (1.0, 0.499554042855, 0.112998190346, 0.0147606097580, 0.00114332527621, 3.88266489603e-05)


def erf(v: Vector, x: Any) -> Any:
    """The error function as x * P(x**2) / Q(x**2); 1 from 3.84 on."""
    return _odd_ratio(v, clamp(v, x, -3.84, 3.84), _ERF_P, _ERF_Q)


def _odd_ratio(v: Vector, x: Any, above: Sequence[float], below: Sequence[float]) -> Any:
    t = v.b.fmul(x, x)
    y = v.b.fdiv(v.b.fmul(x, polynomial(v, t, above)), polynomial(v, t, below))
    return clamp(v, y, -1, 1)


def sigmoid(v: Vector, x: Any) -> Any:
    """1 / (1 + e**-x)."""
    return v.b.fdiv(v.const(1), v.b.fadd(v.const(1), exp(v, v.b.fneg(x))))


_SIN = (-0.166666595, 0.00833306461, -0.000198094748, 2.60548128e-06)
"""(sin(r) / r - 1) / r**2 for |r| <= pi / 2."""


def sin(v: Vector, x: Any) -> Any:
    """The sine, to about 2e-7 for |x| < 1e4; useless beyond 1e6."""
    return _sine(v, x, 0.0)


def cos(v: Vector, x: Any) -> Any:
    """The cosine, to about 2e-7 for |x| < 1e4; useless beyond 1e6."""
    return _sine(v, x, 0.5)


def _sine(v: Vector, x: Any, quarter: float) -> Any:
    """sin(x + quarter * pi) for quarter 0 or 1/2: x is folded to the nearest (n - quarter) * pi."""
    shifted = v.fma(x, v.const(1 / math.pi), v.const(_SHIFT))
    if quarter:
        shifted = v.b.fadd(v.fma(x, v.const(1 / math.pi), v.const(quarter)), v.const(_SHIFT))
    n = v.b.fsub(v.b.fsub(shifted, v.const(_SHIFT)), v.const(quarter))
    r = x
    for part in _PI_PARTS:
        r = v.fma(n, v.const(-part), r)
    t = v.b.fmul(r, r)
    y = v.fma(v.b.fmul(t, r), polynomial(v, t, _SIN), r)
    odd = v.b.shl(bits(v, shifted), v.iconst(31))
    return floats(v, v.b.xor(bits(v, y), odd))
