"""Operators that become others: by kernels, as LiteRT computes them."""

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.circle.write import Model, litert
from tests.nets import numpy_steps

F32 = np.float32


def native(m: Model, outputs: list[int], *fed: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What kernels alone give, and what LiteRT gives."""
    pytest.importorskip("ai_edge_litert")
    data = m.bytes(outputs)
    model = fg.load(data, threads=1)
    assert not numpy_steps(model)
    found = model.run(dict(zip((spec.name for spec in model.inputs), fed, strict=True)))
    return list(found.values()), litert(data, [list(fed)])[0]


@pytest.mark.parametrize("count", [1, 3, 40])
def test_bucketize(count: int) -> None:
    """A boundary belongs to what is above it; what is no number lies above all."""
    m = Model()
    boundaries = np.sort(np.random.default_rng(count).standard_normal(count)).astype(F32)
    x = np.concatenate([boundaries, [np.nan, np.inf, -np.inf, 0, -0.0], np.linspace(-3, 3, 41)]).astype(F32)
    numbers = m.input(x.shape)
    outputs = m.op("BUCKETIZE", [numbers], [(x.shape, np.int32)], boundaries=boundaries.tolist())
    (found,), (wanted,) = native(m, outputs, x)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("repeats", [(1, 1, 2, 1, 1), (2, 1, 3, 1, 2), (1, 2, 1, 2, 1)])
def test_tile_of_five_axes(repeats: tuple[int, ...]) -> None:
    m = Model()
    x = np.arange(2 * 3 * 2 * 4, dtype=F32).reshape(2, 3, 1, 2, 4)
    shape = tuple(n * r for n, r in zip(x.shape, repeats, strict=True))
    outputs = m.op("TILE", [m.input(x.shape), m.const(np.array(repeats, np.int32))], [shape])
    (found,), (wanted,) = native(m, outputs, x)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_fake_quant(bits: int) -> None:
    """Numbers midway between two steps may go either way: the sums before that are rounded, or not."""
    m = Model()
    x = np.random.default_rng(bits).uniform(-2, 3, (3, 50)).astype(F32)
    options = {"min": -1.3, "max": 2.1, "num_bits": bits}
    (found,), (wanted,) = native(m, m.op("FAKE_QUANT", [m.input(x.shape)], [x.shape], **options), x)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_stored_weights_that_are_fed(op: str, kind: Any) -> None:
    """LiteRT rounds by multipliers of integers: what lies midway between two numbers may go either way."""
    rng, m = np.random.default_rng(0), Model()
    limits, zero = np.iinfo(kind), 3 if kind == np.int8 else 130
    shape, weights = (1, 7, 6, 4), (1, 3, 3, 4) if op.startswith("DEPTH") else (5, 3, 3, 4)
    x, w = m.input(shape, kind, (0.05, zero)), m.input(weights, kind, (0.02, 0 if kind == np.int8 else 127))
    bias = m.const(rng.integers(-999, 999, weights[0] if weights[0] > 1 else 4, np.int32), (0.001, 0))
    options = {"stride_w": 2, "stride_h": 1, "padding": "SAME"} | ({"depth_multiplier": 1} if weights[0] == 1 else {})
    out = (1, 7, 3, weights[0] if weights[0] > 1 else 4)
    outputs = m.op(op, [x, w, bias], [(out, kind, (0.11, zero))], **options)
    fed = [rng.integers(limits.min, limits.max + 1, s, kind) for s in (shape, weights)]
    (found,), (wanted,) = native(m, outputs, *fed)
    apart = np.abs(found.astype(int) - wanted.astype(int))
    assert apart.max() <= 1 and (apart > 0).mean() < 0.05


@pytest.mark.parametrize("axes", [(0, 2), (1, 3), (0, 1, 3)])
@pytest.mark.parametrize("keep", [True, False])
def test_means_of_bytes_along_axes_apart(axes: tuple[int, ...], keep: bool) -> None:
    """Rounded once, where LiteRT's integers may be a step off."""
    m, shape = Model(), (2, 3, 5, 4)
    x = np.random.default_rng(0).integers(-128, 128, shape, np.int8)
    out = tuple(1 if a in axes else n for a, n in enumerate(shape) if keep or a not in axes)
    operands = [m.input(shape, np.int8, (0.05, 3)), m.const(np.array(axes, np.int32))]
    (found,), (wanted,) = native(m, m.op("MEAN", operands, [(out, np.int8, (0.02, -5))], keep_dims=keep), x)
    assert found.shape == wanted.shape
    assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1
