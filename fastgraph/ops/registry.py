"""The operators of the graph: what each computes, and the type of what it gives.

How it becomes machine work is said in `fastgraph.plan.lower`, by operator name; an operator that is not there
runs its NumPy reference as a host step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import ModelError
from ..ir import MAX_RANK, Node, TensorType

Infer = Callable[[Node, list[Any]], list[TensorType]]
Reference = Callable[[Node, list[Any]], list[Any]]

REQUIRED: Any = object()
"""The default of an attribute that has none."""

MAX_ELEMENTS = 2**48

FLAGS = frozenset(
    """
    align_corners allowzero antialias ceil_mode center_point_box count_include_pad every exclude_outside exclusive grows
    input_forget interleaved inverse is_case_sensitive is_causal keepdims largest layout linear_before_reset new_axis
    noop_with_empty_axes normalized onesided periodic reverse saturate select_last_index sorted squared storage_order
    time_major training_mode trans_a trans_b upper wrap
    """.split()
)
"""Attributes that are 0 or 1, whatever the operator."""


@dataclass(frozen=True)
class Op:
    """One operator.

    `infer(node, input types) -> output types`: an output whose shape hangs on data gets shape None (no
    rank) or None extents. ModelError when the node makes no sense.
    `reference(node, input arrays) -> output arrays`: NumPy, the meaning of the operator, used to fold
    constants, to run what has no kernel, and as the oracle of tests. Control flow gets the arrays of
    `evaluate.operands(node)`.
    Both take absent inputs as None, or left off at the end, and give one result per output of the node.
    `attrs` are the defaults of the attributes. `pure` is False for what must not be folded: random
    numbers, and loops that may never end.
    """

    name: str
    infer: Infer
    reference: Reference
    pure: bool = True
    attrs: Mapping[str, Any] = field(default_factory=dict)


OPS: dict[str, Op] = {}

EXTRAS_AT = {
    "conv": 3, "conv_transpose": 3, "dense": 3, "dynamic_conv": 3, "dynamic_dense": 3, "max_pool": 1, "average_pool": 1,
    "reduce_mean": 2, "reduce_max": 2,
    "matmul": 2, "fused": 0,
}  # fmt: skip
"""Operators that can end in a chain of elementwise steps (attribute `chain`, as in kernels/chain.py), and
where the chain's further inputs begin. Value 0 of the chain is the operator's own result; of `fused`, the
first input.
"""


def define(
    name: str,
    infer: Infer,
    reference: Reference,
    pure: bool = True,
    inputs: tuple[int, int | None] = (0, None),
    attrs: Mapping[str, Any] | None = None,
) -> None:
    """Add an operator; a second definition of a name is a defect.

    `inputs` is the least and the greatest number of inputs (None: any); the functions see their lists
    filled up with None to the greatest, and the first `inputs[0]` present.
    """
    assert name not in OPS, f"operator {name} is defined twice"

    def typed(node: Node, types: list[Any]) -> list[TensorType]:
        for flag in FLAGS.intersection(node.attrs):
            if node.attrs[flag] not in (0, 1, None):
                raise ModelError(f"{node.op}: {flag} must be 0 or 1, found {node.attrs[flag]!r}")
        results = _per_output(node, infer(node, _filled(node, types[: _own(node, types)], inputs)))
        for result in results:
            _check_size(node, result)
        return results

    def computed(node: Node, arrays: list[Any]) -> list[Any]:
        own = _own(node, arrays)
        results = _per_output(node, reference(node, _filled(node, arrays[:own], inputs)))
        return _chained(node, [*results, *arrays[own:]]) if "chain" in node.attrs and node.op != "fused" else results

    OPS[name] = Op(name, typed, computed, pure, attrs or {})


def known(node: Node, index: int) -> np.ndarray | None:
    """The constant array of input `index`, or None: what infer may use of a parameter that is an input."""
    return node.const(index)


def attr(node: Node, name: str) -> Any:
    """The attribute, or its default; ModelError when it has none."""
    value = node.attrs.get(name, REQUIRED)
    if value is REQUIRED:
        value = OPS[node.op].attrs.get(name, REQUIRED)
    if value is REQUIRED:
        raise ModelError(f"{node.op}: attribute {name} is missing")
    return value


def _own(node: Node, items: list[Any]) -> int:
    """How many of the inputs are the operator's own and not its chain's."""
    return EXTRAS_AT[node.op] if "chain" in node.attrs and node.op != "fused" else len(items)


def _chained(node: Node, values: list[Any]) -> list[Any]:
    from ..kernels.pointwise.chain import eval_chain

    return [eval_chain(node.attrs["chain"], values)]


def _filled(node: Node, items: list[Any], inputs: tuple[int, int | None]) -> list[Any]:
    least, most = inputs
    found = len(items)
    if found < least or (most is not None and found > most):
        wanted = str(least) if least == most else f"{least} to {most}" if most is not None else f"at least {least}"
        raise ModelError(f"{node.op}: expected {wanted} inputs, found {found}")
    for index in range(least):
        if index >= len(node.inputs) or node.inputs[index] is None:
            raise ModelError(f"{node.op}: input {index} is required and absent")
    return [*items, *[None] * ((most or 0) - found)]


def _per_output(node: Node, results: list[Any]) -> list[Any]:
    if len(results) < len(node.outputs):
        raise ModelError(f"{node.op}: gives {len(results)} outputs, but the node names {len(node.outputs)}")
    # NumPy turns arrays of rank 0 into scalars on the way; references see and give arrays only.
    return [np.asarray(r) if isinstance(r, np.generic) else r for r in results[: len(node.outputs)]]


def _check_size(node: Node, result: TensorType) -> None:
    if len(result.shape or ()) > MAX_RANK:
        rank = len(result.shape or ())
        raise ModelError(f"{node.op}: the result would have {rank} axes, at most {MAX_RANK} are possible")
    count = 1
    for extent in result.shape or ():
        if isinstance(extent, int):
            if extent < 0:
                raise ModelError(f"{node.op}: the result would have a negative extent: {result}")
            count *= max(extent, 1)
    if count > MAX_ELEMENTS:
        raise ModelError(f"{node.op}: the result would have {count} elements: {result}")
