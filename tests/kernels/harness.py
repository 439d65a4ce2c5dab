"""Build a kernel for a tier, call it over guarded memory, hand back what it wrote."""

import ctypes
import os
from collections.abc import Callable, Sequence
from hashlib import sha256
from inspect import unwrap
from itertools import count
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastgraph.kernels.core.build import build
from fastgraph.kernels.core.kernel import canonical
from fastgraph.kernels.core.table import Row
from fastgraph.kernels.isa import tiers
from fastgraph.objects import store
from tests.random_nets import examples

GUARD = 256
"""Bytes before and after each array that nobody may write; they read as NaN."""


def tier_params(names: Sequence[str], slow: Sequence[str] = ()) -> list[Any]:
    """These tiers as a parameter of a test; those that this CPU can't run are skipped, and counted by conftest."""
    usable, params = tiers.usable(), []
    for tier in map(tiers.BY_NAME.__getitem__, names):
        marks = [] if tier in usable else [pytest.mark.skip(f"ISA tier {tier.name}")]
        if tier.name in slow:
            marks.append(pytest.mark.slow)
        params.append(pytest.param(tier, id=tier.name, marks=marks))
    return params


F32_TIERS = ("generic", "avx2", "avx512")
each_tier = pytest.mark.parametrize("tier", tier_params(F32_TIERS))
"""Runs a test once for every tier with f32 kernels and data movement of its own."""

_LAST = max((tier for tier in tiers.usable() if tier.name in F32_TIERS), key=tiers.TIERS.index).name
widest_tier = pytest.mark.parametrize(
    "tier", tier_params(F32_TIERS, slow=[name for name in F32_TIERS if name != _LAST])
)
"""The same, but all tiers save the widest that this CPU has are for the slow part."""

each_integer_tier = pytest.mark.parametrize(
    "tier", tier_params(tuple(tiers.BY_NAME), slow=("avxvnni", "avx512", "amx"))
)
"""Runs a test once for every tier. Two do for the quick part: one that sums bytes and one that sums pairs."""


def drawn(count: int) -> Callable[[Callable], Callable]:
    """Runs a test so many times, with numbers that its argument `pick`, a random.Random, draws."""
    return lambda test: examples(count)(given(pick=st.randoms(use_true_random=False))(test))


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


Params = tuple[tuple[str, Any], ...]
Native = Callable[[int, int, int], None]

_numbers = count()
_engines: list[Any] = []
_compiled: dict[Any, Native] = {}


def run(
    kernel: Row | Callable, params: dict[str, Any], args: Sequence[Any], tier: Any, threads: int = 1, offset: int = 4
) -> list[np.ndarray]:
    """Call `kernel(tier, **params)` once per thread, in turn; the arrays of `args` after it, in their order.

    `args` is the argument record: ints, arrays that become addresses of guarded copies, and lists, tables of the
    same that become addresses of them. Copies start `offset` bytes past a 64-byte boundary (one array object given
    twice is one copy). Fails when a guard was written.
    """
    make = kernel.make() if isinstance(kernel, Row) else kernel
    call = compiled(make, tuple(sorted(params.items())), tier)
    copies: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    tables: list[np.ndarray] = []

    def word(a: Any) -> int:
        if isinstance(a, np.ndarray):
            memory, view = copies.setdefault(id(a), guarded(a, offset))
            return int(view.ctypes.data)
        if isinstance(a, list):
            tables.append(np.array([word(x) for x in a], np.int64))
            return int(tables[-1].ctypes.data)
        return int(a)

    words = np.array([word(a) for a in args], np.int64)
    for thread in range(threads):
        call(words.ctypes.data, thread, threads)
    for memory, view in copies.values():
        start = view.ctypes.data - memory.ctypes.data
        edges = np.concatenate([memory[:start], memory[start + view.nbytes :]])
        assert (edges == 0xFF).all(), "the kernel wrote outside of its arrays"
    return [copies[id(a)][1] for a in args if isinstance(a, np.ndarray)]


def calling(body: Callable) -> Callable[[int, int, int], None]:
    """A kernel that calls a traced function with its record in each thread."""

    def kernel(args: int, thread: int, threads: int) -> None:
        body(args)

    return kernel


def guarded(array: np.ndarray, offset: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """(bytes, view): a copy of `array` inside a larger block of 0xFF bytes."""
    memory = np.full(array.nbytes + 2 * GUARD + 64 + offset, 0xFF, np.uint8)
    start = GUARD + -(memory.ctypes.data + GUARD) % 64 + offset
    view = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return memory, view


def compiled(make: Callable, params: Params, tier: Any) -> Native:
    """The native function of a kernel: (args address, thread, threads); kept for the session."""
    # Not by the parameters themselves: Python holds 1 == 1.0, which in a chain are a value and a constant.
    key = unwrap(make), canonical(params), tier
    if key not in _compiled:
        _compiled[key] = _compile(make, params, tier)
    return _compiled[key]


def _object(make: Callable, params: Params, tier: Any) -> tuple[str, bytes]:
    """A kernel's symbol and object, kept between runs beside the toolchain's own."""
    name = f"{make.__module__}.{make.__qualname__}({canonical(params)})"
    symbol = f"kernel_{sha256(name.encode()).hexdigest()[:24]}"
    path = store.folder() / "tests" / f"{symbol}.{tier.name}"
    if not make.__module__.startswith("fastgraph.kernels."):  # a test's own, which the toolchain does not tell
        symbol = f"{symbol}_{next(_numbers)}"
        code = build(make(tier, **dict(params)), symbol, tier)
    elif path.exists():
        code = path.read_bytes()
    else:
        code = build(make(tier, **dict(params)), symbol, tier)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(code)
        unfinished.replace(path)
    return symbol, code


def _compile(make: Callable, params: Params, tier: Any) -> Native:
    symbol, code = _object(make, params, tier)
    if not _engines:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine()
        _engines.append(llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine))
    engine = _engines[0]
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(engine.get_function_address(symbol))


def f32_bits(x: float) -> int:
    """An f32 as the int that a record holds."""
    return int(np.float32(x).view(np.int32))
