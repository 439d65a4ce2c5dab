"""Attention in the form that its kernel takes: f32, one result, concatenated keys and values, a mask that covers all
keys."""

from __future__ import annotations

import math

import numpy as np

from ...ir import BOOL, FLOAT32, Node, Value
from ...ops.registry import attr
from ...rules.rule import rule
from ...rules.sweep import Sweep


def _operands(node: Node) -> list[Value | None]:
    return [node.input(i) for i in range(7)]


def _known(node: Node) -> bool:
    """Whether shapes are numbers, only the number of keys may be 0, and floats are f32; the softmax may be f64."""
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    if not all(v.type.concrete for v in values) or not node.x.type.size:
        return False
    precision = attr(node, "softmax_precision")
    floats = [v.type.dtype for i, v in enumerate(_operands(node)) if v is not None and i not in (3, 6)]
    if precision is not None and np.dtype(precision) not in (FLOAT32, np.float64):
        return False
    return all(dtype == FLOAT32 for dtype in floats)


def _rows(value: Value | None) -> int:
    return 0 if value is None else value.type.dims[-2]


@rule("masks", "attention")
def attention_alone(g: Sweep, node: Node) -> bool:
    """Given ``y, keys, values = attention(q, k, v, mask, past, past_values)``; result ``keys = concat(past, k)`` and
    so on, and ``y = attention(q, keys, values, mask)``.
    """
    q, k, v, mask, past, past_value, valid = _operands(node)
    wanted = [g.reads[value] > 0 for value in node.outputs] + [False] * 3
    scores = len(node.outputs) > 3 and wanted[3]
    if not _known(node) or (scores and not _scores_known(node)):
        return False
    assert k is not None and v is not None
    keys = _rows(k) + _rows(past)
    plain = mask is None or mask.type.dtype in (FLOAT32, BOOL) and mask.type.dims[-1] == keys
    if len(node.outputs) == 1 and past is None and plain:
        return False
    mask = None if mask is None else _mask(g, mask, keys)
    if past is not None or wanted[1] or wanted[2] or scores:
        k, v = (_joined(g, node, value, before) for value, before in ((k, past), (v, past_value)))
    attrs = {**node.attrs, "place": _rows(past) or attr(node, "place"), "qk_matmul_output_mode": 0}
    y = g("attention", q, k, v, mask, None, None, valid, type=node.out.type, **attrs)
    results = [y, k, v, *([_scores(g, node, k, mask)] if scores else [])]
    for value, result, read in zip(node.outputs, results, wanted, strict=False):
        if read:
            g.replace(value, result)
    return True


def _mask(g: Sweep, mask: Value, keys: int) -> Value:
    """A mask of other numbers in f32. One for fewer keys is extended by -inf, one for all keys is repeated."""
    mask = mask if mask.type.dtype == BOOL else g.cast(mask, FLOAT32)
    *lead, n = mask.type.dims
    if n == 1:
        return g.broadcast(mask, *lead, keys)
    hidden = -np.inf if mask.type.dtype == FLOAT32 else 0
    return g.pad(mask, [0] * len(lead) + [0], [0] * len(lead) + [keys - n], hidden)


def _joined(g: Sweep, node: Node, value: Value, past: Value | None) -> Value:
    """Past and new keys or values concatenated, [images, heads, rows, size]."""
    heads = _split(g, value, attr(node, "kv_num_heads"))
    return heads if past is None or not past.type.size else g.join([past, heads], axis=2)


def _split(g: Sweep, value: Value, heads: int | None) -> Value:
    """[images, rows, heads * size] as [images, heads, rows, size]; values that have this shape stay."""
    dims = value.type.dims
    if len(dims) == 4:
        return value
    assert heads
    return g.transpose(g.shape(value, *dims[:2], heads, dims[2] // heads), 0, 2, 1, 3)


# -- scores that are a result


def _scores_known(node: Node) -> bool:
    """Whether the keys that each query sees are known, as far as the scores depend on them."""
    mode, valid = attr(node, "qk_matmul_output_mode"), _operands(node)[6]
    return mode < 2 or valid is None or valid.data is not None


def _scores(g: Sweep, node: Node, k: Value, mask: Value | None) -> Value:
    """The scores at the stage that the node names, by products and elementwise steps."""
    from ...ops.attention import allowed_keys

    mode, cap, scale = (attr(node, name) for name in ("qk_matmul_output_mode", "softcap", "scale"))
    q = _split(g, node.x, attr(node, "q_num_heads"))
    (images, heads, s, d), (groups, t) = q.type.dims, k.type.dims[1:3]
    q = g.shape(q * (1 / math.sqrt(d) if scale is None else scale), images, groups, heads // groups * s, d)
    x = g.shape(q @ g.transpose(k, 0, 1, 3, 2), images, heads, s, t)
    if mode > 0 and cap:
        x = g.tanh(x / cap) * cap
    if mode > 1:
        place = _rows(_operands(node)[4]) or attr(node, "place")
        told = node.with_([], [], attrs={**node.attrs, "place": place})
        allowed = allowed_keys(told, s, t, 0, node.const(6))
        if not allowed.all():
            x = x + np.where(allowed, FLOAT32.type(0), FLOAT32.type(-np.inf))
        if mask is not None:
            x = g.choose(mask, x, -np.inf) if mask.type.dtype == BOOL else x + mask
    if mode > 2:
        x = g("softmax", x, axis=3)
        x = g.choose(g("is_nan", x), 0, x)
    return x


@rule("early", "attention")
def causal_mask(g: Sweep, node: Node) -> bool:
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
    return fits and g.again(node, [v if i != 3 else None for i, v in enumerate(node.inputs)], is_causal=1)
