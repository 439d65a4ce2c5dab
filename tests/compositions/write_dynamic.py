"""A composition as an ONNX model whose layers round activations by their range at run time."""

import numpy as np
from onnx import TensorProto

from .composition import Op
from .quantized import one_in, weights
from .write_onnx import Writer


class Dynamic(Writer):
    """As onnxruntime's quantize_dynamic writes it: products of integers, then factors, then the bias. Some by hand: a
    convolution's channels have scales of their own, no zero point is named, and factors come one after the other.
    """

    def written(self, op: Op, inputs: list[str]) -> None:
        if op.kind not in ("conv", "dense") or op.inputs[1] not in self.net.consts or one_in(op.outputs[0], 9):
            super().written(op, inputs)
            return
        x, w, *bias = op.inputs
        signed, rank = not one_in(w, 4), self.net.consts[w].array().ndim
        axis = (1 if op.kind == "dense" else 0) if signed and one_in(w, 3) else None
        stored, scales, zeros = weights(self.net.consts[w].array(), axis, "s8" if signed else "u8")
        if op.kind == "conv" and axis is not None:
            scales, zeros = scales.reshape(-1, *(1 for _ in range(rank - 2))), zeros[:0]  # each zero is 0
        names = [f"{op.outputs[0]}.{part}" for part in ("stored", "scale", "zero")]
        self.add("DynamicQuantizeLinear", [self.read(x)], names)
        kind = "MatMulInteger" if op.kind == "dense" else "ConvInteger"
        attrs = {} if op.kind == "dense" else op.attrs
        points = [self.const(zeros)] if zeros.size and not (signed and one_in(w, 5)) else []
        product = self.add(kind, [names[0], self.const(stored), names[2], *points], **attrs)
        reals, scale = self.add("Cast", [product], to=TensorProto.FLOAT), self.const(np.asarray(scales, np.float32))
        if one_in(w, 6):
            reals, factor = self.add("Mul", [reals, names[1]]), scale
        else:
            factor = self.add("Mul", [names[1], scale])
        if not bias:
            self.add("Mul", [reals, factor], op.outputs)
            return
        numbers = self.net.consts[bias[0]].array()
        numbers = numbers.reshape(1, -1, *(1 for _ in range(rank - 2))) if op.kind == "conv" else numbers
        self.add("Add", [self.add("Mul", [reals, factor]), self.const(numbers)], op.outputs)
