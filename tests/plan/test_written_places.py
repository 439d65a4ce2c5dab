"""Operators that no ONNX file has by themselves, at places and on boxes: native, as by their references."""

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from fastgraph.errors import InputError, ModelError
from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.ops.evaluate import evaluate
from tests.kernels.harness import drawn
from tests.plan.computed import ENDS, compiled, inferred

RNG = np.random.default_rng(3)


def plans(op: str, inputs: list[Any], known: tuple[int, ...], count: int, attrs: dict[str, Any]) -> Iterator[Any]:
    """(graph, feeds, program) of a node on the first and the last of ENDS; `known` operands are constants."""

    def value(i: int, a: np.ndarray) -> Value:
        return Value(f"x{i}", TensorType.of(a), a if i in known else None)

    values = [None if a is None else value(i, a) for i, a in enumerate(inputs)]
    free = [v for v in values if v is not None and v.data is None]
    outputs = [Value(f"y{i}", TensorType(None, None)) for i in range(count)]
    graph = inferred(Graph("one", free, outputs, [Node(op, list(values), list(outputs), attrs)]))
    feeds = {v.name: inputs[int(v.name[1:])] for v in free}
    for tier, threads in zip(ENDS, (1, 3), strict=True):
        plan = compiled(graph, tier, threads)
        plan.fill(feeds)
        yield graph, feeds, plan


def check(
    op: str, inputs: list[Any], known: tuple[int, ...] = (), rtol: float = 0, count: int = 1, **attrs: Any
) -> None:
    """Compares a node with its reference."""
    for graph, feeds, plan in plans(op, inputs, known, count, attrs):
        plan.execute()
        for found, want in zip(plan.results().values(), evaluate(graph, feeds), strict=True):
            np.testing.assert_allclose(found, want, rtol, rtol)


def refused(op: str, inputs: list[Any], known: tuple[int, ...], says: str, **attrs: Any) -> None:
    """By the program, which names what is wrong, and by the reference."""
    for graph, feeds, plan in plans(op, inputs, known, 1, attrs):
        with pytest.raises(InputError, match=says):
            plan.execute()
        with pytest.raises(ModelError):
            evaluate(graph, feeds)


EXTENTS = "of the extents of its update"


def shape_of(pick: Random, least: int = 1, most: int = 6, rank: int = 4) -> tuple[int, ...]:
    return tuple(pick.randint(least, most) for _ in range(pick.randint(1, rank)))


def real(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@drawn(30)
def test_dynamic_update_slice(pick: Random) -> None:
    shape = shape_of(pick)
    start = np.array([pick.randint(-2, 8) for _ in shape], pick.choice((np.int64, np.int32)))
    check("dynamic_update_slice", [real(*shape), real(*(pick.randint(1, n) for n in shape)), start])


@drawn(30)
def test_slice_update(pick: Random) -> None:
    shape, known = shape_of(pick), pick.choice((False, True))
    part = [pick.randint(1, n) for n in shape]
    steps = [pick.randint(1, 2) if known and n > 2 * p else 1 for n, p in zip(shape, part, strict=True)]
    first = [pick.randint(0, n - (p - 1) * s - 1) for n, p, s in zip(shape, part, steps, strict=True)]
    ends = [f + (p - 1) * s + 1 for f, p, s in zip(first, part, steps, strict=True)]
    mask = sum(1 << i for i, f in enumerate(first) if f == 0 and pick.choice((False, True)))
    begin = [f - n if pick.choice((False, True)) and f > 0 else f for f, n in zip(first, shape, strict=True)]
    inputs = [real(*shape), real(*part), *(np.array(v, np.int64) for v in (begin, ends, steps))]
    check("slice_update", inputs, (2, 3, 4) if known else (4,), begin_mask=mask)


@drawn(30)
def test_a_slice_update_whose_end_does_not_fit(pick: Random) -> None:
    """Where Python's x[begin:end] has other extents than the update, it is an error; else that is written over."""
    shape = shape_of(pick, 2, 5, 3)
    part = tuple(pick.randint(1, n) for n in shape)
    masks = {name: pick.randint(0, 2 ** len(shape) - 1) for name in ("begin_mask", "end_mask")}
    begin = [pick.randint(-n - 1, n + 1) for n in shape]
    ends = [pick.choice((b + p, pick.randint(-n - 1, n + 1))) for n, b, p in zip(shape, begin, part, strict=True)]
    known, dtype = pick.choice(((4,), (2, 4), (3, 4))), pick.choice((np.int32, np.int64))
    inputs = [real(*shape), real(*part), *(np.array(v, dtype) for v in (begin, ends, [1] * len(shape)))]
    cut = tuple(
        slice(None if masks["begin_mask"] >> i & 1 else b, None if masks["end_mask"] >> i & 1 else e)
        for i, (b, e) in enumerate(zip(begin, ends, strict=True))
    )
    if inputs[0][cut].shape == part:
        check("slice_update", inputs, known, **masks)
    else:
        refused("slice_update", inputs, known, EXTENTS, **masks)


def test_a_slice_of_one_place_loses_its_axis() -> None:
    inputs = [real(3, 4, 5), real(4, 2), *(np.array(v) for v in ([2, 0, 1], [3, 4, 3], [1, 1, 1]))]
    for known in ((2, 3, 4), (4,)):
        check("slice_update", inputs, known, shrink_axis_mask=1)
    inputs[2] = np.array([-1, 0, 1])
    check("slice_update", inputs, (4,), shrink_axis_mask=1)
    for place in (3, -4):
        inputs[2] = np.array([place, 0, 1])
        refused("slice_update", inputs, (4,), EXTENTS, shrink_axis_mask=1)


@drawn(30)
def test_slices_at_places(pick: Random) -> None:
    shape = tuple(pick.randint(2, 5) for _ in range(pick.randint(2, 3)))
    sizes = tuple(pick.randint(1, n) for n in shape)
    start_map = tuple(pick.sample(range(len(shape)), pick.randint(1, len(shape))))
    collapsed = tuple(i for i, s in enumerate(sizes) if s == 1 and pick.choice((False, True)))
    lead = tuple(pick.randint(1, 3) for _ in range(pick.randint(0, 2)))
    places = RNG.integers(-1, 5, (*lead, len(start_map)))
    rank, inner = len(lead) + len(shape) - len(collapsed), len(shape) - len(collapsed)
    offset = tuple(sorted(pick.sample(range(rank), inner)))
    dims = {"offset_dims": offset, "collapsed_dims": collapsed, "start_map": start_map, "index_vector_dim": len(lead)}
    check("gather_slices", [real(*shape), places], **dims, slice_sizes=sizes)
    whole, slices = iter(lead), iter(s for i, s in enumerate(sizes) if i not in collapsed)
    updates = real(*(next(slices) if i in offset else next(whole) for i in range(rank)))
    check("scatter_slices", [real(*shape), places, updates], **dims)
    check("scatter_slices", [real(*shape), places, updates], **dims, rtol=1e-6, reduction="add")


@pytest.mark.parametrize("axis", [1, 2])
def test_gather_batches(axis: int) -> None:
    x, places = real(3, 4, 5), RNG.integers(-4, 4, (3, 2, 2))
    check("gather_batches", [x, places], axis=axis, batch_dims=1)


def test_diagonals() -> None:
    check("matrix_diag", [real(2, 3, 4)])
    check("matrix_diag", [RNG.integers(0, 9, (5,))])
    for rows, columns in ((3, 5), (5, 3)):
        check("matrix_set_diag", [real(2, rows, columns), real(2, 3)])


def test_caches_that_are_written_to() -> None:
    past, update = real(2, 3, 6, 4), real(2, 3, 2, 4)
    check("tensor_scatter", [past, update, np.array([4, 1])])
    check("tensor_scatter", [past, real(2, 3, 6, 1), np.array([3, 0])], axis=-1)


def test_checked_indices() -> None:
    check("checked_indices", [np.array([0, 2, 1], np.int32), real(3, 4)], axis=0)
    check("checked_indices", [np.array([[0, 3], [2, 1]]), real(3, 4)], axis=None)
    for bad, axis in (([0, -1], 0), ([3, 0], 0), ([[0, 4]], None), ([[-1, 0]], None)):
        refused("checked_indices", [np.array(bad), real(3, 4)], (), "checked_indices takes", axis=axis)


@drawn(30)
def test_boxes_of_one_class(pick: Random) -> None:
    count, most, limit = pick.randint(1, 30), pick.randint(1, 9), pick.choice((0.0, 0.3, 0.5))
    boxes, scores = RNG.integers(0, 9, (count, 4)).astype(np.float32), RNG.integers(0, 9, count).astype(np.float32)
    numbers = [np.array(limit, np.float32), np.array(2, np.float32)]
    check("box_suppression", [boxes, scores, np.array(most), *numbers], (2, 3, 4), count=3)


@drawn(30)
def test_places_of_what_is_not_zero(pick: Random) -> None:
    shape, share, rng = shape_of(pick, 1, 7), pick.random(), np.random.default_rng(pick.randint(0, 99))
    for dtype in (bool, np.int16, np.uint32, np.float16, np.float32, np.float64):
        x = np.where(rng.random(shape) < share, rng.integers(1, 9, shape), 0).astype(dtype)
        if x.dtype.kind == "f":
            x.flat[0] = rng.choice([-0.0, np.nan, np.inf])
        check("bounded_non_zero", [x], count=2)


@drawn(40)
def test_the_best_of_as_many_as_there_are(pick: Random) -> None:
    """How many elements there are, and how many are wanted, may each be less or more than there is room for."""
    n, largest, dtype = pick.randint(1, 40), pick.randint(0, 1), pick.choice((np.float32, np.int64, np.uint8))
    most, there, wanted = pick.randint(1, n), np.array(pick.randint(0, n + 3)), np.array(pick.randint(0, n + 3))
    x = RNG.integers(0, 20, (3, n, 2)).astype(dtype)
    check("top_k", [x, wanted, there], axis=1, largest=largest, most=most, count=2)
    check("top_k", [x, np.array([most]), there], (1,), axis=1, largest=largest, count=2)


@drawn(30)
def test_suppression_of_as_many_boxes_as_there_are(pick: Random) -> None:
    n, there, wanted = pick.randint(1, 30), pick.randint(0, 33), pick.randint(-1, 33)
    boxes = RNG.integers(0, 9, (2, n, 4)).astype(np.float32)
    scores = RNG.integers(0, 9, (2, 3, n)).astype(np.float32)
    inputs = [boxes, scores, np.array(wanted), np.array(0.3, np.float32), None, np.array(there)]
    check("non_max_suppression", inputs, (3,), most=n, center_point_box=pick.randint(0, 1), count=2)


@pytest.mark.parametrize("apart", [0.0, 40.0])
def test_suppression_of_many_boxes(apart: float) -> None:
    """Those of one class among one another, or moved apart by class; some edges are no numbers, or infinite."""
    n = 700
    low = RNG.random((1, n, 2)) * 30 + apart * RNG.integers(0, 9, (1, n, 1))
    boxes = np.concatenate([low, low + RNG.random((1, n, 2)) * 12], axis=2).astype(np.float32)
    for number, row in zip((np.nan, np.inf, -np.inf), (3, 70, 400), strict=True):
        boxes[0, row, row % 4] = number
    scores = RNG.integers(0, 99, (1, 2, n)).astype(np.float32)
    for limit in (0.0, 0.3):
        inputs = [boxes, scores, np.array(n), np.array(limit, np.float32), np.array(4, np.float32)]
        check("non_max_suppression", inputs, (2, 3, 4), count=2)


@pytest.mark.parametrize("padding", ["constant", "border", "reflection", "symmetric"])
@pytest.mark.parametrize("units", ["unnormalized", "normalized_minus_one_to_one", "normalized_zero_to_one"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_resample(padding: str, units: str, mode: str) -> None:
    scale = {"unnormalized": 7, "normalized_minus_one_to_one": 1.5, "normalized_zero_to_one": 1.2}[units]
    where = (RNG.random((2, 3, 4, 2)) * 2 - 0.7).astype(np.float32) * np.float32(scale)
    for corners in (0, 1):
        check("resample", [real(2, 3, 5, 6), where], rtol=1e-5, mode=mode, padding=padding, units=units,
              corners=corners, pad_value=2.5)  # fmt: skip


@pytest.mark.parametrize("sampling", ["default", "align_corners", "unalign_corners", "strict_align_corners",
                                      "offset_corners"])  # fmt: skip
@pytest.mark.parametrize("every", [0, 1])
def test_crops_of_known_boxes(sampling: str, every: int) -> None:
    boxes = np.array([[0.1, 0.2, 0.7, 0.9], [-0.2, 0, 1.1, 0.5], [0.5, 0.5, 0.5, 0.5]], np.float32)
    images = None if every else np.array([1, 0, 1])
    check("crop_resize", [real(2, 3, 5, 6), boxes, images], (1, 2), 1e-5, size=(4, 3), sampling=sampling, every=every,
          normalized=1, pad_value=1.5)  # fmt: skip
