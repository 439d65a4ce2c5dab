"""row_int8: one row of bytes times s8 weights, as dot_int8 computes it.

Each weight is read once, so the kernel runs at the bandwidth of the cache or memory: adjacent words have separate sums,
and the first weights of a layer are loaded almost at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..core.record import fields
from ..isa.tiers import Tier
from ..lang import I8, I32, I64, Value, choose, of_chains, repeat, share, traced
from ..lang.blocks import Block, here
from .int8_arithmetic import add_products, int8_arithmetic
from .pick_int8 import Sums, chains
from .results import Destination, finish_tile, open_sink, store_rows
from .rows import ROW_INT8
from .tile import Arithmetic, each_again

SIGNS = -0x7F7F7F80
"""The word of four highest bits, as an i32."""


def make_row_int8(tier: Tier, nv: int, **sums: Any) -> Callable[..., None]:
    """The kernel for panels of nv vectors; its record is `rows.ROW_INT8`."""
    arithmetic = int8_arithmetic(tier, nv, Sums(**sums))
    panel = _make_panel(tier, nv, chains(nv), arithmetic, Sums(**sums).small)
    width, item = nv * tier.lanes, arithmetic.out_item
    head, line = arithmetic.head, arithmetic.vectors * tier.lanes * 4

    def row(args: int, thread: int, threads: int) -> None:
        r = fields(args, ROW_INT8)
        step = head + r.k * line
        p, end = 0, (r.n + width - 1) // width
        if threads > 1:
            p, end = share(end, thread, threads)
        b = r.b + p * step
        c = r.c + (r.n0 + p * width) * item
        while p < end:
            panel(r, b, c, r.n - p * width)
            b += step
            c += width * item
            p += 1

    return row


def _make_panel(tier: Tier, nv: int, chains: int, arithmetic: Arithmetic, small: bool) -> Any:
    """panel(record, b, c, columns): the results of a panel, from `chains` words of A at a time; small: of Sums."""
    line, each = arithmetic.vectors * tier.lanes * 4, arithmetic.sums
    i32 = I32.vector(tier.lanes)

    @traced
    def panel(record: Any, weights: Value, c: Value, columns: Value) -> None:
        first = I8.at(weights)
        sums = arithmetic.start(first)
        zeros = [i32(0)] * (len(sums) * (chains - 1))
        # Not the splat of a number: LLVM would turn that of each word before it is in a vector.
        signs = choose(record.signs != 0, i32(SIGNS), i32(0))

        def words(_: Value, state: list[Value]) -> list[Value]:
            """One word for each chain of sums; state is (A, panel, sums chain by chain)."""
            a, panel, *sums = state
            out = []
            for k in range(chains):
                weights = arithmetic.load(panel + k * line)
                word = i32(I32[a + 4 * k]) ^ signs
                out += add_products(word, weights, sums[k * each : (k + 1) * each], small)
            return [a + 4 * chains, panel + chains * line, *out]

        def again(weights: Value, _: Value, offset: Value, sums: list[Value]) -> list[Value]:
            word = i32(I32[I8.at(record.a) + offset]) ^ signs
            return add_products(word, arithmetic.load(weights), sums, small)

        turns = record.k >> chains.bit_length() - 1
        _, _, *found = repeat(turns, [I8.at(record.a), first + arithmetic.head, *sums, *zeros], words)
        if small:
            block = first + I64[first + (arithmetic.head - nv * i32.size)]
            found[:each] = each_again(block, (0, 1), line, found[:each], again)
        dest = Destination(1, c, I64(0), columns, first, record, I64(0), I64(0), I64(0))
        results = arithmetic.finish(dest, of_chains(found, len(sums)))
        if results is not None:
            dest = replace(dest, rows=I64(1))
            sink, done = open_sink(dest, nv, 1, False), Block("done")
            store_rows(dest, sink, [(here(), 1, results)], done)
            finish_tile(dest, sink)

    return panel
