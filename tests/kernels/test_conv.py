"""conv against float64 NumPy: 1 to 3 dimensions, any geometry, groups, every tier, guarded memory."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.gemm.pack import merge_groups, pack_weights
from fastgraph.kernels.gemm.pick_conv import (
    ConvPiece,
    Geometry,
    conv_args,
    layout,
    merge_factor,
    pick_conv,
)
from fastgraph.kernels.gemm.pick_dot import F32_COSTS
from fastgraph.kernels.gemm.rows import ROWS
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.pointwise.chain import eval_chain
from tests.kernels.harness import each_tier, run
from tests.kernels.walking import Constants, ended

CONV = next(row for row in ROWS if row.name == "conv")
CHAINS: dict[tuple[str, ...], Any] = {
    (): (("max", 0, 0.0),),
    ("full",): (("add", 0, 1),),
    ("channel", "image"): (("sigmoid", 0), ("mul", 3, 1), ("add", 4, 2)),
}


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def reference(x: np.ndarray, w: np.ndarray, g: Geometry) -> np.ndarray:
    """[images, *out, groups * n] in f64 from x [images, d, h, w, groups * c] and w [groups * n, k..., c]."""
    span = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(g.out, g.strides, g.kernel, g.dilations, strict=True)]
    after = [max(n - p - size, 0) for n, p, size in zip(span, g.pads, g.size, strict=True)]
    padded = np.pad(x.astype(np.float64), [(0, 0), *zip(g.pads, after, strict=True), (0, 0)])
    y = np.zeros((g.images, *g.out, g.groups, g.n))
    for tap in product(*map(range, g.kernel)):
        place = tuple(
            slice(t * d, t * d + (o - 1) * s + 1, s)
            for t, d, o, s in zip(tap, g.dilations, g.out, g.strides, strict=True)
        )
        seen = padded[(slice(None), *place)].reshape(*y.shape[:4], g.groups, g.c)
        y += np.einsum("...gc,gnc->...gn", seen, w.reshape(g.groups, g.n, *g.kernel, g.c)[:, :, *tap])
    return y.reshape(*y.shape[:4], -1)


def check(
    tier: Any, g: Geometry, pieces: tuple[ConvPiece, ...], threads: int, slack: int = 0, kinds: tuple[str, ...] = ()
) -> np.ndarray:
    """Run the pieces on random data in rows `slack` longer than dense, compare, return y."""
    channels, outputs, dims = g.groups * g.c, g.groups * g.n, (g.images, *g.size)
    pixel = g.x_strides[3]
    x = noise(*dims, pixel)
    w, bias = noise(outputs, *g.kernel, g.c), noise(outputs)
    pixels = g.out[0] * g.out[1] * g.out[2]
    shapes = {"full": (g.images, pixels, outputs), "channel": (1, 1, outputs), "image": (g.images, 1, outputs)}
    operands, constants = [noise(*shapes[kind]) for kind in kinds], Constants(tier)
    ending = ended(constants, CHAINS[kinds], operands)
    y = np.full((g.images, *g.out, outputs + slack), 7, np.float32)
    for piece in pieces:
        part = slice(piece.start, piece.start + piece.columns)
        weights = w.reshape(g.groups, g.n, *g.kernel, g.c)[:, part]
        packed = pack_weights(
            weights.reshape(g.groups, piece.columns, -1),
            bias.reshape(g.groups, -1)[:, part],
            piece.nv,
            tier.lanes,
        )
        scratch = np.full(max(piece.scratch * threads // 4, 1), np.nan, np.float32)
        args = conv_args(piece, x=x, w=packed, y=y, ldy=outputs + slack, taps=piece.table, scratch=scratch, **ending)
        y = run(CONV, piece.params, CONV.args.filled(**args), tier, threads)[2]
    sums = (reference(x[..., :channels], w, g) + bias).reshape(g.images, pixels, outputs)
    expected = eval_chain(CHAINS[kinds], [sums, *(o.astype(np.float64) for o in operands)])
    expected = expected.reshape(g.images, *g.out, outputs)
    np.testing.assert_allclose(y[..., :outputs], expected, rtol=2e-5, atol=3e-5 * g.k**0.5)
    assert (y[..., outputs:] == 7).all()
    return y


@st.composite
def geometries(draw: Any, out_h: int, out_w: int, slack: int = 3) -> Geometry:
    small = st.integers(1, 3)
    c, groups, depth = draw(st.integers(1, 9)), draw(small), draw(st.integers(1, 2))
    out = (depth, out_h, out_w)
    kernel, strides, dilations = ((draw(small) if depth > 1 else 1, draw(small), draw(small)) for _ in range(3))
    size, pads = [], []
    for o, k, s, d in zip(out, kernel, strides, dilations, strict=True):
        span = (o - 1) * s + (k - 1) * d + 1
        size.append(draw(st.integers(max(1, span - 5), span + 2)))
        pads.append(draw(st.integers(0, max(0, span - size[-1]))))
    pixel = groups * c + draw(st.integers(0, slack))
    rows = (size[2] * pixel, pixel)
    return Geometry(
        draw(st.integers(1, 2)),
        groups,
        c,
        draw(st.integers(1, 11)),
        tuple(size),
        kernel,
        out,
        (size[0] * size[1] * rows[0], size[1] * rows[0], *rows),
        strides,
        dilations,
        tuple(pads),
    )


def forced(tier: Any, g: Geometry, height: int, nv: int, threads: int, l2: int) -> tuple[ConvPiece, ...]:
    table, fields = layout(g, height, g.n, nv * tier.lanes, threads, l2)
    return (ConvPiece(0, g.n, nv, {"nv": nv}, table, fields),)


@each_tier
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_geometry(tier: Any, data: Any) -> None:
    """Tiles that lie within a row of outputs, end with it, or go on over several."""
    nv = data.draw(st.integers(1, 2))
    kinds = data.draw(st.sampled_from(sorted(CHAINS))) if nv == 1 else ()
    height = data.draw(st.integers(1, F32_COSTS.most_rows(tier, nv)))
    g = data.draw(geometries(data.draw(st.integers(1, 5)), data.draw(st.integers(1, 17))))
    threads, l2 = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([1, 4000, 1 << 20]))
    check(tier, g, forced(tier, g, height, nv, threads, l2), threads, data.draw(st.integers(0, 2)), kinds)


def square(c: int, n: int, size: int, k: int, stride: int = 1, pad: int = 0, groups: int = 1) -> Geometry:
    out = (size + 2 * pad - k) // stride + 1
    channels = groups * c
    return Geometry(
        1,
        groups,
        c,
        n,
        (1, size, size),
        (1, k, k),
        (1, out, out),
        (size * size * channels, size * size * channels, size * channels, channels),
        (1, stride, stride),
        (1, 1, 1),
        (0, pad, pad),
    )


@each_tier
@pytest.mark.parametrize(
    "g",
    [square(5, 40, 9, 3, 1, 1), square(1024, 8, 4, 1, 2), square(3, 24, 11, 5, 2, 7)],
    ids=["3x3", "collides", "mostly padding"],
)
def test_picked(tier: Any, g: Geometry) -> None:
    check(tier, g, pick_conv(tier, g, 2), 2)


@each_tier
@pytest.mark.parametrize("c", [1, 20])
def test_long_row(tier: Any, c: int) -> None:
    """One spatial dimension, cut into bands."""
    g = Geometry(
        1, 1, c, 9, (1, 1, 301), (1, 1, 5), (1, 1, 150), (301 * c, 301 * c, 301 * c, c), (1, 1, 2), pads=(0, 0, 1)
    )
    pieces = pick_conv(tier, g, 2, l2=4096)
    assert pieces[0].fields["band"] < 150
    check(tier, g, pieces, 2)


@each_tier
def test_same_bits_for_any_threads(tier: Any) -> None:
    g = square(6, 40, 8, 3, 1, 1)
    results = {check(tier, g, forced(tier, g, 3, 1, threads, 4000), threads).tobytes() for threads in (1, 2, 3)}
    assert len(results) == 1


@settings(max_examples=100, deadline=None)
@given(
    tier=st.sampled_from(tiers.TIERS),
    g=st.integers(1, 40).flatmap(lambda h: geometries(h, 60 - h)),
    threads=st.integers(1, 4),
)
def test_choices_cover_every_channel_and_pixel(tier: Any, g: Geometry, threads: int) -> None:
    pieces = pick_conv(tier, g, threads)
    assert sum(p.columns for p in pieces) == g.n and pieces[-1].start + pieces[-1].columns == g.n
    for p in pieces:
        assert 1 <= p.fields["height"] <= F32_COSTS.most_rows(tier, p.nv) and p.nv in (1, 2, 3, 4)
        assert 1 <= p.fields["band"] <= g.out[1]
        assert p.fields["direct"] == (p.scratch == 0)


def test_narrow_groups_are_merged_into_one_vector() -> None:
    wide = tiers.BY_NAME["avx512"]
    assert merge_factor(wide, 32, 4) == 4
    assert merge_factor(wide, 6, 5) == 3
    assert merge_factor(wide, 3, 16) == 1
    g, factor = square(4, 4, 6, 3, 1, 1, groups=6), 3
    x, w = noise(1, 1, 6, 6, 24), noise(24, 1, 3, 3, 4)
    merged = square(12, 12, 6, 3, 1, 1, groups=2)
    np.testing.assert_allclose(reference(x, merge_groups(w, 6, factor), merged), reference(x, w, g), rtol=1e-9)
