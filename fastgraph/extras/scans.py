"""Scans, given the step that is done in each round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir import Graph, Value
from ..rules.sweep import Sweep


def scanned(
    g: Sweep, carried: Sequence[Value], moving: Sequence[Value], step: Callable[..., list[Value]], reverse: bool = False
) -> list[Value]:
    """A loop over axis 0 of `moving`: the carried values after the last round, then the results of the rounds, stacked.

    step(g, *carried, *slices of moving) gives the next carried values, then the results of the round.
    """
    name, times = g.node.out.name, moving[0].type.dims[0]
    kinds = [v.type for v in carried] + [v.type.with_shape(v.type.dims[1:]) for v in moving]
    body = Graph(f"{name}.round", [Value(f"{name}.in{i}", kind) for i, kind in enumerate(kinds)], [], [], "")
    inner = Sweep(body)
    inner.node = g.node
    with inner:
        body.outputs = step(inner, *body.inputs)
    body.nodes = inner.written()
    kept = [v.type.with_shape((times, *v.type.dims)) for v in body.outputs[len(carried) :]]
    attrs: dict[str, Any] = {"body": body, "num_scan_inputs": len(moving)}
    if reverse:
        attrs["scan_input_directions"] = [1] * len(moving)
        attrs["scan_output_directions"] = [1] * len(kept)
    return g.several("scan", [*(v.type for v in carried), *kept], *carried, *moving, **attrs)
