"""Python's operators on int64 numbers in LLVM's IR. What is made of known numbers is known."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

I64 = ir.IntType(64)

_KNOWN: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}  # fmt: skip
_EMITTED = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
    ast.LShift: "shl", ast.RShift: "ashr",
}  # fmt: skip
_COMPARED = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def binary(b: Any, op: ast.operator, x: Any, y: Any) -> Any:
    if not isinstance(x, ir.Value) and not isinstance(y, ir.Value):
        return _KNOWN[type(op)](x, y)
    x, y = number(b, x), number(b, y)
    if isinstance(op, ast.FloorDiv | ast.Mod):
        return _divided(b, x, y)[isinstance(op, ast.Mod)]
    if type(op) not in _EMITTED:
        raise TypeError(f"kernel code has no {type(op).__name__}")
    return getattr(b, _EMITTED[type(op)])(x, y)


def _divided(b: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """x // y and x % y as Python has them; 0 and 0 where y is 0."""
    none = b.icmp_signed("==", y, I64(0))
    y = b.select(none, I64(1), y)
    quotient, rest = b.sdiv(x, y), b.srem(x, y)
    below = b.and_(b.icmp_signed("!=", rest, I64(0)), b.icmp_signed("<", b.xor(y, rest), I64(0)))
    quotient = b.select(below, b.sub(quotient, I64(1)), quotient)
    return b.select(none, I64(0), quotient), b.select(below, b.add(rest, y), rest)


def compared(b: Any, ops: Sequence[ast.cmpop], values: Sequence[Any]) -> Any:
    result: Any = True
    for op, x, y in zip(ops, values, values[1:], strict=False):
        if not isinstance(x, ir.Value) and not isinstance(y, ir.Value):
            one: Any = _KNOWN[type(op)](x, y)
        else:
            one = b.icmp_signed(_COMPARED[type(op)], number(b, x), number(b, y))
        if isinstance(one, ir.Value) and isinstance(result, ir.Value):
            result = b.and_(result, one)
        else:
            result = one if result is True else result and one
    return result


def number(b: Any, value: Any) -> Any:
    """A value as an int64."""
    if isinstance(value, int):
        return I64(int(value))
    if isinstance(value, ir.Value) and isinstance(value.type, ir.IntType):
        return b.zext(value, I64) if value.type.width < 64 else value
    raise TypeError(f"{value!r} is no number")


def numbers(b: Any, value: Any) -> Any:
    """A value with int64 for every number in it that isn't known."""
    if isinstance(value, ir.Value):
        return number(b, value)
    return tuple(numbers(b, item) for item in value) if type(value) in (tuple, list) else value


def truth(b: Any, value: Any) -> Any:
    return value if value.type.width == 1 else b.icmp_signed("!=", value, I64(0))


def merged(b: Any, found: Sequence[tuple[Any, Any]]) -> Any:
    """The value that control comes with from one of several blocks."""
    values = [value for value, _ in found]
    if len(values) == 1 or all(value is None for value in values):
        return values[0] if values else None
    if len({len(value) if isinstance(value, tuple) else -(value is None) for value in values}) > 1:
        raise TypeError(f"values of several kinds come together: {', '.join(map(str, values))}")
    if isinstance(values[0], tuple):
        return tuple(merged(b, [(value[i], block) for value, block in found]) for i in range(len(values[0])))
    phi = b.phi(I64)
    for value, block in found:
        phi.add_incoming(I64(int(value)) if isinstance(value, int) else value, block)
    return phi
