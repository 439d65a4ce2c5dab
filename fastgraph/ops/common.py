"""What operators share: complaints, axes, and arithmetic on partly known shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from ..errors import ModelError
from ..ir import Dim, Node, Shape, TensorType

Types = list[Any]
"""Input types of a node: a TensorType each, None where the input is absent."""

INT64 = np.dtype(np.int64)
INT32 = np.dtype(np.int32)
BOOL = np.dtype(np.bool_)
FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)
STRING = np.dtype(object)


def fail(node: Node, what: str) -> NoReturn:
    """Raise the ModelError of an operator; whoever runs inference adds the node's name and the file."""
    raise ModelError(f"{node.op}: {what}")


def same_type(node: Node, types: Types) -> list[TensorType]:
    """Inference of what keeps type and shape."""
    return [TensorType(types[0].dtype, types[0].shape)]


KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex", "O": "string"}
"""NumPy's letters for kinds of element types, as messages show them."""

FLOAT, WHOLE, NUMBER, ARITHMETIC = "f", "iu", "iuf", "iufc"


def need_kind(node: Node, t: TensorType | None, kinds: str, what: str = "input") -> None:
    """ModelError unless the element type is unknown or of one of these kinds (`KINDS`' letters)."""
    if t is not None and t.dtype is not None and t.dtype.kind not in kinds:
        fail(node, f"{what} must be {' or '.join(KINDS[k] for k in kinds)}, found {t.dtype}")


def of_kind(kinds: str, infer: Callable[[Node, Types], list[TensorType]]) -> Callable[[Node, Types], list[TensorType]]:
    """The inference `infer` of an operator all of whose inputs have an element type of these kinds."""

    def checked(node: Node, types: Types) -> list[TensorType]:
        for index, t in enumerate(types):
            if t is not None and t.dtype is not None and t.dtype.kind not in kinds:
                need_kind(node, t, kinds, f"input {index}" if len(types) > 1 else "input")
        return infer(node, types)

    return checked


def fits(node: Node, t: TensorType | None, what: str, *wanted: Dim) -> None:
    """ModelError unless a value is absent or has the wanted extents, as far as they are known."""
    if t is None or t.shape is None:
        return
    agree = len(t.shape) == len(wanted) and all(
        a == b or not isinstance(a, int) or not isinstance(b, int) for a, b in zip(t.shape, wanted, strict=True)
    )
    if not agree:
        fail(node, f"{what} must have shape {shown(wanted)}, found {shown(t.shape)}")


def spreads(node: Node, t: TensorType | None, what: str, onto: Shape | None) -> None:
    """ModelError unless a value is absent or broadcasts to the shape `onto`, as far as both are known."""
    if t is None or t.shape is None or onto is None:
        return
    pairs = zip(reversed(t.shape), reversed(onto), strict=False)
    fine = all(a == 1 or a == b or not isinstance(a, int) or not isinstance(b, int) for a, b in pairs)
    if len(t.shape) > len(onto) or not fine:
        fail(node, f"{what} {shown(t.shape)} does not broadcast to {shown(onto)}")


def need_vector(node: Node, t: TensorType | None, what: str, kinds: str = WHOLE) -> None:
    """ModelError unless a value is absent or a 1-d tensor of an element type of these kinds."""
    if t is not None:
        need_kind(node, t, kinds, what)
        need_rank(node, t, 1, 1, what)


def need_one(node: Node, t: TensorType | None, what: str, kinds: str = WHOLE) -> None:
    """ModelError unless a value is absent or holds one element, of an element type of these kinds."""
    if t is None:
        return
    need_kind(node, t, kinds, what)
    need_rank(node, t, 0, 1, what)
    if t.shape is not None and any(isinstance(d, int) and d != 1 for d in t.shape):
        fail(node, f"{what} must be one element, found shape {shown(t.shape)}")


def whole(node: Node, index: int, what: str) -> int | None:
    """The number that input `index` holds when it is constant, else None; ModelError unless it is one."""
    value, array = node.inputs[index] if index < len(node.inputs) else None, node.const(index)
    need_one(node, None if value is None else value.type, what)
    return None if array is None else int(array.reshape(-1)[0])


def one_of(node: Node, name: str, value: Any, choices: Iterable[Any]) -> None:
    """ModelError unless an attribute's value is one of the choices."""
    if value not in (allowed := tuple(choices)):
        fail(node, f"{name} must be one of {', '.join(map(str, allowed))}, found {value!r}")


def at_least(node: Node, name: str, value: Any, least: float) -> None:
    """ModelError unless a number is `least` or more (NaN is not)."""
    if not value >= least:
        fail(node, f"{name} must be {least} or more, found {value}")


def inside(node: Node, what: str, array: np.ndarray | None, low: int, high: Dim) -> None:
    """ModelError unless all numbers are from `low` up to, but not, `high`; either may not be known yet."""
    if array is not None and array.size and isinstance(high, int) and not (array.min() >= low and array.max() < high):
        wrong = array.min() if array.min() < low else array.max()
        fail(node, f"{what} must be from {low} to {high - 1}, found {wrong}")


def one_dtype(node: Node, types: Iterable[TensorType | None]) -> np.dtype | None:
    """The element type that all inputs have; ModelError when they differ."""
    found: list[np.dtype] = []
    for t in types:
        if t is not None and t.dtype is not None and t.dtype not in found:
            found.append(t.dtype)
    if len(found) > 1:
        fail(node, f"inputs must have one element type, found {', '.join(map(str, found))}")
    return found[0] if found else None


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


def need_rank(node: Node, t: TensorType, least: int, most: int | None = None, what: str = "input") -> None:
    """ModelError unless the rank is unknown or within the limits (`most` None: no upper one)."""
    if t.shape is None:
        return
    rank = len(t.shape)
    if rank < least or (most is not None and rank > most):
        wanted = f"{least}" if most == least else f"at least {least}" if most is None else f"{least} to {most}"
        fail(node, f"{what} must have rank {wanted}, found shape {shown(t.shape)}")


def shown(shape: Shape | None) -> str:
    """A shape as messages show it."""
    return "*" if shape is None else "[" + ", ".join("?" if d is None else str(d) for d in shape) + "]"


def average(x: np.ndarray, axes: tuple[int, ...], keepdims: bool = True) -> np.ndarray:
    """The mean of floating point numbers over axes, summed in f64; NaN of none, where NumPy's own warns."""
    total = x.sum(axis=axes, keepdims=keepdims, dtype=np.promote_types(x.dtype, np.float64))
    with np.errstate(all="ignore"):
        return np.asarray(total / math.prod(x.shape[a] for a in axes), x.dtype)


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


def length(t: TensorType | None) -> int | None:
    """The number of entries of a 1-d parameter input, when known."""
    if t is None or t.shape is None or len(t.shape) != 1 or not isinstance(t.shape[0], int):
        return None
    return t.shape[0]


MOST_DIMS = 64
"""NumPy's limit of dimensions."""


def unknown_dims(t: TensorType | None) -> Shape | None:
    """The shape of what a 1-d shape input of known length but unknown values asks for."""
    n = length(t)
    if n is not None and n > MOST_DIMS:
        raise ValueError(f"a shape of {n} dimensions is asked for, and {MOST_DIMS} are the most")
    return None if n is None else (None,) * n


def in_float32(function: Callable[..., Any], *arrays: Any) -> Any:
    """`function` of the arrays, worked in float32 where they are float16; result in the type of the first."""
    dtype = arrays[0].dtype
    if dtype != np.float16:
        return np.asarray(function(*arrays)).astype(dtype, copy=False)
    wide = [a.astype(np.float32) if isinstance(a, np.ndarray) and a.dtype == np.float16 else a for a in arrays]
    return np.asarray(function(*wide)).astype(dtype)
