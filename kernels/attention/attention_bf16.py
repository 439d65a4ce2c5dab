"""The loops of attention by products of bf16; scores, their softmax and sums of values are f32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..amx.tile_loop import configure, release
from ..core.record import Record, fields
from ..isa.tiers import Tier
from ..lang import BIT, Value, choose, div_rem, divide, either, over, pieces, share, smaller
from .pack_pairs import Layout, pack_keys, pack_queries, pack_values
from .pick_attention import LINE, PANEL
from .softmax import begin, clear, lines_of
from .softmax_pairs import add_up, finish, look, rebase, rescale, weigh
from .visible_keys import Numbers, at_key, bounds, seen, span

Lines = tuple[Value, Value]
"""An address, and the bytes from row to row."""


class Product(NamedTuple):
    """c = a times a panel of up to 32 columns: rows of n numbers of a, which are whole lines; c gets whole vectors."""

    rows: Value
    a: Lines
    panel: Value
    n: Value
    c: Lines
    columns: Value


@dataclass(frozen=True)
class Products:
    """Products of queries and keys, and of weights and values, by `multiply` of `attention_of`."""

    tier: Tier
    multiply: Callable[..., None]

    def score(self, r: Any, rows: Value, queries: Value, keys: Value, n: Value, scores: Value) -> None:
        """Products of queries and n keys."""
        length, line = pieces(r.d, PANEL) * LINE, (r.keys + self.tier.lanes) * 4
        for key in over(0, n, PANEL):
            a, c = (queries, length), (scores + key * 4, line)
            self.multiply(r, Product(rows, a, keys + key * length, r.d, c, n - key), adds=False)

    def add_values(self, r: Any, rows: Value, weights: Value, values: Value, n: Value, sums: Value, adds: Any) -> None:
        """Sums of n values, or what is added to those there."""
        line, out = (r.keys + self.tier.lanes) * 4, pieces(r.e, PANEL) * (PANEL * 4)
        depth = pieces(r.t, PANEL) * LINE
        with either(BIT(adds), likely=False) as branches:
            for branch, more in zip(branches, (True, False), strict=True):
                with branch:
                    for column in over(0, r.e, PANEL):
                        a, c = (weights, line), (sums + column * 4, out)
                        product = Product(rows, a, values + column * depth, n, c, r.e - column)
                        self.multiply(r, product, adds=more)


def attention_of(tier: Tier, record: Record, layout: Layout, multiply: Callable[..., None]) -> Callable[..., None]:
    """The kernel: keys and values of a head are packed once, then each block of queries goes through its keys.

    multiply(record, product, adds); adds: the product is added to c.
    """
    tiled = "config" in record
    products, lanes = Products(tier, multiply), tier.lanes

    def attention(args: int, thread: int, threads: int) -> None:
        r = fields(args, record)
        scratch = r.scratch + thread * r.scratch_bytes
        values, queries, scores = scratch + r.values_at, scratch + r.queries_at, scratch + r.scores_at
        sums, parts, state = scratch + r.sums_at, scratch + r.parts_at, scratch + r.state_at
        room = scratch, values, queries, scores, sums, parts, state
        blocks, groups = pieces(r.s, r.rows), divide(r.heads, r.share)
        length, depth = pieces(r.d, PANEL) * LINE, pieces(r.t, PANEL)
        steps = length, (r.keys + lanes) * 4, pieces(r.e, PANEL) * (PANEL * 4)
        lines = lines_of(r, state, lanes)
        flip = choose(r.scale & 0x80000000 != 0, 0x8000, 0)
        packed = -1
        if tiled:
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
                pack_keys(layout, scratch, k, r.k_item, r.k_row, limit, r.d)
                pack_values(layout, values, v, r.v_item, r.v_row, limit, depth, r.e)
            _attend(products, r, room, steps, lines, (image, head, block * r.rows, limit, place), flip)
        if tiled:
            release()

    return attention


def _attend(
    products: Products, r: Any, room: Numbers, steps: Numbers, lines: Numbers, where: Numbers, flip: Any
) -> None:
    """A block of queries.

    room: addresses of packed keys, values and queries, scores, sums, parts and state; steps: bytes from key to key,
    and from row to row of scores and of sums; lines: `lines_of` the state; where: image, head, first row, and `bounds`
    of the image; flip: as of pack_queries.
    """
    keys, values, queries, scores, sums, parts, state = room
    length, line, out = steps
    each, base, total, factor = lines
    image, head, row, limit, place = where
    rows = smaller(r.rows, r.s - row)
    place = place + row
    y = r.y + image * r.y_image + head * r.y_head + row * r.y_row
    mask = r.mask + image * r.mask_image + head * r.mask_head + row * r.mask_row
    near, stop = span(r, limit, place, rows)
    begin(state, each)
    starts = near - near % PANEL
    key = starts
    if near >= stop:
        stop = key
        clear(sums, rows * out)
    else:
        q = r.q + image * r.q_image + head * r.q_head + row * r.q_row
        pack_queries(queries, q, r.q_item, r.q_row, rows, r.d, flip)
    while key < stop:
        n = smaller(r.keys, stop - key)
        products.score(r, rows, queries, keys + key * length, n, scores)
        for i in range(rows):
            left, right = seen(r, limit, place + i, key, n)
            look(r, scores + i * line, at_key(r, mask + i * r.mask_row, key), left, right, parts + i * LINE)
        rebase(r, state, each, parts)
        for i in range(rows):
            left, right = seen(r, limit, place + i, key, n)
            weigh(r, scores + i * line, left, right, n, base + 4 * i, parts + i * LINE)
            if key != starts:
                rescale(sums + i * out, out, factor + 4 * i)
        add_up(state, each, parts)
        products.add_values(r, rows, scores, values + key * LINE, n, sums, key != starts)
        key += n
    for i in range(rows):
        finish(r, y + i * r.y_row, sums + i * out, total + 4 * i)
