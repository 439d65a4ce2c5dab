"""Elementwise arithmetic, comparisons and selection of whole numbers, bools, f16 and f64, in their own type."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ir import Node, Value
from ....kernels.core.table import row
from ....kernels.pointwise.exact_names import ROUNDED, arity, is_truth, operations
from ....ops.registry import attr
from ..elements import Operand, dtype_of, number
from ..registry import Emit, Slot, lowers
from .calls import fits, joined_loops

DIMS = ("d0", "d1", "d2", "row", "column")
PLAIN = {
    **{name: name for name in ("add", "sub", "mul", "div", "floor_div", "copysign", "min", "max", "neg", "sign",
                               "floor", "ceil", "round", "sqrt", "reciprocal", "pow", "prelu", "and", "or", "xor",
                               "equal", "less", "less_or_equal", "is_nan", "exp", "expm1", "log", "log1p", "atan",
                               "sin", "cos", "erf")},
    "greater": "less", "greater_or_equal": "less_or_equal", "bitwise_and": "and", "bitwise_or": "or",
    "bitwise_xor": "xor", "bitwise_not": "not",
}  # fmt: skip
"""Operator -> the kernel's operation."""
SWAPPED = ("greater", "greater_or_equal")
OWN = ("equal", "less", "less_or_equal", "greater", "greater_or_equal", "where")
"""Operators with their own lowerings for f32."""


def _operation(node: Node) -> str | None:
    """The kernel's operation for a node, by PLAIN or by its attributes."""
    match node.op:
        case "mod":
            return "fmod" if attr(node, "fmod") else "mod"
        case "bit_shift":
            return "shift_left" if attr(node, "direction") == "LEFT" else "shift_right"
        case "is_inf":
            up, down = attr(node, "detect_positive"), attr(node, "detect_negative")
            return "is_inf" if up and down else "is_positive_inf" if up else "is_negative_inf" if down else None
        case "not":
            return "equal"
        case "abs":
            return "abs" if node.x.type.dtype is not None and node.x.type.dtype.kind in "if" else "or"
        case "where":
            return "where"
    return PLAIN[node.op]


def _named(operation: str, dtype: np.dtype) -> tuple[str, str] | None:
    """(element, operation) as the kernel knows them."""
    element = number(dtype)
    unsigned = f"{operation}_u" if dtype.kind in "bu" else operation
    known = operations(element)
    found = unsigned if unsigned in known else operation
    return (element, found) if found in known else None


def _exact(value: Value) -> bool:
    """Whether a value has numbers and is not quantized."""
    kind = value.type
    plain = kind.concrete and kind.quant is None and kind.size > 0
    return plain and kind.dtype is not None and kind.dtype.kind in "biuf"


def _match(node: Node) -> tuple[str, str] | None:
    values = node.operands
    if not all(map(_exact, (*values, node.out))) or len(values) < len(node.inputs) or not fits(node):
        return None
    if node.op in ("min", "max") and len(values) != 2:
        return None
    operands = values[1:] if node.op == "where" else values
    dtype = operands[0].type.element
    if any(v.type.dtype != dtype for v in operands) or (node.op == "where" and values[0].type.dtype != np.bool_):
        return None
    if dtype == np.float32 and node.op in OWN:
        return None
    operation = _operation(node)
    return None if operation is None else _named(operation, dtype)


@lowers(*PLAIN, "mod", "bit_shift", "is_inf", "not", "abs", "where", match=_match, strided_in=True, strided_out=True,
        in_place=True)  # fmt: skip
def exact(e: Emit, node: Node, found: tuple[str, str]) -> None:
    values: list[Operand] = [*node.operands]
    if node.op == "where":
        values = [*values[1:], values[0]]
    elif node.op in SWAPPED:
        values.reverse()
    elif node.op == "not":
        values.append(np.zeros((), np.bool_))
    elif found[1] == "or" and len(values) == 1:
        values *= 2
    call(e, node, found, values)


def call(e: Emit, node: Node, found: tuple[str, str], values: Sequence[Operand]) -> None:
    """Call the kernel for the whole result of a node, with operands that broadcast to it."""
    element, operation = found
    tensors = list(values[: arity(operation)]) + list(values[2:])
    loops, addresses = joined_loops(e, node, tensors)
    places: dict[str, Slot] = dict.fromkeys(row("exact").args, 0)
    names = "abc" if operation == "where" else "ab"
    for name, address, strides, tensor in zip(names, addresses, loops.xs, tensors, strict=False):
        size = dtype_of(tensor).itemsize
        places[name] = address
        places |= {f"{name}_{dim}": size * step for dim, step in zip(DIMS, strides, strict=True)}
    item = 1 if is_truth(operation) else dtype_of(node.out).itemsize
    own: dict[str, Slot] = {"operation": operations(element).index(operation), "item": item}
    e.kernel("exact", {"element": element}, {**places, **loops.args(e.address(node.out)), **own})


def _bounded(node: Node) -> list[tuple[tuple[str, str], Operand]] | None:
    """A clip or relu as (operation, second operand) pairs, applied one after the other."""
    values, dtype = node.operands, node.x.type.element
    if not all(map(_exact, (*values, node.out))) or any(v.type.dtype != dtype for v in values):
        return None
    bounds: list[Operand | None] = [*node.inputs[1:]] if node.op == "clip" else [np.zeros((), dtype)]
    steps = []
    for operation, bound in zip(("max", "min"), bounds, strict=False):
        named = _named(operation, dtype)
        if bound is None or named is None:
            continue
        if isinstance(bound, Value) and bound.data is not None:
            bound = bound.data.reshape(())
        steps.append((named, bound))
    # Every bound is one number, whose rank may be more than that of x.
    outer = max((len(b.type.dims) for _, b in steps if isinstance(b, Value)), default=0)
    return steps if steps and outer <= len(node.x.type.dims) and fits(Node(node.op, [node.x], node.outputs)) else None


@lowers("clip", "relu", match=_bounded, strided_in=True, strided_out=True)
def bounded(e: Emit, node: Node, steps: list[tuple[tuple[str, str], Operand]]) -> None:
    source: Operand = node.x
    for found, bound in steps:
        call(e, node, found, [source, bound])
        source = node.out


def _rounds(node: Node) -> str | None:
    """The kernel's operation for a cast of f32 to a format of fewer bits."""
    kind, opened = attr(node, "format"), f"{attr(node, 'format')}_open"
    if not _exact(node.x) or not fits(node) or {node.x.type.dtype, node.out.type.dtype} != {np.dtype(np.float32)}:
        return None
    name = opened if not attr(node, "saturate") and opened in ROUNDED else kind
    return name if name in ROUNDED else None


@lowers("cast", match=_rounds, strided_in=True, strided_out=True, in_place=True)
def rounded(e: Emit, node: Node, name: str) -> None:
    call(e, node, ("f32", name), [node.x])
