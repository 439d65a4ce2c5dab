"""SSE2, which every CPU for x86-64 has: registers of 128 bits, no fused multiply-add."""

from __future__ import annotations

from ..lang import I8, I32, I64, Type, Value, called, choose, room
from .generic import GREATEST, Generic, bits_of, packed_type

_FLUSH_DENORMALS = 0x8040
"""Bits of the register MXCSR: denormals are zero as results, and as operands."""


class Sse2(Generic):
    """`names`: what an operation is called for a result of so many bits."""

    names = {
        ("madd", 128): "sse2.pmadd.wd",
        ("round", 128): "sse2.cvtps2dq",
        ("packssdw", 128): "sse2.packssdw.128",
        ("packsswb", 128): "sse2.packsswb.128",
        ("packuswb", 128): "sse2.packuswb.128",
    }

    def _name(self, operation: str, bits: int) -> str:
        return f"llvm.x86.{self.names[operation, bits]}"

    def dot_halves(self, a: Value, w: Value) -> Value:
        kind = I32.vector(a.lanes // 2)
        return called(self._name("madd", bits_of(kind)), kind, a, w)

    def round_to_int(self, x: Value, within: bool = False) -> Value:
        # The instruction makes -2**31 of all that is no int32.
        kind = I32.like(x.type)
        return self._rounded(x if within else choose(x.type(GREATEST) < x, GREATEST, x), kind)

    def _rounded(self, x: Value, kind: Type) -> Value:
        return called(self._name("round", bits_of(kind)), kind, x)

    def pack(self, x: Value, y: Value, signed: bool = True) -> Value:
        kind = packed_type(x, signed)
        name = "packssdw" if kind.bits == 16 else "packsswb" if signed else "packuswb"
        return called(self._name(name, bits_of(kind)), kind, x, y)

    # -- the processor

    tenth = 1 << 28

    def clock(self) -> Value:
        return called("llvm.readcyclecounter", I64)

    def pause(self) -> None:
        called("llvm.x86.sse2.pause", None)

    def flush_denormals(self) -> Value:
        cell = room(I32)
        called("llvm.x86.sse.stmxcsr", None, cell.bits(I8))
        before = cell[0]
        cell[0] = before | _FLUSH_DENORMALS
        called("llvm.x86.sse.ldmxcsr", None, cell.bits(I8))
        return before.unsigned.to(I64)

    def restore_mode(self, before: Value) -> None:
        cell = room(I32)
        cell[0] = before.to(I32)
        called("llvm.x86.sse.ldmxcsr", None, cell.bits(I8))
