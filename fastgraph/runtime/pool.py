"""Run a table of kernels on one thread, or on this process's pool of them, in one native call.

Pool threads are daemon threads that enter native code once and stay there: blocked on a semaphore between
runs, so that they use no CPU, and spinning only within a run and for some 200 us after it, as waking them takes a
part of that. A run doesn't wait for threads that come late: the caller returns when the work is done, whoever did it.
One run at a time has the pool; runs on one thread don't need it.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from .. import deadline
from ..errors import RunTimeout
from ..kernels.core.kernel import Kernel
from ..kernels.core.slots import JUMPS, LOOK, MEMBER, NO_LIMIT, PROGRAM, STEP, TEAM, TEAM_WORTH, groups
from ..kernels.isa.tiers import TIERS
from ..locks import held, lock, undisturbed
from .allocate import allocate
from .function import function, interpreter
from .group import Group

if TYPE_CHECKING:
    import threading

    from .semaphore import System

KERNELS = (Kernel("execute"), Kernel("call"), Kernel("team"), Kernel("parts"))
"""The kernels that run others; compiled for `TIER`, whatever the tier of the others."""
TIER = TIERS[0]

MAX_THREADS = 256
"""The largest team."""
WORTH_WAKING = 1_400_000
"""Multiply-adds (about 18 us) from which on runs that follow one another are shared by a team. Results don't depend on
it."""
ASLEEP = 15
"""Times as many, from which on a run that follows none is shared, too: to wake a team takes the caller some 40 us."""
AWAKE = 200e-6
"""Seconds for which threads spin after a run."""
AWAITED = 200_000
"""Multiply-adds (about 2.6 us) of each step that threads don't save, as they wait for one another and for what others
wrote."""
WORTH_LOOKING = 1_000_000
"""Multiply-adds (about 10 us) between two looks at the clock, which take as long as a thousand of them."""
_SEMAPHORE_BYTES = 64
_THREADS, _TICKS, _COMMIT, _LIMIT = map(PROGRAM.at, ("threads", "ticks", "commit", "limit"))

_Worker = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_Caller = ctypes.PYFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
"""A caller's kernel releases the interpreter's lock itself, and may return with an exception set."""


# -- native entry points


_entry: dict[str, int] = {}
_entry_lock = lock()


def start(addresses: Mapping[str, int] | None = None) -> None:
    """Make sure that `KERNELS` are linked: they are at these addresses by name, or else come from the cache.

    The first call decides. A saved program brings them along, and so needs no compiler.
    """
    with _entry_lock:
        if not _entry:
            _entry.update(_linked() if addresses is None else {k.name: addresses[k.name] for k in KERNELS})


def _linked() -> dict[str, int]:
    """The addresses of `KERNELS` by name."""
    from ..objects.cache import objects
    from ..objects.link import link

    made = zip(KERNELS, objects(KERNELS, TIER), strict=True)
    found = link({kernel.symbol: obj for kernel, obj in made})
    return {kernel.name: found[kernel.symbol] for kernel in KERNELS}


# -- the pool


class _Pool:
    """The process's threads. `lock`: held during a run on several of them, and while the pool changes. `ended`: when a
    run for several of them ended last.
    """

    def __init__(self) -> None:
        self.lock = lock()
        self.threads = 1
        self.address = 0
        self.ended = 0.0
        self._workers: list[threading.Thread] = []

    def grow(self, threads: int) -> int:
        """Start threads until there are `threads`, the caller's included, or no more can be had; how many there are."""
        if not self.address:
            self._prepare()
        with undisturbed():
            import threading

        here = _system()
        while self.threads < threads and here is not None:
            worker = self.threads
            try:
                semaphore = here.create(self._semaphores + _SEMAPHORE_BYTES * worker)
                self._members[worker, [MEMBER.at("semaphore"), MEMBER.at("thread")]] = semaphore, 0
                enter, args = _Worker(_entry["team"]), (self.address, worker, int(self._record[TEAM.at("run")]))
                thread = threading.Thread(target=enter, args=args, name="fastgraph", daemon=True)
            except OSError:
                break
            # An interrupt within start() leaves the thread counted: it may run, and is not waited for if it doesn't.
            self._workers.append(thread)
            self.threads += 1
            try:
                thread.start()
                self._members[worker, MEMBER.at("thread")] = thread.native_id or 0
            except RuntimeError:
                self._workers.pop()
                self.threads -= 1
                break
        return min(threads, self.threads)

    def _prepare(self) -> None:
        block, address = allocate(8 * len(TEAM), 64)
        members, start = allocate(8 * len(MEMBER) * MAX_THREADS, 64)
        self._owner, self._semaphores = allocate(_SEMAPHORE_BYTES * MAX_THREADS, 64)
        self._members = members.view(np.int64).reshape(MAX_THREADS, len(MEMBER))
        self._record = block.view(np.int64)
        self._record[TEAM.at("members")] = start
        if here := _system():
            for name in ("wait", "post", "give_way", "cpu", "ask", "bind"):
                self._record[TEAM.at(name)] = getattr(here, name)
        self.address = address

    def sleeps(self) -> bool:
        """Whether its threads are not likely to be awake."""
        return time.perf_counter() - self.ended > AWAKE

    def stop(self) -> None:
        """Let all workers return, unless they are at work. A later run starts new ones."""
        if not self._workers or not self.lock.acquire(timeout=1):
            return
        _record, no_table = _program(np.zeros((0, len(STEP)), np.int64), self.threads)
        _Caller(_entry["team"])(self.address, 0, no_table)
        for thread in self._workers:
            if thread.ident is not None:
                thread.join()
        self._workers, self.threads = [], 1
        self.lock.release()


def _system() -> System | None:
    from .semaphore import system  # one thread waits for nobody

    return system()


def _program(steps: np.ndarray, threads: int, commit: int | None = None) -> tuple[np.ndarray, int]:
    """A PROGRAM record of a table of steps, and its address."""
    block, address = allocate(8 * len(PROGRAM), 64)
    record = block.view(np.int64)
    names = "PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals", "PyErr_SetNone"
    release, acquire, signals, set_error = interpreter(*names)
    record[:] = PROGRAM.filled(
        table=steps.ctypes.data if len(steps) else 0, steps=len(steps), threads=threads, ticks=0,
        commit=len(steps) if commit is None else commit, limit=NO_LIMIT,
        release=release, acquire=acquire, signals=signals, set_error=set_error, late=id(RunTimeout),
    )  # fmt: skip
    return record, address


_pool = _Pool()


def _forget() -> None:
    """Forget the threads, of which a forked child has none."""
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
atexit.register(lambda: _pool.stop())


# -- runs


def _shared(work: Sequence[int], parts: Sequence[int]) -> list[int]:
    """The part of each step's work that a team shares; that of steps in parts counts with the first of them."""
    found = [max(each - AWAITED, 0) for each in work]
    for rows in groups(parts):
        whole = max(sum(work[rows.start : rows.stop]) - AWAITED, 0)
        found[rows.start : rows.stop] = [whole] + [0] * (len(rows) - 1)
    return found


def _flags(work: Sequence[int], shared: Sequence[int], jumps: Sequence[bool], worth: int) -> list[int]:
    """The flags of steps with these amounts of `work`: TEAM_WORTH where what a team shares of the steps up to the next
    jump is at least `worth`, LOOK where WORTH_LOOKING has been done since the last look at the clock.
    """
    flags, since = [], 0
    for each, jump in zip(work, jumps, strict=True):
        flags.append(LOOK * (jump or since >= WORTH_LOOKING) + JUMPS * jump)
        since = each + (0 if flags[-1] else since)
    if any(flags):
        flags[0] |= LOOK
    ahead = 0
    for i in reversed(range(len(flags))):
        ahead = 0 if jumps[i] else ahead + shared[i]
        flags[i] |= TEAM_WORTH * (not jumps[i] and ahead >= worth)
    return flags


class Runner:
    """A table of steps, ready to run: `runner.run()` is one native call.

    `steps` is int64 [n, 2]: the addresses of the kernel and of its argument record, or for a jump 0 and the address of
    its JUMP record; each step sees what those before it wrote. `work` [n]: an estimate of each step's work; less than
    WORTH_LOOKING is not interrupted, and less than `worth` from jump to jump is done by one thread. So is less than
    ASLEEP times as much in all, without jumps, if no run ended lately. `owner` keeps alive what records point to.
    `error`: the address of an int64 cell for an error code of kernels, which finish all the same, as does the run.
    `records`: the addresses of the records. `alone` runs all steps on the calling thread and ignores errors. `parts`
    [n]: which steps a team may do at once (`slots.groups`). The memory of the steps is shared: run one table, or tables
    with memory in common, from one thread at a time.

    Ctrl-C (or what else a signal's handler raises) stops a run between two steps, and so does the calling thread's
    deadline in a `run(timed=True)`, with RunTimeout; but not from step `commit` on.
    """

    def __init__(
        self,
        steps: np.ndarray,
        threads: int = 1,
        error: int = 0,
        owner: object = None,
        commit: int | None = None,
        work: Sequence[int] | None = None,
        worth: int = 0,
        parts: Sequence[int] = (),
    ) -> None:
        start()
        self._owner = owner
        self._steps = np.ones((len(steps), len(STEP)), np.int64)
        self._steps[:, :2] = np.reshape(steps, (-1, 2))
        self.records = self._steps[:, 1]
        jumps = self._steps[:, 0] == 0
        known = [0] * len(jumps) if work is None else work
        shared = _shared(known, parts)
        flags = np.array(_flags(known, shared, jumps.tolist(), worth), np.int64)
        self._steps[:, 2] = flags | LOOK * (work is None)
        self.threads = max(1, min(threads, MAX_THREADS)) if np.any(flags & TEAM_WORTH) else 1
        if self.threads == 1:
            self._steps[:, 2] &= ~TEAM_WORTH
        self._short = work is not None and not any(jumps) and sum(shared) < ASLEEP * worth
        self._groups: list[Group] = []
        self._team_steps = self._steps
        if self.threads > 1 and any(parts):
            self._groups = [Group(self._steps, rows, parts[rows.start : rows.stop]) for rows in groups(parts)]
            self._team_steps = self._steps.copy()
            for group in self._groups:
                group.put(self._team_steps, _entry["parts"])
        self._record, alone = _program(self._steps, self.threads, commit)
        self._team_record, self._address = _program(self._team_steps, self.threads, commit)
        self._error = ctypes.c_int64.from_address(error) if error else ctypes.c_int64()
        self.alone = function(_entry["call"], _entry["execute"], alone, (self._record, self._steps, owner))
        self._team = _Caller(_entry["team"])

    def run(self, timed: bool = False) -> int:
        """Run all steps; the error code that a kernel left (the cell is cleared), or 0."""
        code = 0
        try:
            if timed:
                self._run_timed()
            elif self.threads == 1 or held(_pool.lock) or (self._short and _pool.sleeps()):
                self.alone()
            else:
                with _pool.lock:
                    self._join(self._team_record, self._address)
        finally:
            if self.threads > 1:
                _pool.ended = time.perf_counter()
            code = self._error.value
            if code:
                self._error.value = 0
        return code

    def _run_timed(self) -> None:
        """Run with a PROGRAM record of its own, so that no other run has its time limit."""
        rate = ticks_per_second()
        team = self.threads > 1 and not held(_pool.lock)
        steps = self._team_steps if team else self._steps
        record, address = _program(steps, self.threads, int(self._record[_COMMIT]))
        try:
            if team and not _pool.lock.acquire(timeout=deadline.seconds_left()):
                raise RunTimeout
            deadline.check()
            record[_LIMIT] = min(deadline.seconds_left() * rate, NO_LIMIT)
            if team:
                self._join(record, address)
            else:
                _Caller(_entry["execute"])(address, 0, 1)
        finally:
            if team and held(_pool.lock):
                _pool.lock.release()

    def _join(self, record: np.ndarray, address: int) -> None:
        """Run a PROGRAM record as thread 0 of the pool, whose lock is held."""
        pool = _pool
        if pool.threads < self.threads or not pool.address:
            self.threads = pool.grow(self.threads)
        record[_THREADS] = self.threads
        self._team(pool.address, 0, address)

    @contextmanager
    def clocked(self) -> Iterator[np.ndarray]:
        """While it lasts, runs write ticks of the executor's clock to int64 [steps + 1, 2]: when a run began; then for
        each step when it last ended, and how long it took, to which each round and run adds.
        """
        found = np.zeros((len(self._steps) + 1, 2), np.int64)
        records = self._record, self._team_record
        with ExitStack() as stack:
            for group in self._groups:
                stack.enter_context(group.clocked(found))
            for record in records:
                record[_TICKS] = found.ctypes.data
            try:
                yield found
            finally:
                for record in records:
                    record[_TICKS] = 0

    def profile(self) -> np.ndarray:
        """Run once; the seconds of each step, over all its rounds."""
        with self.clocked() as found:
            self.run()
        return found[1:, 1] / ticks_per_second()


def ticks() -> int:
    """The executor's clock now."""
    runner = Runner(np.zeros((0, len(STEP)), np.int64))
    with runner.clocked() as found:
        runner.run()
    return int(found[0, 0])


@cache
def ticks_per_second() -> float:
    """The rate of the executor's clock, against the system's."""
    first = _both_clocks()
    time.sleep(0.01)
    last = _both_clocks()
    return (last[0] - first[0]) / (last[1] - first[1])


def _both_clocks() -> tuple[int, float]:
    """The executor's clock and the system's at one moment: of several readings that which took the least time."""
    readings = []
    for _ in range(5):
        before = time.perf_counter()
        found = ticks()
        after = time.perf_counter()
        readings.append((after - before, found, (before + after) / 2))
    return min(readings)[1:]
