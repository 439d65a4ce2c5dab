"""The part of a plan whose shapes depend on data, computed when the data are there."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .. import deadline
from ..compile import Compiled
from ..ir import Graph, Value, copy
from ..kernels.isa.tiers import NUMPY, Tier
from ..ops.evaluate import evaluate
from ..passes.deciding import cheap_on_host
from ..passes.dynamic import split_dynamic
from ..passes.specialize import specialize
from ..shared import Shared, guarded

if TYPE_CHECKING:
    from .model import Model

MOST_SHAPES, ALIKE = 256, 4
"""Sets of shapes for which it is kept whether a plan pays, and how many are asked for where it does for all."""

Part = Callable[[Graph, Tier, int, Shared | None], "Model"]
"""The model of a part of a plan, which shares what other plans do."""


class Tail:
    """Computes a tail: `first` by references, and then the `rest`, whose shapes are known by that, as a model with
    plans of its own, where planning takes less than the references would. Without a rest all of it by references.
    """

    def __init__(self, plan: Compiled, shared: Shared | None, part: Part | None) -> None:
        assert plan.tail is not None
        self._whole, self._make = plan.tail, part
        any_values = any(value is None for value in plan.values.values())  # such a plan is for where others don't pay
        parts = None if part is None or any_values or plan.tier is NUMPY else split_dynamic(plan.tail)
        if parts and not (plan.graph.nodes or parts[0].nodes):
            parts = None  # the rest is all there is: its model would have the same tail, and so on
        self._first: Graph = parts[0] if parts else plan.tail
        self._rest: Graph | None = parts[1] if parts else None
        self._how = plan.tier, plan.threads, shared
        self._cheap: OrderedDict[tuple[tuple[int, ...], ...], bool] = OrderedDict()
        self._idle: list[Model] = []

    @property
    def planned(self) -> bool:
        """Whether a part of it is planned when its shapes are known."""
        return self._rest is not None

    def run(self, known: dict[Value, Any]) -> dict[Value, Any]:
        """The results of the tail, from the values that it reads."""
        if self._rest is None:
            return _evaluated(self._whole, known)
        made = _evaluated(self._first, known)
        feeds = _feeds(self._rest, known | made)
        if self._is_cheap(self._rest, feeds):
            return made | _evaluated(self._rest, {v: feeds[v.name] for v in self._rest.inputs})
        left = deadline.seconds_left()
        model = self._taken(self._rest)
        try:
            results = model.run(feeds, timeout=None if math.isinf(left) else left)
        finally:
            self._idle.append(model)
        return made | {v: results[v.name] for v in self._rest.outputs}

    def part(self, known: dict[Value, Any]) -> tuple[Model, dict[str, Any]] | None:
        """The model that computes the rest, with what it is fed; None where references compute all."""
        if self._rest is None:
            return None
        feeds = _feeds(self._rest, known | _evaluated(self._first, known))
        return None if self._is_cheap(self._rest, feeds) else (self._taken(self._rest), feeds)

    def _taken(self, rest: Graph) -> Model:
        """A model for one run; those at the same time take one each."""
        assert self._make is not None
        return self._idle.pop() if self._idle else self._make(rest, *self._how)

    def _is_cheap(self, rest: Graph, feeds: Mapping[str, Any]) -> bool:
        """Whether references compute the rest in less time than planning takes, for operands of these shapes."""
        shapes = {v.name: feeds[v.name].shape for v in rest.inputs if v.type.dtype is not None}
        key = tuple(shapes.values())
        found = self._cheap.get(key)
        if found is None and len(self._cheap) >= ALIKE and not any(self._cheap.values()):
            return False
        if found is None:
            graph = copy(rest)
            with guarded(graph):
                specialize(graph, shapes)
            found = self._cheap[key] = cheap_on_host(graph)
            if len(self._cheap) > MOST_SHAPES:
                self._cheap.popitem(last=False)
        return found


def _feeds(rest: Graph, known: Mapping[Value, Any]) -> dict[str, Any]:
    return {v.name: known[v] for v in rest.inputs}


def _evaluated(graph: Graph, known: Mapping[Value, Any]) -> dict[Value, Any]:
    return dict(zip(graph.outputs, evaluate(graph, {v.name: known[v] for v in graph.inputs}), strict=True))
