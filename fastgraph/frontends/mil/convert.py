"""Blocks to nodes: each operation by its rule, what is known before the run computed at once."""

from __future__ import annotations

import numpy as np

from ...errors import GraphError, ModelError, UnsupportedError
from ...ir import Node, TensorType, Value
from ...limits import current
from ...ops.evaluate import fold
from ...ops.registry import USERS
from ..core.call import agree
from ..core.reader import MISFITS, misfit
from .call import Call
from .scope import Scope
from .signatures import find
from .types import MilType, mil_type
from .wire import Message, wrong

FOLDED = 1 << 12
"""Results of at most so many elements are computed here when all operands are constant, so that later rules know
them. Larger ones are for the passes."""

STORED = frozenset({"dequantize_linear"})
"""Operators that are not computed here: integer kernels want the stored numbers of quantized weights."""


def run(scope: Scope, block: Message) -> None:
    """Translate a block's operations, one after the other."""
    for place, operation in enumerate(block.operations):
        _operation(scope, place, operation)


# operations


def _operation(scope: Scope, place: int, proto: Message) -> None:
    label = next((out.name for out in proto.outputs), "")
    where = f"{scope.where}: operation {place} {label!r} ({proto.type})"
    try:
        operands = sum(len(argument.arguments) for argument in proto.inputs.values())
        current().count(1 + operands + len(proto.outputs), where)
        results: dict[Value, MilType] = {}
        for out in proto.outputs:
            kind = mil_type(out.type, f"{where}: output {out.name!r}")
            results[Value(scope.reader.unique(out.name), kind.held)] = kind
        translate = _constant if proto.type == "const" else _translated
        values = translate(scope, proto, results, where)
    except MISFITS as error:
        raise misfit(where, "parameters", error) from error
    for out, value, kind in zip(proto.outputs, values, results.values(), strict=True):
        scope.reader.declared.setdefault(value, kind)
        scope.define(out.name, value, where)


def _constant(scope: Scope, proto: Message, results: dict[Value, MilType], where: str) -> list[Value]:
    if "val" not in proto.attributes or len(results) != 1:
        raise ModelError(f"{where}: expected an attribute 'val' and one output")
    value = _held(scope, proto.attributes["val"], where)
    ((out, said),) = results.items()
    found = scope.reader.declared[value]
    if said.kind != found.kind or said.element != found.element or not agree(said.shape, found.shape):
        raise ModelError(f"{where}: expected a constant {said}, as its output is declared, found {found}")
    value.name = out.name
    return [value]


def _held(scope: Scope, proto: Message, where: str) -> Value:
    """A constant that the program holds."""
    kind, held = scope.reader.constants.read(proto, where)
    array = held
    if not isinstance(held, np.ndarray):
        if kind.kind == "list" and all(isinstance(v, np.ndarray) and v.ndim == 0 for v in held):
            array = np.array([v.item() for v in held], kind.items[0].held.dtype)
        else:
            array = np.empty((), object)
            array[()] = held
    value = Value(scope.reader.unique("const"), TensorType(array.dtype, array.shape), array)
    scope.reader.declared[value] = kind
    return value


def _inputs(scope: Scope, proto: Message, where: str) -> dict[str, list[Value]]:
    found: dict[str, list[Value]] = {}
    for key, attribute in proto.attributes.items():
        if key != "name":
            found[key] = [_held(scope, attribute, f"{where}: attribute {key!r}")]
    for key, argument in proto.inputs.items():
        found[key] = [_bound(scope, binding, f"{where}: parameter {key!r}") for binding in argument.arguments]
    return found


def _bound(scope: Scope, binding: Message, where: str) -> Value:
    if binding.WhichOneof("binding") == "value":
        return _held(scope, binding.value, where)
    value = scope.find(binding.name)
    if value is None:
        raise wrong(f"{where}: it is bound to {binding.name!r}, which nothing before defines")
    if value in scope.reader.shown:
        raise UnsupportedError(f"operators that read {binding.name!r}, which is no tensor")
    return value


def _translated(scope: Scope, proto: Message, results: dict[Value, MilType], where: str) -> list[Value]:
    op, begun = proto.type, len(scope.nodes)
    try:
        rule = find(op)
        inputs = _inputs(scope, proto, where)
        if rule is None and USERS:
            from .custom import rule_of

            rule = rule_of(op, inputs)
        if rule is None:
            raise UnsupportedError(_unknown(op, inputs))
        call = Call(scope, proto, where, inputs, results)
        with call:
            given = rule(call)
            current().count(4 * (len(scope.nodes) - begun), where)
            if not proto.blocks and all(v.data is not None for values in inputs.values() for v in values):
                _fold(scope, begun)
            return _results(call, [given] if isinstance(given, Value) else given or [], begun)
    except UnsupportedError as error:
        made = next((out.name for out in proto.outputs), "")
        scope.reader.lacks(error, f"operation {made!r}" if made else "")
        del scope.nodes[begun:]
        return list(results)


def _fold(scope: Scope, begun: int) -> None:
    """Compute what nodes from `begun` on make of constants, when it is small."""
    kept = []
    for node in scope.nodes[begun:]:
        known = all(v is None or (v.data is not None and v.type.quant is None) for v in node.inputs)
        small = all(v.type.concrete and v.type.quant is None and v.type.size <= FOLDED for v in node.outputs)
        plain = node.op not in STORED and not node.graphs
        arrays = fold(node) if known and small and plain else None
        if arrays is None:
            kept.append(node)
            continue
        for value, array in zip(node.outputs, arrays, strict=True):
            value.data = array
            value.type = TensorType.of(array)
    scope.nodes[begun:] = kept


def _results(call: Call, given: list[Value], begun: int) -> list[Value]:
    """The values of an operator's outputs: what its rule gave, in the types that the program declares."""
    nodes, reader = call.scope.nodes[begun:], call.scope.reader
    if reader.handles and any(value in reader.handles for node in nodes for value in node.inputs):
        call.fail("expected tensors, found a state; it is read by read_state")
    if given and not call.outputs:
        call.fail("expected an output, found none")
    makers = {value: node for node in nodes for value in node.outputs}
    found: list[Value] = []
    for i, (out, said) in enumerate(zip(call.outputs, call.declared, strict=True)):
        if out not in reader.shown and i >= len(given):
            if i:
                call.fail(f"expected {i} outputs or fewer, found {len(call.outputs)}")
            raise GraphError(f"{call.where}: its rule does not make output {i}")
        value = out if out in reader.shown else _declared(call, given[i], out, makers)
        if value in makers and value not in found:
            value.name = out.name
        held = said.held
        if value not in reader.shown and (
            (value.type.quant is None and value.type.dtype != held.dtype) or not agree(value.type.shape, held.shape)
        ):
            call.fail(f"expected its output {out} to be declared {value.type}, found {said}")
        found.append(value)
    return found


def _declared(call: Call, value: Value, out: Value, makers: dict[Value, Node]) -> Value:
    """A result as `out` is declared: its rank where that is open, integers in another type. `makers`: of results."""
    if value in makers and not makers[value].graphs and (value.type.shape is None or value.type.dtype is None):
        value.type = out.type
        call.infer(makers[value])
    said, held = out.type.dtype, value.type.dtype
    if said is None or held is None or said == held or {said.kind, held.kind} - {"i", "u"} or value.type.quant:
        return value
    found = call.cast(value, said)
    found.name = out.name
    return found


def _unknown(op: str, inputs: dict[str, list[Value]]) -> str:
    if op == "custom_layer" and "class_name" in inputs:
        return f"custom layer {inputs['class_name'][0].data}"
    return op or "an operator without a name"
