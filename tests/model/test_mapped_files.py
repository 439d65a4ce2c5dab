"""Large files: mapped, with the results of those that are read; refused at once when they are something else."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

import fastgraph as fg
from fastgraph.frontends.core import files
from tests.nets import Net, feeds_for

GIB = 1 << 30


@pytest.fixture
def all_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGE", 0)
    monkeypatch.setattr(files, "MAPPED", 0)


def net() -> Net:
    made = Net()
    x = made.input("x", (1, 3, 9, 9))
    made.output(made("Relu", made("Conv", x, made.weight(8, 3, 3, 3), np.arange(8.0))))
    return made


@pytest.mark.parametrize("external", [False, True])
def test_mapped_equals_read(external: bool, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(net().model(), path, save_as_external_data=external, size_threshold=0, location="net.data")
    model = fg.load(path, threads=1)
    feeds = feeds_for(model)
    expected = [y.tobytes() for y in model.run(feeds).values()]
    request.getfixturevalue("all_mapped")
    mapped = fg.load(path, threads=1)
    for file in tmp_path.iterdir():
        file.unlink()
    assert [y.tobytes() for y in mapped.run(feeds).values()] == expected and str(mapped) == str(model)


@pytest.mark.usefixtures("all_mapped")
@pytest.mark.parametrize("offset, size", [(0, 10), (5000, 3000), (4096, 1), (9999, 1)])
def test_parts(offset: int, size: int, tmp_path: Path) -> None:
    data = np.random.default_rng(0).integers(0, 256, 10_000).astype(np.uint8)
    (tmp_path / "file").write_bytes(data.tobytes())
    with open(tmp_path / "file", "rb") as file:
        found = files.part(file, offset, size, "file")
    assert found.tobytes() == data[offset : offset + size].tobytes() and not found.flags.writeable


@pytest.mark.usefixtures("all_mapped")
def test_a_part_behind_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    with open(tmp_path / "file", "rb") as file, pytest.raises(fg.ModelError, match="expected 50 bytes at 60, found 40"):
        files.part(file, 60, 50, "file")


@pytest.mark.parametrize("name", ["net.onnx", "net.tflite", "net.circle", "net.mlmodel", "net.bin", "net.fgm"])
@pytest.mark.parametrize("head, said", [
    (b"", "net."), (b"version https://git-lfs.github.com/spec/v1\noid 0\n", "LFS"), (b"<!DOCTYPE html><html>", "HTML"),
])  # fmt: skip
def test_what_is_no_model_is_refused_unread(
    name: str, head: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 3 GB: they would not be read in the time of a test, nor fit in a part of its memory."""
    path = tmp_path / name
    path.write_bytes(head)
    os.truncate(path, 3 * GIB)
    read = 0
    monkeypatch.setattr(files, "need", lambda size: counted(size))

    def counted(size: int) -> None:
        nonlocal read
        read += size

    with pytest.raises(fg.ModelError, match=said) as caught:
        fg.load(path)
    assert name in str(caught.value) and read < 1 << 20
