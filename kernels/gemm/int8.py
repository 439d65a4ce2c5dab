"""dot and conv of u8 activations with s8 weights: exact i32 sums, requantized as they are stored.

Words of four u8 are broadcast as the f32 kernels broadcast an f32; a lane multiplies and sums its four bytes
by vpdpbusd, or as two pairs of i16 (pmaddwd) on tiers without it, which is exact as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..isa.integer import dot_bytes, dot_halves, split_bytes
from ..isa.tiers import Tier
from ..isa.vector import I32, I64, Vector
from ..lang.both import both
from .conv import conv_kernel
from .dot import dot_kernel
from .pack_int8 import HEAD_LINES, sums_per_row, vectors_per_word
from .pick_int8 import COSTS
from .requantize import scaled, store_bytes, word
from .results import Place
from .rows import CONV_INT8, DOT_INT8, STORES
from .tile import Arithmetic


def make_dot_int8(tier: Tier, nv: int, out: str, rowsum: bool) -> Callable[..., None]:
    """The kernel for panels of nv vectors; its record is `rows.DOT_INT8`."""
    most = COSTS[rowsum].most_rows(tier, nv)
    return dot_kernel(tier, nv, most, int8_arithmetic(tier, nv, out, rowsum), DOT_INT8)


def make_conv_int8(tier: Tier, nv: int, out: str, rowsum: bool) -> Callable[..., None]:
    """The kernel for panels of nv vectors; its record is `rows.CONV_INT8`."""
    most = COSTS[rowsum].most_rows(tier, nv)
    return conv_kernel(tier, nv, most, int8_arithmetic(tier, nv, out, rowsum), CONV_INT8)


@both
def add_products(v: Vector, x: Any, weights: list[Any], sums: list[Any]) -> list[Any]:
    """The sums of a row with the products of a word of A, in each lane of x, and its weights."""
    if v.tier.vnni:
        return [dot_bytes(v, s, x, w) for s, w in zip(sums, weights, strict=True)]
    for half, offset in zip(split_bytes(v, x), (0, len(sums)), strict=True):
        products = [dot_halves(v, half, w) for w in weights[offset : offset + len(sums)]]
        sums = [v.b.add(s, p) for s, p in zip(sums, products, strict=True)]
    return sums


def int8_arithmetic(tier: Tier, nv: int, out: str, rowsum: bool) -> Arithmetic:
    """Sums of u8 * s8 in i32 over panels that pack_int8.py packs; out: one of rows.STORES.

    The record has the slots of rows.STORED. rowsum: the weights' zero point times a row's sum is added.
    """
    count, line = sums_per_row(nv, rowsum), tier.lanes * 4
    vectors = vectors_per_word(tier, nv, rowsum)

    def at(v: Vector, start: Any, index: int) -> Any:
        return v.b.bitcast(v.b.gep(start, [I64(index * line)]), v.itype.as_pointer())

    def ints(v: Vector, start: Any, n: int) -> list[Any]:
        return [v.b.load(at(v, start, i), align=4) for i in range(n)]

    def start(v: Vector, panel: Any) -> list[Any]:
        return ints(v, panel, nv) + [v.iconst(0)] * rowsum

    def load(v: Vector, panel: Any) -> list[Any]:
        return ints(v, panel, vectors)

    def multiply(v: Vector, place: Any, weights: list[Any], sums: list[Any]) -> list[Any]:
        word = v.b.load(v.b.bitcast(place, I32.as_pointer()), align=1)
        return add_products(v, v.splat(word), weights, sums)

    def finish(v: Vector, place: Place, sums: list[Any]) -> list[Any] | None:
        rows = [sums[r * count : (r + 1) * count] for r in range(place.rows)]
        if rowsum:
            minus = [v.b.load(at(v, place.panel, 2 * nv + n), align=4) for n in range(nv)]
            rows = [[v.b.add(s, v.b.mul(row[-1], m)) for s, m in zip(row, minus, strict=False)] for row in rows]
        reals = [[scaled(v, s, at(v, place.panel, nv + n)) for n, s in enumerate(row)] for row in rows]
        if out == "bytes":
            store_bytes(v, place, nv, reals, place.record)
            return None
        pairs = [pair for one in zip(rows, reals, strict=True) for pair in zip(*one, strict=False)]
        return [word(v, total, real, place.record) for total, real in pairs]

    head = HEAD_LINES[rowsum] * nv * line
    return Arithmetic(head, vectors, count, 1, STORES[out], start, load, multiply, finish)
