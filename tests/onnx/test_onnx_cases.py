"""Signatures against those that are registered, and the real files beside the repository."""

import math
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper
from onnxruntime.capi import onnxruntime_pybind11_state as state

from fastgraph.frontends.onnx import read
from fastgraph.frontends.onnx.contrib import CONTRIB, DOMAIN
from fastgraph.frontends.onnx.signatures import signature
from fastgraph.ir import check
from fastgraph.ops.registry import REQUIRED

MODELS = Path(__file__).parents[3] / "shared" / "models"
FILES = sorted([*MODELS.glob("onnx/**/*.onnx"), *MODELS.glob("basic_pitch/*.onnx")])
OTHERS = ("Scatter", "Upsample")
"""ONNX has them no more; they are read as ScatterElements and Resize."""


def newest(domains: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=lambda s: s.since_version):
        if schema.domain in domains and schema.name not in OTHERS:
            found[f"{schema.domain}.{schema.name}".lstrip(".")] = schema
    return found


KNOWN = newest({""})
SCHEMAS = newest({s.domain for s in onnx.defs.get_all_schemas()})
SCHEMAS |= {f"{DOMAIN}.{s.name}": s for s in state.get_all_operator_schema() if s.domain == DOMAIN}
CONTRIBUTED = {name if "." in name else f"{DOMAIN}.{name}": name for name in CONTRIB}


def names(parameters: Any) -> list[str]:
    marks = {"Single": "", "Optional": "?", "Variadic": "*"}
    return [p.name + marks[str(p.option).rpartition(".")[2]] for p in parameters]


@pytest.mark.parametrize("name", {**KNOWN, **CONTRIBUTED})
def test_signature_is_that_which_is_registered(name: str) -> None:
    """Of onnxruntime's own, a newer release adds only what may be left out."""
    ours, theirs = CONTRIB[CONTRIBUTED[name]][0] if name in CONTRIBUTED else signature(name), SCHEMAS[name]
    assert ours is not None
    inputs, outputs = names(theirs.inputs), names(theirs.outputs)
    assert list(ours.inputs) == inputs[: len(ours.inputs)]
    assert [o.rstrip("?") for o in ours.outputs] == [o.rstrip("?") for o in outputs]
    if name in KNOWN:
        assert (list(ours.inputs), list(ours.outputs)) == (inputs, outputs)
        assert ours.attrs.keys() == theirs.attributes.keys()
    assert all(added.endswith("?") for added in inputs[len(ours.inputs) :])
    required = {attr for attr, (_, default) in ours.attrs.items() if default is REQUIRED}
    assert required == {attr for attr, spec in theirs.attributes.items() if spec.required}
    for attr, (kind, default) in ours.attrs.items():
        check_attribute(kind, default, theirs.attributes[attr], told=(name, attr) != ("RNN", "activations"))


def check_attribute(kind: str, default: Any, spec: Any, told: bool) -> None:
    """`told`: whether the default is what the schema says."""
    known = {"dtype": "INT", "str": "STRING", "strs": "STRINGS", "type": "TYPE_PROTO"}
    found = str(spec.type).rpartition(".")[2]
    assert found in ("TENSOR", "SPARSE_TENSOR") if kind == "tensor" else found == known.get(kind, kind.upper())
    value = getattr(spec, "default_value", None) or onnx.AttributeProto.FromString(spec._default_value)
    if value.name and told:
        value = helper.get_attribute_value(value)
        value = value.decode() if isinstance(value, bytes) else tuple(value) if isinstance(value, list) else value
        assert default == value if not isinstance(value, float) else math.isclose(default, value, rel_tol=1e-7)


@pytest.mark.skipif(not FILES, reason="no shared/models beside the repository")
def test_real_files():
    for path in FILES:
        graph = read(path)
        check(graph)
        assert len(graph.nodes) > 3 and graph.inputs and graph.outputs
        assert f"graph {graph.name}" in str(graph)
