"""dot_blocks: C = A x W, W in codes of a few bits with a scale, and perhaps a zero point, for each block of k.

Codes are read as they are stored: products of few rows are summed block by block; for more rows a group of columns is
decoded to a panel, as pack.py makes them, that stays in the cache for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..core.record import reader
from ..isa.loops import lesser, loop, repeat, smaller, thread_range, variable
from ..isa.tiers import Tier
from ..isa.vector import F32, I8, I64, Vector, emits
from .pick_blocks import NV, few_rows, per_word
from .pick_dot import max_rows
from .results import Place, open_sink, settle, store_rows, target
from .rows import DOT_BLOCKS
from .tile import even_rows, f32_arithmetic, make_tile

Each = Callable[[Any, int, list[Any], list[Any]], list[Any]]


def make_dot_blocks(tier: Tier, bits: int) -> Callable[..., None]:
    """The kernel; its record is `rows.DOT_BLOCKS`. Threads share the groups of columns."""
    fields, width = reader(DOT_BLOCKS), NV * tier.lanes
    few, decode = _few(tier, bits), _decode(tier, bits)
    tile = make_tile(tier, NV, max_rows(tier, NV), f32_arithmetic(tier, NV))

    def dot_blocks(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        panel = r.scratch + thread * r.scratch_bytes
        first, end = thread_range((r.n + width - 1) // width, thread, threads)
        for group in range(first, end):
            codes, column = r.b + group * r.group, group * width
            if not r.few:
                decode(r, codes, panel)
            for i in range(r.batch):
                for row in range(0, r.m, r.height):
                    height, at = smaller(r.height, r.m - row), i * r.m + row
                    a, c = r.a + at * r.lda * 4, r.c + (at * r.ldc + column) * 4
                    if r.few:
                        few(r, height, a, codes, c, r.n - column, i, row, column)
                    else:
                        rows = even_rows(a, r.lda * 4, r.k)
                        into = target(c, r.ldc * 4, r.n - column, image=i, row=row, column=column)
                        tile(r, height, rows, panel, 0, into)

    return dot_blocks


def _few(tier: Tier, bits: int) -> Any:
    """An intrinsic that makes the results of 1 to `few_rows` rows for a group."""

    @emits
    def few(
        b: Any, record: Any, height: Any, a: Any, codes: Any, c: Any, columns: Any, image: Any, row: Any, column: Any
    ) -> None:
        v, most = Vector(b, tier), few_rows(tier)
        first, lda = b.inttoptr(codes, I8.as_pointer()), b.shl(record.lda, I64(2))
        place = Place(height, c, b.shl(record.ldc, I64(2)), columns, first, record, image, row, column)
        sink = open_sink(v, place, NV, most, True)
        found, done = [], b.append_basic_block("done")
        jump = b.switch(height, done)
        for rows in range(most, 0, -1):
            body = b.append_basic_block(f"rows{rows}")
            jump.add_case(I64(rows), body)
            b.position_at_end(body)
            starts = [b.add(a, b.mul(lda, I64(r))) for r in range(rows)]
            sums = _sums(v, record, bits, codes, starts)
            found.append((b.block, rows, sums))
        b.position_at_end(done)
        store_rows(v, place, sink, found, done)
        settle(v, place, sink)

    return few


def _sums(v: Vector, record: Any, bits: int, codes: Any, rows: list[Any]) -> list[Any]:
    """The sums of rows that start at these addresses, NV vectors each."""
    b, chains = v.b, 2 if len(rows) == 1 else 1
    totals = [variable(b, v.const(0)) for _ in range(len(rows) * NV)]

    def block(first: Any, words: Callable[..., list[Any]], scales: list[Any]) -> None:
        def add(k: Any, j: int, weights: list[Any], sums: list[Any]) -> list[Any]:
            out = list(sums)
            for r, start in enumerate(rows):
                x = v.broadcast(v.at(v.pointer(b.add(start, b.shl(k, I64(2)))), j))
                for n, w in enumerate(weights):
                    at = (r * NV + n) * chains + j % chains
                    out[at] = v.fma(x, w, out[at])
            return out

        sums = words(add, [v.const(0)] * (len(totals) * chains))
        for i, total in enumerate(totals):
            own = sums[i * chains : (i + 1) * chains]
            value = own[0] if chains == 1 else b.fadd(*own)
            b.store(v.fma(value, scales[i % NV], b.load(total)), total)

    _blocks(v, record, bits, codes, block)
    return [b.load(total) for total in totals]


def _decode(tier: Tier, bits: int) -> Any:
    """An intrinsic that makes the f32 panel of a group: a line of 0.0, then one for each k."""

    @emits
    def decode(b: Any, record: Any, codes: Any, to: Any) -> None:
        v = Vector(b, tier)
        target = v.pointer(to)
        for n in range(NV):
            v.store(v.const(0), v.at(target, n * v.lanes))

        def block(first: Any, words: Callable[..., list[Any]], scales: list[Any]) -> None:
            def put(k: Any, j: int, weights: list[Any], _: list[Any]) -> list[Any]:
                line = v.at(target, b.mul(b.add(k, I64(j + 1)), I64(NV * v.lanes)))
                for n, (w, scale) in enumerate(zip(weights, scales, strict=True)):
                    v.store(b.fmul(w, scale), v.at(line, n * v.lanes))
                return []

            words(put, [])

        _blocks(v, record, bits, codes, block)

    return decode


def _blocks(v: Vector, record: Any, bits: int, codes: Any, body: Callable[..., None]) -> None:
    """Emit body(first k, words, scales) for the blocks of a group; words(each, state) emits a loop over those of a
    block, whose state becomes each(k of a word, j, weights of k + j, state) for each j.
    """
    b, per, line = v.b, per_word(bits), NV * v.lanes * 4
    codes_type = v.itype if bits < 8 else ir.ArrayType(ir.VectorType(I8, v.lanes), per)
    count = b.udiv(record.k, I64(per))
    step = b.mul(b.add(record.block, b.add(record.zeros, I64(1))), I64(line))
    blocks = b.udiv(b.add(count, b.sub(record.block, I64(1))), record.block)

    def vectors(address: Any, kind: Any) -> list[Any]:
        start = b.inttoptr(address, I8.as_pointer())
        places = [b.gep(start, [I64(n * v.lanes * 4)]) for n in range(NV)]
        return [b.load(b.bitcast(place, kind.as_pointer()), align=4) for place in places]

    def block(i: Any, zeros: bool) -> None:
        start = b.add(codes, b.mul(i, step))
        scales = vectors(start, v.type)
        minus = vectors(b.add(start, I64(line)), v.type) if zeros else []
        first, lines = b.mul(i, record.block), b.add(start, I64(line * (1 + zeros)))

        def words(each: Each, state: list[Any]) -> list[Any]:
            def word(index: Any, state: list[Any]) -> list[Any]:
                packed = vectors(b.add(lines, b.mul(index, I64(line))), codes_type)
                k = b.mul(b.add(first, index), I64(per))
                for j in range(per):
                    weights = [_weight(v, bits, codes, j) for codes in packed]
                    if zeros:
                        weights = [b.fadd(w, m) for w, m in zip(weights, minus, strict=True)]
                    state = each(k, j, weights, state)
                return state

            return repeat(b, lesser(b, record.block, b.sub(count, first)), state, word, once=True)

        body(first, words, scales)

    with loop(b, 0, blocks, 1) as i:
        with b.if_else(b.icmp_signed("!=", record.zeros, I64(0))) as (some, none):
            with some:
                block(i, True)
            with none:
                block(i, False)


def _weight(v: Vector, bits: int, word: Any, j: int) -> Any:
    """f32 of the j-th code of each word, an integer with a sign; of bytes `word` is a vector for each j."""
    b = v.b
    if bits == 8:
        return b.sitofp(b.sext(b.extract_value(word, j), v.itype), v.type)
    if bits == 4 and v.lanes == 16:
        # One instruction takes the low bits of each lane as the number of an entry.
        table = ir.Constant(v.type, [ir.Constant(F32, float(i - 16 * (i > 7))) for i in range(16)])
        at = b.lshr(word, v.iconst(bits * j)) if j else word
        return b.call(v.declare("llvm.x86.avx512.permvar.sf.512", v.type, [v.type, v.itype]), [table, at])
    left = 32 - bits * (j + 1)
    raised = b.shl(word, v.iconst(left)) if left else word
    return b.sitofp(b.ashr(raised, v.iconst(32 - bits)), v.type)
