"""amx_dynamic: what gemm/dynamic_layer.py computes, on AMX tiles: bytes that were rounded by their range, times s8
weights without zero points. Exact i32 sums become f32 as there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..isa.tiers import Tier
from ..lang import Value, traced
from .amx_conv import add_products, never_again, read
from .pack_amx import LINE, panel_bytes
from .pack_real import MT
from .real_block import block_functions
from .real_finish import NOTES
from .rows import AMX_DYNAMIC, DYNAMIC_HEAD
from .tile_loop import PanelSize, make_loop


def make_amx_dynamic(tier: Tier, nt: int) -> Callable[..., None]:
    """The kernel for blocks of MT x nt tiles."""
    head = panel_bytes(nt, 0, DYNAMIC_HEAD)

    @traced
    def steps(at: Value, r: Any, first: Value, last: Value, ahead: Value, lines: Value) -> None:
        starts = [NOTES.of_tile(at, m).a for m in range(MT)]
        add_products(at, r, NOTES.of_block(at).panel + head, starts, nt, (first, last), (ahead, lines))

    size = PanelSize(16 * nt, head, panel_bytes(nt, 1) - panel_bytes(nt, 0), LINE)
    return make_loop(tier, AMX_DYNAMIC, MT, size, block_functions(tier, nt, "u8", read, steps, never_again))
