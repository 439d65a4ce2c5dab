"""Emit vector code from inside a numba kernel: addresses are int64, everything else is an LLVM value.

A kernel is a plain Python function for numba; where it needs vectors it calls an intrinsic made by `emits`, whose
body writes LLVM IR through a `Vector`. The IR is generic LLVM (no target intrinsics), so one body serves every tier.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .tiers import Tier

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32 = ir.FloatType()


def emits(body: Callable | None = None, *, returns: Any = types.void) -> Any:
    """Turn `body(builder, *values)` into a numba intrinsic that takes as many int64 arguments as `body` has values.

    The body returns an LLVM value of `returns`'s type, or None for void. Arguments may be given by name, 15 at
    most. One may be a record that was read (`core.record.reader`): it comes as a named tuple of values.
    """
    if body is None:
        return partial(emits, returns=returns)
    names = list(inspect.signature(body).parameters)[1:]

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        result = body(builder, *(_operand(builder, *pair) for pair in zip(signature.args, values, strict=True)))
        return context.get_dummy_value() if result is None else result

    def typer(typingctx: Any, *args: Any, **named: Any) -> Any:
        given = dict(zip(names, args, strict=False)) | named
        kinds = (given[name] for name in names)
        return returns(*(kind if isinstance(kind, types.NamedUniTuple) else types.int64 for kind in kinds)), generate

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in ("typingctx", *names)]
    typer.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    typer.__name__ = body.__name__
    return intrinsic(typer)


def _operand(builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.NamedUniTuple):
        return kind.instance_class(*cgutils.unpack_tuple(builder, value))
    return value


@emits(returns=types.int64)
def arg(builder: Any, args: Any, index: Any) -> Any:
    """The index-th int64 of an argument record."""
    pointer = builder.inttoptr(args, I64.as_pointer())
    return builder.load(builder.gep(pointer, [index]))


class Vector:
    """Writes vectors of one element type and a tier's width into an LLVM builder."""

    def __init__(self, builder: Any, tier: Tier, lanes: int | None = None) -> None:
        self.b = builder
        self.tier = tier
        self.lanes = lanes or tier.lanes
        self.type = ir.VectorType(F32, self.lanes)
        self.itype = ir.VectorType(I32, self.lanes)
        self.mtype = ir.VectorType(I1, self.lanes)

    # -- constants and addresses

    def const(self, x: float) -> Any:
        return ir.Constant(self.type, [float(x)] * self.lanes)

    def iconst(self, x: int) -> Any:
        return ir.Constant(self.itype, [int(x)] * self.lanes)

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
        undef = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
        one = self.b.insert_element(undef, scalar, I32(0))
        return self.b.shuffle_vector(one, undef, ir.Constant(ir.VectorType(I32, lanes), [0] * lanes))

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
