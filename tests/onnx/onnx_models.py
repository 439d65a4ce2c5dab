"""Small ONNX models for the tests of the frontend."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fastgraph.frontends.onnx import read
from fastgraph.ir import Graph, check
from fastgraph.ops.evaluate import evaluate

F32 = TensorProto.FLOAT


def info(name: str, shape: Sequence[Any] | None = None, kind: int = F32) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def graph_of(
    nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[str], constants: dict[str, Any] | None = None
) -> onnx.GraphProto:
    """`inputs`: ValueInfos, or names of float tensors of unknown rank."""
    infos = [i if isinstance(i, onnx.ValueInfoProto) else info(i) for i in inputs]
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    return helper.make_graph(nodes, "g", infos, [info(n) for n in outputs], tensors)


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: list[Any],
    outputs: list[str],
    constants: dict[str, Any] | None = None,
    opset: int = 21,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    graph = graph_of(nodes, inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def one(
    op: str, inputs: list[Any], opset: int, constants: dict[str, Any] | None = None, outputs: int = 1, **attrs: Any
):
    """A model of one node that reads `inputs`, then `constants`; "" stands for an absent input."""
    names = [i.name if isinstance(i, onnx.ValueInfoProto) else i for i in inputs]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, [*names, *(constants or {})], results, **attrs)
    return model_of([node], [i for i in inputs if i != ""], results, constants, opset)


def load(model: onnx.ModelProto) -> Graph:
    graph = read(model.SerializeToString(), "test.onnx")
    check(graph)
    return graph


def run(model: onnx.ModelProto, *arrays: np.ndarray) -> list[Any]:
    """What the graph gives by the operators' references, for its inputs in order."""
    graph = load(model)
    return evaluate(graph, {v.name: a for v, a in zip(graph.inputs, arrays, strict=True)})


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]
