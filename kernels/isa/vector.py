"""Emit vector code from inside a kernel: addresses are int64, everything else is an LLVM value.

A kernel is a plain Python function (`core.front`); where it needs vectors it calls a function that `emits`, which
writes LLVM IR through a `Vector`. The IR is generic LLVM (no target intrinsics), so one body serves every tier.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from llvmlite import ir

from .tiers import Tier

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32 = ir.FloatType()


def emits(body: Any = None, *, returns: Any = None) -> Any:
    """Let kernel code call `body(builder, *values)`, without the builder: it writes IR, and may return values.

    Every number comes as an LLVM int64, and so must those returned be: nothing where the body is annotated so, else
    one, a tuple of `returns`, or a named tuple with these names. A record that was read (`core.record.reader`) comes
    as it is.
    """
    if body is None:
        return lambda body: emits(body, returns=returns)
    nothing = getattr(body, "__annotations__", {}).get("return", ...) in (None, "None")
    body.emits = returns if returns is not None else 0 if nothing else 1
    return body


@emits
def arg(builder: Any, args: Any, index: Any) -> Any:
    """The index-th int64 of an argument record."""
    pointer = builder.inttoptr(args, I64.as_pointer())
    return builder.load(builder.gep(pointer, [index]))


@cache
def vector(kind: Any, lanes: int) -> Any:
    """The type of so many of a kind."""
    return ir.VectorType(kind, lanes)


@cache
def _repeated(kind: Any, number: str, lanes: int) -> Any:
    """A number in each lane. By its text: 0.0 equals -0.0, and is another."""
    return ir.Constant(vector(kind, lanes), [(float if kind is F32 else int)(number)] * lanes)


@cache
def _undefined(kind: Any, lanes: int) -> Any:
    return ir.Constant(vector(kind, lanes), ir.Undefined)


class Vector:
    """Writes vectors of one element type and a tier's width into an LLVM builder."""

    def __init__(self, builder: Any, tier: Tier, lanes: int | None = None) -> None:
        self.b = builder
        self.tier = tier
        self.lanes = lanes or tier.lanes
        self.type, self.itype, self.mtype = (vector(kind, self.lanes) for kind in (F32, I32, I1))

    # -- constants and addresses

    def const(self, x: float) -> Any:
        return _repeated(F32, repr(float(x)), self.lanes)

    def iconst(self, x: int) -> Any:
        return _repeated(I32, str(int(x)), self.lanes)

    def pointer(self, address: Any, kind: Any = F32) -> Any:
        return self.b.inttoptr(address, kind.as_pointer())

    def at(self, pointer: Any, elements: Any) -> Any:
        """pointer + elements (an LLVM int64 or a Python int)."""
        index = I64(elements) if isinstance(elements, int) else elements
        return self.b.gep(pointer, [index])

    # -- memory (pointers to f32)

    def load(self, pointer: Any, mask: Any = None, align: int = 4) -> Any:
        wide = self.b.bitcast(pointer, self.type.as_pointer())
        if mask is None:
            return self.b.load(wide, align=align)
        name = f"llvm.masked.load.v{self.lanes}f32.p0"
        fn = self.declare(name, self.type, [wide.type, I32, self.mtype, self.type])
        return self.b.call(fn, [wide, I32(align), mask, self.const(0)])

    def store(self, value: Any, pointer: Any, mask: Any = None, align: int = 4) -> None:
        wide = self.b.bitcast(pointer, self.type.as_pointer())
        if mask is None:
            self.b.store(value, wide, align=align)
            return
        name = f"llvm.masked.store.v{self.lanes}f32.p0"
        fn = self.declare(name, ir.VoidType(), [self.type, wide.type, I32, self.mtype])
        self.b.call(fn, [value, wide, I32(align), mask])

    def splat(self, scalar: Any, lanes: int | None = None) -> Any:
        """One scalar in each of as many lanes, or in every lane."""
        lanes = lanes or self.lanes
        undef = _undefined(scalar.type, lanes)
        one = self.b.insert_element(undef, scalar, I32(0))
        return self.b.shuffle_vector(one, undef, _repeated(I32, "0", lanes))

    def broadcast(self, pointer: Any) -> Any:
        """The f32 at `pointer` in every lane."""
        return self.splat(self.b.load(pointer))

    def mask(self, count: Any) -> Any:
        """Lanes below `count` (int64; may be negative or above the width)."""
        n = self.b.trunc(count, I32)
        index = ir.Constant(self.itype, list(range(self.lanes)))
        return self.b.icmp_signed("<", index, self.splat(n))

    # -- arithmetic

    def declare(self, name: str, returns: Any, args: Sequence[Any]) -> Any:
        module = self.b.module
        return module.globals.get(name) or ir.Function(module, ir.FunctionType(returns, args), name)

    def call(self, name: str, *values: Any) -> Any:
        """An overloaded LLVM intrinsic on f32 vectors: call("fma", a, b, c)."""
        fn = self.declare(f"llvm.{name}.v{self.lanes}f32", self.type, [v.type for v in values])
        return self.b.call(fn, values)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a * b + c, fused where the tier has it."""
        if self.tier.fma:
            return self.call("fma", a, b, c)
        return self.b.fadd(self.b.fmul(a, b), c)
