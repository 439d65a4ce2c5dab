"""pack_gates: packs weights that are only known at run time as pack.py packs constant ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import reader
from ..isa.loops import pieces, smaller, thread_range
from ..isa.tiers import Tier
from ..isa.vector import F32, emits
from .rows import PACK


def make(tier: Tier) -> Callable[..., None]:
    """The kernel; its record is `rows.PACK`."""
    fields, lanes = reader(PACK), tier.lanes

    def pack(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        blocks = pieces(r.hidden, lanes)
        line = r.gates * lanes * 4
        unit, stop = thread_range(r.directions * blocks * r.gates, thread, threads)
        while unit < stop:
            panel, gate = unit // r.gates, unit % r.gates
            d, block = panel // blocks, panel % blocks
            to = r.packed + panel * (1 + r.lines) * line + gate * lanes * 4
            for lane in range(lanes):
                row = gate * r.hidden + block * lanes + lane
                at = to + 4 * lane
                here = block * lanes + lane < r.hidden
                if here and r.bias != 0:
                    copy(at, r.bias + d * r.bias_direction + 4 * row)
                    if gate < r.summed:
                        add(at, r.more + d * r.bias_direction + 4 * row)
                else:
                    clear(at)
                for k in range(smaller(r.k, r.lines)):
                    if here:
                        copy(at + (1 + k) * line, r.weights + d * r.weights_direction + row * r.weights_row + 4 * k)
                    else:
                        clear(at + (1 + k) * line)
                for k in range(r.k, r.lines):
                    clear(at + (1 + k) * line)
            unit += 1

    return pack


def _f32(b: Any, address: Any) -> Any:
    return b.inttoptr(address, F32.as_pointer())


@emits
def copy(b: Any, to: Any, at: Any) -> None:
    """One f32."""
    b.store(b.load(_f32(b, at)), _f32(b, to))


@emits
def add(b: Any, to: Any, at: Any) -> None:
    """One f32 to another."""
    b.store(b.fadd(b.load(_f32(b, to)), b.load(_f32(b, at))), _f32(b, to))


@emits
def clear(b: Any, to: Any) -> None:
    b.store(F32(0.0), _f32(b, to))
