"""Attention as its kernel has it: f32, one result, keys and values in one piece, a mask with something for each key."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir import Node, TensorType, Value
from ...ir.build import constant
from ...ops.registry import attr
from ...rules.moves import shaped, turn
from ...rules.rule import rule
from ...rules.sweep import Sweep

F32, BOOL = np.dtype(np.float32), np.dtype(np.bool_)


def _operands(node: Node) -> list[Value | None]:
    return (node.inputs + [None] * 7)[:7]


def _known(node: Node) -> bool:
    """Whether shapes are numbers, none is 0 but that of the keys, and floats are f32; a softmax may be f64."""
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    if not all(v.type.concrete for v in values) or not node.x.type.size:
        return False
    precision = attr(node, "softmax_precision")
    floats = [v.type.dtype for i, v in enumerate(_operands(node)) if v is not None and i not in (3, 6)]
    if precision is not None and np.dtype(precision) not in (F32, np.float64):
        return False
    return all(dtype == F32 for dtype in floats)


def _rows(value: Value) -> int:
    return value.type.dims[-2]


def _keys(node: Node) -> int:
    _, k, _, _, past, *_ = _operands(node)
    return _rows(k) + (_rows(past) if past is not None else 0)  # type: ignore[arg-type]


@rule("masks", "attention")
def attention_alone(state: Sweep, node: Node) -> bool:
    """Given ``y, keys, values = attention(q, k, v, mask, past, past_values)``; result ``keys = concat(past, k)`` and
    so on, and ``y = attention(q, keys, values, mask)``.
    """
    q, k, v, mask, past, past_value, valid = _operands(node)
    wanted = [state.reads[value] > 0 for value in node.outputs] + [False] * 3
    scores = len(node.outputs) > 3 and wanted[3]
    if not _known(node) or (scores and not _scores_known(node)):
        return False
    assert k is not None and v is not None
    if len(node.outputs) == 1 and past is None and (mask is None or _is_plain(mask, _keys(node))):
        return False
    if mask is not None:
        mask = _mask(state, node, mask, _keys(node))
    pairs = [(k, past), (v, past_value)]
    if past is not None or wanted[1] or wanted[2] or scores:
        k, v = (_joined(state, node, value, before) for value, before in pairs)
    attrs = {**node.attrs, "place": _rows(past) if past is not None and _rows(past) else attr(node, "place")}
    attrs["qk_matmul_output_mode"] = 0
    y = state.add("attention", [q, k, v, mask, None, None, valid], node.out.type, node, **attrs)
    results = [y, k, v]
    if scores:
        results.append(_scores(state, node, k, mask, attrs))
    for value, result, read in zip(node.outputs, results, wanted, strict=False):
        if read:
            state.replace(value, result)
    return True


def _is_plain(mask: Value, keys: int) -> bool:
    return mask.type.dtype in (F32, BOOL) and mask.type.dims[-1] == keys


def _mask(state: Sweep, node: Node, mask: Value, keys: int) -> Value:
    """A mask of other numbers in f32; one for fewer keys hides the others, and one for all is repeated."""
    dims, hidden = mask.type.dims, F32.type(-np.inf)
    if mask.type.dtype not in (F32, BOOL):
        mask = state.add("cast", [mask], TensorType(F32, dims), node, to=F32)
    if dims[-1] == keys:
        return mask
    shape = mask.type.with_shape((*dims[:-1], keys))
    if dims[-1] == 1:
        return state.add("expand", [mask, constant(node.out, np.array(shape.dims, np.int64), "shape")], shape, node)
    pads = constant(node.out, np.array([0] * (2 * len(dims) - 1) + [keys - dims[-1]], np.int64), "pads")
    fill = constant(node.out, np.array(hidden if mask.type.dtype == F32 else False), "fill")
    return state.add("pad", [mask, pads, fill], shape, node, mode="constant")


def _joined(state: Sweep, node: Node, value: Value, past: Value | None) -> Value:
    """All keys or values, [images, heads, rows, size]."""
    heads = _split(state, node, value, attr(node, "kv_num_heads"))
    if past is None or not past.type.size:
        return heads
    images, count, rows, size = heads.type.dims
    type_ = heads.type.with_shape((images, count, rows + _rows(past), size))
    return state.add("concat", [past, heads], type_, node, axis=2)


def _split(state: Sweep, node: Node, value: Value, heads: int | None) -> Value:
    """[images, rows, heads * size] as [images, heads, rows, size]; so it may be already."""
    dims = value.type.dims
    if len(dims) == 4:
        return value
    assert heads
    return turn(state, node, shaped(state, node, value, (*dims[:2], heads, dims[2] // heads)), (0, 2, 1, 3))


# -- scores that are a result


def _scores_known(node: Node) -> bool:
    """Whether it is known which keys each query sees, as far as its scores depend on that."""
    mode, valid = attr(node, "qk_matmul_output_mode"), _operands(node)[6]
    return mode < 2 or valid is None or valid.data is not None


def _scores(state: Sweep, node: Node, k: Value, mask: Value | None, attrs: dict[str, Any]) -> Value:
    """The scores at the stage that the node names, by products and elementwise steps."""
    from ...ops.attention import allowed_keys

    mode, cap = attr(node, "qk_matmul_output_mode"), attr(node, "softcap")
    q = _split(state, node, node.x, attr(node, "q_num_heads"))
    images, heads, s, d = q.type.dims
    groups, t = k.type.dims[1:3]
    scale = attr(node, "scale")
    factor = constant(node.out, F32.type(1 / math.sqrt(d) if scale is None else scale), "scale")
    q = state.add("mul", [q, factor], q.type, node)
    if groups != heads:
        q = shaped(state, node, q, (images, groups, heads // groups * s, d))
    turned = turn(state, node, k, (0, 1, 3, 2))
    x = state.add("matmul", [q, turned], q.type.with_shape((*q.type.dims[:3], t)), node)
    x = shaped(state, node, x, (images, heads, s, t))
    if mode > 0 and cap:
        limit = constant(node.out, F32.type(cap), "cap")
        x = state.add("tanh", [state.add("div", [x, limit], x.type, node)], x.type, node)
        x = state.add("mul", [x, limit], x.type, node)
    if mode > 1:
        valid = node.const(6)
        allowed = allowed_keys(Node("attention", [], [], attrs), images, s, t, 0, valid)
        if not allowed.all():
            hidden = constant(node.out, np.where(allowed, F32.type(0), F32.type(-np.inf)), "hidden")
            x = state.add("add", [x, hidden], x.type, node)
        if mask is not None and mask.type.dtype == BOOL:
            off = constant(node.out, F32.type(-np.inf), "off")
            x = state.add("where", [mask, x, off], x.type, node)
        elif mask is not None:
            x = state.add("add", [x, mask], x.type, node)
    if mode > 2:
        x = state.add("softmax", [x], x.type, node, axis=3)
        none = constant(node.out, F32.type(0), "none")
        nan = state.add("is_nan", [x], TensorType(BOOL, x.type.shape), node)
        x = state.add("where", [nan, none, x], x.type, node)
    return x


@rule("early", "attention")
def causal_mask(state: Sweep, node: Node) -> bool:
    """Given ``attention(q, k, v, m)`` with a constant m that hides just the keys behind a query's own; result the same
    without m, causal.
    """
    mask, past = node.const(3), node.inputs[4] if node.has(4) else None
    q, k = node.x.type, node.inputs[1].type if node.inputs[1] is not None else node.x.type
    if mask is None or attr(node, "is_causal") or attr(node, "place") is not None or node.has(6):
        return False
    if len(node.outputs) > 3 or not q.concrete or not k.concrete or past is not None and not past.type.concrete:
        return False
    before = 0 if past is None else past.type.dims[2]
    rows, keys = (kind.dims[2 if len(kind.dims) == 4 else 1] for kind in (q, k))
    seen = np.tri(rows, before + keys, before, dtype=bool)
    if mask.size != seen.size or mask.shape[-2:] != seen.shape or not seen.size:
        return False
    flat = mask.reshape(seen.shape)
    if flat.dtype.kind == "b":
        fits = bool((flat == seen).all())
    else:
        fits = flat.dtype.kind == "f" and not flat[seen].any() and bool((flat[~seen] <= np.finfo(flat.dtype).min).all())
    if not fits:
        return False
    inputs = [v if i != 3 else None for i, v in enumerate(node.inputs)]
    state.write(Node(node.op, inputs, node.outputs, {**node.attrs, "is_causal": 1}, node.name))
    return True
