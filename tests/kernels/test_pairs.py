"""Products and convolutions of pairs of bf16: sums of rounded operands, results in f32 or rounded, guards."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.core.table import row
from fastgraph.kernels.gemm.pack import pack_weights
from fastgraph.kernels.gemm.pack_bf16 import pairs, rounded
from fastgraph.kernels.gemm.pick_conv import ConvPiece, Geometry, conv_args, layout
from fastgraph.kernels.gemm.pick_dot import DotPiece, dot_args, max_rows
from fastgraph.kernels.gemm.rows import ITEM
from fastgraph.kernels.isa import tiers
from tests.kernels.geometries import random_geometry, reference, strided
from tests.kernels.harness import drawn, noise, run
from tests.kernels.walking import SHORT, Ending

pytestmark = pytest.mark.skipif(not tiers.has(tiers.PAIRS), reason="ISA tier avx512 with avx512bf16")
TIER = tiers.BY_NAME["avx512"]
DOT, CONV, ROUND = map(row, ("dot_bf16", "conv_bf16", "round_bf16"))
SLACK = 2
"""Elements behind each row of a result, which nobody may write."""
TYPES = {"f32": np.float32, "bf16": np.uint16}


def widened(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def near(x: np.ndarray, element: str) -> np.ndarray:
    """f32 that the element type has."""
    return widened(rounded(x)) if element == "bf16" else x


def stored(x: np.ndarray, element: str) -> np.ndarray:
    return rounded(x) if element == "bf16" else x


def words(weights: np.ndarray, element: str) -> np.ndarray:
    return pairs(weights) if element == "bf16" else weights


@dataclass
class Ends:
    """How results end, with addends of an element type that hold the same numbers in both."""

    end: str
    shape: tuple[int, int, int]
    addends: str
    ending: Ending = field(init=False)

    def __post_init__(self) -> None:
        self.ending = Ending(TIER, self.end, self.shape)

    @property
    def slots(self) -> dict[str, Any]:
        slots = {**self.ending.slots, "later": 0, "addend_item": 4}
        if isinstance(slots["addend"], np.ndarray):
            slots |= {"addend": stored(self.near(), self.addends), "addend_item": ITEM[self.addends]}
        return slots

    def near(self) -> np.ndarray:
        return near(self.ending.operands[0], "bf16")

    def of(self, sums: np.ndarray) -> np.ndarray:
        if isinstance(self.ending.slots["addend"], np.ndarray):
            self.ending.operands[0] = self.near()
        return self.ending.of(sums)


def check(found: dict[str, list[np.ndarray]], expected: np.ndarray, k: int) -> None:
    """Results by element type, those of all numbers of threads the same; bf16 are f32 rounded."""
    n = expected.shape[-1]
    for results in found.values():
        assert len({y.tobytes() for y in results}) == 1
        assert (results[0][..., n:] == 7).all()
    if "f32" in found:
        np.testing.assert_allclose(found["f32"][0][..., :n], expected, rtol=2e-5, atol=3e-5 * k**0.5)
        np.testing.assert_array_equal(found["bf16"][0][..., :n], rounded(found["f32"][0][..., :n]))
    else:
        np.testing.assert_allclose(widened(found["bf16"][0][..., :n]), expected, rtol=2**-8, atol=3e-5 * k**0.5)


@pytest.mark.parametrize("element", ITEM)
@drawn(40)
def test_products(element: str, pick: Random) -> None:
    nv, batch, m = pick.choice((1, 2, 3, 4, 8)), pick.randint(1, 2), pick.randint(1, 30)
    height, n, k = pick.randint(1, max_rows(TIER, nv)), pick.randint(1, 70), 2 * pick.randint(1, 20)
    a, weights, bias = near(noise(batch, m, k), element), near(noise(batch, n, k), element), noise(batch, n)
    ends, found = Ends(pick.choice(SHORT), (batch, m, n), pick.choice(tuple(ITEM))), dict[str, list[np.ndarray]]()
    lda, ldc, item = k + pick.randint(0, 3), n + SLACK, ITEM[element]
    held = np.full((batch, m, lda), 0x7FC0 if element == "bf16" else np.nan, TYPES[element])
    held[..., :k] = stored(a, element)
    b = pack_weights(words(weights, element), bias, nv, TIER.lanes)
    strides = {"lda": lda, "ldc": ldc, "a_stride": m * lda, "c_stride": m * ldc, "b_stride": b[0].size}
    piece = DotPiece(0, n, nv, {}, height, pick.randint(1, 3), pick.randint(1, 2))
    for out in ITEM:
        if out == element == "f32":
            continue
        for threads in (1, 2, 3):
            c = np.full((batch, m, ldc), 7, TYPES[out])
            args = dot_args(piece, a=held, b=b, c=c, m=m, k=k * item // 4, batch=batch, **strides, **ends.slots)
            params = {"nv": nv, "element": element, "out": out}
            found.setdefault(out, []).append(run(DOT, params, DOT.args.filled(**args), TIER, threads, offset=2)[2])
    sums = np.einsum("bmk,bnk->bmn", a.astype(np.float64), weights.astype(np.float64)) + bias[:, None]
    check(found, ends.of(sums), k)


def geometry(pick: Random, element: str) -> Geometry:
    out = (pick.randint(1, 2), pick.randint(1, 5), pick.randint(1, 17))
    g = random_geometry(pick, out, 2 * pick.randint(1, 5), pick.randint(1, 40), pick.randint(1, 3))
    return strided(g, pick.randint(0, 3), ITEM[element])


@pytest.mark.parametrize("element", ITEM)
@drawn(40)
def test_convolutions(element: str, pick: Random) -> None:
    nv, g, l2 = pick.randint(1, 3), geometry(pick, element), pick.choice((1, 4000, 1 << 20))
    outputs, pixels, height = g.groups * g.n, int(np.prod(g.out)), pick.randint(1, max_rows(TIER, nv))
    x = near(noise(g.images, *g.size, g.x_strides[3]), element)
    w, bias = near(noise(outputs, *g.kernel, g.c), element), noise(outputs)
    ends, found = Ends(pick.choice(SHORT), (g.images, pixels, outputs), pick.choice(tuple(ITEM))), {}
    packed = pack_weights(words(w.reshape(g.groups, g.n, -1), element), bias.reshape(g.groups, -1), nv, TIER.lanes)
    for out in ITEM:
        if out == element == "f32":
            continue
        for threads in (1, 2, 3):
            piece = ConvPiece(0, g.n, nv, {}, *layout(g, height, g.n, nv * TIER.lanes, threads, l2))
            y = np.full((g.images, *g.out, outputs + SLACK), 7, TYPES[out])
            scratch = np.full(max(piece.scratch * threads // 4, 1), np.nan, np.float32)
            memory = {"x": stored(x, element), "w": packed, "y": y, "ldy": outputs + SLACK, "scratch": scratch}
            args = conv_args(piece, **memory, **ends.slots)
            params = {"nv": nv, "element": element, "out": out}
            found.setdefault(out, []).append(run(CONV, params, CONV.args.filled(**args), TIER, threads)[2])
    sums = reference(x[..., : g.groups * g.c], w, g) + bias
    check(found, ends.of(sums), g.k)


@drawn(60)
def test_rows_are_rounded(pick: Random) -> None:
    rows, c = pick.randint(1, 70), pick.choice((3, 3, 15, 63, pick.randint(1, 70)))
    ldx, ldy = c + pick.choice((0, 0, 3)), c + pick.choice((c % 2, 0, 2))
    x = np.full((rows, ldx), np.nan, np.float32)
    x[:, :c] = noise(rows, c) * 2.0 ** pick.randint(-100, 100)
    expected = np.zeros((rows, ldy), np.uint16)
    expected[:, :c] = rounded(x[:, :c])
    for threads in (1, 3):
        y = np.full((rows, ldy), 7, np.uint16)
        args = ROUND.args.filled(x=x, ldx=ldx, y=y, ldy=ldy, rows=rows, c=c)
        np.testing.assert_array_equal(run(ROUND, {}, args, TIER, threads, offset=2)[1], expected)
