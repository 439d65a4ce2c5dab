"""The kernels of attention against the operator's reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.attending import call, meaning
from tests.kernels.harness import each_tier

each_kernel = pytest.mark.parametrize("kernel", ["attention", "attention_few"])

sizes = st.fixed_dictionaries(
    {
        "b": st.integers(1, 3), "groups": st.integers(1, 3), "share": st.integers(1, 3), "s": st.integers(1, 40),
        "t": st.integers(0, 70) | st.sampled_from([256, 300, 533]), "d": st.integers(1, 70), "e": st.integers(1, 70),
    }
)  # fmt: skip
options = st.fixed_dictionaries(
    {
        "scale": st.sampled_from([0.1, 1.0]), "cap": st.sampled_from([0.0, 0.0, 2.0]), "causal": st.booleans(),
        "window": st.tuples(st.integers(-1, 9), st.integers(-1, 9)), "past": st.sampled_from([0, 0, 3]),
        "mask": st.sampled_from([None, "f32", "bool"]), "valid": st.booleans(),
    }
)  # fmt: skip
ones = st.tuples(st.booleans(), st.booleans(), st.booleans())


def operands(b: int, groups: int, share: int, s: int, t: int, d: int, e: int) -> list[np.ndarray]:
    rng = np.random.default_rng(b + groups + share + s + t + d + e)
    shapes = (b, groups * share, s, d), (b, groups, t, d), (b, groups, t, e)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def drawn(kind: str | None, one: tuple[bool, bool, bool], q: np.ndarray, t: int) -> np.ndarray | None:
    """A mask of this kind that is the same for all images, heads or queries."""
    if kind is None:
        return None
    rng = np.random.default_rng(t)
    shape = *(1 if same else n for same, n in zip(one, q.shape, strict=False)), t
    hidden = rng.random(shape) < 0.4
    return ~hidden if kind == "bool" else np.where(hidden, -np.inf, rng.standard_normal(shape)).astype(np.float32)


def apart(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(found - expected), initial=0))


@each_tier
@each_kernel
@settings(max_examples=60, deadline=None)
@given(shape=sizes, given=options, one=ones)
def test_all_attributes(tier, kernel, shape, given, one):
    q, k, v = operands(**shape)
    t = shape["t"]
    given = {**given, "mask": drawn(given["mask"], one, q, t), "past": min(given["past"], t)}
    given["valid"] = np.random.default_rng(t).integers(0, t + 1, shape["b"]) if given["valid"] else None
    found = [call(kernel, tier, q, k, v, threads=threads, **given) for threads in (1, 2, 5)]
    assert apart(found[0], meaning(q, k, v, **given)) < 5e-6
    assert all(np.array_equal(found[0], other) for other in found[1:])


@each_tier
@each_kernel
@given(order=st.permutations([0, 1, 2]), width=st.sampled_from([20, 37]))
@settings(max_examples=12, deadline=None)
def test_axes_lie_in_any_order(tier, kernel, order, width):
    """And rows in wider ones."""
    shape = {"b": 2, "groups": 2, "share": 2, "s": 9, "t": 33, "d": 20, "e": 18}
    dense = operands(**shape)
    y = np.zeros((2, 4, 9, 18), np.float32)
    found = call(kernel, tier, *map(strided(order, width), dense), y=strided(order, width)(y))
    assert apart(found, meaning(*dense)) < 5e-6


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
