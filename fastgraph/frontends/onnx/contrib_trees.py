"""Ensembles of decision trees, as converters of scikit-learn, LightGBM, XGBoost and CatBoost write them.

All trees of all rows go down one level at a time: gathers of the node's feature and threshold, a comparison, and the
gather of its children. Semantics: the operators' definitions in the onnx package, and onnxruntime's kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir import Value
from .call import Call
from .contrib import contrib
from .scores import TRANSFORMS, as_rows, labelled, labels_of, of_targets, transformed
from .tree_nodes import INDEX, Branches, Tables, listed, tables

_NODES = (
    "nodes_falsenodeids:ints? nodes_featureids:ints? nodes_hitrates:floats? nodes_hitrates_as_tensor:tensor?"
    " nodes_missing_value_tracks_true:ints? nodes_modes:strs? nodes_nodeids:ints? nodes_treeids:ints?"
    " nodes_truenodeids:ints? nodes_values:floats? nodes_values_as_tensor:tensor? post_transform=NONE"
    " base_values:floats? base_values_as_tensor:tensor?"
)
_LEAVES = "{0}_ids:ints? {0}_nodeids:ints? {0}_treeids:ints? {0}_weights:floats? {0}_weights_as_tensor:tensor?"


@dataclass
class _Weights:
    """What leaves add: the leaf's node, the result that it adds to, and how much."""

    nodes: np.ndarray
    results: np.ndarray
    amounts: np.ndarray


@dataclass
class _Ends:
    """Where rows end: `at` [rows, trees], the leaves' places in the tables."""

    branches: Branches
    tables: Tables
    at: Value


@contrib(
    f"ai.onnx.ml.TreeEnsembleRegressor: X -> Y | {_NODES} {_LEAVES.format('target')} n_targets:int?"
    " aggregate_function=SUM"
)
def regressor(
    c: Call, x: Value, n_targets: int | None, aggregate_function: str, post_transform: str, **attrs: Any
) -> Value:
    """The sum, mean, least or greatest of what the leaves hold for each target."""
    branches, weights, base = _read(c, x, attrs, "target")
    count = n_targets or 1
    scores = _aggregated(c, _ends(c, x, branches), weights, count, aggregate_function)
    return c.cast(_target(c, scores, base, count, post_transform), np.float32)


@contrib(
    f"ai.onnx.ml.TreeEnsembleClassifier: X -> Y Z | {_NODES} {_LEAVES.format('class')} "
    "classlabels_int64s:ints? classlabels_strings:strs?"
)
def classifier(
    c: Call, x: Value, classlabels_int64s: Any, classlabels_strings: Any, post_transform: str, **attrs: Any
) -> list[Value]:
    """[the label of the greatest score, the scores]. One score stands for the second of two labels. A label that no
    leaf of a row scores is not the row's, unless there are base values.

    Where leaves score both of two labels, onnxruntime gives the second if its score is above 0, as a 1 where labels are
    other numbers. That is not followed.
    """
    branches, weights, base = _read(c, x, attrs, "class")
    labels = labels_of(classlabels_int64s, classlabels_strings)
    classes = np.unique(weights.results)
    if len(labels) < 2 or (len(labels) == 2 and len(base) == 2):
        c.unsupported(f"with {len(labels)} labels and {len(base)} base values")
    ends = _ends(c, x, branches)
    if len(labels) == 2 and len(classes) == 1:
        return _of_one_score(c, ends, weights, base, labels, post_transform)
    scores = _aggregated(c, ends, weights, len(labels), "SUM")
    if len(base) == 1 and len(labels) == 2:
        base = np.append(base, 0)
    scored = None if len(base) else _scored(c, ends, weights, len(labels))
    found = scores + _like(c, base, scores) if len(base) else scores
    best = c(
        "arg_max", found if scored is None else c("where", scored, found, c.number(-np.inf, found)), axis=-1, keepdims=0
    )
    return [labelled(c, labels, best), c.cast(_target(c, scores, base, len(labels), post_transform), np.float32)]


def _of_one_score(
    c: Call, ends: _Ends, weights: _Weights, base: np.ndarray, labels: np.ndarray, post_transform: str
) -> list[Value]:
    """The results for two labels of which leaves score one."""
    only = _Weights(weights.nodes, np.zeros_like(weights.results), weights.amounts)
    score = _aggregated(c, ends, only, 1, "SUM")
    first = not weights.results.any()
    if first and len(base):
        score = score + _like(c, base, score)
    positive = not (weights.amounts < 0).any()
    chosen = c.cast(score > (0.5 if positive else 0.0), np.int64)
    rest = 1.0 - score if positive and post_transform != "LOGISTIC" else -score
    both = c.join([rest if first else score - score, score], axis=-1)
    way = "NONE" if first and post_transform in ("SOFTMAX", "SOFTMAX_ZERO") else post_transform
    found = transformed(c, both, way)
    scored = None if first or post_transform == "LOGISTIC" else _scored(c, ends, only, 1)
    if scored is not None:
        found = c("where", scored, found, c.join([rest, score], axis=-1))
    return [labelled(c, labels, c.reshape(chosen, -1)), c.cast(found, np.float32)]


@contrib(
    "ai.onnx.ml.TreeEnsemble: X -> Y | aggregate_function=1 leaf_targetids:ints! leaf_weights:tensor!"
    " membership_values:tensor? n_targets:int? nodes_falseleafs:ints! nodes_falsenodeids:ints! nodes_featureids:ints!"
    " nodes_hitrates:tensor? nodes_missing_value_tracks_true:ints? nodes_modes:tensor! nodes_splits:tensor!"
    " nodes_trueleafs:ints! nodes_truenodeids:ints! post_transform=0 tree_roots:ints!"
)
def ensemble(
    c: Call, x: Value, aggregate_function: int, post_transform: int, n_targets: int | None, leaf_targetids: Any,
    leaf_weights: Any, **attrs: Any,
) -> Value:  # fmt: skip
    """The newer form of the regressor: leaves are numbered apart from the nodes."""
    ways = ("AVERAGE", "SUM", "MIN", "MAX")
    if not 0 <= aggregate_function < len(ways) or not 0 <= post_transform < len(TRANSFORMS):
        c.fail(f"found aggregate_function {aggregate_function} and post_transform {post_transform}")
    amounts = np.asarray(leaf_weights)
    targets = listed(leaf_targetids)
    branches = Branches.of_ensemble(c, x, attrs, len(targets))
    weights = _Weights(np.arange(len(targets)) + len(listed(attrs["nodes_featureids"])), targets, amounts)
    count = n_targets or 1
    scores = _aggregated(c, _ends(c, x, branches), weights, count, ways[aggregate_function])
    return c("cast_like", _target(c, scores, np.zeros(0), count, TRANSFORMS[post_transform]), x)


def _read(c: Call, x: Value, attrs: dict[str, Any], kind: str) -> tuple[Branches, _Weights, np.ndarray]:
    """The nodes, what leaves add to `target`s or `class`es, and the base values."""
    branches, place = Branches.of_nodes(c, x, attrs)
    nodes = place(listed(attrs[f"{kind}_treeids"]), listed(attrs[f"{kind}_nodeids"]))
    given, exact = attrs[f"{kind}_weights"], attrs[f"{kind}_weights_as_tensor"]
    amounts = np.asarray(exact if exact is not None else given or [], np.float64 if exact is not None else np.float32)
    results = listed(attrs[f"{kind}_ids"])
    if not len(nodes) == len(results) == len(amounts):
        c.fail(f"expected as many {kind}_ids and {kind}_weights as {kind}_nodeids, found other numbers of them")
    base = attrs["base_values_as_tensor"]
    return branches, _Weights(nodes, results, amounts), np.asarray(attrs["base_values"] or [] if base is None else base)


def _ends(c: Call, x: Value, branches: Branches) -> _Ends:
    found = tables(c, branches)
    return _Ends(branches, found, _leaves(c, x, found))


def _aggregated(c: Call, ends: _Ends, weights: _Weights, count: int, way: str) -> Value:
    """[rows, count]: the scores."""
    if way not in ("SUM", "AVERAGE", "MIN", "MAX") or count < 1:
        c.fail(f"found aggregate_function {way!r} for {count} results")
    if len(weights.results) and not 0 <= weights.results.min() <= weights.results.max() < count:
        c.fail(f"expected leaves to add to results below {count}, found {weights.results.max()}")
    t, alone = ends.tables, count == 1
    amounts = np.zeros((len(ends.branches.features), count), t.thresholds.dtype)
    np.add.at(amounts, (weights.nodes, weights.results), weights.amounts)
    if way in ("MIN", "MAX") and _held(ends, weights, count) is not None:
        c.unsupported(f"with aggregate_function {way} and leaves that hold nothing for some results")
    parts = c.pick(c.const(amounts[t.nodes, 0] if alone else amounts[t.nodes]), ends.at, axis=0)
    if way in ("MIN", "MAX"):
        return c("reduce_min" if way == "MIN" else "reduce_max", parts, [1], keepdims=int(alone))
    total = c.sum(parts, [1], keep=alone)
    return total / c.number(float(len(t.roots)), total) if way == "AVERAGE" else total


def _held(ends: _Ends, weights: _Weights, count: int) -> np.ndarray | None:
    """[nodes, count]: the results that a leaf adds to; None where each adds to all."""
    held = np.zeros((len(ends.branches.features), count), bool)
    held[weights.nodes, weights.results] = True
    return None if held[ends.branches.features < 0].all() else held


def _scored(c: Call, ends: _Ends, weights: _Weights, count: int) -> Value | None:
    """[rows, count]: the results that a row's leaves add to; None where that is all of them."""
    held = _held(ends, weights, count)
    if held is None:
        return None
    parts = c.pick(c.const(held[ends.tables.nodes].astype(np.float32)), ends.at, axis=0)
    most = c("reduce_max", parts, [1], keepdims=0)
    return most > c.number(0.0, most)


def _leaves(c: Call, x: Value, t: Tables) -> Value:
    """[rows, trees]: the place in the tables of the leaf that a row comes to in each tree."""
    x = c.pick(c.cast(as_rows(c, x), t.thresholds.dtype), c.const(t.columns), axis=1)
    if t.missing:
        x = c.join([x, c.choose(c("is_nan", x), -np.inf, x)], axis=1)
    x = c("pad", x, [0, 1, 0, 0])
    seen = c.pick(x, c.const(t.features[t.roots]), axis=1)
    at = c.const(t.children[t.roots]) + c.cast(c("less_or_equal", seen, c.const(t.thresholds[t.roots])), INDEX)
    features, thresholds, children = (c.const(table) for table in (t.features, t.thresholds, t.children))
    for _ in range(t.depth - 1):
        seen = c("gather_elements", x, c.pick(features, at, axis=0), axis=1)
        below = c("less_or_equal", seen, c.pick(thresholds, at, axis=0))
        at = c.pick(children, at, axis=0) + c.cast(below, INDEX)
    return at


def _like(c: Call, numbers: np.ndarray, x: Value) -> Value:
    return c("cast_like", c.const(np.asarray(numbers, np.float64)), x)


def _target(c: Call, scores: Value, base: np.ndarray, count: int, way: str) -> Value:
    if len(base) not in (0, 1, count) or len(base) > count:
        c.fail(f"expected {count} base values or none, found {len(base)}")
    moved = scores + _like(c, base, scores) if len(base) else scores
    return of_targets(c, moved, count, way)
