"""From a node of an ONNX file to canonical nodes.

A node first becomes the newest form of its operator (`legacy`), then is checked and completed, then
written: most as one canonical node of the same name in snake_case, the others by a rule of `spatial` or
`rewrites`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from ...errors import UnsupportedError
from ...ir import Graph, TensorType, Value
from ...ops import OPS
from ...ops.registry import USERS
from . import contrib
from .call import Call, Rule, as_is
from .legacy import UPGRADES
from .linear import LINEAR
from .rewrites import REWRITES
from .signatures import Signature, signature
from .spatial import SPATIAL

_WORDS = """
MatMul=matmul MatMulInteger=matmul_integer QLinearConv=qlinear_conv QLinearMatMul=qlinear_matmul PRelu=prelu
IsNaN=is_nan GatherND=gather_nd ScatterND=scatter_nd SwiGLU=swiglu ReduceL1=reduce_l1 ReduceL2=reduce_l2 Col2Im=col2im
RMSNormalization=rms_normalization SimplifiedLayerNormalization=rms_normalization
"""
_SPELLED = dict(pair.split("=") for pair in _WORDS.split())
"""Names that no rule of spelling gives; the last one is onnxruntime's, in graphs that it optimized."""

_RULES = {**SPATIAL, **LINEAR, **REWRITES}


@cache
def canonical(name: str) -> str:
    """The canonical name of an operator of ai.onnx."""
    if name in _SPELLED or name.isupper():
        return _SPELLED.get(name, name.lower())
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def translate(domain: str, call: Call) -> list[Value]:
    """Write the call's canonical nodes; its outputs' values in order. ModelError or UnsupportedError."""
    call.attrs.pop("consumed_inputs", None)
    user = _user(domain, call.op)
    if user is not None and domain:
        return _custom(call, user)
    for upgrade in UPGRADES.get(call.op, ()):
        upgrade(call)
    known, rule = _known(domain, call.op)
    if known is None or rule is None:
        if user is not None:
            return _custom(call, user)
        raise _unknown(domain, call.op)
    attrs = call.complete(known)
    absent = len([name for name in known.inputs if name[-1] != "*"]) - len(call.inputs)
    result = rule(call, *call.inputs, *[None] * absent, **attrs)
    return [result] if isinstance(result, Value) else list(result)


def check_known(domain: str, op: str) -> None:
    """UnsupportedError for an operator that nobody knows, so that none of its attributes need be read."""
    if _known(domain, op)[1] is None and op not in UPGRADES and _user(domain, op) is None:
        raise _unknown(domain, op)


def _user(domain: str, op: str) -> Any:
    """A user's operator of that name, if there is one."""
    return USERS.get((domain, op.removeprefix(f"{domain}."))) if USERS else None


def _unknown(domain: str, op: str) -> UnsupportedError:
    return UnsupportedError(op if domain else f"ai.onnx.{op}")


@cache
def _known(domain: str, op: str) -> tuple[Signature | None, Rule | None]:
    if domain and (key := op.removeprefix(f"{contrib.DOMAIN}.")) in contrib.CONTRIB:
        return contrib.CONTRIB[key]
    name = canonical(op)
    return signature(op), _RULES.get(op) or (as_is(name) if name in OPS else None)


def _custom(call: Call, user: Any) -> list[Value]:
    """The results of a user's operator."""
    for name, item in call.attrs.items():
        if isinstance(item[0] if isinstance(item, tuple) and item else item, Graph | TensorType):
            call.fail(f"its attribute {name!r} holds graphs or types, which no kernel takes")
    outputs = [call.fresh() for _ in call.outputs]
    call.custom(user, call.inputs, outputs, call.attrs)
    return outputs
