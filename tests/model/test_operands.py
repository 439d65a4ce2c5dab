"""What does not fit is refused when a model is loaded or, where only a run knows it, when it is fed."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import fastgraph as fg
from tests.nets import F32, I64, Net, assert_close, by_onnxruntime


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, F32)


def test_a_scale_shorter_than_its_axis_is_refused() -> None:
    net = Net()
    net.output(net("LayerNormalization", net.input("x", (2, 16)), ones(2), axis=-1))
    with pytest.raises(fg.ModelError, match=r"scale \[2\] does not broadcast to \[2, 16\]"):
        net.load()


FED: dict[str, tuple[str, list[np.ndarray], np.ndarray, np.ndarray, dict[str, Any]]] = {
    "k": ("TopK", [ones(4)], np.array([2]), np.array([-1]), {}),
    "lengths": ("RNN", [ones(5, 1, 3), ones(1, 2, 3), ones(1, 2, 2), ones(1, 4)], np.array([5], np.int32),
                np.array([6], np.int32), {"hidden_size": 2}),
    "image": ("RoiAlign", [ones(1, 1, 4, 4), ones(1, 4)], np.array([0]), np.array([-1]), {}),
    "place": ("MaxUnpool", [ones(1, 1, 1, 1)], np.full((1, 1, 1, 1), 3), np.full((1, 1, 1, 1), -1),
              {"kernel_shape": [2, 2]}),
    "index": ("Gather", [ones(3)], np.array([2]), np.array([3]), {}),
    "shape": ("Reshape", [ones(2, 3)], np.array([6]), np.array([5]), {}),
    "repeats": ("Tile", [ones(2, 3)], np.array([1, 2]), np.array([1, -2]), {}),
    "steps": ("STFT", [ones(1, 8)], np.array(2), np.array(0), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", FED)
def test_what_is_fed_is_checked(name: str) -> None:
    op, constants, good, bad, attrs = FED[name]
    net = Net(opset=17)
    before = [net.const(c) for c in constants]
    after = [net.const(np.array(4))] if op == "STFT" else []
    parameter = net.input("p", (None,) * good.ndim, good.dtype)
    given = [before[0], parameter, "", *after] if op == "STFT" else [*before, parameter]
    found = net(op, *given, outputs=2 if op == "TopK" else 1, **attrs)
    net.output(found[0] if op == "TopK" else found)
    model = net.agrees(feeds={"p": good})
    with pytest.raises(fg.InputError):
        model.run({"p": bad})
    assert_close(list(model.run({"p": good}).values()), by_onnxruntime(net.bytes(), {"p": good}))


def test_an_empty_shape_is_that_of_one_element() -> None:
    net = Net()
    net.output(net("Reshape", net.input("x", (2, 3)), net.input("s", None, I64)))
    with pytest.raises(fg.InputError, match=r"cannot reshape \[2, 3\] to \[\]"):
        net.load().run({"x": ones(2, 3), "s": np.array([], I64)})


def test_windows_that_reach_far_are_computed_without_their_padding() -> None:
    far = 2**31 - 1
    net = Net(opset=18)
    x, weights = np.arange(9, dtype=F32).reshape(1, 1, 3, 3), np.arange(9, dtype=F32).reshape(1, 1, 3, 3)
    net.output(net("Conv", net.input("x", x.shape), weights, pads=[far] * 4, dilations=[far] * 2))
    # Only the middle of the kernel meets the image.
    assert_close(list(net.load().run({"x": x}).values()), [x * weights[0, 0, 1, 1]])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_indices_of_an_empty_axis_are_out_of_range(dtype: str) -> None:
    net = Net()
    net.output(net("Gather", net.input("x", (0, 3)), net.input("i", (2,), np.dtype(dtype))))
    with pytest.raises(fg.InputError):
        net.load().run({"x": np.zeros((0, 3), F32), "i": np.zeros(2, dtype)})


def test_inputs_of_no_element_type_are_refused() -> None:
    untyped = onnx.ValueInfoProto(name="s")
    untyped.type.tensor_type.shape.dim.add().dim_value = 2
    output = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    graph = helper.make_graph([helper.make_node("Identity", ["s"], ["y"])], "g", [untyped], [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises((fg.UnsupportedError, fg.ModelError), match="input 's'.* no (tensor|element type)"):
        fg.load(model.SerializeToString())


@pytest.mark.parametrize("isa", ["generic", "numpy"])
def test_parts_of_an_empty_value_lie_nowhere(isa: str) -> None:
    """Such a part may begin behind the arena's end."""
    net = Net()
    x = net("Split", net("Relu", net.input("x", (3, 0, 2000))), outputs=2, axis=2)
    net.output(*(net("Neg", net("Slice", part, *([n] for n in (300, 400, 2)))) for part in x))
    found = net.load(isa=isa).run({"x": np.zeros((3, 0, 2000), np.float32)})
    assert [y.shape for y in found.values()] == [(3, 0, 100)] * 2
