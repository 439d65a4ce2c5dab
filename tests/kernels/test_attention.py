"""The kernels of attention against the operator's reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.kernels.attending import call, meaning
from tests.kernels.harness import drawn, each_tier

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


def apart(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(found - expected), initial=0))


@each_tier
@each_kernel
@drawn(60)
def test_all_attributes(tier: Any, kernel: str, pick: Random) -> None:
    t = pick.choice((pick.randint(0, 70), pick.randint(0, 70), 256, 300, 533))
    b, groups, share, s = pick.randint(1, 3), pick.randint(1, 3), pick.randint(1, 3), pick.randint(1, 40)
    q, k, v = operands(b, groups, share, s, t, pick.randint(1, 70), pick.randint(1, 70))
    given = {
        "scale": pick.choice((0.1, 1.0)),
        "cap": pick.choice((0.0, 0.0, 2.0)),
        "causal": pick.choice((False, True)),
        "window": (pick.randint(-1, 9), pick.randint(-1, 9)),
        "past": min(pick.choice((0, 0, 3)), t),
        "mask": mask_of(pick.choice((None, "f32", "bool")), pick, q, t),
        "valid": pick.choice((None, np.random.default_rng(t).integers(0, t + 1, b))),
    }
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
