"""A small network that ships with fastgraph: 8x8 handwritten digits, trained by train.py beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

MODEL = Path(__file__).with_name("digits.onnx")
"""Input `image` float32[1,1,8,8] with values 0..1, output `probabilities` float32[1,10]."""


def held_out() -> tuple[np.ndarray, np.ndarray]:
    """(images float32[454,1,1,8,8], labels uint8[454]) that the network was not trained on."""
    with np.load(MODEL.with_suffix(".npz")) as data:
        return data["images"].astype(np.float32)[:, None, None] / 16, data["labels"]
