"""Tiers that this CPU lacks, computed with AVX2: `PYTHONPATH=.:tests/emulated pytest tests/kernels`, or any script.

To LLVM, vectors of 512 bits are two of 256; the few instructions that kernels ask for by name are written here by
others. So kernels of AVX-512 and VNNI are compiled from the same sources and give the same bits, slowly. Those of AMX
run where tests.amx_trap is used; with EMULATE_TILES=1 they are this CPU's widest tier in tests, with EMULATE_TILES=fp16
with products of float16. Objects have a cache of their own.
"""

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("FASTGRAPH_CACHE_DIR", os.path.expanduser("~/.cache/fastgraph-emulated"))

from fastgraph.kernels import lang
from fastgraph.kernels.isa import tiers, x86_amx, x86_avx2, x86_avx512
from fastgraph.kernels.isa.functions import floor
from fastgraph.kernels.lang import (
    BF16,
    F32,
    I32,
    U16,
    U32,
    Type,
    Value,
    choose,
    fma,
    hints,
    is_nan,
    larger,
    memory,
    shuffle,
    smaller,
)


def in_halves(operation: Callable[..., Value]) -> Callable[..., Value]:
    """An instruction that stays within 128 bits, as two for vectors of 512."""

    def both(self: Any, *operands: Any, **more: Any) -> Value:
        if operands[0].type.size < 64:
            return operation(self, *operands, **more)
        halves = []
        for half in (0, 1):
            parts = [
                shuffle(x, range(half * x.lanes // 2, (half + 1) * x.lanes // 2)) if isinstance(x, Value) else x
                for x in operands
            ]
            halves.append(operation(self, *parts, **more))
        low, high = halves
        return shuffle(low, range(2 * low.lanes), high)

    return both


@in_halves
def rounded(self: Any, x: Value, kind: Type) -> Value:
    return x86_avx2.Avx2._rounded(self, x, I32.like(x.type))


def permute_lanes(self: Any, x: Value, index: Value) -> Value:
    """vpermps of 512 bits: both halves are asked for, and bit 3 chooses."""
    if x.type.size < 64:
        return x86_avx2.Avx2.permute_lanes(self, x, index)
    low, high = (shuffle(x, range(first, first + 8)) for first in (0, 8))
    found = []
    for first in (0, 8):
        part = shuffle(index, range(first, first + 8))
        each = [x86_avx2.Avx2.permute_lanes(self, half, part) for half in (low, high)]
        found.append(choose(part & 8 != 0, each[1], each[0]))
    return shuffle(found[0], range(16), found[1])


def permute_halves(self: Any, x: Value, index: Value) -> Value:
    """vpermw, by lanes of 32 bits: of each that an index names, the half that its bit 0 says."""
    words, pairs = x.bits(F32), index.bits(U32)
    found = []
    for each in (pairs & 31, pairs >> 16 & 31):
        lane = permute_lanes(self, words, (each >> 1).bits(I32)).bits(U32)
        found.append(choose((each & 1) != 0, lane >> 16, lane & 0xFFFF))
    return (found[0] | found[1] << 16).bits(x.type.number)


def masked_as_words(called: Callable[..., Value]) -> Callable[..., Value]:
    """Masked loads and stores of bf16 as those of integers: LLVM rounds the floats of absent lanes by a library."""

    def call(name: str, kind: Type | None, *operands: Any) -> Value:
        if not name.startswith("llvm.masked.") or "bf16" not in name:
            return called(name, kind, *operands)
        words = [x.bits(U16) if isinstance(x, Value) and x.type.number is BF16 else x for x in operands]
        found = called(name.replace("bf16", "i16"), kind and U16.like(kind), *words)
        return found.bits(BF16) if kind else found

    return call


def dot_bytes(self: Any, sums: Value, a: Value, w: Value) -> Value:
    for first in range(4):
        part = range(first, a.lanes, 4)
        sums = sums + shuffle(a, part).to(I32) * shuffle(w, part).to(I32)
    return sums


def to_bf16(self: Any, low: Value, high: Value) -> Value:
    """VCVTNE2PS2BF16."""
    return shuffle(near_bf16(low).bits(U16), range(2 * low.lanes), near_bf16(high).bits(U16))


def near_bf16(x: Value) -> Value:
    """VCVTNEPS2BF16: half to even, NaN quieted, denormals 0."""
    bits = x.bits(U32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    rounded = choose((bits & 0x7F800000) == 0, bits >> 16 & 0x8000, rounded)
    return choose(is_nan(x), bits >> 16 | 0x40, rounded).to(U16).bits(BF16)


def converted(to: Callable[[Value, Type], Value]) -> Callable[[Value, Type], Value]:
    """Value.to, with the rounding to bf16 that is a function of a library to LLVM, for want of an instruction."""
    return lambda x, number: near_bf16(x) if x.type.number is F32 and number.number is BF16 else to(x, number)


def dot_pairs(self: Any, sums: Value, a: Value, w: Value) -> Value:
    """VDPBF16PS: the odd numbers first."""
    for high in (True, False):
        x, y = ((v & 0xFFFF0000 if high else v << 16).bits(F32) for v in (a.bits(U32), w.bits(U32)))
        sums = fma(x, y, sums)
    return sums


def power_of_two(self: Any, x: Value, mantissas: Callable[[Value], Value]) -> Value:
    """By VREDUCEPS and VSCALEFPS."""
    near = smaller(larger(x, -250.0), 250.0)
    whole = floor(near)
    power = whole.to(I32)
    found = mantissas(near - whole)
    for part in (power >> 1, power - (power >> 1)):
        found = found * (part + 127 << 23).bits(F32)
    return choose(is_nan(x), x, found)


def emulate() -> None:
    """Let this process, and those that it starts, believe in AVX-512 and AVX-VNNI."""
    os.environ["TIERS_ARE_EMULATED"] = "1"
    linux_flags, features = tiers._linux_flags, tiers.Tier.features.fget
    here = {*tiers._AVX2, "amx-tile", "amx-int8", "amx-bf16", "amx-fp16"}
    tiers._linux_flags = lambda: linux_flags() | {*tiers._VNNI, *tiers.BF16, "avxvnni"}
    if "EMULATE_TILES" in os.environ:
        reals = tiers.F16 if os.environ["EMULATE_TILES"] == "fp16" else tiers.BF16
        tiers._linux_flags = lambda: linux_flags() | {*tiers._AMX, *reals, "avxvnni"}
        tiers.permitted = lambda: True
    tiers.cpu_flags.cache_clear()
    tiers.Tier.features = property(
        lambda tier: features(tier._replace(lanes=8, needs=tuple(flag for flag in tier.needs if flag in here)))
    )
    Value.to = converted(Value.to)
    memory.called = masked_as_words(memory.called)
    place = tiers.Tier._fields.index("cpu")
    tiers.Tier.cpu = property(lambda tier: tuple.__getitem__(tier, place).replace("v4", "v3"))
    for name in ("dot_halves", "pair_sums", "pack", "shuffle_bytes"):
        setattr(x86_avx512.Avx512, name, in_halves(getattr(x86_avx2.Avx2, name)))
    x86_avx512.Avx512._rounded = rounded
    hints.kept = lambda mask: mask  # of registers that there are none of
    hints.settle = lang.settle = lambda registers, numbers: None
    x86_avx512.Avx512.to_bf16, x86_avx512.Avx512.dot_pairs = to_bf16, dot_pairs
    x86_avx512.Avx512.power_of_two = power_of_two
    x86_avx512.Avx512.permute_lanes, x86_avx512.Avx512.gathered = permute_lanes, x86_avx2.Avx2.gathered
    x86_amx.Amx.permute_halves = permute_halves
    x86_avx512.Avx512.approximate_reciprocal = lambda self, x: 1.0 / x
    x86_avx512.Avx512Vnni.dot_bytes = x86_avx2.AvxVnni.dot_bytes = dot_bytes


if "avx2" in tiers.cpu_flags() and "avx512vnni" not in tiers.cpu_flags():
    emulate()
