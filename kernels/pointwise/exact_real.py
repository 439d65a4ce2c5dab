"""Operations on vectors of floats, rounded once each, with NumPy's results. Runs take subnormal numbers for 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..isa.loops import variable
from .convert import F64, I32, I64, halved, widened
from .exact_names import ROUNDED
from .formats import FLOATS

F32 = ir.FloatType()
_SIGNS = {"less": "<", "less_or_equal": "<=", "equal": "=="}
_MANTISSA = {32: 23, 64: 52}


class Real:
    """Writes the operations of exact_names.REAL on vectors of type `kind`; f16 is held as i16 and computed in f32."""

    def __init__(self, b: Any, element: str, kind: Any) -> None:
        self.b, self.stored, lanes = b, kind, kind.count
        self.bits = 64 if element == "f64" else 32
        self.half = element == "f16"
        self.kind = ir.VectorType(F64 if self.bits == 64 else F32, lanes)
        self.whole = ir.VectorType(I64 if self.bits == 64 else I32, lanes)

    def __call__(self, name: str, x: Any, y: Any, chosen: Any) -> Any:
        b = self.b
        if name == "where":
            return b.select(b.icmp_unsigned("!=", chosen, ir.Constant(chosen.type, None)), x, y)
        if self.half:
            x, y = (widened(b, each, self.kind) for each in (x, y))
        if name in ROUNDED:
            return self._rounded(x, name.removesuffix("_open"), name.endswith("_open"))
        if name in _SIGNS:
            return b.fcmp_ordered(_SIGNS[name], x, y)
        rule: Callable[..., Any] = getattr(self, f"_{name}")
        found = rule(x, y)
        return halved(b, found, self.stored) if self.half and found.type == self.kind else found

    def const(self, number: float) -> Any:
        return ir.Constant(self.kind, [number] * self.kind.count)

    def iconst(self, number: int) -> Any:
        return ir.Constant(self.whole, [number] * self.kind.count)

    def call(self, name: str, *values: Any) -> Any:
        full, module = f"llvm.{name}.v{self.kind.count}f{self.bits}", self.b.module
        kind = ir.FunctionType(self.kind, [v.type for v in values])
        return self.b.call(module.globals.get(full) or ir.Function(module, kind, full), values)

    def _add(self, x: Any, y: Any) -> Any:
        return self.b.fadd(x, y)

    def _sub(self, x: Any, y: Any) -> Any:
        return self.b.fsub(x, y)

    def _mul(self, x: Any, y: Any) -> Any:
        return self.b.fmul(x, y)

    def _div(self, x: Any, y: Any) -> Any:
        return self.b.fdiv(x, y)

    def _neg(self, x: Any, y: Any) -> Any:
        return self.b.fneg(x)

    def _abs(self, x: Any, y: Any) -> Any:
        return self.call("fabs", x)

    def _sqrt(self, x: Any, y: Any) -> Any:
        return self.call("sqrt", x)

    def _reciprocal(self, x: Any, y: Any) -> Any:
        return self.b.fdiv(self.const(1), x)

    def _sign(self, x: Any, y: Any) -> Any:
        one = self.call("copysign", self.const(1), x)
        return self.b.select(self.b.fcmp_ordered("one", x, self.const(0)), one, self.b.fadd(x, self.const(0)))

    def _min(self, x: Any, y: Any, sign: str = "<") -> Any:
        best = self.b.select(self.b.fcmp_ordered(sign, x, y), x, y)
        return self.b.select(self.b.fcmp_unordered("uno", x, x), x, best)

    def _max(self, x: Any, y: Any) -> Any:
        return self._min(x, y, ">")

    def _copysign(self, x: Any, y: Any) -> Any:
        return self.call("copysign", x, y)

    def _prelu(self, x: Any, y: Any) -> Any:
        return self.b.select(self.b.fcmp_ordered("<", x, self.const(0)), self.b.fmul(x, y), x)

    def _is_nan(self, x: Any, y: Any) -> Any:
        return self.b.fcmp_unordered("uno", x, x)

    def _is_inf(self, x: Any, y: Any) -> Any:
        return self.b.fcmp_ordered("==", self.call("fabs", x), self.const(math.inf))

    def _is_positive_inf(self, x: Any, y: Any) -> Any:
        return self.b.fcmp_ordered("==", x, self.const(math.inf))

    def _is_negative_inf(self, x: Any, y: Any) -> Any:
        return self.b.fcmp_ordered("==", x, self.const(-math.inf))

    def _round(self, x: Any, y: Any = None) -> Any:
        """Halves to even: from 2**52 (f32: 2**23) on there are whole numbers only."""
        b, far = self.b, self.const(2.0 ** _MANTISSA[self.bits])
        shift = self.call("copysign", far, x)
        near = b.fsub(b.fadd(x, shift), shift)
        small = b.fcmp_ordered("<", self.call("fabs", x), far)
        return b.select(small, self.call("copysign", near, x), x)

    def _floor(self, x: Any, y: Any = None) -> Any:
        near = self._round(x)
        less = self.b.fsub(near, self.const(1))
        return self.call("copysign", self.b.select(self.b.fcmp_ordered(">", near, x), less, near), x)

    def _ceil(self, x: Any, y: Any = None) -> Any:
        near = self._round(x)
        more = self.b.fadd(near, self.const(1))
        return self.call("copysign", self.b.select(self.b.fcmp_ordered("<", near, x), more, near), x)

    def _fmod(self, x: Any, y: Any) -> Any:
        """What is left of x when y was taken away often enough; each difference is exact."""
        b, mantissa = self.b, _MANTISSA[self.bits]
        tiny = self.const(2.0 ** (-126 if self.bits == 32 else -1022))
        size, by = self.call("fabs", x), self.call("fabs", y)
        fine = b.and_(b.fcmp_ordered("<", size, self.const(math.inf)), b.fcmp_ordered(">=", by, tiny))
        left = variable(b, b.select(fine, size, self.const(0)))
        head, body, done = (b.append_basic_block(name) for name in ("head", "body", "done"))
        b.branch(head)
        b.position_at_end(head)
        now = b.load(left)
        more = b.and_(fine, b.fcmp_ordered(">=", now, by))
        b.cbranch(b.icmp_unsigned("!=", b.bitcast(more, ir.IntType(more.type.count)), ir.IntType(more.type.count)(0)),
                  body, done)  # fmt: skip
        b.position_at_end(body)
        # y times the power of two that brings it to the exponent of what is left, or half of that.
        top, low = self.iconst(-1 << mantissa), self.iconst((1 << mantissa) - 1)
        bits = b.or_(b.and_(b.bitcast(now, self.whole), top), b.and_(b.bitcast(by, self.whole), low))
        part = b.bitcast(bits, self.kind)
        part = b.select(b.fcmp_ordered(">", part, now), b.fmul(part, self.const(0.5)), part)
        b.store(b.select(more, b.fsub(now, part), now), left)
        b.branch(head)
        b.position_at_end(done)
        found = b.select(b.fcmp_ordered("==", by, self.const(math.inf)), size, b.load(left))
        found = b.select(b.fcmp_ordered("<", size, self.const(math.inf)), found, self.const(math.nan))
        found = b.select(b.fcmp_ordered(">=", by, tiny), found, self.const(math.nan))
        return self.call("copysign", found, x)

    def _mod(self, x: Any, y: Any) -> Any:
        """The remainder with the sign of y."""
        b, rest = self.b, self._fmod(x, y)
        other = self._other_sign(rest, y)
        zero = b.fcmp_ordered("==", rest, self.const(0))
        found = b.select(other, b.fadd(rest, y), rest)
        return b.select(zero, self.call("copysign", self.const(0), y), found)

    def _other_sign(self, rest: Any, y: Any) -> Any:
        b, zero = self.b, self.const(0)
        below = [b.fcmp_ordered("<", each, zero) for each in (rest, y)]
        return b.and_(b.fcmp_unordered("une", rest, zero), b.xor(*below))

    def _floor_div(self, x: Any, y: Any) -> Any:
        b, zero = self.b, self.const(0)
        rest = self._fmod(x, y)
        whole = b.fdiv(b.fsub(x, rest), y)
        whole = b.select(self._other_sign(rest, y), b.fsub(whole, self.const(1)), whole)
        floor = self._floor(whole)
        above = b.fcmp_ordered(">", b.fsub(whole, floor), self.const(0.5))
        floor = b.select(above, b.fadd(floor, self.const(1)), floor)
        plain = b.fdiv(x, y)
        floor = b.select(b.fcmp_ordered("==", whole, zero), self.call("copysign", zero, plain), floor)
        return b.select(b.fcmp_ordered("==", y, zero), plain, floor)

    def _rounded(self, x: Any, kind: str, opens: bool) -> Any:
        """f32 with fewer bits, rounded half to even, as `formats` says."""
        b, (least, bits, greatest, beyond) = self.b, FLOATS[kind]
        drop = 23 - bits
        raw = b.and_(b.bitcast(x, self.whole), self.iconst(0x7FFFFFFF))
        odd = b.and_(b.lshr(raw, self.iconst(drop)), self.iconst(1))
        near = b.add(b.add(raw, self.iconst((1 << drop - 1) - 1)), odd)
        normal = b.bitcast(b.and_(near, self.iconst(-1 << drop)), self.kind)
        size, shift = b.bitcast(raw, self.kind), self.const(2.0 ** (least - bits + 23))
        small = b.fcmp_ordered("<", size, self.const(2.0**least))
        y = b.select(small, b.fsub(b.fadd(size, shift), shift), normal)
        top = math.inf if beyond == "overflow" or (opens and beyond == "inf") else math.nan if opens else greatest
        y = b.select(b.fcmp_ordered(">", y, self.const(greatest)), self.const(top), y)
        y = self.call("copysign", y, x)
        y = b.fadd(y, self.const(0.0)) if kind.endswith("fnuz") else y
        return b.select(b.fcmp_unordered("uno", x, x), self.const(-0.0) if beyond == "none" else x, y)
