"""dot_blocks against float64 NumPy: every tier, bits and blocks, few rows and many, guarded memory, kinds of extras."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.core.table import row
from fastgraph.kernels.gemm.pick_blocks import (
    BITS,
    NV,
    few_rows,
    group_bytes,
    is_few,
    pack_blocks,
    per_word,
    tile_height,
)
from fastgraph.kernels.gemm.pick_dot import max_rows
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.pointwise.chain import eval_chain
from fastgraph.kernels.pointwise.rows import NO_EPILOGUE
from fastgraph.ops.block_dense import block_weights
from tests.kernels.harness import each_tier, run
from tests.kernels.test_dot import CHAINS, noise
from tests.kernels.walking import Constants, ended

BLOCKS = row("dot_blocks")
Weights = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def drawn(n: int, k: int, bits: int, block: int, zeros: bool) -> Weights:
    """Codes, scales and zero points, any number in each code."""
    rng, blocks = np.random.default_rng(n + k), -(-k // block)
    codes = rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.1, (n, blocks)).astype(np.float32)
    return codes, scales, rng.uniform(0, 1 << bits, (n, blocks)).astype(np.float32) if zeros else None


def arguments(tier: Any, a: np.ndarray, weights: Weights, bits: int, block: int, threads: int) -> dict[str, Any]:
    """The slots for A [batch, m, k]."""
    (batch, m, k), (n, blocks), zeros = a.shape, weights[1].shape, weights[2] is not None
    size = 1 if is_few(tier, m) else 4 * (1 + k) * NV * tier.lanes
    packed = pack_blocks(tier, *weights, bits)
    assert packed.shape[1] == group_bytes(tier, bits, block, blocks, zeros)
    return {
        "a": a, "lda": k, "b": packed, "c": np.full((batch, m, n), 7, np.float32), "ldc": n, "m": m, "n": n, "k": k,
        "batch": batch, "block": block // per_word(bits), "zeros": int(zeros), "group": packed.shape[1],
        "height": tile_height(tier, m), "few": int(is_few(tier, m)), "scratch": np.zeros(size * threads, np.uint8),
        "scratch_bytes": size,
    }  # fmt: skip


@each_tier
@settings(max_examples=60, deadline=None)
@given(data=st.data())
@pytest.mark.slow
def test_any_shape(tier: Any, data: Any) -> None:
    kinds, bits = data.draw(st.sampled_from(sorted(CHAINS))), data.draw(st.sampled_from(BITS))
    block, zeros = data.draw(st.sampled_from([16, 32, 64])), data.draw(st.booleans())
    m, n = data.draw(st.integers(1, 24)), data.draw(st.integers(1, 5 * tier.lanes))
    k = data.draw(st.integers(1, 9)) * per_word(bits)
    batch, threads = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3))
    a, weights = noise(batch, m, k), drawn(n, k, bits, block, zeros)
    shapes = {"full": (batch, m, n), "channel": (1, 1, n), "scalar": (1, 1, 1), "image": (batch, 1, n)}
    operands, constants = [noise(*shapes[kind]) for kind in kinds], Constants(tier)
    ending = ended(constants, CHAINS[kinds], operands)
    args = BLOCKS.args.filled(**arguments(tier, a, weights, bits, block, threads), **ending)
    found = run(BLOCKS, {"bits": bits}, args, tier, threads)[2]
    w = block_weights(*weights, bits, k).astype(np.float64)
    sums = np.einsum("bmk,nk->bmn", a.astype(np.float64), w)
    expected = eval_chain(CHAINS[kinds], [sums, *(o.astype(np.float64) for o in operands)])
    size = np.abs(w).max() * k**0.5 * (1 << bits if zeros else 1)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6 * max(size, 1))


@each_tier
@pytest.mark.parametrize("m", [1, 40])
def test_same_bits_for_any_threads(tier: Any, m: int) -> None:
    a, weights = noise(1, m, 72), drawn(100, 72, 4, 32, True)
    found = set()
    for threads in (1, 2, 3):
        args = BLOCKS.args.filled(**arguments(tier, a, weights, 4, 32, threads), **NO_EPILOGUE)
        found.add(run(BLOCKS, {"bits": 4}, args, tier, threads)[2].tobytes())
    assert len(found) == 1


@given(st.sampled_from(tiers.TIERS), st.integers(1, 1000))
def test_tiles_have_as_many_rows_as_there_are_bodies(tier: Any, m: int) -> None:
    most = few_rows(tier) if is_few(tier, m) else max_rows(tier, NV)
    assert 1 <= tile_height(tier, m) <= most
