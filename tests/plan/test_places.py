"""Reading and writing at places, sorting and sampling run native, as in onnxruntime, on one and on three threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastgraph as fg
from tests.nets import F32, I64, Net, by_onnxruntime, by_reference, graph_of, numpy_steps
from tests.plan.step_by_step import poison

SOME = settings(max_examples=25, deadline=None)


def check(net: Net, feeds: dict[str, np.ndarray], rtol: float = 0, onnxruntime: bool = True) -> list[str]:
    """Compares with the reference and onnxruntime; the kernels. All steps must be native."""
    source = net.bytes()
    wanted = [by_reference(graph_of(source), feeds)] + ([by_onnxruntime(source, feeds)] if onnxruntime else [])
    kernels = []
    for threads in (1, 3):
        model = fg.load(source, threads=threads)
        assert not numpy_steps(model)
        poison(model.plan)
        found = list(model.run(feeds).values())
        for expected in wanted:
            for got, want in zip(found, expected, strict=True):
                assert got.dtype == want.dtype
                np.testing.assert_allclose(got, want, rtol, rtol, equal_nan=True)
        kernels = [kernel.name for kernel in model.plan.kernels()]
    return kernels


def shapes(data: Any, least: int = 1, most: int = 4) -> tuple[int, ...]:
    return tuple(data.draw(st.lists(st.integers(1, 6), min_size=least, max_size=most)))


def values(shape: tuple[int, ...], seed: int, dtype: Any = F32) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 10).astype(dtype)


TYPES = st.sampled_from([np.float32, np.int64, np.uint8, np.float64, np.int32])


@given(st.data(), TYPES, st.sampled_from([np.int32, np.int64]))
@SOME
def test_gathers(data, dtype, kind):
    shape, seed = shapes(data, 1, 3), data.draw(st.integers(0, 99))
    axis = data.draw(st.integers(0, len(shape) - 1))
    n, rng = shape[axis], np.random.default_rng(seed)
    more = tuple(data.draw(st.lists(st.integers(1, 4), max_size=2)))
    along = tuple(data.draw(st.integers(1, 8 if a == axis else m)) for a, m in enumerate(shape))
    depth = data.draw(st.integers(1, len(shape)))
    feeds = {
        "x": values(shape, seed, dtype), "i": rng.integers(-n, n, more).astype(kind),
        "e": rng.integers(-n, n, along).astype(kind),
        "d": np.stack([rng.integers(-m, m, (3, 2)) for m in shape[:depth]], -1),
    }  # fmt: skip
    net = Net(18)
    x, i, e, d = (net.input(name, v.shape, v.dtype) for name, v in feeds.items())
    net.output(net("Gather", x, i, axis=axis), net("GatherElements", x, e, axis=axis), net("GatherND", x, d),
               dtype=dtype)  # fmt: skip
    assert "gather" in check(net, feeds)


@given(st.data(), st.sampled_from([np.float32, np.int64, np.float64, np.int32]))
@SOME
def test_scatters(data, dtype):
    shape, seed = shapes(data, 1, 3), data.draw(st.integers(0, 99))
    axis, rng = data.draw(st.integers(0, len(shape) - 1)), np.random.default_rng(seed)
    along = tuple(data.draw(st.integers(1, 8 if a == axis else m)) for a, m in enumerate(shape))
    reduction = data.draw(st.sampled_from(["none", "add", "mul", "max", "min"]))
    n, depth = shape[axis], data.draw(st.integers(1, len(shape)))
    if reduction == "none":  # onnxruntime says nothing of places that are written twice
        along = (*along[:axis], min(along[axis], n), *along[axis + 1 :])
        e = np.argsort(rng.random((*along[:axis], n, *along[axis + 1 :])), axis).take(range(along[axis]), axis) - n
        flat = rng.permutation(int(np.prod(shape[:depth])))[: min(4, int(np.prod(shape[:depth])))]
        d = np.stack(np.unravel_index(flat, shape[:depth]), -1)
    else:
        e = rng.integers(-n, n, along)
        d = np.stack([rng.integers(-m, m, 4) for m in shape[:depth]], -1)
    feeds = {
        "x": values(shape, seed, dtype), "e": e, "u": values(along, seed + 1, dtype), "d": d,
        "v": values((len(d), *shape[depth:]), seed + 2, dtype),
    }  # fmt: skip
    net = Net(18)
    x, e, u, d, v = (net.input(name, a.shape, a.dtype) for name, a in feeds.items())
    net.output(net("ScatterElements", x, e, u, axis=axis, reduction=reduction), dtype=dtype)
    net.output(net("ScatterND", x, d, v, reduction=reduction), dtype=dtype)
    check(net, feeds, 1e-6 if reduction in ("add", "mul") else 0)


@given(st.data(), st.sampled_from([np.float32, np.int64, np.float64, np.int32, np.uint8]))
@SOME
def test_top_k(data, dtype):
    shape, seed = shapes(data, 1, 3), data.draw(st.integers(0, 99))
    shape = (*shape, data.draw(st.sampled_from([1, 7, 200])))
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = values(shape, seed).round().astype(dtype)  # with elements that are equal
    net = Net()
    k = net.const(np.array([data.draw(st.integers(1, shape[axis]))], I64))
    best, where = net("TopK", net.input("x", shape, dtype), k, axis=axis, largest=data.draw(st.integers(0, 1)),
                      outputs=2)  # fmt: skip
    net.output(best, dtype=dtype)
    net.output(where, dtype=I64)
    assert check(net, {"x": x}, onnxruntime=dtype != np.uint8) == ["top_k"]


@pytest.mark.parametrize("largest", [0, 1])
def test_top_k_of_nan_and_zeros(largest):
    """NaN is above all; 0 and -0 are equal."""
    x = np.array([0.0, -0.0, np.nan, 1, -np.inf, np.inf, -np.nan, -1, 0.0, -0.0], F32)
    net = Net()
    best, where = net("TopK", net.input("x", (10,)), net.const(np.array([10], I64)), largest=largest, outputs=2)
    net.output(best)
    net.output(where, dtype=I64)
    check(net, {"x": x}, onnxruntime=False)


@given(st.data(), st.sampled_from(["linear", "nearest", "cubic"]), st.sampled_from(["zeros", "border", "reflection"]))
@SOME
def test_grid_sample(data, mode, padding):
    n, c, rank, seed = *(data.draw(st.integers(1, 3)) for _ in range(3)), data.draw(st.integers(0, 99))
    spatial = tuple(data.draw(st.integers(1, 6)) for _ in range(rank))
    points = tuple(data.draw(st.integers(1, 5)) for _ in range(rank))
    grid = (np.random.default_rng(seed).random((n, *points, rank)) * 3 - 1.5).astype(F32)
    feeds = {"x": values((n, c, *spatial), seed) / 10, "g": grid}
    net = Net(20)
    x, g = (net.input(name, v.shape) for name, v in feeds.items())
    net.output(net("GridSample", x, g, mode=mode, padding_mode=padding, align_corners=data.draw(st.integers(0, 1))))
    known = rank == 2 or (rank == 3 and mode != "cubic")
    # onnxruntime reflects in f32: a place close to an edge may be its neighbor.
    assert check(net, feeds, 1e-5, onnxruntime=known and padding != "reflection" and mode != "nearest") == ["sample"]


@given(st.data(), st.integers(0, 1))
@SOME
def test_non_max_suppression(data, centered):
    n, classes, seed = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 3)), data.draw(st.integers(0, 99))
    rng = np.random.default_rng(seed)
    boxes = rng.integers(0, 12, (2, n, 4)).astype(F32) + centered
    scores = rng.integers(0, 9, (2, classes, n)).astype(F32) / 8
    net = Net()
    b, s = net.input("b", boxes.shape), net.input("s", scores.shape)
    limit, least = (net.const(np.array([v], F32)) for v in (data.draw(st.sampled_from([0, 0.25, 0.5, 1])), 0.3))
    most = net.const(np.array([data.draw(st.integers(1, n + 2))], I64))
    net.output(net("NonMaxSuppression", b, s, most, limit, least, center_point_box=centered), dtype=I64)
    source, feeds = net.bytes(), {"b": boxes, "s": scores}
    model = fg.load(source, threads=2)
    assert model.plan.tail is None and "suppress" in [kernel.name for kernel in model.plan.kernels()]
    found = next(iter(model.run(feeds).values()))
    np.testing.assert_array_equal(found, by_reference(graph_of(source), feeds)[0])


def _single(op: str, x: np.ndarray, *constants: Any, opset: int = 17, **attrs: Any) -> tuple[Net, dict[str, Any]]:
    net = Net(opset)
    given = [net.const(np.array(c)) if c is not None else "" for c in constants]
    net.output(net(op, net.input("x", x.shape, x.dtype), *given, **attrs), dtype=x.dtype)
    return net, {"x": x}


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("k", [-9, -1, 0, 2, 9])
@pytest.mark.parametrize("upper", [0, 1])
def test_triangles(dtype, k, upper):
    check(*_single("Trilu", values((2, 4, 5), 0, dtype), np.int64(k), upper=upper), onnxruntime=dtype is not np.uint8)


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (1, 1)])
@pytest.mark.parametrize("k", [-3, 0, 2, 9])
def test_unit_matrices(shape, k):
    check(*_single("EyeLike", values(shape, 0), k=k), onnxruntime=abs(k) < 4)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_hardmax(axis):
    check(*_single("Hardmax", values((3, 4, 5), 1).round(), axis=axis))


@pytest.mark.parametrize("axes", [(0, 1), (1, 0)])
@pytest.mark.parametrize("known", [True, False])
def test_reversed_sequences(axes, known):
    x, lengths = values((4, 4, 3), 2), np.array([1, 4, 2, 3])
    net = Net()
    given = net.const(lengths) if known else net.input("l", (4,), I64)
    net.output(net("ReverseSequence", net.input("x", x.shape), given, time_axis=axes[0], batch_axis=axes[1]))
    check(net, {"x": x} if known else {"x": x, "l": lengths})


@pytest.mark.parametrize("size, channels", [(1, 4), (4, 5), (5, 3), (13, 8)])
def test_local_response(size, channels):
    net, feeds = _single("LRN", values((2, channels, 4, 3), 3), size=size, alpha=0.5, beta=0.6, bias=2.0)
    check(net, feeds, 1e-5, onnxruntime=size % 2 == 1)


@pytest.mark.parametrize("p", [1, 2])
def test_lp_norms(p):
    x = values((3, 4), 4)
    x[1] = 0
    check(*_single("LpNormalization", x, p=p, axis=1), 1e-5)


def test_crops_in_the_middle():
    check(*_single("CenterCropPad", values((5, 4, 3), 5), np.array([2, 7]), axes=[0, 1], opset=18), onnxruntime=False)


@pytest.mark.parametrize("a, b", [((1, 3, 4), (3, 2, 4, 6)), ((2, 1, 5, 3), (4, 3, 2)), ((5, 3), (2, 3, 4))])
def test_spread_matrices(a, b):
    net = Net()
    net.output(net("MatMul", net.input("a", a), net.input("b", b)))
    check(net, {"a": values(a, 6), "b": values(b, 7)}, 1e-5)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_one_hot(axis, kind):
    net, rng = Net(), np.random.default_rng(8)
    i, v = net.input("i", (3, 4), kind), net.input("v", (2,))
    net.output(net("OneHot", i, net.const(np.array(7, I64)), v, axis=axis))
    low = 0 if kind is np.uint8 else -9
    check(net, {"i": rng.integers(low, 10, (3, 4)).astype(kind), "v": np.array([2, 5], F32)}, onnxruntime=kind == I64)


def test_what_was_pooled_goes_back():
    net = Net()
    x, i = net.input("x", (1, 2, 2, 2)), net.input("i", (1, 2, 2, 2), I64)
    net.output(net("MaxUnpool", x, i, kernel_shape=[2, 2], strides=[2, 2]))
    places = np.array([5, 7, 13, 15, 16, 18, 24, 26]).reshape(1, 2, 2, 2)
    check(net, {"x": values((1, 2, 2, 2), 9), "i": places})


def test_places_out_of_range_are_errors_of_the_run():
    net = Net(18)
    x, i, u = net.input("x", (5,)), net.input("i", (2,), I64), net.input("u", (2,))
    net.output(net("ScatterElements", x, i, u))
    feeds = {"x": np.zeros(5, F32), "i": np.array([0, 5]), "u": np.ones(2, F32)}
    with pytest.raises(fg.InputError, match="scatter_elements takes -5 to 4"):
        net.load().run(feeds)


def test_a_pool_whose_places_nobody_reads() -> None:
    net = Net()
    net.output(net("MaxPool", net.input("x", (2, 3, 6, 6)), kernel_shape=[2, 2], outputs=2)[0])
    check(net, {"x": values((2, 3, 6, 6), 0)})
