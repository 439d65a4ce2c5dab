"""Operators of ai.onnx.ml that are composed of others. Semantics: their definitions in the onnx package, and
onnxruntime's kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call
from .contrib import Attrs, contrib
from .linear import CAST


@contrib("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(call: Call, attrs: Attrs) -> Value:
    """Columns of a matrix; a vector is a row of one."""
    indices = call.add("reshape", [call.x(1), call.const([-1])], allowzero=0)
    x, rank = call.x(0), call.known_rank(call.x(0))
    if rank is None:
        call.unsupported("on an input of unknown rank")
    if rank == 1:
        x = call.add("unsqueeze", [x, call.const([0])])
    return call.add("gather", [x, indices], axis=-1)


@contrib("ai.onnx.ml.Binarizer")
def binarizer(call: Call, attrs: Attrs) -> Value:
    """1 for what is larger than the threshold, which is a float whatever the input is."""
    x = call.x(0)
    wide = call.add("cast", [x], **CAST, to=np.dtype(np.float64))
    larger = call.add("greater", [wide, call.const(attrs["threshold"], dtype="f8")])
    return call.add("cast_like", [larger, x], **CAST)


@contrib("ai.onnx.ml.LabelEncoder")
def label_encoder(call: Call, attrs: Attrs) -> Value:
    """The value beside an equal key, or the default."""
    keys, values = _one(call, attrs, "keys"), _one(call, attrs, "values")
    if keys.shape != values.shape or keys.ndim != 1:
        call.fail(f"expected a value for each key, found {keys.shape} and {values.shape}")
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        call.unsupported("with a key that is NaN")
    default = attrs["default_tensor"]
    if default is None:
        kind = {"f": "default_float", "i": "default_int64", "O": "default_string"}.get(values.dtype.kind)
        default = np.zeros(1, values.dtype) if kind is None else np.array([attrs[kind]], values.dtype)
    return call.add("hashtable_find", [call.x(0), *(call.const(a) for a in (keys, values, default))])


def _one(call: Call, attrs: Attrs, name: str) -> np.ndarray:
    """The one list that is given of those whose names begin so, as an array."""
    dtypes: dict[str, Any] = {"floats": np.float32, "int64s": np.int64, "strings": object, "tensor": None}
    given = {end: attrs[f"{name}_{end}"] for end in dtypes if attrs[f"{name}_{end}"] is not None}
    if len(given) != 1:
        call.fail(f"expected exactly one of {', '.join(f'{name}_{end}' for end in dtypes)}, found {len(given)}")
    ((end, data),) = given.items()
    return np.asarray(data, dtypes[end])
