"""Kernels along an axis of [outer, n, inner] for whole numbers and floats of 4 and 8 bytes: all elements as one, the
place of the largest or smallest, and running sums and products.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir

from ..core.record import Record, loaded, reader
from ..isa.byte_ops import choose, read, write
from ..isa.loops import loop, thread_block, variable, whole
from ..isa.tiers import Tier
from ..isa.vector import I64, emits
from .convert import TYPES
from .exact_names import ELEMENTS
from .exact_real import Real
from .exact_whole import Whole
from .rows import ARG, ARGS, FOLD, FOLDS, RUNNING, RUNS


def fold(tier: Tier, element: str) -> Callable[..., None]:
    """The kernel of FOLDS; its record is FOLD. Over nothing a sum is 0, a product 1, an extreme that of the type."""
    size = ELEMENTS[element]

    def write_part(b: Any, r: Any, name: str, o: Any, left: Any, right: Any) -> None:
        x, y = _starts(b, r, o, size, size)
        with b.if_else(b.icmp_signed("==", r.inner, I64(1))) as (row, columns):
            with row:
                _fold_row(b, tier, element, name, x, y, r.n)
            with columns:
                body = partial(_fold_columns, name=name, r=r, x=x, y=y, size=size)
                _each_column(b, tier, element, left, right, body)

    return _along(FOLD, FOLDS, write_part)


def arg(tier: Tier, element: str) -> Callable[..., None]:
    """The kernel of ARGS: y are int64; its record is ARG. A NaN counts as the largest and as the smallest."""
    size = ELEMENTS[element]

    def write_part(b: Any, r: Any, name: str, o: Any, left: Any, right: Any) -> None:
        x, y = _starts(b, r, o, size, 8)
        _each_column(b, tier, element, left, right, partial(_arg_columns, name=name, r=r, x=x, y=y, size=size))

    return _along(ARG, ARGS, write_part)


def running(tier: Tier, element: str) -> Callable[..., None]:
    """The kernel of RUNS: as many results as elements; its record is RUNNING."""
    size = ELEMENTS[element]

    def write_part(b: Any, r: Any, name: str, o: Any, left: Any, right: Any) -> None:
        start = b.mul(o, b.mul(r.n, b.mul(r.inner, I64(size))))
        x, y = b.add(r.x, start), b.add(r.y, start)
        _each_column(b, tier, element, left, right, partial(_run_columns, name=name, r=r, x=x, y=y, size=size))

    return _along(RUNNING, RUNS, write_part)


def _along(record: Record, names: tuple[str, ...], part: Callable[..., None]) -> Callable[..., None]:
    """The kernel that calls part(builder, record, operation, o, left, right) for the thread's share."""
    fields = reader(record)

    @emits
    def parts(b: Any, args: Any, first: Any, end: Any, left: Any, right: Any) -> None:
        r = loaded(b, args, record)

        def each(name: str) -> None:
            with loop(b, first, end, 1) as o:
                part(b, r, name, o, left, right)

        choose(b, r.operation, {i: partial(each, name) for i, name in enumerate(names)})

    def kernel(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        first, end, left, right = thread_block(r.outer, r.inner, thread, threads)
        parts(args, first, end, left, right)

    return kernel


def _starts(b: Any, r: Any, o: Any, x_size: int, y_size: int) -> tuple[Any, Any]:
    """Where x[o] and y[o] begin."""
    plane = b.mul(o, r.inner)
    return b.add(r.x, b.mul(b.mul(plane, r.n), I64(x_size))), b.add(r.y, b.mul(plane, I64(y_size)))


def _family(b: Any, element: str, kind: Any) -> Any:
    return (Whole if element[0] == "i" else Real)(b, element, kind)


def _kind(tier: Tier, element: str) -> Any:
    """Vectors of two registers."""
    return ir.VectorType(TYPES[element], 8 * tier.lanes // ELEMENTS[element])


def _each_column(b: Any, tier: Tier, element: str, left: Any, right: Any, body: Callable[..., None]) -> None:
    """body(builder, family, i) for vectors of columns, then for single ones."""
    start = left
    for kind in (_kind(tier, element), ir.VectorType(TYPES[element], 1)):
        end = b.add(start, whole(b, b.sub(right, start), kind.count))
        with loop(b, start, end, kind.count) as i:
            body(b, _family(b, element, kind), i)
        start = end


def _start(family: Any, name: str) -> Any:
    """What a fold begins with."""
    if name in ("sum", "prod"):
        return family.const(int(name == "prod"))
    if isinstance(family, Real):
        return family.const(-math.inf if name.startswith("max") else math.inf)
    least = 0 if name.endswith("_u") else -1 << family.bits - 1
    return family.const(least if name.startswith("max") else least - 1)


def _combined(family: Any, name: str, x: Any, y: Any) -> Any:
    name = {"sum": "add", "prod": "mul"}.get(name, name)
    return family(name.removesuffix("_u") if isinstance(family, Real) else name, x, y, None)


def _fold_row(b: Any, tier: Tier, element: str, name: str, x: Any, y: Any, n: Any) -> None:
    """Neighbors: lane by lane, then the lanes, then what is left."""
    size, wide, one = ELEMENTS[element], _kind(tier, element), ir.VectorType(TYPES[element], 1)
    many, single = _family(b, element, wide), _family(b, element, one)
    lanes = variable(b, _start(many, name))
    end = whole(b, n, wide.count)
    with loop(b, 0, end, wide.count) as i:
        b.store(_combined(many, name, b.load(lanes), read(b, b.add(x, b.mul(i, I64(size))), wide)), lanes)
    total = variable(b, _start(single, name))
    for first, last, at in ((I64(0), I64(wide.count), b.ptrtoint(lanes, I64)), (end, n, x)):
        with loop(b, first, last, 1) as i:
            b.store(_combined(single, name, b.load(total), read(b, b.add(at, b.mul(i, I64(size))), one)), total)
    write(b, b.load(total), y)


def _place(b: Any, r: Any, start: Any, row: Any, i: Any, size: int) -> Any:
    """The address of column i in a row of what begins at `start`."""
    return b.add(start, b.mul(b.add(b.mul(row, r.inner), i), I64(size)))


def _fold_columns(b: Any, family: Any, i: Any, name: str, r: Any, x: Any, y: Any, size: int) -> None:
    total = variable(b, _start(family, name))
    with loop(b, 0, r.n, 1) as row:
        b.store(_combined(family, name, b.load(total), read(b, _place(b, r, x, row, i, size), family.kind)), total)
    write(b, b.load(total), _place(b, r, y, I64(0), i, size))


def _arg_columns(b: Any, family: Any, i: Any, name: str, r: Any, x: Any, y: Any, size: int) -> None:
    index = ir.VectorType(I64, family.kind.count)
    best = variable(b, read(b, _place(b, r, x, I64(0), i, size), family.kind))
    place = variable(b, ir.Constant(index, None))
    with loop(b, 1, r.n, 1) as row:
        now, before = read(b, _place(b, r, x, row, i, size), family.kind), b.load(best)
        better = _better(b, name, now, before)
        b.store(b.select(better, now, before), best)
        undef = ir.Constant(index, ir.Undefined)
        here = b.insert_element(undef, row, ir.IntType(32)(0))
        here = b.shuffle_vector(here, undef, ir.Constant(ir.VectorType(ir.IntType(32), index.count), None))
        b.store(b.select(better, here, b.load(place)), place)
    write(b, b.load(place), _place(b, r, y, I64(0), i, 8))


def _better(b: Any, name: str, now: Any, before: Any) -> Any:
    sign = (">" if name.startswith("max") else "<") + ("=" if "last" in name else "")
    if not isinstance(now.type.element, ir.IntType):
        better = b.and_(b.fcmp_unordered(sign, now, before), b.fcmp_ordered("ord", before, before))
        return b.or_(better, b.fcmp_unordered("uno", now, now)) if "last" in name else better
    return (b.icmp_unsigned if name.endswith("_u") else b.icmp_signed)(sign, now, before)


def _run_columns(b: Any, family: Any, i: Any, name: str, r: Any, x: Any, y: Any, size: int) -> None:
    total = variable(b, _start(family, name))
    exclusive = b.icmp_signed("!=", r.exclusive, I64(0))
    with loop(b, 0, r.n, 1) as turn:
        row = b.select(b.icmp_signed("!=", r.reverse, I64(0)), b.sub(b.sub(r.n, turn), I64(1)), turn)
        before = b.load(total)
        after = _combined(family, name, before, read(b, _place(b, r, x, row, i, size), family.kind))
        write(b, b.select(exclusive, before, after), _place(b, r, y, row, i, size))
        b.store(after, total)
