"""Steps of a table that a team does at once, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ..kernels.core.slots import JUMP, JUMPS, LOOK, PARTS, STEP, TEAM_WORTH


class Group:
    """Rows of a table of steps, parts of which a team does at once: as two rows, a call of `parts` and a jump over the
    others. `range`: of these rows; `parts`: the number of each one's part, from 1 on.
    """

    def __init__(self, steps: np.ndarray, rows: range, parts: Sequence[int]) -> None:
        own = steps[rows.start : rows.stop]
        starts = np.array([i for i in range(len(parts)) if i == 0 or parts[i] != parts[i - 1]] + [len(parts)], np.int64)
        record = np.array(
            PARTS.filled(table=own.ctypes.data, starts=starts.ctypes.data, count=len(starts) - 1, ticks=0), np.int64
        )
        jump = np.array(JUMP.filled(cell=0, wanted=0, by=len(rows) - 1), np.int64)
        self.range, self._ticks = rows, record[PARTS.at("ticks") :]
        self._kept = own, starts, record, jump

    def put(self, steps: np.ndarray, parts: int) -> None:
        """Write the two rows into a team's table. parts: the address of that kernel. What follows is worth a team where
        this is: a jump that only goes on changes nothing.
        """
        own, _, record, jump = self._kept
        worth = int(steps[self.range.start, 2]) & TEAM_WORTH
        flags = int(np.bitwise_or.reduce(own[:, 2])) | worth
        if worth and self.range.stop < len(steps) and steps[self.range.stop, 0]:
            steps[self.range.stop, 2] |= TEAM_WORTH
        steps[self.range.start] = STEP.filled(kernel=parts, args=record.ctypes.data, flags=flags)
        if len(self.range) > 1:
            steps[self.range.start + 1] = STEP.filled(kernel=0, args=jump.ctypes.data, flags=LOOK | JUMPS)

    @contextmanager
    def clocked(self, found: np.ndarray) -> Iterator[None]:
        """While it lasts, ticks of its rows are counted; then `found`, a program's ticks, has them: as if they came one
        after the other, with their shares of the time that all took together.
        """
        own = np.zeros((len(self.range), 2), np.int64)
        self._ticks[0] = own.ctypes.data
        try:
            yield
        finally:
            self._ticks[0] = 0
        mine = found[self.range.start + 1 : self.range.stop + 1]
        end, took = mine[0].tolist()
        ends = np.cumsum(own[:, 1])
        if took and ends[-1]:
            ends = (ends * (took / ends[-1])).astype(np.int64)
            mine[:, 0], mine[:, 1] = end - took + ends, np.diff(ends, prepend=0)
