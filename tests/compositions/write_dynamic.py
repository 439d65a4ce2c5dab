"""A composition as an ONNX model whose layers round activations by their range at run time."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from .composition import Op
from .quantized import one_in, weights
from .write_onnx import Writer


class Dynamic(Writer):
    """As onnxruntime's quantize_dynamic writes it: products of integers, then factors, then the bias."""

    def written(self, op: Op, inputs: list[str]) -> None:
        if op.kind not in ("conv", "dense") or op.inputs[1] not in self.net.consts or one_in(op.outputs[0], 9):
            super().written(op, inputs)
            return
        x, w, *bias = op.inputs
        signed = not one_in(w, 4)
        axis = 1 if op.kind == "dense" and signed and one_in(w, 3) else None
        stored, scales, zeros = weights(self.net.consts[w].array(), axis, "s8" if signed else "u8")
        names = [f"{op.outputs[0]}.{part}" for part in ("stored", "scale", "zero")]
        self.add("DynamicQuantizeLinear", [self.read(x)], names)
        kind = "MatMulInteger" if op.kind == "dense" else "ConvInteger"
        attrs = {} if op.kind == "dense" else op.attrs
        product = self.add(kind, [names[0], self.const(stored), names[2], self.const(zeros)], **attrs)
        reals = self.add("Cast", [product], to=TensorProto.FLOAT)
        factor = self.add("Mul", [names[1], self.const(np.asarray(scales, np.float32))])
        if not bias:
            self.add("Mul", [reals, factor], op.outputs)
            return
        numbers = self.net.consts[bias[0]].array()
        numbers = numbers.reshape(1, -1, 1, 1) if op.kind == "conv" else numbers
        self.add("Add", [self.add("Mul", [reals, factor]), self.const(numbers)], op.outputs)
