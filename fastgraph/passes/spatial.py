"""Transposes between spatial layers, which frontends put around each, cancelled before extents are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir import Graph, Node, Value
from ..ir.build import constant
from ..ops.registry import OPS, Layout, attr
from ..ops.shape import permutation
from ..rules.operands import only_moves_ones, transposed_data
from ..rules.rule import rule
from ..rules.sweep import Sweep, sweep


def cancel_transposes(graph: Graph) -> bool:
    """Given ``z = to_last(relu(to_first(y)))`` with y: f32[?,?,?,8]; result ``z = relu(y)``. Whether there were any.

    A plan becomes what it would be without this, unless an extent turns out to be 1 (`has_ones`): then these transposes
    move nothing, and are reshapes.
    """
    return sweep(graph, "spatial")


def has_ones(nodes: Sequence[Node], before: Sequence[Node]) -> bool:
    """Whether an extent of a result of `nodes` is 1 that was not known `before`, behind the first axis."""
    values = (pair for a, b in zip(nodes, before, strict=True) for pair in zip(a.outputs, b.outputs, strict=True))
    shapes = ((v.type.shape, w.type.shape) for v, w in values)
    return any(
        was is not None and any(n == 1 != d for n, d in zip(now[1:], was[1:], strict=True))
        for now, was in shapes
        if now is not None and 1 in now
    )


@rule("spatial", "transpose")
def to_last(g: Sweep, node: Node) -> bool:
    """A value whose channels come first, and then last again, is what it was."""
    rank = _rank(node.x)
    u = _source(g, node.x, rank)
    if u is None or permutation(node, rank) != _last(rank):
        return False
    g.replace(node.out, u)
    return True


@rule("spatial", "concat", lambda op: op.layout is Layout.EACH)
def joint(g: Sweep, node: Node) -> bool:
    """Where all operands become channels first, elementwise operators and concat do their work before that."""
    rank, inputs = _rank(node.out), list(node.inputs)
    if rank < 3 or all(v is None or v.data is not None for v in inputs):
        return False
    if OPS[node.op].step is None and only_moves_ones(node.out.type.shape or (), _last(rank)):
        return False
    for i, value in enumerate(node.inputs):
        if value is not None:
            inputs[i] = _source(g, value, rank) if value.data is None else _constant(value, rank)
            if inputs[i] is None:
                return False
    return _finish(g, node, inputs, {"axis": _first(rank)[node.attrs["axis"] % rank]} if node.op == "concat" else {})


@rule("spatial", "resize", lambda op: op.layout in (Layout.AXIS, Layout.AXES))
def single(g: Sweep, node: Node) -> bool:
    """Operators along axes that are known, of an operand that becomes channels first, do their work before that."""
    rank, (_, *others) = _rank(node.x), node.inputs
    u = _source(g, node.x, rank)
    if u is None or any(v is not None and v.data is None for v in others):
        return False
    where, first = OPS[node.op].axis, _first(rank)
    if OPS[node.op].layout is Layout.AXIS:
        return isinstance(where, str) and _finish(g, node, [u, *others], {where: first[attr(node, where) % rank]})
    if node.op == "resize":
        each = [v if v is None or v.data is None or not v.data.size else
                g.held(v.data.reshape(-1, rank)[:, _last(rank)].ravel()) for v in others]  # fmt: skip
        return node.attrs.get("axes") is None and _finish(g, node, [u, *each], {})
    axes = node.const(1)
    if axes is None or not axes.size or not node.attrs.get("keepdims", 1):
        return False
    return _finish(g, node, [u, g.vector(*sorted(first[int(a) % rank] for a in axes.ravel()))], {})


def _finish(g: Sweep, node: Node, inputs: list[Value | None], attrs: dict[str, Any]) -> bool:
    """Write the operator with its channels last, and transposes of its results."""
    shapes = [out.type.shape or () for out in node.outputs]
    kinds = [
        out.type.with_shape(tuple(shape[i] for i in _last(len(shape))))
        for out, shape in zip(node.outputs, shapes, strict=True)
    ]
    for out, y in zip(node.outputs, g.several(node.op, kinds, *inputs, **{**node.attrs, **attrs}), strict=True):
        g.replace(out, g("transpose", y, type=out.type, perm="to_first"))
    return True


def _first(rank: int) -> tuple[int, ...]:
    return (0, rank - 1, *range(1, rank - 1))


def _last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def _rank(value: Value) -> int:
    return len(value.type.shape or ())


def _source(g: Sweep, value: Value, rank: int) -> Value | None:
    """u when value = to_first(u), of floats and of this rank."""
    node, dtype = g.made_by(value, "transpose"), value.type.dtype
    floats = dtype is not None and dtype.kind == "f"
    found = floats and node is not None and rank == _rank(value) > 2 and permutation(node, rank) == _first(rank)
    return node.x if node is not None and found else None


def _constant(value: Value, rank: int) -> Value | None:
    """A constant with its channels last."""
    if value.array.size == 1 or value.array.ndim > rank:
        return value if value.array.size == 1 else None
    dims = (1,) * (rank - value.array.ndim) + value.array.shape
    return constant(value, transposed_data(value.array.reshape(dims), _last(rank)), "turned")
