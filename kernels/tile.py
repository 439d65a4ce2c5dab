"""The micro-kernel of dot and convolution: rows x vectors of sums, in registers from bias to store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from .chain import Chain, chain_cost, emit_chain
from .isa.tiers import Tier
from .isa.vector import F32, I8, I32, I64, Vector, emits

INLINE_COST = 8
"""Chains up to this cost are unrolled over the registers of a tile; dearer ones loop over its rows."""


Shape = tuple[int, int]
"""Of a tile: groups of rows, rows in a group."""


def make_tile(
    tier: Tier,
    whole: Shape,
    rest: Shape,
    nv: int,
    segmented: bool,
    ragged: bool,
    chain: Chain,
    extras: Sequence[str],
    first_extra: int,
) -> Any:
    """An intrinsic that computes groups * rows output rows of one weight panel (nv vectors of columns).

    tile(short, args, a, rs, gs, table, segments, length, panel, ahead, c, ldc, columns, image, row,
    column): int64s. The tile has the shape `rest` where `short` isn't 0, else `whole`. Row r of group g
    of A starts at byte address a + g * gs + r * rs; each of its `segments` runs of `length` f32 starts
    table[s] bytes further (without `segmented`: one run at 0). The panel is packed as in
    kernels/pack.py: bias first, then one line of nv vectors per k; the line `ahead` bytes further is
    prefetched. The results, after `chain`, go to rows of `ldc` bytes at `c`; with `ragged` only
    `columns` of them. Extra i has (address, stride per image, stride per row) in f32 elements at
    args[first_extra + 3 * i] and is read at (image, row, column).
    """
    width = nv * tier.lanes * 4

    @emits
    def tile(
        b: Any,
        short: Any,
        args: Any,
        a: Any,
        rs: Any,
        gs: Any,
        table: Any,
        segments: Any,
        length: Any,
        panel: Any,
        ahead: Any,
        c: Any,
        ldc: Any,
        columns: Any,
        image: Any,
        row: Any,
        column: Any,
    ) -> None:
        v = Vector(b, tier)
        limit = columns if ragged else None

        def emit(groups: int, rows: int) -> None:
            mr = groups * rows
            offsets = [
                b.add(b.mul(gs, I64(g)), b.mul(rs, I64(r))) for g in range(groups) for r in range(rows)
            ]

            def segment(s: Any, state: list[Any]) -> list[Any]:
                start = b.inttoptr(a, I8.as_pointer())
                if segmented:
                    start = b.gep(start, [b.load(b.gep(b.inttoptr(table, I64.as_pointer()), [s]))])
                return repeat(b, length, [start, *state], partial(_step, v, nv, offsets, ahead))[1:]

            first = b.inttoptr(panel, I8.as_pointer())
            bias = [v.load(_f32(b, first, I64(n * tier.lanes * 4))) for n in range(nv)]
            state = [b.gep(first, [I64(width)]), *bias * mr]
            sums = (repeat(b, segments, state, segment) if segmented else segment(None, state))[1:]

            def operands(r: Any, n: int) -> list[Any]:
                slots = range(first_extra, first_extra + 3 * len(extras), 3)
                at = b.add(column, I64(n * tier.lanes))
                mask = _masks(v, n + 1, limit)[n]
                return [
                    load_extra(v, kind, args, slot, image, b.add(row, r), at, mask)
                    for kind, slot in zip(extras, slots, strict=True)
                ]

            _finish(v, chain, mr, nv, sums, c, ldc, limit, operands)

        if not rest[0]:
            emit(*whole)
            return
        with b.if_else(b.icmp_signed("!=", short, I64(0))) as (then, otherwise):
            with then:
                emit(*rest)
            with otherwise:
                emit(*whole)

    return tile


def _step(v: Vector, nv: int, offsets: Sequence[Any], ahead: Any, _: Any, state: list[Any]) -> list[Any]:
    """One k: state is (A, panel, sums row by row)."""
    b = v.b
    a, panel, *sums = state
    weights = [v.load(_f32(b, panel, I64(n * v.lanes * 4))) for n in range(nv)]
    prefetch = v.declare("llvm.prefetch.p0", ir.VoidType(), [panel.type, I32, I32, I32])
    b.call(prefetch, [b.gep(panel, [ahead]), I32(0), I32(2), I32(1)])
    out = []
    for r, offset in enumerate(offsets):
        x = v.broadcast(_f32(b, a, offset))
        out += [v.fma(x, w, s) for w, s in zip(weights, sums[r * nv : (r + 1) * nv], strict=True)]
    return [b.gep(a, [I64(4)]), b.gep(panel, [I64(nv * v.lanes * 4)]), *out]


def repeat(
    b: Any, count: Any, state: Sequence[Any], body: Callable[[Any, list[Any]], Sequence[Any]]
) -> list[Any]:
    """Emit a loop that runs `state = body(index, state)` count times, at least once; the last state."""
    before = b.block
    inside = b.append_basic_block("loop")
    b.branch(inside)
    b.position_at_end(inside)
    index = b.phi(I64)
    index.add_incoming(I64(0), before)
    phis = [b.phi(value.type) for value in state]
    for phi, value in zip(phis, state, strict=True):
        phi.add_incoming(value, before)
    out = list(body(index, phis))
    following = b.add(index, I64(1))
    for phi, value in zip([index, *phis], [following, *out], strict=True):
        phi.add_incoming(value, b.block)
    after = b.append_basic_block("after")
    b.cbranch(b.icmp_signed("<", following, count), inside, after)
    b.position_at_end(after)
    return out


def _finish(
    v: Vector,
    chain: Chain,
    mr: int,
    nv: int,
    sums: list[Any],
    c: Any,
    ldc: Any,
    columns: Any,
    extras: Callable[[Any, int], list[Any]],
) -> None:
    """Store chain(sums, extras) to the rows of C, the columns from `columns` on left alone."""
    b = v.b
    address = b.inttoptr(c, I8.as_pointer())

    def put(r: Any, values: Sequence[Any], masks: Sequence[Any]) -> None:
        start = b.gep(address, [b.mul(ldc, r)])
        for n, value in enumerate(values):
            result = emit_chain(v, chain, [value, *extras(r, n)])
            v.store(result, _f32(b, start, I64(n * v.lanes * 4)), masks[n])

    def unrolled(masks: Sequence[Any]) -> None:
        for r in range(mr):
            put(I64(r), sums[r * nv : (r + 1) * nv], masks)

    def rolled() -> None:
        size = ir.ArrayType(v.type, mr * nv)
        buffer = b.bitcast(cgutils.alloca_once(b, size), F32.as_pointer())
        for i, value in enumerate(sums):
            v.store(value, v.at(buffer, i * v.lanes))

        def body(r: Any, state: list[Any]) -> list[Any]:
            start = b.mul(r, I64(nv * v.lanes))
            put(
                r, [v.load(v.at(v.at(buffer, start), n * v.lanes)) for n in range(nv)], _masks(v, nv, columns)
            )
            return []

        repeat(b, I64(mr), [], body)

    if chain_cost(chain) > INLINE_COST:
        rolled()
    elif columns is None or v.lanes == 16:
        unrolled(_masks(v, nv, columns))
    else:
        with b.if_else(b.icmp_signed(">=", columns, I64(nv * v.lanes))) as (whole, partial):
            with whole:
                unrolled([None] * nv)
            with partial:
                rolled()


def _masks(v: Vector, nv: int, columns: Any) -> list[Any]:
    if columns is None:
        return [None] * nv
    return [v.mask(v.b.sub(columns, I64(n * v.lanes))) for n in range(nv)]


def load_extra(
    v: Vector, kind: str, args: Any, slot: int, image: Any, row: Any, column: Any, mask: Any
) -> Any:
    """The vector of an extra operand at (image, row, column); its record starts at args[slot].

    kind: "full" has rows, "channel" and "image" are the same for all rows, "scalar" is one f32.
    """
    b = v.b
    record = b.inttoptr(args, I64.as_pointer())
    address, per_image, per_row = (b.load(b.gep(record, [I64(slot + i)])) for i in range(3))
    start = v.pointer(address)
    if kind == "scalar":
        return v.broadcast(start)
    index = b.add(b.mul(image, per_image), column)
    if kind == "full":
        index = b.add(index, b.mul(row, per_row))
    return v.load(v.at(start, index), mask)


def _f32(b: Any, start: Any, offset: Any) -> Any:
    """The f32 at byte pointer start + offset."""
    return b.bitcast(b.gep(start, [offset]), F32.as_pointer())


def make_fields(count: int) -> Any:
    """An intrinsic fields(args): the first `count` int64 of a record, as a tuple."""

    @emits(returns=types.UniTuple(types.int64, count))
    def fields(b: Any, args: Any) -> Any:
        record = b.inttoptr(args, I64.as_pointer())
        return cgutils.pack_array(b, [b.load(b.gep(record, [I64(i)])) for i in range(count)])

    return fields
