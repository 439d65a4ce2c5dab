"""winograd against float64 NumPy: any map and padding, extras, every tier, guarded memory; what is chosen when."""

from itertools import product
from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume

from fastgraph.kernels.core.table import row
from fastgraph.kernels.gemm.pack_winograd import pack_winograd, transforms
from fastgraph.kernels.gemm.pick_conv import Geometry, plain_cycles
from fastgraph.kernels.gemm.pick_dot import beats
from fastgraph.kernels.gemm.pick_winograd import (
    GAIN,
    MOST_CHANNELS,
    WIDE,
    best_winograd,
    pick_winograd,
    reading_times,
    winograd_form,
)
from fastgraph.kernels.isa import tiers
from tests.kernels.geometries import reference, square, strided
from tests.kernels.harness import drawn, each_tier, noise, run
from tests.kernels.walking import Ending
from tests.nets import Net, assert_close, by_onnxruntime

WINOGRAD = row("winograd")


def check(tier: Any, g: Geometry, m: int, end: str = "bounds", l2: int = 1 << 20, wide: int = WIDE) -> float:
    """The largest error as a part of the largest sum of magnitudes, on random data, with or without a bias."""
    n, c = g.groups * g.n, g.groups * g.c
    bias = noise(n) if end != "plain" else None
    x, w = noise(g.images, *g.size, g.x_strides[3]), noise(n, *g.kernel, g.c)
    form = winograd_form(g, wide)
    assert form is not None
    ending, results = Ending(tier, end, (g.images, prod(g.out), n)), []
    for threads in (1, 2, 3, 4):
        choice = pick_winograd(tier, form, m, threads, l2)
        own = w.reshape(g.groups, g.n, *form.g.kernel, g.c)
        packed = pack_winograd(own, bias, m, form.tall, choice.nv, tier.lanes)
        y = np.full((g.images, *g.out, n + 2), 7, np.float32)
        scratch = np.full(choice.scratch * threads // 4, np.nan, np.float32)
        memory = {"x": x, "w": packed, "y": y, "ldy": n + 2, "scratch": scratch}
        record = WINOGRAD.args.filled(**choice.fields, **memory, **ending.slots)
        results.append(run(WINOGRAD, choice.params, record, tier, threads)[2])
    y = results[0]
    assert len({each.tobytes() for each in results}) == 1 and (y[..., n:] == 7).all()
    expected = ending.of(reference(x[..., :c], w, g) + (0 if bias is None else bias))
    magnitude = reference(abs(x[..., :c]), abs(w), g).max()
    return float(abs(y[..., :n] - expected).max() / magnitude)


KINDS = {
    "square": ((1, 1), (3, 3), (3, 3)), "any": ((1, 3), (2, 7), (2, 5)), "column": ((1, 2), (2, 7), (1, 1)),
    "row": ((1, 1), (1, 1), (2, 9)), "slices": ((2, 5), (1, 1), (1, 1)),
}  # fmt: skip
"""The least and the greatest extent of a kernel, by the axes that it has."""


def geometry(pick: Random, n: int, kind: str) -> Geometry:
    c, images, groups = pick.randint(1, 20), pick.randint(1, 3), pick.choice((1, 1, 3))
    deep, high, wide = (pick.randint(*ends) for ends in KINDS[kind])
    dilations = (pick.randint(1, 2), 1, pick.randint(1, 4)) if kind == "row" else (1, 1, 1)
    strides = (pick.randint(1, 2) if high > 1 or kind == "row" else 1, 1, 1)
    size, out, pads = [], [], []
    for axis, (k, dilation, stride) in enumerate(zip((deep, high, wide), dilations, strides, strict=True)):
        span = (k - 1) * dilation
        pad, after = dilation * pick.randint(0, k - 1), pick.randint(0, span)
        least = max(1, span + 1 - pad - after)
        most = {"row": 40, "slices": 6}.get(kind, 11) if axis == 2 else 11 if axis else 4 + 7 * (kind == "slices")
        extent = 1 if (kind == "row" and axis == 1) else pick.randint(least, max(least, most))
        size.append(extent)
        pads.append(pad)
        out.append((extent + pad + after - span - 1) // stride + 1)
    sizes, kernel = (images, groups, c, n), (deep, high, wide)
    where = [(d, h, w) for d, h, w in (size, out, pads)]
    g = Geometry(*sizes, where[0], kernel, where[1], (0, 0, 0, 0), strides, dilations, where[2])
    return strided(g, 0 if kind == "row" and size[2] % dilations[2] else pick.randint(0, 2))


SLOW = [pytest.param(*case, marks=pytest.mark.slow) for case in product(KINDS, (2, 4)) if case != ("any", 4)]


@each_tier
@pytest.mark.parametrize(("kind", "m"), [("any", 4), *SLOW])
@drawn(20)
def test_any_map(tier: Any, kind: str, m: int, pick: Random) -> None:
    n, end = pick.choice(((3, "plain"), (18, "bounds"), (18, "addend"), (18, "all")))
    g = geometry(pick, n, kind)
    assume(winograd_form(g, 6) is not None)
    error = check(tier, g, m, end, pick.choice((1, 1 << 20)), 6)
    assert error < (1e-6 if m == 2 else 4e-6)  # of 300 random maps the worst made 2.6e-7 and 1.3e-6


def test_what_it_can_compute() -> None:
    def form(**other: Any) -> Any:
        return winograd_form(square(64, 64, 56, 3, 1, 1)._replace(**other))

    assert form() is not None and not form().tall
    assert form(strides=(1, 2, 2)) is form(dilations=(1, 2, 2)) is None
    assert form(kernel=(1, 3, 1), out=(1, 56, 56), pads=(0, 1, 0)).tall
    assert form(kernel=(1, 1, 3)) is None  # rows of a map
    slices = form(size=(9, 20, 30), kernel=(3, 1, 1), out=(9, 20, 30), pads=(1, 0, 0),
                  x_strides=(9 * 20 * 30 * 64, 20 * 30 * 64, 30 * 64, 64))  # fmt: skip
    assert slices.g.out == (5, 9, 120) and slices.y == (120, 600)
    row = Geometry(1, 1, 16, 16, (1, 1, 50), (1, 1, 3), (1, 1, 50), (800, 800, 800, 16), dilations=(1, 1, 4))
    assert winograd_form(row._replace(pads=(0, 0, 4))).lacking == 2
    assert winograd_form(row._replace(pads=(0, 0, 5))) is None
    slices = row._replace(size=(4, 1, 50), out=(4, 1, 50), x_strides=(3200, 800, 800, 16), pads=(0, 0, 4))
    assert winograd_form(slices).g.out == (4, 13, 4)  # rows of several slices


@pytest.mark.slow
def test_error_in_relation_to_the_largest_output() -> None:
    tier, g = tiers.usable()[-1], square(MOST_CHANNELS, 32, 14, 3, 1, 1)
    x, w = noise(g.images, *g.size, g.c), noise(g.n, 1, 3, 3, g.c)
    ratio = reference(abs(x), abs(w), g).max() / abs(reference(x, w, g)).max()
    for m, limit in ((2, 1.5e-6), (4, 5e-6)):
        assert check(tier, g, m, "plain") * ratio < limit


@pytest.mark.parametrize("m", [2, 4])
def test_transforms(m: int) -> None:
    """They make a correlation, and those that work in f32 hold no entry that f32 rounds."""
    tile, kernel, output = (np.array(matrix) for matrix in transforms(m))
    x, w = np.random.default_rng(m).standard_normal((2, m + 2, m + 2))
    w = w[:3, :3]
    y = output @ ((tile @ x @ tile.T) * (kernel @ w @ kernel.T)) @ output.T
    expected = [[(x[i : i + 3, j : j + 3] * w).sum() for j in range(m)] for i in range(m)]
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-13)
    assert all((matrix == matrix.astype(np.float32)).all() for matrix in (tile, output))


def chosen(tier: Any, g: Geometry, largest: int = 4) -> int | None:
    """The m that beats the plain sum."""
    found = best_winograd(tier, g, largest)
    plain = reading_times(plain_cycles(tier, g), g.k * g.n)
    return found[1] if found and beats(found[2], plain, GAIN) else None


def test_chosen_where_it_saves_time() -> None:
    """The larger m has more weights to read: with few tiles to share them it is the slower one."""
    wide = tiers.BY_NAME["avx512"]
    best = {(64, 64, 56): 4, (3, 64, 56): None, (64, 64, 1): None, (512, 512, 7): 2, (512, 512, 3): None}
    best |= {(12, 12, 56): 4, (11, 12, 56): None}
    for (c, n, size), m in {**best, (MOST_CHANNELS + 1, 256, 56): 2}.items():
        assert chosen(wide, square(c, n, size, 3, 1, 1)) == m
    assert chosen(wide, square(64, 64, 56, 3, 1, 1), largest=2) == 2
    assert chosen(tiers.BY_NAME["generic"], square(64, 64, 56, 3, 1, 1)) == 4
    assert chosen(wide, square(32, 32, 56, 5, 1, 2)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("n", [8, 64])
def test_groups(n: int) -> None:
    """Those of few output channels become one with zeros among its weights, which winograd then computes."""
    net = Net()
    x = net.input("x", (1, 64, 40, 40))
    net.output(net("Conv", x, net.weight(n, 32, 3, 3), net.weight(n), group=2, pads=[1] * 4))
    model, value = net.load(), noise(1, 64, 40, 40)
    assert "winograd" in {step.kernel.name for step in model.plan.program.steps}
    assert_close([model(value)], by_onnxruntime(net.bytes(), {"x": value}))


NETS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "batch": ((5, 64, 7, 7), {"kernel_shape": [3, 3], "pads": [1] * 4}),
    "less than a vector": ((1, 12, 30, 31), {"kernel_shape": [3, 3], "pads": [1] * 4}),
    "larger": ((2, 32, 20, 23), {"kernel_shape": [5, 4], "pads": [2, 1, 2, 2]}),
    "row": ((2, 64, 203), {"kernel_shape": [3], "pads": [1, 1]}),
    "causal": ((1, 64, 203), {"kernel_shape": [3], "pads": [16, 0], "dilations": [8]}),
    "long": ((1, 64, 150), {"kernel_shape": [9], "pads": [4, 4]}),
    "column": ((2, 64, 30, 11), {"kernel_shape": [3, 1], "pads": [1, 0, 1, 0]}),
    "rows": ((2, 64, 4, 1, 50), {"kernel_shape": [1, 1, 3], "pads": [0, 0, 1, 0, 0, 1]}),
    "slices": ((2, 64, 16, 5, 5), {"kernel_shape": [3, 1, 1], "pads": [1, 0, 0, 1, 0, 0]}),
    "volume": ((2, 32, 6, 9, 10), {"kernel_shape": [3, 3, 3], "pads": [1] * 6, "strides": [2, 1, 1]}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_in_networks(name: str) -> None:
    """With an operand for each result after it, and a value for each channel of an image."""
    net, (shape, attrs) = Net(), NETS[name]
    x = net.input("x", shape)
    w = net.weight(64, shape[1], *attrs["kernel_shape"])
    y = net("Conv", x, w, net.weight(64), **attrs)
    gate = net("Sigmoid", net("GlobalAveragePool", x))
    other = net("Conv", gate, net.weight(64, shape[1], *[1] * (len(shape) - 2)))
    net.output(net("Relu", net("Mul", net("Add", y, net("Conv", net("Abs", x), w, **attrs)), other)))
    model, value = net.load(precision="float32-fma"), noise(*shape)
    kernels = [step.kernel.name for step in model.plan.program.steps]
    assert kernels.count("winograd") == 2
    assert_close([model(value)], by_onnxruntime(net.bytes(), {"x": value}))
