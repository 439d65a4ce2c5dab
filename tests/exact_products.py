"""The same network for onnxruntime, on CPUs where it sums products of u8 and s8 in 16 bits, two at a time, saturated.

That is so where there is no VNNI; its documentation of quantization says so, and it is not what the operators mean.
Weights of u8, 128 more with zero points of 128 more, stand for the same numbers and are summed exactly.
"""

import os

import numpy as np
import onnx
from onnx import numpy_helper

from fastgraph.kernels.isa.tiers import usable

SATURATES = "TIERS_ARE_EMULATED" in os.environ or not any(tier.byte_dot for tier in usable())

WEIGHTS = {
    "QLinearConv": [(2, 3, 5)], "QLinearMatMul": [(2, 3, 5)], "QGemm": [(2, 3, 5)], "MatMulInteger": [(2, 1, 3)],
    "ConvInteger": [(2, 1, 3)], "MatMulIntegerToFloat": [(4, 1, 5)], "DynamicQuantizeMatMul": [(-1, 1, 3)],
    "QAttention": [(6, 1, 7)], "DynamicQuantizeLSTM": [(-1, 1, 9), (-1, 2, 11)],
}  # fmt: skip
"""By operator: which input is the zero point of the activations (-1: they are u8), the weights, their zero point."""


def exact_products(source: bytes) -> bytes:
    """The model with constant weights of s8 as u8 where activations are u8."""
    if not SATURATES or not any(op.encode() in source for op in WEIGHTS):
        return source
    model = onnx.load_from_string(source)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        for inputs in WEIGHTS.get(node.op_type, ()):
            _as_u8(node, inputs, model.graph, constants)
    return model.SerializeToString()


Constants = dict[str, onnx.TensorProto]


def _as_u8(node: onnx.NodeProto, inputs: tuple[int, int, int], graph: onnx.GraphProto, constants: Constants) -> None:
    x, w, zero = inputs
    names = [*node.input, *[""] * (zero + 1 - len(node.input))]
    given = constants.get(names[x]) if x >= 0 else None
    weights, zeros = constants.get(names[w]), constants.get(names[zero])
    signed = onnx.TensorProto.INT8
    if given is not None and given.data_type == signed or weights is None or weights.data_type != signed:
        return
    if names[zero] and zeros is None:
        return
    names[w] = _moved(graph, constants, numpy_helper.to_array(weights), weights.name)
    names[zero] = _moved(graph, constants, np.int8(0) if zeros is None else numpy_helper.to_array(zeros), names[zero])
    node.input[:] = names


def _moved(graph: onnx.GraphProto, constants: Constants, stored: np.ndarray, name: str) -> str:
    """A constant with 128 more in each number, for all that have it."""
    name = f"{name}.and128"
    if name not in constants:
        constants[name] = numpy_helper.from_array(np.asarray(stored).view(np.uint8) ^ np.uint8(128), name)
        graph.initializer.append(constants[name])
    return name
