"""AVX-512 (F, BW, CD, DQ, VL): 32 registers of 512 bits, masks. AVX512-VNNI adds the product of bytes."""

from __future__ import annotations

from typing import Any

from ..lang import BF16, BIT, I8, I32, U16, Type, Value, called, integer
from .x86_avx2 import Avx2, AvxVnni
from .x86_sse2 import operation


class Avx512(Avx2):
    def _rounded(self, x: Value, kind: Type) -> Value:
        if kind.lanes < 16:
            return super()._rounded(x, kind)
        everywhere, as_the_mode_says = integer(16)(-1), I32(4)
        return operation("round", kind, x, kind(0), everywhere, as_the_mode_says)

    def approximate_reciprocal(self, x: Value) -> Value:
        """1 / x of 16 f32, within 2**-14 of it."""
        return called("llvm.x86.avx512.rcp14.ps.512", x.type, x, x.type(0), integer(16)(-1))

    def power_of_two(self, x: Value, mantissas: Any) -> Value:
        """2 ** x of f32, 0 at -inf and NaN for NaN; mantissas(f): 2 ** f of 0 <= f < 1."""
        everywhere, as_the_mode_says, down = integer(16)(-1), I32(4), I32(1)
        part = called("llvm.x86.avx512.mask.reduce.ps.512", x.type, x, down, x, everywhere, as_the_mode_says)
        m = mantissas(part)
        return called("llvm.x86.avx512.mask.scalef.ps.512", x.type, m, x, m, everywhere, as_the_mode_says)

    def gathered(self, address: Value, offsets: Value) -> Value:
        kind, everywhere, a_byte = offsets.type, BIT.vector(16)(1), I32(1)
        if kind.lanes < 16:
            return super().gathered(address, offsets)
        return called("llvm.x86.avx512.mask.gather.dpi.512", kind, kind(0), I8.at(address), offsets, everywhere, a_byte)

    def permute_bytes(self, low: Value, index: Value, high: Value) -> Value:
        """The bytes of two vectors that the low seven bits of an index name; kernels that `need` avx512vbmi have it."""
        return called("llvm.x86.avx512.vpermi2var.qi.512", low.type, low, index, high)

    def to_bf16(self, low: Value, high: Value) -> Value:
        """Two vectors of f32 as one of bf16 (U16), rounded to nearest even; for kernels that need tiers.PAIRS."""
        kind = BF16.vector(2 * low.lanes)
        rounded: Value = called("llvm.x86.avx512bf16.cvtne2ps2bf16.512", kind, high, low)
        return rounded.bits(U16)

    def dot_pairs(self, sums: Value, a: Value, w: Value) -> Value:
        """fma(a[2 i], w[2 i], fma(a[2 i + 1], w[2 i + 1], sums[i])) of f32 and of pairs of bf16 in words (I32); all
        denormals are 0. Only w is read from memory where it is multiplied. For kernels that need tiers.PAIRS.
        """
        name = "llvm.x86.avx512bf16.dpbf16ps.512"
        return called(name, sums.type, sums, a.bits(BF16), w.bits(BF16))


class Avx512Vnni(Avx512):
    dot_bytes = AvxVnni.dot_bytes
