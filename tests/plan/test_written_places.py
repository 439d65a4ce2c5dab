"""Operators that no ONNX file has by themselves, at places and on boxes: native, as by their references."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.errors import InputError, ModelError
from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.ops.evaluate import evaluate, infer_graph
from fastgraph.plan.program import HostStep
from fastgraph.runtime.executable import compile_graph
from tests.plan.computed import ENDS

SOME = settings(max_examples=30, deadline=None)
RNG = np.random.default_rng(3)


def plans(op: str, inputs: list[Any], known: tuple[int, ...], count: int, attrs: dict[str, Any]) -> Iterator[Any]:
    """(graph, feeds, program) of a node, on the narrowest and on the widest tier; `known` operands are constants."""

    def value(i: int, a: np.ndarray) -> Value:
        return Value.constant(f"c{i}", a) if i in known else Value(f"x{i}", TensorType(a.dtype, a.shape))

    values = [None if a is None else value(i, a) for i, a in enumerate(inputs)]
    feeds = {v.name: inputs[i] for i, v in enumerate(values) if v is not None and v.data is None}
    for tier, threads in zip(ENDS, (1, 3), strict=True):
        graph = Graph("one", [v for v in values if v is not None and v.data is None])
        graph.nodes = [Node(op, list(values), [Value(f"y{i}", TensorType(None, None)) for i in range(count)], attrs)]
        graph.outputs = list(graph.nodes[0].outputs)
        infer_graph(graph)
        plan = compile_graph(graph, {}, tier, threads)
        assert not [step.node.op for step in plan.program.steps if isinstance(step, HostStep)]
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


def real(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@given(st.data(), st.booleans())
@SOME
def test_dynamic_update_slice(data: Any, wide: bool) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    part = tuple(data.draw(st.integers(1, n)) for n in shape)
    start = np.array([data.draw(st.integers(-2, 8)) for _ in shape], np.int64 if wide else np.int32)
    check("dynamic_update_slice", [real(*shape), real(*part), start])


@given(st.data(), st.booleans())
@SOME
def test_slice_update(data: Any, known: bool) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    part = [data.draw(st.integers(1, n)) for n in shape]
    steps = [data.draw(st.integers(1, 2)) if known and n > 2 * p else 1 for n, p in zip(shape, part, strict=True)]
    first = [data.draw(st.integers(0, n - (p - 1) * s - 1)) for n, p, s in zip(shape, part, steps, strict=True)]
    ends = [f + (p - 1) * s + 1 for f, p, s in zip(first, part, steps, strict=True)]
    masks = {"begin_mask": sum(1 << i for i, f in enumerate(first) if f == 0 and data.draw(st.booleans()))}
    begin = [f - n if data.draw(st.booleans()) and f > 0 else f for f, n in zip(first, shape, strict=True)]
    given_ = [np.array(v, np.int64) for v in (begin, ends, steps)]
    inputs = [real(*shape), real(*part), *given_]
    check("slice_update", inputs, (2, 3, 4) if known else (4,), **masks)


@given(st.data())
@SOME
def test_a_slice_update_whose_end_does_not_fit(data: Any) -> None:
    """Where Python's x[begin:end] has other extents than the update, it is an error; else that is written over."""
    shape = tuple(data.draw(st.lists(st.integers(2, 5), min_size=1, max_size=3)))
    part = tuple(data.draw(st.integers(1, n)) for n in shape)
    masks = {name: data.draw(st.integers(0, 2 ** len(shape) - 1)) for name in ("begin_mask", "end_mask")}
    begin = [data.draw(st.integers(-n - 1, n + 1)) for n in shape]
    ends = [b + p if data.draw(st.booleans()) else data.draw(st.integers(-n - 1, n + 1))
            for n, b, p in zip(shape, begin, part, strict=True)]  # fmt: skip
    known = data.draw(st.sampled_from([(4,), (2, 4), (3, 4)]))
    dtype = data.draw(st.sampled_from([np.int32, np.int64]))
    inputs = [real(*shape), real(*part), *(np.array(v, dtype) for v in (begin, ends, [1] * len(shape)))]
    cut = tuple(
        slice(None if masks["begin_mask"] >> i & 1 else b, None if masks["end_mask"] >> i & 1 else e)
        for i, (b, e) in enumerate(zip(begin, ends, strict=True))
    )
    if inputs[0][cut].shape == part:
        check("slice_update", inputs, known, **masks)
        return
    for graph, feeds, plan in plans("slice_update", inputs, known, 1, masks):
        with pytest.raises(InputError, match="of the extents of its update"):
            plan.execute()
        with pytest.raises(ModelError):
            evaluate(graph, feeds)


def test_a_slice_of_one_place_loses_its_axis() -> None:
    inputs = [real(3, 4, 5), real(4, 2), *(np.array(v) for v in ([2, 0, 1], [3, 4, 3], [1, 1, 1]))]
    for known in ((2, 3, 4), (4,)):
        check("slice_update", inputs, known, shrink_axis_mask=1)
    inputs[2] = np.array([-1, 0, 1])
    check("slice_update", inputs, (4,), shrink_axis_mask=1)
    for place in (3, -4):
        inputs[2] = np.array([place, 0, 1])
        for _, _, plan in plans("slice_update", inputs, (4,), 1, {"shrink_axis_mask": 1}):
            with pytest.raises(InputError, match="of the extents of its update"):
                plan.execute()


@given(st.data())
@SOME
def test_slices_at_places(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.integers(2, 5), min_size=2, max_size=3)))
    sizes = tuple(data.draw(st.integers(1, n)) for n in shape)
    start_map = tuple(data.draw(st.permutations(range(len(shape)))))[: data.draw(st.integers(1, len(shape)))]
    collapsed = tuple(i for i, s in enumerate(sizes) if s == 1 and data.draw(st.booleans()))
    lead = tuple(data.draw(st.lists(st.integers(1, 3), max_size=2)))
    places = RNG.integers(-1, 5, (*lead, len(start_map)))
    rank, inner = len(lead) + len(shape) - len(collapsed), len(shape) - len(collapsed)
    offset = tuple(sorted(data.draw(st.permutations(range(rank)))[:inner]))
    dims = {"offset_dims": offset, "collapsed_dims": collapsed, "start_map": start_map,
            "index_vector_dim": len(lead)}  # fmt: skip
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
        for _, _, plan in plans("checked_indices", [np.array(bad), real(3, 4)], (), 1, {"axis": axis}):
            with pytest.raises(InputError, match="checked_indices takes"):
                plan.execute()


@given(st.integers(1, 30), st.integers(1, 9), st.sampled_from([0.0, 0.3, 0.5]))
@SOME
def test_boxes_of_one_class(count: int, most: int, limit: float) -> None:
    boxes, scores = RNG.integers(0, 9, (count, 4)).astype(np.float32), RNG.integers(0, 9, count).astype(np.float32)
    numbers = [np.array(limit, np.float32), np.array(2, np.float32)]
    check("box_suppression", [boxes, scores, np.array(most), *numbers], (2, 3, 4), count=3)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.floats(0, 1), st.integers(0, 99))
@SOME
def test_places_of_what_is_not_zero(shape: list[int], share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for dtype in (bool, np.int16, np.uint32, np.float16, np.float32, np.float64):
        x = np.where(rng.random(shape) < share, rng.integers(1, 9, shape), 0).astype(dtype)
        if x.dtype.kind == "f":
            x.flat[0] = rng.choice([-0.0, np.nan, np.inf])
        check("bounded_non_zero", [x], count=2)


@given(st.data(), st.sampled_from([np.float32, np.int64, np.uint8]), st.integers(0, 1))
@SOME
def test_the_best_of_as_many_as_there_are(data: Any, dtype: Any, largest: int) -> None:
    """How many elements there are, and how many are wanted, may each be less or more than there is room for."""
    n = data.draw(st.integers(1, 40))
    most = data.draw(st.integers(1, n))
    there, wanted = data.draw(st.integers(0, n + 3)), data.draw(st.integers(0, n + 3))
    x = RNG.integers(0, 20, (3, n, 2)).astype(dtype)
    check("top_k", [x, np.array(wanted), np.array(there)], axis=1, largest=largest, most=most, count=2)
    check("top_k", [x, np.array([most]), np.array(there)], (1,), axis=1, largest=largest, count=2)


@given(st.integers(1, 30), st.integers(0, 33), st.integers(-1, 33), st.integers(0, 1))
@SOME
def test_suppression_of_as_many_boxes_as_there_are(n: int, there: int, wanted: int, centered: int) -> None:
    boxes = RNG.integers(0, 9, (2, n, 4)).astype(np.float32)
    scores = RNG.integers(0, 9, (2, 3, n)).astype(np.float32)
    given_ = [boxes, scores, np.array(wanted), np.array(0.3, np.float32), None, np.array(there)]
    check("non_max_suppression", given_, (3,), most=n, center_point_box=centered, count=2)


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
