"""Runs AMX's tile instructions on CPUs that lack them, so that kernels are tested as they are compiled.

There they are illegal instructions and raise SIGILL. The handler here, native code made as kernels are, does what
they mean in memory and goes on behind them: slowly, but fast enough for whole networks.
"""

import ctypes
import platform
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.core.build import build
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.lang import (
    F16,
    F32,
    I8,
    I32,
    I64,
    U8,
    U16,
    Value,
    builder,
    choose,
    constant,
    fma,
    llvm,
    over,
    register,
    registers,
    traced,
    when,
)
from fastgraph.objects.link import link

AMX = tiers.BY_NAME["amx"]
_LINUX = sys.platform == "linux" and platform.machine() == "x86_64"
EMULATES = _LINUX and not tiers.cpu_flags().issuperset(AMX.needs) and tiers.BY_NAME["avx512vnni"] in tiers.usable()

needs_amx = pytest.mark.skipif(not EMULATES and AMX not in tiers.usable(), reason="ISA tier amx")
"""For tests that run the tier's kernels, in `tiles()`: counted as skipped where they can't even be emulated."""
loads_amx = pytest.mark.skipif(AMX not in tiers.usable(), reason="ISA tier amx")
"""For tests that load models for the tier, which this CPU, or EMULATE_TILES, must have."""

THREADS, PLACE = 512, 128 + 8 * 1024
"""A thread's place: whose it is, products done, faults, ...; at 64 the configuration, from 128 on the tiles."""
OWNER, PRODUCTS, FAULTS = 0, 8, 16
_GREGS, _RIP = 40, 16
_WORDS, _REALS = I32.vector(16), F32.vector(16)


@contextmanager
def tiles() -> Iterator[Callable[[], int]]:
    """Where the tier `amx` runs, on the CPU's tiles or ours; yields a function that counts products, -1 on the CPU's.

    Fails at its end when an instruction ran that the CPU would have refused.
    """
    if not EMULATES:
        yield lambda: -1
        return
    handler, record, places, old = _handler()
    places[...] = 0
    libc = ctypes.CDLL(None)
    record[...] = ctypes.cast(libc.sigaction, ctypes.c_void_p).value, ctypes.addressof(old)
    new = _Action(handler=handler, flags=0x40000004)  # SA_NODEFER, SA_SIGINFO
    libc.sigaction(signal.SIGILL, ctypes.byref(new), ctypes.byref(old))
    try:
        yield lambda: int(places[:, PRODUCTS // 8].sum())
    finally:
        libc.sigaction(signal.SIGILL, ctypes.byref(old), None)
    assert not places[:, FAULTS // 8].any(), "a tile instruction would have faulted"


class _Action(ctypes.Structure):
    """Linux's struct sigaction, as glibc and musl have it on x86-64."""

    _fields_ = [
        ("handler", ctypes.c_void_p), ("mask", ctypes.c_uint8 * 128), ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]  # fmt: skip


@cache
def _handler() -> tuple[int, np.ndarray, np.ndarray, _Action]:
    """The handler's address, and the memory that it has for good: its record, the threads' places, the old action."""
    record, places = np.zeros(2, np.int64), np.zeros((THREADS, PLACE // 8), np.int64)
    function = make_handler(record.ctypes.data, places.ctypes.data)
    address = link({"amx_trap": build(function, "amx_trap", AMX)})["amx_trap"]
    return address, record, places, _Action()


def make_handler(record: int, places: int) -> Callable[..., None]:
    """The signal handler; `record`: the address of sigaction, and that of what the signal did before."""

    def handler(number, info, context):
        rip = I64[context + _GREGS + 8 * _RIP]
        second, third, operation, modrm = byte(rip + 1), byte(rip + 2), byte(rip + 3), byte(rip + 4)
        known = operation == 0x49 or operation == 0x4B or operation == 0x5C or operation == 0x5E
        if byte(rip) != 0xC4 or (second & 31) != 2 or not known:
            restore(I64[record], number, I64[record + 8])
            return
        prefix, mod, reg, rm = third & 3, modrm >> 6, (modrm >> 3) & 7, modrm & 7
        at, address, stride = rip + 5, 0, 0
        if mod != 3:
            base, index = rm, 4
            if rm == 4:
                sib = byte(at)
                at += 1
                base, index = sib & 7, ((sib >> 3) & 7) + (0 if second & 0x40 else 8)
                if index != 4:
                    stride = general(context, index) << (sib >> 6)
            if mod == 1:
                address = signed(at, 1)
                at += 1
            elif mod == 2 or base == 5:
                address = signed(at, 4)
                at += 4
            if mod == 0 and base == 5:
                address += at if rm == 5 else 0
            else:
                address += general(context, base + (0 if second & 0x20 else 8))
        place = find(places)
        ok = 1
        if operation == 0x5E:
            ok = multiply(place, reg, rm, 15 - ((third >> 3) & 15)) if prefix == 1 and mod == 3 else 0
            add(place + PRODUCTS, 1)
        elif operation == 0x5C:
            ok = multiply_reals(place, reg, rm, 15 - ((third >> 3) & 15), prefix) if prefix >= 2 and mod == 3 else 0
            add(place + PRODUCTS, 1)
        elif operation == 0x4B:
            ok = move(place, reg, address, stride, 1 if prefix == 2 else 0)
        elif prefix == 3 and mod == 3:
            ok = zero(place, reg)
        elif prefix == 0 and mod == 3:
            clear(place)
        elif prefix == 0:
            clear(place)
            ok = configure(place, address)
        else:
            ok = 0
        add(place + FAULTS, 1 - ok)
        I64[context + _GREGS + 8 * _RIP] = at

    return handler


# -- machine state


@traced
def byte(address: Any) -> Any:
    return U8[address].to(I64)


@traced
def add(address: Any, value: Any) -> None:
    I64[address] = I64[address] + value


@traced
def signed(address: Value, size: Any) -> Value:
    """A number of 1 or 4 bytes."""
    return I8[address].to(I64) if size == 1 else I32[address].to(I64)


@traced
def general(context: Value, number: Value) -> Value:
    """A general register by its number in instructions, from where the signal's frame has it."""
    slots = constant(I64.vector(16), [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7])
    return I64[context + _GREGS + 8 * slots[number.to(I32)]]


@traced
def restore(function: Value, number: Value, action: Value) -> None:
    """Let the signal do what it did before: the instruction isn't ours."""
    b, kind = builder(), llvm.FunctionType(I32.llvm, [I32.llvm, I64.llvm, I64.llvm])
    b.call(b.inttoptr(function.x, kind.as_pointer()), [number.to(I32).x, action.x, I64(0).x])


@traced
def find(places: Any) -> Any:
    """The thread's own place, claimed at its first instruction; with too many threads 0, and the process dies."""
    b = builder()
    name, kind = "llvm.thread.pointer.p0", llvm.FunctionType(I8.at(0).type.llvm, [])
    pointer = b.module.globals.get(name) or llvm.Function(b.module, kind, name)
    me = Value(b.ptrtoint(b.call(pointer, []), I64.llvm), I64)
    found = register(0)
    for i in over(THREADS):
        with when(found.value == 0):
            place = i * PLACE + places
            swapped = b.cmpxchg(I64.at(place).x, I64(0).x, me.x, "acq_rel", "acquire")
            was = Value(b.extract_value(swapped, 0), I64)
            found.value = choose((was == 0) | (was == me), place, 0)
    return found.value


# -- what the instructions mean


@traced
def clear(place: Value) -> None:
    """All tiles, and their configuration."""
    for i in over(64, PLACE, 64):
        _WORDS[place + i] = _WORDS(0)


@traced
def configure(place: Value, address: Value) -> Value:
    """LDTILECFG: palette 1, nothing reserved, at most 16 rows of 64 bytes; 0 when it would fault."""
    ok = (I64[address] == 1) & (I64[address + 8] == 0)
    for tile in range(16):
        wide, rows = U16[address + (16 + 2 * tile)], U8[address + (48 + tile)]
        ok = ok & ((wide <= 64) & (rows <= 16) if tile < 8 else (wide == 0) & (rows == 0))
    _WORDS[place + 64] = _WORDS[address]
    return ok.to(I64)


@traced
def move(place: Value, tile: Value, address: Value, stride: Value, out: Any) -> Value:
    """TILELOADD and (out) TILESTORED; 0 when it would fault."""
    rows, wide = _shape(place, tile)
    for m in over(rows):
        here, there = _row(place, tile, m), address + stride * m
        source, to = choose(out != 0, here, there), choose(out != 0, there, here)
        for i in over(wide):
            U8[to + i] = U8[source + i]
    return (rows * wide != 0).to(I64)


@traced
def multiply(place: Value, c: Value, x: Value, y: Value) -> Value:
    """TDPBUSD: c[m, n] += u8 x[m, 4 k + j] * s8 y[k, 4 n + j]; 0 when it would fault."""
    (rows, wide), (x_rows, x_wide), (y_rows, y_wide) = (_shape(place, t) for t in (c, x, y))
    quads = x_wide >> 2
    ok = rows * wide * quads != 0
    for one, other in ((rows, x_rows), (quads, y_rows), (wide, y_wide)):
        ok = ok & (one == other)
    for m in over(rows):
        sums = _row(place, c, m)
        for k in over(quads):
            total, weights = _WORDS[sums], _WORDS[_row(place, y, k)]
            for j in range(4):
                value = U8[_row(place, x, m) + 4 * k + j].to(I32).signed
                total = total + ((weights << 24 - 8 * j) >> 24) * value
            _WORDS[sums] = total
    return ok.to(I64)


@traced
def zero(place: Value, tile: Value) -> Value:
    """TILEZERO; 0 when it would fault."""
    rows, wide = _shape(place, tile)
    for i in over(0, 1024, 64):
        _WORDS[place + 128 + (tile << 10) + i] = _WORDS(0)
    return (rows * wide != 0).to(I64)


@traced
def multiply_reals(place: Value, c: Value, x: Value, y: Value, prefix: Value) -> Value:
    """TDPBF16PS and (prefix 3) TDPFP16PS: c[m, n] += x[m, 2 k + j] * y[k, 2 n + j], a chain of fused multiply-adds from
    0 for each j; 0 when it would fault. What is too small is 0 after each step, as are small operands but of f16.
    """
    (rows, wide), (x_rows, x_wide), (y_rows, y_wide) = (_shape(place, t) for t in (c, x, y))
    pairs = x_wide >> 2
    ok = rows * wide * pairs != 0
    for one, other in ((rows, x_rows), (pairs, y_rows), (wide, y_wide)):
        ok = ok & (one == other)
    for m in over(rows):
        chains = registers([_REALS(0.0), _REALS(0.0)])
        for k in over(pairs):
            both, weights = I32[_row(place, x, m) + 4 * k], _WORDS[_row(place, y, k)]
            for j in range(2):
                a, w = (_real(words, j, prefix == 3) for words in (_WORDS(both), weights))
                chains[j] = flushed(fma(flushed(a), flushed(w), chains[j]))
        sums = _row(place, c, m)
        even, odd = chains.values()
        _REALS[sums] = flushed(flushed(_REALS[sums]) + flushed(even + odd))
    return ok.to(I64)


def _real(words: Value, j: int, half: Value) -> Value:
    """The j-th number of each word, a bf16 or, where `half`, an f16, as f32."""
    f16 = (words >> 16 * j).to(U16).bits(F16).to(F32)
    return choose(half, f16, (words << 16 if j == 0 else words & -65536).bits(F32))


@traced
def flushed(x: Value) -> Value:
    """0, with its sign, for what is smaller than normal numbers."""
    bits = x.bits(I32)
    return choose((bits & 0x7F800000) == 0, bits & -0x80000000, bits).bits(F32)


def _shape(place: Value, tile: Value) -> tuple[Value, Value]:
    """(rows, bytes in a row) of a tile; none of one that isn't there."""
    there = tile & 7
    wide, rows = U16[place + (64 + 16) + 2 * there], U8[place + (64 + 48) + there]
    return choose(tile < 8, rows.to(I64), 0), wide.to(I64)


def _row(place: Value, tile: Value, row: Value) -> Value:
    return place + 128 + (tile << 10) + (row << 6)
