"""amx_real: f32 convolution and dense layers by products of bf16 or f16 in AMX tiles.

The input is copied as these, rows of a convolution to a band with its padding, pixels of a dense layer as they follow
one another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..isa.tiers import Tier
from ..lang import divide, smaller
from .pack_amx import LINE
from .pack_real import MT, panel_bytes_real, products
from .real_block import RealBlock
from .rows import AMX_REAL
from .split_band import Parts, split_band, split_pixels
from .tile_loop import PanelSize, make_loop


def make_amx_real(tier: Tier, nt: int, planes: int, element: str) -> Callable[..., None]:
    """The kernel for blocks of 2 x nt tiles; planes: numbers are sums of so many of the element, "bf16" or "f16", to
    which they are rounded.
    """
    head = panel_bytes_real(nt, 0, planes, element)
    line = panel_bytes_real(nt, 1, planes, element) - head
    size = PanelSize(16 * nt, head, line, products(nt, planes) * LINE)
    return make_loop(AMX_REAL, size, RealBlock(tier, MT, nt, planes, element), _make_read(tier, planes, element))


def _make_read(tier: Tier, planes: int, element: str) -> Callable[..., tuple[Any, ...]]:
    """`read` of make_loop."""
    parts, exactly = Parts(tier, planes, element), Parts(tier, planes, element, exact=True)

    def read(r: Any, scratch: Any, source: Any, oz: Any, t0: Any, t1: Any) -> tuple[Any, ...]:
        y0, odd = divide(t0, r.across), 0
        if r.in_place:
            a = source
        elif r.direct:
            first = smaller((t0 - y0 * r.across) * r.rows, r.out_w - r.rows)
            count, start = smaller(t1 * r.rows, r.out_w) - first, source + first * r.x_step
            odd = split_pixels(parts, r, scratch, start, count)
            if odd != 0:
                split_pixels(exactly, r, scratch, start, count)
            a = scratch - first * r.rs
        else:
            z0, row0 = oz * r.stride_z - r.pad_z, y0 * r.stride_y - r.pad_y
            rows = (divide(t1 - t0, r.across) - 1) * r.move_y + r.reach
            odd = split_band(parts, r, scratch, source, z0, row0, rows)
            if odd != 0:
                split_band(exactly, r, scratch, source, z0, row0, rows)
            a = scratch
        return a, y0, odd

    return read
