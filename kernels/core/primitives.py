"""Operations for running other kernels: calls by address, shared numbers, the floating-point mode, the clock,
semaphores, the interpreter's lock.
"""

from __future__ import annotations

from typing import Any

from ..lang import I32, I64, U8, Type, Value, builder, llvm, number, tier, traced


def _indirect(address: Value, returns: Type | None, *values: Any) -> Any:
    """The result of the function at an address."""
    b, words = builder(), [number(value).x for value in values]
    kind = llvm.FunctionType(llvm.VoidType() if returns is None else returns.llvm, [word.type for word in words])
    found = b.call(b.inttoptr(address.x, kind.as_pointer()), words)
    return None if returns is None else Value(found, returns)


@traced
def call(function: Any, args: Any, thread: Any, threads: Any) -> None:
    """Run one kernel."""
    _indirect(function, None, args, thread, threads)


@traced
def put(address: Any, index: Any, value: Any) -> None:
    """Store into the index-th int64 at `address`."""
    I64.at(address)[number(index)] = number(value)


@traced
def arg(address: Any, index: Any) -> Any:
    """The index-th int64 at `address`."""
    return I64.at(address)[number(index)]


@traced
def flag(address: Any) -> Any:
    """The byte at `address`."""
    return U8[address].to(I64)


@traced
def put_flag(address: Any, value: Any) -> None:
    """Store a number, or a condition as 0 or 1, as the byte at `address`."""
    U8[address] = (value if isinstance(value, Value) else I64(value)).to(U8)


# -- what threads share


@traced
def peek(address: Any) -> Any:
    """Load a shared number; sees all that was written before it was stored."""
    return Value(builder().load_atomic(I64.at(address).x, "seq_cst", 8), I64)


@traced
def publish(address: Any, value: Any) -> None:
    """Store a shared number, after all earlier writes of this thread."""
    builder().store_atomic(number(value).x, I64.at(address).x, "release", 8)


def _exchanged(how: str, address: Value, value: Any, order: str) -> Value:
    """The content of an address before it is changed."""
    return Value(builder().atomic_rmw(how, I64.at(address).x, number(value).x, order), I64)


@traced
def exchange(address: Any, value: Any) -> Any:
    """Store a shared number before any later read of this thread; returns the old one."""
    return _exchanged("xchg", address, value, "seq_cst")


@traced
def arrive(counter: Any) -> None:
    """Add one to a shared counter, after all earlier writes of this thread."""
    _exchanged("add", counter, 1, "acq_rel")


@traced
def advance(address: Any, value: Any) -> None:
    """Raise a shared number to `value` if it is less."""
    _exchanged("max", address, value, "monotonic")


@traced
def replace(address: Any, old: Any, new: Any) -> Any:
    """Store `new` if the shared number is `old`; 0 when it is not."""
    b = builder()
    found = b.cmpxchg(I64.at(address).x, number(old).x, number(new).x, "acq_rel", "acquire")
    return Value(b.zext(b.extract_value(found, 1), I64.llvm), I64)


# -- the processor


@traced
def pause() -> None:
    """Tell the CPU that this thread spins."""
    tier().isa.pause()


@traced
def enter_float_mode() -> Any:
    """Flush denormals to zero, where supported; returns the mode to restore."""
    return tier().isa.flush_denormals()


@traced
def leave_float_mode(before: Any) -> None:
    """Restore a mode that `enter_float_mode` returned."""
    tier().isa.restore_mode(before)


@traced
def clock() -> Any:
    """A counter of constant rate."""
    return tier().isa.clock()


@traced
def tenth() -> Any:
    """Ticks of `clock` in about a tenth of a second."""
    return I64(tier().isa.tenth)


# -- functions of the system's, and of the interpreter's


@traced
def give_way(function: Any) -> None:
    """Yield the CPU to another thread: the one we wait for may need it."""
    _indirect(function, I32)


@traced
def take(function: Any, semaphore: Any) -> Any:
    """Wait on a semaphore; not 0 when a signal came first. See `runtime/semaphore.py`."""
    return _indirect(function, I32, semaphore, -1).to(I64)


@traced
def post(function: Any, semaphore: Any) -> None:
    """Post a semaphore."""
    _indirect(function, I32, semaphore, 1, 0)


@traced
def released(function: Any) -> Any:
    """Release the interpreter's lock; returns what `give` needs to take it again."""
    return _indirect(function, I64)


@traced
def give(function: Any, value: Any) -> None:
    """Call a function of one pointer."""
    _indirect(function, None, value)


@traced
def handled(function: Any) -> Any:
    """Run the handlers of signals that arrived, with the interpreter's lock; not 0 when one raised an exception."""
    return _indirect(function, I32).to(I64)
