"""Errors of a run name the file, the node, what was expected and what to do."""

from pathlib import Path

import numpy as np
import pytest

import fastgraph as fg
from tests.nets import I64, Net

OUT = np.array([0, 7])


def _saved(net: Net, folder: Path) -> str:
    path = folder / "net.onnx"
    path.write_bytes(net.bytes())
    return str(path)


def _of_five(op: str) -> Net:
    net = Net()
    net.output(net(op, net.input("x", (5, 3)), net.input("i", (2,) if op == "Gather" else (2, 1), I64)))
    return net


@pytest.mark.parametrize("timeout", [None, 60])
def test_native_lookups_name_their_node(tmp_path: Path, timeout: float | None) -> None:
    model = fg.load(_saved(_of_five("Gather"), tmp_path))
    with pytest.raises(fg.InputError, match=r"net\.onnx: .*node Gather_0: gather takes -5 to 4.*what was fed"):
        model.run({"x": np.zeros((5, 3), np.float32), "i": OUT}, timeout=timeout)


def test_lookups_beside_one_another_are_all_named(tmp_path: Path) -> None:
    net = Net()
    x, i = net.input("x", (5, 3)), net.input("i", (2,), I64)
    net.output(net("Gather", x, i), net("Gather", x, i, axis=-1))
    with pytest.raises(fg.InputError, match=r"Gather_0: gather takes -5 to 4; or node Gather_1: gather takes -3 to 2"):
        fg.load(_saved(net, tmp_path)).run({"x": np.zeros((5, 3), np.float32), "i": OUT})


def test_native_places_name_their_node(tmp_path: Path) -> None:
    model = fg.load(_saved(_of_five("GatherND"), tmp_path))
    with pytest.raises(fg.InputError, match=r"net\.onnx: .*node GatherND_0: gather_nd takes places of \[5, 3\]"):
        model.run({"x": np.zeros((5, 3), np.float32), "i": OUT[:, None]})


def test_references_name_the_file(tmp_path: Path) -> None:
    model = fg.load(_saved(_of_five("GatherND"), tmp_path), isa="numpy")
    with pytest.raises(fg.InputError, match=r"net\.onnx: node GatherND_0: .*index 7 .* from -5 to 4: .*what was fed"):
        model.run({"x": np.zeros((5, 3), np.float32), "i": OUT[:, None]})


def test_what_hangs_on_data_names_the_file(tmp_path: Path) -> None:
    net = Net()
    taken = net("Compress", net.input("x", (8,)), net.input("which", (8,), np.bool_))
    net.output(net("Gather", taken, net.input("i", (2,), I64)))
    with pytest.raises(fg.InputError, match=r"net\.onnx: node Gather_1: "):
        fg.load(_saved(net, tmp_path)).run({"x": np.zeros(8, np.float32), "which": np.arange(8) < 3, "i": OUT})


def test_plans_that_no_memory_holds_name_the_file(tmp_path: Path) -> None:
    net = Net()
    net.output(net("Expand", net.input("x", (1,)), [2**44]))
    with pytest.raises(fg.InputError, match=r"net\.onnx: not enough memory for input shapes \{'x': \(1,\)\}"):
        fg.load(_saved(net, tmp_path))


def test_more_axes_than_numpy_has() -> None:
    net = Net()
    net.output(net("Relu", net.input("x", (1,) * 33)))
    with pytest.raises(fg.ModelError, match="input 'x'.* 33 axes, at most 32"):
        net.load()
    net = Net()
    net.output(net("Relu", np.ones((1,) * 33, np.float32)))
    with pytest.raises(fg.ModelError, match="'c0'.* 33 axes, at most 32"):
        net.load()
    net = Net()
    net.output(net("Unsqueeze", net.input("x", (2,)), np.arange(1, 33)))
    with pytest.raises(fg.ModelError, match="node Unsqueeze_0: unsqueeze: the result would have 33 axes, at most 32"):
        net.load()
    net = Net()
    net.output(net("Relu", net.input("x", None)))
    model = net.load()
    assert model.run({"x": -np.ones((1,) * 32, np.float32)})["v0"].shape == (1,) * 32
    with pytest.raises(fg.InputError, match="axes at most 32"):
        model.run({"x": np.ones((1,) * 33, np.float32)})
