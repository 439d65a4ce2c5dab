"""From a node of an ONNX file to canonical nodes.

A node first becomes the newest form of its operator (`legacy`), then is checked and completed, then written: most as
one canonical node of the same name in snake_case, the others by a rule of `spatial` or `rewrites`.
"""

from __future__ import annotations

import re
from collections.abc import Container
from functools import cache

from ...ir import Value
from .call import Call
from .legacy import UPGRADES
from .rewrites import MICROSOFT, REWRITES
from .spatial import SPATIAL

DOMAINS: dict[str, Container[str]] = {"": {**REWRITES, **UPGRADES}, "com.microsoft": MICROSOFT}
"""Operators that have a rule, by domain. Others of ai.onnx only need a signature."""

_SPELLED = {
    "MatMul": "matmul", "MatMulInteger": "matmul_integer", "QLinearConv": "qlinear_conv",
    "QLinearMatMul": "qlinear_matmul", "PRelu": "prelu", "IsNaN": "is_nan", "GatherND": "gather_nd",
    "ScatterND": "scatter_nd", "SwiGLU": "swiglu", "ReduceL1": "reduce_l1", "ReduceL2": "reduce_l2",
    "Col2Im": "col2im", "RMSNormalization": "rms_normalization",
}  # fmt: skip

_RULES = {**SPATIAL, **REWRITES}


@cache
def canonical(name: str) -> str:
    """The canonical name of an operator of ai.onnx."""
    if name in _SPELLED:
        return _SPELLED[name]
    if name.isupper():
        return name.lower()
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def translate(domain: str, call: Call) -> list[Value]:
    """Write the call's canonical nodes; the values of its outputs in order. ModelError or UnsupportedError."""
    if domain == "com.microsoft":
        call.version = 1 << 20
        MICROSOFT[call.op](call)
    call.attrs.pop("consumed_inputs", None)
    for upgrade in UPGRADES.get(call.op, ()):
        upgrade(call)
    attrs = call.complete()
    rule = _RULES.get(call.op)
    if rule is None:
        return call.emit_many(canonical(call.op), call.inputs, attrs, len(call.outputs))
    result = rule(call, attrs)
    return [result] if isinstance(result, Value) else result
