"""Operations on vectors of whole numbers of one width. They wrap around; what is divided by 0 gives 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..isa.loops import variable
from .convert import F64
from .exact_names import COMPARISONS

F32 = ir.FloatType()
_SIGNS = {"less": "<", "less_or_equal": "<=", "equal": "=="}


class Whole:
    """Writes the operations of exact_names.WHOLE on vectors of type `kind`."""

    def __init__(self, b: Any, element: str, kind: Any) -> None:
        self.b, self.kind, self.bits = b, kind, kind.element.width

    def __call__(self, name: str, x: Any, y: Any, chosen: Any) -> Any:
        signed, plain = not name.endswith("_u"), name.removesuffix("_u")
        if plain in COMPARISONS:
            return self._less(_SIGNS[plain], x, y, signed)
        if name == "where":
            return self.b.select(self.b.icmp_unsigned("!=", chosen, ir.Constant(chosen.type, None)), x, y)
        if plain in _DIVISIONS:
            return _DIVISIONS[plain](self, x, y, signed)
        if plain in _BITWISE:
            return getattr(self.b, _BITWISE[plain])(x, y)
        rule: Callable[..., Any] = getattr(self, f"_{plain}")
        return rule(x, y, signed)

    def const(self, number: int) -> Any:
        return ir.Constant(self.kind, [number] * self.kind.count)

    def _less(self, sign: str, x: Any, y: Any, signed: bool = True) -> Any:
        return (self.b.icmp_signed if signed else self.b.icmp_unsigned)(sign, x, y)

    def _neg(self, x: Any, y: Any, signed: bool) -> Any:
        return self.b.sub(self.const(0), x)

    def _not(self, x: Any, y: Any, signed: bool) -> Any:
        return self.b.xor(x, self.const(-1))

    def _abs(self, x: Any, y: Any, signed: bool) -> Any:
        return self.b.select(self._less("<", x, self.const(0)), self._neg(x, y, signed), x)

    def _sign(self, x: Any, y: Any, signed: bool) -> Any:
        above = self.b.zext(self.b.icmp_unsigned("!=", x, self.const(0)), self.kind)
        return self.b.select(self._less("<", x, self.const(0)), self.const(-1), above) if signed else above

    def _min(self, x: Any, y: Any, signed: bool) -> Any:
        return self.b.select(self._less("<", x, y, signed), x, y)

    def _max(self, x: Any, y: Any, signed: bool) -> Any:
        return self.b.select(self._less("<", x, y, signed), y, x)

    def _prelu(self, x: Any, y: Any, signed: bool) -> Any:
        return self.b.select(self._less("<", x, self.const(0)), self.b.mul(x, y), x) if signed else x

    def _shift_left(self, x: Any, y: Any, signed: bool) -> Any:
        """By as many bits as there are, or more, or less than none: 0."""
        near = self._less("<", y, self.const(self.bits), signed=False)
        return self.b.select(near, self.b.shl(x, self.b.select(near, y, self.const(0))), self.const(0))

    def _shift_right(self, x: Any, y: Any, signed: bool) -> Any:
        """Alike, but what has a sign keeps that."""
        near = self._less("<", y, self.const(self.bits), signed=False)
        if signed:
            return self.b.ashr(x, self.b.select(near, y, self.const(self.bits - 1)))
        return self.b.select(near, self.b.lshr(x, self.b.select(near, y, self.const(0))), self.const(0))

    def _pow(self, x: Any, y: Any, signed: bool) -> Any:
        """Bit by bit of the exponent; below 0 what is 1 or -1 stays, 0 has the least number, and the rest 0."""
        b, zero, one = self.b, self.const(0), self.const(1)
        below = self._less("<", y, zero) if signed else ir.Constant(ir.VectorType(ir.IntType(1), self.kind.count), None)
        power, factor, left = variable(b, one), variable(b, x), variable(b, b.select(below, zero, y))
        head, body, done = (b.append_basic_block(name) for name in ("head", "body", "done"))
        b.branch(head)
        b.position_at_end(head)
        exponent = b.load(left)
        bits = ir.IntType(self.bits * self.kind.count)
        b.cbranch(b.icmp_unsigned("!=", b.bitcast(exponent, bits), bits(0)), body, done)
        b.position_at_end(body)
        now, by = b.load(power), b.load(factor)
        odd = b.icmp_unsigned("!=", b.and_(exponent, one), zero)
        b.store(b.select(odd, b.mul(now, by), now), power)
        b.store(b.mul(by, by), factor)
        b.store(b.lshr(exponent, one), left)
        b.branch(head)
        b.position_at_end(done)
        found = b.load(power)
        if not signed:
            return found
        odd = b.icmp_unsigned("!=", b.and_(y, one), zero)
        unit = b.select(b.or_(b.icmp_signed("==", x, one), b.not_(odd)), one, self.const(-1))
        alone = b.or_(b.icmp_signed("==", x, one), b.icmp_signed("==", x, self.const(-1)))
        least = self.const(-1 << self.bits - 1 if self.bits >= 32 else 0)
        inverse = b.select(alone, unit, b.select(b.icmp_signed("==", x, zero), least, zero))
        return b.select(below, inverse, found)

    def _quotient(self, x: Any, y: Any, signed: bool) -> tuple[Any, Any]:
        """x / y towards 0, and whether y is 0; then the quotient means nothing."""
        b, none = self.b, self.b.icmp_signed("==", y, self.const(0))
        y = b.select(none, self.const(1), y)
        if self.bits == 64:
            if not signed:
                return b.udiv(x, y), none
            # The least number divided by -1 is no number, and would trap.
            minus = b.icmp_signed("==", y, self.const(-1))
            quotient = b.sdiv(x, b.select(minus, self.const(1), y))
            return b.select(minus, b.sub(self.const(0), x), quotient), none
        # Floats of more than twice as many bits never round a quotient up to a whole number.
        real = ir.VectorType(F32 if self.bits <= 16 else F64, self.kind.count)
        wide = ir.VectorType(ir.IntType(32 if self.bits <= 16 else 64), self.kind.count)
        x, y = ((b.sitofp if signed else b.uitofp)(each, real) for each in (x, y))
        return b.trunc(b.fptosi(b.fdiv(x, y), wide), self.kind), none

    def _div(self, x: Any, y: Any, signed: bool) -> Any:
        quotient, none = self._quotient(x, y, signed)
        return self.b.select(none, self.const(0), quotient)

    def _rest(self, x: Any, y: Any, signed: bool) -> tuple[Any, Any, Any]:
        """Quotient and remainder towards 0, both 0 where y is, and whether the latter has another sign than y."""
        b, quotient = self.b, self._div(x, y, signed)
        rest = b.select(b.icmp_signed("==", y, self.const(0)), self.const(0), b.sub(x, b.mul(quotient, y)))
        other = b.and_(self._less("<", b.xor(rest, y), self.const(0)), b.icmp_signed("!=", rest, self.const(0)))
        return quotient, rest, other

    def _floor_div(self, x: Any, y: Any, signed: bool) -> Any:
        quotient, _, other = self._rest(x, y, signed)
        return self.b.select(other, self.b.sub(quotient, self.const(1)), quotient) if signed else quotient

    def _mod(self, x: Any, y: Any, signed: bool) -> Any:
        _, rest, other = self._rest(x, y, signed)
        return self.b.select(other, self.b.add(rest, y), rest) if signed else rest

    def _fmod(self, x: Any, y: Any, signed: bool) -> Any:
        return self._rest(x, y, signed)[1]


_DIVISIONS = {"div": Whole._div, "floor_div": Whole._floor_div, "mod": Whole._mod, "fmod": Whole._fmod}
_BITWISE = {"add": "add", "sub": "sub", "mul": "mul", "and": "and_", "or": "or_", "xor": "xor"}
