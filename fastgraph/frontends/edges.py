"""Changes of a graph's edges that callers ask for: other outputs, floats in place of quantized inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from ..errors import InputError, UnknownNameError
from ..ir import FLOAT32, Graph, Node, TensorType, Value

_SHOWN = 8
"""Names in a message, at most."""


def choose_outputs(graph: Graph, names: Sequence[str]) -> None:
    """Let the graph give these values, which may be any that its file names, and compute nothing else.

    UnknownNameError, with names that are near, when there is none of a name.
    """
    values = {value.name: value for value in graph.inputs}
    values |= {value.name: value for node in graph.nodes for value in node.outputs}
    values |= {value.name: value for value in graph.outputs}
    if not names:
        raise InputError("outputs=[]: expected names of values; leave it out for all that the file gives")
    for name in names:
        if not isinstance(name, str) or name not in values:
            near = get_close_matches(str(name), values, _SHOWN, 0.4) or [value.name for value in graph.outputs]
            where = graph.source or graph.name or "model"
            raise UnknownNameError(f"{where}: outputs: no value is called {name!r}; near are {', '.join(near)}")
    graph.outputs = [values[name] for name in names]
    interface = graph.interface
    interface.shows = {name: show for name, show in interface.shows.items() if name in names}
    interface.elements = {name: element for name, element in interface.elements.items() if name in names}
    graph.prune()


def use_floats(graph: Graph) -> None:
    """Let quantized inputs and outputs be float32: what is fed is stored as the file's quantization says, rounded half
    to even and saturated, and results are the reals that stored numbers stand for.
    """
    inputs = [(value, _real(value)) for value in graph.inputs]
    graph.inputs = [real for _, real in inputs]
    outputs = [(value, _real(value)) for value in graph.outputs]
    graph.outputs = [real for _, real in outputs]
    before = [Node("requantize", [real], [value], {}, f"{real.name}:in") for value, real in inputs if real is not value]
    after = [
        Node("requantize", [value], [real], {}, f"{real.name}:out") for value, real in outputs if real is not value
    ]
    graph.nodes = [*before, *graph.nodes, *after]


def _real(value: Value) -> Value:
    """The float32 that stands for a quantized value, under its name; itself for another."""
    if value.type.quant is None:
        return value
    real = Value(value.name.removesuffix(":stored"), TensorType(FLOAT32, value.type.shape))
    value.name = f"{real.name}:stored"
    return real
