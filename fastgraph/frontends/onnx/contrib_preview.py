"""Operators of ai.onnx.preview, written as what they are composed of. Semantics: the onnx package's definitions."""

from __future__ import annotations

from ...ir import Graph, Value
from .call import Call
from .contrib import Attrs, contrib
from .linear import CAST


@contrib(
    "ai.onnx.preview.FlexAttention: Q K V -> Y | prob_mod:graph? scale:float? score_mod:graph? softmax_precision:dtype?"
)
def flex_attention(call: Call, attrs: Attrs) -> Value:
    """Query heads that share a head of keys are rows of one product."""
    q, k, v = (call.x(i) for i in range(3))
    rows = _extents(call, (q, 0), (k, 1), None, (q, 3))
    heads = call.add("reshape", [q, rows], allowzero=0)
    keys = call.add("transpose", [k], perm=(0, 1, 3, 2))
    unit = call.const(attrs["scale"], dtype="f4") if attrs["scale"] is not None else _unit(call, q)
    unit = call.add("cast_like", [unit, q], **CAST)
    x = call.add("mul", [call.add("matmul", [heads, keys]), unit])
    x = call.add("reshape", [x, _extents(call, (q, 0), (q, 1), (q, 2), (k, 2))], allowzero=0)
    mods = [mod for mod in (attrs["score_mod"], attrs["prob_mod"]) if mod is not None]
    precision = attrs["softmax_precision"] or (mods and mods[0].inputs and mods[0].inputs[0].type.dtype) or None
    if precision is not None:
        x = call.add("cast", [x], **CAST, to=precision)
    x = _applied(call, attrs["score_mod"], x)
    x = _applied(call, attrs["prob_mod"], call.add("softmax", [x], axis=-1))
    x = call.add("reshape", [x, _extents(call, (q, 0), (k, 1), None, (k, 2))], allowzero=0)
    y = call.add("matmul", [x, call.add("cast_like", [v, x], **CAST)])
    y = call.add("reshape", [y, _extents(call, (q, 0), (q, 1), (q, 2), (v, 3))], allowzero=0)
    name = call.reader.formats.get(q, "")
    y = call.add("cast_like", [y, q], **CAST | {"format": name})
    if name:
        call.reader.formats[y] = name
    return y


def _unit(call: Call, q: Value) -> Value:
    """1 / sqrt(the size of a head)."""
    size = call.add("cast", [call.add("shape", [q], start=3, end=4)], **CAST, to=call.const(0.0, dtype="f4").type.dtype)
    return call.add("reciprocal", [call.add("sqrt", [size])])


def _extents(call: Call, *axes: tuple[Value, int] | None) -> Value:
    """A shape made of axes of values; None stands for what is left."""
    each = [call.const([-1]) if a is None else call.add("shape", [a[0]], start=a[1], end=a[1] + 1) for a in axes]
    return call.add("concat", each, axis=0)


def _applied(call: Call, mod: Graph | None, x: Value) -> Value:
    """What a sub-graph of one input and one output makes of a value: its nodes, written in the call's place."""
    if mod is None:
        return x
    if len(mod.inputs) != 1 or len(mod.outputs) != 1:
        call.fail(f"expected score_mod and prob_mod of one input and one output, found {len(mod.inputs)} "
                  f"and {len(mod.outputs)}")  # fmt: skip
    mod.replace({mod.inputs[0]: x})
    for node in mod.nodes:
        for value in node.outputs:
            value.name = call.unique(call.name)
            call.made.append(value)
        call.write_node(node)
    return mod.outputs[0]
