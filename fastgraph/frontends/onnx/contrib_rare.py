"""What com.microsoft had before ai.onnx did, or has for a few networks, and what of ai.onnx.ml is composed of others.
Semantics of the latter: their definitions in the onnx package, and onnxruntime's kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call, as_is
from .contrib import contrib

contrib("Trilu: X k? -> Y | upper=1")(as_is("trilu"))
contrib("GatherND: data indices -> output")(as_is("gather_nd"))
contrib("Inverse: X -> Y")(as_is("inverse"))
contrib("SampleOp: X -> Y")(lambda c, x: x)


@contrib("Pad: data pads value? -> output | mode=constant")
def pad(c: Call, x: Value, pads: Value, value: Value | None, mode: str) -> Value:
    """The pads may be one row of a matrix."""
    return c("pad", x, c.reshape(pads, -1), value, mode=mode)


@contrib("Unique: x -> y idx counts")
def unique(c: Call, x: Value) -> list[Value]:
    """[values by first appearance, the place of each element's among them, how often each appears]."""
    values, _, places, counts = c.several("unique", 4, x, sorted=0)
    return [values, places, counts]


@contrib("ExpandDims: X axis -> Y")
def expand_dims(c: Call, x: Value, axis: Value) -> Value:
    return c("unsqueeze", x, c.reshape(c.cast(axis, np.int64), -1))


@contrib("Range: start limit delta? -> Y")
def range_(c: Call, start: Value, limit: Value, delta: Value | None) -> Value:
    """Numbers, or vectors of one."""
    step = c("cast_like", 1, start) if delta is None else delta
    return c("range", *(c.reshape(v) for v in (start, limit, step)))


@contrib("GridSample: X Grid -> Y | align_corners=0 mode=bilinear padding_mode=zeros")
def grid_sample(c: Call, x: Value, grid: Value, *, mode: str, **attrs: Any) -> Value:
    modes = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}
    if mode not in modes:
        c.fail(f"expected mode as one of {sorted(modes)}, found {mode!r}")
    return c.to_first(c("grid_sample", c.to_last(x), grid, mode=modes[mode], **attrs))


@contrib("CDist: A B -> C | metric=sqeuclidean")
def distances(c: Call, a: Value, b: Value, metric: str) -> Value:
    """Distances of each row of A and each of B: |a|^2 - 2 a b + |b|^2, or its root."""
    if metric not in ("sqeuclidean", "euclidean"):
        c.fail(f"expected metric as 'euclidean' or 'sqeuclidean', found {metric!r}")
    product = a @ c.transpose(b, 1, 0)
    squares = c.sum(a * a, [-1], keep=True) + c.transpose(c.sum(b * b, [-1], keep=True), 1, 0)
    away = c("relu", squares - (product + product))
    return c.sqrt(away) if metric == "euclidean" else away


@contrib("ai.onnx.ml.ArrayFeatureExtractor: X Y -> Z")
def array_feature_extractor(c: Call, x: Value, indices: Value) -> Value:
    """Columns of a matrix; a vector is a row of one."""
    rank = c.known_rank(x)
    if rank is None:
        c.unsupported("on an input of unknown rank")
    return c.pick(c("unsqueeze", x, [0]) if rank == 1 else x, c.reshape(indices, -1), axis=-1)


@contrib("ai.onnx.ml.Binarizer: X -> Y | threshold=0.0")
def binarizer(c: Call, x: Value, threshold: float) -> Value:
    """1 for what is larger than the threshold, which is a float whatever the input is."""
    return c("cast_like", c.cast(x, np.float64) > threshold, x)


@contrib(
    "ai.onnx.ml.LabelEncoder: X -> Y | default_float=-0.0 default_int64=-1 default_string=_Unused"
    " default_tensor:tensor? keys_floats:floats? keys_int64s:ints? keys_strings:strs? keys_tensor:tensor?"
    " values_floats:floats? values_int64s:ints? values_strings:strs? values_tensor:tensor?"
)
def label_encoder(c: Call, x: Value, **attrs: Any) -> Value:
    """The value beside an equal key, or the default."""
    keys, values = _one(c, attrs, "keys"), _one(c, attrs, "values")
    if keys.shape != values.shape or keys.ndim != 1:
        c.fail(f"expected a value for each key, found {keys.shape} and {values.shape}")
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        c.unsupported("with a key that is NaN")
    default = attrs["default_tensor"]
    if default is None:
        kind = {"f": "default_float", "i": "default_int64", "O": "default_string"}.get(values.dtype.kind)
        default = np.zeros(1, values.dtype) if kind is None else np.array([attrs[kind]], values.dtype)
    return c("hashtable_find", x, keys, values, default)


def _one(c: Call, attrs: dict[str, Any], name: str) -> np.ndarray:
    """As an array, the one list that is given among the attributes whose names begin with `name`."""
    dtypes: dict[str, Any] = {"floats": np.float32, "int64s": np.int64, "strings": object, "tensor": None}
    given = {end: attrs[f"{name}_{end}"] for end in dtypes if attrs[f"{name}_{end}"] is not None}
    if len(given) != 1:
        c.fail(f"expected exactly one of {', '.join(f'{name}_{end}' for end in dtypes)}, found {len(given)}")
    ((end, data),) = given.items()
    return np.asarray(data, dtypes[end])
