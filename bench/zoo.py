"""The networks that are measured: seven torchvision architectures, made outside of this repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

NAMES = (
    "mobilenet_v2", "mobilenet_v3_large", "resnet50", "squeezenet1_1", "shufflenet_v2_x1_0", "efficientnet_b0",
    "googlenet",
)  # fmt: skip


def network(name: str) -> str:
    """The path of a network in $FASTGRAPH_ZOO; skips the test, with the reason, when it is not there."""
    folder = os.environ.get("FASTGRAPH_ZOO")
    if not folder:
        pytest.skip("FASTGRAPH_ZOO names no folder of networks: make them with zoo/make_onnx.py")
    path = Path(folder, f"{name}.onnx")
    if not path.exists():
        pytest.skip(f"FASTGRAPH_ZOO has no {path.name}: make it with zoo/make_onnx.py")
    return str(path)
