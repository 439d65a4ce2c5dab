"""Attention as products and a softmax, and the turning of its inputs as products and sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir import Node, TensorType, Value
from ..ops.registry import attr
from .moves import shaped, turn
from .rewrite import Sweep, constant, sees

F32 = np.dtype(np.float32)
LEAST = np.float32(-1e30)
"""Stands for minus infinity in sums: no softmax of such numbers is NaN."""


class Writer:
    """Writes f32 nodes for one node; operands of different shapes are broadcast."""

    def __init__(self, state: Sweep, node: Node) -> None:
        self.state, self.node = state, node

    def __call__(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        dtype = np.dtype(bool) if op in ("less_or_equal", "greater", "and") else F32
        dims = np.broadcast_shapes(*(v.type.dims for v in inputs))
        return self.state.add(op, [*inputs], TensorType(dtype, dims), self.node, **attrs)

    def number(self, value: Any, name: str) -> Value:
        return constant(self.node.out, np.asarray(value, F32), name)

    def product(self, a: Value, b: Value) -> Value:
        dims = (*a.type.dims[:-1], b.type.dims[-1])
        return self.state.add("matmul", [a, b], TensorType(F32, dims), self.node)

    def joined(self, parts: list[Value], axis: int) -> Value:
        dims = list(parts[0].type.dims)
        dims[axis] = sum(p.type.dims[axis] for p in parts)
        return self.state.add("concat", [*parts], TensorType(F32, tuple(dims)), self.node, axis=axis)

    def part(self, x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
        """x[start:stop:step] along an axis."""
        dims = list(x.type.dims)
        dims[axis] = len(range(start, stop, step))
        lists = {"starts": start, "ends": stop, "axes": axis, "steps": step}
        inputs = [constant(self.node.out, np.array([n], np.int64), name) for name, n in lists.items()]
        return self.state.add("slice", [x, *inputs], TensorType(F32, tuple(dims)), self.node)

    def greatest(self, x: Value) -> Value:
        """Along the last axis, which stays."""
        kept = {"keepdims": 1, "noop_with_empty_axes": 0}
        axes = constant(self.node.out, np.array([len(x.type.dims) - 1], np.int64), "axes")
        return self.state.add("reduce_max", [x, axes], x.type.with_shape((*x.type.dims[:-1], 1)), self.node, **kept)

    def real(self, x: Value) -> Value:
        cast = {"to": F32, "saturate": 1, "round_mode": "up", "format": ""}
        return self.state.add("cast", [x], TensorType(F32, x.type.shape), self.node, **cast)

    def shaped(self, x: Value, *dims: int) -> Value:
        return shaped(self.state, self.node, x, dims)

    def turned(self, x: Value, *perm: int) -> Value:
        return turn(self.state, self.node, x, perm)


def filled(node: Node, count: int) -> list[Value | None]:
    """The inputs, those that are left off at the end too."""
    return [*node.inputs, *[None] * (count - len(node.inputs))]


@sees("attention")
def attention(state: Sweep, node: Node) -> bool:
    """softmax(cap(scale * Q K') + bias) V over heads, in f32.

    Given ``y = attention(q, k, v)``; result matmul, mul, softmax, matmul between transposes.
    """
    q, k, v, mask, past, past_value, valid = filled(node, 7)
    real = [x for x in (q, k, v, past, past_value) if x is not None]
    if not all(x.type.concrete and x.type.dtype == F32 and x.type.size for x in real):
        return False
    if mask is not None and (not mask.type.concrete or mask.type.dtype not in (F32, np.dtype(bool))):
        return False
    if attr(node, "softmax_precision") not in (None, F32) or not node.out.type.concrete:
        return False
    if len(node.outputs) > 3 and attr(node, "qk_matmul_output_mode") == 2:
        return False  # that shows infinities, which the sums here have none of
    w = Writer(state, node)
    counts = (attr(node, "q_num_heads"), attr(node, "kv_num_heads"), attr(node, "kv_num_heads"))
    q4, k4, v4 = (_heads(w, x, n) for x, n in zip(real[:3], counts, strict=True))
    if past is not None and past_value is not None:
        k4, v4 = w.joined([past, k4], 2), w.joined([past_value, v4], 2)
    (b, h, s, d), (_, kv, t, e) = q4.type.dims, v4.type.dims
    scale = 1 / math.sqrt(d) if attr(node, "scale") is None else attr(node, "scale")
    shared = w.shaped(w("mul", q4, w.number(scale, "scale")), b, kv, h // kv * s, d)
    scores = w.shaped(w.product(shared, w.turned(k4, 0, 1, 3, 2)), b, h, s, t)
    stages = [scores]
    if cap := attr(node, "softcap"):
        scores = w("mul", w("tanh", w("div", scores, w.number(cap, "cap"))), w.number(cap, "cap"))
    stages.append(scores)
    bias = _bias(w, mask, valid, (b, h, s, t), 0 if past is None else past.type.dims[2])
    known = bias is not None and bias.data is not None and bool((bias.data.max(-1) > -np.inf).all())
    if bias is not None:
        data = bias.data
        least = w.number(LEAST, "least")
        finite = w.number(np.maximum(data, LEAST), "bias") if known and data is not None else w("max", bias, least)
        scores = w("add", scores, finite)
    stages.append(scores)
    shares = w("softmax", scores, axis=-1)
    if bias is not None and not known:
        seen = w("greater", w.greatest(bias), w.number(-np.inf, "unseen"))
        shares = w("where", seen, shares, w.number(0, "none"))
    stages.append(shares)
    y = w.shaped(w.product(w.shaped(shares, b, kv, h // kv * s, t), v4), b, h, s, e)
    if len(node.x.type.dims) == 3:
        y = w.shaped(w.turned(y, 0, 2, 1, 3), b, s, h * e)
    for old, new in zip(node.outputs, (y, k4, v4, stages[attr(node, "qk_matmul_output_mode")]), strict=False):
        state.replace(old, new)
    return True


def _heads(w: Writer, x: Value, count: int | None) -> Value:
    """[B, S, H * D] as [B, H, S, D]; 4-d stays."""
    if len(x.type.dims) == 4:
        return x
    b, s, width = x.type.dims
    assert count
    return w.turned(w.shaped(x, b, s, count, width // count), 0, 2, 1, 3)


def _bias(w: Writer, mask: Value | None, valid: Value | None, dims: tuple[int, ...], past: int) -> Value | None:
    """What is added to the scores: minus infinity for keys that a query may not see; None for nothing."""
    allowed = _allowed(w, valid, dims, past)
    if mask is None:
        return _forbidding(w, allowed)
    t = dims[3]
    if mask.type.dims[-1] not in (1, t):
        missing = TensorType(mask.type.dtype, (*mask.type.dims[:-1], t - mask.type.dims[-1]))
        fill = np.full(missing.dims, False if mask.type.dtype == bool else -np.inf, missing.dtype)
        dims_ = TensorType(mask.type.dtype, (*mask.type.dims[:-1], t))
        parts = [mask, constant(w.node.out, fill, "unseen")]
        mask = w.state.add("concat", [*parts], dims_, w.node, axis=len(dims_.dims) - 1)
    if mask.type.dtype == bool:
        return _forbidding(w, mask if allowed is None else w("and", mask, allowed))
    forbids = _forbidding(w, allowed)
    return mask if forbids is None else w("add", mask, forbids)


def _forbidding(w: Writer, allowed: Value | None) -> Value | None:
    """f32: 0 where a truth holds, minus infinity elsewhere."""
    if allowed is None:
        return None
    if allowed.data is not None:
        return w.number(np.where(allowed.data, 0, -np.inf), "bias")
    return w("where", allowed, w.number(0, "zero"), w.number(-np.inf, "unseen"))


def _allowed(w: Writer, valid: Value | None, dims: tuple[int, ...], past: int) -> Value | None:
    """Truths [B or 1, 1, S, T]: which keys each query may see, by causality, window and padding; None: all."""
    b, _, s, t = dims
    distance = np.arange(t) - np.arange(s)[:, None]
    causal, left, right = (attr(w.node, name) for name in ("is_causal", "left_window_size", "right_window_size"))
    most = min([0] * bool(causal) + [right] * (right >= 0), default=None)
    if valid is None:
        ok = np.ones((1, 1, s, t), bool)
        ok &= True if most is None else distance <= past + most
        ok &= True if left < 0 else distance >= past - left
        return None if ok.all() else constant(w.node.out, ok, "allowed")
    seen = w.shaped(w.real(valid), b, 1, 1, 1)
    ok_now = w("greater", seen, w.number(np.arange(t).reshape(1, 1, 1, t), "keys"))
    place = w.number(past, "past") if past else w("sub", seen, w.number(s, "queries"))
    if most is not None:
        ok_now = w("and", ok_now, w("less_or_equal", w.number(distance[None, None] - most, "ahead"), place))
    if left >= 0:
        ok_now = w("and", ok_now, w("less_or_equal", place, w.number(distance[None, None] + left, "behind")))
    return ok_now


@sees("rotary_embedding")
def rotary_embedding(state: Sweep, node: Node) -> bool:
    """Pairs (u, v) of features become (u cos - v sin, u sin + v cos), by the angles of their positions."""
    x, cos, sin, positions = filled(node, 4)
    assert x is not None and cos is not None and sin is not None
    if not all(v.type.concrete and v.type.dtype == F32 for v in (x, cos, sin)):
        return False
    if not x.type.size or positions is not None and not positions.type.concrete:
        return False
    w, dims = Writer(state, node), x.type.dims
    flat, heads = len(dims) == 3, attr(node, "num_heads") or 1
    y = w.shaped(x, *dims[:2], heads, dims[2] // heads) if flat else w.turned(x, 0, 2, 1, 3)
    b, s, _, size = y.type.dims
    count = (attr(node, "rotary_embedding_dim") or size) // 2
    if positions is not None:
        kind = TensorType(F32, (*positions.type.dims, count))
        cos, sin = (state.add("gather", [c, positions], kind, node, axis=0) for c in (cos, sin))
    cos, sin = (w.shaped(c, b, s, 1, count) for c in (cos, sin))
    if attr(node, "interleaved"):
        u, v = (w.part(y, 3, start, 2 * count, 2) for start in (0, 1))
    else:
        u, v = (w.part(y, 3, start, start + count) for start in (0, count))
    real = w("sub", w("mul", u, cos), w("mul", v, sin))
    other = w("add", w("mul", u, sin), w("mul", v, cos))
    if attr(node, "interleaved"):
        pairs = w.joined([w.shaped(p, *p.type.dims, 1) for p in (real, other)], 4)
        parts = [w.shaped(pairs, *real.type.dims[:3], 2 * count)]
    else:
        parts = [real, other]
    if 2 * count < size:
        parts.append(w.part(y, 3, 2 * count, size))
    y = w.joined(parts, 3) if len(parts) > 1 else parts[0]
    state.replace(node.out, w.shaped(y, *dims) if flat else w.turned(y, 0, 2, 1, 3))
    return True
