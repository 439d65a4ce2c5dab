"""The part of a plan whose shapes depend on data, computed when the data are there."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from .. import deadline
from ..compile import Compiled
from ..ir import Graph, Value, copy
from ..kernels.isa.tiers import NUMPY, Tier
from ..ops.evaluate import evaluate
from ..passes.deciding import cheap_on_host
from ..passes.dynamic import split_dynamic
from ..passes.specialize import specialize
from ..shared import Shared, guarded

MOST_SHAPES = 256
"""Sets of shapes for which it is kept whether a plan pays."""

Run = Callable[..., dict[str, Any]]
"""run(feeds, timeout=...): as that of a model."""

Part = Callable[[Graph, Tier, int, Shared | None], Run]
"""The run of a model of a part of a plan; what other plans share, it does."""


class Tail:
    """Computes a tail: `first` by references, and then the `rest`, whose shapes are known by that, as a model with
    plans of its own, where planning takes less than the references would. Without a rest all of it by references.
    """

    def __init__(self, plan: Compiled, shared: Shared | None, part: Part | None) -> None:
        assert plan.tail is not None
        self._whole, self._make = plan.tail, part
        any_values = any(value is None for value in plan.values.values())  # such a plan is for where others don't pay
        parts = None if part is None or any_values or plan.tier is NUMPY else split_dynamic(plan.tail)
        self._first: Graph = parts[0] if parts else plan.tail
        self._rest: Graph | None = parts[1] if parts else None
        self._how = plan.tier, plan.threads, shared
        self._cheap: OrderedDict[tuple[tuple[int, ...], ...], bool] = OrderedDict()
        self._idle: list[Run] = []

    @property
    def planned(self) -> bool:
        """Whether a part of it is planned when its shapes are known."""
        return self._rest is not None

    def run(self, known: Mapping[Value, Any]) -> dict[Value, Any]:
        """The results of the tail, from the values that it reads."""
        if self._rest is None or self._make is None:
            return _evaluated(self._whole, known)
        made = _evaluated(self._first, known)
        feeds = {v: made[v] if v in made else known[v] for v in self._rest.inputs}
        if self._is_cheap(feeds):
            return made | _evaluated(self._rest, feeds)
        run = self._idle.pop() if self._idle else self._make(self._rest, *self._how)  # runs at a time take one each
        left = deadline.seconds_left()
        try:
            results = run({v.name: array for v, array in feeds.items()}, timeout=None if math.isinf(left) else left)
        finally:
            self._idle.append(run)
        return made | {v: results[v.name] for v in self._rest.outputs}

    def _is_cheap(self, feeds: Mapping[Value, Any]) -> bool:
        """Whether references compute the rest in less time than planning takes, for operands of these shapes."""
        assert self._rest is not None
        shapes = {v.name: a.shape for v, a in feeds.items() if v.type.dtype is not None}
        key = tuple(shapes.values())
        found = self._cheap.get(key)
        if found is None:
            graph = copy(self._rest)
            with guarded(graph):
                specialize(graph, shapes)
            found = self._cheap[key] = cheap_on_host(graph)
            if len(self._cheap) > MOST_SHAPES:
                self._cheap.popitem(last=False)
        return found


def _evaluated(graph: Graph, known: Mapping[Value, Any]) -> dict[Value, Any]:
    return dict(zip(graph.outputs, evaluate(graph, {v.name: known[v] for v in graph.inputs}), strict=True))
