"""References of spatial operators against onnxruntime on random attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from fastgraph.frontends.onnx import read
from fastgraph.ops import OPS
from fastgraph.ops.evaluate import evaluate, infer_graph

SOME = settings(max_examples=80, deadline=None)
SEED = np.random.default_rng(7)


def values(*shape: int) -> np.ndarray:
    return SEED.standard_normal(shape).astype(np.float32)


def compare(
    op: str, x: np.ndarray, constants: dict[str, Any], outputs: int = 1, rtol: float = 1e-4, **attrs: Any
) -> None:
    """What onnxruntime accepts must give the same here; what it refuses is not compared."""
    names = ["x", *constants]
    tensors = [numpy_helper.from_array(v, n) for n, v in constants.items() if v is not None]
    reads = [n if n == "x" or constants[n] is not None else "" for n in names]
    gives = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, reads, gives, **{k: v for k, v in attrs.items() if v is not None})
    kinds = [TensorProto.INT64 if op == "MaxPool" and n == "y1" else TensorProto.FLOAT for n in gives]
    infos = [helper.make_tensor_value_info(n, kind, None) for n, kind in zip(gives, kinds, strict=True)]
    entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    graph = helper.make_graph([node], "g", [entry], infos, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        wanted = session.run(None, {"x": x})
    except Exception:
        assume(False)
    ours = read(model)
    infer_graph(ours)
    results = evaluate(ours, {"x": x})
    for want, got, value in zip(wanted, results, ours.outputs, strict=True):
        assert value.type.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-5)


def numbers(data: Any, low: int, high: int, count: int) -> list[int]:
    return [data.draw(st.integers(low, high)) for _ in range(count)]


def window(data: Any, kernel: list[int]) -> dict[str, Any]:
    """Window attributes on which onnxruntime follows ONNX.

    With SAME and a stride above the kernel its average pool and transposed convolution do not.
    """
    auto_pad = data.draw(st.sampled_from(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    same, rank = auto_pad.startswith("SAME"), len(kernel)
    return {
        "auto_pad": auto_pad,
        "strides": [data.draw(st.integers(1, k if same else 3)) for k in kernel],
        "dilations": None if same else numbers(data, 1, 2, rank),
        "pads": [data.draw(st.integers(0, k - 1)) for k in kernel * 2] if auto_pad == "NOTSET" else None,
    }


def pool(data: Any, rank: int) -> dict[str, Any]:
    """Pool attributes."""
    kernel = numbers(data, 1, 3, rank)
    attrs = window(data, kernel)
    return {**attrs, "kernel_shape": kernel, "ceil_mode": data.draw(st.integers(0, 1))}


@SOME
@given(st.data(), st.integers(1, 3))
def test_conv(data: Any, rank: int) -> None:
    groups, inner, outer = numbers(data, 1, 3, 3)
    kernel = numbers(data, 1, 3, rank)
    x = values(data.draw(st.integers(1, 2)), groups * inner, *numbers(data, 5, 7, rank))
    w = values(groups * outer, inner, *kernel)
    b = values(groups * outer) if data.draw(st.booleans()) else None
    compare("Conv", x, {"w": w, "b": b}, group=groups, **window(data, kernel))


@SOME
@given(st.data(), st.integers(1, 2))
def test_conv_transpose(data: Any, rank: int) -> None:
    groups, inner, outer = numbers(data, 1, 3, 3)
    kernel = numbers(data, 1, 3, rank)
    x = values(1, groups * inner, *numbers(data, 2, 5, rank))
    w = values(groups * inner, outer, *kernel)
    attrs = window(data, kernel)
    extra = None
    if attrs["auto_pad"] == "NOTSET":
        extra = [data.draw(st.integers(0, s - 1)) for s in attrs["strides"]]
    compare("ConvTranspose", x, {"w": w}, group=groups, output_padding=extra, **attrs)


@SOME
@given(st.data(), st.integers(1, 3), st.booleans())
def test_max_pool(data: Any, rank: int, indices: bool) -> None:
    x = values(1, 2, *numbers(data, 5, 7, rank))
    order = data.draw(st.integers(0, 1)) if indices and rank == 2 else None
    compare("MaxPool", x, {}, 2 if indices else 1, storage_order=order, **pool(data, rank))


@SOME
@given(st.data(), st.integers(1, 3))
def test_average_pool(data: Any, rank: int) -> None:
    x = values(1, 2, *numbers(data, 5, 7, rank))
    compare("AveragePool", x, {}, count_include_pad=data.draw(st.integers(0, 1)), **pool(data, rank))


@SOME
@given(st.data(), st.sampled_from(["nearest", "linear", "cubic"]))
def test_resize(data: Any, mode: str) -> None:
    x = values(1, 2, *numbers(data, 2, 7, 2))
    coordinates = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]
    attrs = {
        "mode": mode,
        "coordinate_transformation_mode": data.draw(st.sampled_from(coordinates)),
        "nearest_mode": data.draw(st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])),
        "exclude_outside": data.draw(st.integers(0, 1)) if mode == "cubic" else 0,
        "cubic_coeff_a": data.draw(st.sampled_from([-0.75, -0.5])),
    }
    # With align_corners ONNX divides by the unrounded output length, onnxruntime by the rounded one.
    if data.draw(st.booleans()) and attrs["coordinate_transformation_mode"] != "align_corners":
        scales = [1.0, 1.0, *(data.draw(st.sampled_from([0.5, 0.75, 1.5, 2.0, 4.0])) for _ in range(2))]
        compare("Resize", x, {"roi": None, "scales": np.array(scales, np.float32)}, rtol=1e-3, **attrs)
    else:
        # Doublings and halvings: elsewhere float32 and float64 coordinates may round to different neighbors.
        sizes = [1, 2, *(n * data.draw(st.sampled_from([1, 2, 4])) for n in x.shape[2:])]
        compare("Resize", x, {"roi": None, "scales": None, "sizes": np.array(sizes)}, rtol=1e-3, **attrs)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("full", [False, True])
def test_recurrent(op: str, gates: int, direction: str, full: bool) -> None:
    ways, hidden = 2 if direction == "bidirectional" else 1, 2
    extras: dict[str, Any] = {"B": values(ways, 2 * gates * hidden), "lengths": np.array([5, 2, 3], np.int32)}
    extras["h"] = values(ways, 3, hidden)
    if op == "LSTM":
        extras.update(c=values(ways, 3, hidden), P=values(ways, 3 * hidden))
    weights = {"W": values(ways, gates * hidden, 4), "R": values(ways, gates * hidden, hidden)}
    attrs = {"linear_before_reset": int(full)} if op == "GRU" else {}
    compare(
        op, values(5, 3, 4), {**weights, **(extras if full else {})}, 3 if op == "LSTM" else 2,
        hidden_size=hidden, direction=direction, clip=0.7 if full else None, **attrs,
    )  # fmt: skip


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("align_corners", [0, 1])
def test_grid_sample(mode: str, padding_mode: str, align_corners: int) -> None:
    grid = SEED.uniform(-1.6, 1.6, (2, 6, 7, 2)).astype(np.float32)
    attrs = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    compare("GridSample", values(2, 3, 5, 4), {"grid": grid}, rtol=1e-3, **attrs)


@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("sampling_ratio", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align(coordinates: str, sampling_ratio: int, mode: str) -> None:
    rois = np.array([[0, 0, 7, 7], [1.5, 2, 9, 5], [-2, -3, 4, 3], [3, 3, 3.2, 3.1]], np.float32)
    compare(
        "RoiAlign", values(2, 3, 8, 9), {"rois": rois, "batch": np.array([0, 1, 0, 1])}, rtol=1e-3,
        coordinate_transformation_mode=coordinates, sampling_ratio=sampling_ratio, mode=mode,
        output_height=3, output_width=2, spatial_scale=0.8,
    )  # fmt: skip


def test_differences_are_seen() -> None:
    """onnxruntime does run, and results that differ fail: an average is not a maximum."""
    x = values(1, 2, 5, 5)
    compare("MaxPool", x, {}, kernel_shape=[2, 2])
    with pytest.raises(AssertionError), pytest.MonkeyPatch.context() as patch:
        patch.setitem(OPS.found, "max_pool", OPS["average_pool"])
        compare("MaxPool", x, {}, kernel_shape=[2, 2])
