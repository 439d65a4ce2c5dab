"""Compositions in a composition: as the branches of an If, or as the body of a Loop or a Scan, which ONNX has.

An operator of the kind `inside` has as attributes:
how    "if" (operands: a flag of 0 or 1, then what both read), "loop" (what is carried; `trips` rounds), "calls" (of a
       function, `trips` times in turn) or "scan" (of what is carried, and of a sequence along `axis` whose slices are
       added to it)
nets   compositions of one input and one output
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .composition import Composition, Op, Shape
from .quantized import one_in
from .shapes import need

if TYPE_CHECKING:
    from .write_onnx import Writer

OWN = "own"
"""The domain of functions."""

Kind = int | Shape
"""The element type of a scalar, or the shape of floats."""


def shape_of(shapes: list[Shape], a: dict[str, Any]) -> Shape:
    x = shapes[1] if a["how"] == "if" else shapes[0]
    for net in a["nets"]:
        (given,) = (i.shape for i in net.inputs.values())
        made = net.shapes()[net.outputs[0]]
        need(given == x and made == x, "another shape inside")
    if a["how"] == "scan":
        rows = shapes[1]
        need(rows[: a["axis"]] + rows[a["axis"] + 1 :] == x, "slices")
    return x


def write(w: Writer, op: Op, inputs: list[str]) -> None:
    a, out = op.attrs, op.outputs[0]
    if a["how"] == "calls":
        return _calls(w, op, inputs[0])
    bodies = [_body(w, net, f"{out}.{i}") for i, net in enumerate(a["nets"])]
    (shape,) = (given.shape for given in a["nets"][0].inputs.values())
    match a["how"]:
        case "if":
            flag = w.add("Cast", [w.add("Squeeze", inputs[:1])], to=TensorProto.BOOL)
            ways = [_graph(body, [], [(last, shape)], inputs[1], first) for body, first, last in bodies]
            w.add("If", [flag], op.outputs, then_branch=ways[0], else_branch=ways[1])
        case "loop":
            nodes, first, last = bodies[0]
            go, kept = f"{out}.go", f"{out}.kept"
            nodes = [*nodes, helper.make_node("Identity", [go], [kept])]
            given = [(f"{out}.i", TensorProto.INT64), (go, TensorProto.BOOL), (first, shape)]
            body = _graph(nodes, given, [(kept, TensorProto.BOOL), (last, shape)])
            w.add("Loop", [w.const(np.array(a["trips"], np.int64)), "", inputs[0]], op.outputs, body=body)
        case _:
            nodes, first, last = bodies[0]
            state, row = f"{out}.state", f"{out}.row"
            nodes = [helper.make_node("Add", [state, row], [first]), *nodes]
            body = _graph(nodes, [(state, shape), (row, shape)], [(last, shape)])
            w.add("Scan", inputs, op.outputs, body=body, num_scan_inputs=1, scan_input_axes=[a["axis"]])


def _calls(w: Writer, op: Op, x: str) -> None:
    """A function has its own constants."""
    out = op.outputs[0]
    nodes, first, last = _body(w, op.attrs["nets"][0], f"{out}.0", alone=True)
    domains = sorted({"", *(node.domain for node in nodes)})
    imports = [helper.make_opsetid(domain, 1 if domain else w.opset) for domain in domains]
    w.functions.append(helper.make_function(OWN, out, [first], [last], nodes, imports))
    for i in range(op.attrs["trips"]):
        y = out if i == op.attrs["trips"] - 1 else f"{out}.call{i}"
        x = w.add(out, [x], y, domain=OWN)


def _body(w: Writer, net: Composition, prefix: str, alone: bool = False) -> tuple[list[onnx.NodeProto], str, str]:
    """(nodes, the name of what they read, the name of what they make). Nothing inside is quantized.

    Constants that what lies around has too are read there, and some others; none if it stands `alone`.
    """
    from .write_onnx import Writer

    inner = Writer(net, w.half, w.dtype, w.opset)
    for op in net.ops:
        inner.op(op)

    shared = (
        [] if alone else [name for held, name in inner.names.items() if held in w.names or one_in(prefix + name, 3)]
    )
    around = {name: w.const(numpy_helper.to_array(inner.constants[name])) for name in shared}

    def called(name: str) -> str:
        return around.get(name) or (name and f"{prefix}.{name}")

    def rename(node: onnx.NodeProto) -> onnx.NodeProto:
        node.input[:], node.output[:] = map(called, node.input), map(called, node.output)
        for graph in (attr.g for attr in node.attribute if attr.HasField("g")):
            for part in (*graph.input, *graph.output):
                part.name = called(part.name)
            for other in graph.node:
                rename(other)
        return node

    nodes = []
    for name, tensor in inner.constants.items():
        if name in around:
            continue
        tensor.name = ""
        nodes.append(helper.make_node("Constant", [], [called(name)], value=tensor))
    nodes += map(rename, inner.nodes)
    (first,) = net.inputs
    return nodes, called(first), called(net.outputs[0])


def _graph(
    nodes: list[onnx.NodeProto], inputs: list[tuple[str, Kind]], outputs: list[tuple[str, Kind]], outer: str = "",
    first: str = "",
) -> onnx.GraphProto:  # fmt: skip
    """`outer`: what a body without inputs reads of what is around, under the name `first`."""

    def info(name: str, kind: Kind) -> onnx.ValueInfoProto:
        dtype, shape = (kind, ()) if isinstance(kind, int) else (TensorProto.FLOAT, kind)
        return helper.make_tensor_value_info(name, dtype, shape)

    if outer:
        nodes = [helper.make_node("Identity", [outer], [first]), *nodes]
    return helper.make_graph(nodes, "body", *([info(*item) for item in part] for part in (inputs, outputs)))
