"""The choice of a layer's kernel: the candidate that suits and takes the fewest cycles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ..freedoms import free
from ..kernels.isa.tiers import Tier

Work = TypeVar("Work")


class Candidate(NamedTuple, Generic[Work]):
    """A way to compute a layer. times: cycles on one thread, and on two where the model says so; `emit(e, node, layer,
    rows)` writes the steps.
    """

    name: str
    suits: Callable[[Work, Tier], bool]
    times: Callable[[Work, Tier], Sequence[float]]
    emit: Callable[..., None]


def choose(candidates: Sequence[Candidate[Work]], layer: Work, tier: Tier) -> Candidate[Any]:
    """The cheapest of the candidates that suit; one at least must. The number of threads is not considered, as results
    depend on the choice."""
    suiting = [candidate for candidate in candidates if candidate.suits(layer, tier)]
    best, *others = [candidate for candidate in suiting if free(candidate.name)] or suiting
    if others:
        least = best.times(layer, tier)
        for other in others:
            times = other.times(layer, tier)
            if all(x < y for x, y in zip(times, least, strict=True)):
                best, least = other, times
    return best
