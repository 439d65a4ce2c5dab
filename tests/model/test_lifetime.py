"""What a caller may keep when the model is gone."""

from __future__ import annotations

import gc

import numpy as np

from tests.nets import F32, Net


def test_the_bound_call_keeps_the_memory_that_it_works_on() -> None:
    net = Net()
    net.output(net("Relu", net.input("x", (64, 64))))
    model = net.load()
    execute, given, made = model.execute, model.input(model.inputs[0].name), model.output(model.outputs[0].name)
    del model
    gc.collect()
    others = [np.full(1 << 16, 7, np.uint8) for _ in range(64)]
    given[...] = np.linspace(-1, 1, given.size, dtype=F32).reshape(given.shape)
    execute()
    assert np.array_equal(made, np.maximum(given, 0)) and all((a == 7).all() for a in others)
