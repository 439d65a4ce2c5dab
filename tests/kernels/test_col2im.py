"""Transposed convolution (dot and col2im) against float64 NumPy: any geometry, groups, every tier."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.gemm.pack import pack_weights
from fastgraph.kernels.gemm.pick_conv_transpose import (
    Transposed,
    col2im_args,
    pick_products,
    products_args,
    tap_weights,
)
from fastgraph.kernels.gemm.rows import ROWS
from fastgraph.kernels.pointwise.chain import eval_chain
from fastgraph.kernels.pointwise.rows import NO_EPILOGUE
from tests.kernels.harness import each_tier, run
from tests.kernels.walking import Constants, ended

DOT, COL2IM = (next(row for row in ROWS if row.name == name) for name in ("dot", "col2im"))
CHAINS: dict[tuple[str, ...], Any] = {
    (): (("max", 0, 0.0),),
    ("full",): (("add", 0, 1),),
    ("full", "channel"): (("mul", 0, 2), ("add", 3, 1)),
}


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def products(x: np.ndarray, weights: np.ndarray, g: Transposed) -> np.ndarray:
    """[groups, pixels, taps, n] in f64."""
    split = x.reshape(-1, g.groups, g.c).astype(np.float64)
    return np.einsum("pgc,gtc->gpt", split, tap_weights(weights, g.groups)).reshape(g.groups, g.pixels, -1, g.n)


def summed(t: np.ndarray, g: Transposed) -> np.ndarray:
    """y [images, *out, groups, n]."""
    y = np.zeros((g.images, *g.out, g.groups, g.n))
    t = t.reshape(g.groups, g.images, *g.size, -1, g.n)
    for tap, k in enumerate(product(*map(range, g.kernel))):
        for i in product(*map(range, g.size)):
            o = [i[a] * g.strides[a] + k[a] * g.dilations[a] - g.pads[a] for a in range(3)]
            if all(0 <= o[a] < g.out[a] for a in range(3)):
                y[:, *o] += np.moveaxis(t[:, :, *i, tap], 0, 1)
    return y


@st.composite
def geometries(draw: Any) -> Transposed:
    small = st.integers(1, 3)
    depth = draw(st.booleans())
    size, kernel, strides, dilations = ((draw(small) if depth else 1, draw(small), draw(small)) for _ in range(4))
    pads, out = [], []
    for i, k, s, d in zip(size, kernel, strides, dilations, strict=True):
        full = (i - 1) * s + (k - 1) * d + 1
        pads.append(draw(st.integers(0, min(2, full - 1))))
        out.append(draw(st.integers(max(1, full - pads[-1] - 2), full - pads[-1] + s - 1)))
    return Transposed(
        draw(st.integers(1, 2)),
        draw(small),
        draw(st.integers(1, 5)),
        draw(st.integers(1, 20)),
        size,
        kernel,
        (out[0], out[1], out[2]),
        strides,
        dilations,
        (pads[0], pads[1], pads[2]),
    )


@each_tier
@settings(max_examples=25, deadline=None)
@given(g=geometries(), kinds=st.sampled_from(sorted(CHAINS)), threads=st.integers(1, 3), slack=st.integers(0, 2))
def test_sums(tier: Any, g: Transposed, kinds: tuple[str, ...], threads: int, slack: int) -> None:
    channels, pixels = g.groups * g.n, g.out[0] * g.out[1] * g.out[2]
    x, w, bias = noise(g.images, *g.size, g.groups * g.c), noise(channels, *g.kernel, g.c), noise(channels)
    t = products(x, w, g)
    full, channel = noise(g.images, *g.out, channels), noise(channels)
    operands = [full.reshape(g.images, pixels, channels), channel.reshape(1, 1, channels)][: len(kinds)]
    y, constants = np.full((g.images, *g.out, channels + slack), 7, np.float32), Constants(tier)
    args = col2im_args(
        g, t=t.astype(np.float32), y=y, ldy=channels + slack, bias=bias,
        scratch=np.zeros(g.scratch * threads // 4, np.float32), **ended(constants, CHAINS[kinds], operands),
    )  # fmt: skip
    y = run(COL2IM, {}, COL2IM.args.filled(**args), tier, threads)[1]
    expected = eval_chain(CHAINS[kinds], [summed(t, g).reshape(full.shape) + bias, full, channel][: len(kinds) + 1])
    np.testing.assert_allclose(y[..., :channels], expected, rtol=1e-5, atol=1e-4)
    assert (y[..., channels:] == 7).all()


@each_tier
def test_whole(tier: Any) -> None:
    g = Transposed(1, 2, 5, 6, (1, 4, 5), (1, 4, 4), (1, 8, 10), (1, 2, 2), pads=(0, 1, 1))
    x, w, bias = noise(1, 1, 4, 5, 10), noise(12, 1, 4, 4, 5), np.zeros(12, np.float32)
    t = np.zeros((g.groups, g.pixels, g.columns), np.float32)
    for piece in pick_products(tier, g):
        part = tap_weights(w, g.groups)[:, piece.start : piece.start + piece.columns]
        packed = pack_weights(part, None, piece.nv, tier.lanes)
        args = products_args(piece, g, a=x, lda=10, k=g.c, b=packed, b_stride=packed[0].size, c=t, **NO_EPILOGUE)
        t = run(DOT, piece.params, DOT.args.filled(**args), tier)[2]
    assert t.nbytes == g.products
    y = np.zeros((1, 8, 10, 12), np.float32)
    scratch = np.zeros(g.scratch // 4, np.float32)
    args = col2im_args(g, t=t, y=y, ldy=12, bias=bias, scratch=scratch, **ended(Constants(tier), (), []))
    y = run(COL2IM, {}, COL2IM.args.filled(**args), tier)[1]
    np.testing.assert_allclose(y[:, None], summed(products(x, w, g), g).reshape(1, 1, 8, 10, 12), rtol=1e-4, atol=1e-4)
