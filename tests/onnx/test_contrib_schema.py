"""Signatures of operators beyond ai.onnx, against those that onnxruntime and the onnx package register."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as state

from fastgraph.frontends.onnx.contrib import CONTRIB
from fastgraph.frontends.onnx.signatures import REQUIRED
from tests.onnx.contrib import MS

SCHEMAS: dict[str, Any] = {s.name: s for s in state.get_all_operator_schema() if s.domain == MS}
SCHEMAS |= {f"{s.domain}.{s.name}": s for s in onnx.defs.get_all_schemas() if s.domain}


def parameter(p: Any) -> str:
    return p.name + {"Single": "", "Optional": "?", "Variadic": "*"}[str(p.option).rpartition(".")[2]]


@pytest.mark.parametrize("name", CONTRIB)
def test_signature_is_that_which_is_registered(name: str) -> None:
    ours, theirs = CONTRIB[name][0], SCHEMAS[name]
    known = [parameter(p) for p in theirs.inputs]
    assert list(ours.inputs) == known[: len(ours.inputs)]
    assert all(name.endswith("?") for name in known[len(ours.inputs) :]), (
        "a newer release adds only what may be left out"
    )
    assert [o.rstrip("?*") for o in ours.outputs] == [p.name for p in theirs.outputs]
    assert set(ours.attrs) <= set(theirs.attributes)
    required = {key for key, (_, default) in ours.attrs.items() if default is REQUIRED}
    assert required == {key for key, value in theirs.attributes.items() if value.required}
