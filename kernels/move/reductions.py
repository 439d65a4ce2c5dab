"""What a scatter makes of what is there and what comes, by element type."""

from __future__ import annotations

from typing import Any

from llvmlite import ir


def type_of(kind: str) -> Any:
    """The LLVM type of one of NUMBERS."""
    if kind[0] == "f":
        return ir.FloatType() if kind == "f32" else ir.DoubleType()
    return ir.IntType(int(kind[1:]))


def combined(b: Any, kind: str, operation: str, there: Any, comes: Any) -> Any:
    """One of OPERATIONS on one of NUMBERS. A NaN stays; whole numbers are not divided: what is there stays."""
    real = kind[0] == "f"
    if operation == "div":
        return b.fdiv(there, comes) if real else there
    if operation in ("add", "mul"):
        return getattr(b, f"f{operation}" if real else operation)(there, comes)
    sign = "<" if operation == "min" else ">"
    if not real:
        compare = b.icmp_unsigned if kind[0] == "u" else b.icmp_signed
        return b.select(compare(sign, there, comes), there, comes)
    best = b.select(b.fcmp_unordered(sign, there, comes), there, comes)
    return b.select(b.fcmp_unordered("uno", comes, comes), comes, best)
