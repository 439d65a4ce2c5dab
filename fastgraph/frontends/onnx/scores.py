"""What models of ai.onnx.ml have in common: rows of x, labels, and what is done with scores at the end. Semantics:
onnxruntime's kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""The values of `post_transform`, in the order of their numbers in TreeEnsemble."""


def as_rows(c: Call, x: Value) -> Value:
    """x, or a vector as its only row."""
    return c("unsqueeze", x, [0]) if c.known_rank(x) == 1 else x


def labels_of(numbers: Any, strings: Any) -> np.ndarray:
    """The labels that a classifier names."""
    return np.asarray(strings, object) if strings else np.asarray(numbers or [], np.int64)


def labelled(c: Call, labels: np.ndarray, chosen: Value) -> Value:
    """The label of each row, by its number."""
    return c.pick(c.const(labels), chosen, axis=0)


def transformed(c: Call, scores: Value, way: str) -> Value:
    """The scores by a `post_transform`; with SOFTMAX_ZERO, scores of 0 stay 0 and count for nothing."""
    if way == "SOFTMAX_ZERO":
        some = abs(scores) > 1e-7
        apart = c("softmax", c.choose(some, scores, -np.inf), axis=-1)
        return c.choose(some, apart, 0.0)
    if way == "NONE":
        return scores
    if way not in ("LOGISTIC", "SOFTMAX"):
        c.unsupported(f"with post_transform {way!r}")
    return c.sigmoid(scores) if way == "LOGISTIC" else c("softmax", scores, axis=-1)


def of_targets(c: Call, scores: Value, count: int, way: str) -> Value:
    """The scores of a regressor; one score alone is not transformed, as onnxruntime has it."""
    return transformed(c, scores, "NONE" if count == 1 and way != "PROBIT" else way)
