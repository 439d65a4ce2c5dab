"""ONNX networks as they are before quantization: names, shapes, constants, batch normalization folded."""

from __future__ import annotations

import os
from collections import Counter
from importlib import import_module
from typing import Any

import numpy as np

from ..errors import FastgraphError, ModelError

LAYERS = ("Conv", "Gemm", "MatMul", "ConvTranspose")
"""Operators with weights, whose quantization decides about accuracy."""


def opened(path: str | os.PathLike[str]) -> Any:
    """The ModelProto of a float network: opset 13 at least, every node named, shapes inferred, batch normalization
    folded. ModelError where it is no ONNX file, or quantized already.
    """
    onnx = library("onnx")
    try:
        model = onnx.load(os.fspath(path))
    except OSError:
        raise
    except Exception as error:
        raise ModelError(f"{path}: expected a float network as ONNX, which alone can be quantized ({error})") from error
    if any(node.op_type in ("QuantizeLinear", "QLinearConv", "QLinearMatMul") for node in model.graph.node):
        raise ModelError(f"{path}: is quantized already; give the float network that it was made of")
    if opset(model) < 13:
        model = library("onnx.version_converter").convert_version(model, 13)
    names: set[str] = set()
    for i, node in enumerate(model.graph.node):
        if not node.name or node.name in names:
            node.name = f"{node.op_type}_{i}_{node.output[0]}"
        names.add(node.name)
    fixed = constants(model).keys()
    inputs = [each for each in model.graph.input if each.name not in fixed]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    _as_initializers(model)
    _without_identities(model)
    _fold(model)
    return onnx.shape_inference.infer_shapes(model)


def opset(model: Any) -> int:
    """The version of ai.onnx that a model uses."""
    return next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 1)


def constants(model: Any) -> dict[str, Any]:
    """The initializers by name, TensorProtos."""
    return {tensor.name: tensor for tensor in model.graph.initializer}


def array(tensor: Any) -> np.ndarray:
    return library("onnx.numpy_helper").to_array(tensor)


def replace(tensor: Any, data: np.ndarray) -> None:
    """Give an initializer other numbers."""
    tensor.CopyFrom(library("onnx.numpy_helper").from_array(np.ascontiguousarray(data), tensor.name))


def add_constant(model: Any, name: str, data: np.ndarray) -> str:
    model.graph.initializer.append(library("onnx.numpy_helper").from_array(np.ascontiguousarray(data), name))
    return name


def uses(model: Any) -> Counter[str]:
    """How often each value is read, by nodes and as an output of the network."""
    found = Counter(name for node in model.graph.node for name in node.input)
    found.update(each.name for each in model.graph.output)
    return found


def attribute(node: Any, name: str, usual: Any) -> Any:
    found = next((each for each in node.attribute if each.name == name), None)
    return usual if found is None else library("onnx.helper").get_attribute_value(found)


def own_copy(model: Any, node: Any, index: int, count: Counter[str]) -> Any:
    """The initializer that a node reads, for it alone: one that others read too is copied first."""
    name = node.input[index]
    tensor = constants(model)[name]
    if count[name] > 1:
        count[name] -= 1
        node.input[index] = add_constant(model, f"{name}_of_{node.name}", array(tensor))
        tensor = constants(model)[node.input[index]]
        count[tensor.name] = 1
    return tensor


def _as_initializers(model: Any) -> None:
    """Constant nodes of tensors become initializers, where weights are looked for."""
    kept = []
    for node in model.graph.node:
        value = attribute(node, "value", None) if node.op_type == "Constant" else None
        if value is None:
            kept.append(node)
        else:
            tensor = model.graph.initializer.add()
            tensor.CopyFrom(value)
            tensor.name = node.output[0]
    set_nodes(model, kept)


def _without_identities(model: Any) -> None:
    """Identity and inference's Dropout go, but for outputs of the network: exporters write them where layers share
    weights, which then are no initializers.
    """
    outputs, same, kept = {each.name for each in model.graph.output}, dict[str, str](), []
    for node in model.graph.node:
        node.input[:] = [same.get(name, name) for name in node.input]
        passes = node.op_type == "Identity" or node.op_type == "Dropout" and len(node.input) < 3
        if passes and not outputs.intersection(node.output):
            same[node.output[0]] = node.input[0]
        else:
            kept.append(node)
    set_nodes(model, kept)


def _fold(model: Any) -> None:
    """Batch normalizations of constants behind a convolution that nothing else reads become part of its weights."""
    known, count = constants(model), uses(model)
    makers = {node.output[0]: node for node in model.graph.node if node.op_type == "Conv"}
    kept = []
    for node in model.graph.node:
        conv = makers.get(node.input[0]) if node.op_type == "BatchNormalization" and node.input else None
        read = [*node.input[1:5], *(conv.input[1:] if conv is not None else ())]
        if conv is None or count[node.input[0]] != 1 or not all(name in known for name in read):
            kept.append(node)
            continue
        scale, shift, mean, variance = (array(known[name]).astype(np.float64) for name in node.input[1:5])
        factor = scale / np.sqrt(variance + attribute(node, "epsilon", 1e-5))
        weights = array(own_copy(model, conv, 1, count)).astype(np.float64)
        bias = array(known[conv.input[2]]).astype(np.float64) if len(conv.input) > 2 else 0.0
        shape = (-1, *[1] * (weights.ndim - 1))
        replace(constants(model)[conv.input[1]], (weights * factor.reshape(shape)).astype(np.float32))
        name = add_constant(model, f"{conv.name}_folded_bias", ((bias - mean) * factor + shift).astype(np.float32))
        conv.input[:] = [conv.input[0], conv.input[1], name]
        conv.output[0] = node.output[0]
        known = constants(model)
    set_nodes(model, kept)


def set_nodes(model: Any, nodes: list[Any]) -> None:
    """Let these be the nodes, in their order."""
    copies = [library("onnx").NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def library(name: str) -> Any:
    """The module; FastgraphError, with how to install it, where it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = (error.name or name).split(".")[0]
        raise FastgraphError(f"{package}: not installed: pip install 'fastgraph-runtime[quantize]'") from None
