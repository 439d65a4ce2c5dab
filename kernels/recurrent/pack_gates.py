"""pack_gates: packs weights that are only known at run time as pack_recurrent.py packs constant ones."""

from __future__ import annotations

from collections.abc import Callable

from ..core.record import fields
from ..isa.tiers import Tier
from ..lang import F32, pieces, share, smaller
from .rows import PACK


def make(tier: Tier) -> Callable[..., None]:
    """The kernel; its record is `rows.PACK`."""
    lanes = tier.lanes

    def pack(args: int, thread: int, threads: int) -> None:
        r = fields(args, PACK)
        blocks = pieces(r.hidden, lanes)
        line = r.gates * lanes * 4
        unit, stop = share(r.directions * blocks * r.gates, thread, threads)
        while unit < stop:
            panel, gate = unit // r.gates, unit % r.gates
            d, block = panel // blocks, panel % blocks
            to = r.packed + panel * (1 + r.lines) * line + gate * lanes * 4
            for lane in range(lanes):
                row = gate * r.hidden + block * lanes + lane
                at = to + 4 * lane
                here = block * lanes + lane < r.hidden
                if here and r.bias != 0:
                    F32[at] = F32[r.bias + d * r.bias_direction + 4 * row]
                    if gate < r.summed:
                        F32[at] = F32[at] + F32[r.more + d * r.bias_direction + 4 * row]
                else:
                    F32[at] = 0.0
                for k in range(smaller(r.k, r.lines)):
                    into = at + (1 + k) * line
                    if here:
                        F32[into] = F32[r.weights + d * r.weights_direction + row * r.weights_row + 4 * k]
                    else:
                        F32[into] = 0.0
                for k in range(r.k, r.lines):
                    F32[at + (1 + k) * line] = 0.0
            unit += 1

    return pack
