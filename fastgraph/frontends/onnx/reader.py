"""ModelProto to Graph: names to values, nodes to canonical nodes, functions and sub-graphs in scopes."""

from __future__ import annotations

from collections.abc import Container

from ...errors import ModelError, UnsupportedError
from ...ir import Graph, Node, Value
from .attributes import GRAPH, GRAPHS, decode, format_of, kind_of, type_of
from .call import Call
from .order import in_order
from .rules import MICROSOFT, translate
from .scope import Reader, Scope
from .signatures import NEWEST
from .split import Held
from .tensors import densify, to_array
from .wire import Message

DEPTH_LIMIT = 64
"""How deep graphs and functions may lie in one another."""

NODE_LIMIT = 250_000
"""Most nodes that a model may become once its functions are written out."""


def read_model(model: Message, source: str, folder: str | None, held: Held | None = None) -> Graph:
    """The graph of a parsed file. `held` comes from `split.hold_back`.

    Raises ModelError for a broken file and one UnsupportedError that names everything that is not supported.
    """
    functions = {(_domain(f.domain), f.name, f.overload): f for f in model.functions}
    reader = Reader(source, folder, functions)
    opsets = _opsets(model.opset_import, source)
    if not opsets and model.ir_version < 3:
        opsets = {"": 1}
    scope = Scope(f"{source}: graph {model.graph.name!r}", opsets)
    graph = _graph(reader, scope, model.graph, held)
    graph.source = source
    if reader.unsupported:
        raise UnsupportedError(_refusal(reader, opsets))
    return graph


def _refusal(reader: Reader, opsets: dict[str, int]) -> str:
    items = [
        what if count == 1 else f"{what} ({count} nodes)"
        for what, count in sorted(reader.unsupported.items())
    ]
    newer = opsets.get("", 0) > NEWEST
    advice = (
        f"; its operator set {opsets['']} is newer than {NEWEST}: export for {NEWEST} or below"
        if newer
        else ""
    )
    return (
        f"{reader.source}: not supported: {'; '.join(items)}{advice or '; export it without them'}"
        ", or run that part with onnxruntime"
    )


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _opsets(imports: Message, where: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in imports:
        _utf8(f"{where}: operator sets", item.domain)
        if item.version < 1:
            raise ModelError(
                f"{where}: expected operator set versions from 1 on, found {item.domain!r} {item.version}"
            )
        found[_domain(item.domain)] = item.version
    return found


def _graph(reader: Reader, scope: Scope, proto: Message, held: Held | None = None) -> Graph:
    if scope.depth > DEPTH_LIMIT:
        raise ModelError(
            f"{scope.where}: graphs and functions lie more than {DEPTH_LIMIT} deep in one another"
        )
    top = scope.outer is None
    formal = {v.name for v in proto.input}
    for i, tensor in enumerate(proto.initializer):
        if top or tensor.name not in formal:
            where = f"{reader.source}: initializer {tensor.name!r}"
            array = to_array(tensor, reader.folder, where, (held or {}).get(i))
            _define(scope, Value.constant(tensor.name, array), where)
            value = scope.values[tensor.name]
            assert value is not None
            _note(reader, value, array.ndim, tensor.data_type)
    for sparse in proto.sparse_initializer:
        where = f"{reader.source}: sparse initializer {sparse.values.name!r}"
        array = densify(sparse, reader.folder, where)
        value = Value.constant(sparse.values.name, array)
        reader.facts.ranks[value] = array.ndim
        _define(scope, value, where)
    inputs = _inputs(reader, scope, proto, top)
    _body(reader, scope, proto.node)
    outputs = [_output(scope, info) for info in proto.output]
    return Graph(proto.name, inputs, outputs, scope.nodes)


def _note(reader: Reader, value: Value, rank: int, data_type: int) -> None:
    from .elements import ELEMENTS

    reader.facts.ranks[value] = rank
    if ELEMENTS[data_type].format:
        reader.facts.formats[value] = ELEMENTS[data_type].format


def _inputs(reader: Reader, scope: Scope, proto: Message, top: bool) -> list[Value]:
    inputs: dict[Value, None] = {}
    for info in proto.input:
        known = scope.values.get(info.name)
        if top and known is not None and known.data is not None and known not in inputs:
            continue  # an initialiser that IR version 3 wants among the inputs
        where = f"{scope.where}: input {info.name!r}"
        value = Value(info.name, type_of(info.type, where))
        if top:
            if info.type.WhichOneof("value") is None:
                raise ModelError(f"{where}: it has no type; the file was not written correctly")
            if value.type.shape is not None:
                reader.facts.ranks[value] = len(value.type.shape)
        if name := format_of(info.type):
            reader.facts.formats[value] = name
        _define(scope, value, where)
        inputs[value] = None
    return list(inputs)


def _output(scope: Scope, info: Message) -> Value:
    try:
        value = scope.find(info.name)
    except KeyError:
        value = None
    where = f"{scope.where}: output {info.name!r}"
    if value is None:
        raise ModelError(
            f"{where}: no node, input or initializer gives it; the file was not written correctly"
        )
    declared = type_of(info.type, where)
    if value.name != info.name or info.name not in scope.values:
        renamed = Value(info.name, declared if value.data is None else value.type, value.data)
        if value.data is None:
            scope.nodes.append(Node("identity", [value], [renamed], {}, f"{info.name}:name"))
        return renamed
    if value.type.dtype is None:
        value.type = declared
    return value


def _define(scope: Scope, value: Value, where: str) -> None:
    if not value.name:
        raise ModelError(f"{where}: it has no name; the file was not written correctly")
    _fresh_name(scope.values, value.name, where)
    scope.values[value.name] = value


def _utf8(where: str, *names: str | bytes) -> None:
    for name in names:
        if isinstance(name, bytes):  # how protobuf gives text that is not UTF-8
            raise ModelError(f"{where}: expected names in UTF-8, found {name[:40]!r}")


def _fresh_name(taken: Container[str], name: str | bytes, where: str) -> None:
    _utf8(where, name)
    if name in taken:
        raise ModelError(f"{where}: it defines {name!r} a second time; every value needs a name of its own")


def _body(reader: Reader, scope: Scope, nodes: Message) -> None:
    given = set(scope.values)
    for node in nodes:
        for name in filter(None, node.output):
            _fresh_name(given, name, f"{scope.where}: node {node.name or node.op_type!r}")
            given.add(name)
    for index, node in in_order(list(nodes), scope.where):
        reader.count += 1
        if reader.count > NODE_LIMIT:
            raise ModelError(
                f"{scope.where}: more than {NODE_LIMIT} nodes once its functions are written out"
            )
        label = f"node {node.name!r}" if node.name else f"node #{index}"
        where = f"{scope.where}: {label} ({node.op_type})"
        try:
            _node(reader, scope, node, where, node.name or f"{node.op_type}_{index}")
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, AssertionError) as error:
            kind = type(error).__name__
            raise ModelError(
                f"{where}: inputs or attributes that do not fit together ({kind}: {error})"
            ) from error


def _node(reader: Reader, scope: Scope, node: Message, where: str, name: str) -> None:
    _utf8(where, node.op_type, node.domain, node.overload)
    domain = _domain(node.domain)
    inputs = [_read(scope, n, where) for n in node.input]
    function = reader.functions.get((domain, node.op_type, node.overload))
    if function is not None:
        _inline(reader, scope, node, function, inputs, where)
        return
    version = scope.opsets.get(domain)
    if version is None and domain:
        version = 1
    if version is None:
        raise ModelError(f"{where}: expected its domain {domain or 'ai.onnx'!r} in opset_import, "
                         f"found {sorted(scope.opsets)}; the file was not written correctly")  # fmt: skip
    op = node.op_type if domain in ("", MICROSOFT) else f"{domain}.{node.op_type}"
    call = Call(op, version, inputs, {}, list(node.output), where, reader.facts, scope.nodes, name)
    try:
        _attributes(reader, scope, node, call)
        results = translate(domain, call)
    except UnsupportedError as error:
        reader.unsupported[str(error)] += 1
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
        _utf8(call.where, name)
        if name in call.attrs:
            raise call.error(f"its attribute {name!r} is given twice")
        if attr.ref_attr_name:
            if scope.refs is None:
                raise call.error(
                    f"its attribute {name!r} refers to {attr.ref_attr_name!r}, but is not in a function"
                )
            if attr.ref_attr_name not in scope.refs:
                continue
            attr, written = scope.refs[attr.ref_attr_name]
        else:
            written = scope
        kind = kind_of(attr)
        if kind in (GRAPH, GRAPHS):
            protos = [attr.g] if kind == GRAPH else attr.graphs
            graphs = [_inner(reader, written, g, f"{call.where}: {name}", scope.depth) for g in protos]
            call.attrs[name] = tuple(graphs) if kind == GRAPHS else graphs[0]
        else:
            call.attrs[name], format = decode(attr, reader.folder, call.where)
            if format:
                call.formats[name] = format


def _inner(reader: Reader, scope: Scope, proto: Message, where: str, depth: int) -> Graph:
    inner = Scope(where, scope.opsets, scope, scope.refs, depth=depth + 1, calls=scope.calls)
    return _graph(reader, inner, proto)


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
            raise call.error(f"expected at most {len(results)} outputs, found {len(names)}")


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
    opsets = {**scope.opsets, **_opsets(function.opset_import, where)}
    refs: dict[str, tuple[Message, Scope]] = {}
    body = Scope(
        where, opsets, None, refs, nodes=scope.nodes, depth=scope.depth + 1, calls=(*scope.calls, key)
    )
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
