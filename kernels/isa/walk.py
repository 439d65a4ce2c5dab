"""Walks along contiguous elements, and horizontal reductions: whole blocks of vectors, then masked single vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from .loops import loop, variable, whole
from .vector import I32, I64, Vector

UNROLL = 4
"""Vectors per block."""

Combine = Callable[[Vector, Any, Any], Any]


def each(
    v: Vector, left: Any, right: Any, body: Callable[[Vector, Any, Any], None], unroll: int = UNROLL
) -> None:
    """`body(w, i, mask)` for the elements from i on that w spans, until `right`; mask is None for a whole block.

    A block is `unroll` vectors (a power of two).
    """
    # LLVM splits an instruction on a block into one per register: so the vectors' chains are interleaved.
    block = Vector(v.b, v.tier, unroll * v.lanes)
    main = v.b.add(left, whole(v.b, v.b.sub(right, left), block.lanes))
    with loop(v.b, left, main, block.lanes) as i:
        body(block, i, None)
    with loop(v.b, main, right, v.lanes) as i:
        body(v, i, v.mask(v.b.sub(right, i)))


def total(v: Vector, n: Any, start: float, combine: Combine, body: Callable[[Vector, Any, Any], Any]) -> Any:
    """The scalar that `combine` makes of all `body(w, i, mask)` for i in range(n), in an order that hangs on n only."""
    block = Vector(v.b, v.tier, UNROLL * v.lanes)
    blocks, tail = variable(v.b, block.const(start)), variable(v.b, v.const(start))

    def add(w: Vector, i: Any, mask: Any) -> None:
        value = body(w, i, mask)
        if mask is not None:
            value = w.b.select(mask, value, w.const(start))
        sums = blocks if mask is None else tail
        w.b.store(combine(w, w.b.load(sums), value), sums)

    each(v, I64(0), n, add)
    x = combine(v, fold(block, v.b.load(blocks), combine, v.lanes), v.b.load(tail))
    return v.b.extract_element(fold(v, x, combine), I32(0))


def fold(v: Vector, x: Any, combine: Combine, lanes: int = 1) -> Any:
    """The vector of `lanes` that is left when the halves of x are combined until it is that short."""
    width = v.lanes
    while width > lanes:
        width //= 2
        halves = [ir.Constant(ir.VectorType(I32, width), list(range(s, s + width))) for s in (0, width)]
        low, high = (v.b.shuffle_vector(x, ir.Constant(x.type, ir.Undefined), half) for half in halves)
        x = combine(Vector(v.b, v.tier, width), low, high)
    return x
