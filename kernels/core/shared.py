"""What threads of a team share: numbers in memory, and how they wait for one another."""

from __future__ import annotations

from typing import Any

from ..lang import BIT, I32, I64, Value, builder, number, tier, traced
from .primitives import indirect


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
    return Value(b.extract_value(found, 1), BIT).to(I64)


# -- waiting


@traced
def pause() -> None:
    """Tell the CPU that this thread spins."""
    tier().isa.pause()


@traced
def give_way(function: Any) -> None:
    """Yield the CPU to another thread: the one we wait for may need it."""
    indirect(function, I32)


@traced
def take(function: Any, semaphore: Any) -> Any:
    """Wait on a semaphore; not 0 when a signal came first. See `runtime/semaphore.py`."""
    return indirect(function, I32, semaphore, -1).to(I64)


@traced
def post(function: Any, semaphore: Any) -> None:
    indirect(function, I32, semaphore, 1, 0)


@traced
def this_cpu(function: Any) -> Any:
    """The CPU on which this thread is; negative where the system does not say."""
    return indirect(function, I32).to(I64)


@traced
def affinity(function: Any, thread: Any, size: Any, cpus: Any) -> Any:
    """Ask for a thread's CPUs or set them, by the system's number of the thread, 0 for this one; 0 when that worked."""
    return indirect(function, I32, thread, size, cpus).to(I64)
