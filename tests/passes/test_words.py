"""Activations of 16 bits as rounded reals: the same steps as if they were stored, also at their limits."""

import random

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.freedoms import without
from fastgraph.kernels.isa.tiers import usable
from tests.circle.write import Model
from tests.nets import F32, Net

TIERS = [tier.name for tier in usable()]
LAST = 1.9e-4


def stored(net: Net, x: str, scale: float, zero: int = 0) -> str:
    """x rounded to int16."""
    numbers = net.const(np.float32(scale)), net.const(np.int16(zero))
    return net("DequantizeLinear", net("QuantizeLinear", x, *numbers), *numbers)


def layer(net: Net, x: str, channels: int, inputs: int) -> str:
    """A convolution with weights of bytes."""
    w = net.const(net.rng.integers(-127, 128, (channels, inputs, 3, 3), np.int8))
    real = net("DequantizeLinear", w, net.rng.uniform(1e-3, 3e-3, channels).astype(F32), axis=0)
    return net("Conv", x, real, net.weight(channels), pads=[1] * 4)


def network(clamp: str, zero: int) -> bytes:
    """Two layers with a clamp behind the first, a sum, a maximum and a mean."""
    net = Net(21)
    y = stored(net, layer(net, stored(net, net.input("x", (2, 5, 7, 9)), 2**-10, zero), 12, 5), 2.7e-4, zero)
    bounds = [net.const(np.float32(-0.31)), net.const(np.float32(4.03))] if clamp == "Clip" else []
    y = stored(net, net(clamp, y, *bounds), 2.7e-4, zero)
    y = stored(net, net("Add", stored(net, layer(net, y, 12, 12), 1.3e-4, zero), y), 3.1e-4, zero)
    y = stored(net, net("MaxPool", y, kernel_shape=[2, 2]), 3.1e-4, zero)
    net.output(stored(net, net("GlobalAveragePool", y), LAST, zero))
    return net.bytes()


@pytest.mark.parametrize("isa", TIERS)
@pytest.mark.parametrize("clamp, zero", [("Relu", 0), ("Clip", 0), ("Clip", -1200)])
def test_words_are_rounded_and_limited(isa: str, clamp: str, zero: int) -> None:
    source = network(clamp, zero)
    model = fg.load(source, threads=1, isa=isa)
    with without("words"):
        expected = fg.load(source, threads=1, isa=isa)
    changes = [sum(step.node.op == "requantize" for step in m.plan.program.steps) for m in (model, expected)]
    assert changes[0] <= 4 < changes[1]
    for seed, size in enumerate((0.1, 1.0, 8.0, 60.0)):
        x = (np.random.default_rng(seed).normal(size=(2, 5, 7, 9)) * size).astype(F32)
        assert np.abs(model(x).astype(np.float64) - expected(x)).max() <= 2.01 * LAST


def drawn(seed: int) -> tuple[bytes, float]:
    """A network of values of 16 bits, some of which several nodes read; how far off its result may be, where each
    rounding may go the other way.
    """
    net, r = Net(21), random.Random(f"words {seed}")
    net.rng = np.random.default_rng(seed)
    numbers = 1e-3, 0
    made = [(stored(net, net.input("x", (1, 6, 5, 7)), *numbers), 0.0)]
    for _ in range(r.randrange(3, 9)):
        (x, off), (other, more) = made[-r.choice((1, 1, 1, 2)) :][0], r.choice(made)
        op = r.choice(("Conv", "Conv", "Relu", "Clip", "Add", "Sub", "Max", "MaxPool", "Concat", "Tanh", "Abs", "Neg"))
        if op == "Conv":
            w = net.const(net.rng.integers(-127, 128, (6, 6, 3, 3), np.int8))
            w = net("DequantizeLinear", w, np.full(6, 1 / (54 * 127), F32), axis=0)
            y = net(op, x, w, net.weight(6), pads=[1] * 4)
        elif op in ("Add", "Sub", "Max"):
            y, off = net(op, x, other), off + more
        elif op == "Concat":
            halves = [net("Slice", v, [a], [a + 3], [1])
                      for v, a in ((x, 0), (other, 3))]  # fmt: skip
            y, off = net(op, *halves, axis=1), max(off, more)
        elif op == "MaxPool":
            y = net(op, x, kernel_shape=[3, 3], pads=[1] * 4)
        else:
            y = net(op, x, *[net.const(np.float32(n)) for n in (-0.4, 0.7)][: 2 * (op == "Clip")])
        if op not in ("Relu", "Clip") or r.random() < 0.2:  # clamps of the same scale join what they read
            numbers = r.choice((1e-3, 3.1e-4, 4e-5)), r.choice((0, 0, -1200))
        made.append((stored(net, y, *numbers), off + numbers[0]))
    net.output(made[-1][0])
    return net.bytes(), made[-1][1]


@pytest.mark.parametrize("seed", range(60))
def test_random_networks_agree_with_stored_words(seed: int) -> None:
    source, off = drawn(seed)
    isa = TIERS[seed % len(TIERS)]
    model = fg.load(source, threads=1 + seed % 3, isa=isa)
    with without("words"):
        expected = fg.load(source, threads=1, isa=isa)
    for size in (0.2, 1.0, 30.0):
        x = (np.random.default_rng(seed).normal(size=(1, 6, 5, 7)) * size).astype(F32)
        assert np.abs(model(x).astype(np.float64) - expected(x)).max() <= 1.01 * off + 1e-5


def drawn_flat(seed: int) -> tuple[bytes, float]:
    """As `drawn`, of TensorFlow Lite's operators, whose clamps stand alone or in layers; off by units of the result."""
    m, r, rng = Model(), random.Random(f"flat {seed}"), np.random.default_rng(seed)
    shape, numbers = (1, 4, 5, 3), (3e-5, 0)
    made = [(m.input(shape, np.int16, numbers), 0.0)]
    for _ in range(r.randrange(3, 8)):
        (x, off), (other, more) = made[-1], r.choice(made)
        op = r.choice(("CONV_2D", "CONV_2D", "RELU", "RELU_N1_TO_1", "RELU6", "ADD", "TANH", "ABS"))
        if op == "CONV_2D":
            numbers = r.choice((3e-5, 6e-5)), 0
            w = m.const(rng.integers(-127, 128, (3, 1, 1, 3), np.int8), quant=(1 / (3 * 127), 0))
            act = r.choice(("NONE", "RELU", "RELU_N1_TO_1"))
            options = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "fused_activation_function": act}
            inputs = [x, w, None]
        elif op == "ADD":
            inputs, options, off, numbers = [x, other], {}, off + more, (6e-5, 0)
        else:
            inputs, options = [x], {}
            numbers = (1 / 32768, 0) if op == "TANH" else numbers
        made.append((m.op(op, inputs, [(shape, np.int16, numbers)], **options)[0], off + numbers[0]))
    return m.bytes([made[-1][0]]), made[-1][1] / numbers[0]


@pytest.mark.parametrize("seed", range(60))
def test_random_flat_networks_agree_with_stored_words(seed: int) -> None:
    source, off = drawn_flat(seed)
    isa, fed = TIERS[seed % len(TIERS)], np.random.default_rng(seed).integers(-32768, 32768, (1, 4, 5, 3), np.int16)
    with without("words"):
        expected = fg.load(source, threads=1, isa=isa)(fed)
    assert np.abs(fg.load(source, threads=1 + seed % 3, isa=isa)(fed).astype(int) - expected).max() <= off + 1


def test_random_networks_have_words() -> None:
    found = 0
    for seed in range(12):
        source, _ = drawn(seed)
        with without("words"):
            stored_ones = len(fg.load(source, threads=1).plan.program.steps)
        found += len(fg.load(source, threads=1).plan.program.steps) != stored_ones
    assert found >= 6


def test_what_may_be_no_number_stays_stored() -> None:
    net = Net(21)
    net.output(net("Neg", stored(net, net("Log", stored(net, net.input("x", (4,)), 0.01)), 0.01)))
    model, x = net.load(threads=1), np.array([-1, 0.5, 1, 2], F32)
    with without("words"):
        np.testing.assert_array_equal(model(x), net.load(threads=1)(x))
    assert any(step.node.op == "requantize" for step in model.plan.program.steps)


def test_long_chains_of_reals() -> None:
    net = Net()
    y = stored(net, net.input("x", (4,)), 0.01)
    for n in range(1500):
        y = net("Add", y, np.full(4, n % 3 - 1, F32))
    net.output(net("Neg", stored(net, y, 0.01)))
    np.testing.assert_allclose(fg.load(net.bytes(), threads=1)(np.full(4, 1.5, F32)), -1.5, atol=1e-4)


def test_both_bounds_hold_of_clamps_in_a_row() -> None:
    m, rng = Model(), np.random.default_rng(0)
    x, shape, quant = m.input((1, 4, 4, 3), np.int16, (1e-3, 0)), (1, 4, 4, 3), (2e-4, 0)

    def convolved(y: int, clamp: str) -> int:
        w = m.const(rng.integers(-127, 128, (3, 1, 1, 3), np.int8), quant=(0.01, 0))
        bias = m.const(np.zeros(3, np.int64), quant=(1e-5, 0))
        options = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "fused_activation_function": clamp}
        return m.op("CONV_2D", [y, w, bias], [(shape, np.int16, quant)], **options)[0]

    (y,) = m.op("RELU", [convolved(x, "RELU_N1_TO_1")], [(shape, np.int16, quant)])
    data = m.bytes([convolved(y, "NONE")])
    fed = rng.integers(-9000, 9000, shape, np.int16)
    with without("words"):
        expected = fg.load(data, threads=1)(fed)
    assert np.abs(fg.load(data, threads=1)(fed).astype(int) - expected).max() <= 2
