"""What instruction sets write: each operation beside its NumPy meaning, and the instruction that it promises."""

import os
import platform
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from fastgraph.kernels.core.build import assembly
from fastgraph.kernels.isa.generic import Generic
from fastgraph.kernels.isa.stores import store_first
from fastgraph.kernels.isa.tiers import BY_NAME, TIERS, Tier, usable
from fastgraph.kernels.lang import F32, I8, I16, I32, I64, U8, Mistake, Type, Value, traced
from tests.kernels.harness import calling, run

PLAIN = BY_NAME["generic"]._replace(name="plain", instructions="generic:Generic")
"""Of a CPU that nobody wrote instructions for."""
X86 = platform.machine().lower() in ("x86_64", "amd64")
AS_COMPILED = "TIERS_ARE_EMULATED" not in os.environ
"""Machine code has the instructions of its tier (not so by tests/emulated)."""
REGISTERS = {128: "xmm", 256: "ymm", 512: "zmm"}


class Operation(NamedTuple):
    """A method of instruction sets, of vectors of such numbers; what it means; what x86 calls it. parts: it takes
    halves and quarters of registers, too, down to 128 bits.
    """

    method: str
    kinds: tuple[Type, ...]
    meaning: Callable[..., np.ndarray]
    instruction: str
    more: tuple[Any, ...] = ()
    parts: bool = True


def dot(a: np.ndarray, w: np.ndarray, count: int) -> np.ndarray:
    return (a.astype(np.int64) * w).reshape(-1, count).sum(axis=1)


def pair_sums(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Those that are no int16 are its limits."""
    return dot(a, w, 2).clip(-(1 << 15), (1 << 15) - 1).astype(np.int16)


def packed(x: np.ndarray, y: np.ndarray, signed: bool = True) -> np.ndarray:
    kind = np.dtype(f"{'i' if signed else 'u'}{x.itemsize // 2}")
    both = np.concatenate([each.reshape(-1, 16 // x.itemsize) for each in (x, y)], axis=1)
    return both.clip(np.iinfo(kind).min, np.iinfo(kind).max).astype(kind).ravel()


def rounded(x: np.ndarray) -> np.ndarray:
    held = np.rint(x.astype(np.float64)).clip(-(2.0**31), 2.0**31 - 128)
    return np.where(np.isnan(x), -(2.0**31), held).astype(np.int32)


def shuffled(table: np.ndarray, index: np.ndarray) -> np.ndarray:
    of_16 = index.reshape(-1, 16)
    return np.where(of_16 < 0, 0, np.take_along_axis(table.reshape(-1, 16), of_16 & 15, axis=1)).ravel()


OPERATIONS = {
    "dot_bytes": Operation("dot_bytes", (I32, U8, I8), lambda sums, a, w: sums + dot(a, w, 4), "vpdpbusd"),
    "dot_halves": Operation("dot_halves", (I16, I16), lambda a, w: dot(a, w, 2), "pmaddwd"),
    "pair_sums": Operation("pair_sums", (U8, I8), pair_sums, "pmaddubsw"),
    "round_to_int": Operation("round_to_int", (F32,), rounded, "cvtps2dq"),
    "pack words": Operation("pack", (I32, I32), packed, "packssdw"),
    "pack halves": Operation("pack", (I16, I16), packed, "packsswb"),
    "pack halves, unsigned": Operation("pack", (I16, I16), lambda x, y: packed(x, y, False), "packuswb", (False,)),
    "shuffle_bytes": Operation("shuffle_bytes", (I8, I8), shuffled, "pshufb", parts=False),
}
OFFERED = {"dot_bytes": "byte_dot", "pair_sums": "byte_shuffle", "shuffle_bytes": "byte_shuffle"}
"""Operations that only tiers with such a fact have."""


def cases(tiers: tuple[Tier, ...]) -> Iterator[Any]:
    """(tier, operation, bits of the vectors) where the tier has the operation."""
    for tier in tiers:
        for name, operation in OPERATIONS.items():
            if name in OFFERED and not getattr(tier, OFFERED[name]):
                continue
            bits = 32 * tier.lanes
            while bits >= 128:
                yield pytest.param(tier, name, bits, id=f"{tier.name}-{name}-{bits}")
                bits = bits // 2 if operation.parts else 0


def make(tier: Tier, name: str, bits: int) -> Callable:
    """A kernel that stores what an operation gives; its record: addresses of the result and of the operands."""
    method, kinds, more = OPERATIONS[name].method, OPERATIONS[name].kinds, OPERATIONS[name].more

    @traced
    def apply(args: Value) -> None:
        y, *places = (I64.at(args)[i] for i in range(1 + len(kinds)))
        values = [kind.vector(bits // kind.bits)[place] for kind, place in zip(kinds, places, strict=True)]
        found = getattr(tier.isa, method)(*values, *more)
        found.type[y] = found

    return calling(apply)


def numbers(kind: Type, count: int, rng: np.random.Generator) -> np.ndarray:
    """All of a type's numbers alike, and often its limits."""
    if kind.real:
        special = np.float32([0.5, 1.5, -2.5, np.nan, np.inf, -np.inf, 3e9, -3e9, 2.0**31, -(2.0**31), 2147483520])
        return rng.choice(np.concatenate([special, np.float32(rng.normal(0, 1e3, 20))]), count)
    dtype = np.dtype(f"{'i' if kind.signed else 'u'}{kind.bits // 8}")
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    found = rng.integers(least, most, count, dtype, endpoint=True)
    near = rng.integers(-300, 300, count).clip(least, most).astype(dtype)
    limits = rng.choice(np.array([least, most], dtype), count)
    return np.choose(rng.integers(0, 3, count), [found, near, limits])


@pytest.mark.parametrize(("tier", "name", "bits"), list(cases((PLAIN, *usable()))))
def test_operations_compute_what_they_mean(tier: Tier, name: str, bits: int) -> None:
    rng, operation = np.random.default_rng(0), OPERATIONS[name]
    for _ in range(20):
        values = [numbers(kind, bits // kind.bits, rng) for kind in operation.kinds]
        with np.errstate(over="ignore"):
            expected = operation.meaning(*values)
        y = np.zeros(bits // 8, np.uint8)
        got = run(make, {"name": name, "bits": bits}, [y, *values], tier)[0]
        kind = np.int32 if name.startswith("dot") else expected.dtype
        np.testing.assert_array_equal(got.view(kind), expected.astype(kind))


@pytest.mark.skipif(not X86 or not AS_COMPILED, reason="the names are those of x86")
@pytest.mark.parametrize(("tier", "name", "bits"), list(cases(TIERS)))
def test_operations_are_the_instructions_that_they_promise(tier: Tier, name: str, bits: int) -> None:
    """On any x86: machine code for a tier needs no CPU that has it."""
    text = assembly(make(tier, name, bits), tier)
    instruction, register = OPERATIONS[name].instruction, REGISTERS[bits]
    assert len(re.findall(rf"\bv?{instruction}\s.*%{register}", text)) == 1, text


@pytest.mark.parametrize("tier", (PLAIN, *TIERS), ids=lambda tier: tier.name)
def test_tiers_have_what_they_say(tier: Tier) -> None:
    for method, fact in OFFERED.items():
        own = getattr(type(tier.isa), method) is not getattr(Generic, method)
        assert getattr(tier, fact) == own, (method, fact)
        if not own:
            with pytest.raises(Mistake, match=type(tier.isa).__name__):
                getattr(tier.isa, method)(*OPERATIONS[method].kinds)
    assert tier.tiles == hasattr(tier.isa, "multiply")


def make_first(tier: Tier) -> Callable:
    """A kernel that stores the first bytes of a vector; its record: addresses of the result and the vector, a count."""

    @traced
    def store(args: Value) -> None:
        y, x, count = (I64.at(args)[i] for i in range(3))
        store_first(U8.vector(4 * tier.lanes)[x], U8.at(y), count)

    return calling(store)


@pytest.mark.parametrize("tier", (PLAIN, *usable()), ids=lambda tier: tier.name)
def test_the_first_bytes_are_stored_and_no_others(tier: Tier) -> None:
    x = np.arange(1, 4 * tier.lanes + 1, dtype=np.uint8)
    for count in range(len(x)):
        y = run(make_first, {}, [np.zeros(count, np.uint8), x, count], tier, offset=1)[0]
        np.testing.assert_array_equal(y, x[:count])  # behind it are guard bytes
    if tier.masks and AS_COMPILED:
        assert re.search(r"vmovdqu8\s.*\{%k\d\}", assembly(make_first(tier), tier))


def make_chosen(tier: Tier) -> Callable:
    """A kernel that chooses numbers of memory; its record: addresses of the result, the numbers and their places."""

    @traced
    def choose(args: Value) -> None:
        y, x, index = (I64.at(args)[i] for i in range(3))
        found = tier.isa.permute(F32.at(x), I32.vector(tier.lanes)[index])
        found.type[y] = found

    return calling(choose)


@pytest.mark.parametrize("tier", (PLAIN, *usable()), ids=lambda tier: tier.name)
def test_numbers_are_chosen_by_their_places(tier: Tier) -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        x = rng.normal(size=tier.lanes).astype(np.float32)
        index = rng.integers(0, tier.lanes, tier.lanes, np.int32)
        y = run(make_chosen, {}, [np.zeros_like(x), x, index], tier)[0]
        np.testing.assert_array_equal(y, x[index])
    if tier.lanes > 4 and AS_COMPILED:
        assert "vpermps" in assembly(make_chosen(tier), tier)
