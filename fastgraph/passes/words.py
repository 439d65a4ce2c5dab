"""Activations of 16 bits (words), between layers that sum reals, as the reals that they stand for."""

from __future__ import annotations

from collections import defaultdict
from functools import partial

import numpy as np

from ..freedoms import free
from ..ir import FLOAT32, Graph, Node, TensorType, Value
from ..ir.quantization import to_stored
from ..ops.evaluate import computes_reals
from ..ops.reals import real_type
from ..ops.registry import OPS
from ..rules.sweep import Sweep, note, sweep
from .explicit_quantization import same_numbers

CLAMPS = frozenset({"relu", "clip"})
"""Operators that commute with rounding, so that their bounds may join the limits of what is stored."""
PICKS = frozenset({"max_pool", "relu", "reduce_max", "reduce_min"})
"""Operators that give elements of their operand, or 0."""
FINITE = PICKS | frozenset(
    "conv conv_transpose dense matmul add sub mul max min clip abs neg average_pool reduce_mean reduce_sum resize tanh "
    "sigmoid hard_sigmoid hard_swish swish elu selu gelu leaky_relu prelu softmax softplus requantize".split()
)
"""Operators that give numbers for numbers: 16 bits hold no NaN."""


def reals_of_words(graph: Graph) -> bool:
    """Given ``y = conv(x, w)`` in int16; result ``y = round(conv(x, w) / scale) * scale`` on reals, held within the
    limits of 16 bits."""
    words = _between_layers(graph) if free("words") else set()
    if not words:
        return False
    reals: dict[Value | None, Value] = {}
    loose = _rounded_later(graph, words)
    rounded = words - loose

    def as_reals(g: Sweep, node: Node) -> bool:
        if words.isdisjoint(node.inputs) and words.isdisjoint(node.outputs):
            return False
        inputs = [reals.get(v, v) for v in node.inputs]
        joined = node.op in CLAMPS and node.x in loose
        if OPS[node.op].moves:
            inputs = [v if v is None or v.data is None else g.reals(v) for v in inputs]
        if joined or node.op == "requantize" and (node.out in words or node.out.type.dtype == FLOAT32):
            results = [g.reals(v) for v in inputs[:1] if v is not None]
        else:
            kinds = [real_type(v.type) if v in words else v.type for v in node.outputs]
            results = g.several(node.op, kinds, *inputs, **node.attrs)
        for old, new in zip(node.outputs, results, strict=True):
            if old not in words:
                g.replace(old, new)
                continue
            exact = old in loose or _keeps_numbers(node, rounded)
            reals[old] = new if exact else _rounded(g, new, old.type, _clamps(node) if joined else (-np.inf, np.inf))
            note(old, reals[old], partial(_stored, old.type))
        return True

    as_reals.quantized = True  # type: ignore[attr-defined]
    return sweep(graph, as_reals)


def _stored(type_: TensorType, reals: np.ndarray) -> np.ndarray:
    return to_stored(reals, type_.element, type_.quant)  # type: ignore[arg-type]


def _rounded(g: Sweep, x: Value, stored: TensorType, bounds: tuple[float, float]) -> Value:
    """The nearest reals that stored numbers stand for, of x held within bounds."""
    assert stored.quant is not None
    scale, zero = stored.quant.scale[0], stored.quant.zero_point[0]
    limits = np.iinfo(stored.element)
    low, high = (np.clip(np.rint(b / scale), limits.min - zero, limits.max - zero) for b in bounds)
    whole = g("round", x * np.float32(1 / scale), type=x.type)
    return g.clip(whole, np.float32(low), np.float32(high)) * np.float32(scale)


def _clamps(node: Node) -> tuple[float, float]:
    if node.op == "relu":
        return 0.0, np.inf
    low, high = node.const(1), node.const(2)
    return -np.inf if low is None else float(low.item()), np.inf if high is None else float(high.item())


def _keeps_numbers(node: Node, rounded: set[Value]) -> bool:
    """Whether the node's results are reals of 16 bits because its operands are."""
    if node.op not in PICKS and node.op != "requantize":
        return OPS[node.op].moves
    return node.x in rounded and same_numbers(node.x.type, node.out.type)


def _rounded_later(graph: Graph, words: set[Value]) -> set[Value]:
    """Those that only a clamp reads, which gives numbers of the same scale; of clamps in a row it is the first that
    joins.
    """
    found, uses = set(), graph.uses()
    for value in words.difference(*(node.outputs for node in graph.nodes if node.op in CLAMPS)):
        readers = uses.get(value, [])
        clamp = readers[0] if len(readers) == 1 and readers[0].op in CLAMPS else None
        constant = clamp is not None and all(map(_is_number, clamp.inputs[1:]))
        if clamp is not None and constant and clamp.out in words and same_numbers(clamp.out.type, value.type):
            found.add(value)
    return found


def _is_number(value: Value | None) -> bool:
    """Whether a bound is absent or a constant that is not stored in another way."""
    return value is None or value.data is not None and value.type.quant is None


def _between_layers(graph: Graph) -> set[Value]:
    """The values of 16 bits that only operators on reals, and moves among such values, make and read."""
    words = {v for node in graph.nodes for v in node.outputs if _is_word(v)}
    if not words:
        return words
    finite, uses = _finite(graph), graph.uses()
    words &= {v for node in graph.nodes if _makes(node, finite) for v in node.outputs}
    words.difference_update(graph.inputs, graph.results(), (s.input for s in graph.states))
    words = {v for v in words if all(map(_reads, uses.get(v, [])))}
    moved = [_moved(node) for node in graph.nodes if OPS[node.op].moves]
    moves: defaultdict[Value, list[set[Value]]] = defaultdict(list)
    for group in moved:
        for v in group:
            moves[v].append(group)
    apart = [v for v in moves if v not in words]
    while apart:
        v = apart.pop()
        words.discard(v)
        for group in moves.pop(v, []):
            apart.extend(group)
            group.clear()
    return {v for v in words if uses.get(v)}


def _moved(node: Node) -> set[Value]:
    """The 16-bit operands and results of a node that moves numbers, without constants."""
    return {v for v in (*node.inputs, *node.outputs) if v is not None and v.data is None and v.type.quant is not None}


def _is_word(value: Value) -> bool:
    """Whether a value has 16 bits and one scale of a usual size, whose inverse is a usual number, too."""
    quant = value.type.quant
    if quant is None or value.type.dtype != np.int16 or len(quant.scale) != 1 or not value.type.concrete:
        return False
    return 1e-30 < quant.scale[0] < 1e30


def _reads(node: Node) -> bool:
    return OPS[node.op].moves or computes_reals(node) and node.attrs.get("ties") is None


def _makes(node: Node, finite: set[Value]) -> bool:
    if node.graphs or node.attrs.get("ties") is not None:
        return False
    return OPS[node.op].moves or node.op in FINITE and all(v in finite for v in _read(node))


def _finite(graph: Graph) -> set[Value]:
    """The values that are numbers: stored ones, constants, and what operators of FINITE and moves make of them."""
    found: set[Value] = set()
    for node in graph.nodes:
        for v in _read(node):
            if v.type.quant is not None or v.data is not None and _are_numbers(v.data):
                found.add(v)
        if (node.op in FINITE or OPS[node.op].moves) and all(v in found for v in _read(node)):
            found.update(node.outputs)
    return found


def _are_numbers(data: np.ndarray) -> bool:
    return data.dtype.kind != "f" or bool(np.isfinite(data).all())


def _read(node: Node) -> list[Value]:
    return [v for v in node.inputs if v is not None]
