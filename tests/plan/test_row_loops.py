"""Loops over parts of unknown lengths, as EmbeddingBag is exported: native, and as onnxruntime computes them."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from fastgraph.freedoms import without
from tests.nets import F32, I64, Net, assert_close, by_onnxruntime, numpy_steps
from tests.plan.control_nets import BOOL, body

ROWS, WIDTH = 12, 5
OFFSETS = ([0, 3, 3, 12], [0, 0, 12, 12], [2, 7, 1, -3], [-40, 40, 5, 5])


def _rows(net: Net, start: str, end: str, weighted: bool) -> str:
    """What some rows of a table are, where `ids` says which; perhaps times weights."""
    first = net.const(np.array([0], I64))
    rows = net("Gather", "table", net("Slice", "ids", start, end, first), axis=0)
    if weighted:
        rows = net("Mul", rows, net("Unsqueeze", net("Slice", "w", start, end, first), [1]))
    return str(rows)


def _inputs(net: Net, kind: Any = F32) -> None:
    net.input("table", (9, WIDTH), kind)
    net.input("ids", (ROWS,), I64)
    net.input("w", (ROWS,), kind)
    net.input("offsets", (4,), I64)


def scanned(op: str, weighted: bool, kind: Any = F32) -> Net:
    """A loop of three rounds, each of which gives what became of its part."""
    net = Net()
    _inputs(net, kind)
    inner = body("b", True)
    number = inner("Unsqueeze", "bi", [0])
    next_one = inner("Add", number, [1])
    start, end = (inner("Gather", "offsets", at, axis=0) for at in (number, next_one))
    rows = _rows(inner, start, end, weighted)
    axes = {"axes": [0]} if op != "ReduceSum" else {}
    more = [inner.const(np.array([0], I64))] if op == "ReduceSum" else []
    inner.output(inner("Identity", "bgo"), dtype=BOOL)
    inner.output(inner(op, rows, *more, keepdims=0, **axes), dtype=kind)
    net.output(net("Loop", 3, "", body=inner.graph()), dtype=kind)
    return net


def _one_or_other(net: Net, start: str, end: str) -> str:
    """The rows of a part, with weights in the first round only."""
    plain, weighted = Net(prefix="p_"), Net(prefix="q_")
    for inner in (plain, weighted):
        inner.output(_rows(inner, start, end, inner is weighted))
    first = net("Equal", "at", 0)
    return str(net("If", first, then_branch=weighted.graph(), else_branch=plain.graph()))


def listed(new_axis: int = 0, axis: int = 0, first: int = 0, step: int = 1, most: int | None = None) -> Net:
    """A loop that ends itself and puts what becomes of each part into a list, by branches."""
    net = Net()
    _inputs(net)
    inner = Net(prefix="b_")
    for name, shape, kind in (("bi", (), I64), ("bgo", (), BOOL), ("at", (), I64)):
        inner.input(name, shape, kind)
    inner.inputs.append(helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, None))
    number = inner("Reshape", "at", [-1])
    one, two = (inner("Add", number, np.array([n], I64)) for n in (1, 2))
    start, end = inner("Slice", "offsets", number, one), inner("Slice", "offsets", one, two)
    none, some = Net(prefix="n_"), Net(prefix="s_")
    none.output(none("Identity", np.zeros((1, WIDTH), F32)))
    some.output(some("ReduceMean", _one_or_other(some, start, end), axes=[0]))
    part = inner("If", inner("Equal", start, end), then_branch=none.graph(), else_branch=some.graph())
    after = inner("Add", "at", np.array(step, I64))
    inner.output(inner("Less", after, 3), dtype=BOOL)
    inner.output(after, dtype=I64)
    longer = inner("SequenceInsert", "parts", part)
    inner.outputs.append(helper.make_tensor_sequence_value_info(longer, TensorProto.FLOAT, None))
    trips = "" if most is None else net.const(np.array(most, I64))
    given = net.const(np.array(True)), net.const(np.array(first, I64)), net("SequenceEmpty")
    _, parts = net("Loop", trips, *given, outputs=2, body=inner.graph())
    net.output(net("Relu", net("ConcatFromSequence", parts, axis=axis, new_axis=new_axis)))
    return net


def fed(offsets: list[int], kind: Any = F32) -> dict[str, np.ndarray]:
    r = np.random.default_rng(0)
    numbers = r.integers(-9, 9, (9 * WIDTH + ROWS)).astype(kind)
    table, w = numbers[: 9 * WIDTH].reshape(9, WIDTH), numbers[9 * WIDTH :]
    return {"table": table, "ids": r.integers(0, 9, ROWS), "w": w, "offsets": np.array(offsets, I64)}


def agrees(net: Net, kind: Any = F32, native: bool = True) -> None:
    """Natively, with and without loops over rows, and by NumPy."""
    model = net.load()
    assert not native or model.plan.tail is None and not numpy_steps(model)
    with without("by_rows"):
        bounded = net.load()
    with without("control"):
        host = net.load()
    for offsets in OFFSETS:
        feeds = fed(offsets, kind)
        wanted = by_onnxruntime(net.bytes(), feeds)
        for each in (model, bounded, host):
            assert_close(list(each.run(feeds).values()), wanted, 1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"])
def test_parts_that_are_reduced(op: str, weighted: bool) -> None:
    agrees(scanned(op, weighted))


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax"])
def test_whole_numbers(op: str) -> None:
    agrees(scanned(op, False, I64), I64)


@pytest.mark.parametrize("op", ["ReduceL2", "ReduceProd"])
def test_others_are_planned_at_their_bounds(op: str) -> None:
    agrees(scanned(op, False))


@pytest.mark.parametrize("new_axis, axis", [(0, 0), (0, 1), (1, 0), (1, 1), (1, -1)])
def test_lists_are_tensors(new_axis: int, axis: int) -> None:
    agrees(listed(new_axis, axis))


@pytest.mark.parametrize("first, step, most", [(0, 2, None), (1, 1, None), (2, 1, None), (0, 1, 2), (0, 1, 9)])
def test_rounds_are_counted(first: int, step: int, most: int | None) -> None:
    """By a number that is carried; where it is not that of the round, NumPy slices by it."""
    agrees(listed(first=first, step=step, most=most), native=(first, step) == (0, 1))
