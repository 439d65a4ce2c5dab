"""Blocks to nodes: each operation by its rule, what is known before the run computed at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import GraphError, ModelError, UnsupportedError
from ...ir import Graph, TensorType, Value
from ...limits import current
from ...ops.evaluate import fold
from ...ops.registry import USERS
from ..core.call import agree
from ..core.reader import MISFITS, misfit
from .call import Call
from .scope import Scope
from .signatures import find
from .types import MilType, mil_type
from .wire import Message

FOLDED = 1 << 12
"""Results of at most so many elements are computed here when all operands are constant, so that later rules know
them. Larger ones are for the passes."""

STORED = frozenset({"dequantize_linear"})
"""What is not computed here: integer kernels want the numbers of quantized weights."""


def run(scope: Scope, block: Message) -> None:
    """Translate a block's operations, one after the other."""
    for place, operation in enumerate(block.operations):
        _operation(scope, place, operation)


def _block(call: Call, proto: Message, index: int, args: Sequence[Value] | None, states: Sequence[str]) -> Graph:
    """A nested block, as `Call.block` says."""
    current().count(32, call.where)
    scope, reader = call.scope, call.scope.reader
    inner = Scope(reader, f"{call.where}: block {index}", scope)
    if args is not None and len(args) != len(proto.inputs):
        call.fail(f"expected a block of {len(args)} inputs, found {len(proto.inputs)}")
    own: list[Value] = []
    for i, declared in enumerate(proto.inputs):
        kind = mil_type(declared.type, f"{inner.where}: input {declared.name!r}")
        if kind.kind == "state" and args is None:
            call.unsupported("of a block whose inputs are states")
        value = Value(reader.unique(declared.name), kind.held) if args is None else args[i]
        if args is None:
            reader.declared[value] = kind
            own.append(value)
        inner.define(declared.name, value, inner.where)
    for state in states:
        before = scope.present(state)
        if args is None:
            before = Value(reader.unique(state), reader.states[state])
            own.append(before)
        inner.current[state] = before
    run(inner, proto)
    outputs = [*inner.results(proto), *(inner.current[state] for state in states)]
    return Graph(call.name, own, outputs, inner.nodes, reader.source)


# operations


def _operation(scope: Scope, place: int, proto: Message) -> None:
    op = proto.type
    label = next((out.name for out in proto.outputs), "")
    where = f"{scope.where}: operation {place} {label!r} ({op})"
    try:
        operands = sum(len(argument.arguments) for argument in proto.inputs.values())
        current().count(1 + operands + len(proto.outputs), where)
        outputs, declared = [], []
        for out in proto.outputs:
            kind = mil_type(out.type, f"{where}: output {out.name!r}")
            outputs.append(Value(scope.reader.unique(out.name), kind.held))
            declared.append(kind)
        if op == "const":
            values = [_constant(scope, proto, outputs, declared, where)]
        else:
            values = _translated(scope, proto, outputs, declared, where)
    except MISFITS as error:
        raise misfit(where, "parameters", error) from error
    for out, value, kind in zip(proto.outputs, values, declared, strict=True):
        scope.reader.declared.setdefault(value, kind)
        scope.define(out.name, value, where)


def _constant(scope: Scope, proto: Message, outputs: list[Value], declared: list[MilType], where: str) -> Value:
    if "val" not in proto.attributes or len(declared) != 1:
        raise ModelError(f"{where}: expected an attribute 'val' and one output")
    value = _held(scope, proto.attributes["val"], where)
    said, found = declared[0], scope.reader.declared[value]
    if said.kind != found.kind or said.element != found.element or not agree(said.shape, found.shape):
        raise ModelError(f"{where}: expected a constant {said}, as its output is declared, found {found}")
    value.name = outputs[0].name
    return value


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
        raise ModelError(f"{where}: it is bound to {binding.name!r}, which nothing before defines; "
                         "the program was not written correctly")  # fmt: skip
    if value in scope.reader.shown:
        raise UnsupportedError(f"operators that read {binding.name!r}, which is no tensor")
    return value


def _translated(scope: Scope, proto: Message, outputs: list[Value], declared: list[MilType], where: str) -> list[Value]:
    op, begun = proto.type, len(scope.nodes)
    try:
        rule = find(op)
        inputs = _inputs(scope, proto, where)
        if rule is None and USERS:
            from .custom import rule_of

            rule = rule_of(op, inputs)
        if rule is None:
            raise UnsupportedError(_unknown(op, inputs))
        name = proto.outputs[0].name if outputs else scope.reader.unique(op)
        call = Call(scope, op, name, where, inputs, outputs, declared, proto.blocks, _block)
        with call:
            given = _finished(call, rule(call), begun)
    except UnsupportedError as error:
        made = next((out.name for out in proto.outputs), "")
        scope.reader.lacks(error, f"operation {made!r}" if made else "")
        del scope.nodes[begun:]
        return outputs
    current().count(4 * (len(scope.nodes) - begun), where)
    if all(v.data is not None for values in inputs.values() for v in values) and not proto.blocks:
        _fold(scope, begun)
    return _made(scope, call, given, begun)


def _finished(call: Call, results: Value | list[Value] | None, begun: int) -> list[Value]:
    """What a rule gives as outputs, of the type that is declared: of what shape is open, and which integers."""
    makers = {value: node for node in call.scope.nodes[begun:] for value in node.outputs}
    found = []
    if results and not call.outputs:
        call.fail("expected an output, found none")
    for value, out in zip([results] if isinstance(results, Value) else results or [], call.outputs, strict=False):
        if value in makers and not makers[value].graphs and (value.type.shape is None or value.type.dtype is None):
            value.type = out.type
            call.infer(makers[value])
        said, held = out.type.dtype, value.type.dtype
        integers = said is not None and held is not None and {said.kind, held.kind} <= {"i", "u"}
        found.append(call.cast(value, said) if integers and value.type.quant is None else value)
    return found


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


def _made(scope: Scope, call: Call, given: list[Value], begun: int) -> list[Value]:
    """The values of an operator's outputs, of the types that the program declares."""
    written = {value for node in scope.nodes[begun:] for value in node.outputs}
    handles = scope.reader.handles
    if handles and any(value in handles for node in scope.nodes[begun:] for value in node.inputs):
        call.fail("expected tensors, found a state; it is read by read_state")
    found, named = [], set[Value]()
    for i, (out, said) in enumerate(zip(call.outputs, call.declared, strict=True)):
        value = given[i] if i < len(given) else out
        if value is out and out not in written and out not in scope.reader.shown:
            if i:
                call.fail(f"expected {i} outputs or fewer, found {len(call.outputs)}")
            raise GraphError(f"{call.where}: its rule does not make output {i}")
        if value is not out and value in written and value not in named:
            value.name = out.name
        named.add(value)
        held = said.held
        if value not in scope.reader.shown and (
            (value.type.quant is None and value.type.dtype != held.dtype) or not agree(value.type.shape, held.shape)
        ):
            call.fail(f"expected its output {out} to be declared {value.type}, found {said}")
        found.append(value)
    return found


def _unknown(op: str, inputs: dict[str, list[Value]]) -> str:
    if op == "custom_layer" and "class_name" in inputs:
        return f"custom layer {inputs['class_name'][0].data}"
    return op or "an operator without a name"
