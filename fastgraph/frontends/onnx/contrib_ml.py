"""Linear models of ai.onnx.ml and what prepares their inputs, as skl2onnx writes scikit-learn's pipelines. Semantics:
their definitions in the onnx package, and onnxruntime's kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call
from .contrib import contrib
from .scores import as_rows, labelled, labels_of, of_targets, transformed

_LINEAR = "intercepts:floats? post_transform=NONE"


@contrib("ai.onnx.ml.Scaler: X -> Y | offset:floats? scale:floats?")
def scaler(c: Call, x: Value, offset: Any, scale: Any) -> Value:
    """(x - offset) * scale, a number for each column or one for all."""
    if not offset or not scale:
        c.fail(f"expected numbers as {'scale' if offset else 'offset'}, found none: ONNX has no default")
    return (c.cast(x, np.float32) - np.asarray(offset, np.float32)) * np.asarray(scale, np.float32)


@contrib("ai.onnx.ml.Normalizer: X -> Y | norm=MAX")
def normalizer(c: Call, x: Value, norm: str) -> Value:
    """Rows divided by their largest value, by the sum of magnitudes, or by the length; rows where that is 0 stay."""
    x = c.cast(x, np.float32)
    if norm == "MAX":
        size = c.largest(x, [-1], keep=True)
    elif norm in ("L1", "L2"):
        size = c.sum(abs(x), [-1], keep=True) if norm == "L1" else c.sqrt(c.sum(x * x, [-1], keep=True))
    else:
        c.fail(f"expected norm as 'MAX', 'L1' or 'L2', found {norm!r}")
    return x / c.choose(c.equal(size, 0.0), 1.0, size)


@contrib(f"ai.onnx.ml.LinearRegressor: X -> Y | coefficients:floats? {_LINEAR} targets=1")
def linear_regressor(c: Call, x: Value, targets: int, post_transform: str, **numbers: Any) -> Value:
    """The products with the coefficients, and the intercepts."""
    return of_targets(c, _scores(c, x, targets, **numbers), targets, post_transform)


@contrib(
    f"ai.onnx.ml.LinearClassifier: X -> Y Z | coefficients:floats! {_LINEAR} classlabels_ints:ints? "
    "classlabels_strings:strs? multi_class=0"
)
def linear_classifier(
    c: Call, x: Value, classlabels_ints: Any, classlabels_strings: Any, post_transform: str, multi_class: int,
    **numbers: Any,
) -> list[Value]:  # fmt: skip
    """[the label of the largest score, the scores]. `multi_class` says how the model was trained."""
    labels = labels_of(classlabels_ints, classlabels_strings)
    rows = len(numbers["intercepts"] or [])
    if len(labels) < 2 or rows != len(labels):
        c.unsupported(f"with {len(labels)} labels and {rows} intercepts: one for each label")
    scores = _scores(c, x, rows, **numbers)
    best = c("arg_max", scores, axis=-1, keepdims=0)
    return [labelled(c, labels, best), transformed(c, scores, post_transform)]


@contrib(
    "ai.onnx.ml.SVMRegressor: X -> Y | coefficients:floats? kernel_params:floats? kernel_type=LINEAR n_supports=0"
    " one_class=0 post_transform=NONE rho:floats? support_vectors:floats?"
)
def svm_regressor(
    c: Call, x: Value, coefficients: Any, n_supports: int, one_class: int, rho: Any, post_transform: str, **kernel: Any
) -> Value:
    """The sum of the coefficients times the kernel of each support vector, and rho; its sign for one class."""
    if n_supports < 1:
        c.unsupported("without support vectors")
    if len(coefficients or ()) != n_supports:
        c.fail(f"expected a coefficient for each of {n_supports} support vectors, found {len(coefficients or ())}")
    x = c.cast(as_rows(c, x), np.float32)
    weights = np.asarray(coefficients, np.float32).reshape(-1, 1)
    score = _kernel(c, x, n_supports, **kernel) @ weights + float((rho or [0.0])[0])
    if not one_class:
        return of_targets(c, score, 1, post_transform)
    return c.choose(score > 0.0, c.number(1.0, score), -1.0)


def _kernel(c: Call, x: Value, count: int, kernel_type: str, kernel_params: Any, support_vectors: Any) -> Value:
    """[rows, count]: how near each row is to each support vector."""
    vectors = np.asarray(support_vectors or [], np.float32).reshape(count, -1)
    gamma, base, degree = (float(number) for number in (*(kernel_params or ()), 0.0, 0.0, 0.0)[:3])
    product = x @ vectors.T.copy()
    if kernel_type == "LINEAR":
        return product
    if kernel_type == "RBF":
        squares = c.sum(x * x, [-1], keep=True) + (vectors * vectors).sum(1)
        return c.exp(c("relu", squares - (product + product)) * -gamma)
    moved = product * gamma + base
    if kernel_type not in ("POLY", "SIGMOID"):
        c.fail(f"expected kernel_type as 'LINEAR', 'POLY', 'RBF' or 'SIGMOID', found {kernel_type!r}")
    return moved**degree if kernel_type == "POLY" else c.tanh(moved)


@contrib(
    "ai.onnx.ml.Imputer: X -> Y | imputed_value_floats:floats? imputed_value_int64s:ints? replaced_value_float=0.0"
    " replaced_value_int64=0"
)
def imputer(
    c: Call, x: Value, imputed_value_floats: Any, imputed_value_int64s: Any, replaced_value_float: float,
    replaced_value_int64: int,
) -> Value:  # fmt: skip
    """Other numbers, one for each column or one for all, where x is the number to replace, which may be NaN."""
    if imputed_value_floats:
        filled: Any = np.asarray(imputed_value_floats, np.float32)
        gone = np.isnan(replaced_value_float)
        here = c("is_nan", x) if gone else c.equal(x, replaced_value_float)
    elif imputed_value_int64s:
        filled, here = np.asarray(imputed_value_int64s), c.equal(x, c.const(replaced_value_int64))
    else:
        c.fail("expected numbers to impute, found none")
    return c.choose(here, c.const(filled), x)


@contrib("ai.onnx.ml.OneHotEncoder: X -> Y | cats_int64s:ints? cats_strings:strs? zeros=1")
def one_hot_encoder(c: Call, x: Value, cats_int64s: Any, cats_strings: Any, zeros: int) -> Value:
    """1 where an element is the category, along a new last axis. All are 0 for what is none, whatever `zeros` says."""
    if cats_strings:
        there = c("hashtable_find", x, np.asarray(cats_strings, object), np.arange(len(cats_strings)), np.array([-1]))
        count = len(cats_strings)
    else:
        there, count = c.cast(x, np.int64), len(cats_int64s or ())
    wanted = np.arange(count) if cats_strings else np.asarray(cats_int64s or [], np.int64)
    return c.cast(c.equal(c("unsqueeze", there, [-1]), wanted), np.float32)


@contrib("ai.onnx.ml.FeatureVectorizer: X* -> Y | inputdimensions:ints?")
def feature_vectorizer(c: Call, *columns: Value, inputdimensions: Any) -> Value:
    """The inputs' columns beside one another; a vector is a column."""
    flat = (c("unsqueeze", x, [1]) if c.known_rank(x) == 1 else x for x in columns)
    return c("concat", *(c.cast(x, np.float32) for x in flat), axis=1)


@contrib("ai.onnx.ml.ZipMap: X -> Z | classlabels_int64s:ints? classlabels_strings:strs?")
def zip_map(c: Call, x: Value, classlabels_int64s: Any, classlabels_strings: Any) -> Value:
    """A list of dicts, one for each row: the scores by label."""
    return c("zip_map", x, labels=tuple(classlabels_strings or classlabels_int64s or ()))


def _scores(c: Call, x: Value, rows: int, coefficients: Any, intercepts: Any) -> Value:
    """The products of each row of x and the `rows` of coefficients, and the intercepts."""
    weights = np.asarray(coefficients or [], np.float32)
    if rows < 1 or not weights.size or weights.size % rows:
        c.fail(f"expected coefficients for {rows} results, found {weights.size} numbers")
    scores = c.cast(as_rows(c, x), np.float32) @ weights.reshape(rows, -1).T.copy()
    return scores + np.asarray(intercepts, np.float32) if intercepts else scores
