"""Attention as a recurrence over time, and the convolution that goes with it, as what they are made of."""

from __future__ import annotations

import math

import numpy as np

from ...ir import Graph, Node, TensorType, Value
from ...ir.build import constant
from ...ops.registry import attr
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .writing import Steps, known, operand, real, scanned


@rule("rare", "linear_attention")
def linear_attention(state: Sweep, node: Node) -> bool:
    """Given ``y, s = linear_attention(q, k, v, s0, decay, beta)``; result a scan over time, with one round for each
    token: ``s = fade * s; s = s + k x (beta * (v - k @ s)); y = q @ s``. A single token needs no scan.
    """
    values = [operand(node, i) for i in range(6)]
    query, key, value, past, decay, beta = values
    if not known(*values, *node.outputs) or any(v is not None and v.type.dtype != query.type.dtype for v in values):  # type: ignore[union-attr]
        return False
    if query is None or key is None or value is None or not real(query.type.dtype):
        return False
    do, heads, rule = Steps(state, node), attr(node, "kv_num_heads"), attr(node, "update_rule")
    images, times, _ = query.type.dims
    share = attr(node, "q_num_heads") // heads
    size, wide = key.type.dims[2] // heads, value.type.dims[2] // heads
    scale = attr(node, "scale") or 1 / math.sqrt(size)

    def by_time(x: Value, *inner: int) -> Value:
        """[images, times, heads * ..] as [times, images * heads, *inner]."""
        x = do.turn(do.shape(x, images, times, heads, x.type.size // (images * times * heads)), 1, 0, 2, 3)
        return do.shape(x, times, images * heads, *inner)

    moving = {
        "q": by_time(do("mul", query, scale), share, size),
        "k": by_time(key, 1, size),
        "v": by_time(value, 1, wide),
    }
    if "gated" in rule and decay is not None:
        moving["fade"] = by_time(do("exp", decay), decay.type.dims[2] // heads, 1)
    if "delta" in rule and beta is not None:
        moving["rate"] = by_time(do.spread(beta, images, times, heads), 1, 1)
    begin = do.shape(past, images * heads, size, wide) if past is not None else constant(
        node.out, np.zeros((images * heads, size, wide), query.type.dtype), "state")  # fmt: skip
    if times == 1:
        parts = {name: do.shape(x, *x.type.dims[1:]) for name, x in moving.items()}
        last, y = _token(do, begin, **parts)
    else:
        body = _round(node, begin.type, {name: x.type for name, x in moving.items()})
        last, y = scanned(do, [begin], list(moving.values()), body)
    y = do.turn(do.shape(y, times, images, heads * share, wide), 1, 0, 2, 3)
    return do.becomes(do.shape(y, images, times, heads * share * wide), last)


def _token(do: Steps, state: Value, q: Value, k: Value, v: Value, fade: Value | None = None,
           rate: Value | None = None) -> tuple[Value, Value]:  # fmt: skip
    """(state, output) after one token."""
    if fade is not None:
        state = do("mul", state, fade)
    if rate is not None:
        v = do("mul", rate, do("sub", v, do("matmul", k, state)))
    state = do("add", state, do("mul", do.turn(k, 0, 2, 1), v))
    return state, do("matmul", q, state)


def _round(node: Node, state: TensorType, moving: dict[str, TensorType]) -> Graph:
    """The body of a scan."""
    before = Value(f"{node.out.name}.before", state)
    parts = {name: Value(f"{node.out.name}.{name}", t.with_shape(t.dims[1:])) for name, t in moving.items()}
    body = Graph(f"{node.out.name}.round", [before, *parts.values()], [], [], "")
    inner = Sweep(body)
    body.outputs = [*_token(Steps(inner, node), before, **parts)]
    body.nodes = inner.written()
    return body


@rule("rare", "causal_conv_with_state")
def causal_conv(state: Sweep, node: Node) -> bool:
    """Given ``y, s = causal_conv_with_state(x, w, b, s0)``; result a convolution of ``concat(s0, x)``, or of a padded
    x, with a window for each channel, and the last columns of that.
    """
    x, w, bias, past = (operand(node, i) for i in range(4))
    if x is None or w is None or not known(x, w, bias, node.out, dtypes=[np.float32]):
        return False
    do, (_, channels, times), taps = Steps(state, node), x.type.dims, w.type.dims[2]
    full = x if past is None or taps == 1 else do("concat", past, x, axis=2)
    begin = taps - 1 if past is None else 0
    window = do.shape(do.turn(w, 0, 2, 1), channels, taps, 1)
    attrs = {"strides": (1,), "dilations": (1,), "pads": (begin, 0), "groups": channels, "auto_pad": "NOTSET",
             "kernel_shape": (taps,)}  # fmt: skip
    y = do("conv", do.turn(full, 0, 2, 1), window, *([] if bias is None else [bias]), **attrs)
    if attr(node, "activation") != "none":
        y = do("mul", y, do("sigmoid", y))
    if begin > times:
        rest = do.ints(0, 0, begin - times, 0, 0, 0)
        full = do("pad", full, rest, mode="constant")
    columns = full.type.dims[2]
    kept = do.cut(full, 2, columns - (taps - 1), columns)
    return do.becomes(do.turn(y, 0, 2, 1), kept)
