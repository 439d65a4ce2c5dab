"""Write torchvision's networks as Core ML programs, with what PyTorch computes in FOLDER/NAME.npz (x, y).

    pip install torch coremltools && pip install --no-deps torchvision pillow
    python bench/zoo/make_mil.py FOLDER [NAME...]

NAME.f32.mlpackage and NAME.f16.mlpackage; NAME.w8.mlpackage with weights of 8 bits and NAME.pal4.mlpackage with
palettes of 16 weights; beside each of the last two, .dense.mlpackage: the same, decompressed by coremltools.
"""

from __future__ import annotations

import sys
from pathlib import Path

import coremltools as ct
import numpy as np
import torch
from coremltools.optimize import coreml as compress
from from_torch import network

NAMES = ("mobilenet_v2", "squeezenet1_1", "mobilenet_v3_small")
KINDS = {"f32": (ct.precision.FLOAT32, ct.target.iOS15), "f16": (ct.precision.FLOAT16, ct.target.iOS17)}


def main(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or NAMES:
        net, image = network(name)
        traced = torch.jit.trace(net, image)
        packages = {kind: converted(traced, image, *of) for kind, of in KINDS.items()}
        packages["w8"] = compress.linear_quantize_weights(packages["f16"], whole(compress.OpLinearQuantizerConfig()))
        palette = compress.OpPalettizerConfig(mode="uniform", nbits=4)
        packages["pal4"] = compress.palettize_weights(packages["f16"], whole(palette))
        for kind in ("w8", "pal4"):
            packages[f"{kind}.dense"] = compress.decompress_weights(packages[kind])
        for kind, package in packages.items():
            package.save(str(folder / f"{name}.{kind}.mlpackage"))
        np.savez(folder / f"{name}.npz", x=image.numpy(), y=net(image).detach().numpy())
        print(folder / name, flush=True)


def converted(traced: object, image: torch.Tensor, precision: ct.precision, target: ct.target) -> object:
    """The program of one precision, for the system that brought it."""
    return ct.convert(
        traced, convert_to="mlprogram", compute_precision=precision, minimum_deployment_target=target,
        inputs=[ct.TensorType("x", image.shape)], outputs=[ct.TensorType("y")], skip_model_load=True,
    )  # fmt: skip


def whole(config: object) -> compress.OptimizationConfig:
    """The same for all weights."""
    return compress.OptimizationConfig(global_config=config)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
