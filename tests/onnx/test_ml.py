"""Operators of ai.onnx.ml, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper
from onnxruntime import InferenceSession

import fastgraph as fg

F32, F64, I64, TEXT = T.FLOAT, T.DOUBLE, T.INT64, T.STRING


def model(op: str, inputs: dict[str, tuple[int, Any]], output: int, **attrs: Any) -> bytes:
    node = helper.make_node(op, list(inputs), ["y"], domain="ai.onnx.ml", **attrs)
    named = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
    graph = helper.make_graph([node], "g", named, [helper.make_tensor_value_info("y", output, None)])
    sets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 4)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10).SerializeToString()


def agree(data: bytes, feeds: dict[str, np.ndarray]) -> None:
    got, want = fg.load(data, threads=1).run(feeds)["y"], InferenceSession(data).run(None, feeds)[0]
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("code, dtype", [(F32, "f4"), (F64, "f8"), (I64, "i8"), (T.INT32, "i4")])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (1, 4)])
@pytest.mark.parametrize("at", [(2,), (1, 3)])
def test_array_feature_extractor(code: int, dtype: str, shape: tuple[int, ...], at: tuple[int, ...]) -> None:
    data = model("ArrayFeatureExtractor", {"x": (code, shape), "i": (I64, at)}, code)
    agree(data, {"x": np.arange(np.prod(shape)).reshape(shape).astype(dtype), "i": np.resize([3, 0, 3], at)})


@pytest.mark.parametrize("threshold", [0.0, 0.5, -1.5, 1e30])
def test_binarizer(threshold: float) -> None:
    x = np.float32([[0, 0.5, 0.500001, -1.5, np.inf, -np.inf, 1e30]])
    agree(model("Binarizer", {"x": (F32, x.shape)}, F32, threshold=threshold), {"x": x})


@pytest.mark.parametrize("keys, values, x", [
    ({"keys_int64s": [1, 2]}, {"values_strings": ["a", "b"], "default_string": "z"}, np.int64([[2, 1], [5, -1]])),
    ({"keys_strings": ["a", "b"]}, {"values_floats": [1.5, 2], "default_float": -3.0}, np.array(["b", "c"], object)),
    ({"keys_floats": [0.1, 2]}, {"values_int64s": [7, 8]}, np.float32([0.1, 2, 0.2])),
    ({"keys_int64s": [3]}, {"values_int64s": [4]}, np.int64([3, 4])),
    ({"keys_strings": ["a"]}, {"values_strings": ["b"]}, np.array(["a", "c"], object)),
])  # fmt: skip
def test_label_encoder(keys: dict[str, Any], values: dict[str, Any], x: np.ndarray) -> None:
    codes = {"f": F32, "i": I64, "O": TEXT}
    output = {"values_strings": TEXT, "values_floats": F32, "values_int64s": I64}[next(iter(values))]
    agree(model("LabelEncoder", {"x": (codes[x.dtype.kind], x.shape)}, output, **keys, **values), {"x": x})


@pytest.mark.parametrize("attrs, error", [
    ({"keys_floats": [float("nan")], "values_int64s": [1]}, fg.UnsupportedError),
    ({"keys_floats": [1.0], "values_int64s": [1, 2]}, fg.ModelError),
    ({"keys_floats": [1.0]}, fg.ModelError),
    ({"keys_floats": [1.0], "keys_int64s": [1], "values_int64s": [1]}, fg.ModelError),
])  # fmt: skip
def test_label_encoders_that_are_refused(attrs: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        fg.load(model("LabelEncoder", {"x": (F32, (1,))}, I64, **attrs))
