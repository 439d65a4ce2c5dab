"""Files of other kinds are named, with the way from them to a model that is read."""

import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.demo import MODEL


def zipped(*names: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return made.getvalue()


def array() -> bytes:
    made = io.BytesIO()
    np.save(made, np.zeros(3))
    return made.getvalue()


HEADER = json.dumps({"weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
CASES = [
    ("a.gguf", b"GGUF\3\0\0\0" + bytes(99), "GGUF", "export"),
    ("a.safetensors", len(HEADER).to_bytes(8, "little") + HEADER + bytes(4), "safetensors", "optimum-cli"),
    ("a.pkl", pickle.dumps([1]), "pickle", "skl2onnx"),
    ("a.pt", zipped("a/data.pkl", "a/version"), "PyTorch", "torch.onnx.export"),
    ("a.pth", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + bytes(50), "PyTorch", "torch.onnx.export"),
    ("a.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF" + bytes(50), "image", "--input"),
    ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(50), "image", "--input"),
    ("a.bmp", b"BM" + bytes(50), "image", "--input"),
    ("a.npy", array(), "NumPy", "--input"),
    ("a.npz", zipped("x.npy"), "NumPy", "--input"),
    ("a.xml", b'<?xml version="1.0"?>\n<net name="a" version="11">', "OpenVINO", "ONNX"),
    ("a.xml", b'<?xml version="1.0"?>\n<note/>', "XML", ""),
    ("a.h5", b"\x89HDF\r\n\x1a\n" + bytes(50), "HDF5", "model.export"),
    ("a.keras", zipped("metadata.json", "config.json", "model.weights.h5"), "Keras", "model.export"),
    ("a.engine", b"ftrt" + bytes(50), "TensorRT", "ONNX"),
    ("a.param", b"7767517\n3 3\nInput x 0 1 x\n", "ncnn", "ONNX"),
    ("a.mnn", b"\x20\0\0\0" + bytes(50), "MNN", "ONNX"),
    ("a.litertlm", b"LITERTLM" + bytes(50), "LiteRT-LM", "tflite"),
    ("a.so", b"\x7fELF" + bytes(50), "compiled program", "network's file"),
    ("a.rknn", b"RKNN" + bytes(50), "other hardware", "ONNX"),
    ("a.bin", bytes(range(100)), "weights", ".param"),
    ("a.onnx.data", bytes(99), "weights", "own file"),
    ("a.tar", b"net.onnx" + bytes(500), "archive", "unpack"),
    ("a.pb", b"\x0a\x10\x0a\x01x\x12\x0bPlaceholder", "TensorFlow graph", "tf2onnx"),
    ("a.pb", b"\x08\x01\x12\x80\x90\x04\x0a" + b"\xff" * 50, "TensorFlow graph", "tf2onnx"),
    ("a.zip", zipped("net.onnx"), "zip", "net.onnx"),
    ("a.zip", zipped("saved_model.pb"), "SavedModel", "tf2onnx"),
    ("a.onnx", b"<!DOCTYPE html>\n<html>", "web page", "direct link"),
    ("a.tflite", b"\n<HTML><body>404", "web page", "direct link"),
    ("a.onnx", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS", "git lfs pull"),
    ("a.onnx", b"hello world\nhere is no model\n", "a text", "the model's file"),
    ("a.onnx", "hello".encode("utf-16"), "a text", "the model's file"),
    ("a.onnx", zipped("net.onnx"), "zip", "unpack"),
    ("a.mlmodel", b"\x89HDF\r\n\x1a\n" + bytes(50), "HDF5", "model.export"),
    ("a", b"GGUF\3\0\0\0" + bytes(99), "GGUF", "export"),
    ("a.json", b'{"format": "layers-model"}', "JSON", "ONNX"),
    ("a.tar.gz", b"\x1f\x8b\x08\0" + bytes(20), "archive", "unpack"),
]


@pytest.mark.parametrize(("name", "data", "what", "advice"), CASES, ids=lambda part: part if type(part) is str else "")
def test_a_file_of_another_kind_is_named(name: str, data: bytes, what: str, advice: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(fg.ModelError) as caught:
        fg.load(tmp_path / name)
    said = str(caught.value)
    assert said.startswith(str(tmp_path / name)) and what in said and advice in said


@pytest.mark.parametrize(("files", "what"), [
    (["saved_model.pb", "variables/variables.index"], "from_saved_model"), (["coremldata.bin"], "load the .mlpackage"),
    (["config.json", "model.safetensors"], "optimum-cli"), (["a.onnx", "b.npy"], "the path of the model.*a.onnx"),
])  # fmt: skip
def test_a_folder_of_another_kind_is_named(files: list[str], what: str, tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(fg.ModelError, match=what):
        fg.load(tmp_path)


def test_bytes_of_another_kind_are_named() -> None:
    with pytest.raises(fg.ModelError, match="PNG|image"):
        fg.load(b"\x89PNG\r\n\x1a\n" + bytes(50))


@pytest.mark.parametrize("name", ["net.pb", "net.bin", "net", "net.jpg"])
def test_a_model_is_read_whatever_it_is_called(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(MODEL.read_bytes())
    assert fg.load(tmp_path / name).inputs[0].name == "image"


def test_nothing_is_read_of_a_large_file_of_another_kind(tmp_path: Path) -> None:
    with (tmp_path / "large.gguf").open("wb") as file:
        file.write(b"GGUF")
        file.truncate(1 << 42)
    with pytest.raises(fg.ModelError, match="GGUF"):
        fg.load(tmp_path / "large.gguf")
