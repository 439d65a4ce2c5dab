"""What plans make of a model's constants (turned, scaled, packed weights): once for all plans of the model.

Arrays that last are known by a number of their own: the model's constants, and what was made of them. Small ones are
known by what they hold. What no plan has any more is let go. An address would not do: what was made of an array may
outlive it, and another one come to lie there.
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
"""Bytes up to which an array may be known by what it holds."""

FIXED = (type(None), bool, int, str, bytes, type, np.dtype)
"""What can't change, and equals only what means the same."""


class Unknowable(Exception):
    """A part that can change, or an array that is too large to be known by what it holds."""


class Weights:
    """What was made for the plans of a model that has these constants. Each plan keeps alive what it uses."""

    def __init__(self, constants: Iterable[np.ndarray]) -> None:
        self._made: WeakValueDictionary[Hashable, np.ndarray] = WeakValueDictionary()
        self._lasting: dict[int, tuple[ref[np.ndarray], int]] = {}
        self._numbers = count()
        self._own = list(constants)
        self._used: list[np.ndarray] = []
        for array in self._own:
            self._last(array)

    def __len__(self) -> int:
        """How many arrays are kept."""
        return len(self._made)

    @contextmanager
    def planning(self) -> Iterator[list[np.ndarray]]:
        """Let `once` be asked of these within; gives the arrays that the plan must keep."""
        used: list[np.ndarray] = []
        self._used = used
        token = _current.set(self)
        try:
            yield used
        finally:
            _current.reset(token)
            self._used = []

    def key(self, make: Callable[..., Any], parts: Iterable[Any]) -> Hashable | None:
        """`key_of` them; None for parts that can't be told apart."""
        try:
            return key_of(make, parts, self._number)
        except Unknowable:
            return None

    def find(self, key: Hashable) -> np.ndarray | None:
        """What was kept for a key, if a plan has it."""
        return self._made.get(key)

    def keep(self, key: Hashable, array: np.ndarray) -> None:
        """Find this array by the key as long as somebody has it. It must not change any more."""
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


def key_of(make: Callable[..., Any], parts: Iterable[Any], number: Callable[[np.ndarray], int | None]) -> Hashable:
    """What tells make(*parts) from all else: the function, and each of its arguments.

    The function reads nothing but its arguments, so the key names everything that the result depends on: a function of
    a module, not one that sees the names of another. `number`: that of an array that lasts, by which views of it are
    known; an array without a number is known by what it holds. TypeError for other functions, `Unknowable` for
    arguments that can change.
    """
    if not isinstance(make, FunctionType) or make.__closure__ or "<" in make.__qualname__ or make.__defaults__:
        raise TypeError(f"{make!r}: expected a function of a module, without defaults, which reads only its arguments")
    return make, *[_known(part, number) for part in parts]


def _known(part: Any, number: Callable[[np.ndarray], int | None]) -> Hashable:
    if isinstance(part, np.ndarray):
        return _array(part, number)
    if isinstance(part, FIXED):
        return type(part), part
    if isinstance(part, (float, np.generic)):
        return type(part), np.asarray(part).tobytes()  # 0.0 == -0.0
    if isinstance(part, tuple):
        return type(part), *[_known(item, number) for item in part]
    if isinstance(part, slice):
        return slice, part.start, part.stop, part.step
    if isinstance(part, dict):
        return dict, *[(name, _known(item, number)) for name, item in sorted(part.items())]
    if isinstance(part, Value):
        return Value, _known(part.type, number), None if part.data is None else _array(part.data, number)
    if isinstance(part, TensorType):
        return TensorType, part.dtype, part.shape, _known(part.quant, number)
    if isinstance(part, Node):
        values = [None if v is None else _known(v, number) for v in (*part.inputs, *part.outputs)]
        return Node, part.op, len(part.inputs), *values, _known(part.attrs, number)
    raise Unknowable(part)


def _array(array: np.ndarray, number: Callable[[np.ndarray], int | None]) -> Hashable:
    """By what an array is known: its place in one that lasts, or what it holds."""
    root = root_of(array)
    found = number(root)
    if found is not None:
        first, start = (a.__array_interface__["data"][0] for a in (array, root))
        return "at", found, first - start, array.strides, array.shape, array.dtype
    if array.nbytes > HELD or array.dtype.hasobject:
        raise Unknowable(array.shape)
    held = array.tobytes()
    return "is", held if len(held) <= 64 else sha256(held).digest(), array.shape, array.dtype


def once(make: Callable[..., Any], *parts: Any) -> Any:
    """make(*parts), an array that is made once for all plans of the model at hand; `make` as `key_of` says."""
    weights = _current.get()
    return make(*parts) if weights is None else weights.once(make, parts)


def current() -> Weights | None:
    """Those of the model that a plan is being made of; None when it has but one."""
    return _current.get()


_current: ContextVar[Weights | None] = ContextVar("weights", default=None)


def root_of(array: np.ndarray) -> np.ndarray:
    """The array whose memory it is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
