"""pack_gates: packs weights that are only known at run time as pack_recurrent.py packs constant ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
        vector, stop = share(r.directions * blocks * r.gates, thread, threads)
        while vector < stop:
            panel, gate = vector // r.gates, vector % r.gates
            direction, block = panel // blocks, panel % blocks
            to = r.packed + panel * (1 + r.lines) * line + gate * lanes * 4
            for lane in range(lanes):
                _column(r, to + 4 * lane, line, direction, gate, block * lanes + lane)
            vector += 1

    return pack


def _column(r: Any, to: int, line: int, direction: int, gate: int, unit: int) -> None:
    """A column of a panel, `line` bytes from number to number: the bias and the weights of a hidden unit's gate. Behind
    the last unit, and the last weight, are zeros.
    """
    row, here = gate * r.hidden + unit, unit < r.hidden
    if here and r.bias != 0:
        F32[to] = F32[r.bias + direction * r.bias_direction + 4 * row]
        if gate < r.summed:
            F32[to] = F32[to] + F32[r.more + direction * r.bias_direction + 4 * row]
    else:
        F32[to] = 0.0
    for k in range(smaller(r.k, r.lines)):
        into = to + (1 + k) * line
        if here:
            F32[into] = F32[r.weights + direction * r.weights_direction + row * r.weights_row + 4 * k]
        else:
            F32[into] = 0.0
    for k in range(r.k, r.lines):
        F32[to + (1 + k) * line] = 0.0
