"""What files say of images and audio in their metadata, what becomes of them by it, and feeds from standard input."""

import io
import sys
from base64 import b64decode
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.demo import MODEL
from fastgraph.errors import InputError
from fastgraph.runtime.model import TensorSpec
from fastgraph.tools import audio, feeds
from fastgraph.tools.preprocessing import NOTHING, Preprocessing, of_model
from tests.circle import write
from tests.tools.test_images import PIXELS, bitmap

METADATA = b64decode(
    "FAAAAE0wMDEMAAwACAAAAAAABAAMAAAACAAAAAwBAAABAAAAEAAAAAAACgAIAAAAAAAEAAoAAAAEAAAAAgAAAEgAAAAEAAAAzv///wwAAAAMAAAA"
    "IAAAAAAAAAB4////CAAAAAAAAAS4////AQAAAIA+AAABAAAAeAAOABAADAAAAAAACAAEAA4AAAAMAAAAeAAAAIwAAAACAAAAUAAAAAQAAADA////"
    "EAAAAAAAAAEIAAwACAAEAAgAAAAIAAAAFAAAAAMAAAAAAGhCAABkQgAAZkIDAAAAAAD3QgAA6EIAAM5CCAAMAAsABAAIAAAADAAAAAAAAAMEAAQA"
    "BAAAAAgACgAJAAQACAAAAAwAAAAAAgYACAAHAAYAAAAAAAABAQAAAHgAAAABAAAAbgAAAA=="
)
"""Written by tflite-support 0.4.4: an RGB image, normalized by MEAN and STD behind another process unit, then audio of
16 kHz."""
MEAN, STD = [123.5, 116.0, 103.0], [58.0, 57.0, 57.5]


def tflite(path: Path) -> Path:
    """A file with METADATA: an image and audio, which it gives back negated."""
    m = write.Model()
    inputs = [m.input((1, 5, 7, 3), name="image"), m.input((1, 8), name="sound")]
    outputs = [m.op("NEG", [x], [shape])[0] for x, shape in zip(inputs, [(1, 5, 7, 3), (1, 8)], strict=True)]
    m.buffers.append({"data": np.frombuffer(METADATA, np.uint8)})
    m.fields["metadata"] = [{"name": "TFLITE_METADATA", "buffer": len(m.buffers) - 1}]
    path.write_bytes(m.bytes(outputs))
    return path


def saved(path: Path, shape: tuple[Any, ...], kind: int = TensorProto.FLOAT, **props: str) -> Path:
    """An .onnx file that gives its input back, with metadata."""
    x, y = (helper.make_tensor_value_info(name, kind, shape) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "net", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {f"Image.{key}": value for key, value in props.items()})
    onnx.save(model, path)
    return path


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    (tmp_path / "picture.bmp").write_bytes(bitmap(PIXELS))
    return tmp_path / "picture.bmp"


def read(texts: list[str], file: Path, given: Preprocessing = NOTHING, **options: Any) -> tuple[dict[str, Any], str]:
    """The feeds, and what was said."""
    said: list[str] = []
    found = feeds.read_inputs(texts, fg.load(file), given, file=str(file), say=said.append, **options)
    return found, "\n".join(said)


# -- metadata


def test_tflite_metadata_normalizes_images(tmp_path: Path, picture: Path) -> None:
    found, said = read([f"image={picture}"], tflite(tmp_path / "m.tflite"))
    np.testing.assert_allclose(found["image"][0], (PIXELS - np.array(MEAN)) / STD, rtol=1e-5)
    assert "(pixel - 123.5,116,103) / 58,57,57.5" in said and "the file's metadata" in said and "RGB" in said


def test_what_is_given_holds_over_metadata(tmp_path: Path, picture: Path) -> None:
    given = Preprocessing(mean=[0], std=[255], colors="BGR", source="as given")
    found, said = read([f"image={picture}"], tflite(tmp_path / "m.tflite"), given)
    np.testing.assert_allclose(found["image"][0], PIXELS[..., ::-1] / 255, rtol=1e-5)
    assert "BGR" in said and "as given" in said


def test_tflite_metadata_knows_the_rate(tmp_path: Path) -> None:
    path = tflite(tmp_path / "m.tflite")
    found = of_model(fg.load(path), str(path))
    assert found["sound"].rate == 16000 and found["image"].colors == "RGB" and not found["sound"].scaled


@pytest.mark.parametrize("size", [0, 4, 9, 40, 150, 250])
def test_damaged_metadata_is_none(tmp_path: Path, monkeypatch: Any, size: int) -> None:
    monkeypatch.setattr(sys.modules[__name__], "METADATA", METADATA[:size])
    path = tflite(tmp_path / "m.tflite")
    found = of_model(fg.load(path), str(path))
    assert all(isinstance(said, Preprocessing) for said in found.values())


@pytest.mark.parametrize(
    "span, low, high",
    [
        ("NominalRange_0_255", 0, 255), ("Normalized_0_1", 0, 1), ("Normalized_1_1", -1, 1),
        ("NominalRange_16_235", 16, 235),
    ],
)  # fmt: skip
def test_onnx_metadata_names_the_range_and_the_colors(
    tmp_path: Path, picture: Path, span: str, low: int, high: int
) -> None:
    path = saved(tmp_path / "m.onnx", (1, 3, 5, 7), BitmapPixelFormat="Bgr8", NominalPixelRange=span)
    found, said = read([str(picture)], path)
    expected = low + PIXELS[..., ::-1].transpose(2, 0, 1) / 255 * (high - low)
    np.testing.assert_allclose(found["x"][0], expected, atol=1e-4)
    assert "BGR, NCHW" in said and "the file's metadata" in said


def test_the_default_is_said(tmp_path: Path, picture: Path) -> None:
    found, said = read([str(picture)], saved(tmp_path / "m.onnx", (1, 2, 4, 3)))
    assert found["x"].shape == (1, 2, 4, 3)
    assert "resized from 7 x 5 to 4 x 2 RGB, NHWC, (pixel - 0) / 255; the default of its type" in said


@pytest.mark.parametrize("layout, shape", [("NCHW", (1, 3, 5, 7)), ("NHWC", (1, 5, 7, 3))])
def test_a_layout_settles_open_shapes(tmp_path: Path, picture: Path, layout: str, shape: tuple[int, ...]) -> None:
    path = saved(tmp_path / "m.onnx", ("n", None, None, None))
    found, said = read([str(picture)], path, Preprocessing(layout=layout))
    assert found["x"].shape == shape and layout in said
    with pytest.raises(InputError, match="--layout"):
        read([str(picture)], path)
    with pytest.raises(InputError, match="takes no image as NCHW"):
        read([str(picture)], saved(tmp_path / "n.onnx", (1, 5, 7, 3)), Preprocessing(layout="NCHW"))


# -- standard input


def pipe(monkeypatch: Any, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


@pytest.mark.parametrize("text", ["-", "x=-"])
def test_arrays_from_standard_input(tmp_path: Path, monkeypatch: Any, text: str) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    path = saved(tmp_path / "m.onnx", (2, 3))
    file = io.BytesIO()
    np.save(file, array)
    archive = io.BytesIO()
    np.savez(archive, x=array)
    for data in (file.getvalue(), archive.getvalue(), array.tobytes()):
        pipe(monkeypatch, data)
        np.testing.assert_array_equal(read([text], path)[0]["x"], array)


def test_an_image_from_standard_input(tmp_path: Path, monkeypatch: Any) -> None:
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.fromarray(PIXELS).save(file, "PNG")
    pipe(monkeypatch, file.getvalue())
    found, said = read(["-"], saved(tmp_path / "m.onnx", (1, 5, 7, 3)))
    np.testing.assert_allclose(found["x"][0], PIXELS / 255, rtol=1e-6)
    assert "standard input" in said


def test_standard_input_is_read_once(tmp_path: Path, monkeypatch: Any) -> None:
    path = saved(tmp_path / "m.onnx", (2,))
    pipe(monkeypatch, np.zeros(2, np.float32).tobytes())
    with pytest.raises(InputError, match="read already"):
        read(["x=-", "x=-"], path)
    pipe(monkeypatch, b"12345")
    with pytest.raises(InputError, match="standard input: 5 bytes, input 'x' takes 8"):
        read(["-"], path)


# -- audio


def sound(path: Path, samples: np.ndarray, rate: int = 16000) -> str:
    pytest.importorskip("soundfile", reason="soundfile is not installed").write(path, samples, rate, subtype="PCM_16")
    return str(path)


STEREO = np.rint(np.random.default_rng(0).uniform(-0.9, 0.9, (8, 2)) * 2**15) / 2**15


def test_audio_is_mixed_to_one_channel(tmp_path: Path) -> None:
    found, said = read([sound(tmp_path / "a.wav", STEREO)], saved(tmp_path / "m.onnx", ("n", 1, "length")))
    np.testing.assert_allclose(found["x"], STEREO.mean(axis=1)[None, None], atol=1e-6)
    assert "16000 Hz" in said and "the mean of 2 channels" in said and "--rate" in said


@pytest.mark.parametrize("length, words", [(5, "the first 5 of 8 samples"), (11, "3 zeros behind it"), (8, "")])
def test_fixed_lengths_cut_and_fill(tmp_path: Path, length: int, words: str) -> None:
    found, said = read([sound(tmp_path / "a.wav", STEREO)], saved(tmp_path / "m.onnx", (1, length)))
    expected = np.pad(STEREO.mean(axis=1), (0, 3))[:length]
    np.testing.assert_allclose(found["x"][0], expected, atol=1e-6)
    assert words in said and ("zeros" in said or "first" in said) == bool(words)


def test_int16_takes_the_files_integers(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", ("length",), TensorProto.INT16)
    found, _ = read([sound(tmp_path / "a.flac", STEREO[:, 0])], path)
    np.testing.assert_array_equal(found["x"], (STEREO[:, 0] * 2**15).astype(np.int16))


def test_a_rate_resamples(tmp_path: Path) -> None:
    """A sine stays the sine, away from the ends."""
    pytest.importorskip("soxr", reason="soxr is not installed")
    sine = np.sin(2 * np.pi * 440 * np.arange(8000) / 8000) / 2
    found, said = read(
        [sound(tmp_path / "a.wav", sine, 8000)], saved(tmp_path / "m.onnx", ("n",)), Preprocessing(rate=16000)
    )
    assert found["x"].shape == (16000,) and "resampled to 16000 Hz" in said
    expected = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000) / 2
    np.testing.assert_allclose(found["x"][2000:-2000], expected[2000:-2000], atol=1e-3)


def test_inputs_that_take_no_audio(tmp_path: Path) -> None:
    for shape, dtype in (((1, 80, 300), np.float32), ((1, 8), np.int64), ((), np.float32)):
        with pytest.raises(InputError, match="takes no audio file"):
            audio.audio_input("a.wav", None, TensorSpec("x", shape, np.dtype(dtype)), NOTHING, print)


def test_audio_files_that_are_none(tmp_path: Path, monkeypatch: Any) -> None:
    path = saved(tmp_path / "m.onnx", ("n",))
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(InputError, match=r"fastgraph-runtime\[audio\]"):
        read([str(tmp_path / "a.wav")], path)
    monkeypatch.undo()
    pytest.importorskip("soundfile", reason="soundfile is not installed")
    (tmp_path / "a.wav").write_bytes(b"RIFF....WAVE")
    with pytest.raises(InputError, match="no audio file that can be read"):
        read([str(tmp_path / "a.wav")], path)
    with pytest.raises(FileNotFoundError, match="no such file"):
        read([str(tmp_path / "b.wav")], path)


@pytest.mark.parametrize("flags", [
    ["--mean", "1"], ["--std", "2"], ["--stored-pixels"], ["--layout", "NCHW"], ["--colors", "BGR"], ["--rate", "8000"],
    ["--mean", "1", "--std", "2"],
])  # fmt: skip
@pytest.mark.parametrize("command", ["run", "bench"])
@pytest.mark.parametrize("name", ["x.npy", "-"])
def test_options_that_nothing_takes(
    flags: list[str], command: str, name: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), np.float32))
    monkeypatch.chdir(tmp_path)
    pipe(monkeypatch, (tmp_path / "x.npy").read_bytes())
    assert main([command, str(MODEL), "--input", name, *flags]) == 2
    said = ", ".join(flag for flag in flags if flag.startswith("--"))
    what = "audio, as word.wav" if "--rate" in flags else "an image, as cat.jpg"
    assert f"{said}: for inputs that are fed {what}, found none of --input" in capsys.readouterr().err


def test_options_of_an_image_and_of_audio_differ(tmp_path: Path, picture: Path, capsys: Any) -> None:
    assert main(["run", str(MODEL), "--input", str(picture), "--rate", "8000"]) == 2
    assert "--rate: for inputs that are fed audio" in capsys.readouterr().err
    assert main(["run", str(MODEL), "--random", "--mean", "1"]) == 2
    assert "--mean: for inputs that are fed an image" in capsys.readouterr().err
    assert main(["run", str(MODEL), "--input", str(picture), "--mean", "1", "--repeat", "1"]) == 0
