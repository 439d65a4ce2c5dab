"""Checks of operands and attributes: each function returns, or raises the operator's ModelError.

Absent values pass, and so does whatever is not known of one yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, wraps
from typing import Any, NamedTuple

import numpy as np

from ..ir import Dim, Node, Shape, TensorType
from .inference import Types, shown
from .registry import Infer, fail

KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex", "O": "string"}
"""NumPy's letters for kinds of element types, as messages show them."""

_OPERAND = re.compile(r"(\w+)([?*+]?)(?: ([biufcO]+))?(?: (?:(one)|(\d+)(\+|-\d+)?))?")


class Operand(NamedTuple):
    """The name, element types and ranks that one input may have, or (`times`: * or +) all inputs from there on."""

    name: str
    times: str
    kinds: str
    least: int
    most: int | None
    single: bool
    wanted: str

    def need(self, node: Node, t: TensorType | None, index: int | None = None) -> None:
        """ModelError unless the type is of the kinds and the rank, as far as it is known. `index`: of the input."""
        if t is None or ((not self.kinds or t.dtype is None or t.dtype.kind in self.kinds) and self._fits(t.shape)):
            return
        name = self.name if index is None else f"{self.name} (input {index})"
        fail(node, f"{name} must be {self.wanted}, found {t}")

    def _fits(self, shape: Shape | None) -> bool:
        if shape is None:
            return True
        if self.single and any(isinstance(d, int) and d != 1 for d in shape):
            return False
        return self.least <= len(shape) and (self.most is None or len(shape) <= self.most)


@cache
def operands(text: str) -> tuple[Operand, ...]:
    """The operands that a text like "x f 3+, axes? iu 0-1, count? iu one" lists.

    Each is a name, then ? when the input may be absent, * or + when it stands for all from there on (+: one at least);
    the kinds of its element type (`KINDS`); its rank (3, 3+, 0-1), or `one` for a single element. No kinds, or no rank,
    are any.
    """
    return tuple(_operand(part) for part in text.split(", "))


def _operand(text: str) -> Operand:
    found = _OPERAND.fullmatch(text)
    assert found, f"no operand: {text!r}"
    name, times, kinds, one, least, more = found.groups(default="")
    wanted = [" or ".join(KINDS[k] for k in kinds)] if kinds else []
    if one:
        return Operand(name, times, kinds, 0, 1, True, " of ".join([*wanted, "one element"]))
    if not least:
        return Operand(name, times, kinds, 0, None, False, *wanted or [""])
    rank = f"of rank {least}" + (" or more" if more == "+" else more.replace("-", " to "))
    most = None if more == "+" else int(more[1:] or least)
    return Operand(name, times, kinds, int(least), most, False, " ".join([*wanted, rank]))


def takes(text: str) -> Callable[[Infer], Infer]:
    """A decorator of inferences: ModelError unless the operands are those that `operands(text)` lists.

    `define` takes the number of inputs from it, unless told.
    """
    listed = operands(text)
    least = sum(o.times in ("", "+") for o in listed)
    most = None if listed[-1].times in ("*", "+") else len(listed)

    def taking(infer: Infer) -> Infer:
        @wraps(infer)
        def checked(node: Node, types: Types) -> list[TensorType]:
            for index, t in enumerate(types):
                listed[min(index, len(listed) - 1)].need(node, t, index)
            return infer(node, types)

        checked.inputs = least, most  # type: ignore[attr-defined]
        return checked

    return taking


def operand(node: Node, t: TensorType | None, text: str) -> None:
    """ModelError unless a value is the operand that the text describes, in the form of `operands`."""
    (wanted,) = operands(text)
    wanted.need(node, t)


def shape(node: Node, t: TensorType | None, what: str, *wanted: Dim) -> None:
    """ModelError unless a value is absent or has the wanted extents, as far as they are known."""
    if t is None or t.shape is None:
        return
    agree = len(t.shape) == len(wanted) and all(
        a == b or not isinstance(a, int) or not isinstance(b, int) for a, b in zip(t.shape, wanted, strict=True)
    )
    if not agree:
        fail(node, f"{what} must have shape {shown(wanted)}, found {shown(t.shape)}")


def broadcasts(node: Node, t: TensorType | None, what: str, onto: Shape | None) -> None:
    """ModelError unless a value is absent or broadcasts to the shape `onto`, as far as both are known."""
    if t is None or t.shape is None or onto is None:
        return
    pairs = zip(reversed(t.shape), reversed(onto), strict=False)
    fine = all(a == 1 or a == b or not isinstance(a, int) or not isinstance(b, int) for a, b in pairs)
    if len(t.shape) > len(onto) or not fine:
        fail(node, f"{what} {shown(t.shape)} does not broadcast to {shown(onto)}")


def one_dtype(node: Node, types: Iterable[TensorType | None]) -> np.dtype | None:
    """The element type that all inputs have; ModelError when they differ."""
    found: list[np.dtype] = []
    for t in types:
        if t is not None and t.dtype is not None and t.dtype not in found:
            found.append(t.dtype)
    if len(found) > 1:
        fail(node, f"inputs must have one element type, found {', '.join(map(str, found))}")
    return found[0] if found else None


def one_of(node: Node, name: str, value: Any, choices: Iterable[Any]) -> None:
    """ModelError unless an attribute's value is one of the choices."""
    if value not in (allowed := tuple(choices)):
        fail(node, f"{name} must be one of {', '.join(map(str, allowed))}, found {value!r}")


def at_least(node: Node, name: str, value: Any, least: float) -> None:
    """ModelError unless a number is `least` or more (NaN is not)."""
    if not value >= least:
        fail(node, f"{name} must be {least} or more, found {value}")


def indices(node: Node, extent: Dim, array: np.ndarray | None) -> None:
    """ModelError unless all indices lie within an axis of this extent; negative ones count from its end."""
    if array is None or array.size == 0 or not isinstance(extent, int):
        return
    if array.min() < -extent or array.max() >= extent:
        wrong = array.min() if array.min() < -extent else array.max()
        fail(node, f"index {wrong} is outside extent {extent}: indices must be from {-extent} to {extent - 1}")


def inside(node: Node, what: str, array: np.ndarray | None, low: int, high: Dim) -> None:
    """ModelError unless all numbers are from `low` up to, but not, `high`; either may not be known yet."""
    if array is not None and array.size and isinstance(high, int) and not (array.min() >= low and array.max() < high):
        wrong = array.min() if array.min() < low else array.max()
        fail(node, f"{what} must be from {low} to {high - 1}, found {wrong}")
