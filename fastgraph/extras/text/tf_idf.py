"""Counts of n-grams, weighted. Of numbers by comparing all of a pool with all places, of strings on the host.

Semantics: ONNX.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...ir import FLOAT32, Node, TensorType, Value
from ...ops import check
from ...ops.inference import Types
from ...ops.registry import REQUIRED, attr, define, fail
from ...ops.work import squares
from ...rules.operands import known
from ...rules.rule import rule
from ...rules.sweep import Sweep

MOST = 1 << 20
"""Comparisons of a step; what takes more is looked up."""


@check.takes("x 1-2")
def _infer_tf_idf(node: Node, types: Types) -> list[TensorType]:
    _check_pool(node, types[0])
    shape = types[0].shape
    width = max(attr(node, "ngram_indexes"), default=-1) + 1
    return [TensorType(FLOAT32, None if shape is None else (*shape[:-1], width))]


def _check_pool(node: Node, x: TensorType) -> None:
    """ModelError unless the attributes of a vectorizer fit each other and the words."""
    strings, numbers = attr(node, "pool_strings"), attr(node, "pool_int64s")
    if bool(strings) == bool(numbers):
        fail(node, "needs either pool_strings or pool_int64s")
    check.operand(node, x, f"x {'O' if strings else 'iu'}")
    check.one_of(node, "mode", attr(node, "mode"), ("TF", "IDF", "TFIDF"))
    least, most, skip = (attr(node, name) for name in ("min_gram_length", "max_gram_length", "max_skip_count"))
    counts, places, pool = list(attr(node, "ngram_counts")), attr(node, "ngram_indexes"), strings or numbers
    if not 1 <= least <= most <= len(counts) or skip < 0:
        fail(
            node,
            f"needs 1 <= min_gram_length <= max_gram_length <= {len(counts)} ngram_counts and max_skip_count "
            f"from 0 on, found {least}, {most} and {skip}",
        )
    sizes = [b - a for a, b in zip(counts, [*counts[1:], len(pool)], strict=True)]
    if counts[0] or any(size < 0 or size % n for n, size in enumerate(sizes, 1)):
        fail(node, f"ngram_counts {counts} do not cut a pool of {len(pool)} into n-grams")
    grams = sum(size // n for n, size in enumerate(sizes, 1))
    weights = attr(node, "weights")
    if len(places) != grams or min(places, default=0) < 0 or (weights and len(weights) != grams):
        fail(node, f"needs a place from 0 on, and a weight if any, for each of {grams} n-grams")
    if max(places, default=0) > 2**31:
        fail(node, f"ngram_indexes ask for {max(places)} columns")


def grams_of(node: Node) -> dict[tuple[Any, ...], int]:
    """n-gram -> its number in the pool."""
    pool = attr(node, "pool_strings") or attr(node, "pool_int64s") or ()
    starts = [*attr(node, "ngram_counts"), len(pool)]
    grams = [
        tuple(pool[at : at + size])
        for size, (start, end) in enumerate(zip(starts, starts[1:], strict=False), 1)
        for at in range(start, end, size)
    ]
    return {gram: place for place, gram in enumerate(grams)}


def _tf_idf(node: Node, inputs: list[Any]) -> list[Any]:
    """Counts of the pool's n-grams per row; their words lie evenly, up to max_skip_count + 1 apart."""
    x = inputs[0]
    grams, places = grams_of(node), attr(node, "ngram_indexes")
    counts = np.zeros((x.size // max(x.shape[-1], 1) if x.ndim == 2 else 1, max(places) + 1), np.float32)
    for row, words in enumerate(x.reshape(len(counts), -1).tolist()):
        for size in range(attr(node, "min_gram_length"), attr(node, "max_gram_length") + 1):
            for step in range(1, 2 if size == 1 else min(attr(node, "max_skip_count"), len(words)) + 2):
                for at in range(len(words) - (size - 1) * step):
                    gram = grams.get(tuple(words[at : at + (size - 1) * step + 1 : step]))
                    if gram is not None:
                        counts[row, places[gram]] += 1
    weights = np.ones(counts.shape[1], np.float32)
    if attr(node, "weights"):
        weights[list(places)] = attr(node, "weights")
    if attr(node, "mode") != "TF":
        counts = (counts > 0 if attr(node, "mode") == "IDF" else counts) * weights
    return [counts.astype(np.float32).reshape(*x.shape[:-1], -1)]


_NAMES = ("max_gram_length", "max_skip_count", "min_gram_length", "mode", "ngram_counts", "ngram_indexes")
_POOL = {"pool_int64s": None, "pool_strings": None, "weights": None}
_ATTRS = {**dict.fromkeys(_NAMES, REQUIRED), **_POOL}
define("tf_idf_vectorizer", _infer_tf_idf, _tf_idf, attrs=_ATTRS, work=squares)


@rule("rare", "tf_idf_vectorizer")
def tf_idf_vectorizer(g: Sweep, node: Node) -> bool:
    """Given ``y = tf_idf_vectorizer(x)``; result the sum over places of ``x[place + k * step] == gram[k]``."""
    pool, x = attr(node, "pool_int64s"), node.x
    if not pool or not known(x, node.out):
        return False
    images, count, width = prod(x.type.dims[:-1]), x.type.dims[-1], node.out.type.dims[-1]
    if max(images * count, width) * len(pool) > MOST:
        return False
    words = g.shape(g.cast(x, np.int64), images, count, 1)
    by_size: dict[int, dict[tuple[int, ...], int]] = {}
    for gram, place in grams_of(node).items():
        if attr(node, "min_gram_length") <= len(gram) <= attr(node, "max_gram_length"):
            by_size.setdefault(len(gram), {})[gram] = attr(node, "ngram_indexes")[place]
    parts: list[Value] = []
    columns: list[int] = []
    for grams in by_size.values():
        total = _counts(g, words, np.array(list(grams), np.int64))
        if total is not None:
            parts.append(total)
            columns += grams.values()
    if not parts:
        return g.becomes(g.number(np.zeros(node.out.type.dims, FLOAT32)))
    place_of = np.zeros((len(columns), width), FLOAT32)
    place_of[range(len(columns)), columns] = 1
    y = g.join(parts, 1) @ place_of
    weights = np.ones(width, FLOAT32)
    if attr(node, "weights"):
        weights[list(attr(node, "ngram_indexes"))] = attr(node, "weights")
    if attr(node, "mode") == "IDF":
        y = g.cast(y > 0, FLOAT32)
    return g.becomes(y if attr(node, "mode") == "TF" else y * weights)


def _counts(g: Sweep, words: Value, grams: np.ndarray) -> Value | None:
    """How often each of the n-grams is in each row: [rows, n-grams]; None where rows are shorter than they."""
    count, size = words.type.dims[1], grams.shape[1]
    total: Value | None = None
    for step in range(1, 2 if size == 1 else min(attr(g.node, "max_skip_count"), count) + 2):
        places = count - (size - 1) * step
        if places < 1:
            break
        same: Value | None = None
        for k in range(size):
            one = g.equal(g.cut(words, 1, k * step, k * step + places), grams[:, k])
            same = one if same is None else same & one
        assert same is not None
        found = g.sum(g.cast(same, FLOAT32), [1])
        total = found if total is None else total + found
    return total
