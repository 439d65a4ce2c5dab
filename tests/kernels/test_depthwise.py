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
from fastgraph.kernels.window.pick import Window, pick_depthwise, plan_depthwise, window_args
from tests.kernels.harness import each_tier, run
from tests.kernels.windows import Case, cases, draws, outputs, padded_taps, pixels

CHAINS: tuple[tuple[tuple, tuple[str, ...]], ...] = (
    ((("add", 0, 1), ("mul", 4, 2), ("add", 5, 3)), ("full", "image", "channel")),
    ((("mul", 0, 1), ("sigmoid", 2), ("mul", 2, 3)), ("scalar",)),
)
"""The last is too dear to be unrolled."""


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
    chain: Any = (),
    extras: Any = (),
    operands: Any = (),
    multiplier: int = 1,
    threads: int = 1,
) -> Any:
    g = case.window
    if case.general:
        name, params = "depthwise_any", {"multiplier": multiplier, "chain": chain, "extras": extras}
    else:
        name, params = plan_depthwise(tier, g, multiplier, chain, extras)
        # Few kernels to compile, and rows that tiles don't divide.
        params["tile"] = 4 + 3 * (g.out[2] % 2)
    y, ldx = outputs(g, case.gap), x.shape[-1] + case.gap
    memory = {"x": pixels(x, case.gap), "y": y, "weights": weights, "bias": bias}
    record = row(name).args.filled(
        **window_args(tier, name, params, g, threads), **memory, ldx=ldx, ldy=y.shape[-1]
    )  # fmt: skip
    written = run(row(name), params, [*record, *(slot for o in operands for slot in o)], tier, threads)[1]
    assert (written[..., g.channels :] == 7).all()
    return written[..., : g.channels]


def operand(kind: str, g: Window, rng: np.random.Generator) -> tuple[Any, tuple[Any, int, int]]:
    """(array that broadcasts to y, its part of the record)."""
    c, area = g.channels, int(np.prod(g.out))
    if kind == "full":
        a = rng.standard_normal((g.images, *g.out, c + 3)).astype(np.float32)
        return a[..., :c], (a, area * (c + 3), c + 3)
    a = rng.standard_normal({"image": (g.images, 1, 1, 1, c), "channel": (c,), "scalar": (1,)}[kind]).astype(np.float32)
    return a, (a, c if kind == "image" else 0, 0)


@each_tier
@pytest.mark.parametrize("kernel", [(3, 3, 1, 1, 1), (3, 3, 2, 2, 1), (5, 4, 2, 1, 2), (1, 3, 1, 3, 1)], ids=str)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_fast_kernels(tier: Any, kernel: Any, data: Any) -> None:
    kh, kw, sh, sw, dilation = kernel
    check(tier, data.draw(cases(tier.lanes, (1, kh, kw), (1, sh, sw), dilation)))


@each_tier
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_kernel(tier: Any, data: Any) -> None:
    multiplier = data.draw(st.sampled_from([1, 1, 3, 19]))
    case = data.draw(cases(tier.lanes, multiplier=multiplier))
    check(tier, case, multiplier)


@each_tier
@pytest.mark.parametrize(("chain", "extras"), CHAINS, ids=["three_extras", "dear"])
def test_epilogue(tier: Any, chain: Any, extras: Any) -> None:
    for size, dilation, channels in (((1, 5, 9), 1, 128), ((1, 9, 20), 2, 19)):
        out = tuple(n if i == 0 else n + 2 - 2 * dilation for i, n in enumerate(size))
        g = Window(2, channels, size, (1, 3, 3), out, dilations=(1, dilation, dilation), pads=(0, 1, 1))
        check(tier, Case(g, 2, 5, dilation == 2), 1, chain, extras)


def check(tier: Any, case: Case, multiplier: int = 1, chain: Any = (), extras: Any = ()) -> None:
    g = case.window
    rng, x = draws(case, g.channels // multiplier)
    weights = rng.standard_normal((*g.kernel, g.channels)).astype(np.float32)
    bias = rng.standard_normal(g.channels).astype(np.float32)
    values, operands = zip(*(operand(kind, g, rng) for kind in extras), strict=True) if extras else ((), ())
    want = eval_chain(chain, [expected(case, multiplier, x, weights, bias), *(v.astype(float) for v in values)])
    results = [compute(tier, case, x, weights, bias, chain, extras, operands, multiplier, n) for n in (1, 3)]
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


def test_tiles_divide_common_maps() -> None:
    tier = tiers.BY_NAME["avx512"]
    for ow, tile in ((112, 7), (7, 7), (8, 8), (80, 8), (10, 5), (1, 7)):
        picked = pick_depthwise(tier, 3, 3, 1, 1, ow, 96)
        assert picked is not None and picked["tile"] == tile, ow
    assert pick_depthwise(tier, 33, 33, 1, 1, 14, 96) is None
