"""Reads a line of text in a picture: PP-OCRv4's recognizer, whose width is open, and CTC's decoding.

    pip install 'fastgraph-runtime[images]'
    pip install --no-deps rapidocr-onnxruntime        # for its models
    python read_text.py line.png

A picture of many lines needs a detector before; the same package has one.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

import numpy as np
from PIL import Image

import fastgraph as fg

HEIGHT = 48
"""Rows of pixels that the recognizer takes."""


def model_file() -> Path | None:
    """The recognizer in the package rapidocr-onnxruntime, if that is installed."""
    spec = find_spec("rapidocr_onnxruntime")
    return Path(spec.origin).parent / "models" / "ch_PP-OCRv4_rec_infer.onnx" if spec and spec.origin else None


def characters(model: fg.Model) -> list[str]:
    """What the classes stand for, from the file's metadata: 0 is CTC's blank, the last one a space."""
    return ["", *model.metadata.custom["character"].splitlines(), " "]


def prepared(image: Image.Image) -> np.ndarray:
    """float32 [1, 3, HEIGHT, width], blue first, in -1..1; widths are multiples of 32, so that few plans are made."""
    width = round(image.width * HEIGHT / image.height)
    line = Image.new("RGB", (-(-width // 32) * 32, HEIGHT), "white")
    line.paste(image.convert("RGB").resize((width, HEIGHT), Image.Resampling.BILINEAR))
    pixels = np.asarray(line, np.float32)[..., ::-1]
    return np.ascontiguousarray((pixels / 127.5 - 1).transpose(2, 0, 1))[None]


def read(model: fg.Model, image: Image.Image, alphabet: list[str]) -> str:
    """The text: the likeliest class of each column, repeated ones once, without blanks."""
    (columns,) = model(prepared(image)).argmax(axis=-1)
    return "".join(alphabet[number] for number, _ in groupby(columns)).strip()


if __name__ == "__main__":
    network = model_file()
    if network is None:
        sys.exit("the model is not here: pip install --no-deps rapidocr-onnxruntime")
    recognizer = fg.load(network)
    with Image.open(sys.argv[1]) as picture:
        print(read(recognizer, picture, characters(recognizer)))
