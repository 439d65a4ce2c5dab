"""Loops and variables in LLVM IR, for micro-kernels that are more than straight-line code.

Then loops along contiguous elements, horizontal reductions, and the parts of the work that threads take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from .. import lang
from ..lang import div_rem, divide, larger, pieces, remainder, smaller
from ..lang.both import both
from .vector import I32, I64, Vector

UNROLL = 4
"""Vectors per block."""
_USED = div_rem, divide, larger, pieces, remainder, smaller
SLICE = 64
"""Columns are dealt to threads in multiples of this."""

Combine = Callable[[Vector, Any, Any], Any]


@contextmanager
def loop(b: Any, start: Any, stop: Any, step: Any) -> Iterator[Any]:
    """for i in range(start, stop, step), over int64 values or Python ints; step > 0."""
    start, stop, step = (I64(x) if isinstance(x, int) else x for x in (start, stop, step))
    before = b.block
    head, body, done = (b.append_basic_block(name) for name in ("head", "body", "done"))
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(I64)
    i.add_incoming(start, before)
    b.cbranch(b.icmp_signed("<", i, stop), body, done)
    b.position_at_end(body)
    yield i
    i.add_incoming(b.add(i, step), b.block)
    b.branch(head)
    b.position_at_end(done)


def repeat(
    b: Any, count: Any, state: Sequence[Any], body: Callable[[Any, list[Any]], Sequence[Any]], once: bool = False
) -> list[Any]:
    """Emit a loop that runs `state = body(index, state)` count times, at least once; the last state. once: its code is
    there once, however short it is.
    """
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
    again = b.cbranch(b.icmp_signed("<", following, count), inside, after)
    if once:
        rolled(b, again)
    b.position_at_end(after)
    return out


@both
def rolled(b: Any, branch: Any) -> None:
    """Have LLVM leave the loop that ends with this branch as it is: a long body is no faster for being there twice."""
    off = b.module.add_metadata(["llvm.loop.unroll.disable"])
    loop = b.module.add_metadata([off])
    loop.operands = (loop, off)
    branch.set_metadata("llvm.loop", loop)


def apart(b: Any, values: Sequence[Any], body: Callable[..., None]) -> None:
    """`body(builder, *values)` in a function of its own: where an object has many bodies, each has all registers."""
    kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
    function = ir.Function(b.module, kind, b.module.get_unique_name("part"))
    function.linkage = "internal"
    function.attributes.add("noinline")
    inside = ir.IRBuilder(function.append_basic_block())
    body(inside, *function.args)
    inside.ret_void()
    b.call(function, values)


def variable(b: Any, value: Any) -> Any:
    """A slot that holds `value` first, for b.load and b.store; LLVM turns it into a register."""
    slot = room(b, value.type)
    b.store(value, slot)
    return slot


def room(b: Any, kind: Any, size: int = 1) -> Any:
    """Memory for so many values of a type, as long as the kernel runs."""
    with b.goto_entry_block():
        return b.alloca(kind, size=size)


@both
def whole(b: Any, count: Any, step: int) -> Any:
    """The largest multiple of `step` (a power of two) not above count >= 0."""
    return b.and_(count, I64(-step))


@both
def lesser(b: Any, x: Any, y: Any) -> Any:
    """The lesser of two int64 values."""
    return b.select(b.icmp_signed("<", x, y), x, y)


# -- along contiguous elements


def each(v: Vector, left: Any, right: Any, body: Callable[[Vector, Any, Any], None], unroll: int = UNROLL) -> None:
    """`body(w, i, mask)` for the elements that w spans from i on; mask is None when all are before `right`.

    w is as wide as `unroll` vectors (a power of two) or as v.
    """
    # LLVM splits an instruction on a block into one per register: so the vectors' chains are interleaved.
    # Without masks in hardware a masked vector is a branch per lane: only the very last may be one.
    sizes = [unroll, 1] if unroll > 1 else [unroll]
    for size in sizes:
        w = Vector(v.b, v.tier, size * v.lanes)
        end = v.b.add(left, whole(v.b, v.b.sub(right, left), w.lanes))
        with loop(v.b, left, end, w.lanes) as i:
            body(w, i, None)
        left = end
    with loop(v.b, left, right, v.lanes) as i:
        body(v, i, v.mask(v.b.sub(right, i)))


def cover(v: Vector, left: Any, right: Any, wide: bool, body: Callable[..., None]) -> None:
    """`body(w, i)` for the elements that w spans from i on, `body(w, i, rest)` when only `rest` of them count.

    w is as wide as four vectors or as v. `wide`: more than a vector of the last block may be read beyond `right`.
    """
    b = v.b
    block = Vector(b, v.tier, UNROLL * v.lanes)
    end = b.add(left, whole(b, b.sub(right, left), block.lanes))
    with loop(b, left, end, block.lanes) as i:
        body(block, i)
    rest = b.sub(right, end)
    if not wide:
        each_vector(v, end, right, body)
        return
    with b.if_else(b.icmp_signed(">", rest, I64(v.lanes))) as (several, one):
        with several:
            body(block, end, rest)
        with one:
            each_vector(v, end, right, body)


def each_vector(v: Vector, left: Any, right: Any, body: Callable[..., None]) -> None:
    """As `cover`, with vectors as wide as v only."""
    b = v.b
    end = b.add(left, whole(b, b.sub(right, left), v.lanes))
    with loop(b, left, end, v.lanes) as i:
        body(v, i)
    rest = b.sub(right, end)
    with b.if_then(b.icmp_signed(">", rest, I64(0))):
        body(v, end, rest)


def total(v: Vector, n: Any, start: float, combine: Combine, body: Callable[[Vector, Any, Any], Any]) -> Any:
    """The scalar that `combine` makes of all `body(w, i, mask)` for i in range(n).

    The order hangs on n only.
    """
    block = Vector(v.b, v.tier, UNROLL * v.lanes)
    blocks, tail = variable(v.b, block.const(start)), variable(v.b, v.const(start))

    def add(w: Vector, i: Any, mask: Any) -> None:
        value = body(w, i, mask)
        if mask is not None:
            value = w.b.select(mask, value, w.const(start))
        sums = blocks if w.lanes == block.lanes else tail
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


# -- what a thread does of the work


@both
def share(b: Any, total: Any, thread: Any, threads: Any) -> list[Any]:
    """The thread's part [start, stop) of range(total), from inside an `emits` body."""
    return [b.udiv(b.mul(total, t), threads) for t in (thread, b.add(thread, I64(1)))]


thread_range = lang.share
thread_slices = lang.slices


thread_block = lang.thread_block
