"""Kernels that change the element type: cast, and the exchange of signed and unsigned bytes.

The record is that of an elementwise kernel with one input; that of a cast goes on with CAST.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from llvmlite import ir

from ..core.record import loaded
from ..isa.byte_ops import choose
from ..isa.elements import constant, write
from ..isa.loops import cover, loop, whole
from ..isa.tiers import Tier
from ..isa.vector import F32, I8, I16, I32, I64, Vector, emits
from .elementwise import Row, over_planes, over_rows
from .rows import CAST, LOOPS, OPERAND, TARGETS

F64 = ir.DoubleType()
TYPES = {"i8": I8, "i16": I16, "i32": I32, "i64": I64, "f16": I16, "f32": F32, "f64": F64, "bool": I8, "u32": I32,
         "u64": I64}  # fmt: skip
"""What numbers are in memory. f16 is converted from and to f32 by integer arithmetic, alike on all tiers."""


def flip(tier: Tier) -> Callable[..., None]:
    """The kernel that turns the high bit of each byte: u8 with zero point z becomes s8 with z - 128, and back."""

    def prepare(v: Vector, _: Any) -> Row:
        def row(xs: list[Any], y: Any, left: Any, right: Any) -> None:
            b = v.b

            def apply(w: Vector, i: Any, rest: Any = None) -> None:
                kind = ir.VectorType(I8, w.lanes)
                x = b.load(b.bitcast(w.at(xs[0], i), kind.as_pointer()), align=1)
                write(w, b.xor(x, ir.Constant(kind, [0x80] * w.lanes)), w.at(y, i), rest)

            cover(v, left, right, v.tier.lanes == 16, apply)

        return row

    return over_rows(tier, [I8, I8], prepare)


def cast(tier: Tier, source: str) -> Callable[..., None]:
    """The kernel that converts NUMBERS to what its record says, as C does: floats to integers towards 0, integers by
    their low bits, and to bool whatever is not 0.
    """

    @emits
    def plane(b: Any, args: Any, i0: Any, i1: Any, i2: Any, row: Any, count: Any, left: Any, right: Any) -> None:
        out, x = loaded(b, args, LOOPS), loaded(b, args, OPERAND, len(LOOPS))
        how = loaded(b, args, CAST, len(LOOPS) + len(OPERAND))
        first, start = (
            reduce(b.add, [b.mul(i, step) for i, step in zip((i0, i1, i2, row), steps, strict=True)])
            for steps in ((out.y_d0, out.y_d1, out.y_d2, out.y_row), (x.d0, x.d1, x.d2, x.row))
        )
        v = Vector(b, tier)

        def rows(target: str, signed: bool) -> None:
            y, xs = v.at(v.pointer(out.y, TYPES[target]), first), v.at(v.pointer(x.x, TYPES[source]), start)
            with loop(b, 0, count, 1) as r:
                to, at = v.at(y, b.mul(r, out.y_row)), v.at(xs, b.mul(r, x.row))
                _cast_row(v, source, target, signed, at, to, left, right)

        def to(target: str) -> None:
            if not _sign_matters(source, target):
                rows(target, True)
                return
            with b.if_else(b.icmp_signed("!=", how.signed, I64(0))) as branches:
                for branch, signed in zip(branches, (True, False), strict=True):
                    with branch:
                        rows(target, signed)

        choose(b, how.target, {i: partial(to, target) for i, target in enumerate(TARGETS)})

    return over_planes(plane)


def _sign_matters(source: str, target: str) -> bool:
    """Whether integers with a sign become other bits: not where they are cut off, or compared with 0."""
    if source[0] != "i" or target == "bool":
        return False
    return target[0] == "f" or _bits(TYPES[source]) < _bits(TYPES[target])


def _cast_row(v: Vector, source: str, target: str, signed: bool, x: Any, y: Any, left: Any, right: Any) -> None:
    b, start = v.b, left
    for lanes in (v.lanes, 1):
        kind, result = (ir.VectorType(TYPES[t], lanes) for t in (source, target))
        end = b.add(start, whole(b, b.sub(right, start), lanes))
        with loop(b, start, end, lanes) as i:
            value = b.load(b.bitcast(v.at(x, i), kind.as_pointer()), align=1)
            value = _converted(b, value, source, target, signed, result)
            b.store(value, b.bitcast(v.at(y, i), result.as_pointer()), align=1)
        start = end


def _converted(b: Any, x: Any, source: str, target: str, signed: bool, result: Any) -> Any:
    """A vector of `source` as one of `target`."""
    lanes = x.type.count
    single = ir.VectorType(F32, lanes)
    if source == "f16":
        x = widened(b, x, single)
        return x if target == "f32" else _converted(b, x, "f32", target, signed, result)
    if source == target:
        return x
    if target == "f16":
        if source == "f64":
            x = _to_odd(b, x)
        return halved(b, x if source == "f32" else _converted(b, x, source, "f32", signed, single), result)
    if target == "bool":
        zero = ir.Constant(x.type, None)
        return b.zext(b.fcmp_unordered("une", x, zero) if source[0] == "f" else b.icmp_signed("!=", x, zero), result)
    if source[0] == "f" and target[0] != "f":
        return _cut(b, x, target, result)
    narrows = _bits(x.type.element) > _bits(result.element)
    if source[0] == "f":
        return (b.fptrunc if narrows else b.fpext)(x, result)
    if target[0] == "f":
        return (b.sitofp if signed else b.uitofp)(x, result)
    if x.type == result:
        return x
    return b.trunc(x, result) if narrows else (b.sext if signed else b.zext)(x, result)


def _cut(b: Any, x: Any, target: str, result: Any) -> Any:
    """Floats as integers, towards 0. What a type can't hold is the processor's choice, for narrow ones after int32, as
    NumPy has it.
    """
    if target[0] == "u":
        top, count = result.element.width - 1, x.type.count
        half = ir.Constant(x.type, [2.0**top] * count)
        large = b.fcmp_ordered(">=", x, half)
        low = b.fptosi(b.select(large, b.fsub(x, half), x), result)
        return b.select(large, b.xor(low, ir.Constant(result, [-1 << top] * count)), low)
    wide = {"i32": I32, "i64": I64}.get(target, I32)
    if wide is result.element:
        return b.fptosi(x, result)
    return b.trunc(b.fptosi(x, ir.VectorType(wide, x.type.count)), result)


def _to_odd(b: Any, x: Any) -> Any:
    """f64 of which f32 holds all bits: what it lacks makes the last one odd, so that rounding once more is right."""
    bits, count = ir.VectorType(I64, x.type.count), x.type.count
    last = ir.Constant(bits, [1 << 29] * count)
    raw = b.bitcast(x, bits)
    lost = b.icmp_unsigned("!=", b.and_(raw, ir.Constant(bits, [(1 << 29) - 1] * count)), ir.Constant(bits, None))
    kept = b.and_(raw, ir.Constant(bits, [-1 << 29] * count))
    return b.bitcast(b.select(lost, b.or_(kept, last), kept), x.type)


def widened(b: Any, x: Any, result: Any) -> Any:
    """f16 as f32: exponents grow by 112, twice so for infinities and NaN; denormals are numbers of 2**-24."""
    whole_ = ir.VectorType(I32, result.count)
    x = b.zext(x, whole_)
    size = b.and_(x, constant(x, 0x7FFF))
    wide = b.add(b.shl(size, constant(x, 13)), constant(x, 112 << 23))
    special = b.icmp_unsigned(">=", size, constant(x, 0x7C00))
    wide = b.select(special, b.add(wide, constant(x, 112 << 23)), wide)
    small = b.fmul(b.sitofp(size, result), ir.Constant(result, [2.0**-24] * result.count))
    wide = b.select(b.icmp_unsigned("<", size, constant(x, 0x400)), b.bitcast(small, whole_), wide)
    return b.bitcast(b.or_(wide, b.shl(b.and_(x, constant(x, 0x8000)), constant(x, 16))), result)


def halved(b: Any, x: Any, result: Any) -> Any:
    """f32 as f16, rounded half to even; what is too large becomes infinite."""
    whole_ = ir.VectorType(I32, result.count)
    bits = b.bitcast(x, whole_)
    size = b.and_(bits, constant(bits, 0x7FFFFFFF))
    odd = b.and_(b.lshr(size, constant(bits, 13)), constant(bits, 1))
    near = b.add(b.sub(size, constant(bits, 112 << 23)), b.add(odd, constant(bits, 0xFFF)))
    half = b.lshr(near, constant(bits, 13))
    # Added to 0.5, numbers below 2**-14 are rounded to whole ones of 2**-24, which are the last bits then.
    moved = b.fadd(b.bitcast(size, x.type), ir.Constant(x.type, [0.5] * result.count))
    small = b.sub(b.bitcast(moved, whole_), constant(bits, 0x3F000000))
    half = b.select(b.icmp_unsigned("<", size, constant(bits, 0x38800000)), small, half)
    half = b.select(b.icmp_unsigned(">=", size, constant(bits, 0x47800000)), constant(bits, 0x7C00), half)
    half = b.select(b.icmp_unsigned(">", size, constant(bits, 0x7F800000)), constant(bits, 0x7E00), half)
    return b.trunc(b.or_(half, b.and_(b.lshr(bits, constant(bits, 16)), constant(bits, 0x8000))), result)


def _bits(kind: Any) -> int:
    return {F32: 32, F64: 64}.get(kind) or kind.width
