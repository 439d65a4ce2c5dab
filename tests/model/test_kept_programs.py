"""Programs that are kept from load to load: the second load of a file plans nothing."""

import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import pytest

import fastgraph as fg
from fastgraph.demo import MODEL
from fastgraph.kernels.isa.tiers import usable
from fastgraph.ops import registry
from fastgraph.runtime import executable, kept
from fastgraph.saved.container import opened
from tests.nets import Net

IMAGE = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)


@pytest.fixture(autouse=True)
def no_custom_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """With any, which other tests of this process may have registered, no program is kept."""
    monkeypatch.setattr(registry, "USERS", {})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for programs; kernels stay where they are."""
    monkeypatch.setenv("FASTGRAPH_PLAN_CACHE", "1MB")
    monkeypatch.setenv("FASTGRAPH_CHECK", "0")
    monkeypatch.setattr(kept, "cache_directory", lambda: str(tmp_path))
    return tmp_path / "plans"


def never(*_: Any) -> Any:
    raise AssertionError("planned again")


def same(model: fg.Model, other: fg.Model) -> None:
    left, right = model.run({"image": IMAGE}), other.run({"image": IMAGE})
    assert left["probabilities"].tobytes() == right["probabilities"].tobytes()
    assert model.outputs == other.outputs and model.inputs == other.inputs


def test_a_second_load_plans_nothing(cache: Path) -> None:
    first = fg.load(MODEL)
    assert len(list(cache.glob("*.fgm"))) == 1
    with patch.object(executable, "make_plan", never):
        second = fg.load(MODEL)
        same(first, second)
    assert str(second.graph) == str(first.graph) and str(second) == str(first), "they are made when they are asked for"


@pytest.mark.parametrize("options", [{"threads": 2}, {"isa": "generic"}, {"limits": fg.Limits(nodes=10**5)}])
def test_other_options_are_other_programs(cache: Path, options: dict[str, Any]) -> None:
    first = fg.load(MODEL, threads=1)
    other = fg.load(MODEL, **{"threads": 1} | options)
    assert len(list(cache.glob("*.fgm"))) == 2 and (other.threads, other.tier.name) == (
        options.get("threads", 1), options.get("isa", first.tier.name)
    )  # fmt: skip


def test_a_plan_whose_results_have_extents_that_a_run_finds_is_kept(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", (6, 4))
    some = net("Greater", net("ReduceMax", x, axes=[1], keepdims=0), net.const(np.zeros(1, np.float32)))
    net.output(net("Compress", x, some, axis=0))
    path = tmp_path / "net.onnx"
    path.write_bytes(net.bytes())
    first = fg.load(path)
    with patch.object(executable, "make_plan", never):
        second = fg.load(path)
        for count in (2, 0, 6):
            rows = np.ones((6, 4), np.float32)
            rows[count:] = -1
            assert second(rows).tolist() == rows[:count].tolist() == first(rows).tolist()
    assert first.outputs == second.outputs


def test_another_content_is_another_program(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(MODEL.read_bytes())
    fg.load(path)
    path.write_bytes(MODEL.read_bytes() + b"\x72\x00")  # metadata: one entry without a key
    fg.load(path)
    assert len(list(cache.glob("*.fgm"))) == 2


def test_a_file_that_is_gone_is_needed_to_look_at_the_graph(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(MODEL.read_bytes())
    first = fg.load(path)
    model = fg.load(path)
    path.unlink()
    same(first, model)
    with pytest.raises(fg.FastgraphError, match=r"net\.onnx.*has changed since the model was loaded"):
        str(model.plan)
    assert "arena" in str(model)


def test_a_file_that_is_gone_is_not_needed_for_other_shapes(tmp_path: Path) -> None:
    net = Net()
    net.output(net("MatMul", net.input("x", ("n", 4)), net.weight(4, 3)))
    path = tmp_path / "net.onnx"
    path.write_bytes(net.bytes())
    first = fg.load(path, threads=1)
    x = np.ones((3, 4), np.float32)
    expected = first(x)
    model = fg.load(path, threads=1)
    assert model.inputs == first.inputs and not model.planned
    path.unlink()
    with patch.object(executable, "make_plan", never):
        assert model(x).tobytes() == expected.tobytes()
    assert model(x[:2]).tobytes() == expected[:2].tobytes()
    assert "matmul" in str(model.graph) or "dense" in str(model.graph)


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: data[:8] + b"x" + data[9:], lambda data: b""])
def test_a_damaged_program_is_made_again(cache: Path, damage: Any) -> None:
    first = fg.load(MODEL)
    (place,) = cache.glob("*.fgm")
    whole = place.read_bytes()
    place.write_bytes(damage(whole))
    same(first, fg.load(MODEL))
    assert place.read_bytes() == whole


@pytest.mark.parametrize("section", ["weights", "tables", "interface", "code/executor", "directory"])
def test_a_program_of_a_changed_bit_is_made_again(cache: Path, tmp_path: Path, section: str) -> None:
    net, path = Net(), tmp_path / "net.onnx"
    net.output(net("MatMul", net.input("x", (3, 256)), net.weight(256, 100)))
    path.write_bytes(net.bytes())
    x = np.ones((3, 256), np.float32)
    expected = fg.load(path)(x).tobytes()
    (place,) = cache.glob("*.fgm")
    whole = place.read_bytes()
    with place.open("rb") as file:
        program = opened(file.fileno(), "net")
    at, size, _ = program.sections.get(section, (0, 0, 0))
    assert size or section == "directory"
    for bit in range(0, 8 * size, max(2 * size, 1)) or [-8 * (program._start - 40)]:
        spoilt = bytearray(whole)
        spoilt[program._start + at + bit // 8] ^= 1 << bit % 8
        place.write_bytes(spoilt)
        assert fg.load(path)(x).tobytes() == expected and place.read_bytes() == whole


def test_a_program_that_others_can_write_is_not_run(cache: Path) -> None:
    fg.load(MODEL)
    (place,) = cache.glob("*.fgm")
    os.chmod(place, 0o666)
    with patch.object(kept, "opened", never):
        fg.load(MODEL)


@pytest.mark.parametrize(("value", "kept"), [("0", False), ("0GiB", False), ("", True), ("1e9 B", None), ("-1", None)])
def test_how_much_is_kept(cache: Path, monkeypatch: pytest.MonkeyPatch, value: str, kept: bool | None) -> None:
    monkeypatch.setenv("FASTGRAPH_PLAN_CACHE", value)
    if kept is None:
        with pytest.raises(fg.InputError, match=f"FASTGRAPH_PLAN_CACHE={value!r}: expected .* 512MB"):
            fg.load(MODEL)
    else:
        fg.load(MODEL)
    assert cache.exists() == bool(kept)


def test_bytes_are_not_kept(cache: Path) -> None:
    fg.load(MODEL.read_bytes())
    assert not cache.exists()


def test_those_used_last_stay(cache: Path) -> None:
    for count in range(1, 8):
        fg.load(MODEL, threads=count)
        fg.load(MODEL, threads=1)
        assert sum(path.stat().st_size for path in cache.iterdir()) <= 10**6
    with patch.object(executable, "make_plan", never):
        fg.load(MODEL, threads=1)
    with pytest.raises(AssertionError, match="planned again"), patch.object(executable, "make_plan", never):
        fg.load(MODEL, threads=2)


def test_a_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setattr(kept, "cache_directory", lambda: str(tmp_path / "file"))
    same(fg.load(MODEL), fg.load(MODEL))


def test_custom_operators_keep_nothing(cache: Path) -> None:
    from fastgraph.ops import registry

    with patch.object(registry, "USERS", {("my", "Op"): None}):
        fg.load(MODEL)
    assert not cache.exists()


def test_a_cache_that_is_read_only_is_used(cache: Path) -> None:
    fg.load(MODEL)
    with patch("os.utime", side_effect=PermissionError(30, "read-only")), patch.object(executable, "make_plan", never):
        fg.load(MODEL)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    """A pipe that nobody writes into, and a folder with one."""
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "pipe.onnx", tmp_path / "folder" / "pipe"):
        os.mkfifo(path)
    assert kept.place_of(str(tmp_path / "pipe.onnx"), usable()[-1], ()) is None
    assert kept.place_of(str(tmp_path / "folder"), usable()[-1], ()) is None
    (tmp_path / "folder" / "Manifest.json").write_text("{}")
    assert kept.place_of(str(tmp_path / "folder"), usable()[-1], ()) is None
    for path in ("pipe.onnx", "folder"):
        with pytest.raises(fg.FastgraphError, match=path):
            fg.load(tmp_path / path)


def test_any_folder_is_not_walked(tmp_path: Path) -> None:
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    with patch("os.walk", side_effect=never), pytest.raises(fg.FastgraphError, match="folder"):
        fg.load(tmp_path / "folder")


def test_a_package(tmp_path: Path) -> None:
    """Each of its files counts."""
    folder = tmp_path / "net.mlpackage"
    (folder / "Data").mkdir(parents=True)
    (folder / "Manifest.json").write_text("{}")
    (folder / "Data" / "weights").write_bytes(b"1")
    first = kept.place_of(str(folder), usable()[-1], ())
    assert first is not None and kept.place_of(str(folder), usable()[-1], ()) == first
    (folder / "Data" / "weights").write_bytes(b"2")
    assert kept.place_of(str(folder), usable()[-1], ()) != first


def test_data_in_other_files_may_change(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    found = []
    for weight in (1.0, 2.0):
        net = Net()
        net.output(net("MatMul", net.input("x", (1, 4)), np.full((4, 4), weight)))
        (tmp_path / "net.data").unlink(missing_ok=True)
        onnx.save(net.model(), path, save_as_external_data=True, size_threshold=0, location="net.data")
        found.append([fg.load(path)(np.ones((1, 4), np.float32))[0, 0] for _ in range(2)])
    assert found == [[4.0, 4.0], [8.0, 8.0]]
