"""Operators on strings (object arrays of str). Semantics: ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...ir import BOOL, INT64, STRING, Node, TensorType
from ...locks import undisturbed
from ...ops import check
from ...ops.inference import Types, broadcast
from ...ops.registry import attr, define, fail
from ...ops.work import in_python
from ...room import need

TEXT = 64
"""Bytes of a string, without its characters, and of its place in an array."""

REFERENCE = 8


def _strings(node: Node, items: list[Any], shape: Any) -> np.ndarray:
    out = np.empty(len(items), object)
    out[:] = items
    return out.reshape(shape)


@check.takes("x O, y O")
def _infer_concat(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(STRING, broadcast(node, [t.shape for t in types]))]


def _concat(node: Node, inputs: list[Any]) -> list[Any]:
    first, second = (np.asarray(v, object) for v in inputs)
    long = sum(max((len(str(s)) for s in v.flat), default=0) for v in (first, second))
    a, b = np.broadcast_arrays(first, second)
    need(a.size * (TEXT + long))
    return [_strings(node, [str(x) + str(y) for x, y in zip(a.flat, b.flat, strict=True)], a.shape)]


@check.takes("x O")
def _infer_split(node: Node, types: Types) -> list[TensorType]:
    if attr(node, "maxsplit") is not None:
        check.at_least(node, "maxsplit", attr(node, "maxsplit"), 0)
    shape = types[0].shape
    return [TensorType(STRING, None if shape is None else (*shape, None)), TensorType(INT64, shape)]


def _split(node: Node, inputs: list[Any]) -> list[Any]:
    """[parts, filled up with "", along a new last axis; number of parts]."""
    x = np.asarray(inputs[0], object)
    most = attr(node, "maxsplit")
    parts = [str(s).split(attr(node, "delimiter") or None, -1 if most is None else most) for s in x.flat]
    width = max(map(len, parts), default=0)
    need(2 * REFERENCE * width * len(parts))
    items = [item for p in parts for item in p + [""] * (width - len(p))]
    counts = np.array([len(p) for p in parts], np.int64).reshape(x.shape)
    return [_strings(node, items, (*x.shape, width)), counts]


@check.takes("x O")
def _infer_match(node: Node, types: Types) -> list[TensorType]:
    _pattern(node)
    return [TensorType(BOOL, types[0].shape)]


def _pattern(node: Node) -> Any:
    """The compiled pattern. RE2 takes time linear in the text, whatever the pattern."""
    with undisturbed():
        try:
            import re2
        except ImportError:
            raise UnsupportedError(
                f"{node.op}: google-re2, which matches, is not installed: pip install 'fastgraph-runtime[text]'"
            ) from None
    options = re2.Options()
    options.log_errors = False
    pattern = attr(node, "pattern") or ""
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        fail(node, f"pattern {pattern[:200]!r} is not a regular expression of RE2's: {error}")


def _match(node: Node, inputs: list[Any]) -> list[Any]:
    x, pattern = np.asarray(inputs[0], object), _pattern(node)
    return [np.array([pattern.fullmatch(str(s)) is not None for s in x.flat], bool).reshape(x.shape)]


@check.takes("x O 1-2")
def _infer_normalize(node: Node, types: Types) -> list[TensorType]:
    check.one_of(node, "case_change_action", attr(node, "case_change_action"), ("NONE", "LOWER", "UPPER"))
    shape = types[0].shape
    if shape is not None and len(shape) == 2 and shape[0] not in (1, None) and isinstance(shape[0], int):
        fail(node, f"input must have shape [C] or [1, C], found {list(shape)}")
    keeps = not attr(node, "stopwords")
    return [TensorType(STRING, shape if shape is None or keeps else (*shape[:-1], None))]


def _normalize(node: Node, inputs: list[Any]) -> list[Any]:
    """Strings without the stop words, in upper or lower case; one "" when none is left."""
    x = np.asarray(inputs[0], object)
    exact = attr(node, "is_case_sensitive")
    stop = {w if exact else w.lower() for w in attr(node, "stopwords") or ()}
    kept = [str(s) for s in x.flat if (str(s) if exact else str(s).lower()) not in stop]
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(attr(node, "case_change_action"), str)
    items = [change(s) for s in kept] or [""]
    return [_strings(node, items, (*x.shape[:-1], len(items)))]


def _matching(node: Node) -> tuple[int, int]:
    """Each character with each instruction of the pattern's program."""
    text = node.const(0)
    characters = 0 if text is None else sum(len(str(s)) + 1 for s in text.flat)
    return 100 * characters * _pattern(node).programsize, 0


define("string_concat", _infer_concat, _concat)
define("string_split", _infer_split, _split, attrs={"delimiter": None, "maxsplit": None})
define("regex_full_match", _infer_match, _match, attrs={"pattern": None}, work=_matching)
define(
    "string_normalizer",
    _infer_normalize,
    _normalize,
    attrs={"case_change_action": "NONE", "is_case_sensitive": 0, "locale": None, "stopwords": None},
    work=in_python,
)
