"""What commands feed models, and the floats of quantized edges."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastgraph.errors import InputError
from fastgraph.ir import Graph, Node, Quantization, TensorType, Value
from fastgraph.kernels.isa.tiers import choose
from fastgraph.runtime.model import Model
from fastgraph.tools import feeds
from fastgraph.tools.labels import read_labels, text, top_classes

INT8 = TensorType(np.dtype(np.int8), (2, 3), Quantization((0.5,), (-4,)))
ARRAY = np.array([[-128, 0, 127], [1, 2, 3]], np.int8)
REALS = (ARRAY.astype(np.float32) + 4) / 2


@pytest.fixture(scope="module")
def model() -> Model:
    """Two inputs as its outputs: quantized "a", and "b=c" float32[4]."""
    a, b = Value("a", INT8), Value("b=c", TensorType(np.dtype(np.float32), (4,)))
    return Model(Graph("edges", [a, b], [a, b]), choose(), 1)


@pytest.fixture(scope="module")
def only() -> Model:
    """y: int8 = x: int8, on other scales."""
    x, y = Value("x", INT8), Value("y", TensorType(np.dtype(np.int8), (2, 3), Quantization((1.0,), (0,))))
    return Model(Graph("only", [x], [y], [Node("requantize", [x], [y])]), choose(), 1)


def test_files_of_all_kinds(model: Model, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ARRAY)
    np.arange(4, dtype=np.float32).tofile(tmp_path / "b.bin")
    found = feeds.read_inputs([f"a={tmp_path}/a.npy", f"b=c={tmp_path}/b.bin"], model)
    np.testing.assert_array_equal(found["a"], ARRAY)
    np.testing.assert_array_equal(found["b=c"], np.arange(4, dtype=np.float32))
    np.savez(tmp_path / "all.npz", **found)
    again = feeds.read_inputs([f"{tmp_path}/all.npz"], model)
    assert list(again) == ["a", "b=c"] and again["a"].dtype == np.int8
    assert list(feeds.read_inputs([f"a={tmp_path}/all.npz"], model)) == ["a"]
    with pytest.raises(InputError, match="'a' was given already"):
        feeds.read_inputs([f"a={tmp_path}/a.npy"] * 2, model)


def test_the_only_input_needs_no_name(only: Model, tmp_path: Path) -> None:
    np.save(tmp_path / "a=b.npy", ARRAY)
    ARRAY.tofile(tmp_path / "x.raw")
    for file in ("a=b.npy", "x.raw"):
        np.testing.assert_array_equal(feeds.read_inputs([f"{tmp_path}/{file}"], only)["x"], ARRAY)


def test_floats_are_quantized_when_asked(only: Model, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", REALS + 0.1)
    REALS.tofile(tmp_path / "x.raw")
    for file in ("x.npy", "x.raw"):
        found = feeds.read_inputs([f"x={tmp_path}/{file}"], only, float_io=True)
        np.testing.assert_array_equal(found["x"], ARRAY)
    np.save(tmp_path / "large.npy", np.full((2, 3), 1e9))
    assert (feeds.read_inputs([f"{tmp_path}/large.npy"], only, float_io=True)["x"] == 127).all()
    with pytest.raises(InputError, match="--float-io"):
        feeds.read_inputs([f"x={tmp_path}/x.npy"], only)
    outputs = feeds.edge_out(only.run({"x": ARRAY}), only.outputs)
    assert outputs["y"].dtype == np.float32
    np.testing.assert_array_equal(outputs["y"], np.clip(np.rint(REALS), -128, 127))


def test_edges_that_are_not_quantized_stay(model: Model) -> None:
    outputs = feeds.edge_out({"a": ARRAY, "b=c": np.ones(4, np.float32), "c": [ARRAY]}, model.outputs)
    np.testing.assert_array_equal(outputs["a"], REALS)
    assert outputs["b=c"].sum() == 4 and outputs["c"] == [ARRAY]


@pytest.mark.parametrize(
    "given, said",
    [
        ("{}/short.raw", "write it as name=file; the inputs are a, b=c"),
        ("z={}/short.raw", "no input is called 'z'"),
        ("a={}/short.raw", "5 bytes, input 'a' takes 6 of int8"),
        ("a={}/no.npy", "no NumPy file"),
        ("a={}/no.npz", "no NumPy file"),
        ("a={}/odd.npz", "call it .npy"),
        ("a={}/b.npz", "has no array 'a'"),
        ("{}/objects.npz", "plain array"),
    ],
)
def test_files_that_do_not_fit(model: Model, tmp_path: Path, given: str, said: str) -> None:
    (tmp_path / "short.raw").write_bytes(b"12345")
    (tmp_path / "no.npy").write_bytes(b"no array")
    (tmp_path / "no.npz").write_bytes(b"PK\x03\x04 no archive")
    np.save(tmp_path / "odd.npy", ARRAY)
    (tmp_path / "odd.npy").rename(tmp_path / "odd.npz")
    np.savez(tmp_path / "b.npz", b=ARRAY)
    np.savez(tmp_path / "objects.npz", b=np.array([{}], object))
    with pytest.raises(InputError, match=said):
        feeds.read_inputs([given.format(tmp_path)], model)


def test_a_file_that_is_not_there(model: Model) -> None:
    for name in ("x.npy", "x.npz", "x.bin"):
        with pytest.raises(OSError):
            feeds.read_inputs([f"a=no/such/{name}"], model)


def test_random_integers_span_what_can_be_stored() -> None:
    kinds: dict[str, Any] = {"i": np.int8, "u": np.uint8, "h": np.int16, "n": np.int64, "t": np.bool_, "f": np.float32}
    inputs = [Value(k, TensorType(np.dtype(d), (4000,), INT8.quant if k == "h" else None)) for k, d in kinds.items()]
    found = feeds.random_feeds(Model(Graph("all", inputs, inputs), choose(), 1), {})
    spans = {name: (array.min(), array.max()) for name, array in found.items()}
    assert spans["i"] == (-128, 127) and spans["u"] == (0, 255) and spans["n"] == (0, 1)
    assert spans["h"][0] < -32000 and spans["h"][1] > 32000 and found["t"].any() and found["f"].std() > 0.9


# -- labels


def test_labels_and_numbered_labels(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("cat, tabby\ndog\n\n")
    (tmp_path / "numbered.txt").write_text("0  cat, tabby\n1  dog\n")
    assert read_labels(f"{tmp_path}/plain.txt") == read_labels(f"{tmp_path}/numbered.txt") == ["cat, tabby", "dog"]
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\xff")
    for name in ("empty", "binary"):
        with pytest.raises(InputError, match=f"{name}.txt"):
            read_labels(f"{tmp_path}/{name}.txt")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_labels_as_editors_save_them(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_bytes("0 Ähre\r\n1 六\r\n".encode(encoding))
    assert read_labels(f"{tmp_path}/labels.txt") == ["Ähre", "六"]


def test_labels_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_bytes("Ähre\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"labels.txt: expected text in UTF-8 \(.* 0xc4 .*\): save it as that"):
        read_labels(f"{tmp_path}/labels.txt")


def test_top_classes_are_probabilities(only: Model) -> None:
    labels = ["one", "two", "three"]
    probabilities = np.array([[0.1, 0.7, 0.2]], np.float32)
    top = top_classes({"p": probabilities, "other": np.zeros(5)}, [], labels, 2)
    assert [row["label"] for row in top["p"][0]] == ["two", "three"] and list(top) == ["p"]
    assert top["p"][0][0]["probability"] == pytest.approx(0.7)
    logits = top_classes({"p": np.log(probabilities) + 9}, [], labels, 3)
    assert logits["p"][0][0]["probability"] == pytest.approx(0.7) and len(logits["p"][0]) == 3
    assert "0.7000     1  two" in text(top)


def test_quantized_outputs_are_read_as_reals(only: Model) -> None:
    stored = top_classes({"y": np.array([[0, 1, 0], [0, 0, 1]], np.int8)}, only.outputs, ["a", "b", "c"], 1)
    assert [rows[0]["label"] for rows in stored["y"]] == ["b", "c"]
    assert "y, row 1:" in text(stored)


def test_labels_that_fit_no_output(only: Model) -> None:
    with pytest.raises(InputError, match=r"4 labels.*y: \[2, 3\]"):
        top_classes({"y": ARRAY}, only.outputs, list("abcd"), 1)
