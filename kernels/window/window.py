"""What depthwise convolutions and pools of f32 share: the loops around a row of outputs, edges, addresses, results.

Loads take whole vectors even where fewer channels are left: what follows a tensor or a constant may be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from ..core.record import Record, loaded
from ..isa.loops import lesser, loop, share, variable
from ..isa.vector import I64, Vector, emits
from ..lang.both import both


@dataclass(frozen=True)
class Place:
    """Where work is: LLVM int64 values. `end` is where its channels, which begin at `channel`, do; `row` counts
    rows of y in all planes of an image.
    """

    args: Any
    image: Any
    row: Any
    channel: Any
    end: Any


@both
def slots(b: Any, args: Any, record: Record, first: int = 0) -> Any:
    """As core.record's `loaded`: a record's slots by name, from inside an `emits` body; nothing writes them."""
    found = loaded(b, args, record, first)
    for load in found:
        constant(b, load)
    return found


@both
def constant(b: Any, load: Any) -> Any:
    """Mark a load as of memory that nothing writes while the kernel runs, so that it may leave loops."""
    load.set_metadata("invariant.load", b.module.add_metadata([]))
    return load


@both
def constants(v: Vector, pointer: Any, count: int) -> list[Any]:
    """Some vectors of constants, one after the other."""
    return [constant(v.b, v.load(v.at(pointer, i * v.lanes))) for i in range(count)]


@both
def existing(b: Any, bits: Any, index: Any) -> Any:
    """A context whose code runs if bit `index` (int or int64) of `bits` is set; always when `bits` is None."""
    if bits is None:
        return nullcontext()
    one = I64(1 << index) if isinstance(index, int) else b.shl(I64(1), index)
    return b.if_then(b.icmp_unsigned("!=", b.and_(bits, one), I64(0)))


@both
def spread(b: Any, pointer: Any, stride: Any, count: int, size: int = 4) -> list[Any]:
    """The pointers pointer + j * stride, j < count, to elements of `size` bytes.

    Each is a base plus 1, 2 or 4 times one of few odd multiples, which x86 adds up within a load.
    """
    odd = {m: b.mul(stride, I64(m)) for m in (1, 3, 5, 7) if m < count}
    base, pointers = pointer, []
    for j in range(count):
        if j and j % 8 == 0:
            base = b.gep(base, [b.mul(stride, I64(8))])
        k = j % 8
        scale = k & -k or 1
        wide = b.bitcast(base, ir.IntType(8 * size * scale).as_pointer())
        pointers.append(b.bitcast(b.gep(wide, [odd[k // scale]]), pointer.type) if k else base)
    return pointers


def nest(
    record: Record, emit_row: Callable[[Any, Place], None], end_row: Callable[[Any, Record, Place], None]
) -> Callable:
    """The kernel function that covers y with what `emit_row(builder, place)` emits: a row of outputs by channels; then
    comes `end_row(builder, record, place)`.

    A thread takes bands of rows by blocks of channels, as the record says.
    """

    @emits
    def body(b: Any, args: Any, thread: Any, threads: Any) -> None:
        r = slots(b, args, record)
        rows = b.mul(r.od, r.oh)
        blocks, bands = (b.udiv(b.add(n, b.sub(k, I64(1))), k) for n, k in ((r.c, r.block), (rows, r.band)))
        start, stop = share(b, b.mul(b.mul(r.n, bands), blocks), thread, threads)
        with loop(b, start, stop, 1) as unit:
            line, block = b.udiv(unit, blocks), b.urem(unit, blocks)
            image, top = b.udiv(line, bands), b.mul(b.urem(line, bands), r.band)
            channel = b.mul(block, r.block)
            end = lesser(b, b.add(channel, r.block), r.c)
            with loop(b, top, lesser(b, b.add(top, r.band), rows), 1) as row:
                place = Place(args, image, row, channel, end)
                emit_row(b, place)
                end_row(b, record, place)

    def run(args: int, thread: int, threads: int) -> None:
        body(args, thread, threads)

    return run


@both
def opaque(b: Any, x: Any) -> Any:
    """x, of which LLVM computes nothing ahead of where it is wanted: a loop that runs once has no use for that."""
    return b.asm(ir.FunctionType(I64, [I64]), "", "=r,0", [x], True)


@both
def settle(v: Vector, variables: Sequence[Any]) -> None:
    """Have these vectors computed by here: LLVM would rather load first, and then all of that waits in registers."""
    b = v.b
    if v.lanes < 16:
        return
    values, kind = [b.load(x) for x in variables], ir.LiteralStructType([v.type] * len(variables))
    places = [*["=v"] * len(values), *map(str, range(len(values)))]
    results = b.asm(ir.FunctionType(kind, [v.type] * len(values)), "", ",".join(places), values, True)
    for i, x in enumerate(variables):
        b.store(b.extract_value(results, i), x)


@both
def low_bits(b: Any, count: Any, limit: Any) -> Any:
    """An int64 whose lowest `count` bits are set, with count brought into [0, limit]; limit < 64."""
    return b.sub(b.shl(I64(1), brought(b, count, limit)), I64(1))


@both
def brought(b: Any, x: Any, limit: Any) -> Any:
    """x brought into [0, limit]."""
    x = lesser(b, x, limit)
    return b.select(b.icmp_signed(">", x, I64(0)), x, I64(0))


@both
def steps(b: Any, end: Any, begin: Any, step: Any, count: Any) -> Any:
    """How many of begin, begin + step, ... (count of them) are below `end`."""
    room = b.sub(end, begin)
    room = b.select(b.icmp_signed(">", room, I64(0)), room, I64(0))
    found = variable(b, room)
    with b.if_then(b.icmp_signed("!=", step, I64(1))):
        b.store(b.udiv(b.sub(b.add(room, step), I64(1)), step), found)
    return lesser(b, b.load(found), count)


steps_to = emits(steps)
"""`steps` within a kernel."""


@both
def taps_inside(b: Any, r: Any, place: Place) -> tuple[Any, tuple[Any, Any], tuple[Any, Any]]:
    """(address, planes, rows) of a row of outputs, where the window's planes and rows that exist are ranges.

    At the address is what the window's first plane and row has in column 0 of x, perhaps outside of the image.
    """
    front = b.sub(b.mul(b.udiv(place.row, r.oh), r.sd), r.pad_front)
    up = b.sub(b.mul(b.urem(place.row, r.oh), r.sh), r.pad_top)
    planes = tuple(steps(b, end, front, r.dd, r.kd) for end in (I64(0), r.d))
    rows = tuple(steps(b, end, up, r.dh, r.kh) for end in (I64(0), r.h))
    line = b.add(b.mul(b.add(b.mul(place.image, r.d), front), r.h), up)
    return b.add(r.x, b.shl(b.mul(line, b.mul(r.w, r.ldx)), I64(2))), planes, rows
