"""ISA tiers: which vector instructions a kernel may use, chosen from CPU flags and never from a CPU's name."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from .amx import permitted


class Tier(NamedTuple):
    """A set of vector instructions.

    `lanes`: f32 in a vector; `registers`: vector registers; `needs`: CPU flags (LLVM's names) without which it can't
    run; `cpu`: for LLVM's scheduling; `instructions`: the module and class that write its instructions. The other
    fields are facts that kernels and the planner ask for.
    """

    name: str
    lanes: int
    registers: int
    needs: tuple[str, ...]
    cpu: str
    fma: bool
    instructions: str
    masks: bool = False
    """Loads and stores take masks; elsewhere a masked one is a branch per lane."""
    byte_shuffle: bool = False
    """Any bytes within 128 bits can be chosen by number (isa.shuffle_bytes), and products of u8 and s8 are summed two
    to an int16 (isa.pair_sums).
    """
    byte_dot: bool = False
    """Products of u8 and s8 are summed four to a lane (isa.dot_bytes)."""
    tiles: bool = False
    """There are tile registers: isa is x86_amx.Amx."""

    @property
    def isa(self) -> Any:
        """Writes the tier's instructions: see generic.py. For generators of kernels only."""
        return _instructions(self.instructions)

    @property
    def features(self) -> str:
        """LLVM's feature string for this tier; wide vectors stay wide."""
        extra = ("-prefer-256-bit",) if self.lanes * 32 == 512 else ()
        return ",".join([*(f"+{flag}" for flag in self.needs), *extra])


_AVX2 = ("avx", "avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe", "popcnt", "sse4.2")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_VNNI = (*_AVX512, "avx512vnni")
_AMX = (*_VNNI, "amx-tile", "amx-int8")

_X86 = platform.machine().lower() in ("x86_64", "amd64")

_BASE = "x86_sse2:Sse2" if _X86 else "generic:Generic"
_SHUFFLES = {"fma": True, "byte_shuffle": True}
_MASKS = {**_SHUFFLES, "masks": True}

# Narrowest first: a tier is usable when this CPU has all that it needs.
TIERS: tuple[Tier, ...] = (
    Tier("generic", lanes=4, registers=16, needs=(), cpu="", fma=False, instructions=_BASE),
    Tier("avx2", 8, 16, _AVX2, "x86-64-v3", instructions="x86_avx2:Avx2", **_SHUFFLES),
    Tier(
        "avxvnni", 8, 16, (*_AVX2, "avxvnni"), "x86-64-v3", instructions="x86_avx2:AvxVnni", byte_dot=True, **_SHUFFLES
    ),
    Tier("avx512", 16, 32, _AVX512, "x86-64-v4", instructions="x86_avx512:Avx512", **_MASKS),
    Tier("avx512vnni", 16, 32, _VNNI, "x86-64-v4", instructions="x86_avx512:Avx512Vnni", byte_dot=True, **_MASKS),
    Tier("amx", 16, 32, _AMX, "x86-64-v4", instructions="x86_amx:Amx", byte_dot=True, tiles=True, **_MASKS),
)
BY_NAME = {tier.name: tier for tier in TIERS}
NUMPY = Tier("numpy", lanes=0, registers=0, needs=(), cpu="", fma=False, instructions="")
"""No tier of kernels: NumPy computes every node, so nothing is compiled."""

PRECISIONS = ("float32", "float32-fma", "float16", "bfloat16")
"""What float32 is computed in: sums as exact as chains of fused multiply-adds, such chains and Winograd's alone,
products of numbers of at least float16's bits, or of bfloat16, where the CPU is faster at these.
"""


@cache
def _instructions(name: str) -> Any:
    module, kind = name.split(":")
    return getattr(import_module(f".{module}", __package__), kind)()


_LINUX_NAMES = {
    "abm": "lzcnt", "amx_bf16": "amx-bf16", "amx_fp16": "amx-fp16", "amx_int8": "amx-int8",
    "amx_tile": "amx-tile", "avx512_bf16": "avx512bf16", "avx512_vnni": "avx512vnni",
    "avx_vnni": "avxvnni", "bmi1": "bmi", "sse4_2": "sse4.2",
}  # fmt: skip
"""What Linux calls flags that kernels ask for, and LLVM's names of them; the others have one name."""


PAIRS = ("avx512bf16",)
"""The flag of products of pairs of bf16 in vectors, and of rounding to it."""
BF16 = (*PAIRS, "amx-bf16")
"""The flags of products of bf16 in tiles, and of rounding to it."""
F16 = (*BF16, "amx-fp16")
"""Those of kernels that multiply float16 in tiles."""
EXTRAS = ("avx512vbmi", *F16)
"""Flags beyond their tier's that some kernels need (core.table)."""


def has(flags: Iterable[str]) -> bool:
    """Whether this CPU has these flags."""
    return cpu_flags().issuperset(flags)


TOGETHER = 2
"""Words of A whose products with small weights are summed in 16 bits."""


def multiplies_small(tier: Tier) -> bool:
    """Whether a tier has kernels for small weights (pick_int8.SMALL): products of two bytes take less than those of
    16-bit numbers, and more than those of four bytes. With 32 registers there would be too many kernels.
    """
    return tier.byte_shuffle and not tier.byte_dot and tier.registers < 32


def multiplies_tiles(tier: Tier) -> bool:
    """Whether kernels of a tier multiply bf16 in tiles on this CPU."""
    return tier.tiles and has(BF16)


def multiplies_f16(tier: Tier) -> bool:
    """Whether kernels of a tier multiply float16 in tiles on this CPU."""
    return tier.tiles and has(F16)


def multiplies_pairs(tier: Tier) -> bool:
    """Whether kernels of a tier multiply pairs of bf16 in vectors on this CPU."""
    return has_pairs(tier) and not tier.tiles


def has_pairs(tier: Tier) -> bool:
    """Whether kernels of a tier may multiply pairs of bf16 in vectors on this CPU, beside its tiles or not."""
    return tier.masks and has(PAIRS)


@cache
def cpu_flags() -> frozenset[str]:
    """The flags of this process's CPU that the system supports, in LLVM's names."""
    if flags := _linux_flags():
        return flags
    try:
        import llvmlite.binding as llvm

        return frozenset(flag for flag, on in llvm.get_host_cpu_features().items() if on)
    except (ImportError, OSError, RuntimeError):
        return frozenset()


def _linux_flags() -> frozenset[str]:
    """Linux's flags of an x86 CPU, without loading LLVM. Empty elsewhere."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            line = next((line for line in file if line.startswith("flags")), "")
    except OSError:
        return frozenset()
    return frozenset(_LINUX_NAMES.get(flag, flag) for flag in line.partition(":")[2].split())


def usable(flags: frozenset[str] | None = None, allowed: bool | None = None) -> tuple[Tier, ...]:
    """The tiers that a CPU with these flags can run, narrowest first; without flags, those of this CPU.

    allowed: whether the system permits tile registers; it is asked for permission where that is not given.
    """
    if not _X86:
        return TIERS[:1]
    found = tuple(tier for tier in TIERS if (cpu_flags() if flags is None else flags).issuperset(tier.needs))
    return tuple(tier for tier in found if not tier.tiles or (permitted() if allowed is None else allowed))


def choose(name: str | None = None, flags: frozenset[str] | None = None, allowed: bool | None = None) -> Tier:
    """The widest usable tier, or the tier called `name`; ValueError when there is none of that name here."""
    tiers = usable(flags, allowed)
    if name is None:
        return tiers[-1]
    if isinstance(name, str):
        for tier in (NUMPY, *tiers):
            if tier.name == name:
                return tier
    known = ", ".join(tier.name for tier in tiers)
    if not isinstance(name, str) or name not in BY_NAME:
        names = ", ".join((*BY_NAME, NUMPY.name))
        raise ValueError(f"isa={name!r} is none of {names}; here {known} can run, or None for the widest")
    refused = name in BY_NAME and BY_NAME[name] in usable(flags, True)
    where = "in this process, which the system gives no tile registers" if refused else "on this CPU"
    raise ValueError(f"isa={name!r} can't run {where}: choose one of {known}, or None for the widest")
