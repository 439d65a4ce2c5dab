"""References of spatial operators against onnxruntime on random attributes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume

from fastgraph.frontends.onnx import read
from fastgraph.ops.evaluate import evaluate, infer_graph
from tests.kernels.harness import drawn
from tests.kernels.test_resize import MODES, ROUNDINGS
from tests.nets import Net, by_onnxruntime

SEED = np.random.default_rng(7)


def values(*shape: int) -> np.ndarray:
    return SEED.standard_normal(shape).astype(np.float32)


def compare(
    op: str, x: np.ndarray, constants: dict[str, Any], outputs: int = 1, rtol: float = 1e-4, **attrs: Any
) -> list[np.ndarray]:
    """What onnxruntime accepts must give the same here; what it refuses is not compared. Its results."""
    net, attrs = Net(20), {k: v for k, v in attrs.items() if v is not None}
    operands = [net.input("x", x.shape), *("" if v is None else net.const(v) for v in constants.values())]
    names = net(op, *operands, outputs=outputs, **attrs)
    for number, name in enumerate(names if outputs > 1 else [names]):
        net.output(name, dtype=np.int64 if op == "MaxPool" and number else np.float32)
    try:
        wanted = by_onnxruntime(net.bytes(), {"x": x})
    except Exception:
        assume(False)
    ours = read(net.bytes())
    infer_graph(ours)
    for want, got, value in zip(wanted, evaluate(ours, {"x": x}), ours.outputs, strict=True):
        assert value.type.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-5)
    return wanted


def some(pick: Random, low: int, high: int, count: int) -> list[int]:
    return [pick.randint(low, high) for _ in range(count)]


def window(pick: Random, kernel: list[int]) -> dict[str, Any]:
    """Window attributes on which onnxruntime follows ONNX.

    With SAME and a stride above the kernel its average pool and transposed convolution do not.
    """
    auto_pad = pick.choice(("NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"))
    same = auto_pad.startswith("SAME")
    return {
        "auto_pad": auto_pad,
        "strides": [pick.randint(1, k if same else 3) for k in kernel],
        "dilations": None if same else some(pick, 1, 2, len(kernel)),
        "pads": [pick.randint(0, k - 1) for k in kernel * 2] if auto_pad == "NOTSET" else None,
    }


@drawn(80)
def test_conv(pick: Random) -> None:
    rank, (groups, inner, outer) = pick.randint(1, 3), some(pick, 1, 3, 3)
    kernel = some(pick, 1, 3, rank)
    x = values(pick.randint(1, 2), groups * inner, *some(pick, 5, 7, rank))
    operands = {"w": values(groups * outer, inner, *kernel), "b": pick.choice((None, values(groups * outer)))}
    compare("Conv", x, operands, group=groups, **window(pick, kernel))


@drawn(80)
def test_conv_transpose(pick: Random) -> None:
    rank, (groups, inner, outer) = pick.randint(1, 2), some(pick, 1, 3, 3)
    kernel = some(pick, 1, 3, rank)
    attrs, x = window(pick, kernel), values(1, groups * inner, *some(pick, 2, 5, rank))
    if attrs["auto_pad"] == "NOTSET":
        attrs["output_padding"] = [pick.randint(0, s - 1) for s in attrs["strides"]]
    compare("ConvTranspose", x, {"w": values(groups * inner, outer, *kernel)}, group=groups, **attrs)


@drawn(160)
def test_pools(pick: Random) -> None:
    rank, op = pick.randint(1, 3), pick.choice(("MaxPool", "AveragePool"))
    kernel, x = some(pick, 1, 3, rank), values(1, 2, *some(pick, 5, 7, rank))
    attrs = {**window(pick, kernel), "kernel_shape": kernel, "ceil_mode": pick.randint(0, 1)}
    indices = op == "MaxPool" and pick.choice((False, True))
    if indices and rank == 2:
        attrs["storage_order"] = pick.randint(0, 1)
    if op == "AveragePool":
        attrs["count_include_pad"] = pick.randint(0, 1)
    compare(op, x, {}, 2 if indices else 1, **attrs)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@drawn(30)
def test_resize(mode: str, pick: Random) -> None:
    x, coordinates = values(1, 2, *some(pick, 2, 7, 2)), pick.choice(MODES[:-1])
    attrs = {
        "mode": mode,
        "coordinate_transformation_mode": coordinates,
        "nearest_mode": pick.choice(ROUNDINGS),
        "exclude_outside": pick.randint(0, 1) if mode == "cubic" else 0,
        "cubic_coeff_a": pick.choice((-0.75, -0.5)),
    }
    # With align_corners ONNX divides by the unrounded output length, onnxruntime by the rounded one.
    if pick.choice((False, True)) and coordinates != "align_corners":
        scales = np.float32([1, 1, *(pick.choice((0.5, 0.75, 1.5, 2.0, 4.0)) for _ in range(2))])
        compare("Resize", x, {"roi": None, "scales": scales}, rtol=1e-3, **attrs)
    else:
        # Doublings and halvings: elsewhere float32 and float64 coordinates may round to different neighbors.
        sizes = np.array([1, 2, *(n * pick.choice((1, 2, 4)) for n in x.shape[2:])])
        compare("Resize", x, {"roi": None, "scales": None, "sizes": sizes}, rtol=1e-3, **attrs)


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


def test_onnxruntime_does_run() -> None:
    """What it refuses is left out of the comparison, so this says that not all is."""
    x = values(1, 2, 5, 5)
    assert [y.shape for y in compare("MaxPool", x, {}, kernel_shape=[2, 2])] == [(1, 2, 4, 4)]
