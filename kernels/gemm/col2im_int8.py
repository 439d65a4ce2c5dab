"""col2im_int8: the second half of a quantized transposed convolution, which sums and requantizes dot's i32 products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import fields
from ..isa.tiers import Tier
from ..lang import F32, I32, I64, Value, along, repeat, traced
from .col2im import col2im_kernel
from .requantize import scaled, store_bytes, word
from .results import Destination
from .rows import COL2IM_INT8, STORES


def make_col2im_int8(tier: Tier, out: str) -> Callable[..., None]:
    """The kernel; its record is `rows.COL2IM_INT8`."""
    return col2im_kernel(tier, _finish(tier, out), lambda x, y: (x.bits(I32) + y.bits(I32)).bits(F32), STORES[out])


def _finish(tier: Tier, out: str) -> Any:
    """`finish` of col2im_kernel, of sums in i32."""
    item, f32 = STORES[out], F32.vector(tier.lanes)

    @traced
    def finish(args: Value, row: Value, area: Any, lines: Any) -> None:
        r, (image, pixel, column, pixels, n), (to, to_step) = fields(args, COL2IM_INT8), area, lines
        factors = F32.at(r.multipliers) + column

        def run(_: Value, state: list[Value]) -> list[Value]:
            row, to = state
            for some, i, mask in along(f32, 0, n, 1):
                total = some[F32.at(row) + i, mask].bits(I32)
                real = scaled(total, factors + i, mask)
                at = to + i * item
                if out == "words":
                    some[at, mask] = word(total, real, r)
                else:
                    columns = None if mask is None else n - i
                    dest = Destination(1, at, I64(0), columns, None, args, image, pixel, column)
                    store_bytes(dest, 1, [[real]], r)
            return [row + n * 4, to + to_step]

        repeat(pixels, [row, to], run)

    return finish
