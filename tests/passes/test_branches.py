"""Sums of convolutions of one value: random ones, against onnxruntime and against their being left apart."""

import random
from collections.abc import Callable

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.freedoms import without
from tests.nets import F32, Net, assert_close, by_onnxruntime


def norm(net: Net, x: str, c: int) -> str:
    ones = net.const(np.ones(c, F32))
    return net("BatchNormalization", x, net.rng.uniform(0.5, 1.5, c).astype(F32), *(net.weight(c),) * 2, ones)


def conv(net: Net, x: str, c: int, n: int, kernel: int, groups: int = 1, stride: int = 1, dilation: int = 1) -> str:
    pad = (kernel - 1) // 2 * dilation
    more = {"group": groups, "strides": [stride] * 2, "dilations": [dilation] * 2, "pads": [pad] * 4}
    bias = [net.weight(n)] if net.rng.random() < 0.5 else []
    return net("Conv", x, net.weight(n, c // groups, kernel, kernel), *bias, **more)


def start(net: Net, c: int) -> str:
    return net("Relu", conv(net, net.input("x", (2, 3, 9, 8)), 3, c, 3))


def summed(net: Net, parts: list[str]) -> str:
    total = parts[0]
    for part in parts[1:]:
        total = net("Add", *((total, part) if net.rng.random() < 0.5 else (part, total)))
    return total


def convolutions(model: fg.Model) -> int:
    return sum(node.op == "conv" for node in model.plan.graph.nodes)


def mobileone(net: Net, x: str) -> str:
    for groups in (8, 1):
        x = norm(net, net("Relu", summed(net, [
            *(norm(net, conv(net, x, 8, 8, 3 if groups > 1 else 1, groups), 8) for _ in range(3)),
            norm(net, conv(net, x, 8, 8, 1, groups), 8),
            norm(net, x, 8),
        ])), 8)  # fmt: skip
    return x


def repvgg(net: Net, x: str) -> str:
    y = net("Relu", summed(net, [norm(net, conv(net, x, 8, 8, k, 2), 8) for k in (3, 1)] + [norm(net, x, 8)]))
    return summed(net, [conv(net, y, 8, 12, k, stride=2) for k in (3, 1)])


def repvit(net: Net, x: str) -> str:
    mixed = summed(net, [norm(net, conv(net, x, 8, 8, 3, 8), 8), conv(net, x, 8, 8, 1, 8), x])
    return net("Add", conv(net, net("Relu", conv(net, norm(net, mixed, 8), 8, 16, 1)), 16, 8, 1), mixed)


@pytest.mark.parametrize(("block", "count"), [(mobileone, 3), (repvgg, 3), (repvit, 4)])
def test_blocks_that_are_trained_with_branches(block: Callable[[Net, str], str], count: int) -> None:
    """As many convolutions are left as the block has when its branches are one."""
    net = Net()
    net.output(block(net, start(net, 8)))
    assert convolutions(net.agrees()) == count


def random_branches(seed: int) -> Net:
    r, net = random.Random(f"branches {seed}"), Net(seed=seed)
    c = r.choice((4, 8, 12))
    x, stride = start(net, c), r.choice((1, 1, 2))
    n = r.choice((c, c, 2 * c))
    parts = []
    for _ in range(r.choice((2, 3, 4))):
        kernel, groups = r.choice((1, 3, 3, 5)), r.choice([g for g in (1, 2, 4, c) if c % g == n % g == 0])
        y = conv(net, x, c, n, kernel, groups, stride, r.choice((1, 1, 2)))
        y = norm(net, y, n) if r.random() < 0.4 else y
        parts.append(net("Relu", y) if r.random() < 0.1 else y)
    if n == c and stride == 1 and r.random() < 0.6:
        parts.append(r.choice([x, norm(net, x, c), net("Mul", x, net.weight(c, 1, 1))]))
    r.shuffle(parts)
    y = summed(net, parts)
    net.output(r.choice([y, net("Relu", y), norm(net, y, n)]), *r.sample(parts, r.random() < 0.2))
    return net


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_random_sums(first: int) -> None:
    fewer = 0
    for seed in range(first, first + 30):
        net = random_branches(seed)
        model = net.load(isa="generic")
        feeds = {"x": np.random.default_rng(seed).standard_normal(model.inputs[0].shape).astype(F32)}
        found = list(model.run(feeds).values())
        assert_close(found, by_onnxruntime(net.bytes(), feeds), 1e-4, f"seed {seed}")
        with without("parallel_convolutions"):
            apart = net.load(isa="generic")
        assert_close(found, list(apart.run(feeds).values()), 1e-4, f"seed {seed}")
        fewer += convolutions(model) < convolutions(apart)
    assert fewer > 5


def test_a_branch_that_somebody_else_reads_stays() -> None:
    net = Net()
    x = start(net, 8)
    a, b = conv(net, x, 8, 8, 3), conv(net, x, 8, 8, 1)
    net.output(net("Add", a, b), a)
    assert convolutions(net.agrees()) == 3


def test_a_window_of_each_channel_does_not_become_one_of_all() -> None:
    net = Net()
    x = start(net, 8)
    net.output(net("Add", conv(net, x, 8, 8, 5, 8), conv(net, x, 8, 8, 1)))
    assert convolutions(net.agrees()) == 3


def test_a_single_number_beside_one_channel() -> None:
    net = Net()
    x = net.input("x", (1, 1, 5, 4))
    net.output(net("Add", net("Mul", x, 0.5), net("Conv", x, net.weight(1, 1, 1, 1))))
    net.agrees()
