"""How kernels end: sums plus an operand within bounds, and chains that are walked over tiles, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.core.record import Record, fields
from fastgraph.kernels.lang import F32, Value, choose, over, room, traced
from fastgraph.kernels.pointwise.chain import eval_chain
from fastgraph.kernels.pointwise.epilogue import Area, Lines, addend_at, is_walked, simple, walk_from
from fastgraph.kernels.pointwise.rows import EPILOGUE, FORMS, NO_EPILOGUE
from fastgraph.plan.lower.epilogue import ending
from fastgraph.plan.lower.walk import f32_bits
from tests.kernels.harness import each_tier, run
from tests.kernels.walking import Constants, kernel_address, strided, table_of

VECTORS, ROWS = 2, 5
TILE = Record(x="sums [rows, ldx]", ldx="f32", y="result", ldy="f32", image="", row="", column="", rows="", columns="")
NONE = dict(NO_EPILOGUE)


def tile(tier: Any) -> Callable:
    """A kernel that ends as a product does: `rows` rows of VECTORS vectors of sums, of which `columns` are stored."""

    f32 = F32.vector(tier.lanes)

    @traced
    def body(args: Value) -> None:
        t, slots = fields(args, TILE), fields(args, EPILOGUE, len(TILE))
        line = VECTORS * f32.size
        sums = room(f32, ROWS * VECTORS).address
        walked = is_walked(slots)
        to, step = choose(walked, sums, t.y), choose(walked, line, t.ldy * 4)
        masks = [f32.below(t.columns - i * f32.lanes) for i in range(VECTORS)]

        def row(r: Value) -> list[Value]:
            x = F32.at(t.x) + r * t.ldx
            values = [f32[x + i * f32.lanes, masks[i]] for i in range(VECTORS)]
            addend = addend_at(slots, t.image, t.row + r, t.column)
            return simple(slots, values, lambda i: f32[addend + i * f32.lanes, masks[i]])  # type: ignore[no-any-return]

        for r in over(t.rows):
            for i, result in enumerate(row(r)):
                f32[to + r * step + i * f32.size, masks[i]] = result
        area = Area(t.image, t.row, t.column, t.rows, t.columns)
        walk_from(slots, area, Lines(sums, line), Lines(t.y, t.ldy * 4))

    def kernel(args: int, thread: int, threads: int) -> None:
        body(args)

    return kernel


def place(constants: Constants, shape: tuple[int, int], **slots: Any) -> list[Any]:
    at = dict(zip(("image", "row", "column"), (1, 3, 2), strict=True))
    return [*TILE.filled(rows=shape[0], columns=shape[1], **at, **slots)]


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * 4, np.float32)


@each_tier
@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(1, ROWS),
    columns=st.integers(1, 9),
    low=st.sampled_from([-np.inf, -1, 0]),
    high=st.sampled_from([np.inf, 6, 0]),
    adds=st.booleans(),
)
def test_bounds_and_an_addend(tier, rows, columns, low, high, adds):
    columns = min(columns, VECTORS * tier.lanes)
    x, z, y = (
        values(rows, columns),
        values(2, ROWS + 3, columns + 2, seed=1),
        np.full((rows, columns + 1), 7, np.float32),
    )
    x[0, 0] = np.nan
    slots = NONE | {"low": f32_bits(low), "high": f32_bits(high), "walk": 0, "table": 0}
    if adds:
        slots |= {"addend": z, "addend_image": z[0].size, "addend_row": z.shape[2]}
    args = place(Constants(tier), x.shape, x=x, ldx=columns, y=y, ldy=columns + 1)
    got = run(tile, {}, [*args, *EPILOGUE.filled(**slots)], tier)[1]
    want = np.clip(x + z[1, 3 : 3 + rows, 2:] if adds else x, low, high)
    assert np.array_equal(got[:, :columns], want, equal_nan=True) and (got[:, columns] == 7).all()


@each_tier
@pytest.mark.parametrize("form", ["leaky_relu", "hard_sigmoid_mul"])
def test_forms(form, tier):
    x = values(ROWS, VECTORS * tier.lanes - 1)
    x[0, :4] = np.nan, np.inf, -np.inf, -0.0
    y, numbers = np.zeros_like(x), (0.3, 0.4)
    slots = NONE | {"form": FORMS.index(form), "low": f32_bits(0.3), "high": f32_bits(0.4)}
    args = place(Constants(tier), x.shape, x=x, ldx=x.shape[1], y=y, ldy=x.shape[1])
    got = run(tile, {}, [*args, *EPILOGUE.filled(**slots)], tier)[1]
    leaky, gated = (("leaky_relu", 0, numbers[0]),), (("hard_sigmoid", 0, *numbers), ("mul", 0, 1))
    want = eval_chain(leaky if form == "leaky_relu" else gated, [x.astype(float)])
    assert np.allclose(got, want, rtol=1e-6, atol=1e-6, equal_nan=True)


CHAINS = [
    (("sigmoid", 0), ("mul", 4, 0)),
    (("mul", 0, 2), ("add", 4, 1), ("relu", 5)),
    (("add", 0, 1), ("mul", 4, 0.5), ("tanh", 4), ("sub", 5, 6), ("mul", 7, 3)),
]


@each_tier
@pytest.mark.parametrize("chain", CHAINS, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (5, 8), (4, 7), (3, 32)])
def test_a_chain_is_walked_over_a_tile(chain, shape, tier):
    rows, columns = shape[0], min(shape[1], VECTORS * tier.lanes)
    x, y = values(rows, columns), np.full((rows, columns + 1), 7, np.float32)
    full, channel, one = values(2, ROWS + 3, columns + 2, seed=1), values(columns + 2, seed=2), values(1, seed=3)
    constants = Constants(tier)
    operands = [None, strided(constants, full), strided(constants, channel), strided(constants, one, ["column"])]
    slots = NONE | {"walk": kernel_address(Kernel("chain"), tier), "table": table_of(constants, chain, operands)}
    args = place(constants, x.shape, x=x, ldx=columns, y=y, ldy=columns + 1)
    got = run(tile, {}, [*args, *EPILOGUE.filled(**slots)], tier, offset=0)[1]
    want = eval_chain(chain, [a.astype(float) for a in (x, full[1, 3 : 3 + rows, 2:], channel[2:], one)])
    assert np.allclose(got[:, :columns], want, rtol=1e-5, atol=1e-6) and (got[:, columns] == 7).all()


def test_which_chains_need_no_table():
    inf = np.inf
    assert ending((), 0) == (None, -inf, inf, "clip")
    assert ending((("add", 1, 0), ("relu", 2)), 1) == (1, 0, inf, "clip")
    assert ending((("min", 6.0, 0), ("max", 1, -1.0)), 0) == (None, -1, 6, "clip")
    assert ending((("clip", 0, 5.0, 3.0),), 0) == (None, 3, 3, "clip")
    assert ending((("add", 0, 2.0), ("clip", 1, -1.0, 1.0)), 0) == (2, -1, 1, "clip")
    assert ending((("hard_sigmoid", 0, 0.2, 0.5), ("mul", 1, 0)), 0) == (None, 0.2, 0.5, "hard_sigmoid_mul")
    assert ending((("leaky_relu", 0, 0.1),), 0) == (None, 0.1, 0, "leaky_relu")
    for chain in [
        (("add", 0, 0),), (("clip", 0, float("nan"), 1.0),), (("relu", 0), ("add", 2, 1)), (("max", 0, 1),),
        (("relu", 0), ("relu", 0)), (("add", 0, 1), ("relu", 0)), (("mul", 0, 2.0),),
    ]:  # fmt: skip
        assert ending(chain, 1) is None
