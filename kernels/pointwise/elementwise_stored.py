"""The elementwise kernel for elements of any type: f32 in the lanes, other types in memory.

The record is that of the f32 kernel (strides in elements of each tensor's own type), then a slot for each number of
the chain (f32 bits), then ROUNDING (0 for f32 and bool).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import Record
from ..isa.elements import BYTES, ELEMENTS, Rounding, load, load_dealt, load_one, write
from ..isa.loops import cover
from ..isa.tiers import Tier
from ..isa.vector import F32, I32, I64, Vector
from .chain import Chain, emit_chain
from .elementwise import Row, over_rows
from .rows import ROUNDING

NUMBER = "number"


def make(tier: Tier, chain: Chain, kinds: tuple[str, ...], out: str, limits: str) -> Callable[..., None]:
    """The kernel for a chain over inputs of these kinds: "vector:u8" or "scalar:f32" with a type of ELEMENTS,
    all tensors before all "number"s of the record. Inputs count as they are stored.

    out: "f32", "bool" (whether the chain's result is not 0) or a type of LIMITS, for which results are rounded
    half to even, the zero point is added, and they are held between limits as said in `Rounding`.
    """
    tensors = [tuple(kind.split(":")) for kind in kinds if kind != NUMBER]
    elements = [ELEMENTS[out], *(ELEMENTS[element] for _, element in tensors)]
    numbers = Record({f"{NUMBER}{i}": "f32 bits" for i in range(kinds.count(NUMBER))})

    def prepare(v: Vector, behind: Callable[[Record], Any]) -> Row:
        *bits, zero, low, high = behind(numbers + ROUNDING)
        return _prepared(v, bits, Rounding(out, zero, low, high, limits), chain, kinds, out)

    return over_rows(tier, elements, prepare)


def _prepared(v: Vector, bits: list[Any], rounding: Rounding, chain: Chain, kinds: tuple[str, ...], out: str) -> Row:
    """Writes rows, with the numbers of the record at hand."""
    b = v.b
    numbers = [b.bitcast(b.trunc(x, I32), F32) for x in bits]
    if out == "bool":
        rounding = Rounding("u8", I64(0), I64(0), I64(1), "type")
    tensors = [tuple(kind.split(":")) for kind in kinds if kind != NUMBER]
    # Dealing costs less than shuffling where any bytes can be shuffled, but all that has lanes must be dealt.
    spread_out = [out, *(element for spread, element in tensors if spread == "vector")]
    dealt = v.tier.lanes > 4 and all(element in BYTES for element in spread_out)
    # With masked stores one block is faster than several vectors; it reads bytes over the end, but no more.
    wide = v.tier.lanes == 16 and all(element in BYTES | {"f32"} for element in spread_out[1:])

    def row(xs: list[Any], y: Any, left: Any, right: Any) -> None:
        scalars = {i: load_one(v, e, xs[i]) for i, (spread, e) in enumerate(tensors) if spread == "scalar"}

        def apply(w: Vector, i: Any, rest: Any = None) -> None:
            deal = dealt and w.lanes > v.lanes
            mask = None if rest is None else w.mask(rest)

            def operand(n: int, element: str) -> Any:
                if n in scalars:
                    return w.splat(scalars[n])
                place = w.at(xs[n], i)
                return load_dealt(w, element, place) if deal else load(w, element, place, mask)

            values = [operand(n, element) for n, (_, element) in enumerate(tensors)]
            result = emit_chain(w, chain, [*values, *(w.splat(x) for x in numbers)])
            _store(w, out, rounding, result, w.at(y, i), deal, rest)

        cover(v, left, right, wide, apply)

    return row


def _store(v: Vector, out: str, rounding: Rounding, x: Any, pointer: Any, dealt: bool, rest: Any) -> None:
    if out == "f32":
        v.store(x, pointer, None if rest is None else v.mask(rest))
        return
    if out == "bool":
        x = v.b.select(v.b.fcmp_unordered("une", x, v.const(0)), v.const(1), v.const(0))
    four = v.lanes > v.tier.lanes and out in BYTES
    write(v, rounding.packed(v, x, dealt) if four else rounding.narrow(v, x), pointer, rest)
