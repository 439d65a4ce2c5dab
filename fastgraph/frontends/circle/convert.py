"""A checked file to a Graph: its operators by their rules, its sub-graphs where they are called."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ...errors import GraphError, InputError, ModelError, UnsupportedError
from ...ir import Graph, Node, State, TensorType, Value
from ...ir.quantization import is_upright, upright
from ...limits import current, expanded
from ...ops.evaluate import computes_reals
from ..core.call import agree
from ..core.reader import DEPTH_LIMIT, MISFITS, misfit, unique
from .call import Call
from .options import Options, options_of
from .reader import BIGGEST, Reader, Wanted, touched
from .registry import custom_rule_of
from .scope import Scope
from .signatures import signature, translate
from .tensors import custom_options
from .wire import Table

UNCHECKED = frozenset({"SQUEEZE"})
"""Operators whose declared shapes TFLite's users get wrong: what a SQUEEZE without dimensions drops."""

_ADVICE = (
    "convert the model without them, register what computes custom operators (fastgraph.register_custom_op), "
    "or run it with LiteRT"
)


def to_graph(model: Table, function: str | None = None, wanted: Wanted = Wanted()) -> Graph:  # noqa: B008
    """The graph of the signature `function`, by default of sub-graph 0. One UnsupportedError names all that is not
    supported, InputError the signatures that there are.
    """
    reader = Reader(model, wanted)
    if not len(reader.subgraphs):
        raise ModelError(f"{reader.source}: expected a model with at least one sub-graph, found none")
    told = _signature(model, 0) if function is None else _named(model, function)
    index = 0 if told is None else told.subgraph_index
    reader.check(index, f"{reader.source}: signature {function!r}")
    reader.active = [index]
    for entry in model.metadata:
        if entry.name == "COMPRESSION_METADATA":
            reader.lacks("constants compressed for TensorFlow Lite Micro")
    try:
        scope = Scope(reader, index)
        graph = _main(scope, told)
        if wanted.names is not None:
            wanted.names.update((tensor, value.name) for tensor, value in scope.values.items() if value.data is None)
    except UnsupportedError as error:
        reader.lacks(error)
    reader.refuse(reader.source, _ADVICE)
    if not reader.upright:
        _turn_upright(graph, {})
    graph.interface.metadata = {"description": model.description, "buffers": [each.name for each in model.metadata]}
    return graph


def _turn_upright(graph: Graph, turned: dict[Value, Value]) -> None:
    """Let no constant that stands for reals have scales below 0: kernels round and clamp by ones above."""
    for node in graph.nodes:
        for inner in node.graphs:
            _turn_upright(inner, turned)
        if not computes_reals(node):
            continue
        for v in node.inputs:
            if v is not None and v.data is not None and v.type.quant is not None and not is_upright(v.type.quant):
                if v not in turned:
                    current().hold(v.data.nbytes, v.name)
                    turned[v] = Value.constant(v.name, *upright(v.data, v.type.quant))
        node.inputs = [v if v is None else turned.get(v, v) for v in node.inputs]


def _main(scope: Scope, told: Table | None) -> Graph:
    reader, ins, outs = scope.reader, scope.table.inputs, scope.table.outputs
    entries: list[list[tuple[int, str]]] = [[], []]
    if told is not None:
        entries = [[(m.tensor_index, m.name) for m in maps] for maps in (told.inputs, told.outputs)]
    named = [scope.tensor(index)[0].name for index in ins]
    for value, name in zip(scope.inputs, _interface(ins, named, entries[0]), strict=True):
        value.name = name
    wanted = _interface(outs, [scope.tensor(index)[0].name for index in outs], entries[1])
    reader.take(*wanted, *(v.name for v in scope.inputs))
    scope.names = dict(zip(outs[::-1], wanted[::-1], strict=True))
    for place, operator in enumerate(scope.table.operators):
        _operator(scope, place, operator)
    outputs = [_output(scope, value, name) for value, name in zip(scope.outputs(), wanted, strict=True)]
    kept = [] if reader.unsupported else _states(scope)
    shapes = {v.name: tuple(scope.table.tensors[i].shape) for i, v in zip(ins, scope.inputs, strict=True)}
    usual = {name: shape for name, shape in shapes.items() if shape and min(shape) >= 0}
    return Graph(scope.name, scope.inputs, outputs, scope.nodes, reader.source, kept, usual)


def _states(scope: Scope) -> list[State]:
    """The main graph's states. What it only reads becomes a constant."""
    found = []
    if scope.reader.wanted.shared:
        for key in [key for key in scope.current if key not in scope.first and _used_elsewhere(scope, key)]:
            scope.first[key] = Value(scope.reader.unique(key), scope.reader.types[key])
    for key, value in scope.first.items():
        value.type, initial = _initial(scope, key, value)
        after = scope.current[key]
        if after is value and scope.reader.wanted.shared and _used_elsewhere(scope, key):
            after = _output(scope, value, f"{value.name}:kept")
        if after is value:
            value.data = initial
        else:
            found.append(State(value, after, initial))
    return found


def _initial(scope: Scope, key: str, value: Value) -> tuple[TensorType, np.ndarray]:
    """A variable's type and what it holds before the first run.

    A variable tensor begins with zeros; an int8 one, as LiteRT has it, with its zero point.
    """
    reader = scope.reader
    given = reader.initial.get(key)
    if given is not None and given.data is not None:
        return given.type, given.data
    type = value.type if value.type.dtype is not None else reader.types.get(key, value.type)
    if not key.startswith("variable tensor ") and not _used_elsewhere(scope, key):
        raise ModelError(
            f"{scope.where}: {key!r} is read before anything gave it a value; "
            "the model wants an initialization by CALL_ONCE"
        )
    if not type.concrete or type.nbytes > BIGGEST:
        raise ModelError(
            f"{scope.where}: expected a shape and element type of {key!r}, and at most {BIGGEST} bytes, found {type}"
        )
    start = type.quant.zero_point[0] if type.quant is not None and type.dtype == np.int8 else 0
    start = max(-128, min(127, start))
    return type, np.broadcast_to(np.array(start, type.dtype), type.dims)


def _used_elsewhere(scope: Scope, key: str) -> bool:
    """Whether another signature uses a variable; one that only such a one gives a value is zeros until then."""
    others = {s.subgraph_index for s in scope.reader.model.signature_defs} - {scope.index}
    return bool(others) and key in touched(scope.reader, tuple(others), scope.where)


def _named(model: Table, key: str) -> Table:
    """The signature of that key. InputError with the keys that there are."""
    found = {s.signature_key: s for s in model.signature_defs}
    if key not in found:
        names = f"the signatures are {', '.join(found)}" if found else "the file has no signatures"
        raise InputError(f"{model.wire.source}: no signature is called {key!r}, {names}")
    return found[key]


def _signature(model: Table, subgraph: int) -> Table | None:
    """The signature of a sub-graph: TensorFlow's default one, else the first."""
    found = [s for s in model.signature_defs if s.subgraph_index == subgraph]
    named = [s for s in found if s.signature_key == "serving_default"]
    return next(iter(named + found), None)


def _interface(tensors: Sequence[int], names: Sequence[str], entries: Sequence[tuple[int, str]]) -> list[str]:
    """A name for each tensor of an interface, all different.

    `names` are those of the tensors, `entries` a signature's: (tensor, name). Names are taken from it when it has one
    for each of the tensors.
    """
    told: dict[int, list[str]] = {}
    for tensor, name in entries:
        told.setdefault(tensor, []).append(name)
    if all(told.get(tensor) for tensor in tensors):
        names = [told[tensor].pop(0) if len(told[tensor]) > 1 else told[tensor][0] for tensor in tensors]
    taken: dict[str, int] = {}
    return [unique(taken, name or f"tensor_{tensor}") for tensor, name in zip(tensors, names, strict=True)]


def _output(scope: Scope, value: Value, name: str) -> Value:
    """The value under the name of an output: what else has a name already is copied."""
    if value.name == name:
        return value
    renamed = Value(name, value.type)
    scope.nodes.append(Node("identity", [value], [renamed], {}, f"{name}:name"))
    return renamed


def _subgraph(reader: Reader, index: int, args: Sequence[Value | None], resources: Sequence[str], caller: str) -> Graph:
    """Sub-graph `index`, as `Call.subgraph` says."""
    reader.check(index, caller)
    if index in reader.active:
        raise ModelError(f"{caller}: sub-graph {index} calls itself; the format does not allow recursion")
    if len(reader.active) > DEPTH_LIMIT:
        raise ModelError(f"{caller}: sub-graphs call one another more than {DEPTH_LIMIT} deep")
    if not reader.active:
        current().expand(expanded(index, partial(_calls, reader, caller)), caller)
    current().count(32, caller)
    reader.active.append(index)
    try:
        scope = Scope(reader, index, args, caller)
        before = [scope.present(key) for key in resources]
        for place, operator in enumerate(scope.table.operators):
            _operator(scope, place, operator)
        outputs = [*scope.outputs(), *(scope.current[key] for key in resources)]
    finally:
        reader.active.pop()
    missed = set(scope.first) - set(resources)
    if missed:
        raise UnsupportedError(f"{caller.rpartition('operator ')[2]} of a sub-graph that uses {sorted(missed)[0]}")
    return Graph(scope.name, [*scope.inputs, *before], outputs, scope.nodes, reader.source)


def _calls(reader: Reader, caller: str, index: int) -> tuple[int, list[int]]:
    """How much there is in a sub-graph itself, and the sub-graphs that it calls, as often as it does."""
    touched(reader, (index,), caller)
    own = sum(1 + len(operator.inputs) + len(operator.outputs) for operator in reader.subgraphs[index].operators)
    return own, reader.uses[index][1]


# operators


def _operator(scope: Scope, place: int, operator: Table) -> None:
    reader = scope.reader
    where = scope.label(place, operator)
    inputs, outputs = operator.inputs, operator.outputs
    current().count(8 + len(inputs) + len(outputs), where)
    for index in (*inputs, *outputs):
        if not -1 <= index < len(scope.tensors):
            raise ModelError(
                f"{where}: expected tensors from -1 (none) to {len(scope.tensors) - 1}, found {index}; "
                "the file was not written correctly"
            )
    made = [Value(reader.unique("unknown")) for _ in outputs]
    try:
        reads = [None if index < 0 else scope.read(index) for index in inputs]
        made = [Value(reader.unique("unread")) if index < 0 else scope.declared(index) for index in outputs]
        call = Call(scope, place, operator, reads, made, _subgraph)
        _translate(operator, scope.code(operator).custom, call)
    except UnsupportedError as error:
        within = f" of sub-graph {scope.index}" if scope.index else ""
        makes = f", which makes {made[0].name!r}" if made else ""
        reader.lacks(error, f"operator {place}{within}{makes}")
    for index, value in zip(outputs, made, strict=True):
        if index >= 0:
            scope.bind(index, value)


def _translate(operator: Table, custom: bool, call: Call) -> None:
    op, nodes = call.op, call.scope.nodes
    if custom:
        call.is_custom, call.custom_options = True, custom_options(operator, call.where)
        call.options = Options(Table(operator.wire, "RankOptions", None))
    told, rule = signature(op, custom), custom_rule_of(op) if custom else None
    if rule is None and told is None:
        raise UnsupportedError(f"custom operator {op!r}" if custom else op)
    declared, begun = [value.type for value in call.outputs], len(nodes)
    try:
        if not custom:
            call.options = options_of(operator, op, call.where)
        with call:
            if rule is not None:
                rule(call)
            elif told is not None:
                translate(call, told)
    except MISFITS as error:
        raise misfit(call.where, "inputs or options", error) from error
    current().count(4 * (len(nodes) - begun), call.where)
    written = {value for node in nodes[begun:] for value in node.outputs}
    if not written.issuperset(call.outputs):
        raise GraphError(f"{call.where}: its rule does not make all of its outputs")
    _check(call, declared)


def _check(call: Call, declared: Sequence[TensorType]) -> None:
    """ModelError where the type that follows for an output is not the one that the file declares."""
    for value, said in zip(call.outputs, declared, strict=True):
        shapes = call.op in UNCHECKED or agree(value.type.shape, said.shape)
        if (said.dtype is not None and value.type.dtype != said.dtype) or not shapes:
            call.fail(f"expected its output {value} to be declared {value.type}, found {said}")
