"""The kernels of attention against the operator's reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.amx.pack_real import widened
from fastgraph.kernels.gemm.pack_bf16 import rounded
from fastgraph.kernels.isa import tiers
from tests.amx_trap import AMX, needs_amx
from tests.kernels.attending import call, meaning
from tests.kernels.harness import drawn, each_tier
from tests.kernels.test_amx_real import needs_bf16

CLOSE = 1e-5
"""Scores of 30 are rounded to 2e-6, and so are their exponentials: kernels are up to 1.2e-5 from f64, 8.5e-6 from the
reference, which is f32, too."""
each_kernel = pytest.mark.parametrize("kernel", ["attention", "attention_few"])


def operands(b: int, groups: int, share: int, s: int, t: int, d: int, e: int) -> list[np.ndarray]:
    rng = np.random.default_rng(b + groups + share + s + t + d + e)
    shapes = (b, groups * share, s, d), (b, groups, t, d), (b, groups, t, e)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def mask_of(kind: str | None, pick: Random, q: np.ndarray, t: int) -> np.ndarray | None:
    """A mask of this kind that may be the same for all images, heads or queries."""
    if kind is None:
        return None
    rng = np.random.default_rng(t)
    shape = *(pick.choice((1, n)) for n in q.shape[:3]), t
    hidden = rng.random(shape) < 0.4
    return ~hidden if kind == "bool" else np.where(hidden, -np.inf, rng.standard_normal(shape)).astype(np.float32)


def attributes(pick: Random, q: np.ndarray, b: int, t: int) -> dict[str, Any]:
    """Some of all."""
    return {
        "scale": pick.choice((0.1, 1.0, -0.4)),
        "cap": pick.choice((0.0, 0.0, 2.0)),
        "causal": pick.choice((False, True)),
        "window": (pick.randint(-1, 9), pick.randint(-1, 9)),
        "past": min(pick.choice((0, 0, 3)), t),
        "mask": mask_of(pick.choice((None, "f32", "bool")), pick, q, t),
        "valid": pick.choice((None, np.random.default_rng(t).integers(0, t + 1, b))),
    }


def apart(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(found - expected), initial=0))


@each_tier
@each_kernel
@drawn(60)
def test_all_attributes(tier: Any, kernel: str, pick: Random) -> None:
    t = pick.choice((pick.randint(0, 70), pick.randint(0, 70), 256, 300, 533))
    b, groups, share, s = pick.randint(1, 3), pick.randint(1, 3), pick.randint(1, 3), pick.randint(1, 40)
    q, k, v = operands(b, groups, share, s, t, pick.randint(1, 70), pick.randint(1, 70))
    given = attributes(pick, q, b, t)
    found = [call(kernel, tier, q, k, v, threads=threads, **given) for threads in (1, 2, 5)]
    assert apart(found[0], meaning(q, k, v, **given)) < CLOSE
    assert all(np.array_equal(found[0], other) for other in found[1:])


@each_tier
@each_kernel
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 2, 0), (2, 1, 0)])
def test_axes_lie_in_any_order(tier: Any, kernel: str, order: tuple[int, ...]) -> None:
    """And rows in wider ones."""
    dense, y = operands(2, 2, 2, 9, 33, 20, 18), np.zeros((2, 4, 9, 18), np.float32)
    for width in (20, 37):
        found = call(kernel, tier, *map(strided(order, width), dense), y=strided(order, width)(y))
        assert apart(found, meaning(*dense)) < CLOSE


def strided(order: Sequence[int], width: int) -> Callable[[np.ndarray], np.ndarray]:
    """x as a view of an array whose axes but the last lie in this order, in rows of `width`."""

    def view(x: np.ndarray) -> np.ndarray:
        wide = np.full((*(x.shape[i] for i in order), width), 7, np.float32)
        found = wide[..., : x.shape[3]].transpose(*np.argsort(order), 3)
        found[...] = x
        return found

    return view


@each_tier
@each_kernel
def test_queries_that_see_nothing(tier, kernel):
    q, k, v = operands(1, 1, 1, 3, 40, 8, 5)
    mask = np.zeros((1, 1, 3, 40), np.float32)
    mask[0, 0, 1] = -np.inf
    mask[0, 0, 2, 7] = np.nan
    found = {blind: call(kernel, tier, q, k, v, mask, blind=blind)[0, 0] for blind in ("zeros", "nan", "never nan")}
    assert np.isfinite([y[0] for y in found.values()]).all()
    assert not found["zeros"][1].any() and np.isnan(found["zeros"][2]).all()
    assert np.isnan(found["nan"][1:]).all()
    assert not found["never nan"][1:].any()


@each_tier
@each_kernel
def test_sums_shrink_as_scores_grow(tier, kernel):
    """From block to block of keys, and without overflow."""
    q, k = np.ones((1, 1, 2, 1), np.float32), np.linspace(-300, 300, 1000, dtype=np.float32).reshape(1, 1, 1000, 1)
    v = np.arange(1000, dtype=np.float32).reshape(1, 1, 1000, 1)
    for keys in (k, k[:, :, ::-1].copy(), np.full_like(k, 1e38)):
        expected = meaning(q, keys, v)
        assert apart(call(kernel, tier, q, keys, v) / expected, np.ones_like(expected)) < 1e-5


# -- products of bf16

needs_pairs = pytest.mark.skipif(
    tiers.BY_NAME["avx512"] not in tiers.usable() or not tiers.has(tiers.PAIRS),
    reason="ISA tier avx512 with avx512bf16",
)
of_bf16 = pytest.mark.parametrize(
    "kernel, tier",
    [
        pytest.param("attention_tiles", AMX, marks=[needs_amx, needs_bf16]),
        pytest.param("attention_pairs", tiers.BY_NAME["avx512"], marks=needs_pairs),
    ],
)

WEIGHT = 2.0**-7
"""Weights, rounded to 2**-9, and their exponentials to 2**-13.7: what sums of values of at most 1 may be apart."""


def narrow(*arrays: np.ndarray) -> list[np.ndarray]:
    """Numbers of at most 1 in size, rounded to bf16: exact operands are left."""
    return [widened(rounded(x / max(np.abs(x).max(initial=0), 1))) for x in arrays]


def in_float64(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, mask: np.ndarray) -> np.ndarray:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = scale * q @ k.swapaxes(2, 3) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@of_bf16
@drawn(80)
def test_bf16_with_all_attributes(kernel: str, tier: Any, pick: Random) -> None:
    t = pick.choice((pick.randint(0, 70), pick.randint(0, 70), 256, 513, 700, 1100))
    b, groups, share, s = pick.randint(1, 3), pick.randint(1, 3), pick.randint(1, 3), pick.randint(1, 80)
    q, k, v = narrow(*operands(b, groups, share, s, t, pick.randint(1, 100), pick.randint(1, 100)))
    given = attributes(pick, q, b, t) | {"scale": pick.choice((0.7, 4.0, -3.0))}
    found = [call(kernel, tier, q, k, v, threads=threads, **given) for threads in (1, 2, 5)]
    assert apart(found[0], meaning(q, k, v, **given)) < WEIGHT
    assert all(np.array_equal(found[0], other) for other in found[1:])
    halves = call(kernel, tier, *(rounded(x) for x in (q, k, v)), **given)
    np.testing.assert_array_equal(halves, rounded(found[0]))


@of_bf16
@pytest.mark.parametrize("s, t, d, e", [(197, 197, 64, 64), (49, 49, 32, 32), (9, 1500, 80, 33), (33, 31, 7, 96)])
def test_bf16_against_float64(kernel: str, tier: Any, s: int, t: int, d: int, e: int) -> None:
    q, k, v = narrow(*operands(1, 2, 1, s, t, d, e))
    mask = np.random.default_rng(0).normal(size=(1, 2, s, t)).astype(np.float32) * 3
    mask[0, 1, s // 2, : t // 2] = -100
    found = call(kernel, tier, q, k, v, mask, scale=2.0)
    assert apart(found, in_float64(q, k, v, 2.0, mask)) < WEIGHT


@of_bf16
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 2, 0), (2, 1, 0)])
def test_axes_of_bf16_lie_in_any_order(kernel: str, tier: Any, order: tuple[int, ...]) -> None:
    dense, y = narrow(*operands(2, 2, 2, 39, 43, 20, 18)), np.zeros((2, 4, 39, 18), np.float32)
    for width in (20, 37):
        found = call(kernel, tier, *map(strided(order, width), dense), y=strided(order, width)(y))
        assert apart(found, meaning(*dense)) < WEIGHT


@of_bf16
def test_bf16_of_what_is_no_number(kernel: str, tier: Any) -> None:
    """It stays in the rows whose queries, keys or values have it; keys beyond the valid ones may hold anything."""
    q, k, v = narrow(*operands(1, 1, 1, 40, 45, 24, 40))
    rows = np.arange(40)
    with np.errstate(all="ignore"):
        for number in (np.nan, np.inf, -np.inf, 3e38):
            for x, place in ((q, (0, 0, 5, 3)), (v, (0, 0, 44, 39))):
                before, x[place] = x[place], number
                found, expected = call(kernel, tier, q, k, v)[0, 0], meaning(q, k, v)[0, 0]
                x[place] = before
                assert (np.isfinite(found) == np.isfinite(expected)).all()
                other = rows != 5 if x is q else rows < 0
                assert apart(found[other], expected[other]) < WEIGHT
        expected = call(kernel, tier, q, k, v, valid=np.array([33]))
        k[:, :, 33:], v[:, :, 33:] = np.nan, np.inf
        np.testing.assert_array_equal(call(kernel, tier, q, k, v, valid=np.array([33])), expected)


@of_bf16
def test_bf16_of_queries_that_see_nothing(kernel: str, tier: Any) -> None:
    q, k, v = narrow(*operands(1, 1, 1, 20, 40, 8, 5))
    mask = np.zeros((1, 1, 20, 40), np.float32)
    mask[0, 0, 1] = -np.inf
    mask[0, 0, 2, 7] = np.nan
    blinds = ("zeros", "nan", "never nan")
    found = {blind: call(kernel, tier, q, k, v, mask, blind=blind)[0, 0] for blind in blinds}
    assert all(np.isfinite(y[[0, *range(3, 20)]]).all() for y in found.values())
    assert not found["zeros"][1].any() and np.isnan(found["zeros"][2]).all()
    assert np.isnan(found["nan"][1:3]).all()
    assert not found["never nan"][1:3].any()


@of_bf16
@pytest.mark.parametrize("t", [40, 700])
def test_bf16_of_masks_of_the_least_number(kernel: str, tier: Any, t: int) -> None:
    """As exporters write them for keys that are hidden: a query that sees no other gets the mean of all values."""
    q, k, v = narrow(*operands(1, 1, 1, 20, t, 8, 5))
    mask = np.zeros((1, 1, 20, t), np.float32)
    mask[0, 0, 1], mask[0, 0, 2, 9:] = np.finfo(np.float32).min, np.finfo(np.float32).min
    for cap in (0.0, 2.0):
        found, expected = call(kernel, tier, q, k, v, mask, cap=cap), meaning(q, k, v, mask, cap=cap)
        assert apart(expected[0, 0, 1], v[0, 0].mean(0)) < CLOSE
        assert apart(found, expected) < WEIGHT


@of_bf16
def test_sums_of_bf16_shrink_as_scores_grow(kernel: str, tier: Any) -> None:
    """From block to block of keys, and without overflow."""
    q, k = np.ones((1, 1, 20, 1), np.float32), np.linspace(-300, 300, 1200, dtype=np.float32).reshape(1, 1, 1200, 1)
    v = np.linspace(0, 1, 1200, dtype=np.float32).reshape(1, 1, 1200, 1)
    k, v = widened(rounded(k)), widened(rounded(v))
    for keys in (k, k[:, :, ::-1].copy(), np.full_like(k, 1e38)):
        assert apart(call(kernel, tier, q, keys, v), meaning(q, keys, v)) < WEIGHT
