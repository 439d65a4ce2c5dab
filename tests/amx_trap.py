"""Runs AMX's tile instructions on CPUs that lack them, so that kernels are tested as they are compiled.

There they are illegal instructions and raise SIGILL. The handler here, native code made as kernels are, does what
they mean in memory and goes on behind them: slowly, but fast enough for whole networks.
"""

from __future__ import annotations

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
from llvmlite import ir

from fastgraph.kernels.core.build import build
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.isa.loops import loop, variable
from fastgraph.kernels.isa.vector import I8, I16, I32, I64, emits
from fastgraph.objects.link import link

AMX = tiers.BY_NAME["amx"]
_LINUX = sys.platform == "linux" and platform.machine() == "x86_64"
EMULATES = _LINUX and not tiers.cpu_flags().issuperset(AMX.needs) and tiers.BY_NAME["avx512vnni"] in tiers.usable()

needs_amx = pytest.mark.skipif(not EMULATES and AMX not in tiers.usable(), reason="ISA tier amx")
"""For tests that run the tier's kernels, in `tiles()`: counted as skipped where they can't even be emulated."""

THREADS, PLACE = 64, 128 + 8 * 1024
"""A thread's place: whose it is, products done, faults, ...; at 64 the configuration, from 128 on the tiles."""
OWNER, PRODUCTS, FAULTS = 0, 8, 16
_GREGS, _RIP = 40, 16
_WORDS = ir.VectorType(I32, 16)


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

    def handler(number: int, info: int, context: int) -> None:
        rip = word(context + _GREGS + 8 * _RIP)
        second, third, operation, modrm = byte(rip + 1), byte(rip + 2), byte(rip + 3), byte(rip + 4)
        known = operation == 0x49 or operation == 0x4B or operation == 0x5E
        if byte(rip) != 0xC4 or (second & 31) != 2 or not known:
            restore(word(record), number, word(record + 8))
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
                    stride = register(context, index) << (sib >> 6)
            if mod == 1:
                address = signed(at, 1)
                at += 1
            elif mod == 2 or base == 5:
                address = signed(at, 4)
                at += 4
            if mod == 0 and base == 5:
                address += at if rm == 5 else 0
            else:
                address += register(context, base + (0 if second & 0x20 else 8))
        place = find(places)
        ok = 1
        if operation == 0x5E:
            ok = multiply(place, reg, rm, 15 - ((third >> 3) & 15)) if prefix == 1 and mod == 3 else 0
            add(place + PRODUCTS, 1)
        elif operation == 0x4B:
            ok = move(place, reg, address, stride, 1 if prefix == 2 else 0)
        elif prefix == 0 and mod == 3:
            clear(place)
        elif prefix == 0:
            clear(place)
            ok = configure(place, address)
        else:
            ok = 0
        add(place + FAULTS, 1 - ok)
        put(context + _GREGS + 8 * _RIP, at)

    return handler


# -- machine state


@emits
def word(b: Any, address: Any) -> Any:
    return _get(b, address, I64)


@emits
def byte(b: Any, address: Any) -> Any:
    return b.zext(_get(b, address, I8), I64)


@emits
def put(b: Any, address: Any, value: Any) -> None:
    _put(b, address, value)


@emits
def add(b: Any, address: Any, value: Any) -> None:
    _put(b, address, b.add(_get(b, address, I64), value))


@emits
def signed(b: Any, address: Any, size: Any) -> Any:
    """A number of 1 or 4 bytes."""
    narrow = b.icmp_signed("==", size, I64(1))
    return b.select(narrow, b.sext(_get(b, address, I8), I64), b.sext(_get(b, address, I32), I64))


@emits
def register(b: Any, context: Any, number: Any) -> Any:
    """A general register by its number in instructions, from where the signal's frame has it."""
    slots = ir.Constant(ir.VectorType(I64, 16), [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7])
    slot = b.extract_element(slots, b.trunc(number, I32))
    return _get(b, b.add(b.add(context, I64(_GREGS)), b.shl(slot, I64(3))), I64)


@emits
def restore(b: Any, function: Any, number: Any, action: Any) -> None:
    """Let the signal do what it did before: the instruction isn't ours."""
    kind = ir.FunctionType(I32, [I32, I64, I64])
    b.call(b.inttoptr(function, kind.as_pointer()), [b.trunc(number, I32), action, I64(0)])


@emits
def find(b: Any, places: Any) -> Any:
    """The thread's own place, claimed at its first instruction; with too many threads 0, and the process dies."""
    name, kind = "llvm.thread.pointer.p0", ir.FunctionType(I8.as_pointer(), [])
    me = b.ptrtoint(b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name), []), I64)
    found = variable(b, I64(0))
    with loop(b, 0, THREADS, 1) as i, b.if_then(b.icmp_signed("==", b.load(found), I64(0))):
        place = b.add(places, b.mul(i, I64(PLACE)))
        owner = b.inttoptr(place, I64.as_pointer())
        was = b.extract_value(b.cmpxchg(owner, I64(0), me, "acq_rel", "acquire"), 0)
        mine = b.or_(b.icmp_signed("==", was, I64(0)), b.icmp_signed("==", was, me))
        b.store(b.select(mine, place, I64(0)), found)
    return b.load(found)


# -- what the instructions mean


@emits
def clear(b: Any, place: Any) -> None:
    """All tiles, and their configuration."""
    with loop(b, 64, PLACE, 64) as i:
        _put(b, b.add(place, i), ir.Constant(_WORDS, [0] * 16))


@emits
def configure(b: Any, place: Any, address: Any) -> Any:
    """LDTILECFG: palette 1, nothing reserved, at most 16 rows of 64 bytes; 0 when it would fault."""
    ok = b.icmp_signed("==", _get(b, address, I64), I64(1))
    ok = b.and_(ok, b.icmp_signed("==", _get(b, b.add(address, I64(8)), I64), I64(0)))
    for tile in range(16):
        wide = _get(b, b.add(address, I64(16 + 2 * tile)), I16)
        rows = _get(b, b.add(address, I64(48 + tile)), I8)
        fits = (b.icmp_unsigned("<=", wide, I16(64)), b.icmp_unsigned("<=", rows, I8(16)))
        if tile > 7:
            fits = (b.icmp_unsigned("==", wide, I16(0)), b.icmp_unsigned("==", rows, I8(0)))
        ok = b.and_(ok, b.and_(*fits))
    _put(b, b.add(place, I64(64)), _get(b, address, _WORDS))
    return b.zext(ok, I64)


@emits
def move(b: Any, place: Any, tile: Any, address: Any, stride: Any, out: Any) -> Any:
    """TILELOADD and (out) TILESTORED; 0 when it would fault."""
    rows, wide = _shape(b, place, tile)
    stores = b.icmp_signed("!=", out, I64(0))
    with loop(b, 0, rows, 1) as m:
        here, there = _row(b, place, tile, m), b.add(address, b.mul(stride, m))
        source, to = b.select(stores, here, there), b.select(stores, there, here)
        with loop(b, 0, wide, 1) as i:
            _put(b, b.add(to, i), _get(b, b.add(source, i), I8))
    return b.zext(b.icmp_signed("!=", b.mul(rows, wide), I64(0)), I64)


@emits
def multiply(b: Any, place: Any, c: Any, x: Any, y: Any) -> Any:
    """TDPBUSD: c[m, n] += u8 x[m, 4 k + j] * s8 y[k, 4 n + j]; 0 when it would fault."""
    (rows, wide), (x_rows, x_wide), (y_rows, y_wide) = (_shape(b, place, t) for t in (c, x, y))
    quads = b.lshr(x_wide, I64(2))
    ok = b.icmp_signed("!=", b.mul(rows, b.mul(wide, quads)), I64(0))
    for one, other in ((rows, x_rows), (quads, y_rows), (wide, y_wide)):
        ok = b.and_(ok, b.icmp_signed("==", one, other))
    with loop(b, 0, rows, 1) as m:
        sums = _row(b, place, c, m)
        with loop(b, 0, quads, 1) as k:
            total, weights = _get(b, sums, _WORDS), _get(b, _row(b, place, y, k), _WORDS)
            for j in range(4):
                at = b.add(_row(b, place, x, m), b.add(b.shl(k, I64(2)), I64(j)))
                value = b.insert_element(ir.Constant(_WORDS, ir.Undefined), b.zext(_get(b, at, I8), I32), I32(0))
                value = b.shuffle_vector(value, value, ir.Constant(_WORDS, [0] * 16))
                weight = b.ashr(b.shl(weights, ir.Constant(_WORDS, [24 - 8 * j] * 16)), ir.Constant(_WORDS, [24] * 16))
                total = b.add(total, b.mul(value, weight))
            _put(b, sums, total)
    return b.zext(ok, I64)


def _shape(b: Any, place: Any, tile: Any) -> tuple[Any, Any]:
    """(rows, bytes in a row) of a tile; none of one that isn't there."""
    there = b.and_(tile, I64(7))
    wide = _get(b, b.add(b.add(place, I64(64 + 16)), b.shl(there, I64(1))), I16)
    rows = _get(b, b.add(b.add(place, I64(64 + 48)), there), I8)
    exists = b.icmp_signed("<", tile, I64(8))
    return b.select(exists, b.zext(rows, I64), I64(0)), b.zext(wide, I64)


def _row(b: Any, place: Any, tile: Any, row: Any) -> Any:
    return b.add(b.add(place, I64(128)), b.add(b.shl(tile, I64(10)), b.shl(row, I64(6))))


def _get(b: Any, address: Any, kind: Any) -> Any:
    return b.load(b.inttoptr(address, kind.as_pointer()), align=1)


def _put(b: Any, address: Any, value: Any) -> None:
    b.store(value, b.inttoptr(address, value.type.as_pointer()), align=1)
