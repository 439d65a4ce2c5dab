"""Files that are no saved programs any more: an error that says so, or the results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

import fastgraph as fg
from fastgraph.demo import MODEL
from fastgraph.saved import container
from tests.nets import feeds_for
from tests.saved.common import same
from tests.saved.damage import damaged, edited, programs, tried


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "net.fgm"
    fg.load(MODEL, threads=1).save(path)
    return path.read_bytes()


@pytest.mark.parametrize("part", range(10))
def test_damage(part: int) -> None:
    """The first files of the campaign; it goes on with python -m tests.saved.damage 0 20000."""
    for number in range(40 * part, 40 * part + 40):
        tried(damaged(number))


def test_whole_ones_run() -> None:
    assert [tried(data) for data in programs()] == ["ran"] * len(programs())


def test_damage_is_found(whole: bytes, tmp_path: Path) -> None:
    """Any byte of the directory, tables, code and graph; those of weights only when asked."""
    path = tmp_path / "net.fgm"
    path.write_bytes(whole)
    with open(path, "rb") as file:
        found = container.opened(file.fileno(), "net.fgm")
    begin = found._start
    for name, (at, size, _) in found.sections.items():
        for where in (begin + at, begin + at + size // 2, begin + at + size - 1):
            data = bytearray(whole)
            data[where] ^= 16
            if name == "weights":
                assert tried(bytes(data)) == "ran"
            elif name == "graph":
                with pytest.raises(fg.ModelError, match="its section 'graph' is not what was written: copy it again"):
                    _ = fg.load(bytes(data), threads=1, trusted=True).graph
            else:
                assert tried(bytes(data)) == "ModelError", name


@pytest.mark.parametrize("cut", [0, 7, 8, 19, 20, 100, 4095, 4096, 5000, -1, -100, -129])
def test_cut_short(whole: bytes, cut: int, tmp_path: Path) -> None:
    path = tmp_path / "net.fgm"
    path.write_bytes(whole[:cut])
    with pytest.raises(fg.ModelError, match=r"net\.fgm"):
        fg.load(path)


def test_another_format(whole: bytes) -> None:
    with patch.object(container, "FORMAT", 2), pytest.raises(fg.ModelError, match="format 1, written by fastgraph"):
        fg.load(whole, trusted=True)


def test_other_records(whole: bytes) -> None:
    from fastgraph.runtime import stored

    with (
        patch.object(stored, "layout", lambda: ["other"]),
        pytest.raises(fg.ModelError, match="save it again with this"),
    ):
        fg.load(whole, trusted=True)


@pytest.mark.parametrize(
    "data", [b"\x93FGM\r\n\x1a\n", b"\x93FGM\n\x1a\n" + bytes(5000), b"\x93FGM\r\n\x1a\n" + bytes(99)]
)
def test_foreign_files(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.fgm"
    path.write_bytes(data)
    with pytest.raises(fg.ModelError, match=r"net\.fgm"):
        fg.load(path)


# -- who has written it


def test_bytes_have_no_owner(whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(fg.InputError, match="machine code, which is not run.*trusted=True"):
        fg.load(whole)
    assert fg.load(whole, trusted=True).arena_bytes
    monkeypatch.setenv("FASTGRAPH_TRUST", "1")
    assert fg.load(whole).arena_bytes
    with pytest.raises(fg.InputError, match="trusted=False"):
        fg.load(whole, trusted=False)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no such owners here")
@pytest.mark.parametrize("change, said", [
    (lambda path: os.chmod(path, 0o666), "other users can write to"),
    (lambda path: os.chmod(path, 0o664), "other users can write to"),
    (lambda path: os.chmod(path.parent, 0o777), "other users can write in"),
    (lambda path: os.chown(path, 12345, -1), "belongs to another user"),
])  # fmt: skip
def test_files_that_others_can_write(whole: bytes, change: object, said: str, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "net.fgm"
    path.parent.mkdir()
    path.write_bytes(whole)
    os.chmod(path, 0o644)
    assert fg.load(path).arena_bytes
    try:
        change(path)  # type: ignore[operator]
    except PermissionError:
        pytest.skip("only root gives files away")
    with pytest.raises(fg.InputError, match=said):
        fg.load(path)
    assert fg.load(path, trusted=True).arena_bytes


def test_links_are_followed(whole: bytes, tmp_path: Path) -> None:
    (tmp_path / "real.fgm").write_bytes(whole)
    os.chmod(tmp_path / "real.fgm", 0o644)
    (tmp_path / "net.fgm").symlink_to("real.fgm")
    assert fg.load(tmp_path / "net.fgm").arena_bytes
    os.chmod(tmp_path / "real.fgm", 0o666)
    with pytest.raises(fg.InputError, match="other users"):
        fg.load(tmp_path / "net.fgm")


def test_a_folder_and_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "net.fgm").mkdir()
    for path in (tmp_path / "net.fgm", tmp_path / "none.fgm"):
        with pytest.raises(fg.FastgraphError, match=path.name):
            fg.load(path)


# -- memory


def test_no_page_is_written_and_executed(whole: bytes, tmp_path: Path) -> None:
    """In a process that has nothing else: compilers and callbacks of others have such pages."""
    path = tmp_path / "net.fgm"
    path.write_bytes(whole)
    code = """
import sys, numpy as np, fastgraph as fg
fg.load(sys.argv[1], threads=2, trusted=True)(np.ones((1, 1, 8, 8), np.float32))
print([line for line in open("/proc/self/maps") if "wx" in line.split()[1]])
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "FASTGRAPH_CHECK": "0"}
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, env=env)
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_a_file_that_is_replaced(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.fgm"
    path.write_bytes(whole)
    os.chmod(path, 0o644)
    model, found = fg.load(MODEL, threads=1), fg.load(path, threads=1)
    (tmp_path / "other").write_bytes(programs()[1])
    os.replace(tmp_path / "other", path)
    same(model, found, [feeds_for(model)])
    path.unlink()
    same(model, found, [feeds_for(model)])


def test_weights_are_in_memory_once(tmp_path: Path) -> None:
    """Of two processes: what they map of the file is shared, and clean."""
    from tests.nets import Net

    net = Net()
    net.output(net("MatMul", net.input("x", (1, 1000)), net.weight(1000, 2000)))
    path = tmp_path / "net.fgm"
    net.load(threads=1).save(path, graph=False)
    code = """
import sys, numpy as np, fastgraph as fg
model = fg.load(sys.argv[1], threads=1)
model(np.ones((1, 1000), np.float32))
print("ready", flush=True)
sys.stdin.readline()
lines = open("/proc/self/smaps").read().split("\\n")
at = next(i for i, line in enumerate(lines) if line.endswith("net.fgm"))
print([line for line in lines[at : at + 25] if line.startswith(("Rss", "Pss:", "Private_Dirty"))], flush=True)
sys.stdin.readline()
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": env}
    started = [subprocess.Popen([sys.executable, "-c", code, str(path)], **pipes) for _ in range(2)]  # type: ignore
    try:
        for each in started:
            assert each.stdout.readline() == "ready\n"
        for each in started:
            each.stdin.write("\n")
            each.stdin.flush()
            found = dict((line.split()[0], int(line.split()[1])) for line in eval(each.stdout.readline()))
            assert found["Rss:"] > 7000 and found["Private_Dirty:"] == 0
            assert found["Pss:"] < 0.6 * found["Rss:"]
    finally:
        for each in started:
            each.kill()
            each.wait()


def test_records_are_verified_when_asked(whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan whose buffers are too small for its steps, with all checksums right."""
    import random

    def halve(directory: dict, rng: object) -> None:
        directory["plans"][0]["flat"]["buffers"] = directory["plans"][0]["flat"]["tables"]

    monkeypatch.setattr("tests.saved.damage._change", halve)
    monkeypatch.setenv("FASTGRAPH_CHECK", "1")
    with pytest.raises(fg.ModelError, match="damaged"):
        fg.load(edited(whole, random.Random(0)), threads=1, trusted=True)
