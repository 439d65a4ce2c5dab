"""A composition as an ONNX model of 8-bit numbers: pairs of QuantizeLinear and DequantizeLinear around everything."""

import numpy as np

from .composition import Composition, Const, Op
from .quantized import LAYERS, Params, Scheme, one_in, weights
from .write_onnx import Writer


class Quantized(Writer):
    """`params`: of the values that are quantized. Inputs and outputs are floats."""

    def __init__(self, net: Composition, params: dict[str, Params], scheme: Scheme) -> None:
        super().__init__(net)
        self.params, self.scheme = params, scheme
        self.layers: dict[tuple[str, int | None], str] = {}
        self.sums: dict[str, np.ndarray] = {}
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
        scales = weights(self.net.consts[w].array(), axis, self.scheme.weights)[1]
        if (w, axis) not in self.layers or one_in(op.outputs[0], 2):
            self.layers[w, axis] = self.stored(self.net.consts[w], axis)
        inputs = [self.read(x), self.layers[w, axis]]
        if bias and x in self.params and not one_in(bias[0], 5):
            units = (scales * np.float32(self.params[x].scale)).astype(np.float32)
            numbers = self.numbers(bias[0], units, one_in(op.outputs[0], 3))
            more = {"axis": 0} if units.ndim else {}
            zero = np.zeros(units.shape, np.int32)
            inputs.append(self.add("DequantizeLinear", [self.const(a) for a in (numbers, units, zero)], **more))
        else:
            inputs += [self.read(name) for name in bias]
        self.written(op, inputs)

    def stored(self, const: Const, axis: int | None) -> str:
        """The reals of a layer's stored weights; a transpose of them where these are."""
        turned = const.view == "turned"
        at = None if axis is None else 1 - axis if turned else axis
        parts = weights(const.source() if turned else const.array(), at, self.scheme.weights)
        more = {} if at is None else {"axis": at}
        reals = self.add("DequantizeLinear", [self.const(a) for a in parts], **more)
        return self.view(const, reals) if turned else reals

    def numbers(self, bias: str, units: np.ndarray, again: bool) -> np.ndarray:
        """A bias in units of sums; or `again` what it was in a layer with other units, if these are not far."""
        reals = self.net.consts[bias].array()
        numbers = np.rint(reals / units).astype(np.int32)
        before = self.sums.setdefault(bias, numbers)
        return before if again and np.all(np.abs(before * units) <= 4 * np.abs(reals).max(initial=1)) else numbers
