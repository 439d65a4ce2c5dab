"""The onnx package's node cases as callers run them: `load` and `run`, with the arrays of the case as they are."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime import InferenceSession

import fastgraph as fg
from tests.ops.test_node_cases import BY_RUNTIME, tolerance

RIGHT = 1884
"""How many cases give what they should: all that onnx 1.23 has."""


def cases() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        yield from load_model_tests(kind="node")


def array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def unlike(got: Any, want: Any, rtol: float, atol: float, drawn: bool) -> str:
    """What differs: the kind of value, type, shape or numbers; nothing of the numbers that are `drawn` at random."""
    if want is None or isinstance(want, list | tuple):
        if want is None or not isinstance(got, list) or len(got) != len(want):
            return "" if got is want else f"found {got}, expected {want}"
        return "".join(unlike(g, w, rtol, atol, drawn) for g, w in zip(got, want, strict=True))
    want = np.asarray(want, object) if want.dtype.kind in "US" else want
    if (type(got), got.dtype, got.shape) != (np.ndarray, want.dtype, want.shape):
        return f"found {type(got).__name__} {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
    if drawn:
        return ""
    if want.dtype == object:
        return "" if got.tolist() == want.tolist() else f"found {got}, expected {want}"
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    close = np.allclose(got.astype(wide), want.astype(wide), rtol, atol, equal_nan=True)
    return "" if close else f"found {got}, expected {want}"


def wrong(case: Any, isa: str | None) -> str:
    """What is wrong with the results of a case, or how it failed."""
    data = case.model.SerializeToString()
    names = [v.name for v in case.model.graph.input]
    said = ""
    try:
        model = fg.load(data, threads=1, isa=isa)
        for inputs, outputs in case.data_sets:
            feeds = dict(zip(names, map(array, inputs), strict=True))
            wanted = InferenceSession(data).run(None, feeds) if case.name in BY_RUNTIME else map(array, outputs)
            got = list(model.run(feeds).values())
            for g, w in zip(got, wanted, strict=True):
                said += unlike(g, w, max(tolerance(case), 1e-3), max(case.atol, 1e-5), "bernoulli" in case.name)
    except fg.FastgraphError as error:
        said += f"{type(error).__name__}: {error}"
    return said


@pytest.mark.parametrize("isa", [None, "numpy"])
@pytest.mark.slow
def test_all_cases_run(isa: str | None) -> None:
    """In their own types; bfloat16 and float16 within the rounding that references do at every node."""
    pytest.importorskip("ml_dtypes")
    pytest.importorskip("PIL", reason="ImageDecoder needs Pillow")
    said = {case.name: wrong(case, isa) for case in cases()}
    failed = {name: what for name, what in said.items() if what}
    assert not failed, "\n".join(f"{name}: {what}" for name, what in failed.items())
    assert sum(not what for what in said.values()) >= RIGHT
