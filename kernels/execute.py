"""Run a table of kernels: all threads walk the whole table and meet where a step needs what others wrote.

`execute` is the walk, `team` the life of a pool thread around it. Denormals count as zero within a walk (on
x86) and the caller's floating-point mode is put back after it. Memory is ordered by the barrier's counter
between steps and by the semaphores around a walk.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from . import record as slots
from .isa.tiers import Tier
from .isa.vector import I8, I32, I64, arg, emits

_X86 = platform.machine().lower() in ("x86_64", "amd64")
_FLUSH_DENORMALS = 0x8040
_SPINS = 400
_LINGER = 200


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


@emits
def arrive(builder: Any, counter: Any) -> None:
    """Add one to a shared counter, publishing all that this thread wrote."""
    builder.atomic_rmw("add", builder.inttoptr(counter, I64.as_pointer()), I64(1), "acq_rel")


@emits(returns=types.int64)
def peek(builder: Any, counter: Any) -> Any:
    """A shared counter's value, seeing all that those who arrived had written."""
    return builder.load_atomic(builder.inttoptr(counter, I64.as_pointer()), "acquire", 8)


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
def take(builder: Any, function: Any, semaphore: Any, timeout: Any) -> Any:
    """Take one post from the semaphore; not 0 when there was none in time. See `runtime/semaphore.py`."""
    return builder.sext(_indirect(builder, function, I32, [semaphore, timeout]), I64)


@emits
def post(builder: Any, function: Any, semaphore: Any) -> None:
    """Wake the thread that waits on the semaphore."""
    _indirect(builder, function, I32, [semaphore, I64(1), I64(0)])


def execute(tier: Tier) -> Callable[..., Any]:
    """Walk a PROGRAM record's table. `arrived` is 0 at the start; thread 0 returns when all have finished."""
    row = slots.STEP_SLOTS
    TABLE, STEPS, TICKS, YIELD = slots.TABLE, slots.STEPS, slots.TICKS, slots.YIELD
    ARRIVED, spins = slots.ARRIVED, _SPINS

    def kernel(record: int, thread: int, threads: int) -> None:
        table = arg(record, TABLE)
        steps = arg(record, STEPS)
        give = arg(record, YIELD)
        counter = record + 8 * ARRIVED
        ticks = arg(record, TICKS)
        if thread > 0:
            ticks = 0
        mode = enter_float_mode()
        if ticks:
            put(ticks, 0, clock())
        target = 0
        for step in range(steps):
            at = row * step
            call(arg(table, at), arg(table, at + 1), thread, threads)
            last = step + 1 == steps
            if threads > 1 and (last or arg(table, at + 2)):
                arrive(counter)
                target += threads
                if thread == 0 or not last:
                    spun = 0
                    while peek(counter) < target:
                        spun += 1
                        if spun < spins:
                            pause()
                        else:
                            give_way(give)
            if ticks:
                put(ticks, step + 1, clock())
        leave_float_mode(mode)

    return kernel


def team(tier: Tier) -> Callable[..., Any]:
    """One thread of a pool: `kernel(TEAM record, thread, PROGRAM record)`.

    Thread 0 is the caller: it starts the others, takes part and returns when all have finished. The others
    ignore the third argument, wait on their semaphore for the job that thread 0 left, and return when the job
    is 0. After a run they linger for some ten microseconds, as the next may follow at once, before they
    sleep. Each wakes two more, so that a large team starts in logarithmic time.
    """
    JOB, EXECUTE, SEMAPHORES = slots.JOB, slots.EXECUTE, slots.SEMAPHORES
    WAIT, POLL, POST, linger = slots.WAIT, slots.POLL, slots.POST, _LINGER
    THREADS, ARRIVED = slots.THREADS, slots.ARRIVED

    def kernel(pool: int, thread: int, record: int) -> None:
        semaphores = arg(pool, SEMAPHORES)
        waiting = arg(pool, WAIT)
        polling = arg(pool, POLL)
        posting = arg(pool, POST)
        if thread == 0:
            put(record, ARRIVED, 0)
            put(pool, JOB, record)
        while True:
            if thread > 0:
                semaphore = arg(semaphores, thread)
                idle = 0
                while idle < linger and take(polling, semaphore, 0) != 0:
                    pause()
                    idle += 1
                while idle == linger and take(waiting, semaphore, -1) != 0:
                    pass
                record = arg(pool, JOB)
                if record == 0:
                    return
            threads = arg(record, THREADS)
            for child in range(2 * thread + 1, 2 * thread + 3):
                if child < threads:
                    post(posting, arg(semaphores, child))
            call(arg(pool, EXECUTE), record, thread, threads)
            if thread == 0:
                return

    return kernel
