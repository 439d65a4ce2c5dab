"""Six products of bf16 for one of f32: errors beside those of a chain of f32, and what depends on a number of x."""

from random import Random

import numpy as np
import pytest

from fastgraph.kernels.gemm.pick_conv import Geometry
from tests.amx_trap import needs_amx
from tests.kernels.geometries import square
from tests.kernels.harness import drawn
from tests.kernels.test_amx_real import computed, convolved, dense, geometry, needs_bf16, needs_f16

pytestmark = [needs_amx, needs_bf16]
UNIT = 2.0**-24
"""Of the sum of magnitudes of products."""

THREADS = ((1, 1 << 20), (2, 1 << 20), (5, 1 << 20), (1, 8000))
"""Threads, and bytes of the level-2 cache, by both of which bands are cut."""
STRANGE = np.float32([np.inf, -np.inf, np.nan, 3e38, 1e-36, 1e-42, -(2.0**-61), 2.0**41])


def operands(g: Geometry, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(g.images, *g.size, g.x_strides[3])).astype(np.float32)
    w = rng.normal(size=(g.groups, g.n, g.k // g.c, g.c)).astype(np.float32)
    return x, w, np.zeros((g.groups, g.n), np.float32)


def chain(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """x @ w.T by f32 fused multiply-adds one after another."""
    sums = np.zeros((len(x), len(w)), np.float32)
    for a, b in zip(x.T.astype(np.float64), w.T.astype(np.float64), strict=True):
        sums = (sums + a[:, None] * b).astype(np.float32)
    return sums


KINDS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "positive": lambda rng, shape: rng.uniform(0, 1, shape),
    "wide range": lambda rng, shape: rng.normal(size=shape) * 2.0 ** rng.integers(-20, 20, shape),
    "many zeros": lambda rng, shape: rng.normal(size=shape) * (rng.uniform(size=shape) < 0.3),
    "small": lambda rng, shape: rng.normal(size=shape) * 2.0**-30,
}


SPARSE = 1.5
"""Of few products that are not 0, what is left out of each does not average away."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [64, 384, 1152])
def test_error_is_at_most_that_of_a_chain_of_f32(kind: str, k: int) -> None:
    g, rng = dense(64, 64, k), np.random.default_rng(k)
    x, w = (KINDS[kind](rng, (64, k)).astype(np.float32) for _ in range(2))
    w[(w != 0) & (np.abs(w) < 2.0**-39)] = 0
    shaped = x.reshape(1, 1, 1, 64, k), w.reshape(1, 64, 1, k), np.zeros((1, 64), np.float32)
    expected, size = (part.reshape(64, 64) for part in convolved(*shaped, g))
    size = np.maximum(size, 1e-300)
    six = computed(g, *shaped, 3, 1, 1 << 20).reshape(64, -1)[:, :64]
    ours, theirs = (np.sqrt((((found - expected) / size / UNIT) ** 2).mean()) for found in (six, chain(x, w)))
    assert ours <= (SPARSE if kind == "many zeros" else 1.05) * theirs


each_exact = pytest.mark.parametrize("planes, element", [(3, "bf16"), pytest.param(1, "f16", marks=needs_f16)])


@each_exact
@drawn(20)
def test_a_strange_number_changes_what_is_computed_from_it_alone(planes: int, element: str, pick: Random) -> None:
    g = geometry(pick)
    x, w, bias = operands(g, pick.randint(0, 99))
    plain = computed(g, x, w, bias, planes, 1, 1 << 20, element=element)
    for _ in range(pick.randint(1, 3)):
        x[tuple(pick.randrange(extent) for extent in x.shape[:-1])] = pick.choice(STRANGE)
    found = computed(g, x, w, bias, planes, *pick.choice(THREADS), element=element)
    with np.errstate(all="ignore"):
        reads = convolved(np.where(np.isin(x, STRANGE) | np.isnan(x), np.nan, 0), np.ones_like(w), bias, g)[0]
    same = np.concatenate([~np.isnan(reads), np.ones((*reads.shape[:-1], 2), bool)], -1)
    np.testing.assert_array_equal(found[same].view(np.uint32), plain[same].view(np.uint32))


@each_exact
@pytest.mark.parametrize("g", [dense(300, 40, 100), square(24, 20, 19, 3, 1, 1)], ids=str)
def test_bits_beside_strange_numbers_do_not_depend_on_threads(g: Geometry, planes: int, element: str) -> None:
    x, w, bias = operands(g)
    for i, number in enumerate(STRANGE):
        x[0, 0, i % g.size[1], (7 * i) % g.size[2], 1] = number
    if element == "f16":
        x[0, 0, :, 3 : g.size[2] : 11] *= np.float32(2.0**-20)
    first, *others = (computed(g, x, w, bias, planes, *how, element=element) for how in THREADS)
    for other in others:
        np.testing.assert_array_equal(first.view(np.uint32), other.view(np.uint32))
