"""AVX2 with FMA: 16 registers of 256 bits. AVX-VNNI adds the product of bytes."""

from __future__ import annotations

from ..lang import F32, I16, I32, U8, Value, called
from .generic import bits_of
from .x86_sse2 import Sse2


class Avx2(Sse2):
    names = Sse2.names | {
        ("madd", 256): "avx2.pmadd.wd",
        ("round", 256): "avx.cvt.ps2dq.256",
        ("maddubs", 128): "ssse3.pmadd.ub.sw.128",
        ("maddubs", 256): "avx2.pmadd.ub.sw",
        ("packssdw", 256): "avx2.packssdw",
        ("packsswb", 256): "avx2.packsswb",
        ("packuswb", 256): "avx2.packuswb",
        ("permute", 256): "avx2.permps",
        ("shuffle", 256): "avx2.pshuf.b",
    }

    def dot_small(self, a: Value, w: Value) -> Value:
        kind = I16.vector(a.lanes // 2)
        return self.dot_halves(called(self._name("maddubs", bits_of(kind)), kind, a, w), kind(1))

    def shuffle_bytes(self, table: Value, index: Value) -> Value:
        return called(self._name("shuffle", bits_of(table.type)), table.type, table, index)

    def permute(self, pixel: Value, index: Value) -> Value:
        if pixel.type.target is F32:
            return self.permute_lanes(F32.like(index.type)[pixel], index)
        words = U8.like(index.type)[pixel].to(I32)
        return self.permute_lanes(words.bits(F32), index).bits(I32)

    def permute_lanes(self, x: Value, index: Value) -> Value:
        """The lanes of x (f32) that the low bits of `index` (int32) name."""
        return called(self._name("permute", bits_of(x.type)), x.type, x, index)


class AvxVnni(Avx2):
    names = Avx2.names | {("dot", 128): "avx512.vpdpbusd.128", ("dot", 256): "avx512.vpdpbusd.256"}

    def dot_bytes(self, sums: Value, a: Value, w: Value) -> Value:
        return called(self._name("dot", bits_of(sums.type)), sums.type, sums, a, w)
