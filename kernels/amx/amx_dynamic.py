"""amx_dynamic: what gemm/dynamic_layer.py computes, on AMX tiles: bytes that were rounded by their range, times s8
weights without zero points. Exact i32 sums become f32 as there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..isa.tiers import Tier
from ..lang import Value
from .amx_conv import add_products, read
from .pack_amx import LINE, panel_bytes
from .pack_real import MT
from .real_block import RealBlock
from .rows import AMX_DYNAMIC, DYNAMIC_HEAD
from .tile_loop import PanelSize, make_loop


def make_amx_dynamic(tier: Tier, nt: int) -> Callable[..., None]:
    """The kernel for blocks of MT x nt tiles."""
    size = PanelSize(16 * nt, panel_bytes(nt, 0, DYNAMIC_HEAD), panel_bytes(nt, 1) - panel_bytes(nt, 0), LINE)
    return make_loop(AMX_DYNAMIC, size, DynamicBlock(tier, MT, nt, 1, "u8"), read)


class DynamicBlock(RealBlock):
    """Blocks of bytes with results of f32."""

    def steps(self, note: Value, r: Any, first: Value, last: Value, ahead: Value, lines: Value) -> None:
        add_products(self, note, r, panel_bytes(self.nt, 0, DYNAMIC_HEAD), (first, last), (ahead, lines))

    def again(self, note: Value, sums: Value, r: Any) -> None:
        """Bytes are never split."""
