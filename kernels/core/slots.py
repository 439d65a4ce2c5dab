"""Where the executor and the runtime find each other's numbers: int64 slots of the records they share.

A table has one row of STEP_SLOTS per step: the kernel's address, its args record's address, and whether to look at the
clock before it; if any other step has that, the first has it too.

A pool's record has three cache lines: what stays, the run that is on (written by its caller only), and the
count of shares done (written by all). `run` grows with every run, and is -1 while the others of its line
change. Each thread of a pool has a place of two lines: `claimed`, the number of the step up to which its share
is taken, which its own thread writes most, and what wakes it.
"""

STEP_SLOTS = 3

PROGRAM = ("table", "steps", "threads", "ticks", "firm", "limit", "release", "acquire", "signals", "raise", "late")
TABLE, STEPS, THREADS, TICKS, FIRM, LIMIT, RELEASE, ACQUIRE, SIGNALS, RAISE, LATE = range(11)
"""From step `firm` on a run isn't stopped any more; `limit`: ticks of the clock that it may take. Then addresses of the
interpreter's functions that release its lock, take it again, call the handlers of signals, and set an exception; and of
the exception's type for a run that is too late."""
NO_LIMIT = 1 << 62

CALL = ("record", "keep", "none")
RECORD, KEEP, NONE = range(3)
"""What a Python function of a program holds: the PROGRAM record; the addresses of the interpreter's function that
counts a reference, and of what the function returns."""
CALL_AT = 32
"""Where the bytes of CPython's `bytes` begin."""

TEAM = (
    *("wait", "post", "yield", "places", "", "", "", ""),
    *("run", "at", "of", "among", "before", "clocked", "until", "fate"),
    "done",
)
TEAM_SLOTS = 24
WAIT, POST, YIELD, PLACES = range(4)
RUN, AT, OF, AMONG, BEFORE, CLOCKED, UNTIL, FATE = range(8, 16)
DONE = 16
OPEN, FIXED, STOPPED = range(3)
"""`fate` is 4 * run + one of these: the run may be stopped, can't be stopped any more, was stopped."""

PLACE_SLOTS = 16
CLAIMED, PARKED, SEMAPHORE = 0, 8, 9
