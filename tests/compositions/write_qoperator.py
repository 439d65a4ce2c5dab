"""A composition as an ONNX model of operators on 8-bit numbers, each with its operands' and results' parameters."""

import numpy as np

from .composition import Op
from .quantized import MOVES, moves, one_in, weights
from .write_onnx import RULES
from .write_qdq import Quantized

MS = "com.microsoft"
UNARY = {"sigmoid": "QLinearSigmoid", "leaky_relu": "QLinearLeakyRelu", "softmax": "QLinearSoftmax"}
BINARY = {"add": "QLinearAdd", "mul": "QLinearMul"}
OF_BYTES = MOVES - {"identity", "expand"}


class Operators(Quantized):
    """As onnxruntime's quantizer writes it in its older form; what has no such operator is computed in floats."""

    def op(self, op: Op) -> None:
        if not all(name in self.params for name in (*self.moving(op), *op.outputs)) or not self.direct(op):
            super().op(op)
            return
        for name in op.outputs:
            self.add("DequantizeLinear", [f"{name}.stored", *self.grid(name)], name)

    def moving(self, op: Op) -> list[str]:
        """The operands that are no weights, indices or slopes."""
        return op.inputs[:1] if op.kind in ("conv", "dense") or len(op.inputs) == 1 else op.inputs

    def grid(self, name: str) -> list[str]:
        """A value's scale and zero point."""
        p = self.params[name]
        dtype = np.int8 if self.scheme.signed else np.uint8
        return [self.const(np.float32(p.scale)), self.const(np.array(p.zero, dtype))]

    def held(self, name: str) -> str:
        """The bytes of a value."""
        if name not in self.net.consts:
            return f"{name}.stored"
        return self.const(self.params[name].stored(self.net.consts[name].array(), self.scheme.signed), f"{name}.stored")

    def whole(self, name: str) -> list[str]:
        return [self.held(name), *self.grid(name)]

    def direct(self, op: Op) -> bool:
        """Write it on bytes, if there is such an operator."""
        x, out = op.inputs[0], [f"{name}.stored" for name in op.outputs]
        grids = self.grid(op.outputs[0])
        rank = len(self.shapes[x])
        match op.kind:
            case "conv" | "dense" if op.inputs[1] in self.net.consts:
                return self.product(op, out)
            case "add" | "mul":
                self.add(BINARY[op.kind], [*self.whole(x), *self.whole(op.inputs[1]), *grids], out, domain=MS)
            case "sigmoid" | "leaky_relu":
                more = {"alpha": 0.125} if op.kind == "leaky_relu" else {}
                self.add(UNARY[op.kind], [*self.whole(x), *grids], out, domain=MS, **more)
            case "softmax" if op.attrs["axis"] == rank - 1 and self.shapes[x][-1] > 1:  # onnxruntime: 1 is 256, is 0
                self.add("QLinearSoftmax", [*self.whole(x), *grids], out, domain=MS, axis=-1, opset=self.opset)
            case "average_pool":
                a = op.attrs
                self.add("QLinearAveragePool", [*self.whole(x), *grids], out, domain=MS, kernel_shape=a["kernel"],
                         strides=a["strides"], pads=a["pads"])  # fmt: skip
            case "reduce" if op.attrs == {"how": "mean", "axes": (2, 3), "keep": True} and rank == 4:
                self.add("QLinearGlobalAveragePool", [*self.whole(x), *grids], out, domain=MS, channels_last=0)
            case "concat":
                parts = [part for name in op.inputs for part in self.whole(name)]
                self.add("QLinearConcat", [*grids, *parts], out, domain=MS, axis=op.attrs["axis"])
            case kind if kind in OF_BYTES and moves(op):
                if any(self.params[name] != self.params[x] for name in op.outputs) or kind == "pad":
                    return False
                RULES[kind](self, Op(kind, op.inputs, out, op.attrs), list(map(self.held, op.inputs)))
            case _:
                return False
        return True

    def product(self, op: Op, out: list[str]) -> bool:
        x, w, *bias = op.inputs
        rank, conv = len(self.shapes[x]), op.kind == "conv"
        if not conv and bias and rank != 2:
            return False
        plain = not conv and rank != 2  # a product of stacks has one scale
        axis = None if plain or not self.scheme.per_channel else 0 if conv else 1
        stored, scales, zeros = weights(self.net.consts[w].array(), axis, self.scheme.weights)
        factors = [self.const(a) for a in (stored, scales, zeros)]
        sums = []
        if bias:
            units = scales * np.float32(self.params[x].scale)
            sums = [self.const(self.numbers(bias[0], units, one_in(op.outputs[0], 3)))]
        grids = self.grid(op.outputs[0])
        if conv:
            self.add("QLinearConv", [*self.whole(x), *factors, *grids, *sums], out, **op.attrs)
        elif rank == 2 and bias:
            self.add("QGemm", [*self.whole(x), *factors, *sums, *grids], out, domain=MS)
        else:
            self.add("QLinearMatMul", [*self.whole(x), *factors, *grids], out)
        return True
