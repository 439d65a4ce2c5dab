"""One operator on its way into the graph: what the file says of it, and the means to write canonical nodes.

A rule is a function that takes a `Call` and writes nodes which make `c.outputs`:

    @rule("ABS")
    def absolute(c: Call) -> None:
        c.write("abs", c.inputs)

Rules live in `rules_*.py` of this folder, which are found and imported by themselves, when a file needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import ModelError
from ...ir import Graph, Quantization, TensorType, Value
from ..core import call
from ..core.registry import register
from .reader import Reader
from .resources import tensor_key, touched
from .scope import Scope
from .tensors import type_of

Rule = Callable[["Call"], None]

RULES: dict[str, Rule] = {}
"""Rules of builtin operators, by their name in the schemas."""

CUSTOM: dict[str, Rule] = {}
"""Rules of custom operators, by their custom code."""

Convert = Callable[[Reader, int, Sequence[Value | None], Sequence[str], str], Graph]
"""What makes a graph of a sub-graph, as `Call.subgraph` says: its number, what it is called with, resources, caller."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of builtin operators."""
    return register(RULES, names)


def custom(*codes: str) -> Callable[[Rule], Rule]:
    """Register the rule of custom operators."""
    return register(CUSTOM, codes)


class Call(call.Call):
    """An operator of a file.

    `op`: builtin name ("CONV_2D") or custom code. `name`: unique, for nodes and messages. `version`: of the operator.
    `inputs`: a Value each, None where the file says -1; a variable tensor stands for its present value.
    `outputs`: a Value each with the type that the file declares: element type and quantization hold, the shape is a
    hint (None where open; operators infer it). The rule makes every one of them.
    `options`: attributes are the fields of the operator's options table with the schema's defaults; enums are their
    names ("SAME", "RELU6"), tensor types NumPy dtypes, vectors tuples (empty where absent).
    `custom_options`: the bytes of a custom operator's options. `tensors`, `results`: indices of the inputs' and
    outputs' tensors in the sub-graph.
    """

    def __init__(
        self, scope: Scope, op: str, name: str, where: str, version: int,
        inputs: list[Value | None], outputs: list[Value], options: Any, custom_options: bytes | memoryview,
        places: tuple[Sequence[int], Sequence[int], Sequence[int]], convert: Convert,
    ) -> None:  # fmt: skip
        super().__init__(op, name, where, scope.nodes, scope.reader.unique)
        self.scope = scope
        self.version = version
        self.inputs = inputs
        self.outputs = outputs
        self.options = options
        self.custom_options = custom_options
        self.tensors, self.results, self._intermediates = places
        self._convert = convert

    # what the file says

    def input(self, index: int) -> Value | None:
        """Input `index`; None when it is absent (-1, or the list is shorter)."""
        return self.inputs[index] if index < len(self.inputs) else None

    def x(self, index: int = 0) -> Value:
        """Input `index`; ModelError when it is absent."""
        value = self.input(index)
        if value is None:
            self.fail(f"expected an input {index}, found {len(self.inputs)} inputs"
                      + (" and this one left out (-1)" if index < len(self.inputs) else ""))  # fmt: skip
        return value

    def count(self, inputs: int | tuple[int, int], outputs: int | tuple[int, int] = 1) -> None:
        """ModelError unless there are as many inputs and outputs as told: a number, or least and most."""
        for what, given, wanted in (("inputs", self.inputs, inputs), ("outputs", self.outputs, outputs)):
            least, most = (wanted, wanted) if isinstance(wanted, int) else wanted
            if not least <= len(given) <= most:
                expected = str(least) if least == most else f"{least} to {most}"
                self.fail(f"expected {expected} {what}, found {len(given)}")

    def array(self, index: int) -> np.ndarray | None:
        """The stored numbers of input `index` when it is present and constant (a view of the file: read only)."""
        value = self.input(index)
        return None if value is None else value.data

    @property
    def intermediates(self) -> list[TensorType]:
        """The types of what is computed within the operator, where the file notes them (int8 LSTM)."""
        return [type_of(*self.scope.tensor(index)) for index in self._intermediates]

    def flexbuffer(self) -> dict[str, Any]:
        """The custom options as a map of FlexBuffers: numbers, strings, lists. ModelError when they are none."""
        from .flex import decode

        if not len(self.custom_options):
            return {}
        found = decode(self.custom_options, self.where)
        if not isinstance(found, dict):
            self.fail(f"expected a map in its custom options, found {type(found).__name__}")
        return found

    def settings(self) -> dict[str, Any]:
        """The custom options by name; what is no map of FlexBuffers as the bytes `custom_options`."""
        try:
            return self.flexbuffer()
        except ModelError:
            return {"custom_options": bytes(self.custom_options)}

    # writing nodes

    def fresh(self, type: TensorType | None = None) -> Value:
        """A value for a node to make, of the type of the operator's first output unless told (its shape is open)."""
        if type is None and self.outputs:
            type = self.outputs[0].type.with_shape(None)
        return super().fresh(type)

    def write(self, op: str, inputs: Sequence[Value | None] | None = None, **attrs: Any) -> None:
        """Write a node that makes all of the operator's outputs (of all of its inputs, unless told)."""
        self.add(op, self.inputs if inputs is None else inputs, self.outputs, **attrs)

    def activate(self, op: str, inputs: Sequence[Value | None], activation: str | None = None, **attrs: Any) -> None:
        """Write `op` and the fused activation of the options as nodes that make the first output.

        The activation is a node of its own behind a Value of the output's type (dtype and quantization): clamping
        and rounding commute. `activation` says which one instead of the options' `fused_activation_function`.
        """
        kind = self.options.fused_activation_function if activation is None else activation
        if kind == "NONE":
            self.add(op, inputs, self.outputs[:1], **attrs)
        else:
            self.apply(kind, self.add(op, inputs, type=self.outputs[0].type, **attrs), self.outputs[0])

    def apply(self, activation: str, x: Value, out: Value | None = None) -> Value:
        """Write an activation by its name in the schemas ("NONE": x itself, or an identity when `out` is given)."""
        outputs = None if out is None else [out]
        if activation == "NONE":
            return x if out is None else self.add("identity", [x], outputs)
        if activation in ("RELU", "TANH"):
            return self.add(activation.lower(), [x], outputs, type=x.type)
        if activation in ("RELU6", "RELU_N1_TO_1"):
            dtype = np.dtype(np.float32) if x.type.quant is not None or x.type.dtype is None else x.type.dtype
            low, high = (0, 6) if activation == "RELU6" else (-1, 1)
            bounds = [self.const(dtype.type(low)), self.const(dtype.type(high))]
            return self.add("clip", [x, *bounds], outputs, type=x.type)
        if activation == "SIGN_BIT":
            return self._sign_bit(x, outputs)
        self.fail(f"expected one of TFLite's activations, found {activation!r}")

    def _sign_bit(self, x: Value, outputs: list[Value] | None) -> Value:
        """1 where the sign bit is set, else 0; -0.0 has it set, and shows it only in its reciprocal."""
        dtype = x.type.dtype
        if x.type.quant is not None or dtype is None or dtype.kind != "f":
            self.unsupported(f"with a SIGN_BIT activation on {x.type}")
        flag, zero = TensorType(np.dtype(bool)), self.const(dtype.type(0))
        below = self.add("less", [x, zero], type=flag)
        inverse = self.add("reciprocal", [x], type=x.type.with_shape(None))
        minus_zero = self.add("less", [inverse, zero], type=flag)
        either = self.add("or", [below, minus_zero], type=flag)
        one = self.const(dtype.type(1))
        return self.add("where", [either, one, zero], outputs, type=x.type.with_shape(None))

    # state: variable tensors and resources

    def is_variable(self, index: int) -> bool:
        """Whether input `index` is a variable tensor."""
        return index < len(self.tensors) and self.scope.is_variable(self.tensors[index])

    def write_state(self, index: int, value: Value) -> None:
        """`value` is what variable input `index` holds after this operator: later reads see it, and the next run.

        ModelError when the input is not a variable tensor (is_variable, no buffer). A variable tensor of a sub-graph
        is a resource like any other (`touched`), so that it lives on too.
        """
        if not self.is_variable(index):
            self.fail(f"expected a variable tensor as input {index}, found one that does not live from run to run")
        self.scope.assign(tensor_key(self.scope.index, self.tensors[index]), value)

    def bind(self, value: Value, key: str) -> None:
        """`value` is a handle of the resource `key`; VAR_HANDLE takes `resources.variable_key(c.options)`.

        The value itself may be anything, for example a constant string tensor: what counts is that it is known here,
        also when it is handed to sub-graphs as one of their `args`. Resources whose keys don't begin with "variable"
        are the rules' own affair (`scope.reader.facts`): they are not passed on to sub-graphs.
        """
        self.scope.reader.handles[value] = key

    def resource(self, index: int) -> str:
        """The key of the resource that input `index` is a handle of. ModelError when it is none, as far as known."""
        key = self.scope.reader.handles.get(self.x(index))
        if key is None:
            self.fail(f"expected a resource handle as input {index}, found a value that nothing here made one")
        return key

    def read_resource(self, key: str, type: TensorType | None = None) -> Value:
        """The present value of resource `key`; `type` serves where nothing wrote it before."""
        return self.scope.present(key, type)

    def assign_resource(self, key: str, value: Value) -> None:
        """`value` is what resource `key` holds from here on, in later runs too."""
        self.scope.assign(key, value)

    def initialize(self, key: str, array: np.ndarray, quant: Quantization | None = None) -> None:
        """What resource `key` holds before the first run (CALL_ONCE)."""
        self.scope.reader.initial[key] = Value(key, TensorType(array.dtype, array.shape, quant), array)

    # sub-graphs

    def touched(self, *indices: int, args: Sequence[Value | None] = ()) -> list[str]:
        """Keys of the resources and variable tensors that sub-graphs may read or write, when called with `args`."""
        reader = self.scope.reader
        keys = touched(reader, indices, self.where)
        given = [reader.handles[value] for value in args if value in reader.handles]
        return list(dict.fromkeys(keys + [key for key in given if key.startswith("variable ")]))

    def subgraph(self, index: int, args: Sequence[Value | None] = (), resources: Sequence[str] = ()) -> Graph:
        """Sub-graph `index`, converted: a graph of its own, that reads nothing from around it but constants.

        `args` are the values that it is called with, where they are known: handles among them stay handles inside.
        For each key of `resources` the graph has an input more, its value before, and an output more, its value
        after. So a rule for control flow does:

            keys = c.touched(index, args=c.inputs)
            body = c.subgraph(index, c.inputs, keys)
            c.add("call", [*c.inputs, *(c.read_resource(k) for k in keys)], [*c.outputs, *after], body=body)
            for key, value in zip(keys, after): c.assign_resource(key, value)

        ModelError when the index is out of range, or the sub-graph is being converted: recursion.
        """
        return self._convert(self.scope.reader, index, args, resources, self.where)
