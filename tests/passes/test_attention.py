"""ONNX's own cases of attention and of what turns its inputs, planned: kernels compute all that is f32."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.test.case.node import collect_testcases

import fastgraph as fg
from tests.onnx.contrib import hosts

OPS = {"Attention", "RotaryEmbedding", "RMSNormalization"}
F32 = onnx.TensorProto.FLOAT
HALVES = {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
SHOWS_INFINITIES = "qk_matmul_bias"
"""In the names of cases whose masked scores are a result: the references compute those."""


def cases() -> dict[str, Any]:
    found = {c.name: c for c in collect_testcases(None) if c.model is not None and "_expanded" not in c.name}
    one = {name: c for name, c in found.items() if {n.op_type for n in c.model.graph.node} <= OPS}
    return {
        name: c for name, c in one.items() if not HALVES & {v.type.tensor_type.elem_type for v in c.model.graph.input}
    }


CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_cases_are_computed_by_kernels(name: str) -> None:
    case = CASES[name]
    model = fg.load(case.model.SerializeToString(), threads=1)
    for inputs, outputs in case.data_sets:
        feeds = {v.name: np.asarray(x) for v, x in zip(case.model.graph.input, inputs, strict=True)}
        for have, want in zip(model.run(feeds).values(), outputs, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-3, atol=2e-5)
    assert not hosts(model) or SHOWS_INFINITIES in name
