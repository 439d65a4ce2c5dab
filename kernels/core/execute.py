"""Run a table of kernels on the calling thread, without the interpreter's lock.

Between steps the caller's thread looks at the clock: when a run's time is over, and each tenth of a second to let the
interpreter call the handlers of signals, which takes its lock. A run that is stopped leaves an exception set. A row of
the table may be a jump.

Denormals count as zero within a run (on x86) and the caller's floating-point mode is put back after it.
"""

from __future__ import annotations

from ..lang import every_tier
from .primitives import arg, call, clock, enter_float_mode, flag, give, handled, leave_float_mode, put, released, tenth
from .slots import CALL, CALL_AT, JUMP, JUMPS, PROGRAM, STEP

ROW = len(STEP)
TABLE, STEPS, TICKS, COMMIT, LIMIT = map(PROGRAM.at, ("table", "steps", "ticks", "commit", "limit"))
RELEASE, ACQUIRE, SIGNALS = map(PROGRAM.at, ("release", "acquire", "signals"))
RAISE, LATE = map(PROGRAM.at, ("set_error", "late"))
_RECORD, _KEEP, _NONE = map(CALL.at, ("record", "keep", "none"))
_CELL, _WANTED, _BY = map(JUMP.at, ("cell", "wanted", "by"))


@every_tier
def execute(record: int, thread: int, threads: int) -> None:
    """Walk a PROGRAM record's table on this thread, without the interpreter's lock, which the caller has.

    Like `team`, it returns with an exception set when the run was stopped.
    """
    state = released(arg(record, RELEASE))
    _walk(record, state)
    give(arg(record, ACQUIRE), state)


def _called(self: int, _args: int, _more: int) -> int:
    """As `execute`, as a function that the interpreter itself can call.

    A CALL record begins CALL_AT bytes after `self`. Returns the record's `none`, or 0 with an exception set.
    """
    content = self + CALL_AT
    record = arg(content, _RECORD)
    state = released(arg(record, RELEASE))
    stopped = _walk(record, state)
    give(arg(record, ACQUIRE), state)
    if stopped:
        return 0
    give(arg(content, _KEEP), arg(content, _NONE))
    none: int = arg(content, _NONE)
    return none


_called.returns = True  # type: ignore[attr-defined]
call_from_python = every_tier(_called)


def _walk(record: int, state: int) -> int:
    """All steps of a PROGRAM record, one after the other; 1 when the run was stopped."""
    table = arg(record, TABLE)
    steps = arg(record, STEPS)
    ticks = arg(record, TICKS)
    mode = enter_float_mode()
    since = 0
    if ticks:
        since = clock()
        put(ticks, 0, since)
    end = check = stopped = step = 0
    while step < steps:
        flags = arg(table, ROW * step + 2)
        if flags:
            now = clock()
            if end == 0:
                end = now + arg(record, LIMIT)
                check = earlier(now + tenth(), end)
            if now >= check and step <= arg(record, COMMIT):
                leave_float_mode(mode)
                stopped = look(record, state, now >= end)
                if stopped:
                    break
                mode = enter_float_mode()
                check = earlier(clock() + tenth(), end)
            if flags & JUMPS:
                step += jumped(arg(table, ROW * step + 1))
                continue
        call(arg(table, ROW * step), arg(table, ROW * step + 1), 0, 1)
        step += 1
        if ticks:
            put(ticks, 2 * step, clock())
            since = lap(ticks + 16 * step, since)
    leave_float_mode(mode)
    return stopped


def jumped(jump: int) -> int:
    """Rows from a jump to the step that follows it."""
    cell = arg(jump, _CELL)
    by: int = arg(jump, _BY)
    if cell and (flag(cell) != 0) != arg(jump, _WANTED):
        by = 1
    return by


def lap(ticks: int, since: int) -> int:
    """Add the time since then to the time that a step took; when it ended."""
    ended: int = arg(ticks, 0)
    put(ticks, 1, arg(ticks, 1) + ended - since)
    return ended


def earlier(one: int, other: int) -> int:
    return one if one < other else other


def look(record: int, state: int, late: int) -> int:
    """Handle signals, and set an exception for a late run; 1 when one is set now."""
    give(arg(record, ACQUIRE), state)
    stopped = 0
    if handled(arg(record, SIGNALS)) != 0:
        stopped = 1
    elif late:
        give(arg(record, RAISE), arg(record, LATE))
        stopped = 1
    released(arg(record, RELEASE))
    return stopped
