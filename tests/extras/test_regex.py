"""Regular expressions: as onnxruntime's RegexFullMatch, which is RE2, and in time linear in the text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import fastgraph as fg
from fastgraph.extras.text.regex import automaton

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
    assert {text: automaton(pattern).matches(text) for text in TEXTS} == wanted


@pytest.mark.parametrize("pattern", WRONG)
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(Exception):  # noqa: B017
        by_onnxruntime(pattern, [""])
    with pytest.raises(fg.ModelError, match="RegexFullMatch_0: regex_full_match: pattern .* is not a regular"):
        fg.load(network(pattern, 1))


def test_patterns_may_not_lie_too_deep() -> None:
    with pytest.raises(fg.ModelError, match="deep in one another"):
        fg.load(network("(" * 5000 + ")" * 5000, 1))


def test_scripts_are_refused_by_name() -> None:
    with pytest.raises(fg.UnsupportedError, match=r"\\p\{Greek\}"):
        fg.load(network(r"\p{Greek}", 1))


ATOMS = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", "\\b", "\\B", "\\w", "^", ""])
SOUND = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.builds("(?:{}){}".format, inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?"])),
    ),
    max_leaves=6,
)


@given(SOUND, st.lists(st.text("abc -", max_size=7), max_size=8))
def test_as_pythons_where_both_mean_the_same(pattern: str, texts: list[str]) -> None:
    assert [automaton(pattern).matches(t) for t in texts] == [re.fullmatch(pattern, t) is not None for t in texts]


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*", "(a*)*b", "(?:a?){500}a{500}", "(.*)*x", "(([a-z])+.)+[A-Z]"])
def test_no_pattern_goes_back(pattern: str) -> None:
    found = automaton(pattern)
    assert not found.matches("a" * 400 + "-")
    # Each step of the automaton looks at each of its states once at most: there is nothing else that could take long.
    assert found.states < 3000
