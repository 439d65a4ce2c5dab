"""Keys of plans: the shapes of all inputs, and the values of those that decide shapes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..errors import GraphError, InputError, ModelError, UnsupportedError
from ..ir import Graph, Open, is_open
from ..locks import lock, undisturbed
from ..named import NamedTuple

if TYPE_CHECKING:
    from ..compile import Values
    from ..kernels.isa.tiers import Tier
    from ..shared import Shared
    from .executable import Made
    from .stored import Saved
    from .tail import Part

Shapes = tuple[tuple[int, ...], ...]
"""The shapes of all inputs, in order; () for an input without one."""

Line = tuple[tuple[int | Open, ...], ...]
"""Shapes with open extents, of a plan for many."""

Contents = tuple[tuple[str, bytes | tuple[int | Open, ...]], ...]
"""Values of inputs by name; numbers, where some are open."""

PRICE, PLANS = 4, 16
"""Of credit for values that decide shapes."""
MOST = 64
"""How many recent shapes without a plan are remembered."""
MOST_NUMBERS = 8
"""Numbers of an input that may be open."""
MOST_SHAPES = 256
"""Sets of input shapes whose deciders are kept."""


class Key(NamedTuple):
    """The key of a plan: the shapes of all inputs, with open extents where it is for many (`Line`). `values`: of the
    inputs that decide shapes, or () for a plan that works for any, where the shapes that depend on them have bounds or
    are left to NumPy.
    """

    shapes: Shapes
    values: Contents = ()

    @property
    def opens(self) -> Line:
        """The shapes, and values with open numbers."""
        return *self.shapes, *(row for _, row in self.values if not isinstance(row, bytes))

    def contents(self) -> list[list[str]]:
        """The values, as a saved program has them."""
        return [[name, content.hex()] for name, content in self.values if isinstance(content, bytes)]


class Credit:
    """Credit for new plans: each costs `price`, and each run whose plan, shapes or values came before earns 1.

    `plans`: for how many there is credit at first, and at most.
    """

    def __init__(self, price: int, plans: int) -> None:
        self._price, self._most, self._now = price, price * plans, price * plans
        self._left: OrderedDict[Hashable, None] = OrderedDict()

    def pays(self, what: Hashable, kept: bool) -> bool:
        """Whether to run with a plan of its own, `kept` or new. Call it for each run: it counts what came before."""
        if kept or what in self._left:
            self._now = min(self._now + 1, self._most)
        if kept or self._now >= self._price:
            return True
        self._left[what] = None
        self._left.move_to_end(what)
        if len(self._left) > MOST:
            self._left.popitem(last=False)
        return False

    def pay(self, what: Hashable) -> None:
        """Note that a plan was made."""
        self._now = max(self._now - self._price, 0)
        self._left.pop(what, None)


class Deciders:
    """The inputs that decide shapes, for given shapes of all inputs, and whether a plan for their values pays.

    Where NumPy runs in less time than planning takes (`cheap`), a value that comes in one run only, such as a
    counter's, isn't worth a plan.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.cheap = False
        self._credit = Credit(PRICE, PLANS)

    def pays(self, values: Contents, kept: bool) -> bool:
        """Whether to run these values with a plan of their own, `kept` or new."""
        return self._credit.pays(values, kept) or not self.cheap

    def made(self, values: Contents, cheap: bool) -> None:
        """Note that a plan was made for these values; `cheap`: a run by NumPy takes less time than that took."""
        self.cheap = cheap
        self._credit.pay(values)


class Whole(NamedTuple):
    """The plan that a model computes a part of: what it shares with others, if there are any."""

    shared: Shared | None


class Keys:
    """The keys of a model's plans. `open`: the caller chooses shapes; `decide`: inputs that may decide shapes.

    `graph`: the model's; `stored`: the file that it is loaded from, if it is a saved program. `part_of`: the
    plan that the model computes a part of. `lock`: held while planning, which models that share keys do one at a
    time.
    """

    def __init__(self, graph: Graph, stored: Saved | None = None, part_of: Whole | None = None) -> None:
        self.graph, self.stored, self._part_of = graph, stored, part_of
        shared = None if part_of is None else part_of.shared
        self._origin, self.lock = self, lock() if shared is None else shared.lock
        self._inputs = {v.name: v for v in graph.inputs}
        self._deciders: OrderedDict[Shapes, Deciders] = OrderedDict()
        self.open = not all(v.type.concrete or v.type.dtype is None for v in graph.inputs)
        self.decide = _deciding(graph) if stored is None else set(stored.directory["decide"])

    @property
    def part(self) -> bool:
        """Whether the model is a part of a plan."""
        return self._part_of is not None

    @property
    def whole(self) -> Graph:
        """The graph with its nodes."""
        return self.graph if self.stored is None else self.stored.whole

    def twin(self) -> Keys:
        """Keys for another model of the same network, whose plans share what these share."""
        found = copy(self)
        found._deciders = OrderedDict()
        return found

    @property
    def shared(self) -> Shared | None:
        """The data shared by all plans of a model that may have several, or brings kernels along."""
        return self._origin._shared

    @cached_property
    def _shared(self) -> Shared | None:
        if self.stored is None and not self.open and not self.decide:
            return None
        from ..shared import share

        found = share(self.whole, None if self._part_of is None else self._part_of.shared)
        found.lock = self.lock
        if self.stored is not None:
            found.addresses.update(self.stored.kernels())
        return found

    def of(self, arrays: Mapping[str, Any]) -> Key:
        """The key for checked feeds."""
        shapes = tuple(() if v.type.dtype is None else arrays[v.name].shape for v in self._inputs.values())
        return Key(shapes, tuple((name, arrays[name].tobytes()) for name in self.names(shapes)))

    def rows(self, key: Key, arrays: Mapping[str, Any]) -> Shapes:
        """The shapes, and the numbers that inputs hold which decide shapes."""
        return key.shapes + tuple(_numbers(arrays[name]) for name, _ in key.values)

    def wide(self, key: Key, arrays: Mapping[str, Any], rows: Line) -> Key:
        """The key of a plan for these feeds and others; `rows`: those of `key`, some of whose numbers are open."""
        shapes, numbers = rows[: len(key.shapes)], rows[len(key.shapes) :]
        held = {name: row for (name, _), row in zip(key.values, numbers, strict=True) if is_open([row])}
        names = self.names(cast(Shapes, shapes))
        return Key(cast(Shapes, shapes), tuple((name, held.get(name) or arrays[name].tobytes()) for name in names))

    def names(self, shapes: Shapes) -> tuple[str, ...]:
        """The inputs that decide shapes when all inputs have these shapes. InputError when no plan is possible."""
        return self.deciders(shapes).names if self.decide else ()

    def deciders(self, shapes: Shapes) -> Deciders:
        if shapes not in self._deciders:
            lines = (line for line in reversed(self._deciders) if is_open(line))
            wide = next((line for line in lines if _among(shapes, line)), None)
            names = self._names(shapes) if wide is None else self._deciders[wide].names
            self._deciders[shapes] = Deciders(names)
            if len(self._deciders) > MOST_SHAPES:
                self._deciders.popitem(last=False)
        self._deciders.move_to_end(shapes)
        return self._deciders[shapes]

    def _names(self, shapes: Shapes) -> tuple[str, ...]:
        known = None if self.stored is None else self.stored.deciders(shapes)
        if known is not None:
            return known
        from ..shared import deciders

        assert self.shared is not None
        key = Key(shapes)
        with self.suits(key), self.lock:
            return deciders(self.shared, self.shapes(key))

    def shapes(self, key: Key) -> dict[str, tuple[int, ...]]:
        """Shapes by input name, of the inputs that have one."""
        inputs = zip(self._inputs.values(), key.shapes, strict=True)
        return {v.name: shape for v, shape in inputs if v.type.dtype is not None}

    def values(self, key: Key) -> Values:
        """The values of the inputs that decide shapes; None where the plan is for any."""
        shapes, given = self.shapes(key), dict(key.values)
        if is_open(shapes[name] for name in given):
            raise UnsupportedError("inputs of any length decide shapes by their values")

        def held(name: str) -> np.ndarray | tuple[int | Open, ...] | None:
            content = given.get(name)
            if not isinstance(content, bytes):
                return content
            return np.frombuffer(content, self._inputs[name].type.dtype).reshape(shapes[name])

        return {name: held(name) for name in self.names(key.shapes)}

    def asked(self, key: Key) -> str:
        """Shapes and values of a key, for messages."""
        shapes = f"input shapes {self.shapes(key)}"
        if not key.values:
            return shapes
        held = {name: value for name, value in self.values(key).items() if value is not None}
        values = {name: [*n] if isinstance(n, tuple) else np.asarray(n).tolist() for name, n in held.items()}
        return f"{shapes} with the values {values}"

    def planned(self, key: Key, tier: Tier, threads: int, shared: Shared | None, part: Part | None = None) -> Made:
        """A new plan; `part` as for `make_plan`. InputError where none can be made for what the caller chose."""
        from .executable import make_plan

        values = self.values(key)
        with self.suits(key):
            return make_plan(self.whole, self.shapes(key), tier, threads, shared, values, part)

    @contextmanager
    def suits(self, key: Key) -> Iterator[None]:
        """InputError where no plan can be made for what the caller chose."""
        try:
            yield
        except (ModelError, GraphError) as error:
            if not key.values and (not self.open or isinstance(error, GraphError)):
                raise
            raise InputError(f"{self.asked(key)} don't suit the model: {error}") from error


def _numbers(array: np.ndarray) -> tuple[int, ...]:
    """An input's integers, where it holds few; else none."""
    few = array.dtype.kind in "iu" and array.size <= MOST_NUMBERS
    return tuple(array.ravel().tolist()) if few else ()


def _among(shapes: Shapes, line: Shapes) -> bool:
    """Whether shapes differ from a line's in open extents only: what decides shapes there suffices for these."""
    return [len(shape) for shape in shapes] == [len(shape) for shape in line] and all(
        n == d or isinstance(d, Open)
        for shape, row in zip(shapes, line, strict=True)
        for n, d in zip(shape, row, strict=True)
    )


def _deciding(graph: Graph) -> set[str]:
    """The inputs that may decide shapes."""
    if not any(v.type.shape is not None and len(v.type.shape) <= 2 for v in graph.inputs):
        return set()
    with undisturbed():
        from ..passes.deciding import deciding

    return {v.name for v in deciding(graph, typed=False)}
