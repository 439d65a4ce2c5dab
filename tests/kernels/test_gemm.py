"""Products and convolutions of f32 against float64 NumPy: any shape and stride, each ending, every tier, guards."""

from itertools import product
from math import ceil
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.core.table import row
from fastgraph.kernels.gemm.pack import merge_groups, pack_weights
from fastgraph.kernels.gemm.pick_blocks import (
    BITS,
    NV,
    few_rows,
    group_bytes,
    is_few,
    pack_blocks,
    per_word,
    row_bytes,
    tile_height,
)
from fastgraph.kernels.gemm.pick_conv import ConvPiece, Geometry, conv_args, layout, merge_factor, pick_conv
from fastgraph.kernels.gemm.pick_conv_transpose import (
    Transposed,
    col2im_args,
    pick_products,
    products_args,
    tap_weights,
)
from fastgraph.kernels.gemm.pick_dot import (
    F32_COSTS,
    FEW_COLUMNS,
    DotPiece,
    Product,
    dot_args,
    few_block,
    few_starts,
    mains,
    max_rows,
    pick_dot,
    split_columns,
    widths,
)
from fastgraph.kernels.gemm.rows import NO_ENDING
from fastgraph.kernels.isa import tiers
from fastgraph.ops.block_dense import block_weights, round_blocks
from tests.kernels.geometries import PICKED, random_geometry, reference, small_geometry, square
from tests.kernels.harness import drawn, each_integer_tier, each_tier, noise, run
from tests.kernels.walking import SHORT, Constants, Ending, ended

DOT, PACK, FEW, BLOCKS, CONV, COL2IM = map(row, ("dot", "pack_b", "dot_few", "dot_blocks", "conv", "col2im"))
SLACK = 2
"""Elements behind each row of a result, which nobody may write."""


def same(results: list[np.ndarray], expected: np.ndarray, rtol: float, atol: float) -> None:
    """All have the same bits, the expected numbers in their first columns, and 7 behind those."""
    columns = expected.shape[-1]
    np.testing.assert_allclose(results[0][..., :columns], expected, rtol=rtol, atol=atol)
    assert (results[0][..., columns:] == 7).all()
    assert len({y.tobytes() for y in results}) == 1


# -- products by packed weights


def pieces_of(n: int, nv: float, height: int, block: int, column_parts: int = 1) -> list[DotPiece]:
    return [DotPiece(0, n, ceil(nv), F32_COSTS.params(nv), height, block, column_parts)]


def check_dot(tier: Any, pieces: list[DotPiece], sizes: tuple[int, int, int, int], biased: bool, end: str) -> None:
    batch, m, n, k = sizes
    a, weights, bias = noise(batch, m, k), noise(batch, n, k), noise(batch, n) * biased
    ending, ldc, results = Ending(tier, end, (batch, m, n)), n + SLACK, []
    strides = {"lda": k, "ldc": ldc, "a_stride": m * k, "c_stride": m * ldc}
    for threads, slots in product((1, 2, 3, 4), ending.ways):
        c = np.full((batch, m, ldc), 7, np.float32)
        for piece in pieces:
            part = slice(piece.start, piece.start + piece.columns)
            b = pack_weights(weights[:, part], bias[:, part] if biased else None, piece.nv, tier.lanes)
            args = dot_args(piece, a=a, b=b, c=c, m=m, k=k, batch=batch, b_stride=b[0].size, **strides, **slots)
            c = run(DOT, piece.params, DOT.args.filled(**args), tier, threads)[2]
        results.append(c)
    sums = np.einsum("bmk,bnk->bmn", a.astype(np.float64), weights.astype(np.float64)) + bias[:, None]
    same(results, ending.of(sums), 2e-5, 2e-5 * k**0.5)


@each_tier
@drawn(40)
def test_dot(tier: Any, pick: Random) -> None:
    nv = pick.choice(F32_COSTS.widths(tier))
    end = pick.choice(SHORT) if nv == 2 else "plain"
    width, height = int(nv * tier.lanes), pick.randint(1, F32_COSTS.most_rows(tier, ceil(nv)))
    most = 2 * width + 1 if nv % 1 == 0 else width
    m, n, k = pick.randint(1, 3 * height + 1), pick.randint(1, most), pick.randint(1, 40)
    pieces = pieces_of(n, nv, height, pick.randint(1, 3), pick.randint(1, 2))
    check_dot(tier, pieces, (pick.randint(1, 3), m, n, k), pick.choice((False, True)), end)


@each_tier
@pytest.mark.parametrize("end", SHORT)
def test_endings_of_dot(tier: Any, end: str) -> None:
    check_dot(tier, pieces_of(21, 2, 3, 1), (2, 7, 21, 11), True, end)


@each_tier
def test_what_is_not_finite_stays_so(tier: Any) -> None:
    """NaN goes through bounds, infinities are held by them."""
    a, weights = np.float32([[[np.nan], [np.inf], [-np.inf], [0.5]]]), np.ones((1, 3, 1), np.float32)
    (piece,), ending = pieces_of(3, 2, 2, 1), Ending(tier, "bounds", (1, 4, 3))
    b, c = pack_weights(weights, None, 2, tier.lanes), np.zeros((4, 3), np.float32)
    args = dot_args(piece, a=a, lda=1, b=b, c=c, ldc=3, m=4, k=1, later=0, **ending.slots)
    found = run(DOT, piece.params, DOT.args.filled(**args), tier)[2]
    np.testing.assert_array_equal(found, np.repeat(np.float32([[np.nan], [1], [-0.5], [0.5]]), 3, 1))


@each_tier
@pytest.mark.parametrize(("m", "n", "k"), [(1, 100, 70), (7, 80, 33), (49, 58, 20), (2100, 16, 33), (2100, 32, 33)])
def test_dot_as_it_is_picked(tier: Any, m: int, n: int, k: int) -> None:
    check_dot(tier, list(pick_dot(tier, Product(m, n, k), threads=2)), (1, m, n, k), True, "plain")


@each_tier
@pytest.mark.parametrize("chain", [(("add", 0, 1),), (("sigmoid", 0), ("mul", 2, 1))])
def test_result_may_replace_a_full_operand(tier: Any, chain: Any) -> None:
    a, weights, c = noise(1, 8, 11), noise(1, 21, 11), noise(8, 21)
    (piece,) = pieces_of(21, 2, 3, 1)
    b = pack_weights(weights, None, 2, tier.lanes)
    constants, operand = Constants(tier), c[None].copy()
    ending = ended(constants, chain, [operand])
    # What a table refers to isn't copied for the call.
    place = operand.ctypes.data if constants.arrays else operand
    args = dot_args(piece, a=a, lda=11, b=b, c=place, ldc=21, m=8, k=11, later=0, **ending)
    found = run(DOT, piece.params, DOT.args.filled(**args), tier)
    out = (operand if constants.arrays else found[2])[0]
    sums, x = (a[0] @ weights[0].T).astype(np.float64), c.astype(np.float64)
    expected = sums + x if len(chain) == 1 else x / (1 + np.exp(-sums))
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


@each_tier
@drawn(20)
def test_matrix_packed_at_run_time(tier: Any, pick: Random) -> None:
    batch, n, k = pick.randint(1, 3), pick.randint(1, 5 * tier.lanes), pick.randint(1, 2 * tier.lanes + 1)
    w, ldb = noise(batch, n, k), n + pick.randint(0, 3)
    b = np.zeros((batch, k, ldb), np.float32)
    b[:, :, :n] = w.transpose(0, 2, 1)
    expected = pack_weights(w, None, 2, tier.lanes)
    args = PACK.args.filled(b=b, ldb=ldb, packed=np.full_like(expected, 7), n=n, k=k, batch=batch, b_stride=b[0].size)
    made = run(PACK, {"nv": 2}, args, tier, pick.randint(1, 3))[1]
    unpacked, wanted = (np.moveaxis(p, 2, 0).reshape(1 + k, batch, -1)[..., :n] for p in (made, expected))
    np.testing.assert_array_equal(unpacked, wanted)


# -- products of few rows, by matrices as they lie and by weights in blocks of few bits


@each_tier
@drawn(60)
def test_few_rows(tier: Any, pick: Random) -> None:
    batch, m, k, columns = pick.randint(1, 3), pick.randint(1, 9), pick.randint(1, 40), pick.choice((0, 1, 2))
    n = (pick.randint(1, 6 * tier.lanes), 1, pick.randint(1, FEW_COLUMNS[tier.registers]))[columns]
    m *= pick.choice((1, 11)) if columns else 1
    lda, ldc, bias = k + pick.randint(0, 3), n + pick.randint(0, 2), noise(n) if columns else np.zeros(n, np.float32)
    a, b = noise(batch, m, lda), noise(pick.choice((1, batch)), k, n)
    ending, results = Ending(tier, pick.choice(SHORT), (batch, m, n)), []
    strides = {"a_stride": m * lda, "b_stride": k * n if len(b) > 1 else 0, "c_stride": m * ldc}
    strides |= {"lda": lda, "ldc": ldc, "columns": columns}
    read = {"b": np.ascontiguousarray(b.swapaxes(1, 2)) if columns else b, "start": few_starts(bias, n)}
    blocks = pick.choice(((1, 2, 3), [few_block(tier, n, batch, t) // tier.lanes for t in (1, 2, 3)]))
    for threads, block in enumerate(blocks, 1):
        sizes = {"m": m, "n": n, "k": k, "batch": batch, "block": block * tier.lanes}
        c = np.full((batch, m, ldc), 7, np.float32)
        args = FEW.args.filled(a=a, c=c, **read, **sizes, **strides, **ending.slots)
        made = run(FEW, {}, args, tier, threads)[2]
        assert (made[..., n:] == 7).all()
        results.append(made[..., :n])
    products = np.matmul(a[..., :k].astype(np.float64), b.astype(np.float64)) + bias
    same(results, ending.of(products), 2e-5, 2e-5 * k**0.5)


def check_blocks(tier: Any, sizes: tuple[int, int, int, int], bits: int, block: int, zeros: bool, **how: Any) -> None:
    """how: the ending, and whether rows are rounded to bytes."""
    (batch, m, n, k), rng, count = sizes, np.random.default_rng(sum(sizes)), -(-sizes[3] // block)
    codes = rng.integers(0, 256, (n, count, block * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.1, (n, count)).astype(np.float32)
    points = rng.uniform(0, 1 << bits, (n, count)).astype(np.float32) if zeros else None
    rounds = how.get("rounds", False)
    a, packed = noise(batch, m, k), pack_blocks(tier, codes, scales, points, bits, rounds)
    assert packed.shape[1] == group_bytes(tier, bits, block, count, zeros)
    ending, results, few = Ending(tier, how["end"], (batch, m, n)), [], rounds or is_few(tier, m)
    heights = tile_height(tier, m, rounds)
    slots = {"lda": k, "ldc": n, "m": m, "n": n, "k": k, "batch": batch, "block": block // per_word(bits)}
    slots |= {"group": packed.shape[1], "height": heights, "few": int(few), "zeros": int(zeros)}
    for threads in (1, 2, 3, 4):
        rows = min(m, threads * heights) if rounds else 0
        size = rows * row_bytes(k, count) if few else 4 * (1 + k) * NV * tier.lanes
        c, scratch = np.full((batch, m, n), 7, np.float32), np.zeros(max(size, 1) * threads, np.uint8)
        memory = {"a": a, "b": packed, "c": c, "scratch": scratch, "scratch_bytes": size, "rounded": rows}
        args = BLOCKS.args.filled(**slots, **memory, **ending.slots)
        results.append(run(BLOCKS, {"bits": bits}, args, tier, threads)[2])
    w = block_weights(codes, scales, points, bits, k).astype(np.float64)
    seen = round_blocks(a, block) if rounds else a
    expected = ending.of(np.einsum("bmk,nk->bmn", seen.astype(np.float64), w))
    largest = np.abs(w).max() * k**0.5 * (1 << bits if zeros else 1)
    same(results, expected, 2e-5, 2e-6 * max(largest, 1))


@each_tier
@pytest.mark.slow
@drawn(60)
def test_blocks_of_any_shape(tier: Any, pick: Random) -> None:
    bits = pick.choice(BITS)
    n, k = pick.randint(1, 5 * tier.lanes), pick.randint(1, 9) * per_word(bits)
    sizes = (pick.randint(1, 2), pick.randint(1, 24), n, k)
    how = {"end": pick.choice(SHORT), "rounds": tier.byte_dot and pick.choice((False, True))}
    check_blocks(tier, sizes, bits, pick.choice((16, 32, 64)), pick.choice((False, True)), **how)


@each_tier
@pytest.mark.parametrize("m", [1, 40])
def test_blocks(tier: Any, m: int) -> None:
    check_blocks(tier, (1, m, 100, 72), 4, 32, True, end="all")


@each_integer_tier
@pytest.mark.parametrize("m", [1, 40])
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("zeros", [True, False])
def test_blocks_of_rounded_rows(tier: Any, m: int, bits: int, zeros: bool) -> None:
    if not tier.byte_dot:
        pytest.skip("no products of bytes")
    check_blocks(tier, (2, m, 100, 80), bits, 32, zeros, end="all", rounds=True)


# -- convolutions


def check_conv(tier: Any, g: Geometry, pieces: Any, end: str = "plain") -> None:
    """Pieces by the number of threads, whose scratch they have."""
    outputs, pixels = g.groups * g.n, g.out[0] * g.out[1] * g.out[2]
    x, w, bias = noise(g.images, *g.size, g.x_strides[3]), noise(outputs, *g.kernel, g.c), noise(outputs)
    ending, results = Ending(tier, end, (g.images, pixels, outputs)), []
    grouped, biases = w.reshape(g.groups, g.n, -1), bias.reshape(g.groups, g.n)
    for threads, slots in product((1, 2, 3, 4), ending.ways):
        y = np.full((g.images, *g.out, outputs + SLACK), 7, np.float32)
        for piece in pieces(threads):
            part = slice(piece.start, piece.start + piece.columns)
            packed = pack_weights(grouped[:, part], biases[:, part], piece.nv, tier.lanes)
            scratch = np.full(max(piece.scratch * threads // 4, 1), np.nan, np.float32)
            memory = {"x": x, "w": packed, "y": y, "ldy": outputs + SLACK, "scratch": scratch}
            args = conv_args(piece, **memory, **slots)
            y = run(CONV, piece.params, CONV.args.filled(**args), tier, threads)[2]
        results.append(y)
    sums = reference(x[..., : g.groups * g.c], w, g) + bias
    same(results, ending.of(sums), 2e-5, 3e-5 * g.k**0.5)


@each_tier
@drawn(40)
def test_conv(tier: Any, pick: Random) -> None:
    """Tiles that lie within a row of outputs, end with it, or go on over several."""
    nv = pick.randint(1, 2)
    end = pick.choice(SHORT) if nv == 1 else "plain"
    height, g = pick.randint(1, F32_COSTS.most_rows(tier, nv)), small_geometry(pick)
    l2 = pick.choice((1, 4000, 1 << 20))

    def pieces(threads: int) -> list[ConvPiece]:
        return [ConvPiece(0, g.n, nv, F32_COSTS.params(nv), *layout(g, height, g.n, nv * tier.lanes, threads, l2))]

    check_conv(tier, g, pieces, end)


@each_tier
@pytest.mark.parametrize("name", PICKED)
def test_conv_as_it_is_picked(tier: Any, name: str) -> None:
    check_conv(tier, PICKED[name], lambda threads: pick_conv(tier, PICKED[name], threads))


@each_tier
@pytest.mark.parametrize("c", [1, 20])
def test_conv_of_a_long_row(tier: Any, c: int) -> None:
    """One spatial dimension, cut into bands."""
    strides = (301 * c, 301 * c, 301 * c, c)
    g = Geometry(1, 1, c, 9, (1, 1, 301), (1, 1, 5), (1, 1, 150), strides, (1, 1, 2), pads=(0, 0, 1))
    assert pick_conv(tier, g, 2, l2=4096)[0].fields["band"] < 150
    check_conv(tier, g, lambda threads: pick_conv(tier, g, threads, l2=4096))


@each_tier
@pytest.mark.parametrize("c, k, stride, pad", [(512, 3, 2, 0), (512, 2, 2, 0), (1024, 2, 1, 0), (256, 5, 4, 1)])
def test_outputs_of_a_long_row_do_not_collide(tier: Any, c: int, k: int, stride: int, pad: int) -> None:
    """As encoders of speech have them: outputs would be a multiple of 4 KiB apart in x."""
    size, out = 301, (301 + pad - k) // stride + 1
    strides = (size * c, size * c, size * c, c)
    g = Geometry(1, 1, c, 9, (1, 1, size), (1, 1, k), (1, 1, out), strides, (1, 1, stride), pads=(0, 0, pad))
    (piece,) = pick_conv(tier, g)
    assert piece.fields["out_w"] == 1 and piece.fields["gs"] % 4096
    check_conv(tier, g, lambda threads: pick_conv(tier, g, threads))


# -- transposed convolutions: products, and their sums


def summed(t: np.ndarray, g: Transposed) -> np.ndarray:
    """y [images, *out, groups * n] of products [groups, pixels, taps * n]."""
    y = np.zeros((g.images, *g.out, g.groups, g.n))
    t = t.reshape(g.groups, g.images, *g.size, -1, g.n)
    for tap, k in enumerate(product(*map(range, g.kernel))):
        for i in product(*map(range, g.size)):
            o = [i[a] * g.strides[a] + k[a] * g.dilations[a] - g.pads[a] for a in range(3)]
            if all(0 <= o[a] < g.out[a] for a in range(3)):
                y[:, *o] += np.moveaxis(t[:, :, *i, tap], 0, 1)
    return y.reshape(g.images, *g.out, -1)


def transposed(pick: Random) -> Transposed:
    depth, pads, out = pick.choice((False, True)), [], []
    some = [(pick.randint(1, 3) if depth else 1, pick.randint(1, 3), pick.randint(1, 3)) for _ in range(4)]
    for i, k, s, d in zip(*some, strict=True):
        full = (i - 1) * s + (k - 1) * d + 1
        pads.append(pick.randint(0, min(2, full - 1)))
        out.append(pick.randint(max(1, full - pads[-1] - 2), full - pads[-1] + s - 1))
    sizes = (pick.randint(1, 2), pick.randint(1, 3), pick.randint(1, 5), pick.randint(1, 20))
    return Transposed(*sizes, some[0], some[1], (out[0], out[1], out[2]), *some[2:], (pads[0], pads[1], pads[2]))


def check_transposed(tier: Any, g: Transposed, end: str, slack: int = SLACK) -> None:
    channels, pixels = g.groups * g.n, g.out[0] * g.out[1] * g.out[2]
    x, w, bias = noise(g.images, *g.size, g.groups * g.c), noise(channels, *g.kernel, g.c), noise(channels)
    t = np.zeros((g.groups, g.pixels, g.columns), np.float32)
    assert t.nbytes == g.products
    taps = tap_weights(w, g.groups)
    for piece in pick_products(tier, g):
        b = pack_weights(taps[:, piece.start : piece.start + piece.columns], None, piece.nv, tier.lanes)
        memory = {"a": x, "lda": g.groups * g.c, "b": b, "b_stride": b[0].size, "c": t}
        args = products_args(piece, g, k=g.c, **memory, **NO_ENDING)
        t = run(DOT, piece.params, DOT.args.filled(**args), tier)[2]
    ending, results = Ending(tier, end, (g.images, pixels, channels)), []
    for threads in (1, 2, 3, 4):
        y, scratch = np.full((g.images, *g.out, channels + slack), 7, np.float32), np.zeros(g.scratch * threads // 4)
        memory = {"t": t, "y": y, "ldy": channels + slack, "bias": bias, "scratch": scratch.astype(np.float32)}
        args = col2im_args(g, **memory, **ending.slots)
        results.append(run(COL2IM, {}, COL2IM.args.filled(**args), tier, threads)[1])
    products = np.einsum("pgc,gtc->gpt", x.reshape(-1, g.groups, g.c).astype(np.float64), taps)
    same(results, ending.of(summed(products, g) + bias), 2e-5, 1e-4)


@each_tier
@drawn(25)
def test_transposed(tier: Any, pick: Random) -> None:
    check_transposed(tier, transposed(pick), pick.choice(SHORT), pick.choice((0, SLACK)))


@each_tier
def test_transposed_with_a_stride(tier: Any) -> None:
    g = Transposed(1, 2, 5, 6, (1, 4, 5), (1, 4, 4), (1, 8, 10), (1, 2, 2), pads=(0, 1, 1))
    check_transposed(tier, g, "plain")


@each_tier
@pytest.mark.parametrize("n", (1, 2, 3, 20))
def test_transposed_by_long_windows(tier: Any, n: int) -> None:
    """As a filter bank's synthesis: windows begin before the result and end behind it, some cover it."""
    for kernel, stride, pad, out in ((16, 8, 0, 80), (40, 3, 20, 24), (40, 3, 17, 9), (7, 9, 3, 77)):
        g = Transposed(2, 1, 5, n, (1, 1, 9), (1, 1, kernel), (1, 1, out), (1, 1, stride), pads=(0, 0, pad))
        for end in ("plain", "addend", "leaky"):
            check_transposed(tier, g, end, slack=0)


# -- what is picked


def check_pieces(pieces: Any, n: int) -> None:
    """They follow one another and cover all columns."""
    assert [p.start for p in pieces] == [0, *(p.start + p.columns for p in pieces)][:-1]
    assert sum(p.columns for p in pieces) == n


shapes = st.tuples(st.integers(1, 3000), st.integers(1, 1500), st.integers(1, 3000))
each_drawn_tier = st.sampled_from(tiers.TIERS)


@settings(max_examples=100)
@given(each_drawn_tier, shapes, st.integers(1, 4))
def test_pieces_of_products_fit_the_registers(tier: Any, shape: tuple[int, int, int], threads: int) -> None:
    pieces = pick_dot(tier, Product(*shape), threads=threads)
    check_pieces(pieces, shape[1])
    for p in pieces:
        assert 1 <= p.height <= F32_COSTS.most_rows(tier, p.nv) and p.block >= 1
        assert p.nv in ((1, 2, 3, 4, 8) if shape[0] == 1 else (1, 2, 3, 4))
        assert F32_COSTS.most_rows(tier, p.nv) * p.nv + p.nv < tier.registers


def test_weights_that_no_cache_holds_are_read_for_many_rows() -> None:
    """The dense layer behind the regions of Faster R-CNN, and one of an eighth of its weights."""
    for tier in tiers.TIERS:
        for k, far in ((12544, True), (1500, False)):
            pieces = pick_dot(tier, Product(150, 1024, k), l2=1 << 19)
            assert all((piece.block * piece.height >= 80) == far for piece in pieces)


@drawn(60)
def test_pieces_of_convolutions_fit_the_registers(pick: Random) -> None:
    tier, h = pick.choice(tiers.TIERS), pick.randint(1, 40)
    g = random_geometry(pick, (pick.randint(1, 2), h, 60 - h), pick.randint(1, 9), pick.randint(1, 11), 2)
    pieces = pick_conv(tier, g, pick.randint(1, 4))
    check_pieces(pieces, g.n)
    for p in pieces:
        assert 1 <= p.fields["height"] <= F32_COSTS.most_rows(tier, p.nv) and p.nv in (1, 2, 3, 4)
        assert 1 <= p.fields["band"] <= g.out[1] and p.fields["direct"] == (p.scratch == 0)


@given(each_drawn_tier, st.integers(1, 5000), st.integers(1, 40), st.integers(1, 64))
def test_few_rows_are_tiled_by_whole_vectors(tier: Any, n: int, batch: int, threads: int) -> None:
    block = few_block(tier, n, batch, threads)
    assert block > 0 and block % tier.lanes == 0
    most = few_rows(tier) if is_few(tier, n) else max_rows(tier, NV)
    assert 1 <= tile_height(tier, n) <= most


@given(each_drawn_tier, st.integers(1, 16), st.integers(1, 4), st.integers(0, 300), st.integers(1, 100))
def test_main_tiles_fit_and_leave_no_more_tiles_than_the_tallest(
    tier: Any, most: int, nv: int, m: int, words: int
) -> None:
    found = mains(tier, m, most, nv, words)
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


def test_narrow_groups_are_merged_into_one_vector() -> None:
    wide = tiers.BY_NAME["avx512"]
    assert [merge_factor(wide.lanes, *sizes) for sizes in ((32, 4), (6, 5), (3, 16))] == [4, 3, 1]
    g, factor = square(4, 4, 6, 3, 1, 1, groups=6), 3
    x, w = noise(1, 1, 6, 6, 24), noise(24, 1, 3, 3, 4)
    merged = square(12, 12, 6, 3, 1, 1, groups=2)
    np.testing.assert_allclose(reference(x, merge_groups(w, 6, factor), merged), reference(x, w, g), rtol=1e-9)
