"""Shared by type inferences: element types, axes, arithmetic on partly known shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..ir import BOOL, Dim, Node, Shape, TensorType
from .registry import fail

Types = list[Any]
"""Input types of a node: a TensorType each, None where the input is absent."""


MOST_DIMS = 64
"""NumPy's limit of dimensions."""


def same_type(node: Node, types: Types) -> list[TensorType]:
    """Inference for operators whose result has the type and shape of the operand."""
    return [TensorType(types[0].dtype, types[0].shape)]


def axis_of(node: Node, axis: int, rank: int, name: str = "axis") -> int:
    """A possibly negative axis, as a number from 0; ModelError when there is no such axis."""
    if not -rank <= axis < rank:
        fail(node, f"{name} {axis} does not exist in a tensor of rank {rank}")
    return int(axis) % rank


def axes_of(node: Node, axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Possibly negative axes as distinct numbers from 0, in the given order."""
    found = tuple(axis_of(node, int(a), rank) for a in axes)
    if len(set(found)) != len(found):
        fail(node, f"axes {found} name one axis twice")
    return found


def shown(shape: Shape | None) -> str:
    """A shape as messages show it."""
    return "*" if shape is None else "[" + ", ".join("?" if d is None else str(d) for d in shape) + "]"


def join(node: Node, a: Dim, b: Dim) -> Dim:
    """One extent known two ways; ModelError when two numbers disagree."""
    if isinstance(a, int) and isinstance(b, int) and a != b:
        fail(node, f"extents disagree: {a} and {b}")
    return a if isinstance(a, int) or b is None else b if isinstance(b, int) or a is None else a if a == b else None


def broadcast(node: Node, shapes: Sequence[Shape | None]) -> Shape | None:
    """The shape that several broadcast to, as far as it is known."""
    if any(s is None for s in shapes):
        return None
    known = [s for s in shapes if s]
    if known and all(s == known[0] for s in known):
        return tuple(known[0])
    rank = max((len(s) for s in known), default=0)
    columns = zip(*((1,) * (rank - len(s)) + tuple(s) for s in known), strict=True)
    return tuple(_broadcast_dim(node, column, known) for column in columns)


def _broadcast_dim(node: Node, column: tuple[Dim, ...], shapes: Sequence[Shape]) -> Dim:
    rest = {d for d in column if d != 1}
    numbers = [d for d in rest if isinstance(d, int)]
    if len(numbers) > 1:
        fail(node, f"shapes do not broadcast: {' and '.join(map(shown, shapes))}")
    if numbers:
        return numbers[0]
    return 1 if not rest else next(iter(rest)) if len(rest) == 1 else None


def product(dims: Iterable[Dim]) -> int | None:
    """The number of elements, or None when an extent is not known."""
    count = 1
    for d in dims:
        if not isinstance(d, int):
            return None
        count *= d
    return count


def ints(array: Any) -> list[int]:
    """A parameter array of whole numbers as a list."""
    return [int(v) for v in np.asarray(array).reshape(-1)]


def whole(node: Node, index: int) -> int | None:
    """The one number that input `index` holds when it is constant; None also when it is absent."""
    array = node.const(index)
    return None if array is None else int(array.reshape(-1)[0])


def length(t: TensorType | None) -> int | None:
    """The number of entries of a 1-d parameter input, when known."""
    if t is None or t.shape is None or len(t.shape) != 1 or not isinstance(t.shape[0], int):
        return None
    return t.shape[0]


def unknown_dims(t: TensorType | None) -> Shape | None:
    """The unknown shape that a 1-d shape input describes when only its length is known."""
    n = length(t)
    if n is not None and n > MOST_DIMS:
        raise ValueError(f"a shape of {n} dimensions is asked for, and {MOST_DIMS} are the most")
    return None if n is None else (None,) * n


def lowest(dtype: np.dtype) -> Any:
    """The least number of an element type, the identity of a maximum."""
    return False if dtype == BOOL else -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def average(x: np.ndarray, axes: tuple[int, ...], keepdims: bool = True) -> np.ndarray:
    """The mean of floating point numbers over axes, summed in f64; 0 of none, as onnxruntime's."""
    total = x.sum(axis=axes, keepdims=keepdims, dtype=np.promote_types(x.dtype, np.float64))
    with np.errstate(all="ignore"):
        return np.asarray(total / max(math.prod(x.shape[a] for a in axes), 1), x.dtype)


def in_float32(function: Callable[..., Any], *arrays: Any) -> Any:
    """`function` of the arrays, worked in float32 where they are float16; result in the type of the first."""
    dtype = arrays[0].dtype
    if dtype != np.float16:
        return np.asarray(function(*arrays)).astype(dtype, copy=False)
    wide = [a.astype(np.float32) if isinstance(a, np.ndarray) and a.dtype == np.float16 else a for a in arrays]
    return np.asarray(function(*wide)).astype(dtype)
