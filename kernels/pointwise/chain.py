"""A chain: a fused elementwise expression, written as data.

chain = tuple of steps (op, *operands). An int operand is a value number: 0..n-1 are the inputs, then one
per step; a float operand is a constant. The last step is the result; the empty chain is value 0 unchanged.
ReLU6 of a sum: (("add", 0, 1), ("clip", 2, 0.0, 6.0)). Ops are those of `kernels.isa.math.OPS`. Reading
this module does not import llvmlite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..isa.math import OPS

if TYPE_CHECKING:
    from ..lang import Type, Value

Step = tuple[str | int | float, ...]
Chain = tuple[Step, ...]


def emit_chain(kind: Type, chain: Chain, inputs: Sequence[Value]) -> Value:
    """The vector of f32 that the chain gives for these input vectors."""
    values = list(inputs)
    for name, *operands in chain:
        taken = [values[o] if isinstance(o, int) else kind(float(o)) for o in operands]
        values.append(_op(name, operands).emit(*taken))
    return values[-1] if chain else values[0]


def _op(name: Any, operands: Sequence[Any]) -> Any:
    op = OPS[name]
    if len(operands) != op.arity:
        raise ValueError(f"{name} takes {op.arity} operands, not {len(operands)}")
    return op
