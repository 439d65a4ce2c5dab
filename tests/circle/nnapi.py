"""NNAPI's operations as TensorFlow Lite's operators: a test case becomes the bytes of a .tflite."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.circle.write import Model

DTYPES = {
    "TENSOR_FLOAT32": np.float32, "TENSOR_INT32": np.int32, "TENSOR_QUANT8_ASYMM": np.uint8, "FLOAT32": np.float32,
    "TENSOR_QUANT8_SYMM": np.int8, "INT32": np.int32,
}  # fmt: skip
ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")
NAMES = {"RELU1": "RELU_N1_TO_1"}
STATES = {"LSTM": ((18, 1), (19, 2)), "RNN": ((4, 0),), "SVDF": ((4, 0),)}
"""Inputs that are variable tensors in TensorFlow Lite, each with the output that says what it holds afterwards."""


def array_of(operand: dict[str, Any], values: Any) -> np.ndarray:
    return np.array(values).astype(DTYPES[operand["type"]]).reshape(operand["dims"])


class Case:
    """The model under construction, and how its values correspond: `fed` and `given` are operands, in order.

    `states`: the operands that hold each variable tensor's value before and after. `memory`: SVDF's state operands,
    with the entries of each filter. `sparse`: results of sparse LSH projections, with the bits of each.
    """

    def __init__(self, row: dict[str, Any]) -> None:
        self.operands: list[dict[str, Any]] = row["operands"]
        self.model = Model()
        self.tensors: dict[int, int] = {}
        self.fed: list[int] = []
        self.states: list[tuple[int, int]] = []
        self.memory: dict[int, int] = {}
        self.sparse: dict[int, int] = {}
        kept = {o["inputs"][i] for o in row["operations"] for i, _ in STATES.get(o["type"], ())}
        for i, operand in enumerate(self.operands):
            empty = 0 in operand["dims"] or not row["inputs"].get(str(i))
            if operand["role"] == "input" and not empty and i not in kept:
                self.tensors[i] = self.model.input(operand["dims"], *self.type(i))
                self.fed.append(i)
        for operation in row["operations"]:
            self.operation(operation["type"], operation["inputs"], operation["outputs"])
        self.given = [i for i, o in enumerate(self.operands) if o["role"] == "output" and i in self.tensors]
        self.bytes = self.model.bytes([self.tensors[i] for i in self.given])

    def type(self, index: int) -> tuple[Any, Any]:
        """(element type, quantization) of an operand."""
        operand = self.operands[index]
        quantized = operand["scale"] and operand["type"] != "TENSOR_FLOAT32"
        return DTYPES[operand["type"]], (operand["scale"], operand["zero_point"]) if quantized else None

    def later(self, index: int, values: np.ndarray) -> np.ndarray:
        """What an operand of NNAPI is in TensorFlow Lite: there SVDF makes room in its memory before it writes."""
        memory = self.memory.get(index)
        return values if memory is None else np.roll(values.reshape(-1, memory), 1, 1).reshape(values.shape)

    def earlier(self, index: int, values: np.ndarray) -> np.ndarray:
        """What a result of TensorFlow Lite is in NNAPI: SVDF made room, and sparse projections had no offsets."""
        if index in self.sparse:
            return values - np.arange(len(values), dtype=np.int32) * (1 << self.sparse[index])
        if index not in self.memory:
            return values
        rows = np.roll(values.reshape(-1, self.memory[index]), -1, 1)
        rows[:, -1] = 0
        return rows.reshape(values.shape)

    def read(self, index: int) -> int | None:
        """The tensor of an operand; none for one without elements."""
        operand = self.operands[index]
        if index not in self.tensors and operand["role"] != "input":
            self.tensors[index] = self.model.const(array_of(operand, operand["value"]), self.type(index)[1])
        return self.tensors.get(index)

    def scalars(self, indices: list[int]) -> list[Any]:
        return [self.operands[i]["value"][0] for i in indices]

    def write(self, name: str, inputs: list[int | None], output: int, **options: Any) -> None:
        dtype, quant = self.type(output)
        if name == "L2_NORMALIZATION" and quant is not None:
            quant = (1 / 128, 128)  # NNAPI: whatever the operand says
        (made,) = self.model.op(name, inputs, [(self.operands[output]["dims"], dtype, quant)], **options)
        self.tensors[output] = made

    def operation(self, name: str, inputs: list[int], outputs: list[int]) -> None:
        out = outputs[0]
        name = NAMES.get(name, name)
        if name in STATES:
            self.recurrent(name, inputs, outputs)
        elif name in ("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
            self.window(name, inputs, out)
        elif name in ("ADD", "MUL", "FULLY_CONNECTED"):
            act = ACTIVATIONS[self.scalars(inputs[-1:])[0]]
            self.write(name, [self.read(i) for i in inputs[:-1]], out, fused_activation_function=act)
        elif name == "CONCATENATION":
            (axis,) = self.scalars(inputs[-1:])
            self.write(name, [self.read(i) for i in inputs[:-1]], out, axis=axis)
        elif name in ("SPACE_TO_DEPTH", "DEPTH_TO_SPACE"):
            self.write(name, [self.read(inputs[0])], out, block_size=self.scalars(inputs[1:])[0])
        elif name == "SOFTMAX":
            self.write(name, [self.read(inputs[0])], out, beta=self.scalars(inputs[1:])[0])
        elif name == "LOCAL_RESPONSE_NORMALIZATION":
            radius, bias, alpha, beta = self.scalars(inputs[1:])
            self.write(name, [self.read(inputs[0])], out, radius=radius, bias=bias, alpha=alpha, beta=beta)
        elif name == "RESIZE_BILINEAR":
            width, height = self.scalars(inputs[1:])
            size = self.model.const(np.array([height, width], np.int32))
            self.write(name, [self.read(inputs[0]), size], out)
        elif name == "LSH_PROJECTION":
            (kind,) = self.scalars(inputs[3:])
            self.write(name, [self.read(i) for i in inputs[:3]], out, type=kind)
            if kind == 1:
                self.sparse[out] = self.operands[inputs[0]]["dims"][1]
        elif name == "HASHTABLE_LOOKUP":
            dtype, quant = self.type(out)
            made = [(self.operands[out]["dims"], dtype, quant), (self.operands[outputs[1]]["dims"], np.uint8)]
            found = self.model.op(name, [self.read(i) for i in inputs], made)
            self.tensors.update(zip(outputs, found, strict=True))
        else:
            self.write(name, [self.read(i) for i in inputs], out)

    def window(self, name: str, inputs: list[int], out: int) -> None:
        """Windows with a padding scheme (1: SAME, 2: VALID), or with numbers: left, right, top, bottom."""
        operands = 1 if name.endswith("POOL_2D") else 3
        tensors, rest = [self.read(i) for i in inputs[:operands]], self.scalars(inputs[operands:])
        extra = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 1}.get(name, 2)
        scheme = rest[: -3 - extra]
        stride_w, stride_h, *more, act = rest[-3 - extra :]
        options = {"stride_w": stride_w, "stride_h": stride_h, "fused_activation_function": ACTIVATIONS[act]}
        if extra == 1:
            options["depth_multiplier"] = more[0]
        elif extra == 2:
            options |= {"filter_width": more[0], "filter_height": more[1]}
        assert len(scheme) == 1 or not any(scheme), f"padding {scheme} has no twin in TensorFlow Lite"
        self.write(name, tensors, out, padding="SAME" if scheme == [1] else "VALID", **options)

    def recurrent(self, name: str, inputs: list[int], outputs: list[int]) -> None:
        """State operands become variable tensors; the last output is TensorFlow Lite's only one."""
        for place, after in STATES[name]:
            operand = self.operands[inputs[place]]
            self.tensors[inputs[place]] = self.model.variable(operand["dims"], *self.type(inputs[place]))
            self.states.append((inputs[place], outputs[after]))
        count = {"LSTM": 20, "RNN": 5, "SVDF": 5}[name]
        tensors, rest = [self.read(i) for i in inputs[:count]], self.scalars(inputs[count:])
        if name == "LSTM":
            assert rest[0] == 4, "the cases' LSTMs all use tanh"
            options: dict[str, Any] = {"fused_activation_function": "TANH", "cell_clip": rest[1], "proj_clip": rest[2]}
        else:
            options = {"fused_activation_function": ACTIVATIONS[rest[-1]]}
        if name == "SVDF":
            options["rank"] = rest[0]
            memory = self.operands[inputs[2]]["dims"][1]
            self.memory = {inputs[4]: memory, outputs[0]: memory}
        self.write(name, tensors, outputs[-1], **options)
