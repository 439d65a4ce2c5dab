"""The chain of elementwise steps that a node ends with, and the operands that its kernel reads for it."""

from __future__ import annotations

from ...ir import Node, Value
from ...ops.chain import Chain, extra_kind
from ...ops.registry import OPS
from .registry import Arg, Emit, row_count


def extra_values(node: Node) -> list[Value]:
    """The operands of a node's chain."""
    start = OPS[node.op].extras_at
    return [] if start is None else [v for v in node.inputs[start:] if v is not None]


def chain_of(node: Node) -> tuple[Chain, tuple[str, ...]]:
    """A node's chain, and how each of its operands is spread over the output: a kernel's `chain` and `extras`."""
    kinds = [extra_kind(v, node.out) for v in extra_values(node)]
    assert all(kinds)
    return node.attrs.get("chain", ()), tuple(str(kind) for kind in kinds)


def extra_slots(e: Emit, node: Node, row: int = 0, images: int | None = None) -> list[Arg]:
    """What a record ends with: (address of row `row`, f32 per image, f32 per row) of each operand of the chain.

    images: how many equal parts the kernel divides the rows of the result into; those of the result when None.
    """
    dims = node.out.type.dims
    count = images or max(dims[0] if len(dims) > 1 else 1, 1)
    slots: list[Arg] = []
    for value, kind in zip(extra_values(node), chain_of(node)[1], strict=True):
        stride = e.stride(value)
        per_row = stride if kind == "full" else 0
        per_image = {"full": stride * row_count(node.out) // count, "image": stride}.get(kind, 0)
        slots += [e.address(value, 4 * per_row * row), per_image, per_row]
    return slots
