"""SSE2, which every CPU for x86-64 has: registers of 128 bits, no fused multiply-add."""

from __future__ import annotations

from ..lang import I8, I32, I64, Type, Value, called, choose, room
from .generic import GREATEST, Generic, packed_type

_FLUSH_DENORMALS = 0x8040
"""Bits of the register MXCSR: denormals are zero as results, and as operands."""


_SIZES = (16, 32, 64)
"""Bytes of a result, of which each operation has a name of its own."""
_NAMES = {
    "madd": ("sse2.pmadd.wd", "avx2.pmadd.wd", "avx512.pmaddw.d.512"),
    "maddubs": ("ssse3.pmadd.ub.sw.128", "avx2.pmadd.ub.sw", "avx512.pmaddubs.w.512"),
    "round": ("sse2.cvtps2dq", "avx.cvt.ps2dq.256", "avx512.mask.cvtps2dq.512"),
    "packssdw": ("sse2.packssdw.128", "avx2.packssdw", "avx512.packssdw.512"),
    "packsswb": ("sse2.packsswb.128", "avx2.packsswb", "avx512.packsswb.512"),
    "packuswb": ("sse2.packuswb.128", "avx2.packuswb", "avx512.packuswb.512"),
    "permute": ("", "avx2.permps", "avx512.permvar.sf.512"),
    "shuffle": ("", "avx2.pshuf.b", "avx512.pshuf.b.512"),
    "dot": ("avx512.vpdpbusd.128", "avx512.vpdpbusd.256", "avx512.vpdpbusd.512"),
}


def operation(name: str, kind: Type, *values: Value) -> Value:
    """What an operation that x86 has for several sizes gives, a vector of this type."""
    found: Value = called(f"llvm.x86.{_NAMES[name][_SIZES.index(kind.size)]}", kind, *values)
    return found


class Sse2(Generic):
    def dot_halves(self, a: Value, w: Value) -> Value:
        return operation("madd", I32.vector(a.lanes // 2), a, w)

    def round_to_int(self, x: Value, within: bool = False) -> Value:
        # The instruction makes -2**31 of all that is no int32.
        kind = I32.like(x.type)
        return self._rounded(x if within else choose(x.type(GREATEST) < x, GREATEST, x), kind)

    def _rounded(self, x: Value, kind: Type) -> Value:
        return operation("round", kind, x)

    def pack(self, x: Value, y: Value, signed: bool = True) -> Value:
        kind = packed_type(x, signed)
        name = "packssdw" if kind.bits == 16 else "packsswb" if signed else "packuswb"
        return operation(name, kind, x, y)

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
