"""AMX: eight tile registers of up to 16 rows of up to 64 bytes each, as their configuration says, beside AVX-512.

Tiles are numbered when a kernel is written, and nothing saves them: configure, use and release them within one kernel.
Addresses and strides are int64, in bytes.
"""

from __future__ import annotations

from typing import Any

from ..lang import I8, Value, called, number
from .x86_avx512 import Avx512Vnni

TILE = 1024
"""Bytes of a whole tile."""


class Amx(Avx512Vnni):
    def configure(self, address: Any) -> None:
        """Give the tiles the shapes at `address` (pack_amx.configuration); they are zero after it."""
        called("llvm.x86.ldtilecfg", None, I8.at(address))

    def release(self) -> None:
        """Release the tiles, so that the system need not save them for this thread."""
        called("llvm.x86.tilerelease", None)

    def clear(self, tile: int) -> None:
        """Make a tile zero."""
        called("llvm.x86.tilezero", None, I8(tile))

    def load(self, tile: int, address: Value, stride: Any) -> None:
        """Load a tile's rows from memory, `stride` bytes apart (0: all the same)."""
        called("llvm.x86.tileloadd64", None, I8(tile), I8.at(address), number(stride))

    def store(self, tile: int, address: Value, stride: Any) -> None:
        """Store a tile's rows to memory."""
        called("llvm.x86.tilestored64", None, I8(tile), I8.at(address), number(stride))

    def multiply(self, c: int, a: int, b: int) -> None:
        """c[m, n] += sum over k and j < 4 of a[m, 4 k + j] (u8) * b[k, 4 n + j] (s8), c in wrapping i32."""
        called("llvm.x86.tdpbusd", None, I8(c), I8(a), I8(b))

    def multiply_reals(self, c: int, a: int, b: int, element: str = "bf16") -> None:
        """c[m, n] += sum over k and j < 2 of a[m, 2 k + j] * b[k, 2 n + j], bf16 or f16, c in f32.

        For each j a chain of fused multiply-adds from 0 over k; their sum is added to c. Denormals are 0 everywhere,
        but for those of f16. For kernels that need tiers.BF16, or F16.
        """
        called({"bf16": "llvm.x86.tdpbf16ps", "f16": "llvm.x86.tdpfp16ps"}[element], None, I8(c), I8(a), I8(b))

    def permute_halves(self, x: Value, index: Value) -> Value:
        """The 16-bit lanes of x that the low five bits of those of `index` name."""
        return called("llvm.x86.avx512.permvar.hi.512", x.type, x, index)  # type: ignore[no-any-return]
