"""Convolutions of few output channels, whose neighbors in a row are computed together, against onnxruntime."""

from random import Random
from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.gemm.pick_conv import Geometry, pixels_together, split_row, widened
from fastgraph.kernels.gemm.rows import CONV_F32 as ROW
from fastgraph.kernels.isa import tiers
from fastgraph.plan.program import Step
from tests.kernels.harness import drawn
from tests.nets import F32, Net
from tests.plan.computed import ENDS


@drawn(60)
def test_any(pick: Random) -> None:
    rank, net, c, n = pick.randint(1, 3), Net(seed=pick.randint(0, 99)), pick.randint(1, 9), pick.randint(1, 8)
    kernel, pads, shape = [pick.randint(1, 7) for _ in range(rank)], [], [pick.randint(1, 2), c]
    for k in kernel:
        most = k - 1 + pick.choice((0, 4))
        before, after = pick.randint(0, most), pick.randint(0, most)
        shape.append(pick.randint(max(k - before - after, 1), 90 if rank == 1 else 19))
        pads.append((before, after))
    bias = [net.weight(n)] if pick.choice((False, True)) else []
    attrs = {"strides": [pick.randint(1, 3) for _ in kernel], "pads": [p[end] for end in (0, 1) for p in pads]}
    y = net("Conv", net.input("x", shape), net.weight(n, c, *kernel), *bias, **attrs)
    ending = pick.choice(("", "Relu", "Sigmoid", "Mul", "Concat"))
    if ending == "Mul":
        y = net("Mul", y, net.weight(n, *[1] * rank))
    elif ending == "Concat":
        y = net("Concat", y, net("Relu", y), axis=1)
    elif ending:
        y = net(ending, y)
    net.output(y)
    net.agrees(isa=pick.choice(ENDS).name, threads=pick.randint(1, 2))


@pytest.mark.parametrize("width", (64, 65, 67, 4001))
@pytest.mark.parametrize("stride", (1, 2))
def test_a_row_of_any_width(width: int, stride: int) -> None:
    net = Net()
    shape = (1, 2, width)
    net.output(net("Conv", net.input("x", shape), net.weight(1, 2, 40), net.weight(1), strides=[stride], pads=[6, 33]))
    convs = [step for step in net.agrees().plan.program.steps if isinstance(step, Step) and step.kernel.name == "conv"]
    widths = {step.args[list(ROW).index("n")] for step in convs}
    assert max(widths) > 1


def test_a_row_that_ends_in_padding() -> None:
    """Of more outputs than are computed together none reads the input."""
    net = Net()
    net.output(net("Conv", net.input("x", (1, 8, 50)), net.weight(3, 8, 1), net.weight(3), pads=[4, 4]))
    net.agrees()


def test_how_many_pixels() -> None:
    tier = tiers.BY_NAME["avx512"]

    def window(n: int, w: int, k: int, h: int = 8) -> Geometry:
        return Geometry(1, 1, 8, n, (1, h, w), (1, k, k), (1, h, w), (h * w * 8, h * w * 8, w * 8, 8),
                        pads=(0, k // 2, k // 2))  # fmt: skip

    assert pixels_together(tier, window(8, 64, 5)) in (2, 4)
    assert pixels_together(tier, window(1, 64, 5)) >= 8
    assert pixels_together(tier, window(16, 64, 5)) == 1
    assert pixels_together(tier, window(1, 61, 5)) == 1  # rows have no such parts
    row = window(1, 6001, 5, 1)._replace(kernel=(1, 1, 5), pads=(0, 0, 2))
    together = pixels_together(tier, row)
    first, rest, further = split_row(row, together)
    assert together > 8 and first.out[2] + rest.out[2] == 6001 and further == first.out[2] - 2
    assert widened(first, together).n == together


@pytest.mark.parametrize("tier", tiers.usable(), ids=lambda tier: tier.name)
def test_what_is_not_finite_stays_near(tier: Any) -> None:
    """As with Winograd's products, within the pixels that are computed together."""
    net = Net()
    net.output(net("Conv", net.input("x", (1, 2, 8, 64)), net.weight(1, 2, 5, 5), pads=[2, 2, 2, 2]))
    x = np.zeros((1, 2, 8, 64), F32)
    x[0, 0, 4, 40] = np.nan
    y = net.load(isa=tier.name)(x)
    assert np.isnan(y[0, 0, 2:7, 38:43]).all() and np.isfinite(y[0, 0, :2]).all() and np.isfinite(y[..., :8]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64])
@drawn(10)
def test_pads_of_single_channels_into_a_concat(dtype: Any, pick: Random) -> None:
    """Elements of a result that lies among others' are no neighbors; pads may crop and be any number."""
    net, shape = Net(), (1, 5, 9, 1)
    x, parts, rows = net.input("x", shape, dtype), [], pick.randint(4, 7)
    for _ in range(3):
        top, left = pick.randint(-2, 3), pick.randint(-2, 3)
        pads = [0, top, left, 0, 0, rows - top - 5, 8 - left - 9, 0]
        number = net.const(np.array(pick.randint(-3, 3), dtype))
        parts.append(net("Pad", x, np.array(pads, np.int64), number))
    net.output(net("Concat", *parts, axis=3), dtype=dtype)
    net.agrees(0, {"x": net.rng.integers(-99, 99, shape).astype(dtype)})
