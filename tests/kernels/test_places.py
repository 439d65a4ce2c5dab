"""Gathers and scatters at places read at run time, alone, against NumPy."""

from random import Random
from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.isa import tiers
from fastgraph.kernels.move.copy_plan import dense
from fastgraph.kernels.move.gather_scatter_plan import Component, Indices, Loop, gathered, scattered
from fastgraph.kernels.move.rows import LEFT_OUT, MOVED, NUMBERS, REPORTED
from tests.kernels.harness import drawn, each_tier, guarded
from tests.kernels.moving import numbered, written

INDICES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64]


def moved(move: Any, x: np.ndarray, y: np.ndarray, index: np.ndarray, tier: Any, threads: int = 1) -> tuple[Any, int]:
    """(y after the move, the error cell)."""
    error = np.zeros(1, np.int64)
    return written(move, x, y, tier, threads, index=guarded(index, 0)[1], error=error), int(error[0])


def along(x: np.ndarray, index: np.ndarray, axis: int, outside: int = REPORTED) -> tuple[Any, ...]:
    """The loops of gather_elements and its one component."""
    s, i, d = dense(x.shape, x.itemsize), dense(index.shape, index.itemsize), dense(index.shape, x.itemsize)
    loops = [Loop(n, 0 if a == axis else s[a], i[a], d[a], a != axis) for a, n in enumerate(index.shape)]
    return loops, [Component(x.shape[axis], s[axis], x.shape[axis])], Indices(index.dtype, 0, outside)


@each_tier
@drawn(40)
def test_gathers_and_scatters_along_an_axis(tier: Any, pick: Random) -> None:
    shape, kind = tuple(pick.randint(1, 6) for _ in range(pick.randint(1, 4))), pick.choice(INDICES)
    dtype, threads = pick.choice(("u1", "i2", "f4", "i8")), pick.randint(1, 3)
    axis = pick.randint(0, len(shape) - 1)
    taken = tuple(pick.randint(1, 9 if a == axis else n) for a, n in enumerate(shape))
    n, rng = shape[axis], np.random.default_rng(pick.randint(0, 99))
    index = rng.integers(-n if np.dtype(kind).kind == "i" else 0, n, taken).astype(kind)
    x = numbered(shape, dtype)
    loops, components, indices = along(x, index, axis)
    at: list[Any] = list(np.ogrid[tuple(slice(k) for k in taken)])
    at[axis] = index.astype(np.int64)
    y, error = moved(gathered(loops, components, indices, x.itemsize), x, np.zeros(taken, dtype), index, tier, threads)
    np.testing.assert_array_equal(y, x[tuple(at)])
    updates = numbered(taken, dtype)[..., ::-1].copy()
    back = [Loop(k, loop.d, loop.i, loop.s, loop.disjoint) for k, loop in zip(taken, loops, strict=True)]
    y, wrong = moved(scattered(back, components, indices, x.itemsize), updates, x, index, tier, threads)
    expected = x.copy()
    expected[tuple(at)] = updates
    np.testing.assert_array_equal(y, expected)
    assert (error, wrong) == (0, 0)


@each_tier
@drawn(60)
def test_reductions(tier: Any, pick: Random) -> None:
    kind, operation, width = pick.choice(NUMBERS), pick.choice(sorted(UFUNCS)), pick.choice((1, 3, 8))
    (ufunc, low), dtype = UFUNCS[operation], np.dtype(f"{kind[0]}{int(kind[1:]) // 8}")
    if operation == "div" and dtype.kind != "f":
        return
    rng, item = np.random.default_rng(pick.randint(0, 99)), dtype.itemsize
    x, updates = rng.integers(low, 9, (7, width)).astype(dtype), rng.integers(low, 9, (12, width)).astype(dtype)
    index = rng.integers(-7, 7, 12)
    if dtype.kind == "f" and operation in ("min", "max"):
        updates[3] = np.nan
    loops = [Loop(12, item * width, 8, 0, False), Loop(width, item, 0, item)]
    move = scattered(loops, [Component(7, item * width, 7)], Indices(index.dtype), item, (kind, operation))
    y, _ = moved(move, updates, x, index, tier, 2)
    expected = x.copy()
    with np.errstate(all="ignore"):
        ufunc.at(expected, index, updates)
    np.testing.assert_array_equal(y, expected)


UFUNCS = {
    "add": (np.add, 0), "mul": (np.multiply, 0), "min": (np.minimum, 0), "max": (np.maximum, 0), "div": (np.divide, 1),
}  # fmt: skip


@each_tier
@pytest.mark.parametrize("bad", [5, -6, 2**31 - 1, -(2**31), 2**62, -(2**62)])
@pytest.mark.parametrize("width", [1, 3], ids=["words", "runs"])
def test_an_index_out_of_range_is_clamped_and_reported(tier, bad, width):
    x, index = numbered((5, width), np.float32), np.array([1, bad, -1])
    loops = [Loop(3, 0, 8, 4 * width), Loop(width, 4, 0, 4)]
    move = gathered(loops, [Component(5, 4 * width, 5)], Indices(index.dtype), 4)
    y, error = moved(move, x, np.zeros((3, width), np.float32), index, tier)
    np.testing.assert_array_equal(y, x[[1, 4 if bad > 0 else 0, 4]])
    assert error == 1


@each_tier
@pytest.mark.parametrize("kind", [np.uint32, np.int32, np.int64])
@pytest.mark.parametrize("bad", [None, 0, 7, 15, 16, 36])
def test_words_by_one_index_in_vectors(tier, kind, bad):
    """37 of a row of 9 words: negative indices, and one that is out of range."""
    rng, signed = np.random.default_rng(0), kind != np.uint32
    x, index = numbered((3, 9), np.float32), rng.integers(-9 if signed else 0, 9, (3, 37)).astype(kind)
    loops, components, indices = along(x, index, 1)
    inside = index.astype(np.int64) % 9
    if bad is not None:
        index[1, bad], inside[1, bad] = (-10, 0) if signed and bad % 2 else (np.iinfo(kind).max, 8)
    y, error = moved(gathered(loops, components, indices, 4), x, np.zeros((3, 37), np.float32), index, tier, 2)
    np.testing.assert_array_equal(y, np.take_along_axis(x, inside, 1))
    assert error == (bad is not None)


@each_tier
@pytest.mark.parametrize("outside", [REPORTED, MOVED, LEFT_OUT])
def test_places_out_of_range_are_written_as_asked(tier, outside):
    x, updates, index = np.zeros(6, np.float32), np.array([1, 2, 3], np.float32), np.array([9, 2, -9], np.int32)
    move = scattered([Loop(3, 4, 4, 0, False)], [Component(6, 4)], Indices(index.dtype, 0, outside), 4)
    y, error = moved(move, updates, x, index, tier)
    assert y.tolist() == ([0, 0, 2, 0, 0, 0] if outside == LEFT_OUT else [3, 0, 2, 0, 0, 1])
    assert error == (outside == REPORTED)


def test_of_the_same_place_the_last_one_stays_on_many_threads():
    index, updates = np.zeros((4, 50), np.int64), numbered((4, 50), np.int32)
    loops, components, indices = along(np.zeros((4, 3), np.int32), index, 1)
    back = [Loop(n, loop.d, loop.i, loop.s, loop.disjoint) for n, loop in zip((4, 50), loops, strict=True)]
    move = scattered(back, components, indices, 4)
    assert move is not None and move.args["parts"] == 4
    y, _ = moved(move, updates, np.zeros((4, 3), np.int32), index, tiers.usable()[-1], 3)
    np.testing.assert_array_equal(y[:, 0], updates[:, -1])


def test_a_short_inner_loop_gives_way_where_the_order_stays():
    alone = Indices(np.dtype(np.int64))
    free = scattered([Loop(100, 8, 8, 0, False), Loop(2, 4, 0, 8)], [Component(9, 16)], alone, 4)
    held = scattered([Loop(100, 8, 8, 0, False), Loop(2, 4, 4, 0, False)], [Component(9, 16)], alone, 4)
    assert free is not None and held is not None
    assert (free.args["count"], held.args["count"]) == (100, 2) or held.args["rank"] == 0


def test_too_many_loops_or_components_have_no_record():
    loops = [Loop(2, 3**k, 0, 5**k) for k in range(9)]
    with pytest.raises(ValueError):
        gathered(loops, [Component(2, 1)], Indices(np.dtype(np.int64)), 4)
    with pytest.raises(ValueError):
        gathered(loops[:1], [Component(2, 1)] * 7, Indices(np.dtype(np.int64)), 4)
    with pytest.raises(ValueError):
        gathered(loops[:1], [], Indices(np.dtype(np.int64)), 4)
