"""Rules, and what they take: a row of `signature_table`, or the arguments of a function.

    @rule("scaled_tanh")
    def scaled_tanh(c: Call, x: Value, alpha: float, beta: float) -> Value:
        return alpha * c.tanh(beta * x)

An argument is the parameter of that name. Its annotation is the kind (`KINDS`, `CHOICES`), and with a default it may be
absent. A rule returns the value of the output, or those of several; None where it wrote nodes that make `c.outputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from ...ir import Value
from ..core.common import axis_in
from ..core.registry import RuleFiles, register
from . import signature_table
from .call import REQUIRED, Call
from .common import alike, per_channel, reals

Rule = Callable[[Call], "Value | list[Value] | None"]

RULES: dict[str, Rule] = {}
"""Rules by operator."""

FILES = RuleFiles(__package__)


class Parameter(NamedTuple):
    """`attribute`: what the graph's operator calls it, of the attributes of a row."""

    name: str
    kind: str = "Value"
    default: Any = REQUIRED
    attribute: str = ""


class Signature(NamedTuple):
    """What an operator takes. Of a row: `op`, the graph's operator, and its attributes that are always the same."""

    operands: tuple[Parameter, ...]
    op: str = ""
    attributes: tuple[Parameter, ...] = ()
    constants: dict[str, Any] = {}


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the rule of operators, for all operator sets."""

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            signatures().setdefault(name, Signature(_arguments(function)))
            register(RULES, [name])(partial(_applied, function, signatures()[name]))
        return function

    return note


def find(op: str) -> Rule | None:
    """The rule of an operator; None without one."""
    said = signatures().get(op)
    if said is not None and said.op and op not in RULES:
        RULES[op] = partial(_applied, partial(_written, said), said)
    return FILES.find(RULES, op)


def _applied(function: Callable[..., Any], said: Signature, c: Call) -> Any:
    found, count = taken(c, (*said.operands, *said.attributes)), len(said.operands)
    attributes = {p.attribute: value for p, value in zip(said.attributes, found[count:], strict=True)}
    return function(c, *found[:count], **attributes, **said.constants)


def _written(said: Signature, c: Call, *operands: Any, **attributes: Any) -> Value:
    made = c(said.op, *(c.vector(*v) if isinstance(v, tuple) else v for v in operands), **attributes)
    return c.to_first(made) if said.operands[0].kind in ("Last", "Image") else made


# -- parameters


def taken(c: Call, parameters: Sequence[Parameter]) -> list[Any]:
    """What the program says of parameters. ModelError that names the one that is missing or of another kind."""
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


def _ranked(c: Call, key: str) -> Value:
    if c.rank(c.x(key)) != 4:
        c.fail(f"expected its parameter {key!r} to have rank 4, found {c.x(key).type}")
    return c.x(key)


def _dense(c: Call, key: str) -> Value:
    value = c.x(key)
    return c.const(reals(c, value)) if value.type.quant is not None and value.data is not None else value


Array = np.ndarray
Ints = tuple[int, ...]
Axis = int
Alike = Value
Int64 = Value
Float32 = Value
Like = Value
Channel = Value
Dense = Value
Rank4 = Value
Byte = str
Gelu = str
Odds = str
PadMode = str
Resize = str
Sampling = str
Scales = str
Scatter = str

KINDS: dict[str, Callable[[Call, str, list[Any]], Any]] = {
    "Value": lambda c, key, _: c.x(key),
    "list[Value]": lambda c, key, _: c.values(key),
    "Int64": lambda c, key, _: c.int64(c.x(key)),
    "Float32": lambda c, key, _: c.cast(c.x(key), np.float32),
    "Alike": lambda c, key, _: c.x(key),  # all of this kind in one element type
    "Like": lambda c, key, found: c.cast(c.x(key), found[0].type.dtype),  # in that of the first parameter
    "Channel": lambda c, key, found: per_channel(c, key, found[0]),  # a number for each channel of the first parameter
    "Dense": lambda c, key, _: _dense(c, key),  # not quantized where it is constant
    "Rank4": lambda c, key, _: _ranked(c, key),
    "Last": lambda c, key, _: c.to_last(c.x(key)),  # channels last, as is the result until it is done
    "Image": lambda c, key, _: c.to_last(_ranked(c, key)),
    "Array": lambda c, key, _: reals(c, c.x(key), key),  # a constant, as the numbers that it stands for
    "Any": lambda c, key, _: c.known(key),
    "Ints": lambda c, key, _: c.ints(key),
    "Axis": lambda c, key, _: _whole(c, key),  # of the first parameter, from 0 on
    "int": lambda c, key, _: _whole(c, key),
    "float": lambda c, key, _: float(_number(c, key)),
    "bool": lambda c, key, _: bool(_number(c, key)),
    "flag": lambda c, key, _: int(bool(_number(c, key))),
    "str": lambda c, key, _: c.text(key),
}
"""How a parameter is taken: call, name, the parameters before it."""


def _arguments(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    code, given = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[1 : code.co_argcount]
    kinds = [function.__annotations__[name].removesuffix(" | None") for name in names]
    return tuple(map(Parameter, names, kinds, (REQUIRED,) * (len(names) - len(given)) + given))


def _rows(table: str) -> dict[str, str]:
    """What a table says of each name."""
    lines = [line.split(":", 1) for line in table.replace("\n  ", " ").strip().splitlines()]
    return {name: text for names, text in lines for name in names.split()}


CHOICES: dict[str, dict[str, str]] = {
    kind: dict((text.split("=") * 2)[:2] for text in texts.split())
    for kind, texts in _rows(signature_table.CHOICES).items()
}
"""Texts of a kind, and what the graph calls them."""


@cache
def signatures() -> dict[str, Signature]:
    """What operators take: the table's, and that of functions of the files that were imported."""
    return {name: _signature(name, text) for name, text in _rows(signature_table.TABLE).items()}


def _signature(name: str, text: str) -> Signature:
    head, _, tail = text.partition("|")
    operands, arrow, op = head.partition("->")
    attributes = tail.split()
    constants = {a.partition("=")[0]: _literal(a.partition("=")[2]) for a in attributes if ":" not in a}
    parameters = tuple(_parameter(a) for a in attributes if ":" in a)
    return Signature(tuple(map(_parameter, operands.split())), op.strip() or arrow and name, parameters, constants)


def _parameter(text: str) -> Parameter:
    text, given, default = text.partition("=")
    name, _, kind = text.partition(":")
    attribute, _, parameter = name.partition("<")
    absent = None if kind[-1:] == "?" else REQUIRED
    return Parameter(parameter or name, kind.rstrip("?") or "Value", _literal(default) if given else absent, attribute)


def _literal(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
