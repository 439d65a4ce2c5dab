"""Results are the caller's own, though memory of those that nobody holds any more is used again."""

import gc
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.runtime.reuse import LEAST, Reuse
from tests.nets import F32, Net

ROWS = LEAST // 4 // 64


def doubled(rows: Any = ROWS, outputs: int = 3) -> fg.Model:
    net = Net()
    x = net.input("x", [rows, 64])
    for i in range(outputs):
        net.output(net("Mul", x, np.array(i + 2, F32)))
    return net.load(threads=1)


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_memory_that_nobody_holds_is_used_again() -> None:
    model, places = doubled(), []
    for _ in range(8):
        found = model.run({"x": np.ones((ROWS, 64), F32)})
        places.append([address(array) for array in found.values()])
    assert places[2:] == places[:2] * 3, "two sets take turns, as the caller holds the last one"


def test_memory_of_the_last_run_comes_first() -> None:
    """It is in the cache; a caller who begins to hold results again finds that of both runs."""
    model, feeds, places = doubled(outputs=1), {"x": np.ones((ROWS, 64), F32)}, list[int]()
    held = None
    for holds in (True, True, False, False, False, True, True, True):
        found = model.run(feeds)
        held = found if holds else None
        places += map(address, found.values())
        del found
    first, second = places[:2]
    assert first != second and places[2:5] == [first] * 3
    assert places[5:] == [first, second, first]
    assert held is not None


@pytest.mark.parametrize("hold", [
    lambda y: y, lambda y: y[3:, ::2], lambda y: memoryview(y), lambda y: y.reshape(-1).view(np.int32),
    lambda y: {"there": [y.T]}, lambda y: np.lib.stride_tricks.as_strided(y, (2,), (4,)), lambda y: y.data,
    lambda y: np.asarray(memoryview(y)), lambda y: y.__array_interface__ and y.flat, lambda y: iter(y),
])  # fmt: skip
def test_what_is_held_stays(hold: Any) -> None:
    """Results, and all that was made of them and shares their memory."""
    model, held = doubled(outputs=1), []
    for n in range(6):
        y = model(np.full((ROWS, 64), n, F32))
        held.append((hold(y), y.__array_interface__["data"][0], n))
        del y
        gc.collect()
    assert len({place for _, place, _ in held}) == 6
    for kept, place, n in held:
        assert kept is not None
        there = (np.ctypeslib.ctypes.c_float * 4).from_address(place)
        assert [*there] == [2 * n] * 4


def test_results_of_any_size_in_turn() -> None:
    model, kept = doubled(rows="n"), []
    rng = np.random.default_rng(0)
    for i in range(40):
        x = rng.standard_normal((int(rng.integers(1, 4 * ROWS)), 64)).astype(F32)
        found = model.run({"x": x})
        if i % 3 == 0:
            kept.append((x, found))
        for n, y in enumerate(found.values()):
            assert y.flags.c_contiguous and y.flags.writeable and np.array_equal(y, x * np.float32(n + 2))
    for x, found in kept:
        assert all(np.array_equal(y, x * np.float32(n + 2)) for n, y in enumerate(found.values()))


def test_results_fed_again() -> None:
    model, y = doubled(outputs=1), np.ones((ROWS, 64), F32)
    for n in range(1, 8):
        y = model(y)
        assert np.all(y == 2.0**n)


def test_clones_share_no_memory_of_results() -> None:
    one = doubled(outputs=1)
    other = one.clone()
    x = np.ones((ROWS, 64), F32)
    first = [address(one(x)), address(one(x))]
    held = other(x)
    assert address(held) not in first or not np.shares_memory(held, one(x))


def test_a_dense_copy_of_anything() -> None:
    reuse = Reuse()
    wide = np.arange(6 * LEAST, dtype=np.int16).reshape(3, -1, 4)
    for array in (wide, wide[:, ::3], wide.T, wide[:0], np.array(7), np.array(["text"], object)):
        reuse.begin()
        found = reuse.copy(array)
        assert found.flags.c_contiguous and found.dtype == array.dtype and np.array_equal(found, array)
        assert not np.shares_memory(found, array)
