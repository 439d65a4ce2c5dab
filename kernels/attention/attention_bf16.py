"""The loops of attention by products of bf16; scores, their softmax and sums of values are f32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..amx.tile_loop import configure, release
from ..core.record import Record, fields
from ..lang import BIT, Value, choose, div_rem, divide, either, over, pieces, share, smaller
from .operands import head_of_keys, query_row, scratch_of
from .pack_pairs import Layout, pack_keys, pack_queries, pack_values
from .pick_attention import LINE, PANEL
from .softmax import begin, clear
from .softmax_pairs import add_up, finish, look, rebase, rescale, weigh
from .visible_keys import Numbers, at_key, bounds, seen, span

Lines = tuple[Value, Value]
"""An address, and the bytes from row to row."""
SIGN_F32, SIGN_BF16 = 1 << 31, 1 << 15
"""The bit of a number that is its sign."""


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

    multiply: Callable[..., None]

    def score(self, r: Any, s: Any, rows: Any, key: Any, n: Any) -> None:
        """Products of queries and n keys from `key` on; s: the thread's Scratch."""
        key_bytes = pieces(r.d, PANEL) * LINE
        a, keys = (s.keys + r.queries_at, key_bytes), s.keys + key * key_bytes
        for i in over(0, n, PANEL):
            c = s.scores + i * 4, s.score_row
            self.multiply(r, Product(rows, a, keys + i * key_bytes, r.d, c, n - i), adds=False)

    def add_values(self, r: Any, s: Any, rows: Any, key: Any, n: Any, adds: Any) -> None:
        """Sums of n values from `key` on, or what is added to those there."""
        a, values, depth = (s.scores, s.score_row), s.values + key * LINE, pieces(r.t, PANEL) * LINE
        with either(BIT(adds), likely=False) as branches:
            for branch, more in zip(branches, (True, False), strict=True):
                with branch:
                    for column in over(0, r.e, PANEL):
                        c = s.sums + column * 4, s.sum_row
                        product = Product(rows, a, values + column * depth, n, c, r.e - column)
                        self.multiply(r, product, adds=more)


def attention_of(record: Record, layout: Layout, multiply: Callable[..., None]) -> Callable[..., None]:
    """The kernel: keys and values of a head are packed once, then each block of queries goes through its keys.

    multiply(record, product, adds); adds: the product is added to c.
    """
    tiled = "config" in record
    products = Products(multiply)

    def attention(args: int, thread: int, threads: int) -> None:
        r = fields(args, record)
        s = scratch_of(r, thread, PANEL)
        blocks, groups = pieces(r.s, r.rows), divide(r.heads, r.share)
        depth = pieces(r.t, PANEL)
        flip = choose(r.scale & SIGN_F32 != 0, SIGN_BF16, 0)
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
                k, v = head_of_keys(r, image, group)
                pack_keys(layout, s.keys, k, r.k_item, r.k_row, limit, r.d)
                pack_values(layout, s.values, v, r.v_item, r.v_row, limit, depth, r.e)
            _attend(products, r, s, (image, head, block * r.rows, limit, place), flip)
        if tiled:
            release()

    return attention


def _attend(products: Products, r: Any, s: Any, where: Numbers, flip: Any) -> None:
    """A block of queries, through the keys that any of them sees.

    s: the thread's Scratch; where: image, head, first row, and `bounds` of the image; flip: as of pack_queries.
    """
    image, head, row, limit, place = where
    queries, parts = s.keys + r.queries_at, s.keys + r.parts_at
    rows = smaller(r.rows, r.s - row)
    place = place + row
    at = query_row(r, image, head, row)
    first, stop = span(r, limit, place, rows)
    begin(s.state, s.line)
    start = first - first % PANEL
    key = start
    if first >= stop:
        stop = key
        clear(s.sums, rows * s.sum_row)
    else:
        pack_queries(queries, at.q, r.q_item, r.q_row, rows, r.d, flip)
    while key < stop:
        n = smaller(r.keys, stop - key)
        products.score(r, s, rows, key, n)
        for i in range(rows):
            left, right = seen(r, limit, place + i, key, n)
            mask = at_key(r, at.mask + i * r.mask_row, key)
            look(r, s.scores + i * s.score_row, mask, left, right, parts + i * LINE)
        rebase(r, s.state, s.line, parts)
        for i in range(rows):
            left, right = seen(r, limit, place + i, key, n)
            weigh(r, s.scores + i * s.score_row, left, right, n, s.base + 4 * i, parts + i * LINE)
            if key != start:
                rescale(s.sums + i * s.sum_row, s.sum_row, s.factor + 4 * i)
        add_up(s.state, s.line, parts)
        products.add_values(r, s, rows, key, n, key != start)
        key += n
    for i in range(rows):
        finish(r, at.y + i * r.y_row, s.sums + i * s.sum_row, s.total + 4 * i)
