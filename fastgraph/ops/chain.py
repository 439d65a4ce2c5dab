"""Chains: elementwise expressions as data, which stand in nodes' attribute `chain`.

A chain is a tuple of steps (name, *operands), in the form that `kernels.pointwise.chain` compiles. An operator that can
be a step says so in its definition (`step=`), and what the step means is said here, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ..ir import FLOAT32, Node, Value

Chain = tuple[tuple[Any, ...], ...]
Step = Callable[[Node], tuple[Any, ...] | None]

SUM = "sum"
"""The attribute of layers of bytes that end in a sum (plan/lower/build.py): the step of the chain behind their own."""
MEANING: dict[str, Callable[..., Any]] = {}
"""Step -> NumPy function of its operands."""


def step(name: str, function: Callable[..., Any], numbers: Mapping[str, Any] | None = None) -> Step:
    """A function node -> step, of this name over the node's inputs and these attributes (with their defaults)."""
    MEANING[name] = function
    given = numbers or {}
    return lambda node: (name, *node.inputs, *(float(node.attrs.get(key, default)) for key, default in given.items()))


def evaluate_chain(chain: Chain, arrays: Sequence[Any]) -> np.ndarray:
    """The result of a chain over these arrays, in the element type of the first."""
    values = [np.asarray(a) for a in arrays]
    dtype = values[0].dtype
    with np.errstate(all="ignore"):
        for name, *operands in chain:
            taken = [values[o] if isinstance(o, int) else dtype.type(o) for o in operands]
            values.append(np.asarray(_meaning(name)(*taken), dtype))
    return values[-1] if chain else values[0]


def _meaning(name: str) -> Callable[..., Any]:
    """The NumPy function of a step; imports the operators that define it, as a graph of chains alone has not."""
    if name not in MEANING:
        for family in ("activation", "elementwise"):
            import_module(f"{__package__}.{family}")
    return MEANING[name]


def extra_kind(extra: Value, out: Value) -> str | None:
    """How an operand broadcasts to a channels-last output: "full", "channel", "scalar" or "image"; else None."""
    dims, target = extra.type.dims, out.type.dims
    if dims == target:
        return "full"
    if extra.type.size == 1:
        return "scalar"
    padded = (1,) * (len(target) - len(dims)) + dims
    if len(dims) > len(target) or padded[-1] != target[-1]:
        return None
    if all(d == 1 for d in padded[:-1]):
        return "channel"
    if padded[0] == target[0] and all(d == 1 for d in padded[1:-1]):
        return "image"
    return None


def is_f32(node: Node) -> bool:
    """Whether all operands and results of the node are concrete and f32."""
    return all(v is None or v.type.concrete and v.type.dtype == FLOAT32 for v in (*node.inputs, *node.outputs))
