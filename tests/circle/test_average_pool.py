"""Quantized average pools: halves are rounded away from the stored number 0, as TFLite's integer kernels do."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.frontends import read
from fastgraph.plan.program import HostStep
from tests.circle.circle_models import by_references
from tests.circle.write import Model, litert


def averages(x: np.ndarray, height: int, width: int) -> np.ndarray:
    """Windows side by side: (sum + count / 2) / count, the signs turned for negative sums, cut to integers."""
    n, h, w, c = x.shape
    count = height * width
    sums = x.astype(int).reshape(n, h // height, height, w // width, width, c).sum(axis=(2, 4))
    return (np.sign(sums) * ((np.abs(sums) + count // 2) // count)).astype(x.dtype)


@pytest.mark.parametrize("dtype, zero", [(np.int8, -128), (np.int8, 7), (np.uint8, 0), (np.uint8, 131), (np.int16, 0)])
@pytest.mark.parametrize("window", [(2, 2), (8, 8), (3, 5), (7, 4)])
def test_halves(window: tuple[int, int], dtype: Any, zero: int) -> None:
    height, width = window
    shape, quant = (1, 2 * height, 3 * width, 37), (0.0235, zero)
    m = Model()
    x = m.input(shape, dtype, quant)
    sizes = {"stride_h": height, "stride_w": width, "filter_height": height, "filter_width": width}
    y = m.op("AVERAGE_POOL_2D", [x], [((1, 2, 3, 37), dtype, quant)], padding="VALID", **sizes)
    source = m.bytes(y)
    model, graph, rng = fg.load(source, threads=1), read(source), np.random.default_rng(0)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    for low, high in ((least, most), (least + 127, least + 130)):
        data = rng.integers(low, high, shape, endpoint=True).astype(dtype)
        expected = averages(data, height, width)
        np.testing.assert_array_equal(model(data), expected)
        np.testing.assert_array_equal(by_references(graph, [data])[0], expected)


@pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="needs LiteRT")
@pytest.mark.parametrize("clamp", ["NONE", "RELU", "RELU6"])
@pytest.mark.parametrize("padding, height, width", [("SAME", 7, 5), ("SAME", 3, 3), ("VALID", 16, 16), ("VALID", 2, 1)])
def test_words_as_litert_takes_their_means(clamp: str, padding: str, height: int, width: int) -> None:
    shape, quant, rng = (2, 20, 18, 5), (0.002, 0), np.random.default_rng(0)
    x = rng.integers(-32768, 32767, shape, endpoint=True).astype(np.int16)
    x[..., 0] = rng.integers(-4, 4, shape[:3])
    rows, columns = (10, 18) if padding == "SAME" else ((20 - height) // 2 + 1, 18 - width + 1)
    options = {"stride_h": 2, "stride_w": 1, "filter_height": height, "filter_width": width, "padding": padding}
    m, out = Model(), ((2, rows, columns, 5), np.int16, quant)
    given = m.input(shape, np.int16, quant)
    data = m.bytes(m.op("AVERAGE_POOL_2D", [given], [out], fused_activation_function=clamp, **options))
    ((wanted,),), model = litert(data, [[x]]), fg.load(data, threads=1)
    np.testing.assert_array_equal(model(x), wanted)
    assert not any(isinstance(step, HostStep) for step in model.plan.program.steps)
