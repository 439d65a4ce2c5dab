"""AVX2 with FMA: 16 registers of 256 bits. AVX-VNNI adds the product of bytes."""

from __future__ import annotations

from ..lang import F32, I8, I16, I32, U8, Value, called
from .x86_sse2 import Sse2, operation


class Avx2(Sse2):
    def pair_sums(self, a: Value, w: Value) -> Value:
        return operation("maddubs", I16.vector(a.lanes // 2), a, w)

    def shuffle_bytes(self, table: Value, index: Value) -> Value:
        return operation("shuffle", table.type, table, index)

    def gathered(self, address: Value, offsets: Value) -> Value:
        kind, a_byte = offsets.type, I8(1)
        if kind.lanes != 8:
            return super().gathered(address, offsets)
        return called("llvm.x86.avx2.gather.d.d.256", kind, kind(0), I8.at(address), offsets, kind(-1), a_byte)

    def permute(self, pixel: Value, index: Value) -> Value:
        if pixel.type.target is F32:
            return self.permute_lanes(F32.like(index.type)[pixel], index)
        words = U8.like(index.type)[pixel].to(I32)
        return self.permute_lanes(words.bits(F32), index).bits(I32)

    def permute_lanes(self, x: Value, index: Value) -> Value:
        """The lanes of x (f32) that the low bits of `index` (int32) name."""
        return operation("permute", x.type, x, index)


class AvxVnni(Avx2):
    def dot_bytes(self, sums: Value, a: Value, w: Value) -> Value:
        return operation("dot", sums.type, sums, a, w)
