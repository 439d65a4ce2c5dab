"""What inputs and outputs are called: as in a signature, which callers know, or by their tensors' names."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.reader import unique
from .wire import Table

DEFAULT_SIGNATURE = "serving_default"


def interface_of(model: Table, subgraph: int) -> Table | None:
    """The signature of a sub-graph: TensorFlow's default one, else the first."""
    found = [s for s in model.signature_defs if s.subgraph_index == subgraph]
    named = [s for s in found if s.signature_key == DEFAULT_SIGNATURE]
    return next(iter(named + found), None)


def interface(tensors: Sequence[int], names: Sequence[str], entries: Sequence[tuple[int, str]]) -> list[str]:
    """A name for each tensor of an interface, all different.

    `names` are those of the tensors, `entries` a signature's: (tensor, name). Names are taken from it when it has one
    for each of the tensors.
    """
    told: dict[int, list[str]] = {}
    for tensor, name in entries:
        told.setdefault(tensor, []).append(name)
    if all(told.get(tensor) for tensor in tensors):
        names = [told[tensor].pop(0) if len(told[tensor]) > 1 else told[tensor][0] for tensor in tensors]
    taken: dict[str, int] = {}
    return [unique(taken, name or f"tensor_{tensor}") for tensor, name in zip(tensors, names, strict=True)]
