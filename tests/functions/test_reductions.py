"""Reductions and normalizations of numbers that are huge, tiny, infinite or NaN: what their formula gives in exact
arithmetic; where docs/numerics.md says that sums or squares overflow on the way, what that leads to.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.ops.evaluate import infer_graph
from fastgraph.runtime.model import Model
from tests.functions.numbers import flushed
from tests.functions.test_functions import each_tier

EPSILON = 1e-5
TYPES = ("float16", "float32")


def rows(dtype: str) -> np.ndarray:
    most = float(np.finfo(dtype).max)
    mid, inf = 1.5 * most**0.5, np.inf
    x = [[most / 2] * 4, [most, -most, most, -most], [most] * 4, [most, 0, 0, 0], [most / 2, most / 4, 0, 1]]
    x += [[mid, mid, -mid, mid], [mid, 1, 2, 3], [-most] * 4, [1 / mid] * 4, [1e-3 / mid, 2e-3 / mid, 0, 0]]
    x += [[inf, 1, 2, 3], [-inf, 1, 2, 3], [-inf] * 4, [inf, inf, 1, 1], [inf, -inf, 1, 2], [-inf, -inf, 1, 2]]
    x += [[np.nan, 1, 2, 3], [1, 2, 3, 4], [0] * 4, [100, 0, -100, 50], [1000, 999, 1000, -1000]]
    x += [[-1000, -999, -1000, -5000], [1000, 1001, 1000, 1000]]
    return np.array(x).astype(dtype)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _log_sum_exp(x: np.ndarray) -> np.ndarray:
    top = np.where(np.isfinite(x.max(1, keepdims=True)), x.max(1, keepdims=True), 0)
    return np.log(np.exp(x - top).sum(1, keepdims=True)) + top


def _over(x: np.ndarray, norm: np.ndarray) -> np.ndarray:
    return np.where(norm == 0, 0, x / norm)


def _standard(x: np.ndarray, epsilon: float) -> np.ndarray:
    centered = x - x.mean(1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(1, keepdims=True) + epsilon)


def _deviation(x: np.ndarray) -> np.ndarray:
    centered = x - x.mean(1, keepdims=True)
    return centered / (np.sqrt((centered**2).mean(1, keepdims=True)) + 1e-9)


SHIFTED: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {
    "softmax": ({"axis": 1}, _softmax),
    "log_softmax": (
        {"axis": 1},
        lambda x: (x - x.max(1, keepdims=True)) - np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)),
    ),
    "reduce_log_sum_exp": ({}, _log_sum_exp),
    "reduce_max": ({}, lambda x: x.max(1, keepdims=True)),
    "reduce_min": ({}, lambda x: x.min(1, keepdims=True)),
}
SUMMED: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {
    "reduce_sum": ({}, lambda x: x.sum(1, keepdims=True)),
    "reduce_mean": ({}, lambda x: x.mean(1, keepdims=True)),
    "reduce_prod": ({}, lambda x: x.prod(1, keepdims=True)),
    "reduce_l1": ({}, lambda x: np.abs(x).sum(1, keepdims=True)),
    "reduce_log_sum": ({}, lambda x: np.log(x.sum(1, keepdims=True))),
    "cum_sum": ({}, lambda x: x.cumsum(1)),
    "lp_normalization": ({"p": 1, "axis": 1}, lambda x: _over(x, np.abs(x).sum(1, keepdims=True))),
}
SQUARED: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {
    "reduce_l2": ({}, lambda x: np.sqrt((x * x).sum(1, keepdims=True))),
    "reduce_sum_square": ({}, lambda x: (x * x).sum(1, keepdims=True)),
    "lp_normalization": ({"p": 2, "axis": 1}, lambda x: _over(x, np.sqrt((x * x).sum(1, keepdims=True)))),
    "mean_variance_normalization": ({"axes": (1,)}, _deviation),
    "layer_normalization": ({"axis": 1, "epsilon": EPSILON}, lambda x: _standard(x, EPSILON)),
    "rms_normalization": (
        {"axis": 1, "epsilon": EPSILON},
        lambda x: x / np.sqrt((x * x).mean(1, keepdims=True) + EPSILON),
    ),
}
TABLES = {"shifted": SHIFTED, "summed": SUMMED, "squared": SQUARED}
CASES = [(name, kind, *case) for kind, table in TABLES.items() for name, case in table.items()]


def compute(x: np.ndarray, tier: Any) -> list[np.ndarray]:
    value, nodes = Value("x", TensorType.of(x)), []
    for k, (name, _, attrs, _) in enumerate(CASES):
        scale = {"layer_normalization": [np.ones(4, x.dtype), np.zeros(4, x.dtype)], "cum_sum": [np.array(1)]}
        scale["rms_normalization"] = [np.ones(4, x.dtype)]
        extra = [np.array([1])] if name.startswith("reduce") else scale.get(name, [])
        inputs = [value, *(Value.constant(f"c{k}{i}", array) for i, array in enumerate(extra))]
        outs = [Value(f"y{k}")] + [Value(f"y{k}{i}") for i in range(2 * (name == "layer_normalization"))]
        nodes.append(Node(name, list(inputs), outs, dict(attrs), f"n{k}"))
    graph = Graph("reductions", [value], [node.out for node in nodes], nodes)
    infer_graph(graph)
    return list(Model(graph, tier, 1).run({"x": x}).values())


def excused(name: str, kind: str, x: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Where what overflows on the way leaves nothing, infinity or 0; or squares are denormal on the way."""
    info, wide = np.finfo(np.float32), np.abs(x.astype(np.float64))
    parts = (wide * wide if kind == "squared" else wide).max(1, keepdims=True)
    running = np.where(name == "reduce_prod", wide.prod(1, keepdims=True), 0)
    huge = np.isfinite(wide).all(1, keepdims=True) & (4 * np.maximum(parts, running) > float(info.max))
    tiny = (kind == "squared") & (parts < float(info.tiny)) & (np.abs(found) <= 1)
    return (huge & (~np.isfinite(found) | (found == 0))) | tiny


@each_tier
@pytest.mark.parametrize("dtype", TYPES)
def test_rows(dtype: str, tier: Any) -> None:
    x, wrong = rows(dtype), {}
    single = float(np.finfo(dtype).eps)
    for (name, kind, _, formula), found in zip(CASES, compute(x, tier), strict=True):
        with np.errstate(all="ignore"):
            near = []
            for given in (x, flushed(x)):
                true = np.asarray(formula(given.astype(np.float64))).astype(dtype).astype(np.float64)
                y = found.astype(np.float64)
                gap = np.abs(y - true)
                limit = 8 * single * np.abs(true)
                if "norm" in name or name in ("reduce_log_sum_exp", "reduce_log_sum", "log_softmax"):
                    limit = 8 * single * np.maximum(np.abs(true), 1)
                if name in ("reduce_sum", "reduce_mean", "cum_sum"):
                    limit = 8 * single * np.abs(given.astype(np.float64)).max(1, keepdims=True)
                near.append((gap <= limit) | (y == true) | (np.isnan(y) & np.isnan(true)) | (gap < 2.0**-118))
            right = near[0] | near[1] | ((kind != "shifted") & excused(name, kind, x, found))
        if not right.all():
            bad = np.flatnonzero(~right.all(axis=1))
            wrong[name] = [(x[i], found[i], formula(x[i : i + 1].astype(np.float64))) for i in bad]
    assert not wrong, wrong
