"""Transformers that onnxruntime quantized, and layers of 4-bit weights, on one thread against other engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import rivals
from onnx import TensorProto, helper, numpy_helper
from test_dynamic_shapes import words
from zoo.opened import encoder

from fastgraph.tools.bench import compare

FORMS = ("QInt8", "QUInt8", "QInt8 per channel", "QUInt8 per channel", "QDQ")
LENGTHS = (16, 128)
LAYERS = [(size, rows) for size in (1024, 2048, 4096) for rows in (1, 16, 128)]
ratios: list[float] = []


def quantized(form: str, folder: Path) -> str:
    """A text encoder in one of FORMS."""
    from onnxruntime import quantization as q

    source, target = encoder(folder / "f32.onnx"), str(folder / "quantized.onnx")
    if form != "QDQ":
        kind, *more = form.split()
        q.quantize_dynamic(source, target, weight_type=q.QuantType[kind], per_channel=bool(more))
        return target

    class Samples(q.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter([words((1, length)) for length in (16, 100, 128)])

        def get_next(self) -> Any:
            return next(self.left, None)

    kinds = {"activation_type": q.QuantType.QUInt8, "weight_type": q.QuantType.QInt8}
    q.quantize_static(source, target, Samples(), quant_format=q.QuantFormat.QDQ, per_channel=True, **kinds)
    return target


@pytest.mark.parametrize("form", FORMS)
def test_text_encoder(goal: Any, form: str, tmp_path: Path) -> None:
    path = quantized(form, tmp_path)
    for length in LENGTHS:
        found = compare(path, words((1, length)), ("onnxruntime", "openvino"), seconds=rivals.SECONDS)
        ratios.append(rivals.noted(goal, f"text encoder, {form}, {length} words", found, 1.0))


def test_geometric_mean(goal: Any) -> None:
    rivals.note_mean(goal, "quantized text encoders", ratios, len(FORMS) * len(LENGTHS), 0.85)


@pytest.mark.parametrize("size, rows", LAYERS)
def test_four_bits(goal: Any, size: int, rows: int, tmp_path: Path) -> None:
    rng, block = np.random.default_rng(0), 32
    codes = rng.integers(0, 256, (size, size // block, block // 2)).astype(np.uint8)
    scales = rng.uniform(0.001, 0.01, (size, size // block)).astype(np.float32)
    attrs = {"K": size, "N": size, "bits": 4, "block_size": block}
    node = helper.make_node("MatMulNBits", ["x", "codes", "scales"], ["y"], domain="com.microsoft", **attrs)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, size]) for name in "xy")
    constants = [numpy_helper.from_array(codes, "codes"), numpy_helper.from_array(scales, "scales")]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "layer", [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), tmp_path / "layer.onnx")
    feeds = {"x": rng.standard_normal((rows, size), np.float32)}
    found = compare(str(tmp_path / "layer.onnx"), feeds, ("onnxruntime",), seconds=rivals.SECONDS)
    assert all(row.get("difference", 0) < 1e-4 for row in found["engines"]), found["engines"]
    rivals.noted(goal, f"4-bit weights of {size} x {size}, {rows} rows", found, 1.0)
