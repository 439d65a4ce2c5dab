"""Where the executor and the runtime find each other's numbers: int64 slots of the records they share."""

from __future__ import annotations

from .record import Record

LINE = 8
"""Slots of a cache line."""

STEP = Record(
    kernel="address of the kernel; of a jump 0",
    args="address of its argument record, or of a JUMP record",
    flags="LOOK, JUMPS and TEAM, added",
)
"""A row of a program's table."""
LOOK, JUMPS, TEAM_WORTH = 1, 2, 4
"""Look at the clock before it, which jumps do always; if any other step has that, the first has it too. It is a jump.
The steps from here to the next jump are worth waking a team for."""

JUMP = Record(
    cell="address of a byte that is true or false, or 0",
    wanted="1 or 0: jump if the byte is that; always where there is no byte",
    by="rows to go on from here when it jumps; else the next one follows",
)
"""A jump from row to row. All rows before it have run to their end when the byte is read."""

PROGRAM = Record(
    table="address of its steps",
    steps="how many",
    threads="that it is for",
    ticks="address of int64 [1 + steps, 2], or 0: when it began; when each step ended, what all its rounds took",
    firm="the step from which on a run isn't stopped any more",
    limit="ticks of the clock that it may take",
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
"""What a Python function of a program holds."""
CALL_AT = 32
"""Where the bytes of CPython's `bytes` begin."""


def _line(name: str, /, **slots: str) -> Record:
    """Slots that have a cache line to themselves."""
    return Record({**slots, **{f"{name}_{i}": "free" for i in range(len(slots), LINE)}})


TEAM = (
    _line(
        "same",
        wait="address of the system's function that waits on a semaphore",
        post="address of the one that posts it",
        give_way="address of the one that lets another thread run",
        seats="address of the threads' SEAT records",
    )
    + _line(
        "job",
        run="number of the run that is on: grows with every run, -1 while the others of its line change",
        at="`table` of its program",
        of="`steps` of it",
        among="`threads` of it",
        before="`done` when it began",
        clocked="`ticks` of its program",
        until="`firm` of it",
        fate="4 * run + OPEN, FIXED or STOPPED",
    )
    + _line("count", done="shares that are done, of all runs")
)
"""A pool of threads: what stays; the run that is on, written by its caller only; what all write."""
OPEN, FIXED, STOPPED = range(3)
"""A run may be stopped, can't be stopped any more, was stopped."""

SEAT = _line("claim", claimed="number of the step up to which this thread's share is taken") + _line(
    "sleep", parked="1 while the thread sleeps, or is about to", semaphore="what wakes it"
)
"""A thread of a pool. Its own thread writes `claimed` most."""
