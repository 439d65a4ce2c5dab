"""The facts that operators state hold of their references, for random operands; steps mean what kernels compute."""

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from fastgraph.errors import FastgraphError
from fastgraph.ir import Node, TensorType, Value
from fastgraph.kernels.isa.math import OPS as VECTOR_OPS
from fastgraph.ops import OPS
from fastgraph.ops.chain import MEANING
from fastgraph.ops.evaluate import infer_node, run_node
from fastgraph.ops.registry import Layout, Quant
from tests.kernels.meanings import MEANINGS
from tests.nets import F32

RNG = np.random.default_rng(3)
SHAPE = (2, 3, 4)
ATTRS: dict[str, dict[str, Any]] = {
    "cast": {"to": np.dtype(np.int32)}, "bit_shift": {"direction": "LEFT"}, "table": {"values": RNG.uniform(size=256)},
    "fused": {"chain": (("mul", 0, 0.5),)},
}  # fmt: skip
"""What operators need beside operands."""


def those(layout: Layout) -> list[str]:
    return [name for name, op in OPS.items() if op.layout is layout]


def run(op: str, *arrays: Any, **attrs: Any) -> list[np.ndarray]:
    """Results of an operator; ModelError when it does not take such operands."""
    values = [Value(f"x{i}", TensorType.of(a), a) for i, a in enumerate(arrays)]
    outs = [Value(f"y{i}", TensorType(F32 if op == "requantize" else None)) for i in range(2 if op == "top_k" else 1)]
    node = Node(op, values, outs, {**ATTRS.get(op, {}), **attrs})
    infer_node(node)
    return run_node(node, list(arrays))


def operand(dtype: Any) -> np.ndarray:
    if dtype is np.complex64:
        return (RNG.standard_normal(SHAPE) + 1j * RNG.standard_normal(SHAPE)).astype(dtype)
    return RNG.uniform(0.1, 4, SHAPE).astype(dtype) if dtype is not bool else RNG.random(SHAPE) < 0.5


def operands(op: str) -> list[np.ndarray]:
    """Such as the operator takes, as many as it takes."""
    if op == "clip":
        return [operand(np.float32), np.float32(1).reshape(()), np.float32(2).reshape(())]
    for count in (3, 2, 1):
        for dtypes in product((np.float32, bool, np.int32, np.complex64, np.uint8), repeat=count):
            arrays = [operand(dtype) for dtype in dtypes]
            try:
                run(op, *arrays)
            except FastgraphError:
                continue
            return arrays
    raise AssertionError(f"no operands fit {op}")


def turned(array: np.ndarray, perm: tuple[int, ...]) -> np.ndarray:
    return array.transpose(perm) if array.ndim == len(perm) else array


@pytest.mark.parametrize("op", those(Layout.EACH))
def test_an_element_depends_on_those_at_its_place(op: str) -> None:
    arrays = operands(op)
    for perm in permutations(range(3)):
        [y], [z] = run(op, *arrays), run(op, *(turned(a, perm) for a in arrays))
        np.testing.assert_array_equal(z, y.transpose(perm))


@pytest.mark.parametrize("op", those(Layout.AXIS))
def test_one_axis_is_special(op: str) -> None:
    x, where = operand(np.float32), OPS[op].axis

    def along(array: np.ndarray, axis: int) -> list[np.ndarray]:
        if isinstance(where, int):
            return run(op, array, np.array(axis))
        more = {"top_k": [np.array([2])], "split": [np.array([array.shape[axis]])]}
        return run(op, array, *more.get(op, ()), **{where: axis})

    for perm, axis in product(permutations(range(3)), range(3)):
        for y, z in zip(along(x, perm[axis]), along(x.transpose(perm), axis), strict=True):
            np.testing.assert_allclose(z, y.transpose(perm), rtol=1e-6)


@pytest.mark.parametrize("op", those(Layout.AXES))
def test_axes_are_reduced(op: str) -> None:
    x = operand(np.float32)
    for perm in permutations(range(3)):
        [y] = run(op, x, np.array([perm[0], perm[2]]))
        [z] = run(op, x.transpose(perm), np.array([0, 2]))
        np.testing.assert_allclose(z, y.transpose(perm), rtol=1e-5)


MOVES: dict[str, tuple[Any, ...]] = {
    "reshape": (np.array([4, 6]),), "flatten": (), "squeeze": (), "unsqueeze": (np.array([1]),), "transpose": (),
    "slice": (np.array([1]), np.array([3]), np.array([2])), "split": (np.array([2]),), "identity": (),
    "gather": (np.array([1, 0]),), "gather_nd": (np.array([[1, 0]]),), "expand": (np.array([3, 1, 1, 1]),),
    "tile": (np.array([2, 1, 1]),), "reverse_sequence": (np.array([1, 2, 1]),), "pad": (np.array([0, 1, 0, 0, 0, 2]),),
    "concat": (operand(np.float32),), "gather_elements": (np.ones(SHAPE, np.int64),),
    "compress": (np.array([True, False, True]),), "reduce_max": (), "reduce_min": (),
    "strided_slice": (np.array([0, 2, 0]), np.array([2, 0, 4]), np.array([1, -1, 2])),
    "gather_batches": (np.array([1]),),
}  # fmt: skip
IMAGES = {"depth_to_space", "space_to_depth", "batch_to_space", "max_pool", "gather_slices"}
"""Those whose operands are more particular; `tests/onnx` and `tests/circle` have cases of them."""
MOVED_ATTRS: dict[str, dict[str, Any]] = {
    "gather_batches": {"axis": 1, "batch_dims": 0}, "compress": {"axis": 1}, "concat": {"axis": 0},
    "strided_slice": {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0},
}  # fmt: skip


def test_all_that_move_are_tried() -> None:
    assert {name for name, op in OPS.items() if op.moves} == set(MOVES) | IMAGES


@pytest.mark.parametrize("op", MOVES)
def test_what_moves_makes_no_new_numbers(op: str) -> None:
    x, more = operand(np.float32), MOVES[op]
    also = more[0].ravel().tolist() if op == "concat" else [0.0] if op == "pad" else []
    given = {*x.ravel().tolist(), *also}
    results = run(op, x, *more, **MOVED_ATTRS.get(op, {}))
    assert all(result.size and set(result.ravel().tolist()) <= given for result in results)
    if OPS[op].layout is Layout.ORDER:
        np.testing.assert_array_equal(results[0].ravel(), x.ravel())


def test_facts_fit_one_another() -> None:
    for name, op in OPS.items():
        assert op.step is None or (op.layout is Layout.EACH and op.quant is Quant.INTEGERS), name
        assert op.bias is None or op.weights is not None and op.bias > op.weights, name
        assert op.extras_at is None or op.one_to_one_at is not None, name
        assert op.layout is not Layout.AXIS or isinstance(op.axis, int) or op.axis in op.attrs, name
        assert op.layout is not Layout.WINDOW or op.work is not None, name


@pytest.mark.parametrize("name", MEANING)
def test_a_step_means_what_kernels_compute(name: str) -> None:
    vector = VECTOR_OPS[name]
    xs = [RNG.uniform(-3, 3, 50), *(RNG.uniform(0.5, 2, 50) for _ in range(vector.arity - 1))]
    xs[0] = np.abs(xs[0]) if name in ("sqrt", "log", "pow") else xs[0]
    np.testing.assert_allclose(MEANING[name](*xs), MEANINGS[name](*xs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("op", [name for name, op in OPS.items() if op.step and len(operands(name)) == 1])
def test_functions_of_scalars(op: str) -> None:
    [x] = operands(op)
    np.testing.assert_allclose(run(op, x[0, 0, 0].reshape(()))[0], run(op, x)[0][0, 0, 0], rtol=1e-6)
