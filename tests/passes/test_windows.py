"""Windows that have no kernel, written by other operators: against onnxruntime, and NumPy where that lacks the type."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import numpy_helper

import fastgraph as fg
from tests.nets import Net, numpy_steps

F32, F64 = np.float32, np.float64
RNG = np.random.default_rng(5)


def constant(net: Net, array: np.ndarray) -> str:
    """A constant of the array's own type: `Net.const` makes f32 of f64."""
    name = net.const(np.zeros(1, F32))
    net.constants[-1] = numpy_helper.from_array(array, name)
    return name


def network(op: str, x: np.ndarray, constants: Any = (), outputs: int = 1, opset: int = 20, **attrs: Any) -> bytes:
    """A node of one input and constants, None for those that it does not have."""
    net = Net(opset)
    operands = [net.input("x", x.shape, x.dtype), *("" if c is None else constant(net, c) for c in constants)]
    results = net(op, *operands, outputs=outputs, **attrs)
    results = [results] if outputs == 1 else results
    net.output(results[0], dtype=x.dtype)
    if outputs == 2:
        net.output(results[1], dtype=np.int64)
    return net.bytes()


def native(data: bytes, x: np.ndarray) -> list[np.ndarray]:
    model = fg.load(data, threads=1)
    assert numpy_steps(model) == []
    return list(model.run({"x": x}).values())


def like_onnxruntime(data: bytes, x: np.ndarray, share: float) -> None:
    wanted = onnxruntime.InferenceSession(data).run(None, {"x": x})
    for a, b in zip(native(data, x), wanted, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, share, share)


def like_numpy(data: bytes, x: np.ndarray, share: float = 1e-13) -> None:
    (wanted,) = fg.load(data, isa="numpy").run({"x": x}).values()
    np.testing.assert_allclose(native(data, x)[0], wanted, share, share)


WINDOWS: list[dict[str, Any]] = [
    {"kernel_shape": [3, 3]},
    {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 0, 0, 2]},
    {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
]


@pytest.mark.parametrize("attrs", WINDOWS)
@pytest.mark.parametrize("p", [1, 2, 3, 5])
def test_lp_pools(p: int, attrs: dict[str, Any]) -> None:
    x = RNG.standard_normal((2, 3, 9, 8))
    like_onnxruntime(network("LpPool", x.astype(F32), p=p, **attrs), x.astype(F32), 1e-5)
    like_numpy(network("LpPool", x, p=p, **attrs), x)


def test_lp_pools_of_other_ranks_with_dilations() -> None:
    for shape, kernel in (((2, 3, 20), [4]), ((1, 2, 6, 7, 8), [2, 3, 2])):
        x = RNG.standard_normal(shape).astype(F32)
        like_onnxruntime(network("LpPool", x, p=3, kernel_shape=kernel), x, 1e-5)
        like_onnxruntime(network("LpPool", x, p=3, kernel_shape=kernel, dilations=[2] * len(kernel)), x, 1e-5)


@pytest.mark.parametrize("attrs", [*WINDOWS, {"kernel_shape": [3, 3], "dilations": [2, 2], "pads": [1, 1, 1, 1]},
                                   {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}])  # fmt: skip
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_places_of_maxima(dtype: Any, order: int, attrs: dict[str, Any]) -> None:
    """Of equal elements the first; they are small whole numbers here, -inf among them."""
    x = RNG.integers(-2, 3, (2, 3, 9, 8)).astype(dtype)
    x[0, 0, :4, :4] = -np.inf
    like_onnxruntime(network("MaxPool", x, outputs=2, storage_order=order, **attrs), x, 0)


@pytest.mark.parametrize("attrs", [*WINDOWS, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_pools_of_f64(op: str, attrs: dict[str, Any]) -> None:
    x = RNG.standard_normal((2, 3, 9, 8))
    x[0, 0, 0, :2] = -np.inf if op == "MaxPool" else 1
    for more in ({}, {"ceil_mode": 1}, {"count_include_pad": 1} if op == "AveragePool" else {"dilations": [1, 1]}):
        like_numpy(network(op, x, **attrs, **more), x)
    if op == "MaxPool":
        x[1, 1, :3] = np.nan
        like_numpy(network(op, x, **attrs), x)


@pytest.mark.parametrize("case", [
    ((2, 4, 9, 9), (4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ((1, 4, 9, 9), (6, 4, 3, 3), {}),
    ((1, 4, 12), (6, 4, 3), {"dilations": [2]}), ((1, 4, 5, 6, 7), (6, 2, 3, 3, 3), {"group": 2}),
    ((1, 4, 9, 9), (6, 4, 2, 2), {"auto_pad": "SAME_UPPER"}), ((3, 4, 5, 5), (6, 4, 1, 1), {}),
])  # fmt: skip
def test_convolutions_of_f64(case: Any) -> None:
    shape, w, attrs = case
    x = RNG.standard_normal(shape)
    like_numpy(network("Conv", x, [RNG.standard_normal(w), RNG.standard_normal(w[0])], **attrs), x)


@pytest.mark.parametrize("attrs", [{}, {"strides": [2, 2]}, {"strides": [2, 3], "pads": [1, 0, 1, 2]}, {"group": 2}])
def test_transposed_convolutions_of_f64(attrs: dict[str, Any]) -> None:
    x = RNG.standard_normal((2, 4, 5, 6))
    like_numpy(network("ConvTranspose", x, [RNG.standard_normal((4, 3, 3, 3))], **attrs), x)


COLUMNS: list[tuple[list[int], list[int], dict[str, Any]]] = [
    ([5, 5], [2, 2], {}),
    ([6, 8], [3, 2], {"strides": [3, 2]}),
    ([7, 8], [3, 3], {"strides": [2, 2], "pads": [1, 0, 1, 1]}),
    ([9, 9], [3, 2], {"dilations": [2, 3], "strides": [2, 1]}),
    ([12], [5], {"strides": [2]}),
    ([5, 6, 4], [2, 3, 2], {"strides": [1, 2, 1], "pads": [0, 1, 0, 0, 1, 1]}),
]


@pytest.mark.parametrize("image, block, attrs", COLUMNS)
def test_col2im(image: list[int], block: list[int], attrs: dict[str, Any]) -> None:
    """Blocks that lie over one another, side by side, apart and dilated; strides that do not divide them."""
    rank = len(image)
    s, d, p = (attrs.get(name, [default] * n) for name, default, n in
               (("strides", 1, rank), ("dilations", 1, rank), ("pads", 0, 2 * rank)))  # fmt: skip
    sizes = [(n + p[i] + p[rank + i] - (block[i] - 1) * d[i] - 1) // s[i] + 1 for i, n in enumerate(image)]
    x = RNG.integers(-9, 9, (2, 3 * int(np.prod(block)), int(np.prod(sizes)))).astype(F32)
    shapes = [np.array(image), np.array(block)]
    like_onnxruntime(network("Col2Im", x, shapes, opset=18, **attrs), x, 0)
    wide = x.astype(F64)
    like_numpy(network("Col2Im", wide, shapes, opset=18, **attrs), wide, 0)


def test_max_unpool_into_a_larger_shape() -> None:
    x = RNG.standard_normal((1, 1, 2, 2)).astype(F32)
    places = np.array([[[[5, 7], [13, 15]]]], np.int64)
    data = network("MaxUnpool", x, [places, np.array([1, 1, 5, 5])], kernel_shape=[2, 2], strides=[2, 2])
    like_numpy(data, x, 0)


def test_affine_grids_of_f64() -> None:
    for size in ([2, 3, 5, 6], [2, 3, 4, 5, 6]):
        theta = RNG.standard_normal((2, len(size) - 2, len(size) - 1))
        like_onnxruntime(network("AffineGrid", theta, [np.array(size)]), theta, 1e-12)
