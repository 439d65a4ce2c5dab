"""Results whose extents depend on data, of files as TensorFlow Lite's converter writes them: native, and LiteRT's."""

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.tools.numpy_operators import on_host
from tests.circle.write import Model, litert

F32, I32, I64 = np.float32, np.int32, np.int64


def test_the_best_of_what_is_above_a_level() -> None:
    """As boolean_mask and top_k: the k is 3, or as many as there are."""
    pytest.importorskip("ai_edge_litert")
    m = Model()
    x, level = m.input((6, 3)), m.input(())
    (mask,) = m.op("GREATER", [x, level], [((6, 3), bool)])
    (at,) = m.op("WHERE", [mask], [((1, 2), I64)])
    (values,) = m.op("GATHER_ND", [x, at], [((1,), F32)])
    (shape,) = m.op("SHAPE", [values], [((1,), I32)], out_type="INT32")
    ends = (m.const(np.array([n], I32)) for n in (0, 1, 1))
    (count,) = m.op("STRIDED_SLICE", [shape, *ends], [((), I32)], shrink_axis_mask=1)
    (k,) = m.op("MINIMUM", [count, m.const(np.array(3, I32))], [((), I32)])
    best, places = m.op("TOPK_V2", [values, k], [((1,), F32), ((1,), I32)])
    (rows,) = m.op("GATHER", [at, places], [((1, 2), I64)], axis=0)
    m.now["outputs"] = [at, values, best, places, rows]
    data = m.bytes()
    model, rng = fg.load(data, threads=1), np.random.default_rng(0)
    assert not on_host(model.plan.compiled)
    for height, found in ((-9, 3), (0, 3), (2.4, 1)):
        fed = [np.clip(rng.standard_normal((6, 3)), -2, 2).astype(F32), np.array(height, F32)]
        fed[0][2, 1] = 2.5
        got = list(model.run(dict(zip([spec.name for spec in model.inputs], fed, strict=True))).values())
        assert got[2].shape == (found,)
        for ours, theirs in zip(got, litert(data, [fed])[0], strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)


def test_what_there_is_once() -> None:
    pytest.importorskip("ai_edge_litert")
    m = Model()
    x = m.input((9,), I32)
    values, inverse = m.op("UNIQUE", [x], [((1,), I32), ((9,), I32)], idx_out_type="INT32")
    (back,) = m.op("GATHER", [values, inverse], [((9,), I32)], axis=0)
    m.now["outputs"] = [values, inverse, back]
    data = m.bytes()
    model = fg.load(data, threads=1)
    for numbers in ([3] * 9, range(9), [5, -1, 5, 2, 2, -1, 7, 5, 0]):
        fed = np.array(numbers, I32)
        for ours, theirs in zip(model.run({model.inputs[0].name: fed}).values(), litert(data, [[fed]])[0], strict=True):
            np.testing.assert_array_equal(ours, theirs)
