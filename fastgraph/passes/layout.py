"""Move transposes towards the outputs until they meet their inverse and vanish: what is left lies at the edges.

Each rule lets one operator work on the source of a transpose instead of on its result:
``y = op(transpose(u, p))`` becomes ``y = transpose(op'(u), p')``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir import Graph, Node, Value
from ..ir.build import constant
from ..ops.registry import OPS, Layout, attr
from ..ops.shape import permutation
from ..rules.operands import only_moves_ones, transposed_data
from ..rules.rule import rule
from ..rules.sweep import Sweep, note, sweep
from .canonicalize import canonicalize

Perm = tuple[int, ...]


def layout(graph: Graph) -> bool:
    """Sink transposes and let them cancel, again as long as dropped reshapes can free another pair. Passes after one
    that changed nothing are not repeated."""
    changed, idle = False, 0
    for run in (sink_transposes, canonicalize, share) * 2:
        changed, idle = (True, 0) if run(graph) else (changed, idle + 1)
        if idle == 3:
            break
    return split_reductions(graph) or changed


def split_reductions(graph: Graph) -> bool:
    """Reduce axes that a cancelled transpose has separated one after the other. Whether there were any."""
    return sweep(graph, "reductions")


def sink_transposes(graph: Graph) -> bool:
    """Sink transposes. Whether any moved."""
    return sweep(graph, "sinking", "reshapes")


def share(graph: Graph) -> bool:
    """Reuse equal transposes and reshapes, and concats as the beginning of later ones. Whether anything was shared.

    Given ``c = concat(a, b)`` and ``e = concat(a, b, d)``; result ``e = concat(c, d)``, so that each value is part of
    one concat only and can be computed in its place there (dense blocks).
    """
    seen: dict[tuple, Value] = {}
    begun: dict[tuple, int] = {}
    whole: dict[int, Value] = {}

    @rule("", "transpose reshape", quantized=True)
    def moved(g: Sweep, node: Node) -> bool:
        first = seen.setdefault((node.op, node.x, node.out.type.shape, node.attrs.get("perm")), node.out)
        return first is not node.out and g.becomes(first)

    @rule("", "concat", quantized=True)
    def joined(g: Sweep, node: Node) -> bool:
        if not node.out.type.concrete:
            return False
        axis, inputs = node.attrs["axis"] % len(node.out.type.dims), node.inputs
        # `begun` numbers the beginnings of concats, each by the number of what is one operand shorter.
        at, longest, same = -1 - axis, 0, node.out
        for count, value in enumerate(inputs, 1):
            at = begun.setdefault((at, value), len(begun))
            if 1 < count < len(inputs) and at in whole:
                longest, same = count, whole[at]
        whole.setdefault(at, node.out)
        return longest > 0 and g.again(node, [same, *inputs[longest:]])

    return sweep(graph, moved, joined)


def source(g: Sweep, value: Value | None) -> tuple[Value, Perm] | None:
    """(u, p) when value = transpose(u, p)."""
    node = g.made_by(value, "transpose")
    return None if node is None or not node.x.type.concrete else (node.x, permutation(node))


def inverse(perm: Sequence[int]) -> Perm:
    back = [0] * len(perm)
    for i, axis in enumerate(perm):
        back[axis] = i
    return tuple(back)


@rule(
    "sinking",
    "concat",
    lambda op: op.layout is Layout.EACH or op.layout in BY_LAYOUT or op.name in RULES,
    quantized=True,
)
def sink(g: Sweep, node: Node) -> bool:
    """Apply the rule of the node's operator when an input is a transpose."""
    if not any(g.made_by(value, "transpose") for value in node.inputs):
        return False
    for value in node.outputs:
        if not value.type.concrete or value.type.quant is not None and value.type.quant.axis is not None:
            return False  # its scales lie along an axis as well
    layout = OPS[node.op].layout
    if layout is Layout.EACH or node.op == "concat":
        return _sink_joint(g, node)
    rule = RULES.get(node.op) or BY_LAYOUT.get(layout)
    found = source(g, node.inputs[0]) if rule else None
    if rule is None or found is None or any(v is not None and v.data is None for v in node.inputs[1:]):
        return False
    return rule(g, node, *found)


def _finish(g: Sweep, node: Node, inputs: list[Value | None], perm: Perm, attrs: dict[str, Any]) -> bool:
    """Write op' on untransposed inputs, and transposes of all its outputs by `perm`."""
    kinds = [out.type.with_shape(tuple(out.type.dims[i] for i in inverse(perm))) for out in node.outputs]
    results = g.several(node.op, kinds, *inputs, **attrs)
    turned = [g.transpose(y, *perm) for y in results]
    for new, y in zip(turned, results, strict=True):
        note(new, y, lambda array: array.transpose(perm))
    return g.becomes(*turned)


def _sink_joint(g: Sweep, node: Node) -> bool:
    """Elementwise operators and concat: the same transpose is taken off all inputs, constants are transposed."""
    rank = len(node.out.type.dims)
    found = [source(g, v) for v in node.inputs]
    perm = next((f[1] for f in found if f is not None and len(f[1]) == rank), None)
    if perm is None or only_moves_ones(tuple(node.out.type.dims[i] for i in inverse(perm)), perm):
        return False
    turned = [_untransposed(g, v, f, perm) for v, f in zip(node.inputs, found, strict=True)]
    computed = [(v, f) for v, f in zip(node.inputs, found, strict=True) if v is not None and v.data is None]
    large = [f for v, f in computed if v.type.size * 2 > node.out.type.size]
    bare = large.count(None)
    if None in turned or bare * 2 > max(len(large), 1):
        return False
    if bare * 2 == len(large) and all(f is None or _is_given(g, f[0]) for f in found):
        return False
    attrs = dict(node.attrs)
    if node.op == "concat":
        attrs["axis"] = perm[attrs["axis"] % rank]
    return _finish(g, node, [t() if t else None for t in turned], perm, attrs)


def _is_given(g: Sweep, value: Value) -> bool:
    """Whether a value is an input, or made of one element by element, as one that is quantized: it keeps its order."""
    walked = []
    while (known := g.given.get(value)) is None:
        walked.append(value)
        node = g.maker.get(value)
        computed = [value] if node is None else [v for v in node.inputs if v is not None and v.data is None]
        if node is None or OPS[node.op].layout is not Layout.EACH or len(computed) != 1:
            known = node is None
            break
        value = computed[0]
    g.given.update(dict.fromkeys(walked, known))
    return known


def _untransposed(
    g: Sweep, value: Value | None, found: tuple[Value, Perm] | None, perm: Perm
) -> Callable[[], Value | None] | None:
    """A function that writes `value` without the transpose `perm`; None where there is none."""
    if value is None:
        return lambda: None
    if found is not None and found[1] == perm:
        u = found[0]
        return lambda: u
    if not value.type.concrete or len(value.type.dims) > len(perm):
        return None
    dims = (1,) * (len(perm) - len(value.type.dims)) + value.type.dims
    back = inverse(perm)
    if value.data is not None:
        if value.data.size == 1:
            return lambda: value
        if value.type.quant is not None and value.type.quant.axis is not None:
            return None
        data = value.data.reshape(dims)
        return lambda: constant(value, transposed_data(data, back), "turned", value.type.quant)
    if len(value.type.dims) < len(perm):
        return None
    return lambda: g.transpose(value, *back)


# -- one operator, one rule: (g, node, u, perm) with node.x = transpose(u, perm)


def _axis(g: Sweep, node: Node, u: Value, perm: Perm) -> bool:
    """The axis is an attribute or a constant."""
    where = OPS[node.op].axis
    if isinstance(where, str):
        axis = perm[attr(node, where) % len(perm)]
        return _finish(g, node, [u, *node.inputs[1:]], perm, {**node.attrs, where: axis})
    given = node.const(where)
    if given is None:
        return False
    inputs = [u, *node.inputs[1:]]
    inputs[where] = g.held(np.full(given.shape, perm[int(given.flat[0]) % len(perm)]))
    return _finish(g, node, inputs, perm, node.attrs)


def _reduce(g: Sweep, node: Node, u: Value, perm: Perm) -> bool:
    axes = node.const(1)
    if axes is None or axes.size == 0:
        return False
    rank = len(perm)
    gone = [int(a) % rank for a in axes.ravel()]
    source_axes = g.vector(*sorted(perm[a] for a in gone))
    if node.attrs.get("keepdims", 1):
        return _finish(g, node, [u, source_axes], perm, node.attrs)
    left = [perm[i] for i in range(rank) if i not in gone]
    order = sorted(left)
    return _finish(g, node, [u, source_axes], tuple(order.index(a) for a in left), node.attrs)


def _pad(g: Sweep, node: Node, u: Value, perm: Perm) -> bool:
    pads = node.const(1)
    if pads is None:
        return False
    rank = len(perm)
    axes = node.const(3)
    chosen = range(rank) if axes is None else [int(a) % rank for a in axes]
    full = np.zeros((2, rank), np.int64)
    for i, axis in enumerate(chosen):
        full[:, perm[axis]] = pads[i], pads[i + len(chosen)]
    return _finish(g, node, [u, g.held(full.ravel()), *node.inputs[2:3]], perm, node.attrs)


def _slice(g: Sweep, node: Node, u: Value, perm: Perm) -> bool:
    axes, starts = node.const(3), node.const(1)
    if starts is None:
        return False
    chosen = np.arange(starts.size) if axes is None else axes
    mapped = g.vector(*(perm[int(a) % len(perm)] for a in chosen))
    return _finish(g, node, [u, *node.inputs[1:3], mapped, *node.inputs[4:]], perm, node.attrs)


def _resize(g: Sweep, node: Node, u: Value, perm: Perm) -> bool:
    rank = len(perm)
    axes = node.attrs.get("axes")
    if axes is not None:
        mapped = tuple(perm[int(a) % rank] for a in axes)
        return _finish(g, node, [u, *node.inputs[1:]], perm, {**node.attrs, "axes": mapped})
    back = inverse(perm)
    inputs: list[Value | None] = [u]
    for i, value in enumerate(node.inputs[1:], 1):
        data = node.const(i)
        if data is None or data.size == 0:
            inputs.append(value)
            continue
        inputs.append(g.held(data.reshape(-1, rank)[:, list(back)].ravel()))
    return _finish(g, node, inputs, perm, node.attrs)


def _gather(g: Sweep, node: Node, u: Value, perm: Perm) -> bool:
    indices = node.const(1)
    if indices is None or indices.ndim > 1:
        return False
    axis = node.attrs.get("axis", 0) % len(perm)
    attrs = {**node.attrs, "axis": perm[axis]}
    if indices.ndim == 1:
        return _finish(g, node, [u, *node.inputs[1:]], perm, attrs)
    left = [p for i, p in enumerate(perm) if i != axis]
    order = sorted(left)
    return _finish(g, node, [u, *node.inputs[1:]], tuple(order.index(a) for a in left), attrs)


def _reshape(g: Sweep, node: Node, u: Value, perm: Perm) -> bool:
    """A reshape that splits and merges axes in groups is done before the transpose, where the axes of each group are
    adjacent in u. Axes of a group in another order are transposed first (as in a channel shuffle)."""
    old = node.x.type.dims
    keyed = []
    for ys, zs in matched_groups(old, node.out.type.dims):
        axes = sorted(perm[a] for a in ys if old[a] != 1)
        if axes and axes != list(range(axes[0], axes[0] + len(axes))):
            return False
        key = min(axes or [perm[a] for a in ys], default=len(perm))
        keyed.append((key, [perm[a] for a in ys], zs))
    keyed.sort(key=lambda item: item[0])
    order = [z for _, _, zs in keyed for z in zs]
    inner = g.transpose(u, *(axis for _, axes, _ in keyed for axis in axes))
    return g.becomes(g.transpose(g.shape(inner, *(node.out.type.dims[z] for z in order)), *inverse(order)))


def matched_groups(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """The finest split of a reshape into independent ones: pairs of axes of `old` and the axes of `new` they become."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        ys, zs, a, b = [], [], 1, 1
        if i < len(old):
            ys, a, i = [i], old[i], i + 1
        if j < len(new):
            zs, b, j = [j], new[j], j + 1
        while a != b:
            if a < b and i < len(old):
                ys.append(i)
                a *= old[i]
                i += 1
            elif j < len(new):
                zs.append(j)
                b *= new[j]
                j += 1
            else:
                break
        groups.append((ys, zs))
    return groups


Rule = Callable[[Sweep, Node, Value, Perm], bool]

BY_LAYOUT: dict[Layout, Rule] = {Layout.AXIS: _axis, Layout.AXES: _reduce, Layout.ORDER: _reshape}
RULES: dict[str, Rule] = {"pad": _pad, "slice": _slice, "resize": _resize, "gather": _gather}
"""Rules by operator, for those whose layout is OWN."""
