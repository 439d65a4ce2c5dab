"""NNAPI 1.0's own test cases, through the TensorFlow Lite operators that they correspond to."""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np
import pytest

from fastgraph.frontends.circle import read
from fastgraph.ir import Graph, Node, Quantization, TensorType, Value
from fastgraph.ops.evaluate import evaluate
from tests.circle.circle_models import SHARED
from tests.circle.nnapi import DTYPES, Case, array_of

FILE = SHARED / "nnapi" / "nnapi_v1_0.jsonl.gz"
ROWS: list[dict[str, Any]] = []
if FILE.exists():
    with gzip.open(FILE, "rt") as lines:
        ROWS = [json.loads(line) for line in lines]
pytestmark = pytest.mark.skipif(not ROWS, reason="no shared/models/nnapi beside the repository")


PADDED = ("avg_pool_float_2#0.0", "avg_pool_float_4#0.0", "avg_pool_quant8_2#0.0")
"""Pools with paddings in numbers, which TensorFlow Lite has no way to say."""


def _padded_pool(row: dict[str, Any]) -> Graph:
    """An average pool written as a canonical node, and its activation."""
    (operation,) = row["operations"]
    x, out = (row["operands"][i] for i in (operation["inputs"][0], operation["outputs"][0]))
    left, right, top, bottom, stride_w, stride_h, width, height, act = (
        row["operands"][i]["value"][0] for i in operation["inputs"][1:]
    )
    quant = Quantization((x["scale"],), (x["zero_point"],)) if x["scale"] else None
    fed, pooled, result = (Value(n, TensorType(np.dtype(DTYPES[x["type"]]), None, quant)) for n in ("x", "pooled", "y"))
    fed.type = fed.type.with_shape(tuple(x["dims"]))
    attrs = {"kernel_shape": (height, width), "strides": (stride_h, stride_w), "pads": (top, left, bottom, right)}
    bounds = [Value.constant(f"b{b}", np.float32(b)) for b in {0: (-np.inf, np.inf), 3: (0, 6)}[act]]
    nodes = [Node("average_pool", [fed], [pooled], attrs), Node("clip", [pooled, *bounds], [result])]
    assert (x["scale"], x["zero_point"]) == (out["scale"], out["zero_point"])
    return Graph("pool", [fed], [result], nodes)


def _values(row: dict[str, Any], kind: str, index: int) -> np.ndarray:
    return array_of(row["operands"][index], row[kind][str(index)])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"].removeprefix("V1_0/"))
def test_a_case_gives_its_outputs(row: dict[str, Any]) -> None:
    if row["name"].removeprefix("V1_0/") in PADDED:
        (found,) = evaluate(_padded_pool(row), {"x": _values(row, "inputs", 0)})
        _compare(found, _values(row, "outputs", row["operations"][0]["outputs"][0]))
        return
    case = Case(row)
    graph = read(case.bytes, row["name"])
    fed = {v.name: _values(row, "inputs", i) for v, i in zip(graph.inputs, case.fed, strict=True)}
    for state, (i, _) in zip(graph.states, case.states, strict=True):
        fed[state.input.name] = case.later(i, _values(row, "inputs", i))
    graph.unfold_states()
    results = evaluate(graph, fed)
    wanted = [*case.given, *(after for _, after in case.states)]
    for index, found in zip(wanted, results, strict=True):
        if row["operands"][index]["role"] == "output":
            _compare(case.earlier(index, found), _values(row, "outputs", index))


def _compare(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    if wanted.dtype == np.float32:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    else:
        assert np.abs(found.astype(int) - wanted.astype(int)).max() <= (0 if wanted.dtype == np.int32 else 1)
