"""Random numbers. Never folded; with a seed the same numbers at every run. Distributions: ONNX."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ..ir import Node, TensorType
from .common import BOOL, FLOAT, FLOAT32, INT32, NUMBER, Types, at_least, fail, need_kind, need_one, need_rank
from .registry import REQUIRED, attr, define


def generator(node: Node) -> np.random.RandomState:
    """Numbers for a node: from its seed, or fresh ones."""
    seed = node.attrs.get("seed")
    if seed is None:
        return np.random.RandomState()
    return np.random.RandomState(seed if isinstance(seed, int) else struct.unpack("<I", struct.pack("<f", seed))[0])


def _drawn(node: Node, shape: Any, dtype: Any) -> list[Any]:
    draw = generator(node)
    if node.op.startswith("random_normal"):
        values = draw.normal(attr(node, "mean"), attr(node, "scale"), shape)
    else:
        values = draw.uniform(attr(node, "low"), attr(node, "high"), shape)
    return [np.asarray(values).astype(dtype)]


def _infer_shaped(node: Node, types: Types) -> list[TensorType]:
    dtype = np.dtype(attr(node, "dtype"))
    _check_limits(node, dtype)
    return [TensorType(dtype, tuple(attr(node, "shape")))]


def _check_limits(node: Node, dtype: np.dtype | None) -> None:
    """ModelError unless floats are asked for, of a distribution that there is."""
    need_kind(node, TensorType(dtype, ()), FLOAT, "dtype")
    names = ("mean", "scale") if node.op.startswith("random_normal") else ("low", "high")
    first, second = (attr(node, name) for name in names)
    if not (np.isfinite(first) and np.isfinite(second)) or (names[1] == "scale" and second < 0):
        fail(node, f"{names[0]} and {names[1]} must be numbers of a distribution, found {first} and {second}")


def _infer_like(node: Node, types: Types) -> list[TensorType]:
    if node.op == "bernoulli":
        need_kind(node, types[0], FLOAT)
    else:
        _check_limits(node, attr(node, "dtype") or types[0].dtype)
    return [TensorType(attr(node, "dtype") or types[0].dtype, types[0].shape)]


def _infer_multinomial(node: Node, types: Types) -> list[TensorType]:
    need_rank(node, types[0], 2, 2)
    need_kind(node, types[0], FLOAT)
    need_kind(node, TensorType(np.dtype(attr(node, "dtype")), ()), "iu", "dtype")
    at_least(node, "sample_size", attr(node, "sample_size"), 1)
    if types[0].shape and types[0].shape[1] == 0:
        fail(node, "there is no class to draw")
    rows = types[0].shape[0] if types[0].shape else None
    return [TensorType(np.dtype(attr(node, "dtype")), (rows, attr(node, "sample_size")))]


def _multinomial(node: Node, inputs: list[Any]) -> list[Any]:
    """Classes drawn with replacement by each row's unnormalized log probabilities."""
    logits = inputs[0].astype(np.float64)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True)).cumsum(axis=1)
    draws = generator(node).uniform(size=(len(logits), attr(node, "sample_size"))) * weights[:, -1:]
    found = (draws[:, :, None] >= weights[:, None, :]).sum(axis=2)
    return [np.minimum(found, logits.shape[1] - 1).astype(attr(node, "dtype"))]


def _bernoulli(node: Node, inputs: list[Any]) -> list[Any]:
    x = inputs[0]
    return [(generator(node).uniform(size=x.shape) < x).astype(attr(node, "dtype") or x.dtype)]


def _infer_dropout(node: Node, types: Types) -> list[TensorType]:
    need_kind(node, types[0], NUMBER)
    need_one(node, types[1], "ratio", FLOAT)
    need_one(node, types[2], "training_mode", "b")
    ratio = node.const(1)
    if ratio is not None and not 0 <= float(ratio.reshape(-1)[0]) < 1:
        fail(node, f"ratio must be from 0 up to 1, found {ratio.reshape(-1)[0]}")
    return [TensorType(types[0].dtype, types[0].shape), TensorType(BOOL, types[0].shape)]


def _dropout(node: Node, inputs: list[Any]) -> list[Any]:
    """x unchanged; in training mode elements are zeroed with probability `ratio` and the rest scaled up."""
    x, ratio, training = inputs
    share = 0.5 if ratio is None else float(np.asarray(ratio).reshape(-1)[0])
    if training is None or not np.asarray(training).reshape(-1)[0] or share == 0:
        return [x, np.ones(x.shape, bool)]
    keep = generator(node).uniform(0, 1, x.shape) >= share
    return [(keep * x * (1 / (1 - share) if share < 1 else 0)).astype(x.dtype), keep]


_NORMAL = {"mean": 0.0, "scale": 1.0, "seed": None}
_UNIFORM = {"low": 0.0, "high": 1.0, "seed": None}
for _name, _attrs in (("random_normal", _NORMAL), ("random_uniform", _UNIFORM)):
    define(
        _name, _infer_shaped, lambda node, inputs: _drawn(node, attr(node, "shape"), attr(node, "dtype")),
        pure=False, inputs=(0, 0), attrs={**_attrs, "dtype": FLOAT32, "shape": REQUIRED},
    )  # fmt: skip
    define(
        f"{_name}_like", _infer_like,
        lambda node, inputs: _drawn(node, inputs[0].shape, attr(node, "dtype") or inputs[0].dtype),
        pure=False, inputs=(1, 1), attrs={**_attrs, "dtype": None},
    )  # fmt: skip
define(
    "multinomial", _infer_multinomial, _multinomial, pure=False, inputs=(1, 1),
    attrs={"dtype": INT32, "sample_size": 1, "seed": None},
)  # fmt: skip
define("bernoulli", _infer_like, _bernoulli, pure=False, inputs=(1, 1), attrs={"dtype": None, "seed": None})
define("dropout", _infer_dropout, _dropout, pure=False, inputs=(1, 3), attrs={"seed": None})
