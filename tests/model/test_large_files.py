"""Large files that are no models: refused by their first bytes, and what they hold is not read."""

from itertools import pairwise, product
from pathlib import Path
from typing import Any, BinaryIO
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import fastgraph as fg
from fastgraph.frontends.circle import load as circle
from fastgraph.frontends.core import files, protobuf
from fastgraph.frontends.mil import package
from fastgraph.frontends.onnx import convert
from fastgraph.frontends.onnx import load as onnx_load
from tests.circle.write import Model

SIZE = 3 << 30
LONG = b"\x9c\xff\xff\xff\x0b"  # 100 bytes less
HEADS = {
    "zeros": b"", "text": b"hello world\n" * 999, "html": b"<!DOCTYPE html>", "json": b'{"a": 1}',
    "bytes": bytes(range(256)),
    "zeros in a graph": b"\x08\x08\x3a" + LONG, "zeros in a program": b"\x08\x05\xb2\x1f" + LONG,
    "numbers": b"\x08\x01" * 5000, "a root at 0": b"\0\0\0\0TFL3",
    "an empty table": b"\x10\0\0\0TFL3\0\0\0\0\0\0\0\0\x08",
    "an archive": b"PK\x03\x04", "a length": b"\x08\x08\x3a\xff\xff\xff\xff\x7f",
}  # fmt: skip
SUFFIXES = (".onnx", ".tflite", ".circle", ".mlmodel", ".mlpackage", ".mil", "")


def sparse(path: Path, head: bytes) -> Path:
    """A file of SIZE bytes that begins so, whose zeros take no room on the disk."""
    with path.open("wb") as file:
        file.write(head)
        file.truncate(SIZE)
    return path


@pytest.fixture(autouse=True)
def nothing_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each part that is read of a message."""
    read: list[int] = []

    def refused(file: BinaryIO, offset: int, size: int, *others: Any, of: Any = files.part) -> Any:
        assert size < 1000, "the whole file is read"
        return of(file, offset, size, *others)

    def counted(source: Any, of: Any = protobuf.read_of) -> Any:
        part = of(source)
        return lambda at, count: read.append(count) or part(at, count)

    for module, name in ((onnx_load, "part"), (circle, "part"), (package, "part")):
        monkeypatch.setattr(module, name, refused)
    monkeypatch.setattr(package, "contents", None)
    monkeypatch.setattr(protobuf, "read_of", counted)
    return read


@pytest.mark.parametrize("head, suffix", list(product(HEADS, SUFFIXES)))
def test_refused_by_the_first_bytes(head: str, suffix: str, tmp_path: Path, nothing_is_read_whole: list[int]) -> None:
    path = sparse(tmp_path / f"model{suffix}", HEADS[head])
    with pytest.raises(fg.ModelError, match="model"):
        fg.load(path)
    assert sum(nothing_is_read_whole) < 50_000


def test_a_model_within_a_package(tmp_path: Path) -> None:
    folder = tmp_path / "m.mlpackage"
    (folder / "Data").mkdir(parents=True)
    (folder / "Manifest.json").write_text(
        '{"fileFormatVersion": "1.0.0", "itemInfoEntries": {"a": {"path": "m.mlmodel"}}, "rootModelIdentifier": "a"}'
    )
    sparse(folder / "Data" / "m.mlmodel", b"")
    with pytest.raises(fg.ModelError, match="m.mlmodel: not a Core ML model"):
        fg.load(folder)


def test_bytes() -> None:
    with pytest.raises(fg.ModelError, match="byte 0 does, 0x00"):
        fg.load(bytes(1 << 24))


def test_more_fields_than_any_model_has() -> None:
    """They are counted before the parser makes an object of each."""
    nodes = b"\x0a\x00" * 3000
    source = b"\x08\x08\x3a" + bytes([len(nodes) & 127 | 128, len(nodes) >> 7]) + nodes
    with pytest.raises(fg.ModelError, match="more than 1000 fields.*Limits\\(nodes=10000"):
        fg.load(source, limits=fg.Limits(nodes=1000))


def calling(depth: int, times: int, leaf: int = 1) -> bytes:
    """A chain of functions, each of which calls the next several times; the last has a few nodes."""
    imports, functions = [helper.make_opsetid("", 18), helper.make_opsetid("d", 1)], []
    for i in range(depth):
        names = ["a", *(f"t{k}" for k in range((leaf if i == depth - 1 else times) - 1)), "b"]
        op, domain = ("Relu", "") if i == depth - 1 else (f"F{i + 1}", "d")
        nodes = [helper.make_node(op, [x], [y], domain=domain) for x, y in pairwise(names)]
        functions.append(helper.make_function("d", f"F{i}", ["a"], ["b"], nodes, imports))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("F0", ["x"], ["y"], domain="d")], "g", [x], [y])
    model = helper.make_model(graph, functions=functions, opset_imports=imports, ir_version=10)
    return model.SerializeToString()


@pytest.mark.parametrize("depth, times", [(40, 2), (17, 2), (64, 9), (5, 200), (3, 1000), (2000, 2)])
def test_towers_of_functions(depth: int, times: int) -> None:
    """They are counted before the first node is made."""
    with patch.object(convert, "_node", side_effect=AssertionError("a node is made")):
        with pytest.raises(fg.ModelError, match=r"once each use .*copy.*Limits\(nodes=\d+\)"):
            fg.load(calling(depth, times))


@pytest.mark.slow
def test_functions_that_are_called_often() -> None:
    """Thousands of nodes from a file that repeats itself as exporters do; more where the caller says so."""
    assert fg.load(calling(3, 12, 20), threads=1)(np.array([-1, 2], np.float32)).tolist() == [0, 2]
    source = calling(9, 2, 30)
    with pytest.raises(fg.ModelError, match="the limit is"):
        fg.load(source, limits=fg.Limits(nodes=20_000))
    assert fg.load(source, threads=1, limits=fg.Limits(nodes=900_000))(np.array([-1, 2], np.float32)).tolist() == [0, 2]


@pytest.mark.parametrize("op", ["WHILE", "IF", "CALL"])
def test_towers_of_sub_graphs(op: str) -> None:
    m = Model()
    for i in range(40):
        if i:
            m.graph()
        x = m.input((), bool if op != "CALL" else np.float32)
        for _ in range(2):
            fields = {
                "WHILE": {"cond_subgraph_index": i + 1, "body_subgraph_index": i + 1},
                "IF": {"then_subgraph_index": i + 1, "else_subgraph_index": i + 1},
                "CALL": {"subgraph": i + 1},
            }[op]
            if i == 39:
                continue
            ins = [x, x] if op == "IF" else [x]
            (x,) = m.op(op, ins, [((), bool) if op != "CALL" else ()], **fields)
        m.now["outputs"] = [x]
    with pytest.raises(fg.ModelError, match=r"once each use .* has its own copy"):
        fg.load(m.bytes(), limits=fg.Limits(nodes=50_000))


def referring(depth: int) -> bytes:
    """Functions that take a graph, and give the next one a graph that has it twice."""
    imports, functions = [helper.make_opsetid("", 18), helper.make_opsetid("d", 1)], []
    for i in range(depth):
        twice = helper.make_node("If", ["c"], ["y"])
        for branch in ("then_branch", "else_branch"):
            twice.attribute.add(name=branch, type=onnx.AttributeProto.GRAPH, ref_attr_name="g")
        info = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        inner = helper.make_graph([twice], "inner", [], [info])
        nodes = [twice if i == depth - 1 else helper.make_node(f"F{i + 1}", ["c"], ["y"], domain="d", g=inner)]
        functions.append(helper.make_function("d", f"F{i}", ["c"], ["y"], nodes, imports, attributes=["g"]))
    infos = [helper.make_tensor_value_info(n, t, [2][: n != "c"]) for n, t in (("c", 9), ("x", 1), ("y", 1))]
    first = helper.make_graph([helper.make_node("Relu", ["x"], ["z"])], "first", [], [onnx.ValueInfoProto(name="z")])
    graph = helper.make_graph([helper.make_node("F0", ["c"], ["y"], domain="d", g=first)], "g", infos[:2], infos[2:])
    model = helper.make_model(graph, functions=functions, opset_imports=imports, ir_version=10)
    return model.SerializeToString()


def test_graphs_that_functions_hand_on() -> None:
    """What they become can't be told before; some thousand copies are made."""
    made = convert._graph
    with (
        patch.object(convert, "_graph", side_effect=made) as copies,
        pytest.raises(fg.ModelError, match="once each use"),
    ):
        fg.load(referring(16))
    assert copies.call_count < 5000
    relu = fg.load(referring(3), threads=1)
    assert relu(np.array(True), np.array([-1, 2], np.float32)).tolist() == [0, 2]
