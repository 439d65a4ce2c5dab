"""A composition as a .tflite or .circle file: channels last where operators want that, in f32 or in other numbers.

A value is held in up to four tensors: as it is or with channels last, in reals or stored in 8 bits. What an operator
wants is made of what there is, by TRANSPOSE, QUANTIZE and DEQUANTIZE.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.circle.write import Model

from .composition import Composition, Op, Shape
from .quantized import LAYERS, Params, one_in, weights

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
F32, I32 = np.dtype(np.float32), np.dtype(np.int32)


class Declined(Exception):
    """The format can't say it."""


class Shared(Model):
    """Constants that hold the same are one tensor, or several on one buffer; some have buffers of their own."""

    def const(self, array: Any, quant: Any = None, **fields: Any) -> int:
        array, tensors = np.asarray(array), self.now["tensors"]
        held = array.tobytes()
        key = id(tensors), array.dtype.str, array.shape, held, str(quant), str(fields)
        apart = len(tensors) % 8
        if key in self.found and apart < 6:
            return self.found[key]
        if apart < 7 and held in self.places:
            made = self.tensor(array.shape, array.dtype, quant, **fields, buffer=self.places[held])
        else:
            made = super().const(array, quant, **fields)
            self.places[held] = tensors[made]["buffer"]
        self.found[key] = made
        return made

    def __init__(self, schema: str) -> None:
        super().__init__(schema)
        self.found: dict[Any, int] = {}
        self.places: dict[bytes, int] = {}


class Flat:
    """`numbers`: "f32", "f16" (weights only), "int8" (`params` of the values that are stored) or "dynamic".

    `edges`: whether inputs and outputs are stored too.
    """

    def __init__(
        self, net: Composition, schema: str = "tflite", numbers: str = "f32", params: dict[str, Params] | None = None
    ) -> None:
        self.net, self.numbers, self.params = net, numbers, params or {}
        self.shapes = net.shapes()
        self.model = Shared(schema)
        self.sums: dict[str, np.ndarray] = {}
        self.at: dict[tuple[str, bool, bool], int] = {}
        self.readers: dict[str, list[Op]] = {}
        for op in net.ops:
            for name in op.inputs:
                self.readers.setdefault(name, []).append(op)
        self.ends: dict[str, Op] = {}
        self.edges = bool(self.params) and one_in(net.outputs[0], 2)
        for name, given in net.inputs.items():
            last, stored = self.rank(name) == 4, self.edges and name in self.params
            dtype, quant = (np.int8, self.quant(name)) if stored else (np.int32 if given.below else np.float32, None)
            tensor = self.model.input(self.shape(name, last), dtype, quant, name)
            self.at[name, last, stored] = tensor
            self.model.now["tensors"][tensor].update(self.extents(name, last))

    # -- values

    def rank(self, name: str) -> int:
        return len(self.shapes[name])

    def shape(self, name: str, last: bool) -> Shape:
        shape = self.shapes[name]
        return tuple(shape[i] for i in TO_LAST) if last and len(shape) == 4 else shape

    def extents(self, name: str, last: bool) -> dict[str, list[int]]:
        """What says of an input's tensor which of its extents are open."""
        open_ = self.net.open_axes(name)
        order = TO_LAST if last else range(self.rank(name))
        signature = [-1 if axis in open_ else self.shapes[name][axis] for axis in order]
        return {"shape_signature": signature} if open_ else {}

    def quant(self, name: str) -> tuple[float, int]:
        return self.params[name].scale, self.params[name].zero

    def only_last(self, name: str) -> bool:
        """Whether a value is there with channels last, and not as it is."""
        kinds = {last for held, last, _ in self.at if held == name}
        return kinds == {True}

    def ints(self, *values: int) -> int:
        return self.model.const(np.array(values, I32))

    def number(self, *values: float) -> int:
        return self.model.const(np.array(values, F32))

    def read(self, name: str, last: bool = False, stored: bool = False) -> int:
        """The tensor of a value, in the form that is wanted. Values that are no images have one order of axes."""
        last = last and self.rank(name) == 4
        key = name, last, stored
        if key not in self.at:
            if name in self.net.consts:
                self.at[key] = self.constant(name, last, stored)
            elif (name, last, not stored) in self.at:
                kind = "QUANTIZE" if stored else "DEQUANTIZE"
                self.at[key] = self.op(kind, [self.at[name, last, not stored]], name, last, stored)
            else:
                perm = self.ints(*(TO_LAST if last else TO_FIRST))
                held = stored if (name, not last, stored) in self.at else not stored
                turned = self.op("TRANSPOSE", [self.at[name, not last, held], perm], name, last, held)
                self.at[name, last, held] = turned
                return self.read(name, last, stored)
        return self.at[key]

    def constant(self, name: str, last: bool, stored: bool) -> int:
        array = self.net.consts[name].array()
        array = array.transpose(TO_LAST) if last and array.ndim == 4 else array
        if stored:
            return self.model.const(self.params[name].stored(array, True), quant=self.quant(name))
        return self.weights(array)

    def weights(self, array: np.ndarray) -> int:
        """A constant of reals: in 16 bits and widened, where numbers are those."""
        if self.numbers != "f16" or array.size < 2:
            return self.model.const(np.ascontiguousarray(array, F32))
        half = self.model.const(np.ascontiguousarray(array, np.float16))
        return self.model.op("DEQUANTIZE", [half], [(array.shape, F32)])[0]

    def spread(self, name: str, last: bool, rank: int) -> int:
        """A constant operand of lower rank beside images with channels last."""
        if name in self.net.consts and last and self.rank(name) < rank:
            array = self.net.consts[name].array()
            return self.weights(array.reshape((1,) * (rank - array.ndim) + array.shape).transpose(TO_LAST))
        return self.read(name, last)

    # -- operators

    def op(
        self, kind: str, inputs: Sequence[int | None], out: str, last: bool, stored: bool = False, **more: Any
    ) -> int:
        """An operator with one result, which is a value of the composition or has its form."""
        spec = (self.shape(out, last), np.int8, self.quant(out)) if stored else (self.shape(out, last), F32)
        return self.model.op(kind, list(inputs), [spec], **more)[0]

    def raw(self, kind: str, inputs: Sequence[int | None], shape: Shape, dtype: Any = F32, **more: Any) -> int:
        """An operator on the way, of reals."""
        return self.model.op(kind, list(inputs), [(shape, dtype)], **more)[0]

    def give(self, name: str, tensor: int, last: bool = False, stored: bool = False) -> None:
        self.at[name, last and self.rank(name) == 4, stored] = tensor

    def is_stored(self, op: Op) -> bool:
        """Whether all that an operator reads and makes, but weights, has parameters."""
        read = op.inputs[:1] if op.kind in LAYERS else op.inputs
        return all(name in self.params for name in (*read, *op.outputs))

    def bytes(self) -> bytes:
        from .rules_tflite import KINDS

        for op in self.net.ops:
            if op.kind not in KINDS:
                raise Declined(op.kind)
            if not any(self.ends.get(name) is op for name in op.inputs):
                KINDS[op.kind](self, op)
                self._store(op)
        outputs = [self.read(n, self.only_last(n), self.edges and n in self.params) for n in self.net.outputs]
        self.model.now["outputs"] = outputs
        self.model.graphs.insert(0, self.model.graphs.pop())
        return self.model.bytes()

    def turned(self, array: np.ndarray) -> np.ndarray:
        """A feed as the file takes it."""
        return np.ascontiguousarray(array.transpose(TO_LAST)) if array.ndim == 4 else array

    def _store(self, op: Op) -> None:
        """Results that have parameters are stored, whatever made them."""
        for name in op.outputs:
            held = [(last, stored) for made, last, stored in self.at if made == name]
            if name in self.params and held and not any(stored for _, stored in held):
                last = held[0][0]
                self.read(name, last, True)
                del self.at[name, last, False]

    def order(self, name: str) -> tuple[int, ...]:
        """How the axes of an output lie."""
        last = self.rank(name) == 4 and self.only_last(name)
        return TO_LAST if last else tuple(range(self.rank(name)))

    def layer_weights(
        self, name: str, kind: str, stored: bool, turn: Sequence[int], axis: int
    ) -> tuple[int, np.ndarray | None]:
        """Weights of a layer in the format's order: stored with the scales of `axis`, or of all. Scales if stored."""
        array = self.net.consts[name].array().transpose(turn)
        if not stored and self.numbers != "dynamic":
            return self.weights(array), None
        per_axis = kind == "conv" and (self.numbers == "dynamic" or not one_in(name, 3))
        data, scales, zeros = weights(array, axis if per_axis else None, "s8")
        zeros = np.zeros(np.atleast_1d(scales).shape, np.int64)
        quant = (np.atleast_1d(scales), zeros, axis) if per_axis else (scales, zeros)
        return self.model.const(data, quant=quant), scales

    def bias(self, op: Op, count: int, scales: np.ndarray | None, stored: bool) -> int:
        """The bias of a layer, zeros if it has none; in units of the sums where they are integers."""
        name = op.inputs[2] if len(op.inputs) > 2 else None
        array = np.zeros(count, F32) if name is None else self.net.consts[name].array()
        if not stored:
            return self.weights(array)
        assert scales is not None
        units = np.atleast_1d(scales * np.float32(self.params[op.inputs[0]].scale)).astype(F32)
        zeros = np.zeros(units.shape, np.int64)
        numbers = np.rint(array / units).astype(I32)
        if name is not None:
            before = self.sums.setdefault(name, numbers)
            if one_in(op.outputs[0], 3) and np.all(np.abs(before * units) <= 4 * np.abs(array).max(initial=1)):
                numbers = before
        return self.model.const(numbers, quant=(units, zeros, 0) if units.size > 1 else (units, zeros))
