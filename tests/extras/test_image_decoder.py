"""ImageDecoder beside Pillow; ONNX's own cases are in tests/ops/test_node_cases.py."""

import io
import sys
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import fastgraph as fg
from fastgraph.errors import UnsupportedError

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)


def model(form: str, more: bool = False) -> fg.Model:
    nodes = [helper.make_node("ImageDecoder", ["bytes"], ["image"], pixel_format=form)]
    nodes += [helper.make_node("Cast", ["image"], ["real"], to=TensorProto.FLOAT)] if more else []
    stream = helper.make_tensor_value_info("bytes", TensorProto.UINT8, ["n"])
    kind = TensorProto.FLOAT if more else TensorProto.UINT8
    out = helper.make_tensor_value_info("real" if more else "image", kind, ["h", "w", "c"])
    graph = helper.make_graph(nodes, "decoder", [stream], [out])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return fg.load(made.SerializeToString())


def png(mode: str = "RGB") -> np.ndarray:
    image = pytest.importorskip("PIL.Image").fromarray(PIXELS).convert(mode)
    file = io.BytesIO()
    image.save(file, "PNG")
    return np.frombuffer(file.getvalue(), np.uint8)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "L"])
def test_every_mode_becomes_the_format_that_is_asked_for(mode: str) -> None:
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(png(mode).tobytes()))
    colors = np.asarray(image.convert("RGB"))
    np.testing.assert_array_equal(model("RGB")(png(mode)), colors)
    np.testing.assert_array_equal(model("BGR")(png(mode)), colors[..., ::-1])
    np.testing.assert_array_equal(model("Grayscale")(png(mode)), np.asarray(image.convert("L"))[..., None])


def test_what_follows_runs_on_the_image() -> None:
    np.testing.assert_array_equal(model("RGB", more=True)(png()), PIXELS.astype(np.float32))


@pytest.mark.parametrize("size", [0, 1, 20, 60])
def test_bytes_that_are_no_image_give_an_empty_one(size: int) -> None:
    assert model("RGB")(png()[:size].copy()).shape == (0, 0, 0)


def test_without_pillow_the_extra_is_named(monkeypatch: Any) -> None:
    stream, net = png(), model("RGB")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UnsupportedError, match=r"fastgraph-runtime\[images\]"):
        net(stream)


def test_formats_that_there_are_not() -> None:
    with pytest.raises(fg.InputError, match="pixel_format must be one of RGB, BGR, Grayscale, found 'YUV'"):
        model("YUV")(png())
