"""Do parts of a table at once: each thread of a team goes through the rows of its parts without waiting for others.

To the team it is a kernel like any other, whose shares are the parts: so a thread claims a part as it claims a share.
"""

from __future__ import annotations

from ..lang import every_tier
from .execute import ROW, lap
from .primitives import arg, call, clock, put
from .slots import PARTS

_TABLE, _STARTS, _COUNT, _TICKS = map(PARTS.at, ("table", "starts", "count", "ticks"))


@every_tier
def parts(record: int, thread: int, threads: int) -> None:
    """The rows of part `thread` of a PARTS record, and of every `threads`-th part from there."""
    table = arg(record, _TABLE)
    starts = arg(record, _STARTS)
    ticks = arg(record, _TICKS)
    part = thread
    while part < arg(record, _COUNT):
        for step in range(arg(starts, part), arg(starts, part + 1)):
            since = 0
            if ticks:
                since = clock()
            call(arg(table, ROW * step), arg(table, ROW * step + 1), 0, 1)
            if ticks:
                put(ticks, 2 * step, clock())
                lap(ticks + 16 * step, since)
        part += threads
