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

from ..lang import every_tier
from .execute import ACQUIRE, COMMIT, LIMIT, RELEASE, ROW, STEPS, TABLE, TICKS, earlier, jumped, lap, look
from .primitives import arg, call, clock, enter_float_mode, give, leave_float_mode, put, released, tenth
from .shared import advance, affinity, arrive, exchange, give_way, pause, peek, post, publish, replace, take, this_cpu
from .slots import COMMITTED, CPUS, JUMPS, LOOK, MEMBER, PROGRAM, RUNNING, STOPPED, TEAM, TEAM_WORTH

_SPINS = 2000
_LINGER = 9
"""A thread spins for a tenth of a second over 2**_LINGER, 200 us, before it sleeps: to wake it takes some 50 us."""
_THREADS = PROGRAM.at("threads")
_JOB_TABLE, _JOB_STEPS, _JOB_THREADS, _JOB_BEFORE, _JOB_TICKS, _JOB_COMMIT, _JOB_RUN, _DONE, _STATUS = (
    8 * TEAM.at(name) for name in "table steps threads before ticks commit run done status".split()
)
"""Offsets in bytes of the slots of a TEAM record that describe the run."""
_WAIT, _POST, _GIVE_WAY, _MEMBERS = map(TEAM.at, ("wait", "post", "give_way", "members"))
_CPU, _ASK, _BIND = map(TEAM.at, ("cpu", "ask", "bind"))
_MEMBER, _SEMAPHORE, _THREAD = 8 * len(MEMBER), MEMBER.at("semaphore"), MEMBER.at("thread")
_PARKED, _AWAY, _CPUS = (8 * MEMBER.at(name) for name in ("parked", "away", "cpus_0"))
_CPU_BYTES = 8 * CPUS
Job = tuple[int, ...]
"""The numbers of a run: table, steps, threads, before, ticks, commit and run."""


@every_tier
def team(pool: int, thread: int, given: int) -> None:
    """One thread of a pool, by its TEAM record.

    Thread 0 is the caller: given a PROGRAM record, it tells and wakes the others, takes part, and returns when
    all shares of all steps are done; it has the interpreter's lock, and releases it for that time. The others never
    have it, and are given the last run that is not theirs; they return when the table is 0.
    """
    state = first = end = check = 0
    run = given
    if thread == 0:
        state = released(arg(given, RELEASE))
        run = _tell(pool, given, 0)
    while True:
        if thread > 0:
            run = _listen(pool, thread, run)
        table = peek(pool + _JOB_TABLE)
        steps = peek(pool + _JOB_STEPS)
        threads = peek(pool + _JOB_THREADS)
        job = table, steps, threads, peek(pool + _JOB_BEFORE), peek(pool + _JOB_TICKS), peek(pool + _JOB_COMMIT), run
        if peek(pool + _JOB_RUN) == run and thread < threads:
            _wake(pool, thread, threads)
            end, check = _walk(pool, thread, job, given, state, end, check)
            if thread == 0:
                first, end, check = _go_on(pool, run, given, state, first + steps, end, check)
                if first < 0:
                    break
                run = _tell(pool, given, first)
            elif table == 0:
                break
    if thread == 0:
        give(arg(given, ACQUIRE), state)


def _tell(pool: int, record: int, first: int) -> int:
    """Start a run of a program's steps from `first` to the next jump; its number."""
    table = arg(record, TABLE)
    after = first
    while after < arg(record, STEPS) and not arg(table, ROW * after + 2) & JUMPS:
        after += 1
    threads = arg(record, _THREADS)
    ticks = arg(record, TICKS)
    if ticks:
        ticks += 16 * first
        put(ticks, 0, clock())
    if table:
        if after == first or not arg(table, ROW * first + 2) & TEAM_WORTH:
            threads = 1
        table += 8 * ROW * first
    run: int = peek(pool + _JOB_RUN) + peek(pool + _JOB_STEPS) + 1
    exchange(pool + _JOB_RUN, -1)
    publish(pool + _JOB_TABLE, table)
    publish(pool + _JOB_STEPS, after - first)
    publish(pool + _JOB_THREADS, threads)
    publish(pool + _JOB_BEFORE, peek(pool + _DONE))
    publish(pool + _JOB_TICKS, ticks)
    publish(pool + _JOB_COMMIT, arg(record, COMMIT) - first)
    publish(pool + _STATUS, 4 * run + RUNNING)
    exchange(pool + _JOB_RUN, run)
    return run


def _go_on(pool: int, run: int, record: int, state: int, step: int, end: int, check: int) -> tuple[int, int, int]:
    """Follow the jumps from `step` on; (the next step or -1, end, check). end: when the run's time is over; check: when
    to handle signals next; 0 until the first look at the clock.
    """
    table = arg(record, TABLE)
    if peek(pool + _STATUS) == 4 * run + STOPPED:
        step = -1
    while 0 <= step and step < arg(record, STEPS) and arg(table, ROW * step + 2) & JUMPS:
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
            step += jumped(arg(table, ROW * step + 1))
    if step >= arg(record, STEPS):
        step = -1
    return step, end, check


def _listen(pool: int, thread: int, run: int) -> int:
    """Wait for a later run; its number.

    The next run may follow at once, so the thread spins for a while before it sleeps. A thread that has
    parked looks once more, and a caller that has told wakes the parked ones: one of the two sees the other.
    """
    later: int = peek(pool + _JOB_RUN)
    until = clock() + (tenth() >> _LINGER)
    while later <= run and clock() < until:
        pause()
        later = peek(pool + _JOB_RUN)
    member = arg(pool, _MEMBERS) + _MEMBER * thread
    while later <= run:
        exchange(member + _PARKED, 1)
        later = peek(pool + _JOB_RUN)
        if later <= run or exchange(member + _PARKED, 0) == 0:
            while take(arg(pool, _WAIT), arg(member, _SEMAPHORE)) != 0:
                pass
            if exchange(member + _AWAY, 0):
                affinity(arg(pool, _BIND), 0, _CPU_BYTES, member + _CPUS)
            later = peek(pool + _JOB_RUN)
    return later


def _wake(pool: int, thread: int, threads: int) -> None:
    """Each thread wakes two more, so that a large team starts in logarithmic time."""
    for child in range(2 * thread + 1, 2 * thread + 3):
        member = arg(pool, _MEMBERS) + _MEMBER * child
        if child < threads and exchange(member + _PARKED, 0):
            _send_away(pool, member)
            post(arg(pool, _POST), arg(member, _SEMAPHORE))


def _send_away(pool: int, member: int) -> None:
    """Let a thread that sleeps wake on another CPU than ours, where there is one.

    Where all CPUs are busy, a system may wake it on ours, where it would wait for as long as our runs follow one
    another. Once awake, it may run where it might before.
    """
    cpu = -1
    if arg(pool, _CPU) and arg(member, _THREAD):
        cpu = this_cpu(arg(pool, _CPU))
    cpus, thread = member + _CPUS, arg(member, _THREAD)
    if 0 <= cpu and cpu < 8 * _CPU_BYTES and affinity(arg(pool, _ASK), thread, _CPU_BYTES, cpus) == 0:
        word = cpus + 8 * (cpu >> 6)
        found = peek(word)
        publish(word, found & (-1 - (1 << (cpu & 63))))
        away = affinity(arg(pool, _BIND), thread, _CPU_BYTES, cpus) == 0
        publish(word, found)
        if away:
            publish(member + _AWAY, 1)


def _walk(pool: int, thread: int, job: Job, record: int, state: int, end: int, check: int) -> tuple[int, int]:
    """Take part in a run until it is over; (end, check) anew.

    Thread 0 stops the run and measures it; `record` and what follows are only for it.
    """
    table, steps, threads, before, ticks, commit, run = job
    done, members, status = pool + _DONE, arg(pool, _MEMBERS), pool + _STATUS
    shared = done, members, status, 4 * run + STOPPED
    mode = enter_float_mode()
    since = 0
    if ticks and thread == 0:
        since = arg(ticks, 0)
    for step in range(steps):
        if thread == 0 and arg(table, ROW * step + 2) & LOOK:
            end, check = _watch(pool, job, step, (record, state, mode), end, check)
        if step == commit:
            replace(status, 4 * run + RUNNING, 4 * run + COMMITTED)
        target = before + threads * (step + 1)
        _take_shares(shared, thread, job, step, target)
        _await_shares(pool, done, target)
        if ticks and thread == 0:
            since = lap(ticks + 16 * (step + 1), since)
    leave_float_mode(mode)
    return end, check


def _take_shares(shared: tuple[int, ...], thread: int, job: Job, step: int, target: int) -> None:
    """Claim and run shares of a step that nobody has, the thread's own first, until `target` shares are done. shared:
    addresses of the count of these, of the members and of the status, and the status of a run that is stopped.
    """
    table, _, threads, _, ticks, _, run = job
    done, members, status, stopped = shared
    number = run + 1 + step
    share = thread
    for _ in range(threads):
        if peek(done) >= target:
            break
        last = peek(members + _MEMBER * share)
        if last < number and replace(members + _MEMBER * share, last, number):
            if peek(status) != stopped:
                call(arg(table, ROW * step), arg(table, ROW * step + 1), share, threads)
            if ticks:
                advance(ticks + 16 * (step + 1), clock())
            arrive(done)
        share = share + 1 if share + 1 < threads else 0


def _await_shares(pool: int, done: int, target: int) -> None:
    """Wait until `target` shares are done: those of a step that other threads have begun."""
    spun = 0
    while peek(done) < target:
        if spun < _SPINS:
            pause()
            spun += 1
        else:
            give_way(arg(pool, _GIVE_WAY))


def _watch(pool: int, job: Job, step: int, caller: tuple[int, ...], end: int, check: int) -> tuple[int, int]:
    """Stop the run before a step if its time is over or a signal's handler raised; (end, check) anew. caller: record,
    state and mode.

    Other threads may be ahead, and commit the run first: then it isn't stopped.
    """
    _, _, _, _, _, commit, run = job
    record, state, mode = caller
    status, running, stopped = pool + _STATUS, 4 * run + RUNNING, 4 * run + STOPPED
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
