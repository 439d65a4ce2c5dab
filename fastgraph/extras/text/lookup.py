"""Tables, embeddings, hashes of features, n-grams. Semantics: tflite/kernels/{hashtable_lookup, hashtable_find,
embedding_lookup_sparse, lsh_projection, skip_gram}.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import INT32, STRING, UINT8, Node, TensorType
from ...ops import check
from ...ops.inference import Types, ints
from ...ops.registry import REQUIRED, attr, define, fail
from ...ops.work import in_python, squares
from .farmhash import fingerprint

COMBINERS = ("SUM", "MEAN", "SQRTN")


@check.takes("lookup 1, keys 1, values 1+")
def _infer_table_rows(node: Node, types: Types) -> list[TensorType]:
    lookup, keys, values = types
    check.shape(node, keys, "keys", values.shape[0] if values.shape else None)
    n = lookup.shape[0] if lookup.shape else None
    rows = None if values.shape is None else (n, *values.shape[1:])
    return [TensorType(values.dtype, rows), TensorType(UINT8, (n,))]


def _table_rows(node: Node, inputs: list[Any]) -> list[Any]:
    """(rows of `values` whose key is looked up, zeros or empty strings where there is none; 1 where there is one)."""
    lookup, keys, values = inputs
    place = {key: i for i, key in reversed(list(enumerate(keys.tolist())))}
    found = np.array([place.get(key, -1) for key in lookup.tolist()], np.int64)
    nothing = "" if values.dtype == object else 0
    out = np.full((len(lookup), *values.shape[1:]), nothing, values.dtype)
    hits = found >= 0
    out[hits] = values[found[hits]]
    return [out, hits.astype(np.uint8)]


@check.takes("query, keys, values, default one")
def _infer_find(node: Node, types: Types) -> list[TensorType]:
    query, keys, values, default = types
    check.one_dtype(node, [query, keys])
    check.one_dtype(node, [values, default])
    if keys.shape is not None:
        check.shape(node, values, "values", *keys.shape)
    return [TensorType(values.dtype, query.shape)]


def _find(node: Node, inputs: list[Any]) -> list[Any]:
    """The value of each key, or the default; of equal keys, the first one counts."""
    query, keys, values, default = inputs
    pairs = zip(keys.reshape(-1).tolist(), values.reshape(-1).tolist(), strict=True)
    table = dict(reversed(list(pairs)))
    other = default.reshape(-1).tolist()[0]
    found = np.empty(query.size, values.dtype)
    for i, key in enumerate(query.reshape(-1).tolist()):
        found[i] = table.get(key, other)
    return [found.reshape(query.shape)]


@check.takes("ids iu 1, indices iu 2, dense_shape iu 1, weights, values f 2+")
def _infer_sparse(node: Node, types: Types) -> list[TensorType]:
    ids, indices, dense, weights, values = types
    check.one_of(node, "combiner", attr(node, "combiner"), COMBINERS)
    count = ids.shape[0] if ids.shape else None
    check.shape(node, indices, "indices", count, dense.shape[0] if dense.shape else None)
    check.shape(node, weights, "weights", count)
    check.inside(node, "ids", node.const(0), 0, values.shape[0] if values.shape else None)
    shape, places = node.const(2), node.const(1)
    if shape is not None and (not shape.size or shape.min() < 0):
        fail(node, f"the dense shape must be extents, found {shape.tolist()}")
    if shape is not None and places is not None:
        for i, extent in enumerate(ints(shape)):
            check.inside(node, "indices", places[:, i], 0, extent)
    if shape is None or values.shape is None:
        return [TensorType(values.dtype, None)]
    return [TensorType(values.dtype, (*ints(shape)[:-1], *values.shape[1:]))]


def _sparse(node: Node, inputs: list[Any]) -> list[Any]:
    """Weighted sums, means or root-mean-square-like means of the rows that each place of a sparse tensor names."""
    ids, indices, shape, weights, values = inputs
    lead = ints(shape)[:-1]
    rows = np.ravel_multi_index(tuple(indices[:, :-1].T), tuple(lead)) if lead else np.zeros(len(ids), np.int64)
    wide = weights.astype(np.promote_types(values.dtype, np.float32))
    out = np.zeros((int(np.prod(lead)), *values.shape[1:]), wide.dtype)
    np.add.at(out, rows, values[ids] * wide.reshape(-1, *(1,) * (values.ndim - 1)))
    if attr(node, "combiner") != "SUM":
        total = np.zeros(len(out), wide.dtype)
        np.add.at(total, rows, wide if attr(node, "combiner") == "MEAN" else wide * wide)
        touched = np.zeros(len(out), bool)
        touched[rows] = True
        norm = total if attr(node, "combiner") == "MEAN" else np.sqrt(total)
        with np.errstate(divide="ignore", invalid="ignore"):
            out[touched] /= norm[touched].reshape(-1, *(1,) * (values.ndim - 1))
    return [out.reshape(*lead, *values.shape[1:])]


@check.takes("hash f 2, items 1+, weights?")
def _infer_lsh(node: Node, types: Types) -> list[TensorType]:
    seeds = types[0]
    if types[1].shape:
        check.shape(node, types[2], "weights", types[1].shape[0])
    if types[1].dtype == STRING:
        fail(node, "strings can not be projected")
    if seeds.shape is None or not all(isinstance(d, int) for d in seeds.shape):
        return [TensorType(INT32, (None,))]
    if not attr(node, "dense") and seeds.shape[1] > 32:
        fail(node, f"a sparse projection has up to 32 bits, found {seeds.shape[1]}")
    return [TensorType(INT32, (seeds.shape[0] * (seeds.shape[1] if attr(node, "dense") else 1),))]


def _lsh(node: Node, inputs: list[Any]) -> list[Any]:
    """Signs of weighted sums of the items' fingerprints, one for each seed; sparse: a number of them for each row."""
    seeds, items, weights = inputs
    keys = [np.ascontiguousarray(item).tobytes() for item in items]
    scale = np.ones(len(keys)) if weights is None else weights.astype(np.float64)

    def bit(seed: np.floating) -> int:
        first = np.float32(seed).tobytes()
        signed = [h - (1 << 64) if h >> 63 else h for h in (fingerprint(first + key) for key in keys)]
        return int(sum(float(w) * float(h) for w, h in zip(scale, signed, strict=True)) > 0)

    bits = np.array([[bit(seed) for seed in row] for row in seeds], np.int64).reshape(seeds.shape)
    if attr(node, "dense"):
        return [bits.reshape(-1).astype(np.int32)]
    width = seeds.shape[1]
    numbers = bits @ (1 << np.arange(width - 1, -1, -1, dtype=np.int64)) + np.arange(len(seeds)) * (1 << width)
    return [numbers.astype(np.uint64).astype(np.uint32).view(np.int32)]


def _skip_grams(node: Node, inputs: list[Any]) -> list[Any]:
    """Groups of words that stand within `max_skip_size` of each other, in order."""
    size, skip = attr(node, "ngram_size"), attr(node, "max_skip_size")
    words = str(inputs[0].reshape(-1)[0]).split()
    least = 1 if attr(node, "include_all_ngrams") else size

    def grams(taken: tuple[int, ...]) -> list[str]:
        longer: list[str] = []
        if len(taken) < size:
            for i in range(taken[-1] + 1, min(len(words), taken[-1] + skip + 2)):
                longer += grams((*taken, i))
        return longer + ([" ".join(words[i] for i in taken)] if len(taken) >= least else [])

    found = [gram for i in range(len(words)) for gram in grams((i,))] if 0 < size <= len(words) else []
    return [np.array(found, object).reshape(-1)]


@check.takes("text O one")
def _infer_skip_grams(node: Node, types: Types) -> list[TensorType]:
    if not 0 <= attr(node, "ngram_size") <= 64:
        fail(node, f"ngram_size must be from 0 to 64, found {attr(node, 'ngram_size')}")
    check.at_least(node, "max_skip_size", attr(node, "max_skip_size"), 0)
    return [TensorType(STRING, (None,))]


define("hashtable_lookup", _infer_table_rows, _table_rows)
define("hashtable_find", _infer_find, _find, work=in_python)
define("embedding_lookup_sparse", _infer_sparse, _sparse, attrs={"combiner": "SUM"}, shaped_by=(2,))
define("lsh_projection", _infer_lsh, _lsh, attrs={"dense": 0}, work=squares)
define(
    "skip_gram",
    _infer_skip_grams,
    _skip_grams,
    attrs={"ngram_size": REQUIRED, "max_skip_size": 0, "include_all_ngrams": 0},
    work=squares,
)
