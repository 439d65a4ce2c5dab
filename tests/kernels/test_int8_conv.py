"""conv_int8 against its formula, to the bit: any geometry, zero point and result, every tier, guarded memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.gemm.pick_conv import ConvPiece, Geometry, conv_args, layout
from fastgraph.kernels.gemm.pick_int8 import INT8_COSTS, pick_conv_int8, word_of
from fastgraph.kernels.gemm.rows import ROWS
from tests.kernels.harness import each_integer_tier, run
from tests.kernels.int8 import DTYPES, Layer, draw_bytes, draw_layer, stores
from tests.kernels.test_conv import geometries, reference, square

CONV = next(row for row in ROWS if row.name == "conv_int8")
KINDS = [(2, "u8", False), (1, "u8", True), (1, "f32", False), (3, "s8", False), (2, "i32", True)]
"""nv, out, rowsum"""


def check(
    tier: Any, g: Geometry, pieces: tuple[ConvPiece, ...], layer: Layer, zero: int, threads: int, slack: int = 0
) -> None:
    """Run the pieces on random bytes in rows `slack` longer than dense, and compare. zero: x's zero point."""
    outputs = g.groups * g.n
    x = draw_bytes(outputs, g.images, *g.size, g.x_strides[3])
    y = np.full((g.images, *g.out, outputs + slack), 7, DTYPES[layer.out])
    for piece in pieces:
        scratch = np.full(max(piece.scratch * threads, 1), 0xFF, np.uint8)
        args = conv_args(
            piece, x=x, w=layer.packed(tier, piece, g.run), y=y, ldy=outputs + slack, taps=piece.table,
            scratch=scratch, fill=word_of(zero), **layer.stored,
        )  # fmt: skip
        y = run(CONV, piece.params, CONV.args.filled(**args), tier, threads)[2]
    # Padding is x's zero point: what the reference pads with zeros is the difference from it.
    seen = x[..., : g.groups * g.c].astype(np.int64) - zero
    weights = layer.weights.reshape(outputs, *g.kernel, g.c)
    ones = np.ones_like(weights)

    def sums(w: np.ndarray) -> np.ndarray:
        whole = w.reshape(outputs, -1).astype(np.int64).sum(axis=1)
        return np.rint(reference(seen, w, g)).astype(np.int64) + zero * whole

    expected = replace_batch(layer).results(sums(weights)[None], sums(ones)[None])[0]
    np.testing.assert_array_equal(y[..., :outputs], expected)
    assert (y[..., outputs:] == 7).all()


def replace_batch(layer: Layer) -> Layer:
    """The layer with its groups' columns side by side."""

    def flat(a: Any) -> Any:
        return None if a is None else a.reshape(1, -1, *a.shape[2:])

    return replace(
        layer, weights=flat(layer.weights), start=flat(layer.start), multipliers=flat(layer.multipliers),
        minus=flat(layer.minus),
    )  # fmt: skip


@each_integer_tier
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_any_geometry(tier: Any, data: Any) -> None:
    nv, out, rowsum = data.draw(st.sampled_from(KINDS))
    height = data.draw(st.integers(1, INT8_COSTS[rowsum].most_rows(tier, nv)))
    size = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 17))
    g = data.draw(geometries(*size))._replace(item=1)
    threads, l2 = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([1, 1000, 1 << 20]))
    zero, seed = data.draw(st.integers(0, 255)), data.draw(st.integers(0, 99))
    table, fields = layout(g, height, g.n, nv * tier.lanes, threads, l2)
    piece = ConvPiece(0, g.n, nv, {"nv": nv, "out": stores(out), "rowsum": rowsum}, table, fields)
    layer = draw_layer(seed, g.groups, g.n, g.k, out, rowsum)
    check(tier, g, (piece,), layer, zero, threads, data.draw(st.integers(0, 2)))


@each_integer_tier
@pytest.mark.parametrize(
    "g",
    [square(5, 40, 9, 3, 1, 1), square(4096, 8, 3, 1, 2), square(3, 24, 11, 5, 2, 7)],
    ids=["3x3", "collides", "mostly padding"],
)
def test_picked(tier: Any, g: Geometry) -> None:
    g, pieces = pick_conv_int8(tier, g._replace(item=1), "bytes", threads=2)
    check(tier, g, pieces, draw_layer(1, g.groups, g.n, g.k, "u8", False), 117, 2)


def test_pixels_next_to_each_other_are_one_run() -> None:
    """Words are few where channels are: 3x3 over 3 channels takes 3 words a row, not 3 a pixel."""
    assert square(3, 8, 9, 3)._replace(item=1).words == 9
    assert square(1, 8, 9, 4)._replace(item=1).words == 4
    assert square(3, 8, 9, 1)._replace(item=1).words == 1
    assert square(8, 8, 9, 3)._replace(item=1).words == 18
