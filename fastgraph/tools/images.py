"""Image files as inputs: read, resized to the input's size, normalized.

Pixels are 0..255. Without a mean and a standard deviation an unsigned byte is the pixel, a signed one the pixel - 128
(the same image, as the zero point moves along), and a float the pixel / 255. With them the input is (pixel - mean) /
std, quantized if the input is. Channels are red, green, blue, or turned round.
"""

from __future__ import annotations

import struct
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..ir.quantization import to_stored
from ..runtime.model import TensorSpec
from .preprocessing import NOTHING, Preprocessing

SUFFIXES = frozenset({".bmp", ".png", ".jpg", ".jpeg", ".gif", ".webp"})
_GRAY = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in brightness: ITU-R BT.601."""


def image_input(pixels: np.ndarray, spec: TensorSpec, wanted: Preprocessing = NOTHING) -> tuple[np.ndarray, str]:
    """Pixels [H,W,3] as an array for `spec`, resized to its height and width without keeping proportions, and what
    became of them, in words.

    InputError when the input is no image: its shape must be [H,W,C] or [C,H,W] with 1 or 3 channels, with or without a
    batch; open channels are 3 where `wanted.layout` says which they are.
    """
    height, width, channels, first = _layout(spec, wanted.layout)
    real = pixels.astype(np.float64)
    if channels == 1:
        real = real @ np.array(_GRAY)[:, None]
    height, width = height or real.shape[0], width or real.shape[1]
    real = np.clip(resize(real, height, width), 0, 255)
    colors = "gray" if channels == 1 else "BGR" if wanted.colors == "BGR" else "RGB"
    if colors == "BGR":
        real = real[..., ::-1]
    array, scale = _stored(real, spec) if wanted.stored else _scaled(real, spec, wanted.mean, wanted.std)
    if first:
        array = array.transpose(2, 0, 1)
    size = "" if pixels.shape[:2] == (height, width) else f"resized from {pixels.shape[1]} x {pixels.shape[0]} to "
    said = f"{size}{width} x {height} {colors}, {'NCHW' if first else 'NHWC'}, {scale}"
    return np.ascontiguousarray(array).reshape((1,) * (len(spec.shape or ()) - 3) + array.shape), said


def _layout(spec: TensorSpec, wanted: str) -> tuple[int | None, int | None, int, bool]:
    """Height and width (None: open), channels, and whether channels come first."""
    shape = spec.shape or ()
    fits = len(shape) in (3, 4) and (len(shape) == 3 or not isinstance(shape[0], int) or shape[0] == 1)
    for first, (h, w, c) in ((False, (-3, -2, -1)), (True, (-2, -1, -3))):
        if wanted and first != (wanted == "NCHW"):
            continue
        if fits and (shape[c] in (1, 3) or (wanted and not isinstance(shape[c], int))):
            height, width = (d if isinstance(d, int) else None for d in (shape[h], shape[w]))
            channels = shape[c]
            return height, width, channels if isinstance(channels, int) else 3, first
    said = ",".join(str(d or "?") for d in shape)
    raise InputError(
        f"input {spec.name!r} is {spec.dtype}[{said}], which takes no image{f' as {wanted}' if wanted else ''}: "
        "that has 1 or 3 channels, last or before its height and width (open ones where --layout says it), and a batch "
        "of 1. Feed an .npy file"
    )


def _stored(pixels: np.ndarray, spec: TensorSpec) -> tuple[np.ndarray, str]:
    if spec.dtype not in (np.uint8, np.int8):
        raise InputError(f"input {spec.name!r} is {spec.dtype}: only inputs of 8 bits take an image's bytes")
    return np.rint(pixels).astype(np.uint8).view(spec.dtype), "bytes as they are stored"


def _scaled(pixels: np.ndarray, spec: TensorSpec, mean: Any, std: Any) -> tuple[np.ndarray, str]:
    dtype = spec.dtype
    assert dtype is not None
    if mean is None and std is None:
        if dtype in (np.uint8, np.int8):
            zero = 128 if dtype == np.int8 else 0
            return (np.rint(pixels) - zero).astype(dtype), "pixel - 128" if zero else "pixels as they are"
        mean, std = 0, 255
    divisor = _each(1 if std is None else std, pixels)
    if not divisor.all():
        raise InputError("--std 0: pixels are divided by it")
    reals = (pixels - _each(0 if mean is None else mean, pixels)) / divisor
    said = f"(pixel - {_numbers(0 if mean is None else mean)}) / {_numbers(1 if std is None else std)}"
    if dtype.kind == "f":
        return reals.astype(dtype), said
    if spec.quantization is None:
        raise InputError(f"input {spec.name!r} is {dtype} without a quantization: it takes no scaled image")
    return to_stored(reals, dtype, spec.quantization), f"{said}, quantized"


def _numbers(numbers: Any) -> str:
    return ",".join(f"{n:g}" for n in np.atleast_1d(np.asarray(numbers, np.float64)))


def _each(numbers: Any, pixels: np.ndarray) -> np.ndarray:
    array = np.atleast_1d(np.asarray(numbers, np.float64))
    if array.size not in (1, pixels.shape[-1]):
        raise InputError(f"--mean and --std take 1 number or one for each of {pixels.shape[-1]} channels: {array.size}")
    return array


def resize(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """[H,W,C] resized with a linear filter that is widened for shrinking, so that each pixel counts."""
    return np.einsum(
        "hy,yxc,wx->hwc", _filter(pixels.shape[0], height), pixels, _filter(pixels.shape[1], width), optimize=True
    )


def _filter(old: int, new: int) -> np.ndarray:
    """[new, old]: weights of old pixels in each new one; a triangle around it, at least two old pixels wide."""
    ratio = old / new
    centers = (np.arange(new) + 0.5) * ratio - 0.5
    shares = np.maximum(0, 1 - np.abs(np.arange(old) - centers[:, None]) / max(ratio, 1))
    return shares / shares.sum(axis=1, keepdims=True)


# -- files


def read_image(path: str, data: bytes | None = None) -> np.ndarray:
    """The pixels as uint8 [H,W,3], RGB, of a file, or of `data` that was read from it. InputError when it can't be
    decoded, OSError when it can't be read.
    """
    data = Path(path).read_bytes() if data is None else data
    if data[:2] == b"BM" and (pixels := _bitmap(data)) is not None:
        return pixels
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise InputError(
            f"{path}: only uncompressed .bmp files of 8, 24 or 32 bits are read without Pillow: "
            "pip install 'fastgraph-runtime[images]'"
        ) from None
    try:
        with Image.open(BytesIO(data)) as image:
            return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    except Exception as error:
        raise InputError(f"{path}: no image that can be read: {error}") from None


def _bitmap(data: bytes) -> np.ndarray | None:
    """The pixels of an uncompressed Windows bitmap; None for other kinds, and for a file that is cut short."""
    if len(data) < 54:
        return None
    at, size, width, height, bits, compression, colors = struct.unpack_from("<IIii2xHI12xI", data, 10)
    stride = (width * bits + 31) // 32 * 4
    if size < 40 or compression or bits not in (8, 24, 32) or width < 1 or not height:
        return None
    if at + stride * abs(height) > len(data):
        return None
    rows = np.frombuffer(data, np.uint8, stride * abs(height), at).reshape(abs(height), stride)
    pixels = rows[:, : width * bits // 8].reshape(abs(height), width, bits // 8)
    if bits == 8:
        count = colors or 256
        if 14 + size + 4 * count > len(data) or pixels.max() >= count:
            return None
        pixels = np.frombuffer(data, np.uint8, 4 * count, 14 + size).reshape(count, 4)[pixels[..., 0]]
    upright = pixels if height < 0 else pixels[::-1]
    return upright[..., 2::-1].copy()
