"""QDQ networks, as onnxruntime's quantization tool writes them for given ranges; and weights alone in few bits."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import FastgraphError
from .network import LAYERS, add_constant, array, attribute, constants, library, opset, set_nodes
from .ranges import Range

TYPES = {"int8": "QInt8", "uint8": "QUInt8"}
MOST = {8: 127, 4: 7}
"""The greatest stored weight, by bits: weights are symmetric."""


def operators() -> tuple[str, ...]:
    """The operators that onnxruntime's tool can quantize."""
    registry = library("onnxruntime.quantization.registry")
    return tuple(sorted({*registry.QLinearOpsRegistry, *registry.QDQRegistry}))


def with_ranges(
    model: Any, ranges: Mapping[str, Range], nodes: Collection[str], activations: str, per_channel: bool
) -> Any:
    """The QDQ network, a ModelProto: the named nodes on integers, weights uint8 around 128: without VNNI onnxruntime
    saturates sums of products by int8, while both compute these exactly.
    """
    tool, calibrate = library("onnxruntime.quantization"), library("onnxruntime.quantization.calibrate")
    data = {
        name: calibrate.TensorData(lowest=np.float32(min(low, 0.0)), highest=np.float32(max(high, 0.0)))
        for name, (low, high) in ranges.items()
    }
    copy = library("onnx").ModelProto.FromString(model.SerializeToString())
    _tell_types(copy, ranges)
    kind = getattr(tool.QuantType, TYPES[activations])
    method = calibrate.CalibrationMethod.MinMax
    root, level = logging.getLogger(), logging.getLogger().level
    root.setLevel(logging.ERROR)  # it warns of each tensor that it leaves as it is
    try:
        with _refusals():
            quantizer = tool.QDQQuantizer(
                copy, per_channel, False, tool.QuantType.QUInt8, kind, calibrate.TensorsData(method, data), list(nodes),
                [], list(operators()), {"WeightSymmetric": True},
            )  # fmt: skip
            quantizer.quantize_model()
    finally:
        root.setLevel(level)
    return quantizer.model.model


def _tell_types(model: Any, floats: Collection[str]) -> None:
    """Note that these values are float32: the tool leaves what onnx can't infer the type of, as behind operators of
    other domains.
    """
    graph, onnx = model.graph, library("onnx")
    told = {info.name for info in (*graph.value_info, *graph.input, *graph.output)}
    infos = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in floats if name not in told
    ]
    graph.value_info.extend(infos)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise FastgraphError(f"onnxruntime's tool refuses the network: {said}; leave nodes out") from error


def weights_only(model: Any, bits: int, block: int, left_out: Collection[str]) -> list[str]:
    """Store constant weights of layers in `bits` bits and multiply by their scales when they are read
    (DequantizeLinear): of Conv a scale a channel, of others one for `block` numbers that are summed. The nodes whose
    weights those are.
    """
    known, done = constants(model), []
    kept: list[Any] = []
    made: dict[str, str] = {}
    for node in model.graph.node:
        name = node.input[1] if len(node.input) > 1 else ""
        if node.op_type in LAYERS and node.name not in left_out and name in known and known[name].data_type == 1:
            weights = array(known[name])
            if name not in made and weights.ndim >= 2:
                axis = 0 if node.op_type in ("Conv", "ConvTranspose") or attribute(node, "transB", 0) else 1
                length = 0 if node.op_type in ("Conv", "ConvTranspose") else block
                made[name] = f"{name}_dequantized"
                kept.append(_stored(model, name, weights, axis, bits, length, made[name]))
            if name in made:
                node.input[1] = made[name]
                done.append(node.name)
        kept.append(node)
    set_nodes(model, kept)
    gone = [tensor for tensor in model.graph.initializer if tensor.name in made]
    for tensor in gone:
        model.graph.initializer.remove(tensor)
    return done


def _stored(model: Any, name: str, weights: np.ndarray, axis: int, bits: int, block: int, out: str) -> Any:
    """The DequantizeLinear of weights, whose numbers and scales are added. axis: that of output channels; where a block
    is given the other one of two is cut into blocks.
    """
    summed = 1 - axis if block else axis
    if block and weights.shape[summed] % block:
        block = weights.shape[summed]  # opset 21 wants whole blocks
    most = MOST[bits]
    if block:
        parts = np.moveaxis(weights, summed, 0).reshape(-1, block, weights.shape[axis])
        largest = np.abs(parts).max(axis=1)
        scales = np.where(largest > 0, largest / most, 1).astype(np.float32)
        stored = np.moveaxis(np.rint(parts / scales[:, None]).reshape(-1, weights.shape[axis]), 0, summed)
        scales = np.moveaxis(scales, 0, summed)
        how = {"axis": summed, "block_size": block}
    else:
        largest = np.abs(weights.reshape(len(weights), -1)).max(axis=1)
        scales = np.where(largest > 0, largest / most, 1).astype(np.float32)
        stored = np.rint(weights / scales.reshape(-1, *[1] * (weights.ndim - 1)))
        how = {"axis": 0}
    stored = np.clip(stored, -most, most).astype(np.int8)
    helper, tensor = library("onnx.helper"), model.graph.initializer.add()
    kind = library("onnx").TensorProto.INT8 if bits == 8 else library("onnx").TensorProto.INT4
    tensor.CopyFrom(helper.make_tensor(f"{name}_stored", kind, stored.shape, stored.ravel()))
    scale = add_constant(model, f"{name}_scales", scales)
    return helper.make_node("DequantizeLinear", [tensor.name, scale], [out], name=f"{out}_node", **how)


def raised(model: Any, least: int) -> Any:
    """The model with this version of ai.onnx at least."""
    if opset(model) >= least:
        return model
    return library("onnx.version_converter").convert_version(model, least)


def dynamic(model: Any, to: str, per_channel: bool, left_out: Sequence[str]) -> None:
    """Write the network with weights as `with_ranges` stores them, whose activations are quantized in each run, by what
    they hold. The tool takes ONNX's Attention for that of com.microsoft.
    """
    tool, root = library("onnxruntime.quantization"), logging.getLogger()
    own = {node.name for node in model.graph.node if node.op_type == "Attention" and not node.domain}
    extra = {"WeightSymmetric": True, "DefaultTensorType": library("onnx").TensorProto.FLOAT}
    root.addFilter(_no_advice)
    try:
        with _refusals():
            tool.quantize_dynamic(
                model, to, per_channel=per_channel, nodes_to_exclude=sorted(own.union(left_out)),
                weight_type=tool.QuantType.QUInt8, extra_options=extra,
            )  # fmt: skip
    finally:
        root.removeFilter(_no_advice)


def _no_advice(record: logging.LogRecord) -> bool:
    """Not onnxruntime's advice to prepare the network, which `network.opened` did."""
    return not record.getMessage().startswith("Please consider to run pre-processing before quantization")
