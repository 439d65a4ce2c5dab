"""Run a table of kernels as a team of threads, which deals out each step's shares.

Every step has as many shares as the team has threads. What a kernel computes hangs on the share and not on
who runs it, so a thread claims any share that nobody has begun, its own first: whoever is not scheduled keeps
nobody waiting, and the caller can do everything itself. Only a share that was begun is waited for.

Shares are claimed by number: the steps of all runs are counted, and a share's claim is the count of the last
step that it was taken in, so it never goes back. A share is claimed once per step, and only within its run:
when a run is over, all its shares are claimed and done. So a thread that is late finds nothing to do, and reads
nothing but the pool's own memory: it reads the table, which lives as long as its run, under a claim only.

What lies between two jumps is a run of its own to the pool. Its caller alone reads the jumps; where what follows isn't
worth a team, it runs that alone.

A run is stopped as `execute.py` says. The team walks on to the end all the same, so that all shares are claimed, and
calls no kernels; who finds a share skipped finds all later ones skipped too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..isa.tiers import Tier
from .execute import earlier, jumps, lap, look_at
from .primitives import (
    advance,
    arg,
    arrive,
    call,
    clock,
    enter_float_mode,
    exchange,
    give,
    give_way,
    leave_float_mode,
    pause,
    peek,
    post,
    publish,
    put,
    released,
    replace,
    take,
    tenth,
)
from .slots import FIXED, JUMPS, LOOK, OPEN, PROGRAM, SEAT, STEP, STOPPED, TEAM, TEAM_WORTH

_SPINS = 2000
_LINGER = 400
_JOB = ("at", "of", "among", "before", "clocked", "until", "run")


def team(tier: Tier) -> Callable[..., Any]:
    """One thread of a pool: `kernel(TEAM record, thread, given)`.

    Thread 0 is the caller: given a PROGRAM record, it tells and wakes the others, takes part, and returns when
    all shares of all steps are done; it has the interpreter's lock, and releases it for that time. The others never
    have it, and are given the last run that is not theirs; they return when the table is 0.
    """
    AT, OF, AMONG, BEFORE, CLOCKED, UNTIL, RUN = _bytes_at(*_JOB)
    RELEASE, ACQUIRE = map(PROGRAM.at, ("release", "acquire"))
    tell, listen, wake, walk, go_on = _tell(), _listen(), _wake(), _walk(), _go_on()

    def kernel(pool: int, thread: int, given: int) -> None:
        state = first = end = due = 0
        run = given
        if thread == 0:
            state = released(arg(given, RELEASE))
            run = tell(pool, given, 0)
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
                end, due = walk(pool, thread, threads, table, steps, run, before, ticks, firm, given, state, end, due)
                if thread == 0:
                    first, end, due = go_on(pool, run, given, state, first + steps, end, due)
                    if first < 0:
                        break
                    run = tell(pool, given, first)
                elif table == 0:
                    break
        if thread == 0:
            give(arg(given, ACQUIRE), state)

    return kernel


def _bytes_at(*names: str) -> list[int]:
    """Where slots of a TEAM record begin."""
    return [8 * TEAM.at(name) for name in names]


def _tell() -> Any:
    """tell(pool, record, first): make the steps of the record's program from `first` on, up to the next jump, the run
    that is on; its number."""
    TABLE, STEPS, THREADS, TICKS, FIRM = map(PROGRAM.at, ("table", "steps", "threads", "ticks", "firm"))
    row = len(STEP)
    AT, OF, AMONG, BEFORE, CLOCKED, UNTIL, RUN = _bytes_at(*_JOB)
    DONE, FATE = _bytes_at("done", "fate")

    def tell(pool: int, record: int, first: int) -> int:
        table = arg(record, TABLE)
        after = first
        while after < arg(record, STEPS) and not arg(table, row * after + 2) & JUMPS:
            after += 1
        threads = arg(record, THREADS)
        ticks = arg(record, TICKS)
        if ticks:
            ticks += 16 * first
            put(ticks, 0, clock())
        if table:
            if after == first or not arg(table, row * first + 2) & TEAM_WORTH:
                threads = 1
            table += 8 * row * first
        run: int = peek(pool + RUN) + peek(pool + OF) + 1
        exchange(pool + RUN, -1)
        publish(pool + AT, table)
        publish(pool + OF, after - first)
        publish(pool + AMONG, threads)
        publish(pool + BEFORE, peek(pool + DONE))
        publish(pool + CLOCKED, ticks)
        publish(pool + UNTIL, arg(record, FIRM) - first)
        publish(pool + FATE, 4 * run + OPEN)
        exchange(pool + RUN, run)
        return run

    return tell


def _go_on() -> Any:
    """go_on(pool, run, record, state, step, end, due): where the caller's program goes on when its steps before `step`
    have run, or -1; (step, end, due) anew."""
    (FATE,) = _bytes_at("fate")
    TABLE, STEPS, FIRM, LIMIT = map(PROGRAM.at, ("table", "steps", "firm", "limit"))
    row = len(STEP)
    look, jumped = look_at(), jumps()

    def go_on(pool: int, run: int, record: int, state: int, step: int, end: int, due: int) -> tuple[int, int, int]:
        table = arg(record, TABLE)
        if peek(pool + FATE) == 4 * run + STOPPED:
            step = -1
        while 0 <= step and step < arg(record, STEPS) and arg(table, row * step + 2) & JUMPS:
            now = clock()
            if end == 0:
                end = now + arg(record, LIMIT)
                due = earlier(now + tenth(), end)
            stopped = 0
            if now >= due and step <= arg(record, FIRM):
                stopped = look(record, state, now >= end)
                due = earlier(clock() + tenth(), end)
            if stopped:
                step = -1
            else:
                step += jumped(arg(table, row * step + 1))
        if step >= arg(record, STEPS):
            step = -1
        return step, end, due

    return go_on


def _listen() -> Any:
    """listen(pool, thread, run): wait for a later run; its number.

    The next run may follow at once, so the thread looks out for some microseconds before it sleeps. Who parks
    then looks once more, and who tells then wakes the parked: one of them sees the other.
    """
    WAIT, SEATS, SEMAPHORE = TEAM.at("wait"), TEAM.at("seats"), SEAT.at("semaphore")
    SIZE, PARKED, linger = 8 * len(SEAT), 8 * SEAT.at("parked"), _LINGER
    (RUN,) = _bytes_at("run")

    def listen(pool: int, thread: int, run: int) -> int:
        later: int = peek(pool + RUN)
        looked = 0
        while looked < linger and later <= run:
            pause()
            later = peek(pool + RUN)
            looked += 1
        seat = arg(pool, SEATS) + SIZE * thread
        while later <= run:
            exchange(seat + PARKED, 1)
            later = peek(pool + RUN)
            if later <= run or exchange(seat + PARKED, 0) == 0:
                while take(arg(pool, WAIT), arg(seat, SEMAPHORE)) != 0:
                    pass
                later = peek(pool + RUN)
        return later

    return listen


def _wake() -> Any:
    """wake(pool, thread, threads): each thread wakes two more, so that a large team starts in logarithmic time."""
    POST, SEATS, SEMAPHORE = TEAM.at("post"), TEAM.at("seats"), SEAT.at("semaphore")
    SIZE, PARKED = 8 * len(SEAT), 8 * SEAT.at("parked")

    def wake(pool: int, thread: int, threads: int) -> None:
        for child in range(2 * thread + 1, 2 * thread + 3):
            seat = arg(pool, SEATS) + SIZE * child
            if child < threads and exchange(seat + PARKED, 0):
                post(arg(pool, POST), arg(seat, SEMAPHORE))

    return wake


def _walk() -> Any:
    """walk(pool, thread, threads, table, steps, run, before, ticks, firm, record, state, end, due): take part in a run
    until it is over; (end, due) anew. Thread 0 says when to stop and measures; `record`, `state` and what follows are
    its own."""
    DONE, FATE = _bytes_at("done", "fate")
    SEATS, GIVE_WAY = map(TEAM.at, ("seats", "give_way"))
    row, size, spins = len(STEP), 8 * len(SEAT), _SPINS
    watch = _watch()

    def walk(
        pool: int, thread: int, threads: int, table: int, steps: int, run: int, before: int,
        ticks: int, firm: int, record: int, state: int, end: int, due: int,
    ) -> tuple[int, int]:  # fmt: skip
        done = pool + DONE
        seats = arg(pool, SEATS)
        fate = pool + FATE
        stopped = 4 * run + STOPPED
        mode = enter_float_mode()
        since = 0
        if ticks and thread == 0:
            since = arg(ticks, 0)
        for step in range(steps):
            if thread == 0 and arg(table, row * step + 2) & LOOK:
                end, due = watch(fate, run, step, firm, record, state, mode, end, due)
            if step == firm:
                replace(fate, 4 * run + OPEN, 4 * run + FIXED)
            number = run + 1 + step
            target = before + threads * (step + 1)
            share = thread
            for _ in range(threads):
                if peek(done) >= target:
                    break
                last = peek(seats + size * share)
                if last < number and replace(seats + size * share, last, number):
                    if peek(fate) != stopped:
                        call(arg(table, row * step), arg(table, row * step + 1), share, threads)
                    if ticks:
                        advance(ticks + 16 * (step + 1), clock())
                    arrive(done)
                share = share + 1 if share + 1 < threads else 0
            spun = 0
            while peek(done) < target:
                if spun < spins:
                    pause()
                    spun += 1
                else:
                    give_way(arg(pool, GIVE_WAY))
            if ticks and thread == 0:
                since = lap(ticks + 16 * (step + 1), since)
        leave_float_mode(mode)
        return end, due

    return walk


def _watch() -> Any:
    """watch(fate, run, step, firm, record, state, mode, end, due): look if it is time, before a step; (end, due) anew.

    Others may be ahead, and fix the fate of the run first: then it isn't stopped.
    """
    LIMIT = PROGRAM.at("limit")
    look = look_at()

    def watch(
        fate: int,
        run: int,
        step: int,
        firm: int,
        record: int,
        state: int,
        mode: int,
        end: int,
        due: int,
    ) -> tuple[int, int]:
        now = clock()
        if end == 0:
            end = now + arg(record, LIMIT)
            due = earlier(now + tenth(), end)
        opened = 4 * run + OPEN
        if now >= due and step <= firm and peek(fate) == opened:
            leave_float_mode(mode)
            late = now >= end and replace(fate, opened, 4 * run + STOPPED) != 0
            if look(record, state, late):
                replace(fate, opened, 4 * run + STOPPED)
            enter_float_mode()
            due = earlier(clock() + tenth(), end)
        return end, due

    return watch
