"""dot_int8 against its formula, to the bit: every tier, any shape and stride, every kind of result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.gemm.pack_int8 import Head, column_order, pack_int8, panel_bytes, vectors_per_word
from fastgraph.kernels.gemm.pick_dot import DotPiece, Product, dot_args
from fastgraph.kernels.gemm.pick_int8 import INT8_COSTS, chains, pick_dot_int8, row_args, row_params
from fastgraph.kernels.gemm.rows import ROWS
from fastgraph.kernels.isa import tiers
from tests.kernels.harness import each_integer_tier, f32_bits, run
from tests.kernels.int8 import DTYPES, Layer, draw_bytes, draw_layer, stores

DOT, ROW, PACK = (next(r for r in ROWS if r.name == name) for name in ("dot_int8", "row_int8", "pack_b_int8"))
KINDS = [(2, "u8", False), (3, "u8", True), (1, "s8", False), (4, "f32", True), (4, "u8", False), (2, "i32", True)]
"""nv, out, rowsum"""


def product(tier: Any, pieces: list[DotPiece], a: np.ndarray, layer: Layer, ldc: int, threads: int) -> None:
    """Run the pieces on A [batch, m, k] and check C [batch, m, n] in rows of ldc."""
    batch, m, k = a.shape
    n = layer.weights.shape[1]
    c = np.full((batch, m, ldc), 7, DTYPES[layer.out])
    for piece in pieces:
        packed = layer.packed(tier, piece, k)
        args = dot_args(
            piece, a=a, lda=k, b=packed, c=c, ldc=ldc, m=m, k=-(-k // 4), batch=batch, a_stride=m * k,
            b_stride=packed[0].size // 4, c_stride=m * ldc, **layer.stored,
        )  # fmt: skip
        record, offset = DOT.args.filled(**args), 4 if stores(layer.out) == "words" else 3
        c = run(DOT, piece.params, record, tier, threads, offset=offset)[2]
    wide = a.astype(np.int64)
    products = np.einsum("bmk,bnk->bmn", wide, layer.weights.astype(np.int64))
    np.testing.assert_array_equal(c[:, :, :n], layer.results(products, wide.sum(axis=2, keepdims=True)))
    assert (c[:, :, n:] == 7).all()


@each_integer_tier
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_any_shape(tier: Any, data: Any) -> None:
    nv, out, rowsum = data.draw(st.sampled_from(KINDS))
    width, height = nv * tier.lanes, data.draw(st.integers(1, INT8_COSTS[rowsum].most_rows(tier, nv)))
    m = data.draw(st.integers(1, 3 * height + 1))
    n, k = data.draw(st.integers(1, 2 * width + 1)), data.draw(st.integers(1, 40))
    batch, threads, seed = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)), data.draw(st.integers(0, 99))
    params = {"nv": nv, "out": stores(out), "rowsum": rowsum}
    piece = DotPiece(0, n, nv, params, height, data.draw(st.integers(1, 3)), data.draw(st.booleans()))
    layer = draw_layer(seed, batch, n, k, out, rowsum)
    product(tier, [piece], draw_bytes(seed, batch, m, k), layer, n + data.draw(st.integers(0, 3)), threads)


@each_integer_tier
@pytest.mark.parametrize(("m", "n", "k"), [(1, 100, 70), (9, 64, 33)])
def test_picked(tier: Any, m: int, n: int, k: int) -> None:
    pieces = pick_dot_int8(tier, Product(m, n, k), "bytes", threads=2)
    product(tier, list(pieces), draw_bytes(1, 1, m, k), draw_layer(1, 1, n, k, "u8", False), n, 2)


@each_integer_tier
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_one_row_of_signed_or_unsigned_bytes(tier: Any, data: Any) -> None:
    """Threads share the panels; A is read to the end of its last words, whatever stands there."""
    nv = data.draw(st.sampled_from((1, 2, 3, 4, 8)[: 5 if tier.registers == 32 else 4]))
    out = data.draw(st.sampled_from(sorted(DTYPES)))
    start, n = data.draw(st.integers(0, 9)), data.draw(st.integers(1, 3 * nv * tier.lanes))
    k = data.draw(st.integers(1, 70))
    rowsum, signed = data.draw(st.booleans()), data.draw(st.booleans())
    layer, a = draw_layer(n + k, 1, start + n, k, out, rowsum), draw_bytes(k, k)
    params = {"nv": nv, "out": stores(out), "rowsum": rowsum}
    piece = DotPiece(start, n, nv, params, 1, 1, True)
    x = (a ^ 128).view(np.int8) if signed else a
    c = np.full(start + n + 2, 7, DTYPES[out])
    packed = layer.packed(tier, piece, k, chains(nv))
    record = ROW.args.filled(a=x, b=packed, c=c, **row_args(piece, k, signed), **layer.stored)
    c = run(ROW, row_params(piece), record, tier, data.draw(st.integers(1, 3)))[2]
    wide = a.astype(np.int64)
    expected = layer.results((layer.weights[0].astype(np.int64) @ wide)[None], wide.sum(keepdims=True)[None])
    np.testing.assert_array_equal(c[start : start + n], expected[0, start:])
    assert (c[:start] == 7).all() and (c[start + n :] == 7).all()


@each_integer_tier
def test_extreme_numbers_are_exact(tier: Any) -> None:
    """All products at their largest: 16-bit sums of two would saturate."""
    k, n = 300, 2 * tier.lanes
    layer = draw_layer(0, 1, n, k, "i32", False)
    layer.weights[:, ::2], layer.weights[:, 1::2] = -128, 127
    params = {"nv": 2, "out": "words", "rowsum": False}
    product(tier, [DotPiece(0, n, 2, params, 2, 1, False)], np.full((1, 4, k), 255, np.uint8), layer, n, 1)


@each_integer_tier
def test_halves_are_rounded_to_even(tier: Any) -> None:
    k, n = 4, tier.lanes
    layer = draw_layer(0, 1, n, k, "u8", False)
    layer.weights[...], layer.multipliers[...], layer.limits = 1, 0.5, (3, 0, 255)
    layer.start[...] = np.arange(-n // 2, n - n // 2)
    params = {"nv": 1, "out": "bytes", "rowsum": False}
    a = np.arange(8, dtype=np.uint8).reshape(1, 2, 4)
    product(tier, [DotPiece(0, n, 1, params, 2, 1, False)], a, layer, n, 1)


@settings(max_examples=100, deadline=None)
@given(
    tier=st.sampled_from(tiers.TIERS),
    m=st.integers(1, 3000),
    n=st.integers(1, 1500),
    k=st.integers(1, 3000),
    rowsum=st.booleans(),
)
def test_choices_cover_every_column_and_fit_the_registers(tier: Any, m: int, n: int, k: int, rowsum: bool) -> None:
    pieces = pick_dot_int8(tier, Product(m, n, k), "bytes", rowsum, threads=2, row=m == 1)
    assert all(p.nv <= 4 for p in pick_dot_int8(tier, Product(m, n, k), "bytes", rowsum, threads=2))
    assert [p.start for p in pieces] == [0, *(p.start + p.columns for p in pieces)][:-1]
    assert sum(p.columns for p in pieces) == n
    for p in pieces:
        most = INT8_COSTS[rowsum].most_rows(tier, p.nv)
        assert 1 <= p.height <= most and p.nv in ((1, 2, 3, 4, 8) if m == 1 else (1, 2, 3, 4))
        assert most == 1 or most * (p.nv + rowsum) + vectors_per_word(tier, p.nv, rowsum) < tier.registers


@pytest.mark.parametrize("nv", range(1, 9))
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_every_column_has_a_place(nv: int, lanes: int) -> None:
    order = column_order(nv, lanes, "bytes")
    assert sorted(order) == list(range(nv * lanes))
    np.testing.assert_array_equal(column_order(nv, lanes, "words"), np.arange(nv * lanes))


def test_runs_are_whole_words_of_weights_and_zeros() -> None:
    tier = tiers.BY_NAME["avxvnni"]
    weights = np.arange(1, 7, dtype=np.int8).reshape(1, 1, 6)
    packed = pack_int8(tier, weights, Head(np.array([[5]]), np.ones((1, 1), np.float32)), 1, 3, "bytes")
    lines = packed.reshape(-1, tier.lanes, 4)
    assert lines.shape[0] == 4
    assert lines[0, 0].view(np.int32) == 5 and lines[1, 0].view(np.float32) == 1
    assert lines[2, 0].tolist() == [1, 2, 3, 0] and lines[3, 0].tolist() == [4, 5, 6, 0]
    assert not lines[:, 1:].any()


@each_integer_tier
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_matrix_packed_at_run_time(tier: Any, data: Any) -> None:
    """The same panels as those of constants, but for the columns that aren't there."""
    n, k = data.draw(st.integers(1, 9 * tier.lanes)), data.draw(st.integers(1, 21))
    batch, threads, slack = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)), data.draw(st.integers(0, 3))
    b = draw_bytes(n + k, batch, k, n + slack)
    weights = (b[:, :, :n].astype(np.int16) - 128).astype(np.int8).transpose(0, 2, 1)
    start = 1000 - 77 * weights.astype(np.int64).sum(axis=2)
    ones = np.ones((batch, n))
    expected = pack_int8(tier, weights, Head(start, 0.5 * ones, 33 * ones), 4, k, "bytes")
    assert expected.shape[2] == panel_bytes(tier, 4, True, -(-k // 4))
    record = PACK.args.filled(
        b=b, ldb=n + slack, packed=np.full_like(expected, 7), n=n, k=k, batch=batch, b_stride=k * (n + slack),
        minus_zero_a=-77, start=1000, multiplier=f32_bits(0.5), minus_zero_b=33,
    )  # fmt: skip
    packed = run(PACK, {}, record, tier, threads)[1]
    # Columns past n are whatever follows in memory.
    order = column_order(4, tier.lanes, "bytes")
    panels = packed.shape[1]
    real = (np.arange(panels)[:, None] * len(order) + order < n).reshape(1, panels, 1, -1, 1)
    head = 3 * 16 * tier.lanes
    for part, lanes in ((slice(0, head), len(order)), (slice(head, None), len(order) + tier.lanes)):
        lines = [p[:, :, part].reshape(batch, panels, -1, lanes, 4) for p in (packed, expected)]
        kept = np.concatenate([real, np.ones((1, panels, 1, lanes - len(order), 1), bool)], axis=3)
        np.testing.assert_array_equal(lines[0] * kept, lines[1] * kept)
