"""Files that are damaged, foreign, or of other versions: each says what it is, and what to do."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.saved.container import FORMAT, MAGIC
from tests.fuzzing import portion
from tests.nets import Net
from tests.saved.damage import weighted
from tests.saved.files import HEAD, Parts, signed


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("damage") / "m.fgm"
    fg.load(weighted(), threads=1).save(path)
    return path.read_bytes()


X = np.linspace(-1, 1, 3 * 256, dtype=np.float32).reshape(3, 256)


def load(data: bytes) -> fg.Model:
    return fg.load(data, threads=1, trusted=True)


def refused(data: bytes, match: str) -> None:
    with pytest.raises(fg.ModelError, match=match):
        load(data)(X)


def test_cut_anywhere(data: bytes) -> None:
    parts, rng = Parts(data), np.random.default_rng(0)
    ends = [parts.start + at + d for at, n, _ in parts.directory["sections"].values() for d in (0, n)]
    ends += [8, 9, HEAD.size - 1, HEAD.size, HEAD.size + 1, parts.start, len(data) - 1, *rng.integers(8, len(data), 20)]
    for end in ends:
        refused(data[:end], "damaged.*(copy it|save it) again")


def test_a_byte_of_each_part(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the checksum of that part, when it is read: all but weights, and what fills up between sections."""
    monkeypatch.setenv("FASTGRAPH_CHECK", "0")
    parts, rng, wanted = Parts(data), np.random.default_rng(1), load(data)(X)
    spans = {name: (parts.start + at, n) for name, (at, n, _) in parts.directory["sections"].items()}
    spans |= {"head": (8, HEAD.size - 8), "directory": (HEAD.size, len(json.dumps(parts.directory)) // 2)}
    for name, (at, n) in spans.items():
        for place in (at, at + n - 1, *(at + rng.integers(0, n, 12))):
            changed = bytearray(data)
            changed[place] ^= 1 << int(rng.integers(8))
            if name == "weights":
                assert load(bytes(changed))(X).shape == wanted.shape
            elif name == "graph":
                np.testing.assert_array_equal(load(bytes(changed))(X), wanted)
                with pytest.raises(fg.ModelError, match="damaged"):
                    str(load(bytes(changed)).graph)
            else:
                refused(bytes(changed), "damaged")
    filled = bytearray(data)
    filled[parts.start - 1] ^= 1
    np.testing.assert_array_equal(load(bytes(filled))(X), wanted)


def test_sections_that_change_places(data: bytes) -> None:
    parts = Parts(data)
    places = parts.directory["sections"]
    for one, other in (("tables", "interface"), ("graph", "interface"), ("code/executor", "tables")):
        swapped = {**places, one: [*places[other][:2], places[one][2]], other: [*places[one][:2], places[other][2]]}
        refused(signed({**parts.directory, "sections": swapped}, data[parts.start :]), "damaged")


@pytest.mark.parametrize("content", [b"", b"\0", b"hello", b"\x7fELF", b"PK\3\4", os.urandom(5000), MAGIC[:7]])
def test_foreign_files_of_that_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.fgm"
    path.write_bytes(content)
    with pytest.raises(fg.ModelError):
        fg.load(path)
    path.write_bytes(MAGIC + content)
    with pytest.raises(fg.ModelError, match="damaged"):
        fg.load(path)


def test_models_of_other_formats_are_read_whatever_their_name(tmp_path: Path) -> None:
    path = tmp_path / "m.fgm"
    path.write_bytes(weighted())
    model = fg.load(path, threads=1)
    model.save(tmp_path / "program.fgm")
    (tmp_path / "program.fgm").rename(tmp_path / "m.onnx")
    np.testing.assert_array_equal(fg.load(tmp_path / "m.onnx", threads=1)(X), model(X))


def test_other_formats_and_versions(data: bytes) -> None:
    parts = Parts(data)
    directory, body = parts.directory, data[parts.start :]
    newer = {**directory, "format": FORMAT + 1, "fastgraph": "9.1"}
    refused(signed(newer, body), rf"format {FORMAT + 1}, written by fastgraph 9.1; .* reads format {FORMAT}: save it")
    for form in (0, -1, "1", None, True, [1], 1.0):
        refused(signed({**directory, "format": form}, body), "format")
    older = {**directory, "layout": directory["layout"][:-1], "fastgraph": "0.0.1"}
    refused(signed(older, body), r"saved by fastgraph 0.0.1, .* can't call: save it again with this one, or install")
    newer = {**directory, "fastgraph": "9.1", "more": [1]}
    np.testing.assert_array_equal(load(signed(newer, body))(X), load(data)(X))


def test_kernels_of_other_sources_are_not_mixed_with_new_ones(data: bytes, tmp_path: Path) -> None:
    """A plan made now may want more of a kernel of that name than the file's has."""
    net = Net()
    net.output(net("Relu", net("MatMul", net.input("x", ("n", 8)), net.weight(8, 6))))
    path = tmp_path / "m.fgm"
    net.load().save(path, shapes=[{"x": (2, 8)}])
    parts = Parts(path.read_bytes())
    for sources, known in ((parts.directory["sources"], True), ("other", False)):
        model = load(signed({**parts.directory, "sources": sources}, path.read_bytes()[parts.start :]))
        assert bool(model._stored.kernels()) == known  # type: ignore[union-attr]
        for n in (2, 3):
            np.testing.assert_array_equal(model(X[:n, :8]), net.load()(X[:n, :8]))


WRONG: tuple[Any, ...] = (None, -1, 1 << 70, 1.5, "x", [], {}, [[]], True, float("inf"))


def test_every_entry_of_the_directory_with_other_values(data: bytes) -> None:
    """Gone, or of another type, with a checksum that is right: an error of ours, or what is not asked."""
    parts = Parts(data)
    body, wanted = data[parts.start :], load(data)(X)

    def tried(directory: dict[str, Any]) -> None:
        try:
            found = load(signed(directory, body))(X)
        except fg.FastgraphError:
            return
        np.testing.assert_array_equal(found, wanted)

    def holders(item: Any) -> Any:
        for key in list(item) if isinstance(item, dict) else range(len(item)):
            yield item, key
            if isinstance(item[key], dict | list) and item is not directory["arrays"]:
                yield from holders(item[key])

    directory = json.loads(json.dumps(parts.directory))
    for number, (holder, key) in enumerate(list(holders(directory))):
        held = holder[key]
        for wrong in (WRONG[number % len(WRONG)], WRONG[(number + 3) % len(WRONG)]):
            holder[key] = wrong
            tried(directory)
        holder[key] = held
        if isinstance(holder, dict):
            del holder[key]
            tried(directory)
            holder[key] = held
    assert directory == parts.directory


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and processor time are set as Linux has them")
def test_damaged_files() -> None:
    """Some of what `python -m tests.saved.damage campaign` tries."""
    results, wrong = portion("tests.saved.damage", 0, 400)
    assert not wrong, [f"{each['wrong']}\n    python -m tests.saved.damage {each['input']} 1" for each in wrong]
    assert min(results[what] for what in ("refused", "refused by checks", "ran changed")) > 40, results
