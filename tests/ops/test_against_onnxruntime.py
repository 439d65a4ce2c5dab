"""References of windows against onnxruntime on random attributes; resizes have test_resize_operator.py."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume

from fastgraph.frontends.onnx import read
from fastgraph.ops.evaluate import evaluate, infer_graph
from tests.kernels.harness import drawn
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
