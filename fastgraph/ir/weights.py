"""Arrays that plans make of a model's constants (transposed, scaled, packed weights), made once for all plans of the
model.

Arrays that are kept have a number: the model's constants, and arrays made of them. Small ones are compared by content.
An array is freed with the last plan that uses it. Addresses would not do as keys: the memory of a freed array may be
used for another.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from itertools import count
from types import FunctionType
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np

from .graph import Node, Value
from .types import TensorType

HELD = 1 << 18
"""Bytes up to which arrays are compared by content."""

FIXED = (type(None), bool, int, str, bytes, type, np.dtype)
"""Immutable types whose equal values are interchangeable."""


class Unknowable(Exception):
    """An argument that can change, or an array without a number that is too large to compare by content."""


class Weights:
    """Arrays made for the plans of a model with these constants. Each plan keeps alive what it uses."""

    def __init__(self, constants: Iterable[np.ndarray]) -> None:
        self._made: WeakValueDictionary[Hashable, np.ndarray] = WeakValueDictionary()
        self._lasting: dict[int, tuple[ref[np.ndarray], int]] = {}
        self._numbers = count()
        self._own = list(constants)
        self._used: list[np.ndarray] = []
        self._places: dict[int, tuple[np.ndarray, Hashable]] = {}
        for array in self._own:
            self._last(array)

    def __len__(self) -> int:
        """How many arrays are kept."""
        return len(self._made)

    @contextmanager
    def planning(self) -> Iterator[list[np.ndarray]]:
        """Makes these weights current; gives the list of arrays that the plan must keep."""
        used: list[np.ndarray] = []
        self._used = used
        token = _current.set(self)
        try:
            yield used
        finally:
            _current.reset(token)
            self._used = []
            self._places.clear()

    def key(self, make: Callable[..., Any], parts: Iterable[Any]) -> Hashable | None:
        """`key_of` of them; None for arguments that have no key."""
        try:
            return key_of(make, parts, self._place)
        except Unknowable:
            return None

    def _place(self, array: np.ndarray) -> Hashable:
        """The array's part of a key. It is found once in a plan, which asks for each part of a layer."""
        if id(array) not in self._places:
            self._places[id(array)] = array, place_of(array, self._number)
        return self._places[id(array)][1]

    def find(self, key: Hashable) -> np.ndarray | None:
        """The array of a key, if a plan has it."""
        return self._made.get(key)

    def keep(self, key: Hashable, array: np.ndarray) -> None:
        """Remember this array by the key as long as somebody uses it. It must not change any more."""
        self._made[key] = array
        self._last(array)

    def once(self, make: Callable[..., Any], parts: Sequence[Any]) -> Any:
        key = self.key(make, parts)
        if key is None:
            return make(*parts)
        found = self.find(key)
        if found is None:
            found = make(*parts)
            if not isinstance(found, np.ndarray):
                return found
            self.keep(key, found)
        self._used.append(found)
        return found

    def _last(self, array: np.ndarray) -> None:
        root = root_of(array)
        at, places = id(root), self._lasting
        if at not in places:
            places[at] = ref(root, lambda _: places.pop(at, None)), next(self._numbers)

    def _number(self, root: np.ndarray) -> int | None:
        found, number = self._lasting.get(id(root), (None, 0))
        return number if found is not None and found() is root else None


def key_of(make: Callable[..., Any], parts: Iterable[Any], place: Callable[[np.ndarray], Hashable]) -> Hashable:
    """A key of make(*parts): the function and each of its arguments, an array as `place` says.

    The function depends on nothing but its arguments: it is a function of a module, not a closure. TypeError for other
    functions, `Unknowable` for arguments that can change.
    """
    if not isinstance(make, FunctionType) or make.__closure__ or "<" in make.__qualname__ or make.__defaults__:
        raise TypeError(f"{make!r}: expected a function of a module, without defaults, which reads only its arguments")
    return make, *[_known(part, place) for part in parts]


def _known(part: Any, place: Callable[[np.ndarray], Hashable]) -> Hashable:
    if isinstance(part, np.ndarray):
        return place(part)
    if isinstance(part, FIXED):
        return type(part), part
    if isinstance(part, (float, np.generic)):
        return type(part), np.asarray(part).tobytes()  # 0.0 == -0.0
    if isinstance(part, tuple):
        return type(part), *[_known(item, place) for item in part]
    if isinstance(part, slice):
        return slice, part.start, part.stop, part.step
    if isinstance(part, dict):
        return dict, *[(name, _known(item, place)) for name, item in sorted(part.items())]
    if isinstance(part, Value):
        return Value, _known(part.type, place), None if part.data is None else place(part.data)
    if isinstance(part, TensorType):
        return TensorType, part.dtype, part.shape, _known(part.quant, place)
    if isinstance(part, Node):
        values = [None if v is None else _known(v, place) for v in (*part.inputs, *part.outputs)]
        return Node, part.op, len(part.inputs), *values, _known(part.attrs, place)
    raise Unknowable(part)


def place_of(array: np.ndarray, number: Callable[[np.ndarray], int | None]) -> Hashable:
    """The key of an array: its place in a kept one, which has a number, or its content, if that is little."""
    root = root_of(array)
    found = number(root)
    if found is not None:
        offset = 0 if array is root else _start(array) - _start(root)
        return "at", found, offset, array.strides, array.shape, array.dtype
    if array.nbytes > HELD or array.dtype.hasobject:
        raise Unknowable(array.shape)
    held = array.tobytes()
    return "is", held if len(held) <= 64 else sha256(held).digest(), array.shape, array.dtype


def _start(array: np.ndarray) -> int:
    start: int = array.__array_interface__["data"][0]
    return start


def once(make: Callable[..., Any], *parts: Any) -> Any:
    """make(*parts), an array that is made once for all plans of the model at hand; `make` as `key_of` says."""
    weights = _current.get()
    return make(*parts) if weights is None else weights.once(make, parts)


def current() -> Weights | None:
    """The weights of the model that is being planned; None when it has one plan only."""
    return _current.get()


_current: ContextVar[Weights | None] = ContextVar("weights", default=None)


def root_of(array: np.ndarray) -> np.ndarray:
    """The array that owns its memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
