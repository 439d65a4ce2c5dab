"""What running other kernels takes: calls by address, shared numbers, the floating-point mode, the clock, semaphores,
the interpreter's lock.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir

from ..isa.vector import I8, I32, I64, emits

X86 = platform.machine().lower() in ("x86_64", "amd64")
_FLUSH_DENORMALS = 0x8040


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
def flag(builder: Any, address: Any) -> Any:
    """The byte at `address`."""
    return builder.zext(builder.load(builder.inttoptr(address, I8.as_pointer())), I64)


@emits
def put_flag(builder: Any, address: Any, value: Any) -> None:
    """Store a number as the byte at `address`."""
    builder.store(builder.trunc(value, I8), builder.inttoptr(address, I8.as_pointer()))


@emits
def peek(builder: Any, address: Any) -> Any:
    """A shared number, seeing all that was written before it was."""
    return builder.load_atomic(builder.inttoptr(address, I64.as_pointer()), "seq_cst", 8)


@emits
def publish(builder: Any, address: Any, value: Any) -> None:
    """Store a shared number after all that this thread wrote before."""
    builder.store_atomic(value, builder.inttoptr(address, I64.as_pointer()), "release", 8)


@emits
def exchange(builder: Any, address: Any, value: Any) -> Any:
    """Store a shared number before this thread reads any other; returns what was there."""
    return builder.atomic_rmw("xchg", builder.inttoptr(address, I64.as_pointer()), value, "seq_cst")


@emits
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
    if X86:
        builder.call(_declare(builder, "llvm.x86.sse2.pause", ir.VoidType(), []), [])


@emits
def give_way(builder: Any, function: Any) -> None:
    """Let the system run another thread here: spinning longer would keep the one we wait for off the CPU."""
    _indirect(builder, function, I32, [])


def _cell(builder: Any) -> Any:
    """An int32 on the stack, which is taken once: within a loop each turn would take one more."""
    with builder.goto_entry_block():
        return builder.alloca(I32)


@emits
def enter_float_mode(builder: Any) -> Any:
    """Flush denormals to zero; returns the mode to restore."""
    if not X86:
        return I64(0)
    cell = _cell(builder)
    pointer = builder.bitcast(cell, I8.as_pointer())
    builder.call(_declare(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), [pointer.type]), [pointer])
    before = builder.load(cell)
    builder.store(builder.or_(before, I32(_FLUSH_DENORMALS)), cell)
    builder.call(_declare(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), [pointer.type]), [pointer])
    return builder.zext(before, I64)


@emits
def leave_float_mode(builder: Any, before: Any) -> None:
    """Restore what `enter_float_mode` returned."""
    if X86:
        cell = _cell(builder)
        builder.store(builder.trunc(before, I32), cell)
        pointer = builder.bitcast(cell, I8.as_pointer())
        builder.call(_declare(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), [pointer.type]), [pointer])


@emits
def clock(builder: Any) -> Any:
    """A counter of constant rate."""
    name = "llvm.readcyclecounter" if X86 else "llvm.readsteadycounter"
    return builder.call(_declare(builder, name, I64, []), [])


@emits
def take(builder: Any, function: Any, semaphore: Any) -> Any:
    """Wait for a post and take it; not 0 when a signal came first. See `runtime/semaphore.py`."""
    return builder.sext(_indirect(builder, function, I32, [semaphore, I64(-1)]), I64)


@emits
def post(builder: Any, function: Any, semaphore: Any) -> None:
    """Wake the thread that waits on the semaphore."""
    _indirect(builder, function, I32, [semaphore, I64(1), I64(0)])


@emits
def released(builder: Any, function: Any) -> Any:
    """Release the interpreter's lock; what `give` needs to take it again."""
    return _indirect(builder, function, I64, [])


@emits
def give(builder: Any, function: Any, value: Any) -> None:
    """Call a function of one pointer."""
    _indirect(builder, function, ir.VoidType(), [value])


@emits
def handled(builder: Any, function: Any) -> Any:
    """Call the handlers of signals that came, with the interpreter's lock; not 0 when one raised an exception."""
    return builder.sext(_indirect(builder, function, I32, []), I64)
