"""dot against float64 NumPy: every tier, any shape and stride, guarded memory, all kinds of extras."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.gemm.pack import merge_groups, pack_weights
from fastgraph.kernels.gemm.pick_dot import (
    F32_COSTS,
    DotPiece,
    Product,
    dot_args,
    mains,
    max_rows,
    pick_dot,
    split_columns,
    widths,
)
from fastgraph.kernels.gemm.rows import ROWS
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.pointwise.chain import eval_chain
from fastgraph.kernels.pointwise.rows import NO_EPILOGUE
from tests.kernels.harness import each_tier, run
from tests.kernels.walking import Constants, ended

DOT, PACK = (next(row for row in ROWS if row.name == name) for name in ("dot", "pack_b"))
CHAINS: dict[tuple[str, ...], Any] = {
    (): (),
    ("full",): (("add", 0, 1), ("clip", 2, 0.0, 6.0)),
    ("channel", "scalar"): (("mul", 0, 1), ("add", 3, 2)),
    ("full", "image"): (("sigmoid", 0), ("mul", 3, 2), ("add", 4, 1)),
}


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def product(
    tier: Any,
    pieces: list[DotPiece],
    a: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray | None,
    ldc: int,
    threads: int,
    kinds: tuple[str, ...] = (),
) -> None:
    """Run the pieces on A [batch, m, k] and check C [batch, m, n] in rows of ldc against float64."""
    batch, m, k = a.shape
    n = weights.shape[1]
    shapes = {"full": (batch, m, n), "channel": (1, 1, n), "scalar": (1, 1, 1), "image": (batch, 1, n)}
    operands, constants = [noise(*shapes[kind]) for kind in kinds], Constants(tier)
    ending = ended(constants, CHAINS[kinds], operands)
    c = np.full((batch, m, ldc), 7, np.float32)
    for piece in pieces:
        part = slice(piece.start, piece.start + piece.columns)
        b = pack_weights(weights[:, part], None if bias is None else bias[:, part], piece.nv, tier.lanes)
        args = dot_args(
            piece, a=a, lda=k, b=b, c=c, ldc=ldc, m=m, k=k, batch=batch, a_stride=m * k, b_stride=b[0].size,
            c_stride=m * ldc, **ending,
        )  # fmt: skip
        c = run(DOT, piece.params, DOT.args.filled(**args), tier, threads)[2]
    views = [o.astype(np.float64) for o in operands]
    sums = np.einsum("bmk,bnk->bmn", a.astype(np.float64), weights.astype(np.float64))
    expected = eval_chain(CHAINS[kinds], [sums + (0 if bias is None else bias[:, None]), *views])
    np.testing.assert_allclose(c[:, :, :n], expected, rtol=2e-5, atol=2e-5 * k**0.5)
    assert (c[:, :, n:] == 7).all()


@each_tier
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_shape(tier: Any, data: Any) -> None:
    nv = data.draw(st.integers(1, 4))
    kinds = data.draw(st.sampled_from(sorted(CHAINS))) if nv == 2 else ()
    width, height = nv * tier.lanes, data.draw(st.integers(1, F32_COSTS.most_rows(tier, nv)))
    m = data.draw(st.integers(1, 3 * height + 1))
    n, k = data.draw(st.integers(1, 2 * width + 1)), data.draw(st.integers(1, 40))
    batch, threads = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    piece = DotPiece(0, n, nv, {"nv": nv}, height, data.draw(st.integers(1, 3)), data.draw(st.booleans()))
    bias = noise(batch, n) if data.draw(st.booleans()) else None
    a, weights, ldc = noise(batch, m, k), noise(batch, n, k), n + data.draw(st.integers(0, 3))
    product(tier, [piece], a, weights, bias, ldc, threads, kinds)


@each_tier
@pytest.mark.parametrize(("m", "n", "k"), [(1, 100, 70), (7, 80, 33), (49, 58, 20)])
def test_picked(tier: Any, m: int, n: int, k: int) -> None:
    product(tier, list(pick_dot(tier, Product(m, n, k), threads=2)), noise(1, m, k), noise(1, n, k), noise(1, n), n, 2)


@each_tier
@pytest.mark.parametrize("chain", [(("add", 0, 1),), (("sigmoid", 0), ("mul", 2, 1))])
def test_result_may_replace_a_full_operand(tier: Any, chain: Any) -> None:
    a, weights, c = noise(1, 8, 11), noise(1, 21, 11), noise(8, 21)
    piece = DotPiece(0, 21, 2, {"nv": 2}, 3, 1, False)
    b = pack_weights(weights, None, 2, tier.lanes)
    constants, operand = Constants(tier), c[None].copy()
    ending = ended(constants, chain, [operand])
    # What a table refers to isn't copied for the call.
    place = operand.ctypes.data if constants.arrays else operand
    args = dot_args(piece, a=a, lda=11, b=b, c=place, ldc=21, m=8, k=11, **ending)
    found = run(DOT, piece.params, DOT.args.filled(**args), tier)
    out = (operand if constants.arrays else found[2])[0]
    expected = eval_chain(chain, [(a[0] @ weights[0].T).astype(np.float64), c.astype(np.float64)])
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


@each_tier
def test_same_bits_for_any_threads(tier: Any) -> None:
    a, weights = noise(1, 23, 37), noise(1, 50, 37)
    results = []
    for threads, by_columns in [(1, False), (2, False), (3, True)]:
        piece = DotPiece(0, 50, 2, {"nv": 2}, 3, 2, by_columns)
        c = np.zeros((23, 50), np.float32)
        b = pack_weights(weights, None, 2, tier.lanes)
        args = dot_args(piece, a=a, lda=37, b=b, c=c, ldc=50, m=23, k=37, **NO_EPILOGUE)
        results.append(run(DOT, piece.params, DOT.args.filled(**args), tier, threads)[2].tobytes())
    assert len(set(results)) == 1


@each_tier
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_matrix_packed_at_run_time(tier: Any, data: Any) -> None:
    n, k = data.draw(st.integers(1, 5 * tier.lanes)), data.draw(st.integers(1, 2 * tier.lanes + 1))
    batch, threads = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    w = noise(batch, n, k)
    ldb = n + data.draw(st.integers(0, 3))
    b = np.zeros((batch, k, ldb), np.float32)
    b[:, :, :n] = w.transpose(0, 2, 1)
    expected = pack_weights(w, None, 2, tier.lanes)
    args = PACK.args.filled(b=b, ldb=ldb, packed=np.full_like(expected, 7), n=n, k=k, batch=batch, b_stride=b[0].size)
    made = run(PACK, {"nv": 2}, args, tier, threads)[1]
    unpacked, wanted = (np.moveaxis(p, 2, 0).reshape(1 + k, batch, -1)[..., :n] for p in (made, expected))
    np.testing.assert_array_equal(unpacked, wanted)


@settings(max_examples=150, deadline=None)
@given(
    tier=st.sampled_from(tiers.TIERS),
    m=st.integers(1, 3000),
    n=st.integers(1, 1500),
    k=st.integers(1, 3000),
    threads=st.integers(1, 4),
)
def test_choices_cover_every_column_and_fit_the_registers(tier: Any, m: int, n: int, k: int, threads: int) -> None:
    pieces = pick_dot(tier, Product(m, n, k), threads=threads)
    assert [p.start for p in pieces] == [0, *(p.start + p.columns for p in pieces)][:-1]
    assert sum(p.columns for p in pieces) == n
    for p in pieces:
        assert 1 <= p.height <= F32_COSTS.most_rows(tier, p.nv) and p.nv in (
            (1, 2, 3, 4, 8) if m == 1 else (1, 2, 3, 4)
        )
        assert p.block >= 1
        assert F32_COSTS.most_rows(tier, p.nv) * p.nv + p.nv < tier.registers


@given(most=st.integers(1, 16), nv=st.integers(1, 4), m=st.integers(0, 300), words=st.integers(1, 100))
def test_main_tiles_fit_and_leave_no_more_tiles_than_the_tallest(most: int, nv: int, m: int, words: int) -> None:
    found = mains(m, most, nv, words)
    assert most in found and all(1 <= height <= most for height in found)
    assert min(-(-m // height) for height in found) == -(-m // most)


def test_standard_tiles() -> None:
    """Layers of ordinary networks share a few kernels."""
    wide = tiers.BY_NAME["avx512"]
    assert [max_rows(wide, nv) for nv in (1, 2, 3, 4)] == [14, 14, 9, 6]
    assert [max_rows(tiers.BY_NAME["avx2"], nv) for nv in (2, 3)] == [6, 4]
    for m, n, k in [(12544, 96, 16), (3136, 64, 256), (784, 128, 128), (196, 96, 576), (49, 160, 960)]:
        (piece,) = pick_dot(wide, Product(m, n, k))
        assert piece.nv == 2 and piece.height in (13, 14)
    (piece,) = pick_dot(wide, Product(1, 1000, 1280))
    assert piece.nv >= 3


def test_columns_are_split_where_one_width_wastes_vectors() -> None:
    tier = tiers.BY_NAME["avx512"]
    cost = {nv: 14.0 * 300 * nv for nv in widths(tier) if nv in (2, 3)}
    assert split_columns(tier, 112, cost) == [(0, 48, 3), (48, 64, 2)]
    assert split_columns(tier, 128, cost) == [(0, 128, 2)]


def test_packed_weights_hold_bias_then_lines() -> None:
    w, bias = noise(5, 3), noise(5)
    panels = pack_weights(w, bias, 1, 4)
    assert panels.shape == (1, 2, 4, 4)
    np.testing.assert_array_equal(panels[0, 0, 0], bias[:4])
    np.testing.assert_array_equal(panels[0, 1, 1:, 0], w[4])
    assert not panels[0, 1, :, 1:].any()


def test_merged_groups_compute_the_same() -> None:
    groups, factor = 6, 3
    w, x = noise(12, 5, 4), noise(5, 24)
    separate = np.einsum("gokc,kgc->go", w.reshape(groups, 2, 5, 4), x.reshape(5, groups, 4)).ravel()
    merged = merge_groups(w, groups, factor).reshape(2, 6, 5, 12)
    np.testing.assert_allclose(np.einsum("gokc,kgc->go", merged, x.reshape(5, 2, 12)).ravel(), separate, rtol=1e-4)
