"""Operations for running other kernels: calls by address, floating-point mode, clock, the interpreter's lock."""

from __future__ import annotations

from typing import Any

from ..lang import I32, I64, U8, Type, Value, builder, llvm, number, tier, traced


def indirect(address: Value, returns: Type | None, *values: Any) -> Any:
    """The result of the function at an address."""
    b, words = builder(), [number(value).x for value in values]
    kind = llvm.FunctionType(llvm.VoidType() if returns is None else returns.llvm, [word.type for word in words])
    found = b.call(b.inttoptr(address.x, kind.as_pointer()), words)
    return None if returns is None else Value(found, returns)


@traced
def call(function: Any, args: Any, thread: Any, threads: Any) -> None:
    """Run one kernel."""
    indirect(function, None, args, thread, threads)


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


# -- the processor


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
def released(function: Any) -> Any:
    """Release the interpreter's lock; returns what `give` needs to take it again."""
    return indirect(function, I64)


@traced
def give(function: Any, value: Any) -> None:
    """Call a function of one pointer."""
    indirect(function, None, value)


@traced
def handled(function: Any) -> Any:
    """Run the handlers of signals that arrived, with the interpreter's lock; not 0 when one raised an exception."""
    return indirect(function, I32).to(I64)
