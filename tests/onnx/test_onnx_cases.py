"""ONNX's own operator cases and definitions, and the real files beside the repository."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.backend.test.loader import load_model_tests

from fastgraph.errors import UnsupportedError
from fastgraph.frontends.onnx import read
from fastgraph.frontends.onnx.signatures import REQUIRED, signature
from fastgraph.ir import check

MODELS = Path(__file__).parents[3] / "shared" / "models"
FILES = sorted([*MODELS.glob("onnx/**/*.onnx"), *MODELS.glob("basic_pitch/*.onnx")])
OUTSIDE = ("ai.onnx.ml.", "ai.onnx.ImageDecoder")
"""What may be refused: ensembles of trees and the like, and the one operator that needs image codecs."""


def newest() -> dict[str, onnx.defs.OpSchema]:
    found: dict[str, onnx.defs.OpSchema] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in ("", "ai.onnx.ml"):
            name = f"{schema.domain}.{schema.name}".lstrip(".")
            if name not in found or found[name].since_version < schema.since_version:
                found[name] = schema
    return found


SCHEMAS = newest()


@pytest.mark.parametrize("name", [n for n, s in SCHEMAS.items() if n not in ("Scatter", "Upsample")])
def test_signature_is_that_of_the_onnx_package(name):
    """Scatter and Upsample are gone from ONNX; they are read as ScatterElements and Resize."""
    ours, theirs = signature(name), SCHEMAS[name]
    kinds = onnx.defs.OpSchema.FormalParameterOption
    marks = {kinds.Single: "", kinds.Optional: "?", kinds.Variadic: "*"}
    assert ours is not None
    assert ours.inputs == tuple(p.name + marks[p.option] for p in theirs.inputs)
    assert ours.outputs == tuple(p.name + marks[p.option] for p in theirs.outputs)
    assert ours.attrs.keys() == theirs.attributes.keys()
    for attr, (kind, default) in ours.attrs.items():
        spec = theirs.attributes[attr]
        assert (default is REQUIRED) == spec.required
        known = {"dtype": "INT", "str": "STRING", "strs": "STRINGS", "type": "TYPE_PROTO"}
        if kind == "tensor":
            assert spec.type.name in ("TENSOR", "SPARSE_TENSOR")
        else:
            assert spec.type.name == known.get(kind, kind.upper())
        if spec.default_value.name and (name, attr) != ("RNN", "activations"):
            value = helper.get_attribute_value(spec.default_value)
            value = value.decode() if isinstance(value, bytes) else tuple(value) if isinstance(value, list) else value
            assert default == value if not isinstance(value, float) else math.isclose(default, value, rel_tol=1e-7)


def test_every_case_of_every_operator_is_read_or_refused_for_its_domain():
    refused: Counter[str] = Counter()
    count = 0
    with np.errstate(all="ignore"):
        cases = load_model_tests(kind="node")
    for case in cases:
        try:
            check(read(case.model.SerializeToString(), case.name))
            count += 1
        except UnsupportedError as error:
            refused[str(error).partition("not supported: ")[2].partition(";")[0]] += 1
    print("\n".join(f"{n:4} {what}" for what, n in refused.most_common()))
    assert count > 1800
    assert not [what for what in refused if not what.startswith(OUTSIDE)]


@pytest.mark.skipif(not FILES, reason="no shared/models beside the repository")
def test_real_files():
    for path in FILES:
        graph = read(path)
        check(graph)
        assert len(graph.nodes) > 3 and graph.inputs and graph.outputs
        assert f"graph {graph.name}" in str(graph)
