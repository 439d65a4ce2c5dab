"""The onnx package's own node cases: through the frontend and the references, one test per operator; and as callers run
them, by `load` and `run` with the arrays of the case as they are.
"""

from __future__ import annotations

import functools
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime import InferenceSession

import fastgraph as fg
from fastgraph.frontends.onnx import read
from fastgraph.ir import Graph, TensorType
from fastgraph.ops.evaluate import evaluate, infer_graph

BY_RUNTIME = {"test_resize_downsample_scales_linear_align_corners", "test_resize_downsample_scales_cubic_align_corners"}
"""Cases that onnxruntime answers otherwise, and so do we: corners are aligned by sizes, as PyTorch's exporter means it,
and not by scales that leave a part of a place."""


RIGHT = 1884
"""How many cases there are at least: all that onnx 1.23 has."""
COARSE = {"bfloat16": 2**-6, "float16": 2**-8}
"""rtol where a file's type is rounded to at every node and references work in a wider one."""


@functools.cache
def cases() -> dict[str, list[Any]]:
    """The cases by the operator that they are about (the first node that is not a constant)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        found = defaultdict(list)
        for case in load_model_tests(kind="node"):
            nodes = [n for n in case.model.graph.node if n.op_type != "Constant"] or list(case.model.graph.node)
            name = "expanded " + case.name.split("_")[1] if "_expanded" in case.name else nodes[0].op_type
            found[name].append(case)
    return dict(found)


def plain(value: Any) -> Any:
    """A case's value as callers have it."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def array(value: Any) -> Any:
    """A case's value with widened element types: what graphs hold."""
    value = plain(value)
    if isinstance(value, list | tuple):
        return [array(v) for v in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind in "US":
        return value.astype(object)
    if value.dtype.name in ("int4", "int2"):
        return value.astype(np.int8)
    if value.dtype.name in ("uint4", "uint2"):
        return value.astype(np.uint8)
    small = value.dtype.name.startswith(("bfloat", "float4_", "float6_", "float8_"))
    return value.astype(np.float32) if small else value


def fed(value: Any, declared: TensorType) -> Any:
    """A case's input in the type that its model declares; some cases hold another one."""
    if isinstance(value, np.ndarray) and declared.dtype is not None:
        return value.astype(declared.dtype)
    return value


def agree(got: Any, want: Any, rtol: float, atol: float, values: bool = True) -> None:
    """The same kind of value, type and shape; and numbers, unless these are drawn at random."""
    if isinstance(want, list | tuple):
        assert isinstance(got, list) and len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            agree(g, w, rtol, atol, values)
    elif want is None:
        assert got is None
    else:
        want = want.astype(object) if want.dtype.kind in "US" else want
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want.dtype == object:
            assert got.tolist() == want.tolist()
        elif values:
            wide = np.complex128 if want.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol, atol)


def types_agree(graph: Graph, results: list[Any]) -> None:
    """Inference says nothing that the results contradict."""
    infer_graph(graph)
    for value, result in zip(graph.outputs, results, strict=True):
        if isinstance(result, np.ndarray) and value.type.dtype is not None:
            assert value.type.dtype == result.dtype
            if value.type.shape is not None:
                assert len(value.type.shape) == result.ndim
                pairs = zip(value.type.shape, result.shape, strict=True)
                assert all(d == n for d, n in pairs if isinstance(d, int)), (value.type, result.shape)


def tolerance(case: Any) -> float:
    kinds = {onnx.TensorProto.BFLOAT16: "bfloat16", onnx.TensorProto.FLOAT16: "float16"}
    used = {kinds.get(v.type.tensor_type.elem_type) for v in (*case.model.graph.input, *case.model.graph.output)}
    return max([case.rtol, *(COARSE[name] for name in used if name is not None)])


def wanted(case: Any, inputs: Any, outputs: Any) -> Any:
    """The results of a case; onnxruntime's where it is right."""
    if case.name not in BY_RUNTIME:
        return map(plain, outputs)
    feeds = dict(zip((v.name for v in case.model.graph.input), inputs, strict=True))
    return InferenceSession(case.model.SerializeToString()).run(None, feeds)


def by_references(case: Any) -> None:
    graph = read(case.model.SerializeToString(), case.name)
    for inputs, outputs in case.data_sets:
        feeds = {v.name: fed(array(x), v.type) for v, x in zip(graph.inputs, inputs, strict=True)}
        results = evaluate(graph, feeds)
        for got, want in zip(results, wanted(case, inputs, outputs), strict=True):
            # Bernoulli's values are drawn at random: only types and shapes can agree. Fourier transforms are f32 sums.
            atol = max(case.atol, 1e-5) if "dft" in case.name else case.atol
            agree(got, array(want), tolerance(case), atol, values="bernoulli" not in case.name)
        types_agree(graph, results)
        for value, feed in zip(graph.inputs, feeds.values(), strict=True):
            if isinstance(feed, np.ndarray):
                value.type = TensorType.of(feed)
        types_agree(graph, results)


def as_callers_do(case: Any, isa: str | None) -> None:
    model = fg.load(case.model.SerializeToString(), threads=1, isa=isa)
    names = [v.name for v in case.model.graph.input]
    for inputs, outputs in case.data_sets:
        results = model.run(dict(zip(names, map(plain, inputs), strict=True))).values()
        for got, want in zip(results, wanted(case, inputs, outputs), strict=True):
            assert not isinstance(want, np.ndarray) or type(got) is np.ndarray
            agree(got, want, max(tolerance(case), 1e-3), max(case.atol, 1e-5), values="bernoulli" not in case.name)


def check(group: list[Any], run: Callable[..., None], *how: Any) -> None:
    """Every failing case is told, with its cause."""
    failed = []
    for case in group:
        try:
            run(case, *how)
        except Exception as error:
            failed.append(f"{case.name}: {type(error).__name__}: {error}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("name", sorted(cases()))
def test_node_cases(name: str) -> None:
    check(cases()[name], by_references)


@pytest.mark.parametrize("isa", [None, "numpy"])
@pytest.mark.slow
def test_all_cases_run(isa: str | None) -> None:
    """In their own types; bfloat16 and float16 within the rounding that references do at every node."""
    pytest.importorskip("ml_dtypes")
    pytest.importorskip("PIL", reason="ImageDecoder needs Pillow")
    every = [case for group in cases().values() for case in group]
    assert len(every) >= RIGHT
    check(every, as_callers_do, isa)
