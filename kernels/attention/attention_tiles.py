"""attention_tiles: attention by products of bf16 in AMX tiles; scores, their softmax and sums of values are f32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..amx.pack_amx import numbering
from ..amx.tile_block import make_registers
from ..core.record import reader
from ..isa.tiers import BF16, Tier
from ..lang import Value, choose, div_rem, divide, either, larger, over, pieces, share, smaller, traced
from .pack_pairs import make_pack_keys, make_pack_queries, make_pack_values
from .pick_attention import LINE, PANEL, TILE
from .rows import ATTENTION_TILES
from .softmax import line_of, make_begin, make_clear
from .softmax_pairs import make_add_up, make_finish, make_look, make_rebase, make_rescale, make_weigh
from .visible_keys import bounds, seen


def make(tier: Tier) -> Callable[..., None]:
    """The kernel: keys and values of a head are packed once, then each block of queries goes through its keys."""
    fields, (configure, release) = reader(ATTENTION_TILES), make_registers(tier)
    pack_queries, pack_keys, pack_values = make_pack_queries(tier), make_pack_keys(tier), make_pack_values(tier)
    begin, look, rebase, weigh = make_begin(tier), make_look(tier), make_rebase(tier), make_weigh(tier)
    add_up, rescale, finish, clear = make_add_up(tier), make_rescale(tier), make_finish(tier), make_clear(tier)
    multiply, multiply_more, lanes = _multiply(tier), _multiply(tier, adds=True), tier.lanes
    BASE, TOTAL, FACTOR = map(line_of, ("base", "total", "factor"))

    def attention(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        scratch = r.scratch + thread * r.scratch_bytes
        values, queries, scores = scratch + r.values_at, scratch + r.queries_at, scratch + r.scores_at
        sums, parts, state = scratch + r.sums_at, scratch + r.parts_at, scratch + r.state_at
        blocks, groups = pieces(r.s, r.rows), divide(r.heads, r.share)
        lines, depth = pieces(r.d, PANEL), pieces(r.t, PANEL)
        line, out = (r.keys + lanes) * 4, pieces(r.e, PANEL) * (PANEL * 4)
        each = pieces(r.rows, lanes) * lanes * 4
        base, total, factor = state + BASE * each, state + TOTAL * each, state + FACTOR * each
        flip = choose(r.scale & 0x80000000 != 0, 0x8000, 0)
        packed = -1
        configure(r.config)
        first, end = share(r.batch * r.heads * blocks, thread, threads)
        for unit in range(first, end):
            number, block = div_rem(unit, blocks)
            image, head = div_rem(number, r.heads)
            group = divide(head, r.share)
            limit, place = bounds(r, image)
            if limit > 0 and image * groups + group != packed:
                packed = image * groups + group
                k, v = r.k + image * r.k_image + group * r.k_head, r.v + image * r.v_image + group * r.v_head
                pack_keys(scratch, k, r.k_item, r.k_row, limit, r.d)
                pack_values(values, v, r.v_item, r.v_row, limit, depth, r.e)
            row = block * r.rows
            rows = smaller(r.rows, r.s - row)
            place = place + row
            y = r.y + image * r.y_image + head * r.y_head + row * r.y_row
            mask = r.mask + image * r.mask_image + head * r.mask_head + row * r.mask_row
            near = larger(0, place + r.low)
            stop = smaller(limit, place + rows - 1 + r.high)
            begin(state, each)
            clear(sums, rows * out)
            starts = near - near % PANEL
            key = starts
            if near >= stop:
                stop = key
            else:
                q = r.q + image * r.q_image + head * r.q_head + row * r.q_row
                pack_queries(queries, q, r.q_item, r.q_row, rows, r.d, flip)
            while key < stop:
                n = smaller(r.keys, stop - key)
                panels = pieces(n, PANEL)
                for p in range(panels):
                    panel = scratch + (key + p * PANEL) * (lines * LINE)
                    multiply(r, rows, queries, lines * LINE, panel, lines, scores + p * (PANEL * 4), line)
                for i in range(rows):
                    left, right = seen(r, limit, place + i, key, n)
                    there = mask + i * r.mask_row + (4 * key if r.kind == 1 else key)
                    look(r, scores + i * line, there, left, right, parts + i * LINE)
                rebase(r, state, each, parts)
                for i in range(rows):
                    left, right = seen(r, limit, place + i, key, n)
                    weigh(r, scores + i * line, left, right, n, base + 4 * i, parts + i * LINE)
                    if key != starts:
                        rescale(sums + i * out, out, factor + 4 * i)
                add_up(state, each, parts)
                for column in range(0, r.e, PANEL):
                    panel = values + (column * depth + key) * LINE
                    multiply_more(r, rows, scores, line, panel, panels, sums + column * 4, out)
                key += n
            for i in range(rows):
                finish(r, y + i * r.y_row, sums + i * out, total + 4 * i)
        release()

    attention.needs = BF16  # type: ignore[attr-defined]
    return attention


def _multiply(tier: Tier, adds: bool = False) -> Any:
    """multiply(record, rows, a, lda, panel, lines, c, ldc): c is rows of a times a panel of 32 columns; lda and ldc in
    bytes. adds: that is added to c.
    """
    a_tiles, b_tiles = numbering(2, 2)

    @traced
    def multiply(r: Any, rows: Value, a: Value, lda: Value, panel: Value, lines: Value, c: Value, ldc: Value) -> None:
        def product(count: int, row: Value) -> None:
            """Of one tile of rows, or two."""
            to, lefts = c + row * ldc, [a + (row + m * r.tile) * lda for m in range(count)]
            places = [(2 * m + n, to + m * r.tile * ldc + n * LINE) for m in range(count) for n in range(2)]
            for tile, place in places:
                if adds:
                    tier.isa.load(tile, place, ldc)
                else:
                    tier.isa.clear(tile)
            for line in over(lines):
                for n in range(2):
                    tier.isa.load(b_tiles[n], panel + line * (2 * TILE) + n * TILE, LINE)
                    for m in range(count):
                        if n == 0:
                            tier.isa.load(a_tiles[m], lefts[m] + line * LINE, lda)
                        tier.isa.multiply_reals(2 * m + n, a_tiles[m], b_tiles[n])
            for tile, place in places:
                tier.isa.store(tile, place, ldc)

        for row in over(0, rows, 2 * r.tile):
            with either(row + r.tile < rows, likely=True) as (two, one):
                with two:
                    product(2, row)
                with one:
                    product(1, row)

    return multiply
