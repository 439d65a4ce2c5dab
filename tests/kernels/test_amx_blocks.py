"""amx_blocks against NumPy: weights in a few bits by rows of f32, on AMX tiles."""

from random import Random
from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.amx.pack_amx import configuration
from fastgraph.kernels.amx.pack_real import MT
from fastgraph.kernels.amx.pick_codes import NT, pick_codes, suit
from fastgraph.kernels.amx.rows import ROWS
from fastgraph.kernels.gemm.pick_blocks import BITS, pack_blocks, per_word
from fastgraph.ops.block_dense import block_weights
from tests.amx_trap import AMX, needs_amx
from tests.amx_trap import tiles as tile_registers
from tests.kernels.harness import drawn, noise, run
from tests.kernels.walking import SHORT, Ending

KERNEL = ROWS[3]
Sizes = tuple[int, int, int, int]


def results(sizes: Sizes, bits: int, block: int, zeros: bool, end: str = "plain", a: Any = None) -> Any:
    """What one to three threads make of the same numbers, and what NumPy does in f64."""
    (batch, m, n, k), rng, count = sizes, np.random.default_rng(sum(sizes)), -(-sizes[3] // block)
    codes = rng.integers(0, 256, (n, count, block * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.1, (n, count)).astype(np.float32)
    points = rng.uniform(0, 1 << bits, (n, count)).astype(np.float32) if zeros else None
    a, packed = noise(batch, m, k) if a is None else a, pack_blocks(AMX, codes, scales, points, bits, False)
    ending, fields, found = Ending(AMX, end, (batch, m, n)), pick_codes(m, k, block), []
    slots: dict[str, Any] = {
        "lda": k,
        "ldc": n,
        "m": m,
        "n": n,
        "k": k,
        "batch": batch,
        "block": block // per_word(bits),
        **fields,
    }
    slots |= {"group": packed.shape[1], "zeros": int(zeros), "config": configuration(MT, NT, fields["rows"])}
    for threads in (1, 2, 3):
        c, scratch = np.full((batch, m, n), 7, np.float32), np.zeros(fields["scratch_bytes"] * threads, np.uint8)
        args = KERNEL.args.filled(a=a, b=packed, c=c, scratch=scratch, **slots, **ending.slots)
        with tile_registers():
            found.append(run(KERNEL, {"bits": bits}, args, AMX, threads)[2])
    w = block_weights(codes, scales, points, bits, k).astype(np.float64)
    with np.errstate(invalid="ignore"):
        sums = np.einsum("bmk,nk->bmn", a.astype(np.float64), w)
    assert len({c.tobytes() for c in found}) == 1
    return found[0], ending.of(sums), 4e-7 * np.einsum("bmk,nk->bmn", np.abs(a), np.abs(w)) + 1e-6


@needs_amx
@pytest.mark.slow
@drawn(40)
def test_any_shape(pick: Random) -> None:
    bits, block = pick.choice(BITS), pick.choice((32, 64, 128))
    sizes = (pick.randint(1, 2), pick.randint(1, 150), pick.randint(1, 80), pick.randint(1, 30) * per_word(bits))
    found, expected, most = results(sizes, bits, block, pick.choice((False, True)), pick.choice(SHORT))
    assert (np.abs(found - expected) <= most + 3e-7 * np.abs(expected)).all()


@needs_amx
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("zeros", [True, False])
def test_blocks(bits: int, zeros: bool) -> None:
    found, expected, most = results((1, 70, 40, 112), bits, 32, zeros)
    assert (np.abs(found - expected) <= most).all()


@needs_amx
@pytest.mark.parametrize("odd", [1e-42, 1e-30, 1e30, 1e35, 1e37, np.inf, np.nan])
def test_numbers_whose_parts_lose_bits(odd: float) -> None:
    """They are as exact as of f32, and other rows do not see them."""
    sizes = (1, 40, 33, 96)
    plain, odder = noise(1, 40, 96), noise(1, 40, 96)
    odder[0, 7], odder[0, 9, 50] = plain[0, 7] * np.float32(odd), odd
    first, _, _ = results(sizes, 4, 32, True, a=plain)
    found, expected, _ = results(sizes, 4, 32, True, a=odder)
    others = np.delete(np.arange(40), [7, 9])
    np.testing.assert_array_equal(found[0, others], first[0, others])
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(found), finite)
    largest = np.abs(odder).max(-1, keepdims=True, where=np.isfinite(odder), initial=0)
    most = np.broadcast_to(2e-6 * 96**0.5 * largest + 1e-42, found.shape)
    assert (np.abs(found[finite] - expected[finite]) <= most[finite]).all()


@pytest.mark.parametrize(("block", "scale", "expected"), [
    (32, 1, True), (128, -5, True), (16, 1, False), (32, 1e30, False), (32, np.nan, False),
])  # fmt: skip
def test_what_suits(block: int, scale: float, expected: bool) -> None:
    assert suit(block, np.full((3, 2), scale, np.float32)) == expected
