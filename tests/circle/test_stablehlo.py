"""StableHLO's operators that TensorFlow Lite has: slices, windows, bits, against LiteRT."""

from typing import Any

import numpy as np
import pytest

from fastgraph.errors import UnsupportedError
from tests.circle.test_control import begin, end
from tests.circle.test_custom import agree, single
from tests.circle.write import Model, ours

F32 = np.float32


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(22)


def reducer(m: Model, op: str) -> int:
    """A sub-graph of two numbers; of no operator: the second one."""
    index = m.graph()
    a, b = m.input(()), m.input(())
    m.now["outputs"] = m.op(op, [a, b], [()]) if op else [b]
    begin(m)
    return index


@pytest.mark.parametrize("op", ["STABLEHLO_ADD", "STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM", "STABLEHLO_MULTIPLY"])
def test_reduce_window(op: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 7)).astype(F32)
    m = Model()
    told = {"window_dimensions": [2, 3], "window_strides": [2, 2], "base_dilations": [2, 1], "padding": [1, 1, 2, 2]}
    told |= {"window_dilations": [1, 2], "body_subgraph_index": reducer(m, op)}
    inputs = [m.input(x.shape), m.const(np.array(0.5, F32))]
    m.now["outputs"] = m.op("STABLEHLO_REDUCE_WINDOW", inputs, [(5, 4)], **told)
    agree(end(m), [x], 1e-6, 1e-6)


@pytest.mark.parametrize("op", ["STABLEHLO_ADD", "STABLEHLO_MAXIMUM", ""])
def test_scatter(op: str, rng: np.random.Generator) -> None:
    x, updates = rng.standard_normal((3, 4, 2)).astype(F32), rng.standard_normal((2, 3, 2, 2)).astype(F32)
    places = np.array([[[0, 2], [1, 0], [2, 1]], [[0, 1], [1, 0], [0, 9]]], np.int64)
    m = Model()
    told = {"update_window_dims": [2, 3], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [1, 0]}
    told |= {"index_vector_dim": 2, "update_computation_subgraph_index": reducer(m, op)}
    inputs = [m.input(x.shape), m.const(places), m.input(updates.shape)]
    m.now["outputs"] = m.op("STABLEHLO_SCATTER", inputs, [x.shape], **told)
    agree(end(m), [x, updates], 1e-6, 1e-6)


def test_gather(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 4, 2)).astype(F32)
    places = np.array([[[0, 0], [1, 0], [2, 1]], [[0, 1], [1, 1], [0, 9]]], np.int64)
    told = {"offset_dims": [2, 3], "collapsed_slice_dims": [0], "start_index_map": [1, 0], "slice_sizes": [1, 2, 2]}
    data = single("STABLEHLO_GATHER", [x], (2, 3, 2, 2), F32, [places], index_vector_dim=2, **told)
    agree(data, [x])


def test_pad_between_and_cut(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 4)).astype(F32)
    told = {"edge_padding_low": [2, -1], "edge_padding_high": [-1, 2], "interior_padding": [1, 1]}
    data = single("STABLEHLO_PAD", [x], (6, 8), F32, [np.array(7, F32)], **told)
    agree(data, [x])


def test_bits(rng: np.random.Generator) -> None:
    x, y = rng.integers(-99, 99, (9,)).astype(np.int32), rng.integers(0, 9, (9,)).astype(np.int32)
    ((both,),) = ours(single("STABLEHLO_AND", [x, y], (9,), np.int32), [[x, y]])
    np.testing.assert_array_equal(both, x & y)
    ((shifted,),) = ours(single("STABLEHLO_SHIFT_LEFT", [x, y], (9,), np.int32), [[x, y]])
    np.testing.assert_array_equal(shifted, x << y)


@pytest.mark.parametrize("algorithm", ["PHILOX", "THREEFRY", "DEFAULT"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint64])
def test_random_bits(algorithm: str, dtype: Any) -> None:
    m = Model()
    state = m.input((2,), np.uint64)
    outs = m.op("STABLEHLO_RNG_BIT_GENERATOR", [state], [((2,), np.uint64), ((3, 3), dtype)], algorithm=algorithm)
    agree(m.bytes(outs), [np.array([123456789012345, 2**32 - 2], np.uint64)])


def test_a_body_that_is_no_plain_reduction_is_refused() -> None:
    m = Model()
    told = dict.fromkeys(("window_strides", "base_dilations", "window_dilations"), [1]) | {"padding": [0, 0]}
    body, inputs = reducer(m, "STABLEHLO_SUBTRACT"), [m.input((4,)), m.const(np.array(0, F32))]
    told |= {"window_dimensions": [2], "body_subgraph_index": body}
    m.now["outputs"] = m.op("STABLEHLO_REDUCE_WINDOW", inputs, [(3,)], **told)
    with pytest.raises(UnsupportedError, match="body other than"):
        ours(end(m), [[np.zeros(4, F32)]])
