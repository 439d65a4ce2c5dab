"""Which plan of a model runs given shapes and values, and how a new one is made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CompilerError, FastgraphError, InputError, RoomError, UnsupportedError
from ..ir import is_open
from ..kernels.isa.tiers import Tier
from .keys import Key, Keys
from .plans import Kept, Plans
from .runnable import Runnable

if TYPE_CHECKING:
    from .executable import Made
    from .lengths import Lengths
    from .plans import Plan
    from .reuse import Reuse
    from .tail import Part

MOST_VALUES = 4
"""Sets of values that decide shapes, which plans for the same many lengths are for."""


class Planner:
    """The plans of a model. `decided`: the memory of inputs whose values decide shapes, by name."""

    def __init__(self, keys: Keys, limits: Plans, tier: Tier, threads: int, part: Part) -> None:
        """`part`: what makes models of parts of plans."""
        self._tier, self._threads, self._part = tier, threads, part
        self.keys, self.plans = keys, Kept(limits)
        self.decided: dict[str, np.ndarray] = {}

    def twin(self) -> Planner:
        """A planner of the same plans, with memory of its own."""
        found = copy(self)
        found.keys, found.plans, found.decided = self.keys.twin(), self.plans.twin(), {}
        for own in ("lengths", "reuse"):
            vars(found).pop(own, None)
        return found

    def use(self, key: Key) -> Runnable:
        """Make this key's plan the current one."""
        with self.enough(key):
            current = self.plans.use(key, self.made)
        for name, value in current.values.items():
            shape = self.keys.shapes(key)[name]
            if name not in self.decided or self.decided[name].shape != shape:
                dtype = np.dtype(next(v.type.dtype for v in self.keys.graph.inputs if v.name == name))
                self.decided[name] = np.ndarray(shape, dtype, bytearray(math.prod(shape) * dtype.itemsize))
            if value is not None:
                self.decided[name][...] = value
            current.decided[name] = self.decided[name]
        if current.direct is not None:
            current.direct.reuse = self.reuse
        return current

    def chosen(self, arrays: Mapping[str, Any]) -> Runnable:
        """The plan for these feeds: one for many lengths, where lengths are new in each run; that for their shapes and
        values; or where such a plan does not pay, that for any values.
        """
        key = self.keys.of(arrays)
        kept, any_length = key in self.plans, (self.keys.open or key.values) and not self.keys.graph.states
        rows = self.keys.rows(key, arrays) if any_length else ()
        wide = self.lengths.instead(rows, kept) if any_length else None
        if wide is not None:
            try:
                found = self.use(self._any_of(self.keys.wide(key, arrays, wide)))
                self.lengths.ran(wide, rows, found.work)
                return found
            except FastgraphError as error:
                self.lengths.refuse(wide, near=isinstance(error, RoomError))
        known = self.keys.deciders(key.shapes) if key.values else None
        if known is not None and not known.pays(key.values, kept):
            with suppress(FastgraphError):
                return self.use(Key(key.shapes))
        chosen = self.use(key)
        if not kept and known is not None:
            known.made(key.values, chosen.cheap)
        if not kept and any_length:
            self.lengths.paid(rows)
        return chosen

    def _any_of(self, key: Key) -> Key:
        """The key of a plan for many lengths. UnsupportedError where values that decide shapes are new in each run."""
        if key not in self.plans and sum(each.opens == key.opens for each in self.plans.keys()) >= MOST_VALUES:
            raise UnsupportedError(f"{self.keys.asked(key)}: plans for many lengths would be for other values each")
        return key

    @cached_property
    def lengths(self) -> Lengths:
        from .lengths import Lengths  # of models whose shapes are open

        return Lengths(self.keys.part)

    @cached_property
    def reuse(self) -> Reuse:
        from .reuse import Reuse  # most results are small

        return Reuse()

    def own_keys(self) -> list[Key]:
        """The keys of the plans kept, but those for many shapes."""
        return [key for key in self.plans.keys() if not is_open(key.opens)]

    def made_plans(self) -> dict[tuple[Tier, int, Key], Made]:
        """The plans that were made in this process, by tier, threads and key."""
        from .executable import Made

        plans = {key: self.plans.find(key) for key in self.own_keys()}
        return {(self._tier, self._threads, key): plan for key, plan in plans.items() if isinstance(plan, Made)}

    def made(self, key: Key) -> Plan:
        """A new plan, stored or made now, as `new` says."""
        with self.keys.lock:
            found = None if self.keys.stored is None else self.keys.stored.plan(key)
            return found or self.new(key)

    def new(self, key: Key) -> Made:
        """A plan made now. InputError when there is none for the shapes that the caller chose, or a kernel that it
        needs is not in the saved program and can't be compiled.
        """
        with self.compiler():
            shared = self.keys.shared
            if shared is not None:
                shared.block = self.plans.block_bytes
            return self.keys.planned(key, self._tier, self._threads, shared, self._part)

    @contextmanager
    def enough(self, key: Key) -> Iterator[None]:
        """InputError where there is not enough memory for a plan."""
        try:
            yield
        except MemoryError as error:
            where = self.keys.graph.source or self.keys.graph.name or "model"
            raise InputError(f"{where}: not enough memory for {self.keys.asked(key)}: {error}") from None

    @contextmanager
    def compiler(self) -> Iterator[None]:
        """InputError, with the shapes that a saved program has, where there is no compiler for others."""
        try:
            yield
        except (CompilerError, ImportError) as error:
            stored = self.keys.stored
            if stored is None:
                raise
            raise InputError(
                f"{stored.file.title}: the saved program runs {stored.stored()}; other shapes need a compiler, which "
                "is not installed here, unless it is saved with them, or with any_shape=True (fastgraph compile "
                f"--any-shape): {error}"
            ) from error
