"""Reading and writing at places, sorting and sampling run native, as in onnxruntime, on one and on three threads."""

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.kernels.harness import drawn
from tests.nets import F32, I64, Net, by_onnxruntime, by_reference, graph_of, numpy_steps
from tests.plan.step_by_step import poison


def check(net: Net, feeds: dict[str, np.ndarray], rtol: float = 0, onnxruntime: bool = True) -> list[str]:
    """Compares with the reference and onnxruntime; the kernels. All steps must be native."""
    source = net.bytes()
    wanted = [by_reference(graph_of(source), feeds)] + ([by_onnxruntime(source, feeds)] if onnxruntime else [])
    for threads in (1, 3):
        model = fg.load(source, threads=threads)
        assert not numpy_steps(model)
        poison(model.plan)
        found = list(model.run(feeds).values())
        for expected in wanted:
            for got, want in zip(found, expected, strict=True):
                assert got.dtype == want.dtype
                np.testing.assert_allclose(got, want, rtol, rtol, equal_nan=True)
    return [kernel.name for kernel in model.plan.kernels()]


def values(shape: tuple[int, ...], seed: int, dtype: Any = F32) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 10).astype(dtype)


def inputs(net: Net, feeds: dict[str, np.ndarray]) -> list[str]:
    return [net.input(name, array.shape, array.dtype) for name, array in feeds.items()]


def shape_of(pick: Random) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """A shape, one of its axes, and a shape of places along that."""
    shape = tuple(pick.randint(1, 6) for _ in range(pick.randint(1, 3)))
    axis = pick.randint(0, len(shape) - 1)
    return shape, axis, tuple(pick.randint(1, 8 if a == axis else m) for a, m in enumerate(shape))


@drawn(25)
def test_gathers(pick: Random) -> None:
    (shape, axis, along), dtype = shape_of(pick), pick.choice(("f4", "i8", "u1", "f8", "i4"))
    n, rng, kind = shape[axis], np.random.default_rng(pick.randint(0, 99)), pick.choice((np.int32, np.int64))
    more = tuple(pick.randint(1, 4) for _ in range(pick.randint(0, 2)))
    depth = pick.randint(1, len(shape))
    feeds = {"x": values(shape, n, dtype), "i": rng.integers(-n, n, more).astype(kind)}
    feeds["e"] = rng.integers(-n, n, along).astype(kind)
    feeds["d"] = np.stack([rng.integers(-m, m, (3, 2)) for m in shape[:depth]], -1)
    net = Net(18)
    x, i, e, d = inputs(net, feeds)
    found = net("Gather", x, i, axis=axis), net("GatherElements", x, e, axis=axis), net("GatherND", x, d)
    net.output(*found, dtype=dtype)
    assert "gather" in check(net, feeds)


@drawn(25)
def test_scatters(pick: Random) -> None:
    (shape, axis, along), dtype = shape_of(pick), pick.choice(("f4", "i8", "f8", "i4"))
    n, depth, rng = shape[axis], pick.randint(1, len(shape)), np.random.default_rng(pick.randint(0, 99))
    reduction = pick.choice(("none", "add", "mul", "max", "min"))
    if reduction == "none":  # onnxruntime says nothing of places that are written twice
        along = (*along[:axis], min(along[axis], n), *along[axis + 1 :])
        e = np.argsort(rng.random((*along[:axis], n, *along[axis + 1 :])), axis).take(range(along[axis]), axis) - n
        places = int(np.prod(shape[:depth]))
        d = np.stack(np.unravel_index(rng.permutation(places)[: min(4, places)], shape[:depth]), -1)
    else:
        e = rng.integers(-n, n, along)
        d = np.stack([rng.integers(-m, m, 4) for m in shape[:depth]], -1)
    feeds = {"x": values(shape, 0, dtype), "e": e, "u": values(along, 1, dtype), "d": d}
    feeds["v"] = values((len(d), *shape[depth:]), 2, dtype)
    net = Net(18)
    x, e, u, d, v = inputs(net, feeds)
    net.output(net("ScatterElements", x, e, u, axis=axis, reduction=reduction), dtype=dtype)
    net.output(net("ScatterND", x, d, v, reduction=reduction), dtype=dtype)
    check(net, feeds, 1e-6 if reduction in ("add", "mul") else 0)


@drawn(25)
def test_top_k(pick: Random) -> None:
    """Of elements that are equal the first ones."""
    shape, dtype = (*shape_of(pick)[0], pick.choice((1, 7, 200))), pick.choice(("f4", "i8", "f8", "i4", "u1"))
    axis, net = pick.randint(0, len(shape) - 1), Net()
    k, x = net.const(np.array([pick.randint(1, shape[axis])], I64)), values(shape, shape[axis]).round().astype(dtype)
    order = {"axis": axis, "largest": pick.randint(0, 1)}
    best, where = net("TopK", net.input("x", shape, dtype), k, outputs=2, **order)
    net.output(best, dtype=dtype)
    net.output(where, dtype=I64)
    assert check(net, {"x": x}, onnxruntime=dtype != "u1") == ["top_k"]


@pytest.mark.parametrize("largest", [0, 1])
def test_top_k_of_nan_and_zeros(largest: int) -> None:
    """NaN is above all; 0 and -0 are equal."""
    x = np.array([0.0, -0.0, np.nan, 1, -np.inf, np.inf, -np.nan, -1, 0.0, -0.0], F32)
    net = Net()
    best, where = net("TopK", net.input("x", (10,)), [10], largest=largest, outputs=2)
    net.output(best)
    net.output(where, dtype=I64)
    check(net, {"x": x}, onnxruntime=False)


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@drawn(6)
def test_grid_sample(mode: str, padding: str, pick: Random) -> None:
    n, c, rank = pick.randint(1, 3), pick.choice([1, 2, 3, 16, 37, 90]), pick.randint(1, 3)
    spatial, points = (tuple(pick.randint(1, most) for _ in range(rank)) for most in (6, 5))
    grid = (np.random.default_rng(pick.randint(0, 99)).random((n, *points, rank)) * 3 - 1.5).astype(F32)
    feeds, net = {"x": values((n, c, *spatial), 0) / 10, "g": grid}, Net(20)
    how = {"mode": mode, "padding_mode": padding, "align_corners": pick.randint(0, 1)}
    net.output(net("GridSample", *inputs(net, feeds), **how))
    # onnxruntime reflects in f32: a place close to an edge may be its neighbor.
    known = (rank == 2 or (rank == 3 and mode != "cubic")) and padding != "reflection" and mode != "nearest"
    assert set(check(net, feeds, 1e-5, onnxruntime=known)) - {"transpose", "copy"} == {"sample"}


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("read_again", [False, True])
def test_grid_sample_at_few_points_of_a_large_map(mode: str, rank: int, read_again: bool) -> None:
    """The map is not transposed for them, unless it is anyway."""
    spatial, net = (16, 11, 9) if rank == 3 else (32, 29), Net(20)
    grid = (np.random.default_rng(1).random((2, *(1, 1, 3)[-rank:], rank)) * 3 - 1.5).astype(F32)
    feeds = {"x": values((2, 5, *spatial), 0) / 10, "g": grid}
    x, where = inputs(net, feeds)
    net.output(net("GridSample", x, where, mode=mode))
    if read_again:
        net.output(net("Transpose", x, perm=[0, *range(2, rank + 2), 1]))
    kernels = check(net, feeds, 1e-5, onnxruntime=mode == "linear")
    assert ("transpose" in kernels) == read_again and "sample" in kernels


@pytest.mark.parametrize("isa", ["numpy", "generic", None])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_far_coordinates(mode: str, padding: str, isa: str | None) -> None:
    """Far outside a border is what is just outside of it, and results of mirrors stay among the pixels; what is
    interpolated nowhere is NaN.
    """
    x, near, net = np.arange(1, 7, dtype=F32).reshape(1, 1, 2, 3), np.array([9, -9], F32), Net(20)
    grid = np.stack(np.meshgrid(near, near), axis=-1)[None]
    how = {"mode": mode, "padding_mode": padding}
    net.output(net("GridSample", net.input("x", x.shape), net.input("g", grid.shape), **how))
    model = net.load(isa=isa)
    for far in (F32.type(1e30), F32.type(np.inf)):
        y = model(x, np.copysign(far, grid))
        assert np.allclose(y, model(x, grid)) if padding == "border" else (np.isfinite(y) & (abs(y) <= 12)).all()
    assert np.isnan(model(x, np.full_like(grid, np.nan))).all() == (mode != "nearest")


@drawn(25)
def test_non_max_suppression(pick: Random) -> None:
    n, classes, centered = pick.randint(1, 40), pick.randint(1, 3), pick.randint(0, 1)
    rng = np.random.default_rng(pick.randint(0, 99))
    feeds = {"b": rng.integers(0, 12, (2, n, 4)).astype(F32) + centered}
    feeds["s"] = rng.integers(0, 9, (2, classes, n)).astype(F32) / 8
    net = Net()
    limit, least = (net.const(np.array([v], F32)) for v in (pick.choice((0, 0.25, 0.5, 1)), 0.3))
    most = net.const(np.array([pick.randint(1, n + 2)], I64))
    chosen = net("NonMaxSuppression", *inputs(net, feeds), most, limit, least, center_point_box=centered)
    net.output(chosen, dtype=I64)
    model = net.load(threads=2)
    assert model.plan.tail is None and "suppress" in [kernel.name for kernel in model.plan.kernels()]
    found = next(iter(model.run(feeds).values()))
    np.testing.assert_array_equal(found, by_reference(graph_of(net.bytes()), feeds)[0])


TRIANGLES = ("f4", -9, 0), ("f4", 2, 1), ("i8", -1, 1), ("i8", 9, 0), ("u1", 0, 1), ("?", 2, 0)
LINES = values((3, 4), 4) * np.array([[1], [0], [1]], F32)


def singles() -> Iterator[tuple[str, np.ndarray, tuple[Any, ...], dict[str, Any], float, bool]]:
    """Operator, x, constants, attributes, rtol, whether onnxruntime has it."""
    for dtype, k, upper in TRIANGLES:
        yield "Trilu", values((2, 4, 5), 0, dtype), (np.int64(k),), {"upper": upper}, 0, dtype != "u1"
    for shape, k in product(((4, 6), (6, 4), (1, 1)), (-3, 0, 9)):
        yield "EyeLike", values(shape, 0), (), {"k": k}, 0, abs(k) < 4
    for axis in (0, 1, -1):
        yield "Hardmax", values((3, 4, 5), 1).round(), (), {"axis": axis}, 0, True
    for time in (0, 1):
        lengths, axes = np.array([1, 4, 2, 3]), {"time_axis": time, "batch_axis": 1 - time}
        yield "ReverseSequence", values((4, 4, 3), 2), (lengths,), axes, 0, True
    for size, channels in ((1, 4), (4, 5), (5, 3), (13, 8)):
        how = {"size": size, "alpha": 0.5, "beta": 0.6, "bias": 2.0}
        yield "LRN", values((2, channels, 4, 3), 3), (), how, 1e-5, size % 2 == 1
    for p in (1, 2):
        yield "LpNormalization", LINES, (), {"p": p, "axis": 1}, 1e-5, True
    yield "CenterCropPad", values((5, 4, 3), 5), (np.array([2, 7]),), {"axes": [0, 1]}, 0, False


@pytest.mark.parametrize(("op", "x", "constants", "attrs", "rtol", "known"), list(singles()))
def test_single_operators(op: str, x: Any, constants: Any, attrs: dict[str, Any], rtol: float, known: bool) -> None:
    net = Net(18 if op == "CenterCropPad" else 17)
    net.output(net(op, net.input("x", x.shape, x.dtype), *map(net.const, constants), **attrs), dtype=x.dtype)
    check(net, {"x": x}, rtol, known)


def test_lengths_of_sequences_that_are_fed() -> None:
    net, feeds = Net(), {"x": values((4, 4, 3), 2), "l": np.array([1, 4, 2, 3])}
    net.output(net("ReverseSequence", *inputs(net, feeds), time_axis=0, batch_axis=1))
    check(net, feeds)


@pytest.mark.parametrize("a, b", [((1, 3, 4), (3, 2, 4, 6)), ((2, 1, 5, 3), (4, 3, 2)), ((5, 3), (2, 3, 4))])
def test_spread_matrices(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    net, feeds = Net(), {"a": values(a, 6), "b": values(b, 7)}
    net.output(net("MatMul", *inputs(net, feeds)))
    check(net, feeds, 1e-5)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_one_hot(axis: int, kind: Any) -> None:
    net, rng = Net(), np.random.default_rng(8)
    feeds = {"i": rng.integers(0 if kind is np.uint8 else -9, 10, (3, 4)).astype(kind), "v": np.array([2, 5], F32)}
    i, v = inputs(net, feeds)
    net.output(net("OneHot", i, 7, v, axis=axis))
    check(net, feeds, onnxruntime=kind == I64)


def test_what_was_pooled_goes_back() -> None:
    """And a pool whose places nobody reads."""
    net, places = Net(), np.array([5, 7, 13, 15, 16, 18, 24, 26]).reshape(1, 2, 2, 2)
    feeds = {"x": values((1, 2, 2, 2), 9), "i": places}
    net.output(net("MaxUnpool", *inputs(net, feeds), kernel_shape=[2, 2], strides=[2, 2]))
    check(net, feeds)
    net = Net()
    net.output(net("MaxPool", net.input("x", (2, 3, 6, 6)), kernel_shape=[2, 2], outputs=2)[0])
    check(net, {"x": values((2, 3, 6, 6), 0)})


def test_places_out_of_range_are_errors_of_the_run() -> None:
    net, feeds = Net(18), {"x": np.zeros(5, F32), "i": np.array([0, 5]), "u": np.ones(2, F32)}
    net.output(net("ScatterElements", *inputs(net, feeds)))
    with pytest.raises(fg.InputError, match="scatter_elements takes -5 to 4"):
        net.load().run(feeds)
