"""Elements of narrow types in memory, f32 in the lanes of a vector.

Natural order: lane i holds element i. Dealt order, for four vectors of bytes at once: vector k holds the bytes
4 * i + k, which a shift and a mask take out of 32-bit words, where natural order would need two shuffles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from ..lang.both import both, raw
from .integer import binary, in_order, to_bytes
from .loops import variable
from .vector import F32, I1, I8, I16, I32, I64, Vector

ELEMENTS = {"f32": F32, "i32": I32, "i16": I16, "u16": I16, "u8": I8, "s8": I8, "bool": I8}
"""What each element type is in memory; a bool is a byte that is 0 or 1."""
LIMITS = {"u8": (0, 255), "s8": (-128, 127), "i16": (-32768, 32767)}
"""The least and the greatest number of the types that results are rounded to."""
BYTES = frozenset({"u8", "s8", "bool"})


@both
def shuffle(b: Any, x: Any, y: Any, lanes: Sequence[int]) -> Any:
    """The lanes of x and then y that are named."""
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))


@both
def halves(b: Any, x: Any) -> list[Any]:
    """The lower and the upper half of a vector."""
    n, undef = x.type.count, ir.Constant(x.type, ir.Undefined)
    return [shuffle(b, x, undef, range(start, start + n // 2)) for start in (0, n // 2)]


@both
def joined(b: Any, x: Any, y: Any) -> Any:
    """The lanes of x, then those of y."""
    return shuffle(b, x, y, range(2 * x.type.count))


def constant(like: Any, x: int) -> Any:
    """A number in every lane of a vector like this one."""
    return ir.Constant(like.type, [x] * like.type.count)


@both
def clamped(v: Vector, x: Any, low: Any, high: Any) -> Any:
    """Integers held between two vectors, as signed numbers."""
    return binary(v, "smin", binary(v, "smax", x, low), high)


# -- loads


@both
def load(v: Vector, kind: str, pointer: Any, mask: Any = None) -> Any:
    """The elements from `pointer` on as f32, in natural order. Narrow types are read whole, over the end."""
    b = v.b
    if kind == "f32":
        return v.load(pointer, mask)
    raw = ir.VectorType(ELEMENTS[kind], v.lanes)
    x = b.load(b.bitcast(pointer, raw.as_pointer()), align=1)
    if kind in ("u8", "bool", "u16"):
        x = b.zext(x, v.itype)
    elif kind != "i32":
        x = b.sext(x, v.itype)
    return b.sitofp(x, v.type)


@both
def load_one(v: Vector, kind: str, pointer: Any) -> Any:
    """The element at `pointer` as an f32 scalar."""
    one = Vector(v.b, v.tier, 1)
    return v.b.extract_element(load(one, kind, pointer), I32(0))


@both
def load_dealt(v: Vector, kind: str, pointer: Any) -> Any:
    """As many bytes from `pointer` on as v has lanes, as f32, in dealt order."""
    b, n = v.b, v.lanes // 4
    word = ir.VectorType(I32, n)
    words = b.load(b.bitcast(pointer, word.as_pointer()), align=1)
    if kind == "s8":
        parts = [b.shl(words, constant(words, 8 * (3 - k))) for k in range(4)]
        parts = [b.ashr(x, constant(x, 24)) for x in parts]
    else:
        parts = [b.lshr(words, constant(words, 8 * k)) for k in range(4)]
        parts = [b.and_(x, constant(x, 255)) for x in parts]
    x = joined(b, joined(b, *parts[:2]), joined(b, *parts[2:]))
    return b.sitofp(x, v.type)


# -- stores


class Rounding:
    """How f32 become stored numbers of a type: rounded half to even, plus the zero point, held in its limits.

    `zero`, `low` and `high` are int64. `limits`: "type" for those of the type, "bounds" for low and high; both want
    numbers below 2**31. "any" is "bounds" for all f32, with the lower bound for NaN.
    """

    def __init__(self, kind: str, zero: Any, low: Any, high: Any, limits: str) -> None:
        if limits not in ("type", "bounds", "any"):
            raise ValueError(f"limits {limits!r} are none of type, bounds, any")
        self.kind, self.zero, self.low, self.high, self.limits = kind, *map(raw, (zero, low, high)), limits

    @both
    def whole(self, v: Vector, x: Any) -> Any:
        """x rounded to int32."""
        b = v.b
        if self.limits == "any":
            x = b.select(b.fcmp_ordered(">", x, v.const(-(2.0**30))), x, v.const(-(2.0**30)))
            x = b.select(b.fcmp_ordered("<", x, v.const(2.0**30)), x, v.const(2.0**30))
        name = f"llvm.lrint.v{v.lanes}i32.v{v.lanes}f32"
        return b.call(v.declare(name, v.itype, [v.type]), [x])

    @both
    def narrow(self, v: Vector, x: Any) -> Any:
        """x as stored numbers, in the order that it has."""
        b, kind = v.b, ELEMENTS[self.kind]
        least, most = LIMITS[self.kind]
        x = self.whole(v, x)
        x = clamped(v, x, constant(x, -(1 << 16)), constant(x, 1 << 16))
        x = b.add(x, v.splat(b.trunc(self.zero, I32), v.lanes))
        low, high = (self.low, self.high) if self.limits != "type" else (I64(least), I64(most))
        x = clamped(v, x, *(v.splat(b.trunc(limit, I32), v.lanes) for limit in (low, high)))
        return b.trunc(x, ir.VectorType(kind, v.lanes))

    @both
    def packed(self, v: Vector, x: Any, dealt: bool) -> Any:
        """Four vectors as stored bytes, in natural order; `dealt`: they are in dealt order."""
        b, narrow = v.b, Vector(v.b, v.tier)
        low, high = (None, None) if self.limits == "type" else (self.low, self.high)
        rounded = to_bytes(narrow, self.zero, low, high, self.kind == "s8", self.whole)
        y = rounded([part for half in halves(b, x) for part in halves(b, half)])
        if not dealt:
            return in_order(narrow, y)
        # Within 16 bytes there are four numbers of each of the four vectors.
        order = [16 * (i // 16) + 4 * (i % 4) + i % 16 // 4 for i in range(v.lanes)]
        return shuffle(b, y, ir.Constant(y.type, ir.Undefined), order)


@both
def write(v: Vector, y: Any, pointer: Any, count: Any = None) -> None:
    """Store a vector of integers, or its first `count` < lanes elements (int64)."""
    b, n, bits = v.b, y.type.count, y.type.element.width
    wide = b.bitcast(pointer, y.type.as_pointer())
    if count is None:
        b.store(y, wide, align=1)
    elif v.tier.lanes == 16 and n <= 64:
        chosen = b.sub(b.shl(I64(1), count), I64(1))
        mask = b.bitcast(b.trunc(chosen, ir.IntType(n)) if n < 64 else chosen, ir.VectorType(I1, n))
        name = f"llvm.masked.store.v{n}i{bits}.p0"
        b.call(v.declare(name, ir.VoidType(), [y.type, wide.type, I32, mask.type]), [y, wide, I32(1), mask])
    else:
        _write_parts(b, y, b.bitcast(pointer, I8.as_pointer()), b.mul(count, I64(bits // 8)))


@both
def _write_parts(b: Any, y: Any, pointer: Any, nbytes: Any) -> None:
    """The first bytes of y: halves that are a power of two long, the largest first."""
    total = y.type.count * y.type.element.width
    rest = b.bitcast(y, ir.IntType(total))
    size = total // 16
    slot, place = variable(b, rest), variable(b, pointer)
    while size:
        with b.if_then(b.icmp_signed("!=", b.and_(nbytes, I64(size)), I64(0))):
            now, at, word = b.load(slot), b.load(place), ir.IntType(8 * size)
            b.store(b.trunc(now, word), b.bitcast(at, word.as_pointer()), align=1)
            b.store(b.lshr(now, rest.type(8 * size)), slot)
            b.store(b.gep(at, [I64(size)]), place)
        size //= 2
