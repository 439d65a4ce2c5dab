"""Elementary functions on f32 vectors, as polynomials in generic LLVM IR: `function(v, x) -> value`.

Coefficients are minimax fits of our own (Lawson's method). tests/kernels/test_math.py has the error of each.
Subnormal numbers count as zero, as they do in a run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..lang.both import both

if TYPE_CHECKING:
    from .vector import Vector

_SHIFT = 12582912.0
"""1.5 * 2**23: adding it rounds to a whole number, kept in the low bits of the sum."""
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
"""ln 2 in two parts; the high one has 9 bits, so that its product with an exponent is exact."""
_TINY = 1.1754943508222875e-38
"""The smallest normal f32."""


@both
def polynomial(v: Vector, x: Any, coefficients: Sequence[float]) -> Any:
    """coefficients[0] + coefficients[1] * x + ...; a long one as two in x**2, to wait less."""
    if len(coefficients) > 6:
        square = v.b.fmul(x, x)
        return v.fma(x, _horner(v, square, coefficients[1::2]), _horner(v, square, coefficients[::2]))
    return _horner(v, x, coefficients)


@both
def _horner(v: Vector, x: Any, coefficients: Sequence[float]) -> Any:
    *rest, last = coefficients
    y = v.const(last)
    for c in reversed(rest):
        y = v.fma(y, x, v.const(c))
    return y


@both
def maximum(v: Vector, a: Any, b: Any) -> Any:
    """The larger one, NaN when either is NaN; two instructions less when one of them is a constant."""
    return _extreme(v, ">", a, b)


@both
def minimum(v: Vector, a: Any, b: Any) -> Any:
    """The smaller one, NaN when either is NaN; two instructions less when one of them is a constant."""
    return _extreme(v, "<", a, b)


@both
def _extreme(v: Vector, relation: str, a: Any, b: Any) -> Any:
    # x86's min/max is exactly this select: it gives b when one is NaN, so a constant is best as a.
    if hasattr(b, "constant"):
        a, b = b, a
    best = v.b.select(v.b.fcmp_ordered(relation, a, b), a, b)
    if hasattr(a, "constant"):
        return best
    return v.b.select(v.b.fcmp_unordered("uno", a, a), a, best)


@both
def clamp(v: Vector, x: Any, low: float, high: float) -> Any:
    """x held between two constants; NaN stays NaN."""
    return clip(v, x, v.const(low), v.const(high))


@both
def clip(v: Vector, x: Any, low: Any, high: Any) -> Any:
    """x held between two vectors of numbers; NaN stays NaN."""
    x = at_least(v, x, low)
    return v.b.select(v.b.fcmp_ordered("<", high, x), high, x)


@both
def at_least(v: Vector, x: Any, low: Any) -> Any:
    """The larger of x and a vector of numbers; NaN stays NaN."""
    return v.b.select(v.b.fcmp_ordered(">", low, x), low, x)


@both
def bits(v: Vector, x: Any) -> Any:
    """The bits of floats as integers."""
    return v.b.bitcast(x, v.itype)


@both
def floats(v: Vector, x: Any) -> Any:
    """Integers taken as the bits of floats."""
    return v.b.bitcast(x, v.type)


@both
def round_even(v: Vector, x: Any) -> Any:
    """The nearest whole number, halves to even."""
    if v.tier.fma:
        return v.call("roundeven", x)
    shift = v.call("copysign", v.const(8388608.0), x)
    near = v.b.fsub(v.b.fadd(x, shift), shift)
    small = v.b.fcmp_ordered("<", v.call("fabs", x), v.const(8388608.0))
    return v.call("copysign", v.b.select(small, near, x), x)


@both
def floor(v: Vector, x: Any) -> Any:
    """The largest whole number not above x."""
    if v.tier.fma:
        return v.call("floor", x)
    near = round_even(v, x)
    over = v.b.fcmp_ordered(">", near, x)
    return v.b.select(over, v.b.fsub(near, v.const(1)), near)


@both
def ceil(v: Vector, x: Any) -> Any:
    """The smallest whole number not below x."""
    if v.tier.fma:
        return v.call("ceil", x)
    return v.b.fneg(floor(v, v.b.fneg(x)))


_EXP = (0.5, 0.166665177, 0.0416662023, 0.00836902505, 0.00139507239)
"""(exp(r) - 1 - r) / r**2 for |r| <= ln(2) / 2."""


@both
def _exp_parts(v: Vector, x: Any, bias: int) -> tuple[Any, Any]:
    """(exp(r) - 1, 2**(n + bias - 127)) with x = n * ln 2 + r; the exponent n + bias must be in [0, 255)."""
    shifted = v.fma(x, v.const(1 / math.log(2)), v.const(_SHIFT + bias))
    n = v.b.fsub(shifted, v.const(_SHIFT + bias))
    r = v.fma(n, v.const(-_LN2_HIGH), x)
    r = v.fma(n, v.const(-_LN2_LOW), r)
    q = polynomial(v, r, _EXP)
    less1 = v.fma(v.b.fmul(r, r), q, r)
    return less1, floats(v, v.b.shl(bits(v, shifted), v.iconst(23)))


@both
def exp(v: Vector, x: Any) -> Any:
    """e**x; 0 below -86.98, inf above 88.72."""
    # The scale is half of 2**n: 2**128 is no f32, and at the lower clamp its exponent field is 0, so it is 0.
    less1, half = _exp_parts(v, clamp(v, x, -126 * math.log(2), 88.73), bias=126)
    y = v.fma(less1, half, half)
    return v.b.fadd(y, y)


@both
def half_exp(v: Vector, x: Any) -> Any:
    """e**x / 2 of x <= 0 (or NaN); 0 below -86.98."""
    less1, half = _exp_parts(v, at_least(v, x, v.const(-126 * math.log(2))), bias=126)
    return v.fma(less1, half, half)


@both
def expm1_negative(v: Vector, x: Any) -> Any:
    """e**x - 1 of min(x, 0), without cancellation near 0."""
    x = minimum(v, v.const(0), maximum(v, v.const(-87), x))
    less1, scale = _exp_parts(v, x, bias=127)
    return v.fma(less1, scale, v.b.fsub(scale, v.const(1)))


_LOG = (0.333333317, -0.250008211, 0.200012267, -0.166233565, 0.142017625, -0.131601951, 0.127615504, -0.0763442991)
"""(log(1 + f) - f + f**2 / 2) / f**3 for 1 + f in [sqrt(1/2), sqrt(2)]."""


@both
def _split(v: Vector, x: Any) -> tuple[Any, Any]:
    """(m - 1, e) with x = m * 2**e and m in [sqrt(1/2), sqrt(2)), for normal positive x."""
    raw = bits(v, x)
    e = v.b.ashr(v.b.sub(raw, v.iconst(0x3F3504F3)), v.iconst(23))
    m = floats(v, v.b.sub(raw, v.b.shl(e, v.iconst(23))))
    return v.b.fsub(m, v.const(1)), v.b.sitofp(e, v.type)


@both
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


@both
def log1p_unit(v: Vector, u: Any) -> Any:
    """log(1 + u) for u in [0, 1]."""
    return v.b.fmul(u, polynomial(v, u, _LOG1P))


@both
def tanh(v: Vector, x: Any) -> Any:
    """The hyperbolic tangent."""
    over, under = _tanh_parts(v, x)
    return v.call("copysign", v.b.fdiv(over, under), x)


@both
def _tanh_parts(v: Vector, x: Any) -> tuple[Any, Any]:
    """What is divided to give tanh(|x|): e and e + 2, with e = exp(2 * |x|) - 1."""
    a = v.call("fabs", x)
    less1, scale = _exp_parts(v, minimum(v, v.const(20), v.b.fadd(a, a)), bias=127)
    e = v.fma(less1, scale, v.b.fsub(scale, v.const(1)))
    return e, v.b.fadd(e, v.const(2))


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


@both
def _log_erfc(v: Vector, a: Any) -> Any:
    """log(1 - erf(a)) for a >= 0; beyond 4.2 it stays steep enough to be lost in 1 - erf."""
    q = polynomial(v, minimum(v, v.const(4.2), a), _ERFC)
    return v.b.fneg(v.b.fmul(a, q))


@both
def erf(v: Vector, x: Any) -> Any:
    """The error function: 1 - exp(log(erfc(|x|))) without cancellation, and x's sign."""
    e = expm1_negative(v, _log_erfc(v, v.call("fabs", x)))
    return v.call("copysign", e, x)


@both
def normal_cdf(v: Vector, x: Any) -> Any:
    """(1 + erf(x / sqrt(2))) / 2, accurate in both tails."""
    a = v.b.fmul(v.call("fabs", x), v.const(math.sqrt(0.5)))
    tail = half_exp(v, _log_erfc(v, a))
    return v.b.select(v.b.fcmp_ordered("<", x, v.const(0)), tail, v.b.fsub(v.const(1), tail))


@both
def sigmoid(v: Vector, x: Any) -> Any:
    """1 / (1 + e**-x)."""
    return v.b.fdiv(v.const(1), v.b.fadd(v.const(1), exp(v, v.b.fneg(x))))


@both
def gated_tanh(v: Vector, x: Any, gate: Any) -> Any:
    """tanh(x) * sigmoid(gate), in one division."""
    over, under = _tanh_parts(v, x)
    open_ = v.b.fadd(v.const(1), exp(v, v.b.fneg(gate)))
    return v.call("copysign", v.b.fdiv(over, v.b.fmul(under, open_)), x)


_EXP2 = (1.0, 0.693147207, 0.240226513, 0.0555032708, 0.00961800441, 0.00134005505, 0.000154761913)
"""2**r for |r| <= 1/2."""
_ATANH = (1.0, 0.33333332818549077, 0.20000168626491274, 0.14268583931993128, 0.11792494629486457)
"""log(m) / (2 * s) in powers of s**2, with s = (m - 1) / (m + 1) and m in [sqrt(1/2), sqrt(2)]."""


@both
def _wide(v: Vector, x: float) -> Any:
    """An f64 constant in as many lanes as v has."""
    from llvmlite import ir

    return ir.Constant(ir.VectorType(ir.DoubleType(), v.lanes), [x] * v.lanes)


@both
def _log2_wide(v: Vector, x: Any) -> Any:
    """log2(x) of positive f32 as f64; -inf at 0, inf at inf."""
    wide = _wide(v, 0).type
    f, e = _split(v, x)
    f = v.b.fpext(f, wide)
    s = v.b.fdiv(f, v.b.fadd(f, _wide(v, 2)))
    t = v.b.fmul(s, s)
    q = _wide(v, _ATANH[-1])
    for c in _ATANH[-2::-1]:
        q = v.b.fadd(v.b.fmul(q, t), _wide(v, c))
    y = v.b.fadd(v.b.fmul(v.b.fmul(s, q), _wide(v, 2 / math.log(2))), v.b.fpext(e, wide))
    y = v.b.select(v.b.fcmp_ordered("<", x, v.const(math.inf)), y, v.b.fpext(x, wide))
    return v.b.select(v.b.fcmp_ordered("<", x, v.const(_TINY)), _wide(v, -math.inf), y)


@both
def power(v: Vector, x: Any, y: Any) -> Any:
    """x**y as C's pow: a negative x needs a whole y; x**0 and 1**y are 1 even for NaN.

    The logarithm is taken in f64.
    """
    wide = _wide(v, 0).type
    size = v.call("fabs", x)
    t = v.b.fmul(_log2_wide(v, size), v.b.fpext(y, wide))
    one = v.b.or_(v.b.fcmp_ordered("==", size, v.const(1)), v.b.fcmp_ordered("==", y, v.const(0)))
    t = v.b.select(one, _wide(v, 0), t)
    for relation, bound in (("<", -126.0), (">", 128.5)):
        t = v.b.select(v.b.fcmp_ordered(relation, t, _wide(v, bound)), _wide(v, bound), t)
    shift = _wide(v, 1.5 * 2.0**52)
    n = v.b.fsub(v.b.fadd(t, shift), shift)
    p = polynomial(v, v.b.fptrunc(v.b.fsub(t, n), v.type), _EXP2)
    # As in exp, the scale is half of 2**n.
    shifted = v.b.fadd(v.b.fptrunc(n, v.type), v.const(_SHIFT + 126))
    z = v.b.fmul(p, floats(v, v.b.shl(bits(v, shifted), v.iconst(23))))
    return _signed_power(v, x, y, v.b.fadd(z, z))


@both
def _signed_power(v: Vector, x: Any, y: Any, z: Any) -> Any:
    """|x|**y given the sign, or the NaN, that a negative x makes of it."""
    half = v.b.fmul(y, v.const(0.5))
    whole = v.b.fcmp_ordered("==", round_even(v, y), y)
    odd = v.b.and_(whole, v.b.fcmp_unordered("une", round_even(v, half), half))
    z = v.b.select(odd, v.call("copysign", z, x), z)
    finite = v.b.fcmp_ordered(">", x, v.const(-math.inf))
    outside = v.b.and_(v.b.and_(finite, v.b.fcmp_ordered("<", x, v.const(0))), v.b.not_(whole))
    return v.b.select(outside, v.const(math.nan), z)
