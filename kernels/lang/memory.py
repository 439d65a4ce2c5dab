"""Loads and stores, memory on the stack, tables of constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import llvm
from .control import either, when
from .lanes import halves
from .types import BIT, I8, I32, I64, Mistake, Type, pointer_to
from .values import First, Value, builder, called, constant, intrinsic, number, tier


def pointer(target: Type, place: Any) -> Value:
    """type.at(place): the pointer to such values at an address (an int64), or where another pointer points."""
    kind, b = pointer_to(target), builder()
    if isinstance(place, Value) and place.type.target is not None:
        return Value(b.bitcast(place.x, kind.llvm), kind)
    return Value(b.inttoptr(number(place).x, kind.llvm), kind)


def alignment(kind: Type) -> int:
    """The bytes that addresses of a type are a multiple of. Words of bytes, the other integers, lie anywhere."""
    return kind.bits // 8 if kind.real or kind.number is I64 else 1


def load(kind: Type, place: Any, mask: Value | None = None) -> Value:
    """The value at a pointer; with a mask its lanes, and 0 in the others, whose memory isn't touched."""
    at = pointer(kind, place)
    if mask is None:
        if not kind.lanes and alignment(kind) > 1:
            return Value(builder().load(at.x), kind)
        return Value(builder().load(at.x, align=alignment(kind)), kind)
    name = f"llvm.masked.load.{_spelled(kind)}.p0"
    return called(name, kind, at, I32(alignment(kind)), _mask(kind, mask), constant(kind, 0))


def store(kind: Type, value: Any, place: Any, mask: Value | None = None) -> None:
    """Store a value of a type (or a constant), of a vector only the lanes that a mask has."""
    value = kind(value)
    at = pointer(kind, place)
    if isinstance(mask, First) and isinstance(mask.count, Value) and not tier().masks:
        _store_first(value, at, mask.count)
    elif mask is not None:
        name = f"llvm.masked.store.{_spelled(kind)}.p0"
        called(name, None, value, at, I32(alignment(kind)), _mask(kind, mask))
    elif not kind.lanes and alignment(kind) > 1:
        builder().store(value.x, at.x)
    else:
        builder().store(value.x, at.x, align=alignment(kind))


def _store_first(value: Value, at: Value, count: Value) -> None:
    """Store the lanes before `count` in pieces of powers of two, the largest first: CPUs without masks in hardware
    take ten cycles and more for a masked store.
    """
    with either(count >= value.lanes) as (whole, part):
        with whole:
            value.type[at] = value
        with part:
            rest, left = value, intrinsic("smax", count, 0)
            while rest.lanes > 1:
                low, high = halves(rest)
                following = register(low)
                with when((left & low.lanes) != 0):
                    low.type[I8.at(at) + (left & -rest.lanes) * (value.type.bits // 8)] = low
                    following.value = high
                rest = following.value


def _item(kind: Type, at: Any) -> Value:
    return load(kind, *at) if isinstance(at, tuple) else load(kind, at)


def _set_item(kind: Type, at: Any, value: Any) -> None:
    place, mask = at if isinstance(at, tuple) else (at, None)
    store(kind, value, place, mask)


Type.at, Type.__getitem__, Type.__setitem__ = pointer, _item, _set_item  # type: ignore[assignment, method-assign]


def _spelled(kind: Type) -> str:
    return f"v{kind.lanes}{kind.name if kind.real else f'i{kind.bits}'}"


def _mask(kind: Type, mask: Value) -> Value:
    if mask.type is not BIT.vector(kind.lanes):
        raise Mistake(f"{kind} takes a mask of {kind.lanes} lanes, not {mask.type}")
    return mask


def room(kind: Type, count: int = 1, align: int | None = None) -> Value:
    """The pointer to memory for so many values of a type, as long as the kernel runs."""
    b = builder()
    with b.goto_entry_block():
        made = b.alloca(kind.llvm if count == 1 else llvm.ArrayType(kind.llvm, count))
        if align:
            made.align = align
    return Value(b.bitcast(made, pointer_to(kind).llvm), pointer_to(kind))


def table(name: str, kind: Type, numbers: Sequence[Any]) -> Value:
    """The pointer to constants of the module, written when they are asked for first."""
    module = builder().module
    if name not in module.globals:
        array = llvm.ArrayType(kind.llvm, len(numbers))
        made = llvm.GlobalVariable(module, array, name)
        made.linkage, made.global_constant = "internal", True
        made.initializer = llvm.Constant(array, list(numbers))
    return Value(builder().bitcast(module.globals[name], pointer_to(kind).llvm), pointer_to(kind))


def copy_bytes(to: Value, source: Value, count: Any) -> None:
    """Copy bytes between memory that doesn't overlap."""
    called("llvm.memcpy.p0.p0.i64", None, to, source, number(count), BIT(0))


class Register:
    """A variable that stays in a register: `total.value` reads it, `total.value = x` sets it."""

    __slots__ = ("slot", "type")

    def __init__(self, first: Value) -> None:
        self.type, b = first.type, builder()
        with b.goto_entry_block():
            self.slot = b.alloca(self.type.llvm)
        b.store(first.x, self.slot)

    @property
    def value(self) -> Value:
        return Value(builder().load(self.slot), self.type)

    @value.setter
    def value(self, x: Any) -> None:
        builder().store(self.type(x).x, self.slot)


class Registers:
    """Variables by number, which is known when the kernel is written: sums[i] = fma(x, w, sums[i])."""

    __slots__ = ("all",)

    def __init__(self, first: Sequence[Value]) -> None:
        self.all = [Register(x) for x in first]

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, i: int) -> Value:
        return self.all[i].value

    def __setitem__(self, i: int, x: Any) -> None:
        self.all[i].value = x

    def set(self, values: Sequence[Any]) -> None:
        for each, x in zip(self.all, values, strict=True):
            each.value = x

    def values(self) -> list[Value]:
        return [each.value for each in self.all]


def register(first: Any) -> Register:
    """A variable of the kernel that holds `first`; a number of Python is an int64."""
    return Register(I64(first) if isinstance(first, int) else first)


def registers(first: Sequence[Value]) -> Registers:
    """Variables of the kernel that hold these values."""
    return Registers(first)
