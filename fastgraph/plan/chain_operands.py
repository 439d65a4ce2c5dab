"""The chain of elementwise steps that a node ends with, and the operands that its kernel reads for it."""

from __future__ import annotations

from ..ir import Node, Value
from ..ops.chain import Chain, extra_kind
from ..ops.registry import OPS


def extra_values(node: Node) -> list[Value]:
    """The operands of a node's chain."""
    start = OPS[node.op].extras_at
    return [] if start is None else [v for v in node.inputs[start:] if v is not None]


def chain_of(node: Node) -> tuple[Chain, tuple[str, ...]]:
    """A node's chain, and how each of its operands is spread over the output: a kernel's `chain` and `extras`."""
    kinds = [extra_kind(v, node.out) for v in extra_values(node)]
    assert all(kinds)
    return node.attrs.get("chain", ()), tuple(str(kind) for kind in kinds)
