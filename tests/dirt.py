"""Memory in which something lies already, as plans find it that take turns in one block."""

from collections.abc import Callable
from typing import Any

from fastgraph.freedoms import checked
from fastgraph.runtime.executable import Executable
from fastgraph.runtime.model import Model

DIRT = 0xFF
"""NaN, or -1."""


def soil(plan: Executable) -> None:
    """Fill a plan's arena, but for its states; pages that nobody may touch lie in it when it is guarded."""
    if checked() == "guard":
        return
    states = [state.copy() for state, _ in plan.states]
    plan.memory.arena[...] = DIRT
    for (state, _), before in zip(plan.states, states, strict=True):
        state[...] = before


def dirty(model: Model) -> Model:
    """The model, whose plans find dirt from now on whenever they come into use."""
    kept = model._plans
    use = kept.use

    def soiled(shapes: Any, make: Callable[..., Any]) -> Executable:
        before, chosen = kept.current, use(shapes, make)
        if chosen is not before:
            soil(chosen)
        return chosen

    kept.use = soiled  # type: ignore[method-assign]
    return model
