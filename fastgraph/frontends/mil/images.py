"""Images as inputs: pixels 0 to 255 in the layout and size that the model declares. Programs scale them themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import InputError
from ...ir import TensorType


def adapter(name: str, layout: str, outside: TensorType) -> Callable[[Any], Any]:
    """What makes the input's own array, [1, channels, height, width], of an image.

    It takes Pillow images, and uint8 arrays [height, width, channels] (RGB) or [height, width] (gray), as NumPy has
    Pillow images; all else is passed on. Colors become the model's, sizes stay what they are.
    """
    assert outside.shape is not None
    channels, rank, dtype = outside.shape[-3], len(outside.shape), outside.dtype

    def adapt(fed: Any) -> Any:
        pillow = sys.modules.get("PIL.Image")
        if pillow is not None and isinstance(fed, pillow.Image):
            fed = np.asarray(fed.convert("F" if "FLOAT" in layout else "L" if channels == 1 else "RGB"))
        elif not (isinstance(fed, np.ndarray) and fed.dtype == np.uint8):
            return fed
        elif fed.ndim == rank == 4:
            return fed.astype(dtype)
        if fed.ndim == 2:
            fed = fed[:, :, None]
        if fed.ndim != 3 or fed.shape[2] != channels:
            raise InputError(f"input {name!r} is an image of {channels} channels ({layout}), an array of shape "
                             f"{list(fed.shape)} was given: feed [height, width, {channels}] as uint8")  # fmt: skip
        pixels = fed[:, :, ::-1] if layout == "BGR" else fed
        planes = np.ascontiguousarray(pixels.transpose(2, 0, 1), dtype)
        return planes[None] if rank == 4 else planes

    return adapt
