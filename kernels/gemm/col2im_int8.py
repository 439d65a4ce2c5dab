"""col2im_int8: the second half of a quantized transposed convolution, which sums and requantizes dot's i32 products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import loaded
from ..isa.loops import each, repeat
from ..isa.tiers import Tier
from ..isa.vector import I64, Vector, emits
from .col2im import col2im_kernel
from .requantize import scaled, store_bytes, word
from .results import Place
from .rows import COL2IM_INT8, STORES


def make_col2im_int8(tier: Tier, out: str) -> Callable[..., None]:
    """The kernel; its record is `rows.COL2IM_INT8`."""
    return col2im_kernel(tier, _finish(tier, out), _total, STORES[out])


def _total(v: Vector, x: Any, y: Any) -> Any:
    return v.b.bitcast(v.b.add(v.b.bitcast(x, v.itype), v.b.bitcast(y, v.itype)), v.type)


def _finish(tier: Tier, out: str) -> Any:
    """finish(args, row, to, to_step, n, pixels, first): the i32 of `row`, stored to y."""
    item = STORES[out]

    @emits
    def finish(b: Any, args: Any, row: Any, to: Any, to_step: Any, n: Any, pixels: Any, first: Any) -> None:
        v, r = Vector(b, tier), loaded(b, args, COL2IM_INT8)
        image, pixel, column = (b.extract_value(first, i) for i in range(3))
        factors = v.at(v.pointer(r.multipliers), column)

        def run(_: Any, state: list[Any]) -> list[Any]:
            source, target = v.pointer(state[0]), state[1]

            def one(v: Vector, i: Any, mask: Any) -> None:
                total = b.bitcast(v.load(v.at(source, i), mask), v.itype)
                real = scaled(v, total, v.at(factors, i), mask)
                at = b.add(target, b.mul(i, I64(item)))
                if out == "words":
                    v.store(word(v, total, real, r), v.pointer(at), mask)
                    return
                columns = None if mask is None else b.sub(n, i)
                place = Place(1, at, I64(0), columns, None, args, image, pixel, column)
                store_bytes(v, place, 1, [[real]], r)

            each(v, I64(0), n, one, 1)
            return [b.add(state[0], b.mul(n, I64(4))), b.add(state[1], to_step)]

        repeat(b, pixels, [row, to], run)

    return finish
