"""Depthwise convolution kernels against sums in f64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.core.table import row
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.pointwise.chain import eval_chain
from fastgraph.kernels.pointwise.rows import NO_EPILOGUE
from fastgraph.kernels.window.pick import Window, depthwise_any, depthwise_tiles, window_args
from tests.kernels.harness import each_tier, run
from tests.kernels.windows import Case, cases, draws, endings, outputs, padded_taps, pixels


def expected(case: Case, multiplier: int, x: Any, weights: Any, bias: Any) -> Any:
    total = np.zeros((case.window.images, *case.window.out, case.window.channels))
    for index, part, inside in padded_taps(case, x):
        total += np.where(inside, np.repeat(part, multiplier, -1), 0) * weights[index]
    return total + bias


def compute(
    tier: Any,
    case: Case,
    x: Any,
    weights: Any,
    bias: Any,
    ending: Any = NO_EPILOGUE,
    multiplier: int = 1,
    threads: int = 1,
) -> Any:
    g = case.window
    tiles = depthwise_tiles(tier, g) if multiplier == 1 else None
    name, params = ("depthwise", tiles) if tiles else ("depthwise_any", depthwise_any(tier, g, multiplier))
    if case.general:
        name, params = "depthwise_any", {"vectors": 1 + case.seed % 2 * (multiplier == 1), "repeated": multiplier > 1}
    y, ldx = outputs(g, case.gap), x.shape[-1] + case.gap
    memory = {"x": pixels(x, case.gap), "y": y, "weights": weights, "bias": bias}
    slots = {**window_args(tier, name, params, g, threads), **memory, "ldx": ldx, "ldy": y.shape[-1], **ending}
    if name == "depthwise_any":
        slots["multiplier"] = multiplier
    written = run(row(name), params, row(name).args.filled(**slots), tier, threads)[1]
    assert (written[..., g.channels :] == 7).all()
    return written[..., : g.channels]


@each_tier
@pytest.mark.parametrize("kernel", [(3, 1), (3, 2), (5, 1), (5, 2), (7, 1)], ids=str)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_bodies(tier: Any, kernel: Any, data: Any) -> None:
    size, stride = kernel
    case = data.draw(cases(tier.lanes, (1, size, size), (1, stride, stride)))
    assert depthwise_tiles(tier, case.window)
    check(tier, case)


FLAT = [
    (5, 4, 2, 1, 2), (1, 5, 1, 1, 1), (9, 1, 1, 1, 2), (3, 3, 1, 1, 2), (2, 3, 1, 2, 2), (3, 3, 3, 2, 3),
    (1, 7, 2, 1, 3), (4, 1, 1, 3, 1), (6, 5, 1, 2, 3), (4, 3, 2, 2, 1), (2, 3, 1, 3, 3), (1, 3, 1, 4, 2),
    (3, 5, 2, 3, 1),
]  # fmt: skip
"""k_h, k_w, stride_y, stride_x, dilation: in tiles, their outputs neighbors or apart, and not."""


@each_tier
@pytest.mark.parametrize("kernel", FLAT, ids=str)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_other_flat_windows(tier: Any, kernel: Any, data: Any) -> None:
    k_h, k_w, stride_y, stride_x, dilation = kernel
    check(tier, data.draw(cases(tier.lanes, (1, k_h, k_w), (1, stride_y, stride_x), dilation)))


@each_tier
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_window(tier: Any, data: Any) -> None:
    multiplier = data.draw(st.sampled_from([1, 1, 2, 3, 19]))
    case = data.draw(cases(tier.lanes, multiplier=multiplier))
    check(tier, case, multiplier)


@each_tier
@pytest.mark.parametrize("ending", ["bounds", "addend", "chain", "sigmoid_mul", "swish"])
def test_epilogue(tier: Any, ending: str) -> None:
    for size, dilation, channels in (((1, 5, 9), 1, 128), ((1, 9, 20), 2, 19)):
        out = tuple(n if i == 0 else n + 2 - 2 * dilation for i, n in enumerate(size))
        g = Window(2, channels, size, (1, 3, 3), out, dilations=(1, dilation, dilation), pads=(0, 1, 1))
        for seed in (4, 5):
            check(tier, Case(g, 2, seed, dilation == 2), 1, ending)


def check(tier: Any, case: Case, multiplier: int = 1, ending: str = "none") -> None:
    g = case.window
    rng, x = draws(case, g.channels // multiplier)
    weights = rng.standard_normal((*g.kernel, g.channels)).astype(np.float32)
    bias = rng.standard_normal(g.channels).astype(np.float32)
    chain, operands, slots = endings(tier, g, rng)[ending]
    want = eval_chain(chain, [expected(case, multiplier, x, weights, bias), *(a.astype(float) for a in operands)])
    results = [compute(tier, case, x, weights, bias, slots, multiplier, n) for n in (1, 3)]
    np.testing.assert_allclose(results[0], want, rtol=1e-5, atol=3e-5)
    assert results[0].tobytes() == results[1].tobytes()


@each_tier
def test_padding_multiplies_nothing(tier: Any) -> None:
    """An infinite weight on a tap that only ever meets padding leaves no trace."""
    g = Window(1, 5, (1, 1, 9), (1, 3, 3), (1, 1, 9), pads=(0, 1, 1))
    weights = np.ones((1, 3, 3, 5), np.float32)
    weights[0, 0] = np.inf
    y = compute(tier, Case(g), np.ones((1, 1, 1, 9, 5), np.float32), weights, np.zeros(5, np.float32))
    assert y[0, 0, 0, :, 0].tolist() == [2, 3, 3, 3, 3, 3, 3, 3, 2]


@pytest.mark.parametrize("general", [False, True])
def test_empty_tensors(general: bool) -> None:
    tier = tiers.choose()
    for images, height in ((0, 4), (2, 0)):
        g = Window(images, 5, (1, height, 9), (1, 3, 3), (1, height, 9), pads=(0, 1, 1))
        x = np.zeros((images, 1, height, 9, 5), np.float32)
        y = compute(tier, Case(g, 0, 0, general), x, np.ones((1, 3, 3, 5), np.float32), np.ones(5, np.float32))
        assert y.size == 0


def test_windows_of_one_column_see_pixels_in_one_row() -> None:
    g = Window(2, 5, (1, 30, 4), (1, 9, 1), (1, 26, 4), dilations=(1, 2, 1), pads=(0, 6, 0), ends=(0, 6, 0))
    flat = g.flattened()
    assert (flat.size, flat.kernel, flat.out) == ((1, 1, 120), (1, 1, 9), (1, 1, 104))
    assert (flat.dilations, flat.pads, flat.ends) == ((1, 1, 8), (0, 0, 24), (0, 0, 24))


def test_tiles_divide_common_maps() -> None:
    tier = tiers.BY_NAME["avx512"]
    for out_w, tile in ((112, 7), (7, 7), (8, 8), (80, 8), (1, 7)):
        window = Window(1, 96, (1, out_w, out_w), (1, 3, 3), (1, out_w, out_w), pads=(0, 1, 1))
        params = depthwise_tiles(tier, window)
        assert params and params["tile"] == tile, out_w
