"""winograd against float64 NumPy: any map and padding, extras, every tier, guarded memory; what is chosen when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import each_tier, run
from hypothesis import given, settings
from hypothesis import strategies as st
from test_conv import noise, reference, square

from fastgraph.kernels.chain import eval_chain
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.pack import pack_winograd
from fastgraph.kernels.pick_conv import Geometry
from fastgraph.kernels.pick_winograd import best_winograd, pick_winograd, suits_winograd, winograd_record
from fastgraph.kernels.rows_dot import ROWS

WINOGRAD = next(row for row in ROWS if row.name == "winograd")
CHAINS: dict[tuple[str, ...], Any] = {
    (): (("max", 0, 0.0),),
    ("full", "image"): (("mul", 0, 2), ("add", 3, 1)),
}


def check(
    tier: Any,
    g: Geometry,
    m: int,
    threads: int,
    kinds: tuple[str, ...] = (),
    slack: int = 0,
    single: bool = False,
    l2: int = 1 << 20,
) -> tuple[float, bytes]:
    """Run on random data; the largest error as a part of the largest sum of magnitudes, and the output's bytes."""
    x, w, bias = noise(g.images, *g.size, g.x_strides[3]), noise(g.n, 1, 3, 3, g.c), noise(g.n)
    choice = pick_winograd(tier, g, m, threads, CHAINS[kinds], kinds, l2)
    if single:  # one kernel for many shapes
        choice.params.update(mr=1, ragged=True)
    pixels = g.out[1] * g.out[2]
    full, image = noise(g.images, *g.out, g.n), noise(g.images, g.n)
    extras = [(full, pixels * g.n, g.n), (image, g.n, 0)][: len(kinds)]
    packed = pack_winograd(w[:, 0], bias, m, choice.nv, tier.lanes)
    y = np.full((g.images, *g.out, g.n + slack), 7, np.float32)
    scratch = np.full(choice.scratch * threads // 4, np.nan, np.float32)
    record = winograd_record(choice, x=x, w=packed, y=y, ldy=g.n + slack, scratch=scratch, extras=extras)
    y = run(WINOGRAD, choice.params, record, tier, threads)[2]
    operands = [full.astype(np.float64), image.astype(np.float64).reshape(g.images, 1, 1, 1, -1)][: len(kinds)]
    expected = eval_chain(CHAINS[kinds], [reference(x[..., : g.c], w, g) + bias, *operands])
    assert (y[..., g.n :] == 7).all()
    magnitude = reference(abs(x[..., : g.c]), abs(w), g).max()
    return float(abs(y[..., : g.n] - expected).max() / magnitude), y.tobytes()


@st.composite
def geometries(draw: Any) -> Geometry:
    c, n, images = draw(st.integers(1, 20)), draw(st.just(18)), draw(st.integers(1, 2))
    pads = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    h, w = (draw(st.integers(max(1, 3 - 2 * pad), 11)) for pad in pads)
    out = (1, *(size + pad + draw(st.integers(0, pad)) - 2 for size, pad in ((h, pads[0]), (w, pads[1]))))
    if min(out) < 1:
        out = (1, max(out[1], 1), max(out[2], 1))
    pixel = c + draw(st.integers(0, 2))
    strides = (h * w * pixel, h * w * pixel, w * pixel, pixel)
    return Geometry(images, 1, c, n, (1, h, w), (1, 3, 3), out, strides, pads=(0, *pads))


@each_tier
@pytest.mark.parametrize("m", [2, 4])
@settings(max_examples=12, deadline=None)
@given(g=geometries(), threads=st.integers(1, 2), slack=st.integers(0, 2), l2=st.sampled_from([1, 1 << 20]),
       kinds=st.sampled_from(sorted(CHAINS)))
def test_any_map(tier: Any, m: int, g: Geometry, threads: int, slack: int, l2: int, kinds: tuple[str, ...]) -> None:
    error, _ = check(tier, g, m, threads, kinds, slack, True, l2)
    assert error < (1e-6 if m == 2 else 1e-5)


@each_tier
def test_picked(tier: Any) -> None:
    g = square(40, 50, 12, 3, 1, 1)
    results = [check(tier, g, 2, threads) for threads in (1, 2, 3)]
    assert max(error for error, _ in results) < 1e-6
    assert len({output for _, output in results}) == 1


def test_chosen_where_it_saves_time() -> None:
    wide = tiers.BY_NAME["avx512"]
    assert best_winograd(wide, square(64, 64, 56, 3, 1, 1)) == 4
    assert best_winograd(wide, square(64, 64, 56, 3, 1, 1), largest=2) == 2
    assert best_winograd(wide, square(512, 512, 7, 3, 1, 1)) == 2
    assert best_winograd(wide, square(3, 64, 56, 3, 1, 1)) is None
    assert best_winograd(tiers.BY_NAME["generic"], square(64, 64, 56, 3, 1, 1)) is None
    assert not suits_winograd(square(64, 64, 56, 3, 2, 1)) and not suits_winograd(square(64, 64, 56, 5, 1, 2))
