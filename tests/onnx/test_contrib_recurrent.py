"""Dynamically quantized LSTM layers against onnxruntime, which rounds their inputs and states to 8 bits, too."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.nets import F32, Net, by_onnxruntime
from tests.onnx.contrib import MS, S8, U8, compare, dynamically_quantized, hosts, numbers

STEPS, BATCH, INPUTS, HIDDEN = 4, 2, 6, 8


@pytest.mark.parametrize("stored, zero", [(S8, 0), (U8, 128), (U8, 100)], ids=str)
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("ways", [1, 2])
def test_dynamic_quantize_lstm(stored: Any, zero: int, columns: bool, ways: int) -> None:
    net = Net()
    x, shape = net.input("x", (STEPS, BATCH, INPUTS)), (ways, 4 * HIDDEN) if columns else (ways,)
    weights = [net.const(numbers(net.rng, (ways, k, 4 * HIDDEN), stored)) for k in (INPUTS, HIDDEN)]
    scales = [net.const(net.rng.uniform(0.001, 0.004, shape).astype(F32)) for _ in weights]
    zeros = [net.const(np.full(shape, zero, stored)) for _ in weights]
    more = [net.weight(ways, 32 * 2), "", net.weight(ways, BATCH, HIDDEN), net.weight(ways, BATCH, HIDDEN), ""]
    parameters = [scales[0], zeros[0], scales[1], zeros[1]]
    told = {"hidden_size": HIDDEN, "direction": "bidirectional" if ways == 2 else "forward"}
    net.output(*net("DynamicQuantizeLSTM", x, *weights, *more, *parameters, outputs=3, domain=MS, **told))
    feeds = {"x": numbers(net.rng, (STEPS, BATCH, INPUTS), F32)}
    model = net.load()
    for want, have in zip(by_onnxruntime(net.bytes(), feeds), model.run(feeds).values(), strict=True):
        compare(have, want, 0, 0.02)
    assert not hosts(model)


def test_what_quantize_dynamic_writes(tmp_path: Path) -> None:
    """As near to the layer that was quantized as what onnxruntime makes of it."""
    net = Net()
    weights = net.weight(1, 4 * HIDDEN, INPUTS), net.weight(1, 4 * HIDDEN, HIDDEN), net.weight(1, 8 * HIDDEN)
    net.output(*net("LSTM", net.input("x", (STEPS, BATCH, INPUTS)), *weights, outputs=3, hidden_size=HIDDEN))
    data = dynamically_quantized(net, tmp_path)
    feeds = {"x": numbers(net.rng, (STEPS, BATCH, INPUTS), F32)}
    model = fg.load(data)
    assert not hosts(model)
    exact, theirs = (by_onnxruntime(each, feeds) for each in (net.bytes(), data))
    for right, want, have in zip(exact, theirs, model.run(feeds).values(), strict=True):
        compare(have, want, 0, 0.002)
        assert np.abs(have - right).mean() <= 1.1 * np.abs(want - right).mean()
