"""Records that the executor and the runtime share."""

from __future__ import annotations

from collections.abc import Sequence

from .record import Record

LINE = 8
"""Slots of a cache line."""

STEP = Record(
    kernel="address of the kernel; of a jump 0",
    args="address of its argument record, or of a JUMP record",
    flags="LOOK, JUMPS and TEAM_WORTH, added",
)
"""A row of a program's table."""
LOOK, JUMPS, TEAM_WORTH = 1, 2, 4
"""LOOK: look at the clock before the step, as before all jumps; if any step has it, the first has it too.
JUMPS: it is a jump. TEAM_WORTH: the steps from here to the next jump are worth waking a team for."""

JUMP = Record(
    cell="address of a byte that is true or false, or 0",
    wanted="1 or 0: jump if the byte is that; always where there is no byte",
    by="rows from here to the one that follows when it jumps; else the next row follows",
)
"""A jump from row to row. All rows before it have run to their end when the byte is read."""

PARTS = Record(
    table="address of rows, STEP by STEP, which are called as on one thread",
    starts="address of the numbers of each part's first row, and behind them that of rows",
    count="how many parts",
    ticks="address of int64 [rows, 2], or 0: when each row ended, what all its rounds took",
)
"""Parts of a table that threads do at once, each in order by itself: a step of theirs."""


def groups(parts: Sequence[int]) -> list[range]:
    """Rows that are parts of something done at once, given the number of each row's part, or 0: numbers go up in it."""
    found, start = [], 0
    for i in range(1, len(parts) + 1):
        if i == len(parts) or parts[i] < parts[i - 1] or parts[i] and not parts[i - 1]:
            found += [range(start, i)] if parts[start] else []
            start = i
    return found


PROGRAM = Record(
    table="address of its steps",
    steps="how many",
    threads="that it is for",
    ticks="address of int64 [1 + steps, 2], or 0: when it began; when each step ended, what all its rounds took",
    commit="the step from which on a run can't be stopped any more",
    limit="the most ticks of the clock that it may take",
    release="address of the interpreter's function that releases its lock",
    acquire="address of the one that takes it again",
    signals="address of the one that calls the handlers of signals",
    set_error="address of the one that sets an exception",
    late="address of the exception's type for a run that is too late",
)
NO_LIMIT = 1 << 62

CALL = Record(
    record="address of a PROGRAM record",
    keep="address of the interpreter's function that counts a reference",
    none="address of what the function returns",
)
"""The content of a Python function of a program."""
CALL_AT = 32
"""Byte offset of the content of CPython's `bytes` objects."""


def _line(name: str, /, **slots: str) -> Record:
    """Slots in a cache line of their own."""
    return Record({**slots, **{f"{name}_{i}": "free" for i in range(len(slots), LINE)}})


TEAM = (
    _line(
        "same",
        wait="address of the system's function that waits on a semaphore",
        post="address of the one that posts it",
        give_way="address of the one that lets another thread run",
        members="address of the threads' MEMBER records",
        cpu="address of the one that says on which CPU this thread is, or 0",
        ask="address of the one that asks for a thread's CPUs",
        bind="address of the one that sets them",
    )
    + _line(
        "job",
        run="number of the current run: grows with every run, -1 while the other slots of the line change",
        table="address of its first step",
        steps="how many",
        threads="in the team",
        before="`done` when it began",
        ticks="of its first step in its program's `ticks`, or 0",
        commit="of its program, counted from its first step",
        status="4 * run + RUNNING, COMMITTED or STOPPED",
    )
    + _line("count", done="shares that are done, of all runs")
)
"""A pool of threads: constants; the current run, written by its caller only; what all threads write."""
RUNNING, COMMITTED, STOPPED = range(3)
"""A run may be stopped, can't be stopped any more, was stopped."""

CPUS = 16
"""Words of 64 CPUs each."""
MEMBER = (
    _line("claim", claimed="number of the step up to which this thread's share is taken")
    + _line(
        "sleep",
        parked="1 while the thread sleeps, or is about to",
        semaphore="what wakes it",
        thread="the system's number of the thread, or 0",
        away="1 while it may not run on the CPU of the thread that woke it",
    )
    + Record({f"cpus_{i}": "else it may run on these, a bit each" for i in range(CPUS)})
)
"""A thread of a pool. Its own thread writes `claimed` most."""
