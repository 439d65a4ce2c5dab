"""Elements of narrow types in memory, f32 in the lanes of a vector.

Natural order: lane i holds element i. Dealt order, for four vectors of bytes at once: vector k holds the bytes
4 * i + k, which a shift and a mask take out of 32-bit words, where natural order would need two shuffles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..lang import Value, called, halves, intrinsic, joined, larger, shuffle, smaller
from ..lang.types import BF16, F32, I8, I16, I32, I64, U8, U16, U32, Type
from .integer import in_order, to_bytes

ELEMENTS = {"f32": F32, "bf16": BF16, "i32": I32, "i16": I16, "u16": U16, "u8": U8, "s8": I8, "bool": U8}
"""The type in memory of each element type; a bool is a byte that is 0 or 1."""
LIMITS = {"u8": (0, 255), "s8": (-128, 127), "i16": (-32768, 32767)}
"""The least and the greatest number of the types that results are rounded to."""
BYTES = frozenset({"u8", "s8", "bool"})


# -- loads


def load(f32: Type, kind: str, place: Value, mask: Value | None = None) -> Value:
    """The elements at `place` as f32, in natural order. Narrow integers are loaded as whole words, maybe beyond the
    end.
    """
    element = ELEMENTS[kind]
    if element.real:
        return element.like(f32)[place, mask].to(F32)
    return element.like(f32)[place].to(I32).to(F32)


def load_one(kind: str, place: Value) -> Value:
    """One element as f32."""
    return load(F32.vector(1), kind, place)[0]


def load_dealt(f32: Type, kind: str, place: Value) -> Value:
    """As many bytes at `place` as the vector has lanes, as f32, in dealt order."""
    words = U32.vector(f32.lanes // 4)[place]
    if kind == "s8":
        parts = [words << 8 * (3 - k) for k in range(4)]
        parts = [x.signed >> 24 for x in parts]
    else:
        parts = [words >> 8 * k for k in range(4)]
        parts = [(x & 255).signed for x in parts]
    return joined(*parts).to(F32)


# -- stores


@dataclass(frozen=True)
class Rounding:
    """Converts f32 to stored numbers of a type: rounded half to even, plus the zero point, clamped.

    `zero`, `low` and `high` are int64. `limits`: "type" clamps to the type's range, "bounds" to low and high; both for
    numbers below 2**31. "any" is "bounds" for all f32, with the lower bound for NaN.
    """

    kind: str
    zero: Value
    low: Value
    high: Value
    limits: str

    def __post_init__(self) -> None:
        if self.limits not in ("type", "bounds", "any"):
            raise ValueError(f"limits {self.limits!r} are none of type, bounds, any")

    def whole(self, x: Value) -> Value:
        """x rounded to int32."""
        if self.limits == "any":
            x = smaller(larger(x, -(2.0**30)), 2.0**30)
        lanes = x.lanes
        return called(f"llvm.lrint.v{lanes}i32.v{lanes}f32", I32.like(x.type), x)

    def narrow(self, x: Value) -> Value:
        """x as stored numbers, in x's order."""
        least, most = LIMITS[self.kind]
        x = _clamped(self.whole(x), -(1 << 16), 1 << 16)
        x = x + self.zero.to(I32)
        low, high = (self.low, self.high) if self.limits != "type" else (I64(least), I64(most))
        return _clamped(x, x.type(low.to(I32)), x.type(high.to(I32))).to(ELEMENTS[self.kind])

    def packed(self, x: Value, dealt: bool) -> Value:
        """Four vectors as stored bytes, in natural order; `dealt`: they are in dealt order."""
        low, high = (None, None) if self.limits == "type" else (self.low, self.high)
        rounded = to_bytes(self.zero, low, high, self.kind == "s8", self.whole)
        y = rounded([part for half in halves(x) for part in halves(half)])
        if not dealt:
            return in_order(y)
        # Within 16 bytes there are four numbers of each of the four vectors.
        return shuffle(y, [16 * (i // 16) + 4 * (i % 4) + i % 16 // 4 for i in range(x.lanes)])


def _clamped(x: Value, low: Any, high: Any) -> Value:
    return intrinsic("smin", intrinsic("smax", x, low), high)
