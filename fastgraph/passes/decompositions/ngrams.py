"""Counts of n-grams of numbers, by comparing all of a pool with all places."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir import Node, Value
from ...ir.build import constant
from ...ops.registry import attr
from ...ops.text import grams_of
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .element_types import F32
from .writing import Steps, known

MOST = 1 << 20
"""Comparisons of a step; what takes more is looked up."""


@rule("rare", "tf_idf_vectorizer")
def tf_idf_vectorizer(state: Sweep, node: Node) -> bool:
    """Given ``y = tf_idf_vectorizer(x)``; result the sum over places of ``x[place + k * step] == gram[k]``."""
    pool, do, x = attr(node, "pool_int64s"), Steps(state, node), node.x
    if not pool or not known(x, node.out):
        return False
    images, count, width = prod(x.type.dims[:-1]), x.type.dims[-1], node.out.type.dims[-1]
    if max(images * count, width) * len(pool) > MOST:
        return False
    words = do.shape(do.cast(x, np.int64), images, count, 1)
    by_size: dict[int, dict[tuple[int, ...], int]] = {}
    for gram, number in grams_of(node).items():
        if attr(node, "min_gram_length") <= len(gram) <= attr(node, "max_gram_length"):
            by_size.setdefault(len(gram), {})[gram] = attr(node, "ngram_indexes")[number]
    parts: list[Value] = []
    columns: list[int] = []
    for grams in by_size.values():
        total = _counts(do, words, np.array(list(grams), np.int64))
        if total is not None:
            parts.append(total)
            columns += grams.values()
    if not parts:
        return do.becomes(constant(node.out, np.zeros(node.out.type.dims, F32), "none"))
    place = np.zeros((len(columns), width), F32)
    place[range(len(columns)), columns] = 1
    y = parts[0] if len(parts) == 1 else do("concat", *parts, axis=1)
    y = do("matmul", y, constant(node.out, place, "columns"))
    weights = np.ones(width, F32)
    if attr(node, "weights"):
        weights[list(attr(node, "ngram_indexes"))] = attr(node, "weights")
    if attr(node, "mode") == "IDF":
        y = do.cast(do("greater", y, 0), F32)
    return do.becomes(y if attr(node, "mode") == "TF" else do("mul", y, constant(node.out, weights, "weights")))


def _counts(do: Steps, words: Value, grams: np.ndarray) -> Value | None:
    """How often each of the n-grams is in each row: [rows, n-grams]; None where rows are shorter than they."""
    count, size = words.type.dims[1], grams.shape[1]
    total: Value | None = None
    for step in range(1, 2 if size == 1 else min(attr(do.node, "max_skip_count"), count) + 2):
        places = count - (size - 1) * step
        if places < 1:
            break
        same: Value | None = None
        for k in range(size):
            part = words if places == count else do.cut(words, 1, k * step, k * step + places)
            one = do("equal", part, constant(do.node.out, grams[:, k], "grams"))
            same = one if same is None else do("and", same, one)
        assert same is not None
        number = do.reduce("reduce_sum", do.cast(same, F32), [1])
        total = number if total is None else do("add", total, number)
    return total
