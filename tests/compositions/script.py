"""A failing composition as a script that runs by itself, or (other formats than plain ONNX) beside the tests."""

from __future__ import annotations

import inspect

from onnx import helper, numpy_helper

from .composition import Composition, Const
from .write_onnx import Writer

HEAD = """\
from dataclasses import dataclass, replace
import numpy as np, onnxruntime as ort, fastgraph as fg
from onnx import helper as h, numpy_helper as nh

"""
TAIL = """\
x = {{{feeds}}}
want = ort.InferenceSession(source, providers=["CPUExecutionProvider"]).run(None, x)
for name, a, b in zip({outputs}, fg.load(source, threads=1).run(x).values(), want):
    print(name, a.shape, "off by", np.abs(a - b).max(), "of", np.abs(b).max())
"""
BESIDE = """\
from tests.compositions.composition import Composition, Const, Input, Op
from tests.compositions.job import attempt
from tests.compositions.nodes import Body

net = {net}
attempt(net, {form!r}, {variants!r})
"""


def script(net: Composition, form: str, variants: tuple[str, ...]) -> str:
    """Of both kinds, when there are both: what has graphs or functions of its own is only written beside the tests."""
    beside = BESIDE.format(net=net, form=form, variants=variants)
    model = Writer(net).model()
    graphs = model.functions or any(a.HasField("g") for node in model.graph.node for a in node.attribute)
    if form != "onnx f32" or graphs:
        return beside
    return by_itself(net) + "\n# or, with the variants, beside the tests:\n" + beside


def by_itself(net: Composition) -> str:
    writer = Writer(net)
    model = writer.model()
    const = inspect.getsource(Const).replace("shape: Shape", "shape: tuple")
    lines = [HEAD + const, "consts = {"]
    for tensor in model.graph.initializer:
        made = net.consts.get(tensor.name)
        array = numpy_helper.to_array(tensor)
        said = f"{made!r}.array()" if made else f"np.array({array.tolist()}, np.{array.dtype})"
        lines.append(f"    {tensor.name!r}: {said},")
    lines += ["}", "nodes = ["]
    for node in model.graph.node:
        attrs = "".join(f", {a.name}={helper.get_attribute_value(a)!r}" for a in node.attribute)
        names = f"{list(node.input)}, {list(node.output)}" + (f", domain={node.domain!r}" if node.domain else "")
        lines.append(f"    h.make_node({node.op_type!r}, {names}{attrs}),")
    lines.append("]")
    inputs = [f"h.make_tensor_value_info({n!r}, {7 if i.below else 1}, {list(i.shape)})" for n, i in net.inputs.items()]
    outputs = [f"h.make_tensor_value_info({n!r}, 1, None)" for n in net.outputs]
    lines.append(f"graph = h.make_graph(nodes, 'g', [{', '.join(inputs)}],\n    [{', '.join(outputs)}],")
    lines.append("    [nh.from_array(a, n) for n, a in consts.items()])")
    imports = ", ".join(f"h.make_opsetid({i.domain!r}, {i.version})" for i in model.opset_import)
    lines.append(
        f"source = h.make_model(graph, opset_imports=[{imports}], ir_version={model.ir_version}).SerializeToString()"
    )
    lines.append("r = np.random.default_rng(0)")
    feeds = ", ".join(
        f"{n!r}: r.integers(0, {i.below}, {i.shape})"
        if i.below
        else f"{n!r}: r.standard_normal({i.shape}).astype('f4')"
        for n, i in net.inputs.items()
    )
    return "\n".join(lines) + "\n" + TAIL.format(feeds=feeds, outputs=net.outputs)
