"""Changes of quantization whose scales and zero points stand along an axis are native."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.ir import Graph, Node, Quantization, TensorType, Value
from fastgraph.ops.evaluate import evaluate
from fastgraph.runtime.model import Model
from tests.circle.write import Model as Writer
from tests.circle.write import litert
from tests.kernels.harness import each_tier
from tests.nets import numpy_steps

SHAPE = (3, 5, 2, 37)
READ = ("float32", "int8", "uint8", "int16", "uint16", "int32")
WRITTEN = ("float32", "int8", "uint8", "int16")


def kind(rng: np.random.Generator, dtype: str, axis: int | None, zeros: bool) -> TensorType:
    """A quantized type with scales along an axis, or one; of floats the plain one."""
    if dtype == "float32":
        return TensorType(np.dtype(dtype), SHAPE)
    n, limits = 1 if axis is None else SHAPE[axis], np.iinfo(dtype)
    low = {"uint8": 100, "uint16": 32000}.get(dtype, -20)
    points = rng.integers(low, low + 50, n) if zeros and limits.max < 1 << 16 else np.full(n, 0)
    unit = 40.0 / (2.0 ** min(8 * np.dtype(dtype).itemsize, 16))
    quant = Quantization(tuple(rng.uniform(unit, 2 * unit, n)), tuple(map(int, points)), axis)
    return TensorType(np.dtype(dtype), SHAPE, quant)


@each_tier
@pytest.mark.parametrize("seed", range(1, 24))
def test_scales_along_an_axis(tier: Any, seed: int) -> None:
    """Within a step of the reference, which divides in float64."""
    rng = np.random.default_rng(seed)
    source, target = READ[seed % 6], WRITTEN[seed // 6]
    axis, zeros = int(rng.integers(4)), bool(rng.integers(2))
    other = axis if rng.integers(2) or source == "float32" else None
    x, y = Value("x", kind(rng, source, other, zeros)), Value("y", kind(rng, target, axis, zeros))
    graph = Graph("g", [x], [y], [Node("requantize", [x], [y], {}, "n")])
    limit = 120 if np.dtype(source).itemsize == 1 else 20000
    fed = rng.integers(0 if source.startswith("u") else -limit, limit, SHAPE).astype(source)
    if source == "float32":
        fed = (rng.standard_normal(SHAPE) * 20).astype(source)
    wanted = evaluate(graph, {"x": fed})[0]
    model = Model(graph, tier, 1)
    assert not numpy_steps(model)
    found = model.run({"x": fed})["y"]
    assert found.dtype == wanted.dtype
    if target == "float32":
        np.testing.assert_allclose(found, wanted, 1e-6)
    else:
        apart = np.abs(found.astype(np.int64) - wanted)
        assert apart.max() <= 1 and (apart > 0).mean() < 0.01


@pytest.mark.parametrize("axis", range(3))
def test_there_and_back_as_litert_does(axis: int) -> None:
    rng, shape = np.random.default_rng(axis), (2, 3, 5)
    scales = rng.uniform(0.01, 0.05, shape[axis]).astype(np.float32)
    m = Writer()
    stored = m.op("QUANTIZE", [m.input(shape)], [(shape, np.int8, (scales, np.zeros(shape[axis], np.int64), axis))])
    data = m.bytes([*stored, *m.op("DEQUANTIZE", stored, [shape])])
    x = rng.standard_normal(shape).astype(np.float32)
    model = fg.load(data, threads=1)
    assert not numpy_steps(model)
    for found, wanted in zip(model.run({model.inputs[0].name: x}).values(), litert(data, [[x]])[0], strict=True):
        np.testing.assert_array_equal(found, wanted)
