"""Sine and cosine of f32 vectors, right for every finite number.

x is folded to the nearest multiple of pi. Up to NEAR that is arithmetic in f32 with pi in parts (Cody and Waite);
beyond it, where a vector branches, the share of a turn is taken from the bits of 1 / (2 * pi) that matter for the
number's exponent (Payne and Hanek), in integers.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from llvmlite import ir

from ..lang.both import both
from .elements import shuffle
from .functions import bits, floats, polynomial
from .loops import variable
from .vector import I32, I64, Vector

NEAR = 8192.0
"""Up to here the products of pi's parts are exact."""
_SHIFT = 12582912.0
"""1.5 * 2**23: adding it rounds to a whole number, kept in the low bits of the sum."""
_PI_PARTS = (3.140625, 0.0009675025939941406, 1.5099067240953445e-07, 5.126688136514179e-12)
_SIN = (-0.166666595, 0.00833306461, -0.000198094748, 2.60548128e-06)
"""(sin(r) / r - 1) / r**2 for |r| <= pi / 2."""
_LEAST, _MOST = 140, 254
"""Biased exponents of the f32 from NEAR on."""


@both
def sin(v: Vector, x: Any) -> Any:
    """The sine; NaN at infinities."""
    return _sine(v, x, 0.0)


@both
def cos(v: Vector, x: Any) -> Any:
    """The cosine; NaN at infinities."""
    return _sine(v, x, 0.5)


@both
def _sine(v: Vector, x: Any, quarter: float) -> Any:
    """sin(x + quarter * pi) for quarter 0 or 1/2."""
    b = v.b
    result = variable(b, _near(v, x, quarter))
    beyond = b.fcmp_ordered(">", v.call("fabs", x), v.const(NEAR))
    lanes = ir.IntType(v.lanes)
    with b.if_then(b.icmp_unsigned("!=", b.bitcast(beyond, lanes), lanes(0)), likely=False):
        far, width = _far(v, quarter), min(v.lanes, v.tier.lanes)
        undef = ir.Constant(v.type, ir.Undefined)
        parts = [b.call(far, [shuffle(b, x, undef, range(i, i + width))]) for i in range(0, v.lanes, width)]
        while len(parts) > 1:
            n = 2 * parts[0].type.count
            parts = [shuffle(b, p, q, range(n)) for p, q in zip(parts[::2], parts[1::2], strict=True)]
        b.store(b.select(beyond, parts[0], b.load(result)), result)
    return b.load(result)


@both
def _near(v: Vector, x: Any, quarter: float) -> Any:
    """For |x| <= NEAR: x less the nearest (n - quarter) * pi, n whole; NaN for infinities."""
    shifted = v.fma(x, v.const(1 / math.pi), v.const(_SHIFT))
    if quarter:
        shifted = v.b.fadd(v.fma(x, v.const(1 / math.pi), v.const(quarter)), v.const(_SHIFT))
    n = v.b.fsub(v.b.fsub(shifted, v.const(_SHIFT)), v.const(quarter))
    r = x
    for part in _PI_PARTS:
        r = v.fma(n, v.const(-part), r)
    return floats(v, v.b.xor(bits(v, _folded(v, r)), v.b.shl(bits(v, shifted), v.iconst(31))))


@both
def _folded(v: Vector, r: Any) -> Any:
    """sin(r) for |r| <= pi / 2."""
    t = v.b.fmul(r, r)
    return v.fma(v.b.fmul(t, r), polynomial(v, t, _SIN), r)


@both
def _far(v: Vector, quarter: float) -> Any:
    """A function of the module, made once: one vector of the tier (or less), |x| > NEAR."""
    width = min(v.lanes, v.tier.lanes)
    name = f"fastgraph.far_{'cosine' if quarter else 'sine'}.{width}"
    found = v.b.module.globals.get(name)
    if found is not None:
        return found
    kind = ir.VectorType(v.type.element, width)
    function = ir.Function(v.b.module, ir.FunctionType(kind, [kind]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    w = Vector(ir.IRBuilder(function.append_basic_block()), v.tier, width)
    w.b.ret(_far_body(w, function.args[0], quarter))
    return function


@both
def _far_body(v: Vector, x: Any, quarter: float) -> Any:
    b = v.b
    wide = ir.VectorType(I64, v.lanes)

    def const(n: int) -> Any:
        return ir.Constant(wide, [n] * v.lanes)

    raw = bits(v, x)
    size = b.and_(raw, v.iconst(0x7FFFFFFF))
    mantissa = b.zext(b.or_(b.and_(raw, v.iconst(0x7FFFFF)), v.iconst(0x800000)), wide)
    entry = b.sub(b.lshr(size, v.iconst(23)), v.iconst(_LEAST))
    entry = b.select(b.icmp_signed("<", entry, v.iconst(0)), v.iconst(0), entry)
    entry = b.select(b.icmp_signed(">", entry, v.iconst(_MOST - _LEAST)), v.iconst(_MOST - _LEAST), entry)
    high, low = (_looked_up(v, name, entry, wide) for name in ("high", "low"))
    # 2**64 is a turn: what is lost on top are whole turns.
    turn = b.add(b.mul(mantissa, high), b.lshr(b.mul(mantissa, low), const(32)))
    sign = b.and_(raw, v.iconst(-(1 << 31)))
    if quarter:
        turn, sign = b.add(turn, const(1 << 62)), v.iconst(0)
    half = b.and_(b.add(turn, const(1 << 62)), const(-(1 << 63)))
    doubles = ir.VectorType(ir.DoubleType(), v.lanes)
    radians = b.fmul(b.sitofp(b.sub(turn, half), doubles), ir.Constant(doubles, [math.pi / 2.0**63] * v.lanes))
    y = bits(v, _folded(v, b.fptrunc(radians, v.type)))
    y = floats(v, b.xor(y, b.xor(sign, b.trunc(b.lshr(half, const(32)), v.itype))))
    return b.select(b.icmp_signed("<", size, v.iconst(0x7F800000)), y, v.const(math.nan))


@both
def _looked_up(v: Vector, name: str, entry: Any, wide: Any) -> Any:
    """The numbers of a table of the module at the places `entry`."""
    b, full = v.b, f"fastgraph.turns_{name}"
    table = b.module.globals.get(full)
    if table is None:
        kind = ir.ArrayType(I64, _MOST - _LEAST + 1)
        table = ir.GlobalVariable(b.module, kind, full)
        table.linkage, table.global_constant = "internal", True
        table.initializer = ir.Constant(kind, list(_turns()[name == "low"]))
    found = ir.Constant(wide, ir.Undefined)
    for lane in range(v.lanes):
        index = b.zext(b.extract_element(entry, I32(lane)), I64)
        found = b.insert_element(found, b.load(b.gep(table, [I64(0), index])), I32(lane))
    return found


@cache
def _turns() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The share of a turn that the last bit of an f32 is, by its exponent: 64 bits behind the point, then 32 more."""
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
