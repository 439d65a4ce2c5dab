"""Copies, permutations, pads and tables against NumPy: any axes, element sizes and threads, in guarded memory."""

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.isa import tiers
from fastgraph.kernels.move.copy_plan import Move, collapse, copied, dense, tiled, viewed
from fastgraph.kernels.move.take_plan import pad_indices, padded, taken
from tests.kernels.harness import drawn, each_tier
from tests.kernels.moving import numbered, perform

TYPES = ("u1", "u2", "f4", "f8")
WIDEST = tiers.usable()[-1]


def bits(value: Any, dtype: Any) -> int:
    return int.from_bytes(np.dtype(dtype).type(value).tobytes(), "little")


def shape_of(pick: Random, most: int, rank: int = 4) -> tuple[int, ...]:
    return tuple(pick.randint(1, most) for _ in range(pick.randint(1, rank)))


def permuted(shape: Sequence[int], perm: Sequence[int], itemsize: int) -> Move:
    return viewed(lambda x: x.transpose(perm), shape, itemsize)


def check(move: Any, x: np.ndarray, expected: np.ndarray, tier: Any, pick: Random) -> None:
    y = perform(move, x, expected.shape, tier, pick.randint(1, 3), pick.randint(0, 9))
    np.testing.assert_array_equal(y, expected)


@each_tier
@drawn(60)
def test_slices(tier: Any, pick: Random) -> None:
    shape = (*shape_of(pick, 9), pick.randint(1, 150))
    x, index = numbered(shape, pick.choice(TYPES)), []
    for n in shape:
        first, last = sorted((pick.randint(0, n - 1), pick.randint(0, n - 1)))
        step, back = pick.choice((1, 1, 2, 3, 4, 5)), pick.randint(0, 3) == 0
        index.append(slice(last, first - 1 if first else None, -step) if back else slice(first, last + 1, step))
    check(viewed(lambda x: x[tuple(index)], shape, x.itemsize), x, x[tuple(index)], tier, pick)


@each_tier
@drawn(30)
def test_expand_and_tile(tier: Any, pick: Random) -> None:
    out = (*shape_of(pick, 7), pick.randint(1, 90))
    shape = tuple(pick.choice((1, n)) for n in out)[pick.randint(0, len(out) - 1) :]
    x = numbered(shape, pick.choice(TYPES))
    check(viewed(lambda x: np.broadcast_to(x, out), shape, x.itemsize), x, np.broadcast_to(x, out), tier, pick)
    repeats = [pick.randint(1, 3) for _ in shape]
    check(tiled(shape, repeats, x.itemsize), x, np.tile(x, repeats), tier, pick)


@each_tier
@drawn(60)
def test_permutations(tier: Any, pick: Random) -> None:
    shape = [pick.choice((1, 2, 3, 5)) for _ in range(pick.randint(1, 5))]
    shape[pick.randint(0, len(shape) - 1)] = pick.choice((2, 3, 9, 17, 33))
    x, perm = numbered(tuple(shape), "f4"), pick.sample(range(len(shape)), len(shape))
    check(permuted(shape, perm, 4), x, x.transpose(perm), tier, pick)


@each_tier
@drawn(60)
def test_pads(tier: Any, pick: Random) -> None:
    rank, mode = pick.randint(1, 4), pick.choice(("constant", "reflect", "edge", "wrap"))
    x = numbered(tuple(pick.randint(3, 6) for _ in range(rank)), pick.choice(("u1", "f4")))
    ends = [tuple(pick.choice((0, 0, 1, 3, -1)) for _ in range(2)) for _ in range(rank)]
    grow = [(max(a, 0), max(b, 0)) for a, b in ends]
    left = x[tuple(slice(max(-a, 0), -max(-b, 0) or None) for a, b in ends)]
    expected = np.pad(left, grow, constant_values=77) if mode == "constant" else np.pad(left, grow, mode=mode)  # type: ignore[call-overload]
    check(padded(x.shape, ends, x.itemsize, mode, bits(77, x.dtype)), x, expected, tier, pick)


@each_tier
@drawn(30)
def test_tables_for_any_axes(tier: Any, pick: Random) -> None:
    x = expected = numbered(shape_of(pick, 7), pick.choice(("u1", "f4")))
    places: list[Any] = []
    for axis, n in enumerate(x.shape):
        table = np.array([pick.randint(-1, n - 1) for _ in range(pick.randint(1, 9))])
        places.append(pick.choice((None, table)))
        if places[-1] is not None:
            expected = np.take(expected, np.maximum(table, 0), axis)
            kept = (table < 0).reshape((-1,) + (1,) * (x.ndim - axis - 1))
            expected = np.where(kept, x.dtype.type(9), expected)
    check(taken(x.shape, places, x.itemsize, bits(9, x.dtype)), x, expected, tier, pick)


@each_tier
@pytest.mark.parametrize("count", [*range(1, 34), 63, 64, 65, 127, 128, 129, 1000])
def test_runs_of_every_length_touch_nothing_else(tier: Any, count: int) -> None:
    x = numbered((3, count), np.uint8)
    y = perform(copied((3, count), dense((3, count), 1), (count + 5, 1), 1), x, (3, count + 5), tier, offset=3)
    np.testing.assert_array_equal(y[:, :count], x)
    assert (y[:, count:] == 0).all()


@each_tier
@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.complex128])
def test_other_element_sizes(tier: Any, dtype: Any) -> None:
    x = numbered((3, 40), dtype)
    stepped = viewed(lambda x: x[::-1, ::-3], x.shape, x.itemsize)
    np.testing.assert_array_equal(perform(stepped, x, (3, 14), tier), x[::-1, ::-3])
    if x.itemsize <= 8:
        wide = viewed(lambda x: np.broadcast_to(x, (3, 21)), (3, 1), x.itemsize)
        np.testing.assert_array_equal(perform(wide, x[:, :1].copy(), (3, 21), tier), np.repeat(x[:, :1], 21, 1))
        border = padded((2, 5, 6, 19), [(0, 0), (1, 2), (2, 1), (0, 0)], x.itemsize, fill=bits(-3, dtype))
        assert border.args["rank"] == 2
        image = numbered((2, 5, 6, 19), dtype)
        expected = np.pad(image, [(0, 0), (1, 2), (2, 1), (0, 0)], constant_values=-3)
        np.testing.assert_array_equal(perform(border, image, expected.shape, tier, 2), expected)


@each_tier
def test_parts_of_wider_buffers(tier: Any) -> None:
    """What lies beside them stays as it is."""
    x = numbered((4, 5, 7), np.float32)
    y = perform(copied(x.shape, dense(x.shape, 4), dense((4, 5, 20), 4), 4, dst_offset=9 * 4), x, (4, 5, 20), tier)
    np.testing.assert_array_equal(y[..., 9:16], x)
    assert (np.delete(y, range(9, 16), axis=-1) == 0).all()
    x = numbered((20, 30), np.float32)
    y = perform(copied((19, 18), (4, 30 * 4), (25 * 4, 4), 4, dst_offset=8), x, (20, 25), tier, 2)
    np.testing.assert_array_equal(y[:19, 2:20], x[:18, :19].T)
    y[:19, 2:20] = 0
    assert (y == 0).all()


@each_tier
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_one_long_run_is_shared_out(tier: Any, threads: int) -> None:
    x = numbered((5003,), np.float32)
    np.testing.assert_array_equal(perform(copied(x.shape, (4,), (4,), 4), x, x.shape, tier, threads), x)


@each_tier
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.complex128])
def test_tiles_and_their_edges(tier: Any, dtype: Any) -> None:
    for rows, cols in ((16, 16), (64, 37), (37, 64), (5, 50), (12, 50), (50, 12), (5, 6), (70, 530), (70, 8201)):
        x = numbered((2, rows, cols), dtype)
        plan = permuted(x.shape, (0, 2, 1), x.itemsize)
        np.testing.assert_array_equal(perform(plan, x, (2, cols, rows), tier, 2, 1), x.transpose(0, 2, 1))


LINES = [(np.float32, k) for k in range(2, 9)] + [(np.uint8, 3), (np.uint8, 7), (np.int16, 5), (np.int64, 2)]


@each_tier
@pytest.mark.parametrize("dtype, k", LINES)
def test_interleave_and_deinterleave(tier: Any, dtype: Any, k: int) -> None:
    for n in (16, 58, 4099):
        lines = numbered((2, k, n), dtype)
        mixed, size = np.ascontiguousarray(lines.transpose(0, 2, 1)), lines.itemsize
        forth, back = permuted(lines.shape, (0, 2, 1), size), permuted(mixed.shape, (0, 2, 1), size)
        assert (forth.args["few"], back.args["few"]) == (k, -k)
        assert (forth.params, back.params) == tuple({"itemsize": size, "narrow": narrow} for narrow in (1, -1))
        np.testing.assert_array_equal(perform(forth, lines, mixed.shape, tier, 3, 2), mixed)
        np.testing.assert_array_equal(perform(back, mixed, lines.shape, tier, 3, 2), lines)


@each_tier
@pytest.mark.parametrize("shape, axes", [((3, 20, 21), (1, 2)), ((1, 6, 5, 8), (1, 2)), ((30,), (0,))])
def test_nearest_upscaling_by_whole_factors(tier: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = expected = numbered(shape, np.float32)
    places = [np.repeat(np.arange(n), 2) if a in axes else None for a, n in enumerate(shape)]
    for axis in axes:
        expected = np.repeat(expected, 2, axis)
    np.testing.assert_array_equal(perform(taken(shape, places, 4), x, expected.shape, tier, 2), expected)


PERMUTED = [
    ((1, 128, 12, 64), (0, 2, 1, 3), "copy"),
    ((28, 28, 2, 2, 16), (0, 2, 1, 3, 4), "copy"),
    ((1, 4, 2, 2, 17, 17), (0, 1, 4, 2, 5, 3), "transpose"),
    ((1, 3, 224, 224), (0, 2, 3, 1), "transpose"),
    ((6, 1, 5), (2, 1, 0), "transpose"),
]


@pytest.mark.parametrize("shape, perm, kernel", PERMUTED)
def test_which_kernel_permutes(shape: tuple[int, ...], perm: tuple[int, ...], kernel: str) -> None:
    plan, x = permuted(shape, perm, 4), numbered(shape, np.float32)
    assert plan.kernel == kernel
    expected = x.transpose(perm)
    np.testing.assert_array_equal(perform(plan, x, expected.shape, WIDEST), expected)


def test_what_is_planned() -> None:
    assert permuted((40, 30, 2), (1, 0, 2), 4).params == {"itemsize": 8, "narrow": 0}
    assert dense((40, 30, 2), 4) == (240, 8, 4)
    assert len(collapse((2, 3, 4, 5), dense((2, 3, 4, 5), 4), dense((2, 3, 4, 5), 4))) == 1
    assert len(collapse((2, 3, 4), dense((2, 3, 4), 4), dense((2, 3, 9), 4))) == 2
    assert collapse((1, 1), (4, 4), (4, 4)) == []
    with pytest.raises(ValueError, match="loops"):
        copied((2,) * 9, [4 * 3**i for i in range(9)], dense((2,) * 9, 4), 4)
    assert pad_indices(3, 4, 0, "reflect").tolist() == [0, 1, 2, 1, 0, 1, 2]  # type: ignore[union-attr]
    assert pad_indices(3, 0, 0, "edge") is None
    neighbors = taken((50,), [np.array([2, 1, *range(50), 48, 47])], 4).args["table"]
    assert neighbors.tolist() == [[0, 8, 4], [4, 4, 4], [8, 0, 200], [208, 192, 4], [212, 188, 4]]


def test_nothing_writes_nothing() -> None:
    none = (3, 0, 4)
    for plan in (copied(none, dense(none, 4), dense(none, 4), 4), taken((3, 4), [np.zeros(0, np.int64), None], 4)):
        assert perform(plan, np.ones((3, 4), np.float32), (1,), WIDEST)[0] == 0
