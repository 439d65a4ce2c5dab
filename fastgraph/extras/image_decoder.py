"""Images from the bytes of their files, by Pillow. Semantics: ONNX."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..ir import Node, TensorType
from ..locks import undisturbed
from ..ops import check
from ..ops.inference import Types
from ..ops.registry import attr, define, fail
from ..room import need

CHANNELS = {"RGB": 3, "BGR": 3, "Grayscale": 1}


@check.takes("stream u 1")
def _infer(node: Node, types: Types) -> list[TensorType]:
    if attr(node, "pixel_format") not in CHANNELS:
        fail(node, f"pixel_format must be one of {', '.join(CHANNELS)}, found {attr(node, 'pixel_format')!r}")
    return [
        TensorType(np.dtype(np.uint8), (None, None, None))
    ]  # channels too: an image that can't be decoded is [0, 0, 0]


def _decode(node: Node, inputs: list[Any]) -> list[Any]:
    """[height, width, channels] of the file's bytes; [0, 0, 0] when they can't be decoded."""
    with undisturbed():
        try:
            from PIL import Image
        except ImportError:
            raise UnsupportedError(
                f"{node.op}: Pillow, which decodes images, is not installed: pip install 'fastgraph-runtime[images]'"
            ) from None
    form = attr(node, "pixel_format")
    try:
        with Image.open(BytesIO(inputs[0].tobytes())) as image:
            need(4 * image.width * image.height * CHANNELS[form])
            pixels = np.asarray(image.convert("L" if form == "Grayscale" else "RGB"))
    except MemoryError:
        raise
    except Exception:  # what Pillow's decoders raise for damaged files has no common type
        return [np.zeros((0, 0, 0), np.uint8)]
    pixels = pixels.reshape(*pixels.shape[:2], CHANNELS[form])
    return [np.ascontiguousarray(pixels[..., ::-1] if form == "BGR" else pixels)]


define("image_decoder", _infer, _decode, attrs={"pixel_format": "RGB"}, pure=False)
