"""What a scatter makes of what is there and what comes, by element type. Whole numbers wrap around."""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir

OPERATIONS = ("add", "mul", "min", "max", "div")


class Kind(NamedTuple):
    """An element type: its LLVM type, whether it has a sign and a fraction, bytes."""

    type: Any
    signed: bool
    real: bool
    size: int


KINDS = {
    "f32": Kind(ir.FloatType(), True, True, 4), "f64": Kind(ir.DoubleType(), True, True, 8),
    **{f"{'i' if signed else 'u'}{8 * size}": Kind(ir.IntType(8 * size), signed, False, size)
       for signed in (True, False) for size in (1, 2, 4, 8)},
}  # fmt: skip


def combined(b: Any, kind: Kind, operation: str, there: Any, comes: Any) -> Any:
    """One of OPERATIONS; a NaN stays. Whole numbers are not divided: what is there stays."""
    if operation == "div":
        return b.fdiv(there, comes) if kind.real else there
    if operation in ("add", "mul"):
        return getattr(b, f"f{operation}" if kind.real else operation)(there, comes)
    sign = "<" if operation == "min" else ">"
    if not kind.real:
        compare = b.icmp_signed if kind.signed else b.icmp_unsigned
        return b.select(compare(sign, there, comes), there, comes)
    best = b.select(b.fcmp_unordered(sign, there, comes), there, comes)
    return b.select(b.fcmp_unordered("uno", comes, comes), comes, best)
