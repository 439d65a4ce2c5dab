"""What operators demand of their operands and attributes: each function returns, or raises the operator's ModelError.

A value that is absent, and what is not known of one yet, passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..ir import Dim, Node, Shape, TensorType
from .inference import WHOLE, Types, shown
from .registry import fail

KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex", "O": "string"}
"""NumPy's letters for kinds of element types, as messages show them."""


def kind(node: Node, t: TensorType | None, kinds: str, what: str = "input") -> None:
    """ModelError unless the element type is unknown or of one of these kinds (`KINDS`' letters)."""
    if t is not None and t.dtype is not None and t.dtype.kind not in kinds:
        fail(node, f"{what} must be {' or '.join(KINDS[k] for k in kinds)}, found {t.dtype}")


def of_kind(kinds: str, infer: Callable[[Node, Types], list[TensorType]]) -> Callable[[Node, Types], list[TensorType]]:
    """The inference `infer` of an operator all of whose inputs have an element type of these kinds."""

    def checked(node: Node, types: Types) -> list[TensorType]:
        for index, t in enumerate(types):
            kind(node, t, kinds, f"input {index}" if len(types) > 1 else "input")
        return infer(node, types)

    return checked


def rank(node: Node, t: TensorType, least: int, most: int | None = None, what: str = "input") -> None:
    """ModelError unless the rank is unknown or within the limits (`most` None: no upper one)."""
    if t.shape is None:
        return
    rank = len(t.shape)
    if rank < least or (most is not None and rank > most):
        wanted = f"{least}" if most == least else f"at least {least}" if most is None else f"{least} to {most}"
        fail(node, f"{what} must have rank {wanted}, found shape {shown(t.shape)}")


def tensor(node: Node, t: TensorType | None, what: str, kinds: str, axes: int | tuple[int, int | None]) -> None:
    """ModelError unless a value is absent, or of an element type of these kinds and of this rank, or these ranks."""
    if t is not None:
        least, most = (axes, axes) if isinstance(axes, int) else axes
        kind(node, t, kinds, what)
        rank(node, t, least, most, what)


def vector(node: Node, t: TensorType | None, what: str, kinds: str = WHOLE) -> None:
    """ModelError unless a value is absent, or has one axis."""
    tensor(node, t, what, kinds, 1)


def one(node: Node, t: TensorType | None, what: str, kinds: str = WHOLE) -> None:
    """ModelError unless a value is absent or holds one element, of an element type of these kinds."""
    if t is None:
        return
    kind(node, t, kinds, what)
    rank(node, t, 0, 1, what)
    if t.shape is not None and any(isinstance(d, int) and d != 1 for d in t.shape):
        fail(node, f"{what} must be one element, found shape {shown(t.shape)}")


def whole(node: Node, index: int, what: str) -> int | None:
    """The number that input `index` holds when it is constant, else None; ModelError unless it is one."""
    value, array = node.inputs[index] if index < len(node.inputs) else None, node.const(index)
    one(node, None if value is None else value.type, what)
    return None if array is None else int(array.reshape(-1)[0])


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
    """ModelError unless all numbers are places of an axis, counted from its start or its end."""
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
