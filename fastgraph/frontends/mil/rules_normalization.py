"""Normalizations. Semantics: coremltools/converters/mil/mil/ops/defs/iOS15/normalization.py."""

from __future__ import annotations

import numpy as np

from ...ir import Value
from ..core.common import ints, scalar
from .call import Call, rule
from .common import axes_in


def _vector(c: Call, key: str, x: Value, default: float, length: object) -> Value:
    """Parameter `key` in x's type, or `length` times the default."""
    value = c.value(key)
    if value is not None:
        return c.cast(value, x.type.dtype)
    if not isinstance(length, int):
        c.unsupported(f"without its parameter {key!r}, for an input whose channels the program leaves open")
    return c.const(np.broadcast_to(np.array(default, x.type.dtype), length))


def _channels(c: Call, x: Value) -> object:
    if c.rank(x) < 2:
        c.fail(f"expected an input with channels as axis 1, found {x.type}")
    return x.type.shape[1]  # type: ignore[index]


def _epsilon(c: Call, default: float) -> float:
    return float(c.known("epsilon", default))


@rule("batch_norm")
def batch_norm(c: Call) -> None:
    x = c.x()
    mean, variance = (c.cast(c.x(key), x.type.dtype) for key in ("mean", "variance"))
    length = mean.type.shape[0] if mean.type.shape else _channels(c, x)
    gamma, beta = _vector(c, "gamma", x, 1, length), _vector(c, "beta", x, 0, length)
    inputs = [c.to_last(x), gamma, beta, mean, variance]
    c.give(c.to_first(c.add("batch_normalization", inputs, epsilon=_epsilon(c, 1e-5))))


@rule("instance_norm")
def instance_norm(c: Call) -> None:
    x = c.x()
    gamma, beta = (_vector(c, key, x, n, _channels(c, x)) for key, n in (("gamma", 1), ("beta", 0)))
    y = c.add("instance_normalization", [c.to_last(x), gamma, beta], epsilon=_epsilon(c, 1e-5))
    c.give(c.to_first(y))


@rule("layer_norm")
def layer_norm(c: Call) -> None:
    """Over `axes` (all when absent), which are moved to the end; gamma and beta have their extents, in their order."""
    x = c.x()
    rank = c.rank(x)
    axes = sorted(axes_in(c, c.ints("axes", tuple(range(rank))), rank))
    perm = [*(a for a in range(rank) if a not in axes), *axes]
    moved = perm != sorted(perm)
    inputs = [c.add("transpose", [x], perm=tuple(perm)) if moved else x, _scale(c, x, axes)]
    beta = c.value("beta")
    if beta is not None:
        inputs.append(c.cast(beta, x.type.dtype))
    y = c.add("layer_normalization", inputs, axis=rank - len(axes), epsilon=_epsilon(c, 1e-5))
    c.give(c.add("transpose", [y], perm=tuple(int(a) for a in np.argsort(perm))) if moved else y)


def _scale(c: Call, x: Value, axes: list[int]) -> Value:
    gamma = c.value("gamma")
    return scalar(c, 1, x) if gamma is None else c.cast(gamma, x.type.dtype)


@rule("l2_norm")
def l2_norm(c: Call) -> None:
    """x over the root of the sum of squares, plus epsilon, over the last three axes."""
    x = c.x()
    if c.rank(x) < 3:
        c.fail(f"expected an input of rank 3 or more, found {x.type}")
    total = c.add("reduce_sum_square", [x, ints(c, [-3, -2, -1])], keepdims=1)
    norm = c.add("sqrt", [c.add("add", [total, scalar(c, _epsilon(c, 1e-6), x)])])
    c.finish("div", [x, norm])


@rule("local_response_norm")
def local_response_norm(c: Call) -> None:
    y = c.add(
        "lrn", [c.to_last(c.x())], size=int(c.known("size")), alpha=float(c.known("alpha", 1e-4)),
        beta=float(c.known("beta", 0.75)), bias=float(c.known("k", 1.0)),
    )  # fmt: skip
    c.give(c.to_first(y))
