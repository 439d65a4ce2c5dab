"""For as long as kernels are rewritten: functions that take a builder or a Vector, called with values, too."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import Any

from . import llvm
from .types import F32, I32, Type, of_llvm
from .values import Value, builder, tier, writing


def both(function: Callable) -> Callable:
    """A function of (v, ...) or (b, ...) on LLVM's values that may be called without v or b, with values of `lang`.

    A `Type` in place of v says how many lanes it has; else they are those of the first vector of f32 or i32, or the
    tier's.
    Results become values; an integer's type is signed.
    """
    names = list(inspect.signature(function).parameters)
    at = 1 if names and names[0] == "self" else 0
    wants_vector = names[at : at + 1] != ["b"] and names[at : at + 1] != ["builder"]

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        before, rest = args[:at], args[at:]
        if rest and _writes(rest[0]):
            return function(*args, **named)
        if not wants_vector:
            return wrapped(function(*before, builder(), *map(raw, rest), **{k: raw(x) for k, x in named.items()}))
        if rest and isinstance(rest[0], Type):
            lanes: int | None = rest[0].lanes
            rest = rest[1:]
        else:
            vectors = [x.type for x in (*rest, *named.values()) if isinstance(x, Value)]
            lanes = next((kind.lanes for kind in vectors if kind.lanes and kind.number in (F32, I32)), None)
        v = old_vector(lanes)
        return wrapped(function(*before, v, *map(raw, rest), **{k: raw(x) for k, x in named.items()}))

    return call


def old_vector(lanes: int | None = None) -> Any:
    """isa.vector.Vector at the builder at hand."""
    from ..isa.vector import Vector

    return Vector(builder(), tier(), lanes)


def raw(x: Any) -> Any:
    """LLVM's value of a value; so in lists, tuples and named tuples. A function of values becomes one of LLVM's."""
    if isinstance(x, Value):
        return x.x
    if is_dataclass(x):
        return _each(raw, x)
    if hasattr(x, "_fields"):
        return type(x)(*map(raw, x))
    if isinstance(x, list | tuple):
        return type(x)(map(raw, x))
    if inspect.isfunction(x):
        return lambda *args, **named: raw(x(*map(wrapped, args), **{k: wrapped(y) for k, y in named.items()}))
    return x


def wrapped(x: Any) -> Any:
    """The value of LLVM's value; so in lists and tuples, and of what a function gives."""
    if isinstance(x, llvm.Block):
        return x
    if is_dataclass(x):
        return _each(wrapped, x)
    if hasattr(x, "type") and not isinstance(x, Value):
        return Value(x, of_llvm(x.type))
    if hasattr(x, "_fields"):
        return type(x)(*map(wrapped, x))
    if isinstance(x, list | tuple):
        return type(x)(map(wrapped, x))
    if inspect.isfunction(x):
        return lambda *args, **named: wrapped(x(*map(raw, args), **{k: raw(y) for k, y in named.items()}))
    return x


def of_values(function: Callable) -> Callable:
    """A function whose first parameter is v, as one of values; others as they are."""
    return both(function) if list(inspect.signature(function).parameters)[:1] == ["v"] else function


def _writes(x: Any) -> bool:
    """Whether it is a Vector or a builder; a record may have a slot `b`, too."""
    return not hasattr(x, "_fields") and hasattr(getattr(x, "b", x), "goto_entry_block")


def _each(change: Callable, x: Any) -> Any:
    return replace(x, **{each.name: change(getattr(x, each.name)) for each in fields(x)})


def also_old(function: Callable) -> Callable:
    """The other way round: a function of values that may be called with (v, ...) or (b, ...) and LLVM's values, too.

    Where its first parameter is annotated `Type`, it gets a vector of f32 as wide as v for it.
    """
    names = list(inspect.signature(function).parameters)
    first = function.__annotations__.get(names[0]) if names else None

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if not args or not _writes(args[0]):
            return function(*args, **named)
        lead, *rest = args
        is_vector = hasattr(lead, "b")
        taken = [*map(wrapped, rest)]
        if first in ("Type", Type):
            taken.insert(0, F32.vector(lead.lanes))
        with writing(lead.b if is_vector else lead, lead.tier if is_vector else tier()):
            return raw(function(*taken, **{k: wrapped(x) for k, x in named.items()}))

    return call
