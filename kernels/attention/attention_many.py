"""attention: softmax(q x k) x v in blocks of queries and keys, without storing all scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..core.record import fields
from ..gemm.results import target
from ..gemm.tile import ahead_of, even_rows, f32_arithmetic, make_tile
from ..isa.tiers import Tier
from ..lang import F32, Value, div_rem, divide, outlined, over, pieces, share, smaller, traced
from .pack_keys_values import pack_keys, pack_values
from .pick_attention import NV
from .rows import ATTENTION
from .softmax import begin, clear, finish, lines_of, look, rebase, weigh
from .visible_keys import Numbers, at_key, bounds, seen, span


def make(tier: Tier) -> Callable[..., None]:
    """The kernel: keys and values of a head are packed once, then each block of queries goes through its keys."""
    attend = _attend(tier)
    width, lanes = NV * tier.lanes, tier.lanes

    def attention(args: int, thread: int, threads: int) -> None:
        r = fields(args, ATTENTION)
        scratch = r.scratch + thread * r.scratch_bytes
        values, scores = scratch + r.values_at, scratch + r.scores_at
        sums, state = scratch + r.sums_at, scratch + r.state_at
        room = scratch, values, scores, sums, state
        blocks, groups = pieces(r.s, r.rows), divide(r.heads, r.share)
        steps = (r.keys + lanes) * 4, pieces(r.e, width) * width * 4
        lines = lines_of(r, state, lanes)
        packed = -1
        first, end = share(r.batch * r.heads * blocks, thread, threads)
        for unit in range(first, end):
            number, block = div_rem(unit, blocks)
            image, head = div_rem(number, r.heads)
            group = divide(head, r.share)
            if r.t > 0 and image * groups + group != packed:
                packed = image * groups + group
                pack_keys(scratch, r.k + image * r.k_image + group * r.k_head, r.k_row, r.t, r.d, r.scale)
                pack_values(values, r.v + image * r.v_image + group * r.v_head, r.v_row, r.t, r.e)
            attend(r, room, steps, lines, (image, head, block))

    return attention


def _attend(tier: Tier) -> Callable[..., None]:
    """attend(r, room, steps, lines, where): a block of queries.

    room: addresses of packed keys, values, scores, sums and state; steps: bytes from row to row of scores and of sums;
    lines: `lines_of` the state; where: image, head and block.
    """
    multiply, width = _multiply(tier), NV * tier.lanes

    def attend(r: Any, room: Numbers, steps: Numbers, lines: Numbers, where: Numbers) -> None:
        keys, values, scores, sums, state = room
        line, out = steps
        each, base, total, factor = lines
        image, head, block = where
        limit, place = bounds(r, image)
        row = block * r.rows
        rows = smaller(r.rows, r.s - row)
        place = place + row
        q = r.q + image * r.q_image + head * r.q_head + row * r.q_row
        y = r.y + image * r.y_image + head * r.y_head + row * r.y_row
        mask = r.mask + image * r.mask_image + head * r.mask_head + row * r.mask_row
        near, stop = span(r, limit, place, rows)
        begin(state, each)
        key = near - near % width
        starts = key
        if near >= stop:
            clear(sums, rows * out)
            for i in range(rows):
                finish(r, y + i * r.y_row, sums + i * out, total + 4 * i, factor + 4 * i, 1, 1)
            return
        while key < stop:
            n = smaller(r.keys, stop - key)
            for p in range(pieces(n, width)):
                panel = keys + (key + p * width) * r.d * 4
                multiply(rows, q, r.q_row, r.d, panel, scores + p * width * 4, line)
            for i in range(rows):
                left, right = seen(r, limit, place + i, key, n)
                there = at_key(r, mask + i * r.mask_row, key)
                look(r, scores + i * line, there, left, right, base + 4 * i)
            rebase(state, each)
            for i in range(rows):
                left, right = seen(r, limit, place + i, key, n)
                weigh(scores + i * line, left, right, n, base + 4 * i, total + 4 * i)
            for p in range(pieces(r.e, width)):
                panel = values + (p * r.t + key) * width * 4
                multiply(rows, scores, line, n, panel, sums + p * width * 4, out)
            begun, ended = key == starts, key + n == stop
            for i in range(rows):
                finish(r, y + i * r.y_row, sums + i * out, total + 4 * i, factor + 4 * i, begun, ended)
            key += n

    return attend


def _multiply(tier: Tier) -> Any:
    """multiply(rows, a, lda, words, panel, c, ldc): a product in tiles of whole vectors; lda and ldc in bytes."""
    sums = f32_arithmetic(tier, NV, epilogue=False)
    sums = replace(sums, head=0, start=lambda _: [F32.vector(tier.lanes)(0)] * NV)
    tile = make_tile(tier, sums, fetch="")

    def product(height: Value, a: Value, lda: Value, words: Value, panel: Value, c: Value, ldc: Value) -> None:
        into = target(c, ldc, NV * tier.lanes, image=0, row=0, column=0)
        tile(None, height, even_rows(a, lda, words), panel, ahead_of(0, 0, 0, 0), into)

    @traced
    def multiply(rows: Value, a: Value, lda: Value, words: Value, panel: Value, c: Value, ldc: Value) -> None:
        for i in over(0, rows, sums.rows):
            height = smaller(sums.rows, rows - i)
            outlined("multiply", None, product, height, a + i * lda, lda, words, panel, c + i * ldc, ldc)

    return multiply
