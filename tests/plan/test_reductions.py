"""Reductions along any axes, behind transposes: all by kernels, as onnxruntime computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.nets import F32, Net, assert_close, by_onnxruntime, numpy_steps

OPS = "L1 L2 SumSquare LogSumExp LogSum Mean Sum Max Min Prod".split()
SIGNED = "L1", "L2", "SumSquare", "Max", "Min", "LogSumExp"
AXES = [0, 2], [1, 3], [0, 1, 3], [0, 3], [1], [], None


@pytest.mark.parametrize("perm", [None, (0, 2, 1, 3), (3, 1, 0, 2)], ids=str)
@pytest.mark.parametrize("op", OPS)
def test_along_any_axes(op: str, perm: Any) -> None:
    """Axes side by side may lie apart once a transpose is gone; along none each element is reduced alone."""
    x = np.random.default_rng(0).random((3, 4, 2, 5)).astype(F32) + np.float32(-0.5 if op in SIGNED else 0.3)
    for axes in AXES:
        for keepdims in (0, 1):
            for noop in (0, 1):
                net = Net(opset=18)
                turned = net.input("x", x.shape)
                if perm:
                    turned = net("Transpose", turned, perm=perm)
                given = [] if axes is None else [net.const(np.array(axes, np.int64))]
                y = net(f"Reduce{op}", turned, *given, keepdims=keepdims, noop_with_empty_axes=noop)
                net.output(net("Add", y, net.const(np.float32(1))))
                model = fg.load(net.bytes(), threads=1)
                assert not numpy_steps(model), (axes, keepdims)
                assert_close(list(model.run({"x": x}).values()), by_onnxruntime(net.bytes(), {"x": x}))
