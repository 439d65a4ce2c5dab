"""What is found where a model's file should be: only regular files are read, and nothing waits for them."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import fastgraph as fg
from fastgraph.frontends import kind_of
from fastgraph.frontends.circle import load as circle_load
from fastgraph.frontends.core import files, guard
from fastgraph.frontends.onnx import load as onnx_load
from fastgraph.ir import Graph
from tests.nets import F32, Net

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in the file system")


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        try:
            os.chdir(path.parent)  # names of sockets are short
            server.bind(path.name)
        finally:
            os.chdir(here)


STRANGE: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a socket": listening,
    "a folder": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a terminal": lambda path: path.symlink_to("/dev/tty"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to nothing": lambda path: path.symlink_to(path.parent / "nothing"),
}


@pytest.mark.parametrize("suffix", [".onnx", ".tflite", ".circle", ".mlmodel", ".mlpackage", ".zip", ""])
@pytest.mark.parametrize("kind", STRANGE)
def test_as_the_model(kind: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}"
    STRANGE[kind](path)
    with pytest.raises((fg.ModelError, OSError), match="expected|[Nn]o such|symbolic links|not configured"):
        fg.load(path)


def external() -> bytes:
    """y = x + w, with w in another file called w.bin."""
    net = Net()
    net.output(net("Add", net.input("x", (16,)), np.arange(16, dtype=F32)))
    model = net.model()
    onnx.external_data_helper.convert_model_to_external_data(model, location="w.bin", size_threshold=0)
    for tensor in model.graph.initializer:
        tensor.ClearField("raw_data")
    return model.SerializeToString()


@pytest.mark.parametrize("kind", STRANGE)
def test_as_external_data(kind: str, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(external())
    STRANGE[kind](tmp_path / "w.bin")
    with pytest.raises(fg.ModelError, match="'c0'"):
        fg.load(tmp_path / "m.onnx")


def test_external_data_that_another_program_cuts_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.onnx").write_bytes(external())
    (tmp_path / "w.bin").write_bytes(bytes(40))
    with pytest.raises(fg.ModelError, match="expected 64 bytes at offset 0 of 'w.bin', which has only 40"):
        fg.load(tmp_path / "m.onnx")
    monkeypatch.setattr("fastgraph.frontends.onnx.tensors.size_of", lambda file: 64)
    with pytest.raises(fg.ModelError, match="expected 64 bytes at 0, found 40: another program changes it"):
        fg.load(tmp_path / "m.onnx")


def test_nothing_hangs_on_external_data_once_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(external())
    (tmp_path / "w.bin").write_bytes(np.arange(16, dtype=F32).tobytes())
    model = fg.load(tmp_path / "m.onnx")
    os.truncate(tmp_path / "w.bin", 0)
    assert model(np.ones(16, F32)).tolist() == list(range(1, 17))


def test_one_range_of_a_file_is_not_read_without_end(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(1 << 20))
    net = Net()
    x = net.input("x", (1 << 18,))
    for _ in range(200):
        x = net("Add", x, np.zeros(1, F32))
    net.output(x)
    model = net.model()
    onnx.external_data_helper.convert_model_to_external_data(model, location="w.bin", size_threshold=0)
    for tensor in model.graph.initializer:
        tensor.ClearField("raw_data")
        tensor.dims[:] = [1 << 18]
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(fg.ModelError, match=r"initializer 'c\d+': constants of \d+ bytes are made of a file"):
        fg.load(tmp_path / "m.onnx", limits=fg.Limits(constants=0))


def test_what_is_opened_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A regular file that becomes a pipe between the look and the opening."""
    (tmp_path / "file").write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    regular = os.stat(tmp_path / "file")
    monkeypatch.setattr(files.os, "stat", lambda path: regular)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with pytest.raises(fg.ModelError, match="expected a regular file, found a pipe"):
        files.opened(tmp_path / "pipe")
    assert not before or len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("name", ["m.onnx", "m.tflite"])
def test_a_file_that_shrinks_while_it_is_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"\x10\0\0\0TFL3\x04\0\x08\0\0\0\0\0\x08\0\0\0" if name.endswith("tflite") else b"\x08\x08\x12\x00"
    (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(onnx_load, "size_of", lambda file: 99)
    monkeypatch.setattr(circle_load, "size_of", lambda file: 99)
    with pytest.raises(fg.ModelError, match="expected 99 bytes at 0, found .*: another program changes it"):
        fg.load(tmp_path / name)


def test_a_file_larger_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(tmp_path / "m.onnx", "wb") as file:
        file.write(b"\x08\x08\x3a\x80\x80\x80\x80\x80\x01" + b"\x0a\0" * 9)
        file.truncate((1 << 35) + 9)  # of which the disk stores nothing
    with pytest.raises(fg.ModelError, match=r"m\.onnx: not an ONNX model, or cut short"):  # it is mapped, and not read
        fg.load(tmp_path / "m.onnx")


@pytest.mark.parametrize("error", [KeyError("k"), OverflowError("o"), UnicodeError("u"), RuntimeError("r")])
def test_what_no_reader_expects_is_a_model_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Graph:
        raise error

    with pytest.raises(fg.ModelError, match=f"m.onnx: .*{type(error).__name__}") as caught:
        guard.guarded(broken, "m.onnx", "")
    assert caught.value.__cause__ is error


def test_messages_of_many_small_fields_are_told_at_once() -> None:
    assert kind_of(b"\x08\x01" * (1 << 20)) == "onnx"
