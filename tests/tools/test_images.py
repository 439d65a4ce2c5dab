"""Images as inputs: reading, resizing, scaling, and what is no image."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastgraph.errors import InputError
from fastgraph.ir import Quantization
from fastgraph.runtime.model import TensorSpec
from fastgraph.tools.images import image_input as image_and_words
from fastgraph.tools.images import read_image, resize
from fastgraph.tools.preprocessing import Preprocessing

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)


def spec(dtype: Any, *shape: int | str | None, quant: Quantization | None = None) -> TensorSpec:
    return TensorSpec("x", shape, np.dtype(dtype), quant)


def image_input(path: str, to: TensorSpec, *scale: Any, **facts: Any) -> np.ndarray:
    return image_and_words(read_image(path), to, Preprocessing(*scale, **facts))[0]


def bitmap(pixels: np.ndarray, bits: int = 24, downwards: bool = False) -> bytes:
    """An uncompressed Windows bitmap; with 8 bits, of a palette of grays turned round."""
    height, width = pixels.shape[:2]
    colors = b""
    if bits == 8:
        colors = bytes(n for gray in range(256) for n in (255 - gray,) * 3 + (0,))
        rows = 255 - pixels[..., :1]
    else:
        rows = pixels[..., ::-1] if bits == 24 else np.dstack([pixels[..., ::-1], np.full_like(pixels[..., :1], 9)])
    stride = -(-width * bits // 32) * 4
    lines = np.zeros((height, stride), np.uint8)
    lines[:, : width * bits // 8] = rows.reshape(height, -1)
    start = 54 + len(colors)
    head = b"BM" + struct.pack("<IHHI", start + lines.nbytes, 0, 0, start)
    info = struct.pack("<IiiHHIIiiII", 40, width, -height if downwards else height, 1, bits, 0, 0, 0, 0, 0, 0)
    return head + info + colors + (lines if downwards else lines[::-1]).tobytes()


@pytest.fixture
def picture(tmp_path: Path) -> str:
    path = tmp_path / "picture.bmp"
    path.write_bytes(bitmap(PIXELS))
    return str(path)


@pytest.mark.parametrize("downwards", [False, True])
@pytest.mark.parametrize("bits", [8, 24, 32])
def test_bitmaps_are_read(tmp_path: Path, monkeypatch: Any, bits: int, downwards: bool) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    pixels = np.repeat(PIXELS[..., :1], 3, axis=2) if bits == 8 else PIXELS
    (tmp_path / "x.bmp").write_bytes(bitmap(pixels, bits, downwards))
    np.testing.assert_array_equal(read_image(str(tmp_path / "x.bmp")), pixels)


@pytest.mark.parametrize("bits", [8, 24, 32])
def test_a_bitmap_cut_short_is_an_error(tmp_path: Path, monkeypatch: Any, bits: int) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    whole = bitmap(PIXELS, bits)
    for size in (0, 2, 20, 53, 54, 80, len(whole) - 1):
        (tmp_path / "x.bmp").write_bytes(whole[:size])
        with pytest.raises(InputError, match="x.bmp"):
            read_image(str(tmp_path / "x.bmp"))


@pytest.mark.parametrize("suffix", ["png", "bmp", "gif"])
def test_pillow_reads_the_others(tmp_path: Path, suffix: str) -> None:
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.where(PIXELS > 127, 255, 0).astype(np.uint8)).save(tmp_path / f"x.{suffix}")
    np.testing.assert_array_equal(read_image(str(tmp_path / f"x.{suffix}")), np.where(PIXELS > 127, 255, 0))
    (tmp_path / f"y.{suffix}").write_bytes(b"GIF89a no image")
    with pytest.raises(InputError, match=f"y.{suffix}: no image"):
        read_image(str(tmp_path / f"y.{suffix}"))


def test_without_pillow_the_extra_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    (tmp_path / "x.png").write_bytes(b"\x89PNG")
    with pytest.raises(InputError, match=r"fastgraph-runtime\[images\]"):
        read_image(str(tmp_path / "x.png"))


def test_bytes_take_pixels(picture: str) -> None:
    np.testing.assert_array_equal(image_input(picture, spec(np.uint8, 1, 5, 7, 3)), PIXELS[None])
    np.testing.assert_array_equal(image_input(picture, spec(np.int8, 5, 7, 3)), PIXELS.astype(int) - 128)
    quant = Quantization((1 / 255,), (-128,))
    signed = image_input(picture, spec(np.int8, 1, 5, 7, 3, quant=quant))
    np.testing.assert_array_equal(signed, image_input(picture, spec(np.int8, 1, 5, 7, 3, quant=quant), [0], [255]))


def test_bytes_may_be_what_is_stored(picture: str) -> None:
    found = image_input(picture, spec(np.int8, 1, 5, 7, 3), stored=True)
    np.testing.assert_array_equal(found, PIXELS.view(np.int8)[None])
    with pytest.raises(InputError, match="8 bits"):
        image_input(picture, spec(np.float32, 1, 5, 7, 3), stored=True)


def test_floats_are_scaled(picture: str) -> None:
    np.testing.assert_allclose(image_input(picture, spec(np.float32, 1, 5, 7, 3)), PIXELS[None] / 255, rtol=1e-6)
    mean, std = [123.7, 116.3, 103.5], [58.4, 57.1, 57.4]
    found = image_input(picture, spec(np.float32, 1, 3, 5, 7), mean, std)
    assert found.dtype == np.float32 and found.flags.c_contiguous
    np.testing.assert_allclose(found[0].transpose(1, 2, 0), (PIXELS - np.array(mean)) / std, rtol=1e-5)


def test_a_scaled_image_is_quantized_by_the_tensor(picture: str) -> None:
    quant = Quantization((0.5,), (3,))
    found = image_input(picture, spec(np.int16, 1, 5, 7, 3, quant=quant), [100], [2])
    np.testing.assert_array_equal(found[0], np.rint((PIXELS - 100.0) / 2 / 0.5) + 3)


def test_gray_and_open_shapes(picture: str) -> None:
    found = image_input(picture, spec(np.uint8, "N", None, None, 1))
    expected = np.rint(PIXELS @ np.array([0.299, 0.587, 0.114]))
    assert found.shape == (1, 5, 7, 1)
    np.testing.assert_array_equal(found[0, ..., 0], expected)


@pytest.mark.parametrize("shape", [(1, 10), (2, 8, 8, 3), (1, 8, 8, 5), (1, 1, 8, 8, 3), None])
def test_inputs_that_take_no_image(picture: str, shape: tuple[int, ...] | None) -> None:
    with pytest.raises(InputError, match="takes no image"):
        image_input(picture, TensorSpec("x", shape, np.dtype(np.float32)))


@pytest.mark.parametrize("mean, std, said", [([1, 2], None, "1 number"), (None, [0], "--std 0"), ([1], [2], "int32")])
def test_scales_that_do_not_fit(picture: str, mean: Any, std: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        image_input(picture, spec(np.int32, 1, 5, 7, 3), mean, std)


@pytest.mark.parametrize("size", [(5, 7), (3, 4), (11, 9), (1, 1), (2, 20)])
def test_resizing_is_pillows(size: tuple[int, int]) -> None:
    image = pytest.importorskip("PIL.Image")
    expected = np.asarray(image.fromarray(PIXELS).resize(size[::-1], image.Resampling.BILINEAR), float)
    np.testing.assert_allclose(resize(PIXELS.astype(float), *size), expected, atol=1.5)
    assert abs(resize(np.full((5, 7, 1), 3.0), *size) - 3).max() < 1e-12
