"""Functions of vectors of f64, to few of the last bits."""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from ..isa.loops import loop, variable
from ..isa.trigonometry import pi_bits
from .convert import F64, I32, I64
from .exact_real import Real

NEAR = 2.0**20
"""Up to here the products of pi's parts of 33 bits, with which it is folded, are exact."""
_SHIFT = 1.5 * 2.0**52
_SIN = [(-1) ** k / math.factorial(2 * k + 1) for k in range(1, 12)]
_INVERSE = (1 << 2 * 1300) // (2 * pi_bits(1300))
"""2**1300 / (2 pi)."""
_WORDS = [_INVERSE >> 1300 - 64 * k & (1 << 64) - 1 for k in range(20)]
"""The bits of 1 / (2 pi) behind the point, after 64 zeros."""
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


def _parts_of_pi() -> list[float]:
    """pi as a sum of numbers of 33 bits, and what is left."""
    left, parts = pi_bits(400), []
    for k in range(3):
        high = left >> 400 - 31 - 33 * k << 400 - 31 - 33 * k
        parts.append(math.ldexp(float(high >> 400 - 140), -140))
        left -= high
    return [*parts, math.ldexp(float(left >> 100), -300)]


class Wide(Real):
    """Writes those of exact_names.WIDE, too."""

    def _powers(self, x: Any, low: Any = None) -> tuple[Any, Any, Any]:
        """(e**r - 1, one, other) of e**(x + low) = e**r * one * other, of which the latter are powers of two."""
        b, shift = self.b, self.const(1.5 * 2.0**52)
        held = b.select(b.fcmp_ordered("<", x, self.const(-746)), self.const(-746), x)
        held = b.select(b.fcmp_ordered(">", held, self.const(710)), self.const(710), held)
        shifted = b.fadd(b.fmul(held, self.const(1 / math.log(2))), shift)
        n = b.fsub(shifted, shift)
        left = b.fsub(b.fsub(held, b.fmul(n, self.const(_LN2[0]))), b.fmul(n, self.const(_LN2[1])))
        left = left if low is None else b.fadd(left, low)
        series = b.fmul(left, self._series(left, [1 / math.factorial(k) for k in range(1, 15)]))
        whole = b.sub(b.bitcast(shifted, self.whole), b.bitcast(shift, self.whole))
        half = b.ashr(whole, self.iconst(1))
        one, other = (
            b.bitcast(b.shl(b.add(part, self.iconst(1023)), self.iconst(52)), self.kind)
            for part in (half, b.sub(whole, half))
        )
        return series, one, other

    def _exp(self, x: Any, _: Any) -> Any:
        return self._power(x)

    def _power(self, x: Any, low: Any = None) -> Any:
        """e**(x + low)."""
        b = self.b
        series, one, other = self._powers(x, low)
        found = b.fmul(b.fmul(b.fadd(series, self.const(1)), one), other)
        return b.select(b.fcmp_unordered("uno", x, x), x, found)

    def _expm1(self, x: Any, y: Any) -> Any:
        b = self.b
        series, one, other = self._powers(x)
        power = b.fmul(one, other)
        near = b.fadd(b.fmul(series, power), b.fsub(power, self.const(1)))
        far = b.fmul(b.fmul(b.fadd(series, self.const(1)), one), other)
        found = b.select(b.fcmp_ordered(">", x, self.const(64)), far, near)
        found = b.select(b.fcmp_ordered("<", self.call("fabs", x), self.const(2.0**-54)), x, found)
        return b.select(b.fcmp_unordered("uno", x, x), x, found)

    def _log1p(self, x: Any, y: Any) -> Any:
        """log(u) + (x - (u - 1)) / u with u = 1 + x, as it is rounded."""
        b, u = self.b, self.b.fadd(x, self.const(1))
        rest = b.fdiv(b.fsub(x, b.fsub(u, self.const(1))), u)
        small = b.fcmp_ordered("<", self.call("fabs", x), self.const(2.0**52))
        found = b.fadd(self._log(u, y), b.select(small, rest, self.const(0)))
        found = b.select(b.fcmp_ordered("==", u, self.const(0)), self.const(-math.inf), found)
        return b.select(b.fcmp_ordered("<", self.call("fabs", x), self.const(2.0**-54)), x, found)

    def _atan(self, x: Any, y: Any) -> Any:
        """Of 1 / |x| above 1, then of (a - 1) / (a + 1) above tan(pi / 8), as a series."""
        b, one, size = self.b, self.const(1), self.call("fabs", x)
        large = b.fcmp_ordered(">", size, one)
        a = b.select(large, b.fdiv(one, size), size)
        high = b.fcmp_ordered(">", a, self.const(math.sqrt(2) - 1))
        t = b.select(high, b.fdiv(b.fsub(a, one), b.fadd(a, one)), a)
        square = b.fmul(t, t)
        found = b.fmul(t, self._series(square, [(-1) ** k / (2 * k + 1) for k in range(22)]))
        found = b.select(high, b.fadd(found, self.const(math.pi / 4)), found)
        found = b.select(large, b.fsub(self.const(math.pi / 2), found), found)
        return self.call("copysign", found, x)

    def _log(self, x: Any, y: Any = None) -> Any:
        """n ln(2) + 2 atanh(s) with x = 2**n (1 + s) / (1 - s), |s| below 0.172; in f64."""
        b = self.b
        real, m = self._exponent(x)
        f = b.fsub(m, self.const(1))
        s = b.fdiv(f, b.fadd(f, self.const(2)))
        # 2 atanh(s) is f - s (f - rest): f is exact.
        square = b.fmul(s, s)
        rest = b.fmul(b.fmul(square, self.const(2)), self._series(square, [1 / (2 * k + 1) for k in range(1, 13)]))
        tail = b.fadd(b.fmul(s, b.fsub(rest, f)), b.fmul(real, self.const(_LN2[1])))
        found = b.fadd(b.fmul(real, self.const(_LN2[0])), b.fadd(f, tail))
        found = b.select(b.fcmp_ordered("<", x, self.const(math.inf)), found, x)
        found = b.select(b.fcmp_ordered("<", x, self.const(2.0**-1022)), self.const(-math.inf), found)
        return b.select(b.fcmp_ordered("<", x, self.const(0)), self.const(math.nan), found)

    def _exponent(self, x: Any) -> tuple[Any, Any]:
        """(n, m) of x = 2**n m, with m from the root of 1 / 2 on to that of 2."""
        b, raw = self.b, self.b.bitcast(x, self.whole)
        n = b.ashr(b.sub(raw, self.iconst(_ROOT_HALF)), self.iconst(52))
        return b.sitofp(n, self.kind), b.bitcast(b.sub(raw, b.shl(n, self.iconst(52))), self.kind)

    def _series(self, x: Any, terms: list[float]) -> Any:
        found = self.const(terms[-1])
        for term in terms[-2::-1]:
            found = self.b.fadd(self.b.fmul(found, x), self.const(term))
        return found

    def _sin(self, x: Any, _: Any) -> Any:
        """The sine, right for every finite number; NaN at infinities."""
        return self._sine(x, 0.0)

    def _cos(self, x: Any, _: Any) -> Any:
        """The cosine, alike."""
        return self._sine(x, 0.5)

    def _sine(self, x: Any, quarter: float) -> Any:
        """sin(x + quarter * pi): x less the nearest (n - quarter) * pi, whose sign is that of n's last bit."""
        b, lanes = self.b, self.kind.count
        turns = b.fmul(x, self.const(1 / math.pi))
        shifted = b.fadd(b.fadd(turns, self.const(quarter)), self.const(_SHIFT))
        n = b.fsub(b.fsub(shifted, self.const(_SHIFT)), self.const(quarter))
        left = x
        for part in _parts_of_pi():
            left = b.fsub(left, b.fmul(n, self.const(part)))
        sign = b.shl(b.bitcast(shifted, self.whole), self.iconst(63))
        left = b.bitcast(b.xor(b.bitcast(left, self.whole), sign), self.kind)
        angle = variable(b, left)
        far = b.fcmp_unordered(">", self.call("fabs", x), self.const(NEAR))
        flags = ir.IntType(lanes)
        with b.if_then(b.icmp_unsigned("!=", b.bitcast(far, flags), flags(0)), likely=False):
            found = variable(b, left)
            with loop(b, 0, lanes, 1) as i:
                lane = b.trunc(i, I32)
                one = b.call(_far(b, quarter), [b.extract_element(x, lane)])
                b.store(b.insert_element(b.load(found), one, lane), found)
            b.store(b.select(far, b.load(found), left), angle)
        t = b.load(angle)
        square = b.fmul(t, t)
        found = b.fadd(t, b.fmul(b.fmul(square, t), self._series(square, _SIN)))
        return b.select(b.fcmp_ordered("<", self.call("fabs", t), self.const(2.0**-27)), t, found)

    def _erf(self, x: Any, _: Any) -> Any:
        """A series up to 1, then 1 - erfc(|x|); beyond 6 that is 1."""
        b, size = self.b, self.call("fabs", x)
        square = b.fmul(x, x)
        near = b.fmul(x, self._series(square, _ERF))
        a = b.select(b.fcmp_ordered("<", size, self.const(6)), size, self.const(6))
        t = b.fdiv(b.fsub(a, self.const(2.5)), b.fadd(a, self.const(2.5)))
        rest = b.fmul(self._power(b.fneg(b.fmul(a, a))), self._series(t, _ERFC))
        far = self.call("copysign", b.fsub(self.const(1), rest), x)
        found = b.select(b.fcmp_ordered("<", size, self.const(1)), near, far)
        return b.select(b.fcmp_unordered("uno", x, x), x, found)

    def _pow(self, x: Any, y: Any) -> Any:
        """exp(y log |x|), with the logarithm to 100 bits, and the sign of a power of a negative number."""
        b, one = self.b, self.const(1)
        size = self.call("fabs", x)
        high, low = self._log_parts(size)
        most = self.const(1e21)
        held = b.select(b.fcmp_ordered("<", self.call("fabs", y), most), y, self.call("copysign", most, y))
        held = b.select(b.fcmp_unordered("uno", y, y), y, held)
        product, rest = self._product(high, held)
        rest = b.fadd(rest, b.fmul(low, held))
        finite = b.fcmp_ordered("<", size, self.const(math.inf))
        plain = b.and_(b.fcmp_ordered(">=", size, self.const(2.0**-1022)), finite)
        product = b.select(plain, product, b.fmul(self._log(size), held))
        small = b.and_(plain, b.fcmp_ordered("<", self.call("fabs", product), self.const(1000)))
        found = self._power(product, b.select(small, rest, self.const(0)))
        whole = b.fcmp_ordered("==", self._floor(y), y)
        half = b.fmul(y, self.const(0.5))
        odd = b.and_(whole, b.fcmp_unordered("une", self._floor(half), half))
        turned = b.and_(odd, b.icmp_signed("<", b.bitcast(x, self.whole), self.iconst(0)))
        found = b.select(turned, b.fneg(found), found)
        wrong = b.and_(b.and_(plain, b.fcmp_ordered("<", x, self.const(0))), b.not_(whole))
        found = b.select(wrong, self.const(math.nan), found)
        ones = b.or_(b.fcmp_ordered("==", y, self.const(0)), b.fcmp_ordered("==", x, one))
        return b.select(ones, one, found)

    def _log_parts(self, x: Any) -> tuple[Any, Any]:
        """log(x) of positive normal numbers as a sum of two, the second below the last bit of the first.

        n ln(2) + 2 atanh(s) with x = 2**n m and s = (m - 1) / (m + 1): 2 s + 2 s**3 (1 / 3 + s**2 / 5 + ...).
        """
        b, one = self.b, self.const(1)
        n, m = self._exponent(x)
        f, below = b.fsub(m, one), b.fadd(m, one)
        below_low = b.fsub(m, b.fsub(below, one))
        s = b.fdiv(f, below)
        product, error = self._product(s, below)
        s_low = b.fdiv(b.fsub(b.fsub(b.fsub(f, product), error), b.fmul(s, below_low)), below)
        z, z_low = self._product(s, s)
        z_low = b.fadd(z_low, b.fmul(b.fmul(s, s_low), self.const(2)))
        tail = b.fmul(z, self._series(z, [1 / (2 * k + 3) for k in range(1, 13)]))
        c, c_low = self._sum(self.const(_THIRD[0]), tail)
        c_low = b.fadd(c_low, self.const(_THIRD[1]))
        q, q_low = self._product(z, c)
        q_low = b.fadd(q_low, b.fadd(b.fmul(z, c_low), b.fmul(z_low, c)))
        w, w_low = self._product(s, q)
        w_low = b.fadd(w_low, b.fadd(b.fmul(s, q_low), b.fmul(s_low, q)))
        log, log_low = self._sum(s, w)
        log_low = b.fadd(log_low, b.fadd(s_low, w_low))
        two = self.const(2)
        high, low = self._sum(b.fmul(n, self.const(_LN2[0])), b.fmul(log, two))
        low = b.fadd(low, b.fadd(b.fmul(log_low, two), b.fmul(n, self.const(_LN2[1]))))
        return self._sum(high, low)

    def _sum(self, x: Any, y: Any) -> tuple[Any, Any]:
        """x + y and what its rounding lost; |x| >= |y|, or x is 0."""
        b, total = self.b, self.b.fadd(x, y)
        return total, b.fsub(y, b.fsub(total, x))

    def _product(self, x: Any, y: Any) -> tuple[Any, Any]:
        """x * y and what its rounding lost, by halves of the mantissas."""
        b = self.b

        def halves(v: Any) -> tuple[Any, Any]:
            far = b.fmul(v, self.const(_SPLIT))
            high = b.fsub(far, b.fsub(far, v))
            return high, b.fsub(v, high)

        product, (x1, x2), (y1, y2) = b.fmul(x, y), halves(x), halves(y)
        error = b.fadd(b.fadd(b.fsub(b.fmul(x1, y1), product), b.fmul(x1, y2)), b.fmul(x2, y1))
        return product, b.fadd(error, b.fmul(x2, y2))


def _far(b: Any, quarter: float) -> Any:
    """A function of the module: of one |x| > NEAR, the angle from -pi / 2 to pi / 2 that has the sine."""
    name = f"fastgraph.far_angle.{int(2 * quarter)}"
    found = b.module.globals.get(name)
    if found is not None:
        return found
    function = ir.Function(b.module, ir.FunctionType(F64, [F64]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    inside = ir.IRBuilder(function.append_basic_block())
    inside.ret(_far_body(inside, function.args[0], quarter))
    return function


def _far_body(b: Any, x: Any, quarter: float) -> Any:
    """The share of a turn is the product of x's mantissa and those bits of 1 / (2 pi) that its exponent leaves behind
    the point: 192 of them. Of numbers below 2 the result means nothing.
    """
    wide, turn = ir.IntType(192), ir.IntType(256)
    kind = ir.ArrayType(I64, len(_WORDS))
    table = b.module.globals.get("fastgraph.inverse_turn")
    if table is None:
        table = ir.GlobalVariable(b.module, kind, "fastgraph.inverse_turn")
        table.linkage, table.global_constant = "internal", True
        table.initializer = ir.Constant(kind, _WORDS)
    raw = b.bitcast(x, I64)
    exponent = b.and_(b.lshr(raw, I64(52)), I64(0x7FF))
    finite = b.icmp_signed("<", exponent, I64(0x7FF))
    far = b.and_(finite, b.icmp_signed(">", exponent, I64(1023)))
    start = b.select(far, b.sub(exponent, I64(1075 - 64)), I64(64))
    bits = turn(0)
    for k in range(4):
        word = b.load(b.gep(table, [I64(0), b.add(b.lshr(start, I64(6)), I64(k))]))
        bits = b.or_(bits, b.shl(b.zext(word, turn), turn(64 * (3 - k))))
    bits = b.shl(bits, b.zext(b.and_(start, I64(63)), turn))
    share = b.trunc(b.lshr(bits, turn(64)), wide)
    mantissa = b.or_(b.and_(raw, I64((1 << 52) - 1)), I64(1 << 52))
    share = b.mul(share, b.zext(mantissa, wide))
    negative = b.icmp_signed("<", raw, I64(0))
    if quarter:
        share, negative = b.add(share, wide(1 << 190)), ir.IntType(1)(0)
    half = b.and_(b.add(share, wide(1 << 190)), wide(1 << 191))
    share = b.sub(share, half)
    below = b.icmp_signed("<", share, wide(0))
    share = b.select(below, b.sub(wide(0), share), share)
    total: Any = F64(0)
    for k in range(3):
        part = b.uitofp(b.trunc(b.lshr(share, wide(64 * k)), I64), F64)
        total = b.fadd(total, b.fmul(part, F64(2 * math.pi * 2.0 ** (64 * k - 192))))
    turned = b.xor(b.xor(below, negative), b.icmp_unsigned("!=", half, wide(0)))
    total = b.select(turned, b.fneg(total), total)
    return b.select(finite, total, F64(math.nan))
