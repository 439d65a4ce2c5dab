"""What is in a picture: an image classifier, its labels, and the five likeliest.

    pip install 'fastgraph-runtime[images]'
    python classify.py mobilenet_v2_1.0_224_quant.tflite cat.bmp imagenet_labels.txt

The three files are in https://github.com/google-coral/test_data. Any classifier of TensorFlow Lite with 8-bit pixels
will do; for others write what becomes of a pixel in `prepared`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

import fastgraph as fg


def prepared(path: str | Path, spec: fg.TensorSpec) -> np.ndarray:
    """The picture as uint8 [1, height, width, 3], of the size that the input has."""
    assert spec.shape is not None and spec.dtype == np.uint8
    height, width = spec.shape[1:3]
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.BILINEAR))[None]


def classify(model: fg.Model, path: str | Path, labels: list[str], top: int = 5) -> list[tuple[str, float]]:
    """The likeliest labels, with their probabilities."""
    scores = model(prepared(path, model.inputs[0]))
    quantization = model.outputs[0].quantization
    probabilities = scores[0] if quantization is None else quantization.dequantize(scores)[0]
    best = np.argsort(-probabilities)[:top]
    return [(labels[i], float(probabilities[i])) for i in best]


if __name__ == "__main__":
    network, picture, names = sys.argv[1:]
    for label, probability in classify(fg.load(network), picture, Path(names).read_text().splitlines()):
        print(f"{probability:7.4f}  {label}")
