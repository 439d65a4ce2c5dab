"""Operators that `fastgraph.register_custom_op` adds: custom layers by their class, others by their type.

A custom layer says which of its parameters are operands (`input_order`). Of other operators operands are the parameters
that the kernel takes by position, unless they are constants of one number or text; all others are attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...ir import Value
from ...ops.custom import CustomOp, of_name
from .call import Call
from .signatures import Rule

LAYER = "custom_layer"
OWN = ("class_name", "description", "input_order", "parameters", "weights")
"""Parameters of a custom layer that are not operands of its kernel."""


def rule_of(op: str, inputs: Mapping[str, Sequence[Value]]) -> Rule | None:
    """The rule that writes a node of the user's operator of that type or class; None where there is none."""
    name, named = op, inputs.get("class_name")
    if op == LAYER and named and named[0].data is not None:
        name = str(named[0].data)
    user = of_name(name)
    return None if user is None else partial(_custom, user)


def _custom(user: CustomOp, c: Call) -> list[Value]:
    given = {key: values for key, values in c.inputs.items() if c.op != LAYER or key not in OWN}
    positional = user.operands({})
    order = [str(name) for name in np.atleast_1d(c.known("input_order", ()))] if c.op == LAYER else []
    order = order or [name for name in positional or sorted(given) if name in given and not _is_setting(given[name])]
    operands: list[Value | None] = []
    for key in order:
        operands += given.get(key, [None])
    c.custom(user, operands, c.outputs, {key: _attribute(c, key) for key in given if key not in order})
    return c.outputs


def _is_setting(values: Sequence[Value]) -> bool:
    data = values[0].data if len(values) == 1 else None
    return data is not None and (data.ndim == 0 or data.dtype == object)


def _attribute(c: Call, key: str) -> Any:
    found = c.known(key)
    return tuple(found.tolist()) if isinstance(found, np.ndarray) and found.dtype == object else found
