"""Rules, and what they take: a row of `signature_table`, or its like before a function.

    @rule("scaled_tanh: x alpha:float beta:float")
    def scaled_tanh(c: Call, x: Value, alpha: float, beta: float) -> Value:
        return alpha * c.tanh(beta * x)

A rule returns the value of the output, or those of several; None where there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...families import register
from ...ir import Value
from ...ops.registry import REQUIRED
from ..core.common import axis_in
from ..core.signatures import RuleFiles, entries
from . import signature_table
from .call import Call
from .common import alike, axes_in, per_channel, reals
from .types import BIGGEST

Rule = Callable[[Call], "Value | list[Value] | None"]
Formulas = dict[str, Callable[..., Any]]

RULES: dict[str, Rule] = {}
"""Rules by operator."""

FILES = RuleFiles(__package__)


class Parameter(NamedTuple):
    """`attribute`: what the graph's operator calls it."""

    name: str
    kind: str
    default: Any
    attribute: str


class Signature(NamedTuple):
    """The operands of an operator; for a row of the table also the graph's operator and its attributes."""

    operands: tuple[Parameter, ...]
    op: str
    attributes: tuple[Parameter, ...]
    constants: dict[str, Any]


def rule(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the rule of the operators that a signature names, for all operator sets.

    It is called with the operands, and the attributes by name.
    """

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        for name, said in parsed(text):
            signatures()[name] = said
            register(RULES, name)(partial(_applied, function, said))
        return function

    return note


def formulas(table: Formulas) -> None:
    """Register rules that are one expression each, by their signatures."""
    for text, formula in table.items():
        rule(text)(formula)


def find(op: str) -> Rule | None:
    """The rule of an operator; None without one."""
    said = signatures().get(op)
    if said is not None and op not in RULES:
        RULES[op] = partial(_applied, partial(_written, said), said)
    return FILES.find(RULES, op)


@cache
def signatures() -> dict[str, Signature]:
    """The signatures of operators: those of the table, and of rules in files that were imported."""
    return dict(parsed(signature_table.TABLE))


def _applied(function: Callable[..., Any], said: Signature, c: Call) -> Any:
    found, count = taken(c, (*said.operands, *said.attributes)), len(said.operands)
    attributes = {p.attribute: value for p, value in zip(said.attributes, found[count:], strict=True)}
    return function(c, *found[:count], **attributes, **said.constants)


def _written(said: Signature, c: Call, *operands: Any, **attributes: Any) -> Value:
    numbers = [p.kind in ("Axis", "Ints") for p in said.operands]
    given = (c.vector(*np.atleast_1d(v)) if n else v for n, v in zip(numbers, operands, strict=True))
    made = c(said.op, *given, **attributes)
    return c.to_first(made) if said.operands[0].kind in ("Last", "Image") else made


# -- parameters


def taken(c: Call, parameters: Sequence[Parameter]) -> list[Any]:
    """The values of parameters. ModelError that names one that is missing or of another kind."""
    found: list[Any] = []
    for name, kind, default, _ in parameters:
        if default is REQUIRED and not c.inputs.get(name):
            c.x(name)
        if kind in CHOICES:
            item: Any = CHOICES[kind][c.text(name, *CHOICES[kind], default=default)]
        else:
            item = KINDS[kind](c, name, found) if c.inputs.get(name) else default
        found.append(axis_in(c, item, c.rank(found[0])) if kind == "Axis" else item)
    places = [i for i, parameter in enumerate(parameters) if parameter.kind == "Alike"]
    for place, value in zip(places, alike(c, *(found[place] for place in places)), strict=True):
        found[place] = value
    return found


def _number(c: Call, key: str) -> Any:
    found = np.asarray(c.known(key))
    if found.size != 1 or found.dtype.kind not in "fiub":
        c.fail(f"expected its parameter {key!r} to be a number, found {c.known(key)!r}")
    return found.item()


def _whole(c: Call, key: str) -> int:
    found = _number(c, key)
    if isinstance(found, float) and not found.is_integer():
        c.fail(f"expected its parameter {key!r} to be a whole number, found {found}")
    return int(found)


def _extents(c: Call, key: str) -> tuple[int, ...]:
    found: tuple[int, ...] = c.ints(key)
    if not found or prod(found) > BIGGEST:
        c.fail(f"expected the extents of a tensor as {key!r}, found {list(found)}")
    return found


def _ranked(c: Call, key: str) -> Value:
    if c.rank(c.x(key)) != 4:
        c.fail(f"expected its parameter {key!r} to have rank 4, found {c.x(key).type}")
    return c.x(key)


def _dense(c: Call, key: str) -> Value:
    value = c.x(key)
    return c.const(reals(c, value)) if value.type.quant is not None and value.data is not None else value


def _updates(c: Call, key: str) -> Value:
    """The updates of a scatter, negated where it subtracts them."""
    subtracted = c.text("mode", *CHOICES["Scatter"], default="add") == "sub"
    return -_dense(c, key) if subtracted else _dense(c, key)


def _indices(c: Call, key: str, x: Value) -> Value:
    """Indices of x, checked at run time where that is asked for.

    Negative ones count from the end, as they do up to iOS16; from iOS17 on they mean nothing, and are refused with
    `validate_indices`. Others out of range are errors at run time, asked for or not.
    """
    value = c.x(key)
    if value.type.dtype is None or value.type.dtype.kind not in "iu":
        c.fail(f"expected whole numbers as {key!r}, found {value.type}")
    value = value if value.type.dtype in (np.int32, np.int64) else c.int64(value)
    if not c.known("validate_indices", False):
        return value
    if c.op.endswith("_nd"):
        return c("checked_indices", value, x, axis=None, batch_dims=c.known("batch_dims", 0))
    axis = axis_in(c, c.known("axis", 0), c.rank(x))
    return c("checked_indices", value, x, axis=axis, batch_dims=0)


KINDS: dict[str, Callable[[Call, str, list[Any]], Any]] = {
    "Value": lambda c, key, _: c.x(key),
    "Values": lambda c, key, _: c.values(key),
    "Int64": lambda c, key, _: c.int64(c.x(key)),
    "Float32": lambda c, key, _: c.cast(c.x(key), np.float32),
    "Alike": lambda c, key, _: c.x(key),  # all of this kind in one element type
    "Like": lambda c, key, found: c.cast(c.x(key), found[0].type.dtype),  # in that of the first parameter
    "Channel": lambda c, key, found: per_channel(c, key, found[0]),  # a number for each channel of the first parameter
    "Dense": lambda c, key, _: _dense(c, key),  # not quantized where it is constant
    "Indices": lambda c, key, found: _indices(c, key, found[0]),
    "Updates": lambda c, key, _: _updates(c, key),
    "Rank4": lambda c, key, _: _ranked(c, key),
    "Last": lambda c, key, _: c.to_last(c.x(key)),  # channels last, as is the result until it is done
    "Image": lambda c, key, _: c.to_last(_ranked(c, key)),
    "Array": lambda c, key, _: reals(c, c.x(key), key),  # a constant, as the numbers that it stands for
    "Any": lambda c, key, _: c.known(key),
    "Perm": lambda c, key, _: axes_in(c, c.ints(key), len(c.ints(key))),
    "Ints": lambda c, key, _: c.ints(key),
    "Extents": lambda c, key, _: _extents(c, key),
    "Axis": lambda c, key, _: _whole(c, key),  # of the first parameter, from 0 on
    "int": lambda c, key, _: _whole(c, key),
    "float": lambda c, key, _: float(_number(c, key)),
    "flag": lambda c, key, _: int(bool(_number(c, key))),
    "Seed": lambda c, key, _: None if _whole(c, key) < 0 else _whole(c, key),
    "str": lambda c, key, _: c.text(key),
}
"""How a parameter is taken: call, name, the parameters before it."""


# -- text


CHOICES: dict[str, dict[str, str]] = {
    kind: dict((text.split("=") * 2)[:2] for text in texts.split())
    for kind, texts in entries(signature_table.CHOICES).items()
}
"""Texts of a kind, and what the graph calls them."""


def parsed(table: str) -> Iterator[tuple[str, Signature]]:
    for name, text in entries(table).items():
        head, _, tail = text.partition("|")
        operands, _, op = head.partition("->")
        attributes = tail.split()
        constants = {key: _literal(item) for key, _, item in (a.partition("=") for a in attributes if ":" not in a)}
        parameters = tuple(_parameter(a) for a in attributes if ":" in a)
        yield name, Signature(tuple(map(_parameter, operands.split())), op.strip() or name, parameters, constants)


def _parameter(text: str) -> Parameter:
    text, given, default = text.partition("=")
    absent = None if text.endswith("?") else REQUIRED
    name, _, kind = text.rstrip("?*").partition(":")
    attribute, _, parameter = name.partition("<")
    kind = kind or ("Values" if text.endswith("*") else "Value")
    return Parameter(parameter or name, kind, _literal(default) if given else absent, attribute)


def _literal(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
