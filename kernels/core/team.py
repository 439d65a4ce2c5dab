"""Run a table of kernels as a team of threads, which deals out each step's shares.

Every step has as many shares as the team has threads. What a kernel computes depends on the share and not on the thread
that runs it, so a thread claims any share that has not been started, its own number first: a thread that is not
scheduled delays nobody, and the caller can do everything itself. Only a share that was started is waited for.

Shares are claimed by number: the steps of all runs are counted, and a share's claim is the count of the last
step that it was taken in, so it never decreases. A share is claimed once per step, and only within its run:
when a run is over, all its shares are claimed and done. So a late thread finds no share left, and reads
only the pool's own memory: it reads the table, which lives as long as its run, under a claim only.

To the pool, the steps between two jumps are a run of their own. Only the caller reads jumps; it runs steps that aren't
worth waking a team for alone.

A run is stopped as in `execute.py`. The team still goes through all remaining steps, so that all shares are claimed,
but calls no kernels; after a share that was skipped all later ones are skipped too.
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
from .slots import COMMITTED, JUMPS, LOOK, MEMBER, PROGRAM, RUNNING, STEP, STOPPED, TEAM, TEAM_WORTH

_SPINS = 2000
_LINGER = 9
"""A thread spins for a tenth of a second over 2**_LINGER, 200 us, before it sleeps: to wake it takes some 50 us."""
Job = tuple[int, ...]
_JOB = ("table", "steps", "threads", "before", "ticks", "commit", "run")
"""Slots of the TEAM record that say what to run, as a tuple of numbers."""


def team(tier: Tier) -> Callable[..., Any]:
    """One thread of a pool: `kernel(TEAM record, thread, given)`.

    Thread 0 is the caller: given a PROGRAM record, it tells and wakes the others, takes part, and returns when
    all shares of all steps are done; it has the interpreter's lock, and releases it for that time. The others never
    have it, and are given the last run that is not theirs; they return when the table is 0.
    """
    TABLE, STEPS, THREADS, BEFORE, TICKS, COMMIT, RUN = _bytes_at(*_JOB)
    RELEASE, ACQUIRE = map(PROGRAM.at, ("release", "acquire"))
    tell, listen, wake, walk, go_on = _tell(), _listen(), _wake(), _walk(), _go_on()

    def kernel(pool: int, thread: int, given: int) -> None:
        state = first = end = check = 0
        run = given
        if thread == 0:
            state = released(arg(given, RELEASE))
            run = tell(pool, given, 0)
        while True:
            if thread > 0:
                run = listen(pool, thread, run)
            table = peek(pool + TABLE)
            steps = peek(pool + STEPS)
            threads = peek(pool + THREADS)
            job = table, steps, threads, peek(pool + BEFORE), peek(pool + TICKS), peek(pool + COMMIT), run
            if peek(pool + RUN) == run and thread < threads:
                wake(pool, thread, threads)
                end, check = walk(pool, thread, job, given, state, end, check)
                if thread == 0:
                    first, end, check = go_on(pool, run, given, state, first + steps, end, check)
                    if first < 0:
                        break
                    run = tell(pool, given, first)
                elif table == 0:
                    break
        if thread == 0:
            give(arg(given, ACQUIRE), state)

    return kernel


def _bytes_at(*names: str) -> list[int]:
    """Byte offsets of slots of a TEAM record."""
    return [8 * TEAM.at(name) for name in names]


def _tell() -> Any:
    """tell(pool, record, first): start a run of a program's steps from `first` to the next jump; its number."""
    TABLE, STEPS, THREADS, TICKS, COMMIT = map(PROGRAM.at, ("table", "steps", "threads", "ticks", "commit"))
    row = len(STEP)
    AT, COUNT, TEAM_SIZE, BEFORE, CLOCK, UNTIL, RUN = _bytes_at(*_JOB)
    DONE, STATUS = _bytes_at("done", "status")

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
        run: int = peek(pool + RUN) + peek(pool + COUNT) + 1
        exchange(pool + RUN, -1)
        publish(pool + AT, table)
        publish(pool + COUNT, after - first)
        publish(pool + TEAM_SIZE, threads)
        publish(pool + BEFORE, peek(pool + DONE))
        publish(pool + CLOCK, ticks)
        publish(pool + UNTIL, arg(record, COMMIT) - first)
        publish(pool + STATUS, 4 * run + RUNNING)
        exchange(pool + RUN, run)
        return run

    return tell


def _go_on() -> Any:
    """go_on(pool, run, record, state, step, end, check): follow the jumps from `step` on; (the next step or -1, end,
    check). end: when the run's time is over; check: when to handle signals next; 0 until the first look at the clock.
    """
    (STATUS,) = _bytes_at("status")
    TABLE, STEPS, COMMIT, LIMIT = map(PROGRAM.at, ("table", "steps", "commit", "limit"))
    row = len(STEP)
    look, jumped = look_at(), jumps()

    def go_on(pool: int, run: int, record: int, state: int, step: int, end: int, check: int) -> tuple[int, int, int]:
        table = arg(record, TABLE)
        if peek(pool + STATUS) == 4 * run + STOPPED:
            step = -1
        while 0 <= step and step < arg(record, STEPS) and arg(table, row * step + 2) & JUMPS:
            now = clock()
            if end == 0:
                end = now + arg(record, LIMIT)
                check = earlier(now + tenth(), end)
            stopped = 0
            if now >= check and step <= arg(record, COMMIT):
                stopped = look(record, state, now >= end)
                check = earlier(clock() + tenth(), end)
            if stopped:
                step = -1
            else:
                step += jumped(arg(table, row * step + 1))
        if step >= arg(record, STEPS):
            step = -1
        return step, end, check

    return go_on


def _listen() -> Any:
    """listen(pool, thread, run): wait for a later run; its number.

    The next run may follow at once, so the thread spins for a while before it sleeps. A thread that has
    parked looks once more, and a caller that has told wakes the parked ones: one of the two sees the other.
    """
    WAIT, MEMBERS, SEMAPHORE = TEAM.at("wait"), TEAM.at("members"), MEMBER.at("semaphore")
    SIZE, PARKED, linger = 8 * len(MEMBER), 8 * MEMBER.at("parked"), _LINGER
    (RUN,) = _bytes_at("run")

    def listen(pool: int, thread: int, run: int) -> int:
        later: int = peek(pool + RUN)
        until = clock() + (tenth() >> linger)
        while later <= run and clock() < until:
            pause()
            later = peek(pool + RUN)
        member = arg(pool, MEMBERS) + SIZE * thread
        while later <= run:
            exchange(member + PARKED, 1)
            later = peek(pool + RUN)
            if later <= run or exchange(member + PARKED, 0) == 0:
                while take(arg(pool, WAIT), arg(member, SEMAPHORE)) != 0:
                    pass
                later = peek(pool + RUN)
        return later

    return listen


def _wake() -> Any:
    """wake(pool, thread, threads): each thread wakes two more, so that a large team starts in logarithmic time."""
    POST, MEMBERS, SEMAPHORE = TEAM.at("post"), TEAM.at("members"), MEMBER.at("semaphore")
    SIZE, PARKED = 8 * len(MEMBER), 8 * MEMBER.at("parked")

    def wake(pool: int, thread: int, threads: int) -> None:
        for child in range(2 * thread + 1, 2 * thread + 3):
            member = arg(pool, MEMBERS) + SIZE * child
            if child < threads and exchange(member + PARKED, 0):
                post(arg(pool, POST), arg(member, SEMAPHORE))

    return wake


def _walk() -> Any:
    """walk(pool, thread, job, record, state, end, check): take part in a run until it is over; (end, check) anew.

    Thread 0 stops the run and measures it; `record` and what follows are only for it.
    """
    DONE, STATUS = _bytes_at("done", "status")
    MEMBERS, GIVE_WAY = map(TEAM.at, ("members", "give_way"))
    row, size, spins = len(STEP), 8 * len(MEMBER), _SPINS
    watch = _watch()

    def walk(pool: int, thread: int, job: Job, record: int, state: int, end: int, check: int) -> tuple[int, int]:
        table, steps, threads, before, ticks, commit, run = job
        done, members, status = pool + DONE, arg(pool, MEMBERS), pool + STATUS
        stopped = 4 * run + STOPPED
        mode = enter_float_mode()
        since = 0
        if ticks and thread == 0:
            since = arg(ticks, 0)
        for step in range(steps):
            if thread == 0 and arg(table, row * step + 2) & LOOK:
                end, check = watch(pool, job, step, (record, state, mode), end, check)
            if step == commit:
                replace(status, 4 * run + RUNNING, 4 * run + COMMITTED)
            number = run + 1 + step
            target = before + threads * (step + 1)
            share = thread
            for _ in range(threads):
                if peek(done) >= target:
                    break
                last = peek(members + size * share)
                if last < number and replace(members + size * share, last, number):
                    if peek(status) != stopped:
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
        return end, check

    return walk


def _watch() -> Any:
    """watch(pool, job, step, (record, state, mode), end, check): stop the run before a step if its time is over or a
    signal's handler raised; (end, check) anew.

    Other threads may be ahead, and commit the run first: then it isn't stopped.
    """
    LIMIT, (STATUS,) = PROGRAM.at("limit"), _bytes_at("status")
    look = look_at()

    def watch(pool: int, job: Job, step: int, caller: tuple[int, ...], end: int, check: int) -> tuple[int, int]:
        _, _, _, _, _, commit, run = job
        record, state, mode = caller
        status, running, stopped = pool + STATUS, 4 * run + RUNNING, 4 * run + STOPPED
        now = clock()
        if end == 0:
            end = now + arg(record, LIMIT)
            check = earlier(now + tenth(), end)
        if now >= check and step <= commit and peek(status) == running:
            leave_float_mode(mode)
            late = now >= end and replace(status, running, stopped) != 0
            if look(record, state, late):
                replace(status, running, stopped)
            enter_float_mode()
            check = earlier(clock() + tenth(), end)
        return end, check

    return watch
