"""Layers of bytes whose results stay reals: what training toolkits write, which round the inputs of layers only."""

import numpy as np
import pytest

from fastgraph.kernels.isa.tiers import usable
from tests.nets import F32, Net, assert_close, by_onnxruntime

TIERS = [tier.name for tier in usable()]
DYNAMIC = {"dot_dynamic", "conv_dynamic", "amx_dynamic"}


class Qdq(Net):
    """With values that are rounded to 8 bits, and weights that are stored in 8."""

    def rounded(self, x: str, zero: int = 100) -> str:
        grid = self.const(np.float32(0.04)), self.const(np.uint8(zero))
        return self("DequantizeLinear", self("QuantizeLinear", x, *grid), *grid)

    def stored(self, *shape: int, axis: int = 0) -> str:
        """Small weights: onnxruntime's products of pairs saturate on CPUs without VNNI."""
        n = shape[axis]
        numbers = self.rng.integers(-60, 60, shape).astype(np.int8)
        scales = self.rng.uniform(0.002, 0.01, n).astype(F32)
        return self("DequantizeLinear", *map(self.const, (numbers, scales, np.zeros(n, np.int8))), axis=axis)


def silu(net: Net, x: str) -> str:
    return net("Mul", x, net("Sigmoid", x))


def convolutions(**attrs: object) -> Qdq:
    net = Qdq()
    x = net.input("x", (2, 8, 9, 7))
    y = silu(net, net("Conv", net.rounded(x), net.stored(24, 8, 3, 3), net.weight(24), pads=[1, 1, 1, 1], **attrs))
    z = net("Conv", net.rounded(y, 7), net.stored(24, 24, 1, 1), net.weight(24))
    net.output(net("Tanh", net("Add", z, y)), net.rounded(z))
    return net


def rows(count: int) -> Qdq:
    net = Qdq()
    x = net.input("x", (count, 50))
    y = net("Add", net("MatMul", net.rounded(x), net.stored(50, 33, axis=1)), net.weight(33))
    z = net("Gemm", net.rounded(silu(net, y), 20), net.stored(19, 33), net.weight(19), transB=1)
    net.output(net("Mul", net("Erf", z), z))
    return net


NETS = {"convolutions": convolutions(), "strided": convolutions(strides=[2, 1]), "rows": rows(21), "row": rows(1)}


@pytest.mark.parametrize("isa", TIERS)
@pytest.mark.parametrize("name", NETS)
def test_reals_of_bytes(name: str, isa: str) -> None:
    net = NETS[name]
    model = net.load(isa=isa)
    feeds = {s.name: np.random.default_rng(3).standard_normal(s.shape).astype(F32) for s in model.inputs}
    found = list(model.run(feeds).values())
    assert_close(found, by_onnxruntime(net.bytes(), feeds), 1e-2, "a rounding of a value between may go the other way")
    kernels = {kernel.name for kernel in model.plan.kernels()}
    assert kernels & DYNAMIC and not kernels & {"dot", "conv", "extremes"}
    two = list(net.load(isa=isa, threads=2).run(feeds).values())
    assert all(np.array_equal(a, b) for a, b in zip(found, two, strict=True))


def test_sums_that_may_overflow_stay_reals() -> None:
    net = Qdq()
    x = net.input("x", (3, 70000))
    w = net.const(np.full((70000, 8), 127, np.int8)), net.const(np.float32(1e-5)), net.const(np.int8(0))
    net.output(silu(net, net("MatMul", net.rounded(x), net("DequantizeLinear", *w))))
    model = net.agrees(1e-3)
    assert not {kernel.name for kernel in model.plan.kernels()} & DYNAMIC
