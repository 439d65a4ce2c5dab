"""Signatures of onnxruntime's own operators, against those that it registers."""

from __future__ import annotations

from typing import Any

import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as state

from fastgraph.frontends.onnx.contrib import CONTRIB
from fastgraph.frontends.onnx.signatures import REQUIRED
from tests.onnx.contrib import MS

SCHEMAS = {s.name: s for s in state.get_all_operator_schema() if s.domain == MS}
OWN = [name for name in CONTRIB if not name.startswith("ai.onnx")]
"""Others are of the ONNX package's own domains."""


def parameter(p: Any) -> str:
    return p.name + {"Single": "", "Optional": "?", "Variadic": "*"}[str(p.option).rpartition(".")[2]]


@pytest.mark.parametrize("name", OWN)
def test_signature_is_that_of_onnxruntime(name: str) -> None:
    ours, theirs = CONTRIB[name][0], SCHEMAS[name]
    assert list(ours.inputs) == [parameter(p) for p in theirs.inputs]
    assert [o.rstrip("?") for o in ours.outputs] == [p.name for p in theirs.outputs]
    assert set(ours.attrs) == set(theirs.attributes)
    required = {key for key, (_, default) in ours.attrs.items() if default is REQUIRED}
    assert required == {key for key, value in theirs.attributes.items() if value.required}
