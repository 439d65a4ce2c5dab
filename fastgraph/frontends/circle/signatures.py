"""From an operator to canonical nodes, by its entry in `signature_table`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from ...ir import BOOL, Value
from ..core.common import axis_in
from ..core.signatures import arity, entries
from . import signature_table
from .call import Call
from .common import computed, known, matched, same_dtype, stored, vector, whole, widened

_ATTRIBUTE = re.compile(r"(\w+)(?:=([^?:]*))?(?:\?(\w+))?(?::(\w+))?")
_COMPARED = ("", "kept", "like", "wide")
"""Kinds of inputs whose element types are compared."""


Source = Callable[[Call, dict[str, Any]], Any]
"""An attribute's value, by the call and the operands that are numbers."""


class Signature(NamedTuple):
    """An entry of the table. `inputs`: (name, kind); `attributes`: (name, source, default, conversion), and how each
    is computed.
    """

    operator: str
    refused: str = ""
    inputs: tuple[tuple[str, str], ...] = ()
    results: tuple[str, ...] = ()
    rule: str = ""
    attributes: tuple[tuple[str, str | None, str | None, str | None], ...] = ()
    sources: tuple[tuple[str, Source], ...] = ()


@cache
def signature(name: str, custom: bool = False) -> Signature | None:
    """The signature of a builtin operator, or of a custom one; None where there is none."""
    if not custom:
        return _parsed(name, _table("BUILTIN"))
    return _parsed(name, _table("CUSTOM")) or _parsed(name.removeprefix("Flex"), _table("TENSORFLOW"))


@cache
def _table(name: str) -> dict[str, tuple[str, str]]:
    """Operator and text of each entry, by name."""
    told = entries(getattr(signature_table, name))
    return {key.partition("=")[0]: (key.partition("=")[2], text) for key, text in told.items()}


def _parsed(name: str, table: dict[str, tuple[str, str]]) -> Signature | None:
    operator, text = table.get(name, ("", ""))
    if not text:
        return None
    operator = operator or _canonical(name)
    if text.startswith(" refused "):
        return Signature(operator, text.removeprefix(" refused "))
    head, _, attributes = text.partition("|")
    taken, _, given = head.partition("->")
    given, _, rule = given.partition("by ")
    parts = [re.fullmatch(r"(\w+)(?::(\w+))?([?*+]?)", word).groups("") for word in taken.split()]  # type: ignore[union-attr]
    inputs, results = tuple((n + mark, kind) for n, kind, mark in parts), tuple(given.split())
    told: list[Any] = [_ATTRIBUTE.fullmatch(word).groups() for word in attributes.split()]  # type: ignore[union-attr]
    sources = tuple((how[0], _attribute(*how)) for how in told)
    return Signature(operator, "", inputs, results, rule.strip(), tuple(told), sources)


def _canonical(name: str) -> str:
    name = name.removeprefix("STABLEHLO_")
    return name.lower() if name.isupper() else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def translate(c: Call, told: Signature) -> None:
    """Write the operator's nodes."""
    if told.refused:
        c.unsupported(told.refused)
    c.count(arity([name for name, _ in told.inputs]), arity(told.results))
    c.canonical, c.results_are = told.operator, told.results
    operands = _operands(c, told)
    _compare(c, told, operands)
    numbers = {n: v for (n, kind), v in zip(told.inputs, operands, strict=False) if kind.startswith("number")}
    attributes = {name: source(c, numbers) for name, source in told.sources}
    if told.rule:
        result = _rule(told.rule)(c, *operands, **attributes)
        if result is not None:
            c.give(result)
        return
    values = [v for v in operands if v is None or isinstance(v, Value)]
    while values and values[-1] is None:
        values.pop()
    c.write(told.operator, values, **attributes)


@cache
def _rule(name: str) -> Callable[..., Value | None]:
    """A function of a file, or one of its FORMULAS: rules that are one expression each."""
    file, _, function = name.partition(".")
    rules = vars(import_module(f".rules_{file}", __package__))
    found: Callable[..., Value | None] = {**rules, **rules.get("FORMULAS", {})}[function]
    return found


# operands


def _operands(c: Call, told: Signature) -> list[Any]:
    found: list[Any] = []
    for i, (name, kind) in enumerate(told.inputs):
        if name[-1] in "*+":
            return found + c.inputs[i:]
        found.append(None if name[-1] == "?" and c.input(i) is None else _TAKE[kind](c, i))
    if told.results[:1] == ("stored",):
        return [stored(c, v) for v in found]
    return found


def _bools(c: Call, index: int) -> Value:
    value = c.x(index)
    if value.type.dtype != BOOL:
        c.fail(f"expected bools as input {index}, found {value.type}")
    return value


def _number(c: Call, index: int) -> int:
    numbers = known(c, index)
    if len(numbers) != 1:
        c.fail(f"expected one number as input {index}, found {numbers}")
    return numbers[0]


_TAKE: dict[str, Callable[[Call, int], Any]] = {
    "": Call.x, "vector": vector, "vector16": lambda c, i: vector(c, i, "int16"),
    "whole": whole, "index": lambda c, i: whole(c, i, "int16"),
    "bool": _bools, "numbers": known, "number": _number, "like": lambda c, i: matched(c, c.x(i), c.outputs[0]),
    "kept": lambda c, i: matched(c, c.x(i), c.outputs[0], both=True),
    "wide": widened,
}  # fmt: skip


def _compare(c: Call, told: Signature, operands: list[Any]) -> None:
    """ModelError where operands are not of the types that the kind of result asks for."""
    how = told.results[0] if told.results else "any"
    kinds = [kind for _, kind in told.inputs] + [""] * len(operands)
    values = [v for v, kind in zip(operands, kinds, strict=False) if kind in _COMPARED]
    if how in ("same", "moved"):
        same_dtype(c, *values)
    elif how in ("alike", "reals", "fused", "wraps", "clamped", "rounded"):
        same_dtype(c, *values, c.outputs[0])
    plain = c.activation == "NONE" and (how == "clamped" or how == "wraps" and str(c.x().type.dtype) == "int16")
    if how in ("reals", "fused", "wraps", "clamped") and not plain:
        computed(c, *values, *c.outputs)


# attributes


def _attribute(name: str, source: str | None, default: str | None, conversion: str | None) -> Source:
    value = _source(name if source is None else source, None if default is None else int(default))
    convert = None if conversion is None else CONVERSIONS[conversion]

    def attribute(c: Call, given: dict[str, Any]) -> Any:
        found = value(c, given)
        if convert is not None:
            found = convert(c, found)
        if isinstance(found, list):
            return tuple(found)
        return int(found) if isinstance(found, bool) else found

    return attribute


def _source(text: str, default: int | None) -> Source:
    if "," in text:
        parts = [_source(part, default) for part in text.split(",")]
        return lambda c, given: tuple([part(c, given) for part in parts])
    if not text or text[0] == "'":
        return lambda c, given: text.strip("'") or None
    if text[0].isdigit() or text[0] == "-":
        number = float(text) if "." in text or "e" in text else int(text)
        return lambda c, given: number
    return lambda c, given: given[text] if text in given else c.option(text, default)


def _positive(c: Call, number: int) -> int:
    if number < 1:
        c.fail(f"expected a block size of 1 or more, found {number}")
    return number


def _ascending(c: Call, numbers: tuple[float, ...]) -> tuple[float, ...]:
    if list(numbers) != sorted(numbers):
        c.fail(f"expected boundaries in ascending order, found {list(numbers)}")
    return numbers


def _one_of(what: str, names: dict[str, Any]) -> Callable[[Call, str], Any]:
    def conversion(c: Call, name: str) -> Any:
        if name not in names:
            c.fail(f"expected {what} {', '.join(names)}, found {name}")
        return names[name]

    return conversion


_REDUCTIONS = {"ADD": "add", "MUL": "mul", "MINIMUM": "min", "MAXIMUM": "max", "ALL": "and", "ANY": "or"}

CONVERSIONS: dict[str, Callable[[Call, Any], Any]] = {
    "ascending": _ascending,
    "axis": lambda c, axis: axis_in(c, axis, c.rank(c.x())),
    "batch_first": lambda c, time_major: not time_major,
    "dtype": lambda c, _: c.outputs[0].type.dtype,
    "gelu": lambda c, approximate: "tanh" if approximate else "none",
    "lower": lambda c, name: name.lower(),
    "lsh": _one_of("type", {"SPARSE": 0, "DENSE": 1}),
    "padding": _one_of("padding", {"SAME": "SAME_UPPER", "VALID": "VALID"}),
    "positive": _positive,
    "window_reduction": _one_of("as its reduce function one of", _REDUCTIONS),
}
"""Conversions of options."""
