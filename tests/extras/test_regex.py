"""Regular expressions: as onnxruntime's RegexFullMatch, which is RE2, and in time linear in the text."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import fastgraph as fg

TEXTS, PATTERNS, WRONG = json.loads(Path(__file__).with_name("regex.json").read_text()).values()


def network(pattern: str, count: int) -> bytes:
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)
    x = helper.make_tensor_value_info("x", TensorProto.STRING, [count])
    y = helper.make_tensor_value_info("y", TensorProto.BOOL, [count])
    graph = helper.make_graph([node], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()


def by_onnxruntime(pattern: str, texts: list[str]) -> list[bool]:
    session: Any = onnxruntime.InferenceSession(network(pattern, len(texts)), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.array(texts, object)})[0].tolist()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_as_onnxruntime(pattern: str) -> None:
    wanted = dict(zip(TEXTS, by_onnxruntime(pattern, TEXTS), strict=True))
    found = fg.load(network(pattern, len(TEXTS)))(np.array(TEXTS, object))
    assert dict(zip(TEXTS, found.tolist(), strict=True)) == wanted


@pytest.mark.parametrize("pattern", WRONG)
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(Exception):  # noqa: B017
        by_onnxruntime(pattern, [""])
    with pytest.raises(fg.ModelError, match="RegexFullMatch_0: regex_full_match: pattern .* is not a regular"):
        fg.load(network(pattern, 1))


def test_scripts() -> None:
    assert fg.load(network(r"\p{Greek}", 2))(np.array(["\u03c3", "s"], object)).tolist() == [True, False]


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*", "(a*)*b", "(?:a?){500}a{500}", "(.*)*x", "(([a-z])+.)+[A-Z]"])
def test_no_pattern_goes_back(pattern: str) -> None:
    assert not fg.load(network(pattern, 1))(np.array(["a" * 400 + "-"], object))[0]


def test_without_re2_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(fg.UnsupportedError, match=r"fastgraph-runtime\[text\]"):
        fg.load(network("a", 1))
