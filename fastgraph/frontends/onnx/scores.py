"""What models of ai.onnx.ml do with scores at the end. Semantics: onnxruntime's kernels."""

from __future__ import annotations

import numpy as np

from ...ir import Value
from .call import Call


def transformed(c: Call, scores: Value, way: str) -> Value:
    """The scores by a `post_transform`; with SOFTMAX_ZERO, scores of 0 stay 0 and count for nothing."""
    if way == "SOFTMAX_ZERO":
        some = c("abs", scores) > c.number(1e-7, scores)
        apart = c("softmax", c("where", some, scores, c.number(-np.inf, scores)), axis=-1)
        return c("where", some, apart, c.number(0.0, scores))
    if way == "NONE":
        return scores
    if way not in ("LOGISTIC", "SOFTMAX"):
        c.unsupported(f"with post_transform {way!r}")
    return c("sigmoid", scores) if way == "LOGISTIC" else c("softmax", scores, axis=-1)


def of_targets(c: Call, scores: Value, count: int, way: str) -> Value:
    """The scores of a regressor; one score alone is not transformed, as onnxruntime has it."""
    return transformed(c, scores, "NONE" if count == 1 and way != "PROBIT" else way)
