"""A composition as an ONNX model of 8-bit numbers: pairs of QuantizeLinear and DequantizeLinear around everything."""

from __future__ import annotations

import numpy as np

from .composition import Composition, Op
from .quantized import LAYERS, Params, Scheme, one_in, weights
from .write_onnx import Writer


class Quantized(Writer):
    """`params`: of the values that are quantized. Inputs and outputs are floats."""

    def __init__(self, net: Composition, params: dict[str, Params], scheme: Scheme) -> None:
        super().__init__(net)
        self.params, self.scheme = params, scheme
        self.inside = {name: self.pair(name, name) for name in net.inputs if name in params}

    def pair(self, value: str, source: str, out: str = "") -> str:
        """What `source` is after it went through the 8 bits of a value."""
        p = self.params[value]
        dtype = np.int8 if self.scheme.signed else np.uint8
        scale, zero = self.const(np.float32(p.scale)), self.const(np.array(p.zero, dtype))
        stored = self.add("QuantizeLinear", [source, scale, zero], f"{value}.stored")
        return self.add("DequantizeLinear", [stored, scale, zero], out or f"{value}.inside")

    def read(self, name: str) -> str:
        if name in self.net.consts and name in self.params:
            p, signed = self.params[name], self.scheme.signed
            stored = self.const(p.stored(self.net.consts[name].array(), signed), f"{name}.stored")
            zero = self.const(np.array(p.zero, np.int8 if signed else np.uint8))
            return self.add("DequantizeLinear", [stored, self.const(np.float32(p.scale)), zero])
        return self.inside.get(name) or super().read(name)

    def op(self, op: Op) -> None:
        inner = {name: f"{name}.real" for name in op.outputs if name in self.params}
        made = Op(op.kind, op.inputs, [inner.get(name, name) for name in op.outputs], op.attrs)
        if op.kind in LAYERS and op.inputs[1] in self.net.consts and not one_in(op.outputs[0], 11):
            self.layer(made)
        else:
            super().op(made)
        for name, real in inner.items():
            self.pair(name, real, name)

    def layer(self, op: Op) -> None:
        """With stored weights, and a bias in units of the sums."""
        x, w, *bias = op.inputs
        axis = (
            LAYERS[op.kind] if self.scheme.per_channel and op.attrs.get("group", 1) in (1, self.shapes[w][0]) else None
        )
        if op.kind != "conv" and (one_in(w, 2) or op.attrs.get("group", 1) > 1):
            axis = None
        stored, scales, zeros = weights(self.net.consts[w].array(), axis, self.scheme.weights)
        more = {} if axis is None else {"axis": axis}
        constants = [self.const(a) for a in (stored, scales, zeros)]
        inputs = [self.read(x), self.add("DequantizeLinear", constants, **more)]
        if bias and x in self.params and not one_in(bias[0], 5):
            units = (scales * np.float32(self.params[x].scale)).astype(np.float32)
            numbers = np.rint(self.net.consts[bias[0]].array() / units).astype(np.int32)
            more = {"axis": 0} if units.ndim else {}
            zero = np.zeros(units.shape, np.int32)
            inputs.append(self.add("DequantizeLinear", [self.const(a) for a in (numbers, units, zero)], **more))
        else:
            inputs += [self.read(name) for name in bias]
        self.written(op, inputs)
