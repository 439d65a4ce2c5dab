"""Regular expressions: as onnxruntime's RegexFullMatch, which is RE2, and in time linear in the text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import fastgraph as fg
from fastgraph.extras.text.regex import automaton

TEXTS = [
    "", "a", "b", "ab", "aab", "abc", "aaaa", "abab", "A", "AB", "Ab", "k", "K", "K", "s", "S", "ſ", "ß", "ẞ", "ı",
    "I", "i", "İ", "é", "É", "Σ", "σ", "ς", "0", "9", "٣", "12", "a1", "_", "-", "]", "^", "a-b", "a b", " ", "\t",
    "\n", "\v", "a\n", "\na", "a\nb", "\u00a0", "日", "日本", "😀", ".", "x.y", "user@example.com", "foo bar", "(a)",
    "a{2}", "{", "\\", "a{,2}", "Z", "z", "0x1F", "ǅ", "ǆ", "µ", "Μ", "\x00", "\x7f", "\u200b", "½", "₂",
]  # fmt: skip
PATTERNS = [
    "", "a", "ab|a", "a*", "(a+)+", "(a+)+$", "(a|ab)(c|bcd)*", "a?b", "a{2}", "a{2,}", "a{0,2}b", "a{0}", "a{,2}",
    "{", "a{", "(ab){2}", "a*?b", "a+?", "a??b", "a{1,3}?", ".", ".*", "(?s).*", "(?s:.)", "(?i)ab", "(?i:a)b",
    "(?i)k", "(?i)s", "(?i)ß", "(?i)i", "(?i)σ", "(?i)[a-z]", "(?i)[^a-z]", "(?i)é", "(?i)\\w", "(?i)[[:lower:]]",
    "(?i)\\p{Lu}", "(?i)\\P{Lu}", "(?i)ǅ", "(?i)µ", "a(?i)b", "(a(?i)b)b|B", "(?-i)a", "(?U)a+", "(?m)^a$\\n^b$",
    "(?m)a$\\n", "^a$", "a$\\n", "\\Aa\\z", "^*a", "\\ba\\b", "a\\b.b", "a\\Bb", "\\B", "\\b", "$^", "[abc]+",
    "[^abc]", "[a-c]*", "[]a]", "[^]a]", "[a-]", "[-a]", "[\\d]", "[\\w-]+", "[^\\d\\s]", "[[:alpha:]]+",
    "[[:^alpha:]]", "[^[:digit:]]", "[[:space:]]", "[[:word:]_-]*", "[[:punct:]]", "[[:blank:]]", "[[:cntrl:]]",
    "[[:xdigit:]]+", "\\d+", "\\D", "\\s", "\\S+", "\\w+", "\\W", "\\pL", "\\p{L}+", "\\PL", "\\p{^L}", "\\P{^L}",
    "\\p{Lu}", "\\pN", "\\p{Nd}", "\\p{No}", "[\\pL\\d]+", "[^\\pL]", "\\p{Zs}", "\\p{Any}", "\\x41", "\\x{65e5}",
    "\\x{1F600}", "\\101", "\\0", "\\012", "\\n", "\\t", "\\v", "\\.", "x\\.y", "\\Qa{2}\\E", "\\Q(a)", "\\Qa\\E+",
    "\\\\", "\\-", "_", "(?P<n>a)b", "(?<n>a)", "(?:a|b)+", "()", "(|a)+", "(a*)*", "(a*)+b", "((a?)?)*", "日.?",
    "[日-本]+", "[^\n]", "(\\W|^)[\\w.\\-]{0,25}@(example)\\.com(\\W|$)", "a||b", "|", "(a|)(b|)", "x*y*z*",
    "(?i)(a(?-i)b)B?", "[a\\]]", "[\\x41-\\x43]", "[[:upper:][:digit:]]", "a{1000}", "(?i)[K]", "[\\n]", "(?:(?:a))",
    "[.]", "[a-c-]",
]  # fmt: skip
WRONG = [
    "(", ")", "a)", "(a", "[", "[a", "[b-a]", "*", "+a", "a**", "a+*", "a{2}{3}", "a{1001}", "a{2,1}", "\\", "\\1",
    "\\8", "(a)\\1", "\\Z", "\\y", "\\é", "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "a*+", "(?P=n)", "(?z)",
    "(?P<a", "[[:foo:]]", "\\x{110000}", "\\xg1", "\\x4", "((a{1000}){1000}){1000}", "(?",
    "((((){1000}){1000}){1000}){1000}",
]  # fmt: skip


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
