"""What plans make of a model's constants (turned, scaled, packed weights): once for all plans of the model.

Arrays that last are known by a number of their own: the model's constants, and what was made of them. Small ones are
known by what they hold. What no plan has any more is let go. An address would not do: what was made of an array may
outlive it, and another one come to lie there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from itertools import count
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np

from .graph import Node, Value
from .types import TensorType

SMALL = 1 << 14
"""Bytes up to which an array may be known by what it holds."""


class _Strange(Exception):
    """Something that nothing is known by."""


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

    def key(self, make: Callable[[], Any], parts: Iterable[Any]) -> Hashable | None:
        """What tells that which `make` makes of `parts` from all else; None for parts that can't be told apart.

        All that `make` gives must hang on must be among them: numbers, text, arrays, values, or nodes, which stand for
        their constants, types of elements and attributes, without shapes.
        """
        try:
            found = (make.__code__, *map(self._known, parts))
            hash(found)
        except (_Strange, TypeError):
            return None
        return found

    def find(self, key: Hashable) -> np.ndarray | None:
        """What was kept for a key, if a plan has it."""
        return self._made.get(key)

    def keep(self, key: Hashable, array: np.ndarray) -> None:
        """Find this array by the key as long as somebody has it. It must not change any more."""
        self._made[key] = array
        self._last(array)

    def once(self, make: Callable[[], np.ndarray], parts: Iterable[Any]) -> np.ndarray:
        key = self.key(make, parts)
        if key is None:
            return make()
        found = self.find(key)
        if found is None:
            found = make()
            if not isinstance(found, np.ndarray):
                return found
            self.keep(key, found)
        self._used.append(found)
        return found

    def _last(self, array: np.ndarray) -> None:
        root = _root(array)
        at, places = id(root), self._lasting
        if at not in places:
            places[at] = ref(root, lambda _: places.pop(at, None)), next(self._numbers)

    def _known(self, part: Any) -> Hashable:
        if isinstance(part, np.ndarray):
            return self._array(part)
        if isinstance(part, Value):
            return _stored(part.type), None if part.data is None else self._array(part.data)
        if isinstance(part, Node):
            values = [None if v is None else self._known(v) for v in (*part.inputs, *part.outputs)]
            return part.op, tuple(values), tuple(sorted(part.attrs.items()))
        return type(part), part.hex() if isinstance(part, float) else part  # 0.0 == -0.0

    def _array(self, array: np.ndarray) -> Hashable:
        """By what an array is known: its place in one that lasts, or what it holds."""
        root = _root(array)
        found, number = self._lasting.get(id(root), (None, 0))
        if found is not None and found() is root:
            first, start = (a.__array_interface__["data"][0] for a in (array, root))
            return "at", number, first - start, array.strides, array.shape, array.dtype
        if array.nbytes > SMALL or array.dtype.hasobject:
            raise _Strange
        held = array.tobytes()
        return "is", held if len(held) <= 64 else sha256(held).digest(), array.shape, array.dtype


def once(make: Callable[[], np.ndarray], *parts: Any) -> np.ndarray:
    """What `make` makes of these parts, all that it hangs on: made once for all plans of the model at hand."""
    weights = _current.get()
    return make() if weights is None else weights.once(make, parts)


def current() -> Weights | None:
    """Those of the model that a plan is being made of; None when it has but one."""
    return _current.get()


_current: ContextVar[Weights | None] = ContextVar("weights", default=None)


def _root(array: np.ndarray) -> np.ndarray:
    """The array whose memory it is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _stored(type_: TensorType) -> Hashable:
    return type_.dtype, type_.quant
