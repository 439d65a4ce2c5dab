"""The replacement of a node whose shapes depend on data, by its rule."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from ...errors import ModelError, UnsupportedError
from ...ir import Graph, Node, Value, read_by
from ...ops.control import BRANCHES
from ...ops.evaluate import fold, infer_node
from ...ops.registry import OPS, attr
from .numbers import counted
from .state import RULES, Bounds
from .sums import elementwise
from .values import Bounded, Extent, Unbounded, Varied, refuse


def visit(g: Bounds, node: Node, keep: bool = True) -> bool:
    """Write the replacement of a node; or the node itself, if it has none and `keep` is set. Returns whether it has
    one.
    """
    before, g.node = g.saved(), node
    reads = read_by(node)
    fixed = all(g.is_ready(v) for v in reads)
    if fixed and all(v.type.concrete for v in node.outputs):
        if _is_unchanged(node, node.x, node.out):
            g.instead[node.out] = g.written(node.x)
        else:
            g.keep(node)
            _follow_numbers(g, node)
        return True
    try:
        numbers = counted(g, node)
        if numbers is not None:
            _note_numbers(g, node.out, numbers)
            return True
        if _inline_branch(g, node):
            return True
        for old, new in zip(node.outputs, _by_rule(g, node), strict=False):
            _replace(g, old, new)
        return True
    except (Unbounded, ModelError, UnsupportedError):
        g.restore(before)
    if keep:
        ready = all([g.is_ready(g.written(v)) for v in reads])
        if ready and not node.graphs:
            _check_operands(g, node)
        g.keep(node, ready)
    return False


def _check_operands(g: Bounds, node: Node) -> None:
    """ModelError where a node can't take its operands in the shapes that they turned out to have."""
    inputs, outputs = [v and g.written(v) for v in node.inputs], [Value(v.name) for v in node.outputs]
    with suppress(UnsupportedError):
        infer_node(Node(node.op, inputs, outputs, node.attrs, node.name))


def _inline_branch(g: Bounds, node: Node) -> bool:
    """Whether a node is an `if` whose branch is known; then that is written. Unbounded where it has nodes without a
    rule.
    """
    if node.op != "if" or g.written(node.x).data is None:
        return False
    body: Graph = attr(node, BRANCHES[0 if g.written(node.x).data.item() else 1])  # type: ignore[union-attr]
    refuse(not all([visit(g, each, keep=False) for each in body.nodes]))
    for old, new in zip(node.outputs, body.outputs, strict=True):
        if new in g.numbers:
            _note_numbers(g, old, g.numbers[new])
        else:
            _replace(g, old, g.take(new))
    return True


def _by_rule(g: Bounds, node: Node) -> list[Bounded]:
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    plain = all(v.type.quant is None and v.type.dtype != object for v in values)
    refuse(not plain or not OPS[node.op].pure and node.op not in RULES)
    reads = [v for v in node.inputs if v is not None]
    if not node.graphs and not any(v in g.left or g.take(v).extents for v in reads):
        before = g.saved()
        inputs = [v and g.written(v) for v in node.inputs]
        try:
            made = _constants(g, node, inputs) or g.again(node, *inputs)
            if not _is_unchanged(node, inputs[0], made[0]):
                return [Bounded(v) for v in made]
            g.restore(before)
            return [Bounded(g.written(node.x))]
        except Unbounded:
            g.restore(before)
    rule = RULES.get(node.op)
    return elementwise(g, node) if rule is None else rule(g, node)


def _is_unchanged(node: Node, x: Value | None, y: Value) -> bool:
    """Whether a node that may only change the shape leaves it, so that its result is x."""
    return node.op in ("expand", "reshape", "identity") and x is not None and x.type == y.type


def _constants(g: Bounds, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """The results of a node of constants; [] where an operand is none."""
    if any(v is not None and v.data is None for v in inputs):
        return []
    known = Node(node.op, list(inputs), [Value(v.name) for v in node.outputs], node.attrs, node.name)
    infer_node(known)
    return [g.held(data) for data in fold(known) or ()]


def _replace(g: Bounds, old: Value, new: Bounded) -> None:
    refuse(new.extents and new.value.type.nbytes > g.limit)
    if not new.extents:
        g.instead[old] = new.value
    g.known[new.value if not new.extents else old] = new


def _follow_numbers(g: Bounds, node: Node) -> None:
    """Note the numbers that a node computes of fed ones."""
    if any(v in g.numbers for v in node.inputs if v is not None):
        with suppress(ModelError, UnsupportedError):
            numbers = counted(g, node)
            if numbers is not None:
                g.numbers[node.out] = numbers


def _note_numbers(g: Bounds, value: Value, numbers: np.ndarray) -> None:
    g.numbers[value] = numbers
    if not any(isinstance(n, Extent | Varied) for n in numbers.flat):
        g.instead[value] = Value.constant(value.name, numbers.astype(value.type.dtype))
