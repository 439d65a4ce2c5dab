"""dot: C = A x B + bias, B packed in panels; fully connected, 1x1 convolution and matrix product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import Record, fields
from ..isa.tiers import Tier
from ..lang import divide, smaller
from .band import deal
from .int8_arithmetic import int8_arithmetic
from .pick_int8 import Sums
from .results import target, walk_later
from .rows import DOT_BF16, DOT_F32, DOT_INT8, ITEM
from .tile import Arithmetic, ahead_of, bf16_arithmetic, even_rows, f32_arithmetic, is_wide, make_tile, pace_of

FAR_ROWS, APART = 1 << 18, 2
"""Bytes of rows for each panel that they are multiplied by, from which on those of the next tile are prefetched; unless
they are more than so many times their length apart, as what is prefetched is all memory from the first on. Measured on
Granite Rapids, of 600 shapes by themselves: 256 to 512 KiB take 0.91 of the time, more 0.79; 96 to 256 0.94, but in
bands, whose rows were made right before, 1.00 to 1.03. Rows four lengths apart took 1.01 to 1.14."""


def make_dot(tier: Tier, nv: int, half: bool = False) -> Callable[..., None]:
    """The kernel for panels of nv vectors, or for one whose last vector is half; its record is `rows.DOT_F32`."""
    return dot_kernel(tier, f32_arithmetic(tier, nv, half=half), DOT_F32)


def make_dot_bf16(tier: Tier, nv: int, element: str, out: str) -> Callable[..., None]:
    """The kernel for panels of nv vectors; element, out: of A and C, f32 or bf16. Its record is `rows.DOT_BF16`."""
    return dot_kernel(tier, arithmetic_of(tier, nv, element, out), DOT_BF16)


def make_dot_int8(tier: Tier, nv: int, half: bool = False, **sums: Any) -> Callable[..., None]:
    """As `make_dot`, of u8 and s8 weights; sums: of Sums. Its record is `rows.DOT_INT8`."""
    return dot_kernel(tier, int8_arithmetic(tier, nv, Sums(**sums), half=half), DOT_INT8)


def arithmetic_of(tier: Tier, nv: int, element: str, out: str) -> Arithmetic:
    """Products of operands of an element type, and results of another: f32 or bf16."""
    if element == "bf16":
        return bf16_arithmetic(tier, nv, ITEM[out])
    return f32_arithmetic(tier, nv, out_item=ITEM[out])


def dot_kernel(tier: Tier, arithmetic: Arithmetic, record: Record) -> Callable[..., None]:
    """The loops of a dot kernel around tiles; its record begins with `rows.DOT`."""
    multiply_block, fetches_rows = _block(tier, arithmetic), _fetches_rows(tier, arithmetic)
    width, head, word = arithmetic.nv * tier.lanes, arithmetic.head, arithmetic.vectors * tier.lanes * 4
    item, out_item, epilogue = arithmetic.item, arithmetic.out_item, arithmetic.epilogue

    def dot(args: int, thread: int, threads: int) -> None:
        r = fields(args, record)
        tiles = divide(r.m + r.height - 1, r.height)
        panels = (r.n + width - 1) // width
        step = head + r.k * word
        last = step + r.k * word
        dense = fetches_rows and r.lda * item <= APART * r.k * 4
        p0, p1, unit, end = deal(r, panels, r.batch * tiles, thread, threads)
        while unit < end:
            # Divisions wait for one another: small layers do without.
            i = unit // tiles if r.batch > 1 else 0
            t0 = unit - i * tiles
            t1 = smaller(end - i * tiles, tiles)
            first, stop = t0 * r.height, smaller(t1 * r.height, r.m)
            while first < stop:
                until = smaller(first + r.block * r.height, stop)
                multiply_block(r, i, (first, until), (p0, p1), (step, last), dense)
                if epilogue:
                    column = r.n0 + p0 * width
                    c = r.c + (i * r.c_stride + first * r.ldc + column) * out_item
                    columns = smaller(r.n, p1 * width) - p0 * width
                    walk_later(r, (i, first, column, until - first, columns), (c, r.ldc * out_item))
                first = until
            unit += t1 - t0

    return dot


def _fetches_rows(tier: Tier, arithmetic: Arithmetic) -> bool:
    return tier.registers >= 32 and arithmetic.item == 4


def _block(tier: Tier, arithmetic: Arithmetic) -> Callable[..., None]:
    """multiply_block(r, i, (first, until), (p0, p1), (step, last), dense): rows first..until of matrix i of the batch
    times panels p0..p1, panel by panel, tile below tile. step: bytes from panel to panel; last: those behind a panel
    from which on nothing of the next one is left to fetch; dense: whether the next rows may be fetched.
    """
    fetches_rows, wide = _fetches_rows(tier, arithmetic), is_wide(tier, arithmetic)
    tile = make_tile(tier, arithmetic, fetch="rows" if fetches_rows else "panel")
    width = arithmetic.nv * tier.lanes
    word = arithmetic.vectors * tier.lanes * 4
    item, out_item = arithmetic.item, arithmetic.out_item

    def multiply_block(r: Any, i: int, block: Any, panels: Any, ends: Any, dense: Any) -> None:
        (first, until), (p0, p1), (step, last) = block, panels, ends
        pace = pace_of(divide(until - first + r.height - 1, r.height), word)
        # The next tile's rows come while those of this one are read: a panel reads each of their lines once.
        far = fetches_rows and dense and (until - first) * r.k * 4 >= FAR_ROWS * (p1 - p0)
        rows_pace = divide(r.height * r.lda * item + r.k - 1, r.k) if far else 0
        for p in range(p0, p1):
            column = r.n0 + p * width
            # A single tile waits for its own panel, which prefetching the next one would delay.
            ahead = step if until - first > r.height else 0
            row = first
            while row < until:
                height = smaller(r.height, until - row)
                rows = even_rows(r.a + (i * r.a_stride + row * r.lda) * item, r.lda * item, r.k)
                panel = r.b + i * r.b_stride * 4 + p * step
                c = r.c + (i * r.c_stride + row * r.ldc + column) * out_item
                into = target(c, r.ldc * out_item, r.n - p * width, image=i, row=row, column=column)
                after = row + height if row + height < until else first
                fetched = far and (wide or p + 1 == p1)
                following = r.a + (i * r.a_stride + after * r.lda) * item if fetched else 0
                tile(r, height, rows, panel, ahead_of(ahead, pace, following, rows_pace), into)
                ahead = ahead + r.k * pace if 0 < ahead < last else 0
                row += height

    return multiply_block
