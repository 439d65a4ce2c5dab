"""attention: softmax(q x k) x v in blocks of queries and keys, without storing all scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..core.record import fields
from ..gemm.pick_dot import max_rows
from ..gemm.results import target
from ..gemm.tile import ahead_of, even_rows, f32_arithmetic, make_tile
from ..isa.tiers import Tier
from ..lang import F32, Value, div_rem, divide, either, outlined, over, pieces, share, smaller, traced
from .operands import head_of_keys, query_row, scratch_of
from .pack_keys_values import pack_keys, pack_values
from .pick_attention import NV
from .rows import ATTENTION
from .softmax import add_up, begin, clear, finish, look, rebase, weigh
from .visible_keys import at_key, bounds, seen, span


def make(tier: Tier) -> Callable[..., None]:
    """The kernel: keys and values of a head are packed once, then each block of queries goes through its keys."""
    attend, width = _attend(tier), NV * tier.lanes

    def attention(args: int, thread: int, threads: int) -> None:
        r = fields(args, ATTENTION)
        s = scratch_of(r, thread, width)
        blocks, groups = pieces(r.s, r.rows), divide(r.heads, r.share)
        packed = -1
        first, end = share(r.batch * r.heads * blocks, thread, threads)
        for unit in range(first, end):
            number, block = div_rem(unit, blocks)
            image, head = div_rem(number, r.heads)
            group = divide(head, r.share)
            if r.t > 0 and image * groups + group != packed:
                packed = image * groups + group
                keys, values = head_of_keys(r, image, group)
                pack_keys(s.keys, keys, r.k_row, r.t, r.d, r.scale)
                pack_values(s.values, values, r.v_row, r.t, r.e)
            attend(r, s, image, head, block * r.rows)

    return attention


def _attend(tier: Tier) -> Callable[..., None]:
    """attend(r, s, image, head, row): a block of queries, from `row` on, through the keys that any of them sees; s: the
    thread's Scratch.
    """
    multiply, width = _multiply(tier), NV * tier.lanes

    def score(r: Any, s: Any, q: Any, rows: int, key: int, n: int) -> None:
        """Products of rows of queries with n keys from `key` on, panel by panel."""
        for i in range(0, n, width):
            panel, c = s.keys + (key + i) * r.d * 4, s.scores + i * 4
            multiply(n - i, rows, q, r.q_row, r.d, panel, c, s.score_row)

    def sum_values(r: Any, s: Any, rows: int, key: int, n: int) -> None:
        """Products of rows of weights with n values from `key` on."""
        for i in range(0, r.e, width):
            panel, c = s.values + (i * r.t + key * width) * 4, s.sums + i * 4
            multiply(r.e - i, rows, s.scores, s.score_row, n, panel, c, s.sum_row)

    def attend(r: Any, s: Any, image: int, head: int, row: int) -> None:
        limit, place = bounds(r, image)
        rows = smaller(r.rows, r.s - row)
        place = place + row
        at = query_row(r, image, head, row)
        first, stop = span(r, limit, place, rows)
        begin(s.state, s.line)
        start = first - first % width
        if first >= stop:
            clear(s.sums, rows * s.sum_row)
            for i in range(rows):
                finish(r, at.y + i * r.y_row, s.sums + i * s.sum_row, s.total + 4 * i, s.factor + 4 * i, 1, 1)
            return
        key = start
        while key < stop:
            n = smaller(r.keys, stop - key)
            score(r, s, at.q, rows, key, n)
            for i in range(rows):
                left, right = seen(r, limit, place + i, key, n)
                mask = at_key(r, at.mask + i * r.mask_row, key)
                look(r, s.scores + i * s.score_row, mask, left, right, s.parts + i * s.score_row)
            rebase(r, s)
            for i in range(rows):
                left, right = seen(r, limit, place + i, key, n)
                scores, parts = s.scores + i * s.score_row, s.parts + i * s.score_row
                weigh(scores, left, right, n, s.base + 4 * i, parts)
            add_up(r, s)
            sum_values(r, s, rows, key, n)
            begun, ended = key == start, key + n == stop
            for i in range(rows):
                y, sums = at.y + i * r.y_row, s.sums + i * s.sum_row
                finish(r, y, sums, s.total + 4 * i, s.factor + 4 * i, begun, ended)
            key += n

    return attend


def _multiply(tier: Tier) -> Any:
    """multiply(columns, rows, a, lda, words, panel, c, ldc): a product with a panel, in tiles of as many of its vectors
    as columns begin; lda and ldc in bytes.
    """
    tiles = {nv: _tile(tier, nv) for nv in (1, NV)}

    @traced
    def multiply(
        columns: Value, rows: Value, a: Value, lda: Value, words: Value, panel: Value, c: Value, ldc: Value
    ) -> None:
        with either(columns > tier.lanes, likely=True) as (two, one):
            for way, nv in ((two, NV), (one, 1)):
                with way:
                    most = max_rows(tier, nv)
                    for i in over(0, rows, most):
                        height = smaller(most, rows - i)
                        outlined(
                            f"product{nv}", None, tiles[nv], height, a + i * lda, lda, words, panel, c + i * ldc, ldc
                        )

    return multiply


def _tile(tier: Tier, nv: int) -> Callable[..., None]:
    """A product in a tile of nv of a panel's vectors."""
    sums = f32_arithmetic(tier, nv, epilogue=False)
    sums = replace(sums, head=0, vectors=NV, start=lambda _: [F32.vector(tier.lanes)(0)] * nv)
    tile = make_tile(tier, sums, fetch="")

    def product(height: Value, a: Value, lda: Value, words: Value, panel: Value, c: Value, ldc: Value) -> None:
        into = target(c, ldc, nv * tier.lanes, image=0, row=0, column=0)
        tile(None, height, even_rows(a, lda, words), panel, ahead_of(0, 0, 0, 0), into)

    return product
