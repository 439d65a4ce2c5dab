"""Do parts of a table at once: each thread of a team goes through the rows of its parts without waiting for others.

To the team it is a kernel like any other, whose shares are the parts: so a thread claims a part as it claims a share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..isa.tiers import Tier
from .execute import lap
from .primitives import arg, call, clock, put
from .slots import PARTS, STEP


def parts(tier: Tier) -> Callable[..., Any]:
    """`kernel(PARTS record, thread, threads)`: the rows of part `thread`, and of every `threads`-th part from there."""
    TABLE, STARTS, COUNT, TICKS = map(PARTS.at, ("table", "starts", "count", "ticks"))
    row = len(STEP)

    def kernel(record: int, thread: int, threads: int) -> None:
        table = arg(record, TABLE)
        starts = arg(record, STARTS)
        ticks = arg(record, TICKS)
        part = thread
        while part < arg(record, COUNT):
            for step in range(arg(starts, part), arg(starts, part + 1)):
                since = 0
                if ticks:
                    since = clock()
                call(arg(table, row * step), arg(table, row * step + 1), 0, 1)
                if ticks:
                    put(ticks, 2 * step, clock())
                    lap(ticks + 16 * step, since)
            part += threads

    return kernel
