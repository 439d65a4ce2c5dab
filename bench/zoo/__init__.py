"""The networks that are measured: architectures of torchvision and Keras with random weights, which the scripts in this
folder write into the folder that $FASTGRAPH_ZOO names.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

NAMES = (
    "mobilenet_v2", "mobilenet_v3_large", "resnet50", "squeezenet1_1", "shufflenet_v2_x1_0", "efficientnet_b0",
    "googlenet",
)  # fmt: skip
KERAS = ("mobilenet", "mobilenetv2", "resnet50", "efficientnetb0")
TINY = ("ic_resnet8", "vww_mobilenetv1_025_96", "kws_dscnn", "ad01")
MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"
BASIC_PITCH = str(MODELS / "basic_pitch" / "nmp.onnx")
MLPERF = MODELS / "mlperf_tiny"
"""MLPerf Tiny's own files, which have weights that were trained, where they lie beside the repository."""


def network(name: str) -> str:
    """The path of an ONNX network in $FASTGRAPH_ZOO; skips the test, with the reason, when it is not there."""
    return _zoo(f"{name}.onnx", "make_onnx.py")


def keras(name: str, kind: str) -> str:
    """The path of a .tflite network in $FASTGRAPH_ZOO, or skips; `kind`: f32, int8, dynamic or f16."""
    return _zoo(f"{name}.{kind}.tflite", "make_tflite.py")


def tiny(name: str, kind: str) -> str:
    """The path of a network of MLPerf Tiny, or of ours of the same layers, or skips; `kind`: fp32 or int8."""
    path = MLPERF / f"{name}_{kind}.tflite"
    return str(path) if path.exists() else _zoo(f"{name}_{kind}.tflite", "make_tflite.py")


def any_of(name: str) -> str:
    """The path of a network that no other function names, or skips: an ONNX network without its suffix, or a file."""
    path = Path(name)
    if path.is_absolute():
        if not path.exists():
            pytest.skip("the networks of ../shared/models are not beside the repository")
        return name
    maker = "quantize_onnx" if name.count(".") > 1 else "fetch_real" if "/" in name else "make_more"
    return _zoo(name, "make_tflite.py") if name.endswith(".tflite") else _zoo(f"{name}.onnx", f"{maker}.py")


def ocr(part: str) -> str:
    """The path of a trained network of PP-OCR that takes images of any size, or skips; `part`: det or rec."""
    return _zoo(f"rapidocr-onnxruntime/ch_PP-OCRv4_{part}_infer.onnx", "fetch_real.py")


def _zoo(name: str, maker: str) -> str:
    folder = os.environ.get("FASTGRAPH_ZOO")
    path = Path(folder or "nowhere", name)
    if not path.exists():
        where = f"FASTGRAPH_ZOO has no {name}" if folder else "FASTGRAPH_ZOO names no folder of networks"
        pytest.skip(f"{where}: bench/zoo/{maker} makes it")
    return str(path)
