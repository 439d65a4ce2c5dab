"""Products and convolutions of bytes against their formula, to the bit: any shape, zero point and result, each tier."""

from dataclasses import replace
from math import ceil
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.core.table import row
from fastgraph.kernels.gemm.pack_int8 import Head, Words, column_order, pack_int8, panel_bytes, split, vectors_per_word
from fastgraph.kernels.gemm.pick_conv import ConvPiece, Geometry, conv_args, layout
from fastgraph.kernels.gemm.pick_dot import DotPiece, Product, dot_args
from fastgraph.kernels.gemm.pick_dynamic import parts_of
from fastgraph.kernels.gemm.pick_int8 import (
    SMALL,
    Sums,
    chains,
    int8_costs,
    one_by_one,
    pick_conv_int8,
    pick_dot_int8,
    row_args,
    row_params,
    word_of,
)
from fastgraph.kernels.gemm.rows import GRIDS, PACKED_WIDTHS, RANGE_BYTES
from fastgraph.kernels.isa import tiers
from fastgraph.ops import dynamic
from fastgraph.ops.dynamic import dynamic_rounded
from tests.kernels.geometries import PICKED, small_geometry, square
from tests.kernels.harness import drawn, each_integer_tier, f32_bits, run
from tests.kernels.int8 import DTYPES, Layer, draw_bytes, draw_layer, stores
from tests.kernels.test_gemm import SLACK, check_pieces
from tests.kernels.walking import Ending

DOT, ROW, PACK, CONV = map(row, ("dot_int8", "row_int8", "pack_b_int8", "conv_int8"))
EXTREMES, ROUND, DOT_DYNAMIC = map(row, ("extremes", "dynamic_round", "dot_dynamic"))
KINDS = [(2, "u8", False), (1, "u8", True), (1.5, "s8", False), (2, "f32", False), (1, "i32", True), (3, "u8", False)]
SLOW_KINDS = [(2, "u8", True), (4, "f32", True), (0.5, "u8", False), (2.5, "u8", False), (4, "s8", False)]
"""Vectors of a panel, result, whether weights have zero points; they are small on tiers that gain by that, half of the
time."""
BOTH = (False, True)
WEIGHTS = ("any", "with zero points", "small")


def same(results: list[np.ndarray], expected: np.ndarray) -> None:
    """All are what is expected in their first columns, and 7 behind those."""
    for y in results:
        np.testing.assert_array_equal(y[..., : expected.shape[-1]], expected)
        assert (y[..., expected.shape[-1] :] == 7).all()


# -- products


def check_dot(tier: Any, pieces: list[DotPiece], a: np.ndarray, layer: Layer) -> None:
    """A [batch, m, k]."""
    (batch, m, k), n, results = a.shape, layer.weights.shape[1], []
    ldc, offset = n + SLACK, 4 if stores(layer.out) == "words" else 3
    sizes = {"lda": k, "ldc": ldc, "m": m, "k": -(-k // 4), "batch": batch, "a_stride": m * k, "c_stride": m * ldc}
    for threads in (1, 2, 3, 4):
        c = np.full((batch, m, ldc), 7, DTYPES[layer.out])
        for piece in pieces:
            size = panel_bytes(tier, piece.nv, layer.minus is not None, -(-k // 4), piece.params["small"])
            stride = -(-piece.columns // (piece.nv * tier.lanes)) * size
            b = layer.packed(tier, piece, k)
            args = dot_args(piece, a=a, b=b, c=c, b_stride=stride // 4, **sizes, **layer.stored)
            c = run(DOT, piece.params, DOT.args.filled(**args), tier, threads, offset)[2]
        results.append(c)
    wide = a.astype(np.int64)
    products = np.einsum("bmk,bnk->bmn", wide, layer.weights.astype(np.int64))
    same(results, layer.results(products, wide.sum(axis=2, keepdims=True)))


def params_of(nv: float, sums: Sums) -> dict[str, Any]:
    return {**int8_costs(sums).params(nv), **sums._asdict()}


def one_piece(n: int, nv: float, sums: Sums, height: int, block: int = 1, parts: int = 1) -> Any:
    return [DotPiece(0, n, ceil(nv), params_of(nv, sums), height, block, parts)]


def sums_of(tier: Any, out: str, rowsum: bool, small: bool) -> Sums:
    """What a kernel makes of sums; small: weights are, where that is something else on the tier."""
    return Sums(stores(out), rowsum, small and not rowsum and tiers.multiplies_small(tier))


def of_tier(tier: Any, nv: float, out: str, rowsum: bool, small: bool) -> tuple[float, int, Sums]:
    """The width of panels, whole vectors where the tier has no halves, the most rows of a tile, and sums."""
    sums = sums_of(tier, out, rowsum, small)
    if nv not in int8_costs(sums).widths(tier):
        nv = ceil(nv)
    return nv, int8_costs(sums).most_rows(tier, ceil(nv)), sums


@each_integer_tier
@pytest.mark.parametrize("kind", [*KINDS, *(pytest.param(k, marks=pytest.mark.slow) for k in SLOW_KINDS)], ids=str)
@drawn(15)
def test_dot(tier: Any, kind: tuple[float, str, bool], pick: Random) -> None:
    (_, out, rowsum), (nv, most, sums) = kind, of_tier(tier, *kind, pick.choice(BOTH))
    width, height = int(nv * tier.lanes), pick.randint(1, most)
    m, n, k = pick.randint(1, 3 * height + 1), pick.randint(1, width if nv % 1 else 2 * width + 1), pick.randint(1, 40)
    batch, seed = pick.randint(1, 3), pick.randint(0, 99)
    pieces = one_piece(n, nv, sums, height, pick.randint(1, 3), pick.randint(1, 2))
    check_dot(tier, pieces, draw_bytes(seed, batch, m, k), draw_layer(seed, batch, n, k, out, rowsum, sums.small))


@each_integer_tier
def test_dot_as_it_is_picked(tier: Any) -> None:
    pieces = pick_dot_int8(tier, Product(9, 64, 33), Sums("bytes"), threads=2)
    check_dot(tier, list(pieces), draw_bytes(1, 1, 9, 33), draw_layer(1, 1, 64, 33, "u8", False))


@each_integer_tier
def test_extreme_numbers_are_exact(tier: Any) -> None:
    """All products at their largest: 16-bit sums of two would saturate, but for those of small weights."""
    k, n = 300, 2 * tier.lanes
    layer = draw_layer(0, 1, n, k, "i32", False)
    for small, (least, most) in ((False, (-128, 127)), (True, (-SMALL, SMALL))):
        layer.weights[:, ::2], layer.weights[:, 1::2] = least, most
        pieces = one_piece(n, 2, sums_of(tier, "i32", False, small), 2)
        check_dot(tier, pieces, np.full((1, 4, k), 255, np.uint8), layer)


@each_integer_tier
def test_wide_weights_are_without_zero_points(tier: Any) -> None:
    layer = draw_layer(3, 1, 40, 37, "i32", True)
    layer.minus[...] *= 28
    if not tier.byte_dot:
        layer = replace(layer, weights=layer.weights + layer.minus[..., None].astype(np.int16), minus=None)
        assert np.abs(layer.weights).max() > 255
    check_dot(tier, one_piece(40, 2, Sums("words", tier.byte_dot), 2), draw_bytes(3, 1, 5, 37), layer)


@each_integer_tier
def test_halves_are_rounded_to_even(tier: Any) -> None:
    n = tier.lanes
    layer = draw_layer(0, 1, n, 4, "u8", False)
    layer.weights[...], layer.multipliers[...], layer.limits = 1, 0.5, (3, 0, 255)
    layer.start[...] = np.arange(-n // 2, n - n // 2)
    check_dot(tier, one_piece(n, 1, Sums("bytes"), 2), np.arange(8, dtype=np.uint8).reshape(1, 2, 4), layer)


@each_integer_tier
@pytest.mark.parametrize("nv", [1, 4, *(pytest.param(nv, marks=pytest.mark.slow) for nv in (2, 3, 8))])
@drawn(20)
def test_one_row_of_signed_or_unsigned_bytes(tier: Any, nv: int, pick: Random) -> None:
    """Threads share the panels; A is read to the end of its last words, whatever stands there."""
    if nv == 8 and tier.registers < 32:
        return
    out, start, k = pick.choice(sorted(DTYPES)), pick.randint(0, 9), pick.randint(1, 70)
    n, rowsum, signed = pick.randint(1, 3 * nv * tier.lanes), pick.choice(BOTH), pick.choice(BOTH)
    sums = sums_of(tier, out, rowsum, pick.choice(BOTH))
    layer, a = draw_layer(n + k, 1, start + n, k, out, rowsum, sums.small), draw_bytes(k, k)
    piece = DotPiece(start, n, nv, {"nv": nv, **sums._asdict()}, 1, 1, 1)
    x, c = (a ^ 128).view(np.int8) if signed else a, np.full(start + n + 2, 7, DTYPES[out])
    packed = layer.packed(tier, piece, k, chains(nv), together=1)
    record = ROW.args.filled(a=x, b=packed, c=c, **row_args(piece, k, signed), **layer.stored)
    c = run(ROW, row_params(piece), record, tier, pick.randint(1, 3))[2]
    wide = a.astype(np.int64)
    expected = layer.results((layer.weights[0].astype(np.int64) @ wide)[None], wide.sum(keepdims=True)[None])
    np.testing.assert_array_equal(c[start : start + n], expected[0, start:])
    assert (c[:start] == 7).all() and (c[start + n :] == 7).all()


@each_integer_tier
@drawn(25)
def test_matrix_packed_at_run_time(tier: Any, pick: Random) -> None:
    """The same panels as those of constants, but for the columns that aren't there."""
    batch, n, k, slack = pick.randint(1, 3), pick.randint(1, 9 * tier.lanes), pick.randint(1, 21), pick.randint(0, 3)
    nv = pick.choice(PACKED_WIDTHS)
    b = draw_bytes(n + k, batch, k, n + slack)
    weights = (b[:, :, :n].astype(np.int16) - 128).astype(np.int8).transpose(0, 2, 1)
    start, ones = 1000 - 77 * weights.astype(np.int64).sum(axis=2), np.ones((batch, n))
    expected = pack_int8(tier, weights, Head(start, 0.5 * ones, 33 * ones), Words(k), nv, "bytes")
    assert expected.shape[2] == panel_bytes(tier, nv, True, -(-k // 4))
    sizes = {"ldb": n + slack, "n": n, "k": k, "batch": batch, "b_stride": k * (n + slack)}
    numbers = {"minus_zero_a": -77, "start": 1000, "multiplier": f32_bits(0.5), "minus_zero_b": 33}
    record = PACK.args.filled(b=b, packed=np.full_like(expected, 7), **sizes, **numbers)
    packed = run(PACK, {"nv": nv}, record, tier, pick.randint(1, 3))[1]
    # Columns past n are whatever follows in memory.
    order, panels, head = column_order(nv, tier.lanes, "bytes"), packed.shape[1], 3 * 4 * nv * tier.lanes
    real = (np.arange(panels)[:, None] * len(order) + order < n).reshape(1, panels, 1, -1, 1)
    for part, lanes in ((slice(0, head), len(order)), (slice(head, None), len(order) + tier.lanes)):
        lines = [p[:, :, part].reshape(batch, panels, -1, lanes, 4) for p in (packed, expected)]
        kept = np.concatenate([real, np.ones((1, panels, 1, lanes - len(order), 1), bool)], axis=3)
        np.testing.assert_array_equal(lines[0] * kept, lines[1] * kept)


# -- convolutions


def check_conv(tier: Any, g: Geometry, pieces: Any, layer: Layer, zero: int) -> None:
    """Pieces by the number of threads; zero: x's zero point."""
    outputs, results = g.groups * g.n, []
    x = draw_bytes(outputs, g.images, *g.size, g.x_strides[3])
    for threads in (1, 2, 3, 4):
        y = np.full((g.images, *g.out, outputs + SLACK), 7, DTYPES[layer.out])
        for piece in pieces(threads):
            scratch = np.full(max(piece.scratch * threads, 1), 0xFF, np.uint8)
            memory = {"x": x, "w": layer.packed(tier, piece, g.run), "y": y, "ldy": outputs + SLACK}
            args = conv_args(piece, scratch=scratch, fill=word_of(zero), **memory, **layer.stored)
            y = run(CONV, piece.params, CONV.args.filled(**args), tier, threads)[2]
        results.append(y)
    same(results, layer.convolved(x, zero, g))


@each_integer_tier
@pytest.mark.parametrize(
    "kind", [*KINDS[:3], *(pytest.param(k, marks=pytest.mark.slow) for k in [*KINDS[3:], *SLOW_KINDS])], ids=str
)
@drawn(20)
def test_conv(tier: Any, kind: tuple[float, str, bool], pick: Random) -> None:
    (_, out, rowsum), (nv, most, sums) = kind, of_tier(tier, *kind, pick.choice(BOTH))
    height, g = pick.randint(1, most), small_geometry(pick)._replace(item=1)
    g = g._replace(n=min(g.n, int(nv * tier.lanes))) if nv % 1 else g
    l2, wide = pick.choice((1, 1000, 1 << 20)), ceil(nv)

    def pieces(threads: int) -> list[ConvPiece]:
        laid = layout(g, height, g.n, wide * tier.lanes, threads, l2)
        return [ConvPiece(0, g.n, wide, params_of(nv, sums), *laid)]

    zero = pick.choice((0, 1, 128, 255))
    layer = draw_layer(pick.randint(0, 99), g.groups, g.n, g.k, out, rowsum, sums.small)
    g = g._replace(zeros=zero == 0)
    check_conv(tier, g, pieces, layer, zero)


@each_integer_tier
@pytest.mark.parametrize("name", PICKED)
def test_conv_as_it_is_picked(tier: Any, name: str) -> None:
    g, pieces = pick_conv_int8(tier, PICKED[name]._replace(item=1, zeros=False), Sums("bytes"), threads=3)
    check_conv(tier, g, lambda threads: pieces, draw_layer(1, g.groups, g.n, g.k, "u8", False), 117)


# -- activations that are rounded by their range


def rounded(
    tier: Any, x: np.ndarray, grid: str, out: str, pads: Any = (0,) * 4, per: str = "batch", whole: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """(what is stored, the ranges [images, 4] as f32) for x [images, rows, run]; pads: top, left, bottom, right."""
    (images, rows, count), (top, left, bottom, right) = x.shape, pads
    own, found, ranges = images if per == "batch" else 1, [], []
    sizes = {"rows": rows, "run": count, "images": images, "top": top, "left": left, "bottom": bottom, "right": right}
    kind = {"grid": GRIDS.index(grid), "per_image": int(per == "batch"), "whole": int(whole)}
    for threads in (1, 2, 3, 4):
        both, extremes = {"x": x, "parts": threads}, np.zeros((own, threads, 2), np.float32)
        record = EXTREMES.args.filled(**both, images=own, count=x.size // own, extremes=extremes)
        extremes = run(EXTREMES, {}, record, tier, threads)[1]
        memory = {"extremes": extremes, "ranges": np.zeros((own, RANGE_BYTES // 4), np.float32)}
        y = np.zeros((images, top + rows + bottom, left + count + right), np.uint8 if out == "u8" else np.float32)
        record = ROUND.args.filled(**both, **memory, y=y, **sizes, **kind)
        stored = run(ROUND, {"out": out}, record, tier, threads)
        found.append(stored[3])
        ranges.append(stored[2])
    assert len({y.tobytes() for y in found}) == len({r.tobytes() for r in ranges}) == 1
    return found[0], ranges[0]


@each_integer_tier
@drawn(40)
def test_bytes_stand_for_the_rounded_numbers(tier: Any, pick: Random) -> None:
    shape = (pick.randint(1, 3), pick.randint(1, 4), pick.randint(1, 150))
    rng, grid, per = np.random.default_rng(sum(shape)), pick.choice(GRIDS), pick.choice(("batch", "tensor"))
    numbers = rng.uniform(rng.choice([-3.0, 0.0, 0.5]), 2, shape) * rng.uniform(0.01, 9, (shape[0], 1, 1))
    x, pads = numbers.astype(np.float32), [pick.randint(0, 20) for _ in range(4)]
    expected = dynamic_rounded(x, per, grid)
    stored, ranges = rounded(tier, x, grid, "u8", pads, per)
    scale, minus_zero = ranges[:, 0, None, None], ranges.view(np.int32)[:, 1, None, None]
    found = (stored.astype(np.int32) + minus_zero).astype(np.float32) * scale
    inner = found[:, pads[0] : pads[0] + shape[1], pads[1] : pads[1] + shape[2]]
    np.testing.assert_array_equal(inner, expected)
    inner[...] = 0
    assert not found.any(), "padding stands for 0.0"
    np.testing.assert_array_equal(rounded(tier, x, grid, "f32", per=per)[0], expected)
    whole, ranges = rounded(tier, x, grid, "f32", per=per, whole=True)
    np.testing.assert_array_equal(whole, np.rint(whole))
    np.testing.assert_array_equal(whole * ranges[:, 0, None, None], expected)


@each_integer_tier
@drawn(20)
def test_halves_of_a_step_are_rounded_as_divisions_are(tier: Any, pick: Random) -> None:
    """By steps of many sizes: those that have an inverse in f32, and those that don't."""
    size = pick.choice((1.0, 1.0, 2.0**-93, 2.0**-92, 2.0**-110, 2.0**107, 2.0**108, 1e-37))
    least, most = np.float32(-pick.uniform(0, 2) * size), np.float32(pick.uniform(0.1, 2) * size)
    halves = (np.arange(-256, 256) + 0.5).astype(np.float32) * ((most - least) / np.float32(255))
    near = np.concatenate([halves, *(np.nextafter(halves, way) for way in (least, most)), [least, most]])
    x = np.clip(near, least, most).astype(np.float32)[None, None]
    np.testing.assert_array_equal(rounded(tier, x, "onnx", "f32")[0], dynamic_rounded(x, "batch", "onnx"))
    stored, ranges = rounded(tier, x, "onnx", "u8")
    found = (stored.astype(np.int32) + ranges.view(np.int32)[0, 1]).astype(np.float32) * ranges[0, 0]
    np.testing.assert_array_equal(found, dynamic_rounded(x, "batch", "onnx"))


@each_integer_tier
@pytest.mark.parametrize("grid", GRIDS)
def test_zeros_stay_zeros_and_what_is_not_finite_spreads(tier: Any, grid: str) -> None:
    x = np.zeros((4, 2, 70), np.float32)
    x[1, 1, 69], x[2, 0, 3], x[3, 0, 0] = np.nan, np.inf, 5
    y, _ = rounded(tier, x, grid, "f32")
    assert not y[0].any() and np.isnan(y[1]).all() and np.isnan(y[2]).all()
    np.testing.assert_array_equal(y[3], dynamic_rounded(x[3:], "batch", grid)[0])


@each_integer_tier
@pytest.mark.parametrize("stay", ["", "narrow", "small"])
@pytest.mark.parametrize(("per_row", "rowsum"), [(False, True), (True, False), (False, False)])
@drawn(12)
def test_products_are_exact_before_they_are_scaled(
    tier: Any, per_row: bool, rowsum: bool, stay: str, pick: Random
) -> None:
    narrow, small = stay == "narrow", stay == "small"
    if (narrow and tier.byte_dot) or (small and (rowsum or not tiers.multiplies_small(tier))):
        pytest.skip("bytes are multiplied as they are")
    nv, batch = pick.choice((2, 4 if rowsum else 3)), pick.randint(1, 2)
    height = pick.randint(1, int8_costs(Sums("words", rowsum, small)).most_rows(tier, nv))
    m, n, k = pick.randint(1, 18), pick.randint(1, 3 * tier.lanes), pick.randint(1, 40)
    k = 4 * k if narrow else k
    a, weights = draw_bytes(k, batch, m, k), draw_layer(k, 1, n, k, "f32", False).weights
    rng = np.random.default_rng(m * n + k)
    scales, bias = rng.uniform(0.001, 0.1, (1, n)).astype(np.float32), rng.normal(size=(1, n)).astype(np.float32)
    ranges = np.zeros((batch, m if per_row else 1, RANGE_BYTES // 4), np.float32)
    ranges[..., 0] = rng.uniform(0.01, 1, ranges.shape[:2])
    ranges.view(np.int32)[..., 1] = -rng.integers(0, 256, ranges.shape[:2])
    zeros = rng.integers(-128, 128, (1, n)).astype(np.int32) * rowsum
    head = Head(weights.sum(axis=2, dtype=np.int32) - k * zeros, scales, -zeros if rowsum else None, bias)
    params = {"nv": nv, "per_row": per_row, "rowsum": rowsum, "narrow": narrow, "small": small}
    words, ending = Words(k, narrow=narrow, together=tiers.TOGETHER * small), Ending(tier, "addend", (batch, m, n))
    packed = pack_int8(tier, weights, head, words, nv, "f32")
    memory = {"a": a, "b": packed, "c": np.zeros((batch, m, n), np.float32)}
    sizes = {"lda": k, "ldc": n, "m": m, "k": -(-k // 4), "batch": batch, "a_stride": m * k, "c_stride": m * n}
    each = {"ranges": ranges, "per_image": m if per_row else 1, "per_row": int(per_row)}
    args = dot_args(DotPiece(0, n, nv, params, height, 2, 1), **memory, **sizes, **each, **ending.slots, later=0)
    c = run(DOT_DYNAMIC, params, DOT_DYNAMIC.args.filled(**args), tier, pick.randint(1, 2))[2]
    zero = -ranges.view(np.int32)[..., 1, None].astype(np.int64)
    wide = weights[0].astype(np.int64) - zeros[0][:, None]
    acc = np.einsum("bmk,nk->bmn", a.astype(np.int64), wide) - zero * wide.sum(axis=1)
    sums = acc * (ranges[..., :1].astype(np.float64) * scales) + bias
    np.testing.assert_allclose(c, ending.of(sums), rtol=1e-6, atol=2e-6 * max(1, np.abs(sums).max()))


def test_threads_share_large_images_only() -> None:
    assert parts_of(1, 100, 8) == 1 and parts_of(1, 100_000, 8) == 8 and parts_of(8, 100_000, 8) == 1
    assert GRIDS == dynamic.GRIDS


# -- what is picked and packed


@settings(max_examples=100)
@given(
    st.sampled_from(tiers.TIERS),
    st.integers(1, 3000),
    st.integers(1, 1500),
    st.integers(1, 3000),
    st.sampled_from(WEIGHTS),
)
def test_pieces_fit_the_registers(tier: Any, m: int, n: int, k: int, weights: str) -> None:
    sums = sums_of(tier, "u8", weights == "with zero points", weights == "small")
    pieces = pick_dot_int8(tier, Product(m, n, k), sums, threads=2, row=m == 1)
    assert all(p.nv <= 4 for p in pick_dot_int8(tier, Product(m, n, k), sums, threads=2))
    check_pieces(pieces, n)
    for p in pieces:
        most, rowsum = int8_costs(sums).most_rows(tier, p.nv), sums.rowsum
        assert 1 <= p.height <= most and p.nv in ((1, 2, 3, 4, 8) if m == 1 else (1, 2, 3, 4))
        each = p.nv + rowsum
        weights = vectors_per_word(tier, p.nv, rowsum, sums.small) if not one_by_one(tier, each, sums.small) else most
        assert most == 1 or most * each + weights < tier.registers


@pytest.mark.parametrize("together", [1, 2])
@pytest.mark.parametrize("words", [1, 4, 5])
def test_no_sum_of_products_exceeds_16_bits(words: int, together: int) -> None:
    """Neither of weights that were split, nor of the words that are summed again; and nothing is lost."""
    weights = np.random.default_rng(words).integers(-255, 256, (2, 16, 3, 4 * words)).astype(np.int16)
    main, again = split(weights, together)
    panels, order = again.of_panels(np.arange(8)[::-1], 8), np.arange(8)[::-1]
    whole = main.astype(np.int64).reshape(4, 8, 3, words, 4)
    for panel, taps, place, lacked in zip(*panels[:4], strict=True):
        whole[panel, order, taps, place] += lacked
    np.testing.assert_array_equal(whole.reshape(weights.shape), weights)
    summed = np.zeros((32, 3, words + words % together, 2, 2), np.int64)
    summed[:, :, words % together :] = main.reshape(32, 3, words, 2, 2)
    for numbers in (
        summed.reshape(32, 3, -1, together, 2, 2).swapaxes(3, 4),
        panels.weights.reshape(-1, 1, 1, 2, 1, 2),
    ):
        for sign in (1, -1):
            assert 255 * np.maximum(sign * numbers.astype(np.int64), 0).sum(axis=(4, 5)).max() < 1 << 15


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_every_column_has_a_place(lanes: int) -> None:
    for nv in range(1, 9):
        assert sorted(column_order(nv, lanes, "bytes")) == list(range(nv * lanes))
        np.testing.assert_array_equal(column_order(nv, lanes, "words"), np.arange(nv * lanes))
    for nv in range(1, 4):
        order = column_order(nv, lanes, "bytes", half=True)
        assert sorted(order[-(lanes // 2) :]) == sorted(order)[-(lanes // 2) :]


def test_runs_are_whole_words_of_weights_and_zeros() -> None:
    tier = tiers.BY_NAME["avxvnni"]
    weights = np.arange(1, 7, dtype=np.int8).reshape(1, 1, 6)
    packed = pack_int8(tier, weights, Head(np.array([[5]]), np.ones((1, 1), np.float32)), Words(3), 1, "bytes")
    lines = packed.reshape(-1, tier.lanes, 4)
    assert lines.shape[0] == 4
    assert lines[0, 0].view(np.int32) == 5 and lines[1, 0].view(np.float32) == 1
    assert lines[2, 0].tolist() == [1, 2, 3, 0] and lines[3, 0].tolist() == [4, 5, 6, 0]
    assert not lines[:, 1:].any()


def test_pixels_next_to_each_other_are_one_run() -> None:
    """Words are few where channels are: 3x3 over 3 channels takes 3 words a row, not 3 a pixel."""
    for sizes, words in (((3, 8, 9, 3), 9), ((1, 8, 9, 4), 4), ((3, 8, 9, 1), 1), ((8, 8, 9, 3), 18)):
        assert square(*sizes)._replace(item=1).words == words
