"""ModelProto to Graph: names to values, nodes to canonical nodes, functions and sub-graphs in scopes."""

from __future__ import annotations

import warnings
from typing import Any

from ...errors import ModelError, UnsupportedError
from ...ir import Graph, Value
from ...limits import current, expanded
from ...ops.registry import USERS
from ..core.reader import DEPTH_LIMIT, MISFITS, misfit
from .attributes import GRAPH, GRAPHS, decode, kind_of
from .call import Call
from .interface import define_initializers, define_inputs, interface_of, named_output
from .order import graphs_of, in_order
from .reader import Reader
from .rules import check_known, translate
from .scope import Scope, check_new, check_text, readable
from .signatures import NEWEST
from .split import Held
from .wire import Message


def to_graph(model: Message, source: str, path: str | None, held: Held | None = None) -> Graph:
    """The graph of a parsed file. `held` comes from `split.hold_back`.

    Raises ModelError for a broken file and one UnsupportedError that names everything that is not supported.
    """
    functions = {(_domain(f.domain), f.name, f.overload): f for f in model.functions}
    reader = Reader(source, path, functions)
    if functions:
        current().expand(expanded(None, lambda key: _uses(functions, key, model.graph)), source)
    opsets = _opsets(model.opset_import, source)
    if not opsets and model.ir_version < 3:
        opsets = {"": 1}
    scope = Scope(f"{source}: graph {readable(model.graph.name)!r}", opsets)
    graph = _graph(reader, scope, model.graph, held)
    graph.source = source
    graph.interface.metadata = _metadata(model, opsets)
    newest, advice = opsets.get("", 0), "export it without them"
    if newest > NEWEST:
        advice = f"its operator set {newest} is newer than {NEWEST}: export for {NEWEST} or below"
    if "com.microsoft.nchwc" in opsets:
        advice = (
            "onnxruntime saved it for the CPU that it ran on: save it with ORT_ENABLE_EXTENDED, or take the first file"
        )
    advice += ", register what computes them (fastgraph.register_custom_op), or run that part with onnxruntime"
    reader.refuse(source, advice)
    if newest > NEWEST:
        warnings.warn(
            f"{source}: its operator set {newest} is newer than {NEWEST}, the newest that is known: operators are "
            f"taken to mean what they do there; export for {NEWEST}, or compare with another engine (fastgraph verify)",
            RuntimeWarning,
            stacklevel=2,
        )
    return graph


def _metadata(model: Message, opsets: dict[str, int]) -> dict[str, Any]:
    """The file's description of itself, as fields of `Model.metadata`."""
    said = {
        "description": model.doc_string, "version": str(model.model_version) if model.HasField("model_version") else "",
        "domain": model.domain, "producer": model.producer_name, "producer_version": model.producer_version,
        "graph": model.graph.name, "graph_description": model.graph.doc_string,
    }  # fmt: skip
    texts = {key: readable(text) for key, text in said.items()}
    custom = {readable(entry.key): readable(entry.value) for entry in model.metadata_props}
    return {**texts, "opsets": {name or "ai.onnx": version for name, version in opsets.items()}, "custom": custom}


def _uses(
    functions: dict[tuple[str, str, str], Message], key: tuple[str, str, str] | None, graph: Message
) -> tuple[int, list[tuple[str, str, str]]]:
    """How much there is in a function (None: the graph) itself, and the functions it calls, as often as it does."""
    count, called = (0, []) if key is None else (_length(functions[key]), [])
    waiting = list(graph.node if key is None else functions[key].node)
    while waiting:
        node = waiting.pop()
        count += 1 + len(node.input) + len(node.output) + len(node.attribute)
        name = _domain(node.domain), node.op_type, node.overload
        if name in functions:
            called.append(name)
        waiting += [inner for each in graphs_of(node) for inner in each.node]
    return count, called


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _opsets(imports: Message, where: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in imports:
        check_text(f"{where}: operator sets", item.domain)
        if item.version < 1:
            raise ModelError(f"{where}: expected operator set versions from 1 on, found {item.domain!r} {item.version}")
        found[_domain(item.domain)] = item.version
    return found


def _graph(reader: Reader, scope: Scope, proto: Message, held: Held | None = None) -> Graph:
    if scope.depth > DEPTH_LIMIT:
        raise ModelError(f"{scope.where}: graphs and functions lie more than {DEPTH_LIMIT} deep in one another")
    top = scope.outer is None
    define_initializers(reader, scope, proto, top, held)
    given = define_inputs(reader, scope, proto, top)
    _body(reader, scope, proto.node)
    outputs = [named_output(scope, info) for info in proto.output]
    graph = Graph(readable(proto.name), given, outputs, scope.nodes)
    if top:
        graph.interface = interface_of(scope, proto, given)
    return graph


def _body(reader: Reader, scope: Scope, nodes: Message) -> None:
    given = set(scope.values)
    for node in nodes:
        for name in filter(None, node.output):
            check_new(given, name, f"{scope.where}: node {node.name or node.op_type!r}")
            given.add(name)
    for index, node in in_order(list(nodes), scope.where):
        current().count(1 + len(node.input) + len(node.output) + len(node.attribute), scope.where)
        name = readable(node.name)
        label = f"node {name!r}" if name else f"node #{index}"
        where = f"{scope.where}: {label} ({node.op_type})"
        try:
            _node(reader, scope, node, where, label, name or f"{node.op_type}_{index}")
        except MISFITS as error:
            raise misfit(where, "inputs or attributes", error) from error


def _node(reader: Reader, scope: Scope, node: Message, where: str, label: str, name: str) -> None:
    check_text(where, node.op_type, node.domain, node.overload)
    domain = _domain(node.domain)
    inputs = [_read(scope, n, where) for n in node.input]
    function = reader.functions.get((domain, node.op_type, node.overload))
    if function is not None and (not domain or (domain, node.op_type) not in USERS):
        _inline(reader, scope, node, function, inputs, where)
        return
    version = scope.opsets.get(domain, 1 if domain else None)
    if version is None:
        raise ModelError(
            f"{where}: expected its domain {domain or 'ai.onnx'!r} in opset_import, "
            f"found {sorted(scope.opsets)}; the file was not written correctly"
        )
    op = f"{domain}.{node.op_type}" if domain else node.op_type
    call = Call(op, version, inputs, list(node.output), where, reader, scope.nodes, name)
    try:
        check_known(domain, op)
        _attributes(reader, scope, node, call)
        with call:
            results = translate(domain, call)
    except UnsupportedError as error:
        reader.lacks(error, where.removeprefix(f"{reader.source}: ") if scope.depth else label)
        results = [Value(n) for n in node.output]
    _bind(scope, call, list(node.output), results)


def _read(scope: Scope, name: str, where: str) -> Value | None:
    if not name:
        return None
    try:
        return scope.find(name)
    except KeyError:
        raise ModelError(
            f"{where}: it reads {name!r}, which nothing defines; the file was not written correctly"
        ) from None


def _attributes(reader: Reader, scope: Scope, node: Message, call: Call) -> None:
    for attr in node.attribute:
        name = attr.name
        check_text(call.where, name)
        if name in call.attrs:
            call.fail(f"its attribute {name!r} is given twice")
        if attr.ref_attr_name:
            if scope.refs is None:
                call.fail(f"its attribute {name!r} refers to {attr.ref_attr_name!r}, but is not in a function")
            if attr.ref_attr_name not in scope.refs:
                continue
            attr, written = scope.refs[attr.ref_attr_name]
        else:
            written = scope
        kind = kind_of(attr)
        if kind in (GRAPH, GRAPHS):
            protos = [attr.g] if kind == GRAPH else attr.graphs
            if written is not scope:  # a further copy of a sub-graph
                current().count(32, call.where)
                current().expand(current().nodes, call.where)
            graphs = [_graph(reader, written.inner(f"{call.where}: {name}", scope.depth + 1), g) for g in protos]
            call.attrs[name] = tuple(graphs) if kind == GRAPHS else graphs[0]
        else:
            call.attrs[name], format = decode(attr, reader.path, call.where)
            if format:
                call.formats[name] = format


def _bind(scope: Scope, call: Call, names: list[str], results: list[Value]) -> None:
    """Give a node's results their names in the scope. A result may be a value that exists already."""
    for name, value in zip(names, results, strict=False):
        if not name:
            continue
        if value.name != name and (value in call.made):
            call.made.remove(value)
            value.name = name
        scope.values[name] = value
    for name in names[len(results) :]:
        if name:
            call.fail(f"expected at most {len(results)} outputs, found {len(names)}")


def _length(function: Message) -> int:
    """How much there is to do for a call, but for the nodes: lists of names, operator sets, numbers in attributes."""
    lists = [function.input, function.output, function.opset_import, function.attribute_proto]
    for node in function.node:
        for attr in node.attribute:
            lists += [attr.floats, attr.ints, attr.strings]
    return sum(map(len, lists))


def _inline(
    reader: Reader, scope: Scope, node: Message, function: Message, inputs: list[Value | None], where: str
) -> None:
    """Write a function's body in place of its call."""
    key = f"{function.domain}.{function.name}:{function.overload}"
    if key in scope.calls:
        raise ModelError(f"{where}: function {function.name!r} calls itself; ONNX does not allow recursion")
    if scope.depth > DEPTH_LIMIT:
        raise ModelError(f"{where}: graphs and functions lie more than {DEPTH_LIMIT} deep in one another")
    if len(inputs) > len(function.input) or len(node.output) > len(function.output):
        raise ModelError(
            f"{where}: expected at most {len(function.input)} inputs and {len(function.output)} outputs, "
            f"found {len(inputs)} and {len(node.output)}"
        )
    current().count(_length(function), where)
    opsets = {**scope.opsets, **_opsets(function.opset_import, where)}
    refs: dict[str, tuple[Message, Scope]] = {}
    body = Scope(where, opsets, None, refs, nodes=scope.nodes, depth=scope.depth + 1, calls=(*scope.calls, key))
    refs.update({attr.name: (attr, body) for attr in function.attribute_proto})
    for attr in node.attribute:
        if not attr.ref_attr_name:
            refs[attr.name] = (attr, scope)
        elif attr.ref_attr_name in (scope.refs or {}):
            refs[attr.name] = (scope.refs or {})[attr.ref_attr_name]
    body.values.update(dict.fromkeys(function.input))
    body.values.update(zip(function.input, inputs, strict=False))
    _body(reader, body, function.node)
    for name, formal in zip(node.output, function.output, strict=False):
        if not name:
            continue
        value = body.values.get(formal)
        if value is None:
            raise ModelError(f"{where}: nothing in function {function.name!r} gives its output {formal!r}")
        if value.data is None and value not in inputs:
            value.name = name
        scope.values[name] = value
