"""Linear models of ai.onnx.ml and what prepares their inputs, as skl2onnx writes scikit-learn's pipelines. Semantics:
their definitions in the onnx package, and onnxruntime's kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call
from .contrib import contrib

_LINEAR = "intercepts:floats? post_transform=NONE"


@contrib("ai.onnx.ml.Scaler: X -> Y | offset:floats? scale:floats?")
def scaler(c: Call, x: Value, offset: Any, scale: Any) -> Value:
    """(x - offset) * scale, a number for each column or one for all."""
    if not offset or not scale:
        c.fail(f"expected numbers as {'scale' if offset else 'offset'}, found none: ONNX has no default")
    shift, factor = (c.const(np.asarray(numbers, np.float32)) for numbers in (offset, scale))
    return (c.cast(x, np.float32) - shift) * factor


@contrib("ai.onnx.ml.Normalizer: X -> Y | norm=MAX")
def normalizer(c: Call, x: Value, norm: str) -> Value:
    """Rows divided by their largest value, by the sum of magnitudes, or by the length; rows where that is 0 stay."""
    x = c.cast(x, np.float32)
    if norm == "MAX":
        size = c("reduce_max", x, [-1], keepdims=1)
    elif norm in ("L1", "L2"):
        size = c.sum(c("abs", x), [-1], keep=True) if norm == "L1" else c.sqrt(c.sum(x * x, [-1], keep=True))
    else:
        c.fail(f"expected norm as 'MAX', 'L1' or 'L2', found {norm!r}")
    return x / c("where", c("equal", size, c.number(0.0, size)), c.number(1.0, size), size)


@contrib(f"ai.onnx.ml.LinearRegressor: X -> Y | coefficients:floats? {_LINEAR} targets=1")
def linear_regressor(c: Call, x: Value, targets: int, post_transform: str, **numbers: Any) -> Value:
    """One score is neither put through a sigmoid nor a softmax, as onnxruntime has it."""
    alone = targets == 1 and post_transform in ("LOGISTIC", "SOFTMAX")
    return _transformed(c, _scores(c, x, targets, **numbers), "NONE" if alone else post_transform)


@contrib(
    f"ai.onnx.ml.LinearClassifier: X -> Y Z | coefficients:floats! {_LINEAR} classlabels_ints:ints? "
    "classlabels_strings:strs? multi_class=0"
)
def linear_classifier(
    c: Call, x: Value, classlabels_ints: Any, classlabels_strings: Any, post_transform: str, multi_class: int,
    **numbers: Any,
) -> list[Value]:  # fmt: skip
    """[the label of the largest score, the scores]. `multi_class` says how the model was trained."""
    labels = np.asarray(classlabels_ints or [], np.int64)
    if classlabels_strings:
        labels = np.asarray(classlabels_strings, object)
    rows = len(numbers["intercepts"] or [])
    if len(labels) < 2 or rows != len(labels):
        c.unsupported(f"with {len(labels)} labels and {rows} intercepts: one for each label")
    scores = _scores(c, x, rows, **numbers)
    best = c("arg_max", scores, axis=-1, keepdims=0)
    return [c.pick(c.const(labels), best, axis=0), _transformed(c, scores, post_transform)]


def _scores(c: Call, x: Value, rows: int, coefficients: Any, intercepts: Any) -> Value:
    """The products of each row of x and the `rows` of coefficients, and the intercepts."""
    weights = np.asarray(coefficients or [], np.float32)
    if rows < 1 or not weights.size or weights.size % rows:
        c.fail(f"expected coefficients for {rows} results, found {weights.size} numbers")
    x = c.cast(x, np.float32)
    scores = (c("unsqueeze", x, [0]) if c.known_rank(x) == 1 else x) @ c.const(weights.reshape(rows, -1).T.copy())
    return scores if not intercepts else scores + c.const(np.asarray(intercepts, np.float32))


def _transformed(c: Call, scores: Value, way: str) -> Value:
    if way == "NONE":
        return scores
    if way not in ("LOGISTIC", "SOFTMAX"):
        c.unsupported(f"with post_transform {way!r}")
    return c("sigmoid", scores) if way == "LOGISTIC" else c("softmax", scores, axis=-1)
