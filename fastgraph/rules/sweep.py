"""How a pass rewrites: one forward sweep that lets a rule look at each node and say what stands there instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import numpy as np

from ..freedoms import gone
from ..ir import FLOAT32, Graph, Node, TensorType, Value, read_by
from ..ir.build import Rewriter, constant
from ..ir.weights import once
from ..limits import current
from ..ops.evaluate import computes_reals, fold, infer_node, only_result
from ..ops.registry import OPS
from ..ops.shape import permutation
from .operands import converted, only_moves_ones, transposed_data, transposed_quant
from .rule import Rule, applies, rules_of, sees


class Sweep(Rewriter):
    """State of one sweep: the nodes written so far, who made a value, how many nodes read each value. It builds what
    stands in the place of the node at hand.

    A rule gets `(sweep, node)` and returns False to keep the node, or True after it wrote its own nodes and said with
    `becomes` or `again` what stands for the node's outputs. `transposes`: those of constants that were made;
    `given`: for values that `layout` asked for, whether they are made of an input element by element.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.maker = graph.producers()
        self.outputs = set(graph.results())
        self.transposes: dict[tuple[Value, tuple[int, ...]], Value] = {}
        self.given: dict[Value, bool] = {}
        self._instead: dict[Value, Value] = {}
        self._dropped: set[Node] = set()

    @cached_property
    def reads(self) -> Counter[Value | None]:
        """How many nodes read each value, the graph itself for its outputs. All that changes it asks for it before."""
        return Counter(chain(self.graph.results(), *map(_read, self.graph.nodes)))

    def current(self, value: Value) -> Value:
        """The value that now replaces `value`."""
        while value in self._instead:
            value = self._instead[value]
        return value

    def held(self, data: np.ndarray) -> Value:
        return constant(self.node.out, data, "held")

    def infer(self, node: Node) -> None:
        """Operators that only move numbers keep how these are stored."""
        first = node.inputs[0] if node.inputs else None
        if first is not None and first.type.quant is not None and OPS[node.op].moves:
            for out in node.outputs:
                out.type = TensorType(first.type.dtype, None, first.type.quant)
        infer_node(node)

    def fold(self, node: Node) -> list[np.ndarray] | None:
        return fold(node)

    # -- moves and changes of types, in their simplest form; what needs no inference says its type

    def shape(self, x: Value, *dims: int) -> Value:
        before = self.made_by(x, "reshape")
        x = x if before is None else before.x
        if x.data is not None:
            return constant(x, x.data.reshape(dims), "reshaped", x.type.quant)
        if x.type.shape == dims:
            return x
        return self("reshape", x, self.vector(*dims), type=x.type.with_shape(dims), allowzero=1)

    def transpose(self, x: Value, *perm: int) -> Value:
        before = self.made_by(x, "transpose")
        if before is not None:
            first = permutation(before)
            perm, x = tuple(first[p] for p in perm), before.x
        dims = x.type.dims
        transposed = tuple(dims[p] for p in perm)
        if x.data is not None:
            if (x, perm) not in self.transposes:
                quant = transposed_quant(x.type.quant, perm)
                self.transposes[x, perm] = constant(x, transposed_data(x.data, perm), "turned", quant)
            return self.transposes[x, perm]
        if perm == tuple(range(len(perm))):
            return x
        if only_moves_ones(dims, perm):
            return self.shape(x, *transposed)
        return self("transpose", x, type=x.type.with_shape(transposed), perm=perm)

    def cast(self, x: Value, dtype: Any) -> Value:
        dtype = np.dtype(dtype)
        if x.type.dtype == dtype:
            return x
        if x.data is not None:
            return constant(x, converted(x.data, dtype), dtype.name)
        return self("cast", x, type=TensorType(dtype, x.type.shape), to=dtype.name)

    def requantize(self, x: Value, type: TensorType) -> Value:
        """x stored in another way."""
        if x.data is None:
            return self("requantize", x, type=type)
        out = Value(f"{x.name}.requantized", type)
        current().hold(type.nbytes, out.name)
        return Value.constant(
            out.name, once(only_result, self._node("requantize", [x], [out], {}), (x.data,)), type.quant
        )

    def reals(self, x: Value) -> Value:
        """The float32 that a quantized value stands for; others as they are."""
        return x if x.type.quant is None else self.requantize(x, TensorType(FLOAT32, x.type.shape))

    # -- what stands for a node

    def becomes(self, *results: Value) -> bool:
        """Replace the results of the node at hand by these values. Returns True, as a rule does that applies."""
        for old, new in zip(self.node.outputs, results, strict=False):
            if new.type.shape != old.type.shape:
                new = self.shape(new, *old.type.dims)
            self.replace(old, new)
            same = self.made_by(new, "reinterpret")
            if same is not None:  # the stored numbers are the same
                note(new, same.x)
        return True

    def again(self, like: Node, inputs: Sequence[Value | None] | None = None, **attrs: Any) -> bool:
        """Write a node that gives what the node at hand gave, with other operands and attributes. Returns True, as a
        rule does that applies.
        """
        operands = like.inputs if inputs is None else list(inputs)
        self.write(like.with_(operands, self.node.outputs, attrs={**like.attrs, **attrs}))
        return True

    def into(self, out: Value, op: str, *operands: Value | None) -> None:
        """Write an operator whose result is `out`."""
        self.write(self._node(op, operands, [out], {}))

    def append(self, node: Node) -> None:
        self.write(node)

    def write(self, node: Node) -> None:
        """Write a new node."""
        reads = self.reads
        self.keep(node)
        for value in _read(node):
            reads[value] += 1

    def keep(self, node: Node) -> None:
        """Write a node as it is."""
        self.nodes.append(node)
        for value in node.outputs:
            self.maker[value] = node

    def replace(self, old: Value, new: Value) -> None:
        """From here on `new` stands for `old`."""
        assert new.type.quant == old.type.quant, f"{new!r} {new.type} can't stand for {old!r} {old.type}"
        self.reads[new] += self.reads[old]
        self._instead[old] = new

    def made_by(self, value: Value | None, *ops: str) -> Node | None:
        """The node that makes the value, if it is of one of these operators."""
        node = None if value is None else self.maker.get(value)
        return node if node is not None and node.op in ops else None

    def sole_maker(self, value: Value | None, own: int = 1) -> Node | None:
        """The node that made `value` if nobody but the node at hand reads it, else None.

        `own`: how often the node at hand is among the readers; 0 for a value that it gets from a node it has dropped.
        """
        if value is None or self.reads[value] != own or value in self.outputs:
            return None
        return self.maker.get(value)

    def drop(self, node: Node) -> None:
        """Take back a node written before, because the node at hand has taken it in."""
        self._dropped.add(node)
        self.forget(node)

    def forget(self, node: Node) -> None:
        """The node no longer reads its inputs."""
        reads = self.reads
        for value in _read(node):
            reads[value] -= 1

    def written(self) -> list[Node]:
        """The nodes that stand, in order."""
        return [node for node in self.nodes if node not in self._dropped]


def _read(node: Node) -> set[Value | None]:
    """The distinct values that a node reads; absent inputs are None."""
    return set(read_by(node) if node.graphs else node.inputs)


How = Callable[[np.ndarray], np.ndarray]
Notes = dict[Value, tuple[Value, How | None]]
_notes: list[Notes] = []


@contextmanager
def noted() -> Iterator[Notes]:
    """Within it: for each value that another came to stand for, that one, and how the first is had from it (None: they
    are the same).
    """
    found: Notes = {}
    _notes.append(found)
    try:
        yield found
    finally:
        _notes.remove(found)


def note(old: Value, new: Value, how: How | None = None) -> None:
    """Report what replaces a value to `noted`."""
    for found in _notes:
        found[old] = new, how


def has_reals(graph: Graph) -> bool:
    """Whether a node of the graph computes the reals that stored numbers stand for."""
    return any(computes_reals(node) for node in graph.nodes)


def sweep(graph: Graph, *which: str | Rule) -> bool:
    """Run the rules of some phases, and others, over the graph once, in order; the first that applies to a node wins.
    Then nodes that are dead by that are pruned. Whether a rule applied.
    """
    asked = which, frozenset(node.op for node in graph.nodes), gone()
    named = all(isinstance(each, str) for each in which)  # functions may be closures of this graph
    found = _by_op(*asked) if named else _by_op.__wrapped__(*asked)
    if found is None:
        return False
    state = Sweep(graph)
    with state:
        if not _apply(state, *found):
            return False
    graph.nodes = state.written()
    graph.outputs = [state.current(v) for v in graph.outputs]
    for kept in graph.states:
        kept.output = state.current(kept.output)
    if state._instead:
        for value, new in state._instead.items():
            note(value, new)
        now = {value: state.current(value) for value in state._instead}
        for inner in (inner for node in graph.nodes for inner in node.graphs):
            inner.replace(now)
    graph.prune()
    return True


Rules = Mapping[str, list[Rule]]


@lru_cache(512)
def _by_op(which: tuple[str | Rule, ...], ops: frozenset[str], missing: frozenset[str]) -> tuple[Rules, Rules] | None:
    """For each operator the rules that see it, and those of them that see quantized nodes; None where there are none.
    `missing`: the freedoms that are taken away.
    """
    rules = [rule for each in which for rule in ([each] if callable(each) else rules_of(each, ops))]
    rules = [rule for rule in rules if rule.__name__ not in missing]
    by_op = {op: [rule for rule in rules if sees(rule, op)] for op in ops}
    real = {op: [rule for rule in each if getattr(rule, "quantized", False)] for op, each in by_op.items()}
    return (by_op, real) if any(by_op.values()) else None


def _apply(state: Sweep, by_op: Rules, real: Rules) -> bool:
    """Have the rules of each node's operator look at it, in order; `real`: those that see quantized ones, too. Whether
    one applied.
    """
    applied, instead = False, state._instead.keys()
    for node in state.graph.nodes:
        if instead and not instead.isdisjoint(node.inputs):
            node.inputs = [None if v is None else state.current(v) for v in node.inputs]
        found = by_op[node.op]
        if not found:
            state.nodes.append(node)
            continue
        if len(found) > len(real[node.op]) and computes_reals(node):
            found = real[node.op]
        state.node = node
        for rule in found:
            if applies(rule, state, node):
                state.forget(node)
                applied = True
                break
        else:
            state.nodes.append(node)
    return applied
