"""row_int8: one row of bytes times s8 weights, as dot_int8 computes it.

Each weight is read once, so this is a walk over the panels at the pace of the cache that they lie in: the sums of
neighboring words are kept apart, and there is next to nothing to do before the first weight of a layer is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ..core.record import reader
from ..isa.loops import repeat, thread_range
from ..isa.tiers import Tier
from ..isa.vector import I8, I32, I64, Vector, emits
from .int8 import add_products, int8_arithmetic
from .pick_int8 import chains
from .results import Place, open_sink, settle, store_rows
from .rows import ROW_INT8
from .tile import Arithmetic

SIGNS = -0x7F7F7F80
"""The word of four highest bits, as an i32."""


def make_row_int8(tier: Tier, nv: int, out: str, rowsum: bool) -> Callable[..., None]:
    """The kernel for panels of nv vectors; its record is `rows.ROW_INT8`."""
    arithmetic = int8_arithmetic(tier, nv, out, rowsum)
    fields, panel = reader(ROW_INT8), _make_panel(tier, nv, chains(nv), arithmetic)
    width, item = nv * tier.lanes, arithmetic.out_item
    head, line = arithmetic.head, arithmetic.vectors * tier.lanes * 4

    def row(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        step = head + r.k * line
        p, end = 0, (r.n + width - 1) // width
        if threads > 1:
            p, end = thread_range(end, thread, threads)
        b = r.b + p * step
        c = r.c + (r.n0 + p * width) * item
        while p < end:
            panel(r, b, c, r.n - p * width)
            b += step
            c += width * item
            p += 1

    return row


def _make_panel(tier: Tier, nv: int, chains: int, arithmetic: Arithmetic) -> Any:
    """An intrinsic panel(record, b, c, columns): the sums of a panel, of `chains` words of A at a time."""
    line = arithmetic.vectors * tier.lanes * 4

    @emits
    def panel(b: Any, record: Any, weights: Any, c: Any, columns: Any) -> None:
        v = Vector(b, tier)
        first = b.inttoptr(weights, I8.as_pointer())
        sums = arithmetic.start(v, first)
        zeros = [v.iconst(0)] * (len(sums) * (chains - 1))
        state = [b.inttoptr(record.a, I8.as_pointer()), b.gep(first, [I64(arithmetic.head)]), *sums, *zeros]
        # Not the splat of a number: LLVM would turn that of each word before it is in a vector.
        signs = b.select(b.icmp_signed("!=", record.signs, I64(0)), v.iconst(SIGNS), v.iconst(0))
        step = partial(_words, v, arithmetic, line, chains, signs)
        _, _, *found = repeat(b, b.ashr(record.k, I64(chains.bit_length() - 1)), state, step)
        while len(found) > len(sums):
            half = len(found) // 2
            found = [b.add(x, y) for x, y in zip(found[:half], found[half:], strict=True)]
        place = Place(1, c, I64(0), columns, first, record, I64(0), I64(0), I64(0))
        results = arithmetic.finish(v, place, found)
        if results is not None:
            place = replace(place, rows=I64(1))
            sink, done = open_sink(v, place, nv, 1, False), b.append_basic_block("done")
            store_rows(v, place, sink, [(b.block, 1, results)], done)
            settle(v, place, sink)

    return panel


def _words(
    v: Vector, arithmetic: Arithmetic, line: int, chains: int, signs: Any, _: Any, state: list[Any]
) -> list[Any]:
    """A word for each chain of sums: state is (A, panel, sums chain by chain)."""
    b, each = v.b, arithmetic.sums
    a, panel, *sums = state
    out = []
    for i in range(chains):
        weights = arithmetic.load(v, b.gep(panel, [I64(i * line)]))
        word = b.load(b.bitcast(b.gep(a, [I64(4 * i)]), I32.as_pointer()), align=1)
        out += add_products(v, b.xor(v.splat(word), signs), weights, sums[i * each : (i + 1) * each])
    return [b.gep(a, [I64(4 * chains)]), b.gep(panel, [I64(chains * line)]), *out]
