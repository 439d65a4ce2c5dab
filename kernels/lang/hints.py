"""Hints to LLVM."""

from __future__ import annotations

from typing import Any

from . import llvm
from .memory import Registers
from .types import BIT, I8, I32, I64
from .values import Value, builder, called, tier


def constant_memory(load: Value) -> Value:
    """Mark a load of memory that nothing writes while the kernel runs, so that it may leave loops."""
    load.x.set_metadata("invariant.load", builder().module.add_metadata([]))
    return load


def opaque(x: Value) -> Value:
    """x (an int64 or a pointer), hidden from LLVM, so that nothing of it is computed early: a loop that runs once has
    no use for that.
    """
    if x.type.target is not None:
        return x.type.target.at(opaque(x.address))
    kind = llvm.FunctionType(I64.llvm, [I64.llvm])
    return Value(builder().asm(kind, "", "=r,0", [x.x], True), I64)


def kept(x: Value) -> Value:
    """A mask or vector of AVX-512 that stays in its register: LLVM would rather compute it again."""
    kind, place = llvm.FunctionType(x.type.llvm, [x.type.llvm]), "k" if x.type.number is BIT else "v"
    return Value(builder().asm(kind, "", f"={place},0", [x.x], False), x.type)


def used(x: Value) -> None:
    """Have a vector's register kept up to here: an instruction before that writes over an operand takes another one."""
    b = builder()
    b.asm(llvm.FunctionType(llvm.VoidType(), [x.type.llvm]), "", "x", [x.x], True)


def settle(registers: Registers, numbers: Any) -> None:
    """Have these registers (vectors) computed by here: LLVM would rather load first, and then all of that waits. Only
    where there are 32 registers of AVX-512 that it could fill so.
    """
    if not tier().masks:
        return
    b, chosen = builder(), [registers.all[i] for i in numbers]
    values = [b.load(each.slot) for each in chosen]
    kinds = [each.type.llvm for each in chosen]
    places = [*["=v"] * len(values), *map(str, range(len(values)))]
    returned = llvm.FunctionType(llvm.LiteralStructType(kinds), kinds)
    results = b.asm(returned, "", ",".join(places), values, True)
    for i, each in enumerate(chosen):
        b.store(b.extract_value(results, i), each.slot)


def prefetch(place: Value, near: bool = False) -> None:
    """Prefetch the cache line at a pointer to bytes into the second-level cache; near: into the first-level one."""
    target = place if place.type.target else I8.at(place)
    called("llvm.prefetch.p0", None, target, I32(0), I32(3 if near else 2), I32(1))
