"""Write torchvision's networks as FOLDER/NAME.onnx.

    pip install torch onnx && pip install --no-deps torchvision pillow
    python bench/zoo/make_onnx.py FOLDER [NAME...]

All are float32, for one image of 224 x 224 pixels.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from from_torch import network

NAMES = (
    "mobilenet_v2", "mobilenet_v3_large", "resnet18", "resnet50", "squeezenet1_1", "shufflenet_v2_x1_0",
    "efficientnet_b0", "googlenet",
)  # fmt: skip


def main(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or NAMES:
        net, image = network(name)
        path = folder / f"{name}.onnx"
        torch.onnx.export(
            net, (image,), str(path), dynamo=False, opset_version=17, input_names=["input"], output_names=["output"]
        )
        print(path, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
