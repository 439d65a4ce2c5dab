"""Run a table of kernels: alone, or as a team that deals out each step's shares.

Every step has as many shares as the team has threads. What a kernel computes hangs on the share and not on
who runs it, so a thread claims any share that nobody has begun, its own first: whoever is not scheduled keeps
nobody waiting, and the caller can do everything itself. Only a share that was begun is waited for.

Shares are claimed by number: the steps of all runs are counted, and a share's claim is the count of the last
step that it was taken in, so it never goes back. A share is claimed once per step, and only within its run:
when a run is over, all its shares are claimed and done. So a thread that is late finds nothing to do, and reads
nothing but the pool's own memory: it reads the table, which lives as long as its run, under a claim only.

Between steps the caller's thread looks at the clock: when a run's time is over, and now and then to let the interpreter
call the handlers of signals. A run that is stopped leaves an exception set. A team walks on to the end all the same, so
that all shares are claimed, and calls no kernels; who finds a share skipped finds all later ones skipped too.

Denormals count as zero within a run (on x86) and the caller's floating-point mode is put back after it.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types

from ..isa.tiers import Tier
from ..isa.vector import I8, I32, I64, arg, emits
from . import slots as slots

_X86 = platform.machine().lower() in ("x86_64", "amd64")
_FLUSH_DENORMALS = 0x8040
_SPINS = 2000
_LINGER = 400
_LOOK = 1 << 28 if _X86 else 1 << 21
"""Ticks from look to look: about a tenth of a second. A look takes the interpreter's lock."""


def _declare(builder: Any, name: str, returns: Any, args: list[Any]) -> Any:
    module = builder.module
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(returns, args), name)


def _indirect(builder: Any, address: Any, returns: Any, values: list[Any]) -> Any:
    kind = ir.FunctionType(returns, [value.type for value in values])
    return builder.call(builder.inttoptr(address, kind.as_pointer()), values)


@emits
def call(builder: Any, function: Any, args: Any, thread: Any, threads: Any) -> None:
    """Run one kernel."""
    _indirect(builder, function, ir.VoidType(), [args, thread, threads])


@emits
def put(builder: Any, address: Any, index: Any, value: Any) -> None:
    """Store into the index-th int64 at `address`."""
    builder.store(value, builder.gep(builder.inttoptr(address, I64.as_pointer()), [index]))


@emits(returns=types.int64)
def peek(builder: Any, address: Any) -> Any:
    """A shared number, seeing all that was written before it was."""
    return builder.load_atomic(builder.inttoptr(address, I64.as_pointer()), "seq_cst", 8)


@emits
def publish(builder: Any, address: Any, value: Any) -> None:
    """Store a shared number after all that this thread wrote before."""
    builder.store_atomic(value, builder.inttoptr(address, I64.as_pointer()), "release", 8)


@emits(returns=types.int64)
def exchange(builder: Any, address: Any, value: Any) -> Any:
    """Store a shared number before this thread reads any other; returns what was there."""
    return builder.atomic_rmw("xchg", builder.inttoptr(address, I64.as_pointer()), value, "seq_cst")


@emits(returns=types.int64)
def replace(builder: Any, address: Any, old: Any, new: Any) -> Any:
    """Store `new` where `old` is; 0 when something else was there."""
    pointer = builder.inttoptr(address, I64.as_pointer())
    found = builder.cmpxchg(pointer, old, new, "acq_rel", "acquire")
    return builder.zext(builder.extract_value(found, 1), I64)


@emits
def arrive(builder: Any, counter: Any) -> None:
    """Add one to a shared counter, publishing all that this thread wrote."""
    builder.atomic_rmw("add", builder.inttoptr(counter, I64.as_pointer()), I64(1), "acq_rel")


@emits
def advance(builder: Any, address: Any, value: Any) -> None:
    """Raise a shared number to `value` if it is less."""
    builder.atomic_rmw("max", builder.inttoptr(address, I64.as_pointer()), value, "monotonic")


@emits
def pause(builder: Any) -> None:
    """Tell the core that this thread spins."""
    if _X86:
        builder.call(_declare(builder, "llvm.x86.sse2.pause", ir.VoidType(), []), [])


@emits
def give_way(builder: Any, function: Any) -> None:
    """Let the system run another thread here: spinning longer would keep the one we wait for off the CPU."""
    _indirect(builder, function, I32, [])


@emits(returns=types.int64)
def enter_float_mode(builder: Any) -> Any:
    """Flush denormals to zero; returns the mode to restore."""
    if not _X86:
        return I64(0)
    cell = builder.alloca(I32)
    pointer = builder.bitcast(cell, I8.as_pointer())
    builder.call(_declare(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), [pointer.type]), [pointer])
    before = builder.load(cell)
    builder.store(builder.or_(before, I32(_FLUSH_DENORMALS)), cell)
    builder.call(_declare(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), [pointer.type]), [pointer])
    return builder.zext(before, I64)


@emits
def leave_float_mode(builder: Any, before: Any) -> None:
    """Restore what `enter_float_mode` returned."""
    if _X86:
        cell = builder.alloca(I32)
        builder.store(builder.trunc(before, I32), cell)
        pointer = builder.bitcast(cell, I8.as_pointer())
        builder.call(_declare(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), [pointer.type]), [pointer])


@emits(returns=types.int64)
def clock(builder: Any) -> Any:
    """A counter of constant rate."""
    name = "llvm.readcyclecounter" if _X86 else "llvm.readsteadycounter"
    return builder.call(_declare(builder, name, I64, []), [])


@emits(returns=types.int64)
def take(builder: Any, function: Any, semaphore: Any) -> Any:
    """Wait for a post and take it; not 0 when a signal came first. See `runtime/semaphore.py`."""
    return builder.sext(_indirect(builder, function, I32, [semaphore, I64(-1)]), I64)


@emits
def post(builder: Any, function: Any, semaphore: Any) -> None:
    """Wake the thread that waits on the semaphore."""
    _indirect(builder, function, I32, [semaphore, I64(1), I64(0)])


@emits(returns=types.int64)
def released(builder: Any, function: Any) -> Any:
    """Release the interpreter's lock; what `give` needs to take it again."""
    return _indirect(builder, function, I64, [])


@emits
def give(builder: Any, function: Any, value: Any) -> None:
    """Call a function of one pointer."""
    _indirect(builder, function, ir.VoidType(), [value])


@emits(returns=types.int64)
def handled(builder: Any, function: Any) -> Any:
    """Call the handlers of signals that came, with the interpreter's lock; not 0 when one raised an exception."""
    return builder.sext(_indirect(builder, function, I32, []), I64)


def execute(tier: Tier) -> Callable[..., Any]:
    """Walk a PROGRAM record's table on this thread, without the interpreter's lock, which the caller has.

    Like `team`, it returns with an exception set when the run was stopped.
    """
    RELEASE, ACQUIRE = slots.RELEASE, slots.ACQUIRE
    walk = _walk_alone()

    def kernel(record: int, thread: int, threads: int) -> None:
        state = released(arg(record, RELEASE))
        walk(record, state)
        give(arg(record, ACQUIRE), state)

    return kernel


def call_from_python(tier: Tier) -> Callable[..., Any]:
    """As `execute`, as a function that the interpreter itself can call.

    `kernel(self, ...)`: a CALL record begins CALL_AT bytes after `self`. Returns the record's `none`, or 0 with an
    exception set.
    """
    RECORD, RELEASE, ACQUIRE, KEEP, NONE = slots.RECORD, slots.RELEASE, slots.ACQUIRE, slots.KEEP, slots.NONE
    walk, at = _walk_alone(), slots.CALL_AT

    def kernel(self: int, _args: int, _more: int) -> int:
        own = self + at
        record = arg(own, RECORD)
        state = released(arg(record, RELEASE))
        stopped = walk(record, state)
        give(arg(record, ACQUIRE), state)
        if stopped:
            return 0
        give(arg(own, KEEP), arg(own, NONE))
        return arg(own, NONE)

    kernel.returns = True  # type: ignore[attr-defined]
    return kernel


def _walk_alone() -> Callable[..., Any]:
    """walk(record, state): all steps of a PROGRAM record, one after the other; 1 when the run was stopped."""
    row, interval = slots.STEP_SLOTS, _LOOK
    TABLE, STEPS, TICKS, FIRM, LIMIT = slots.TABLE, slots.STEPS, slots.TICKS, slots.FIRM, slots.LIMIT
    look = _look()

    @njit(inline="always")
    def walk(record, state):
        table = arg(record, TABLE)
        ticks = arg(record, TICKS)
        mode = enter_float_mode()
        if ticks:
            put(ticks, 0, clock())
        end = due = stopped = 0
        for step in range(arg(record, STEPS)):
            if arg(table, row * step + 2):
                now = clock()
                if step == 0:
                    end = now + arg(record, LIMIT)
                    due = _earlier(now + interval, end)
                if now >= due and step <= arg(record, FIRM):
                    leave_float_mode(mode)
                    stopped = look(record, state, now >= end)
                    if stopped:
                        break
                    mode = enter_float_mode()
                    due = _earlier(clock() + interval, end)
            call(arg(table, row * step), arg(table, row * step + 1), 0, 1)
            if ticks:
                put(ticks, step + 1, clock())
        leave_float_mode(mode)
        return stopped

    return walk


@njit(inline="always")
def _earlier(one, other):
    return one if one < other else other


def _look() -> Callable[..., Any]:
    """look(record, state, late): let signals be handled; 1 when an exception is set now, as it is for a late run."""
    RELEASE, ACQUIRE, SIGNALS = slots.RELEASE, slots.ACQUIRE, slots.SIGNALS
    RAISE, LATE = slots.RAISE, slots.LATE

    @njit(inline="always")
    def look(record, state, late):
        give(arg(record, ACQUIRE), state)
        stopped = 0
        if handled(arg(record, SIGNALS)) != 0:
            stopped = 1
        elif late:
            give(arg(record, RAISE), arg(record, LATE))
            stopped = 1
        released(arg(record, RELEASE))
        return stopped

    return look


def team(tier: Tier) -> Callable[..., Any]:
    """One thread of a pool: `kernel(TEAM record, thread, given)`.

    Thread 0 is the caller: given a PROGRAM record, it tells and wakes the others, takes part, and returns when
    all shares of all steps are done; it has the interpreter's lock, and releases it for that time. The others never
    have it, and are given the last run that is not theirs; they return when the table is 0.
    """
    AT, OF, AMONG, BEFORE, CLOCKED, UNTIL, RUN = _job()
    RELEASE, ACQUIRE = slots.RELEASE, slots.ACQUIRE
    tell, listen, wake, walk = _tell(), _listen(), _wake(), _walk()

    def kernel(pool: int, thread: int, given: int) -> None:
        state = 0
        run = given
        if thread == 0:
            state = released(arg(given, RELEASE))
            run = tell(pool, given)
        while True:
            if thread > 0:
                run = listen(pool, thread, run)
            table = peek(pool + AT)
            steps = peek(pool + OF)
            threads = peek(pool + AMONG)
            before = peek(pool + BEFORE)
            ticks = peek(pool + CLOCKED)
            firm = peek(pool + UNTIL)
            if peek(pool + RUN) == run and thread < threads:
                wake(pool, thread, threads)
                walk(pool, thread, threads, table, steps, run, before, ticks, firm, given, state)
                if thread == 0 or table == 0:
                    break
        if thread == 0:
            give(arg(given, ACQUIRE), state)

    return kernel


def _job() -> list[int]:
    own = (slots.AT, slots.OF, slots.AMONG, slots.BEFORE, slots.CLOCKED, slots.UNTIL, slots.RUN)
    return [8 * slot for slot in own]


def _tell() -> Callable[..., Any]:
    """tell(pool, record): make the record's program the run that is on; its number."""
    TABLE, STEPS, THREADS, TICKS, FIRM = slots.TABLE, slots.STEPS, slots.THREADS, slots.TICKS, slots.FIRM
    AT, OF, AMONG, BEFORE, CLOCKED, UNTIL, RUN = _job()
    DONE, FATE, OPEN = 8 * slots.DONE, 8 * slots.FATE, slots.OPEN

    @njit(inline="always")
    def tell(pool, record):
        run = peek(pool + RUN) + peek(pool + OF) + 1
        exchange(pool + RUN, -1)
        publish(pool + AT, arg(record, TABLE))
        publish(pool + OF, arg(record, STEPS))
        publish(pool + AMONG, arg(record, THREADS))
        publish(pool + BEFORE, peek(pool + DONE))
        publish(pool + CLOCKED, arg(record, TICKS))
        publish(pool + UNTIL, arg(record, FIRM))
        publish(pool + FATE, 4 * run + OPEN)
        if arg(record, TICKS):
            put(arg(record, TICKS), 0, clock())
        exchange(pool + RUN, run)
        return run

    return tell


def _listen() -> Callable[..., Any]:
    """listen(pool, thread, run): wait for a later run; its number.

    The next run may follow at once, so the thread looks out for some microseconds before it sleeps. Who parks
    then looks once more, and who tells then wakes the parked: one of them sees the other.
    """
    WAIT, PLACES, RUN = slots.WAIT, slots.PLACES, 8 * slots.RUN
    PLACE, PARKED, SEMAPHORE, linger = 8 * slots.PLACE_SLOTS, 8 * slots.PARKED, slots.SEMAPHORE, _LINGER

    @njit(inline="always")
    def listen(pool, thread, run):
        later = peek(pool + RUN)
        looked = 0
        while looked < linger and later <= run:
            pause()
            later = peek(pool + RUN)
            looked += 1
        place = arg(pool, PLACES) + PLACE * thread
        while later <= run:
            exchange(place + PARKED, 1)
            later = peek(pool + RUN)
            if later <= run or exchange(place + PARKED, 0) == 0:
                while take(arg(pool, WAIT), arg(place, SEMAPHORE)) != 0:
                    pass
                later = peek(pool + RUN)
        return later

    return listen


def _wake() -> Callable[..., Any]:
    """wake(pool, thread, threads): each thread wakes two more, so that a large team starts in logarithmic time."""
    POST, PLACES = slots.POST, slots.PLACES
    PLACE, PARKED, SEMAPHORE = 8 * slots.PLACE_SLOTS, 8 * slots.PARKED, slots.SEMAPHORE

    @njit(inline="always")
    def wake(pool, thread, threads):
        for child in range(2 * thread + 1, 2 * thread + 3):
            place = arg(pool, PLACES) + PLACE * child
            if child < threads and exchange(place + PARKED, 0):
                post(arg(pool, POST), arg(place, SEMAPHORE))

    return wake


def _walk() -> Callable[..., Any]:
    """walk(pool, thread, threads, table, steps, run, before, ticks, firm, record, state): take part in a run until it
    is over. Thread 0 says when to stop; `record` and `state` are its own."""
    DONE, PLACES, YIELD, FATE = 8 * slots.DONE, slots.PLACES, slots.YIELD, 8 * slots.FATE
    OPEN, FIXED, STOPPED = slots.OPEN, slots.FIXED, slots.STOPPED
    row, place = slots.STEP_SLOTS, 8 * slots.PLACE_SLOTS
    spins = _SPINS
    watch = _watch()

    @njit(inline="always")
    def walk(pool, thread, threads, table, steps, run, before, ticks, firm, record, state):
        done = pool + DONE
        places = arg(pool, PLACES)
        fate = pool + FATE
        stopped = 4 * run + STOPPED
        mode = enter_float_mode()
        end = due = 0
        for step in range(steps):
            if thread == 0 and arg(table, row * step + 2):
                end, due = watch(fate, run, step, firm, record, state, mode, end, due)
            if step == firm:
                replace(fate, 4 * run + OPEN, 4 * run + FIXED)
            number = run + 1 + step
            target = before + threads * (step + 1)
            share = thread
            for _ in range(threads):
                if peek(done) >= target:
                    break
                last = peek(places + place * share)
                if last < number and replace(places + place * share, last, number):
                    if peek(fate) != stopped:
                        call(arg(table, row * step), arg(table, row * step + 1), share, threads)
                    if ticks:
                        advance(ticks + 8 * (step + 1), clock())
                    arrive(done)
                share = share + 1 if share + 1 < threads else 0
            spun = 0
            while peek(done) < target:
                if spun < spins:
                    pause()
                    spun += 1
                else:
                    give_way(arg(pool, YIELD))
        leave_float_mode(mode)

    return walk


def _watch() -> Callable[..., Any]:
    """watch(fate, run, step, firm, record, state, mode, end, due): look if it is time, before a step; (end, due) anew.

    Others may be ahead, and fix the fate of the run first: then it isn't stopped.
    """
    LIMIT, OPEN, STOPPED, interval = slots.LIMIT, slots.OPEN, slots.STOPPED, _LOOK
    look = _look()

    @njit(inline="always")
    def watch(fate, run, step, firm, record, state, mode, end, due):
        now = clock()
        if step == 0:
            end = now + arg(record, LIMIT)
            due = _earlier(now + interval, end)
        opened = 4 * run + OPEN
        if now >= due and step <= firm and peek(fate) == opened:
            leave_float_mode(mode)
            late = now >= end and replace(fate, opened, 4 * run + STOPPED) != 0
            if look(record, state, late):
                replace(fate, opened, 4 * run + STOPPED)
            enter_float_mode()
            due = _earlier(clock() + interval, end)
        return end, due

    return watch
