"""One sub-graph being converted: its tensors as values, its nodes, and what variables hold at this point of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from ...errors import ModelError, UnsupportedError
from ...ir import Node, TensorType, Value
from ...ir.quantization import is_upright
from ...limits import current
from ...ops.work import nbytes
from .reader import Code, Reader, tensor_key
from .tensors import buffer, constant, type_of
from .wire import Table


class Scope:
    """Values by tensor index, `nodes` in the file's order.

    `present` and `assign` follow resources and variable tensors by key; `first` holds the values that stand for what
    they were when the sub-graph began. `cut`: by slices whose start only a run knows, the sliced
    value, the start, and the size.
    """

    def __init__(self, reader: Reader, index: int, args: Sequence[Value | None] = (), caller: str = "") -> None:
        self.reader = reader
        self.index = index
        self.table = reader.subgraphs[index]
        self.name = self.table.name
        label = f" {self.name!r}" if self.name else ""
        self.where = f"{reader.source}: sub-graph {index}{label}"
        self.tensors = self.table.tensors
        self._tensors: dict[int, tuple[Table, str]] = {}
        self.values: dict[int, Value] = {}
        self.nodes: list[Node] = []
        self.cut: dict[Value, tuple[Value, Value, Value]] = {}
        self._makers: dict[Value, Node] = {}
        self._indexed = 0
        self.current: dict[str, Value] = {}
        self.first: dict[str, Value] = {}
        self.names: dict[int, str] = {}  # of tensors that must be called so: the main graph's outputs
        if "deprecated_data_format" in self.table.fields and self.table.deprecated_data_format == "CHANNELS_FIRST":
            reader.lacks("sub-graphs with channels first", f"sub-graph {index}")
        self.inputs = self._inputs(args, caller)

    def fail(self, what: str) -> NoReturn:
        raise ModelError(f"{self.where}: {what}; the file was not written correctly")

    def code(self, operator: Table) -> Code:
        """The kind of an operator of the sub-graph."""
        return self.reader.code(operator.opcode_index, self.where)

    def label(self, place: int, operator: Table) -> str:
        """Where operator `place` is, for messages."""
        return f"{self.where}: operator {place} ({self.code(operator).name})"

    def _name(self, index: int, tensor: Table) -> str:
        """The name of the value that a tensor becomes."""
        return self.names.pop(index, None) or self.reader.unique(tensor.name or f"tensor_{index}")

    def maker(self, value: Value) -> Node | None:
        """The node that makes a value, among those written so far."""
        for node in self.nodes[self._indexed :]:
            self._makers.update(dict.fromkeys(node.outputs, node))
        self._indexed = len(self.nodes)
        return self._makers.get(value)

    # tensors

    def tensor(self, index: int) -> tuple[Table, str]:
        """Tensor `index`, and where it is, for messages."""
        if index not in self._tensors:
            if not 0 <= index < len(self.tensors):
                self.fail(f"expected tensors from 0 to {len(self.tensors) - 1}, found {index}")
            tensor = self.tensors[index]
            self._tensors[index] = tensor, f"{self.where}: tensor {index} {tensor.name!r}"
        return self._tensors[index]

    def read(self, index: int) -> Value:
        """The value of a tensor that something reads now."""
        known = self.values.get(index)
        if known is not None:
            return known
        tensor, where = self.tensor(index)
        data = self._stored(tensor, where)
        if tensor.is_variable:
            if len(data):
                self.fail(f"tensor {index} {tensor.name!r} is variable: expected no stored numbers, found some")
            return self.present(tensor_key(self.index, index), type_of(tensor, where))
        if not len(data) and 0 not in tensor.shape:
            self.fail(f"tensor {index} {tensor.name!r} is read, but no input, buffer or operator before gives it")
        value = self.values[index] = Value(self._name(index, tensor), type_of(tensor, where, constant=True))
        value.data = constant(tensor, data, value.type, where)
        self.reader.upright &= is_upright(value.type.quant)
        if not np.may_share_memory(value.data, data):
            current().hold(nbytes(value.data), where)
        details = tensor.quantization.details if tensor.quantization is not None else None
        if details is not None and details.kind != "CustomQuantization":
            value.data = self._blocks(details, value.data, where)
            current().hold(value.data.nbytes, where)
            value.type = TensorType.of(value.data)
        return value

    def _blocks(self, details: Table, stored: np.ndarray, where: str) -> np.ndarray:
        """The reals that a constant stands for whose blocks have scales of their own, in other tensors."""
        if details.kind != "BlockwiseQuantization" or len(details.block_shape) > 1:
            raise UnsupportedError(f"constants with {details.kind} in several dimensions")
        from .packed import blockwise

        scales = self.read(details.scales).data
        zeros = self.read(details.zero_points).data if details.zero_points > 0 else None
        if scales is None or scales.dtype.kind != "f":
            raise ModelError(
                f"{where}: expected constant floats as scales of its blocks, found tensor "
                f"{details.scales}; the file was not written correctly"
            )
        return blockwise(stored, scales, zeros, details.block_size, where)

    def _stored(self, tensor: Table, where: str) -> np.ndarray:
        if "external_buffer" in tensor.fields and tensor.external_buffer:
            raise UnsupportedError("constants in files of their own (external buffers)")
        return buffer(self.reader.buffers, tensor.buffer, where)

    def declared(self, index: int) -> Value:
        """A fresh value of a tensor that an operator makes; its shape is a hint, [] says nothing without has_rank."""
        tensor, where = self.tensor(index)
        declared = type_of(tensor, where)
        if self.reader.wanted.shapes or (not declared.shape and not tensor.has_rank):
            declared = declared.with_shape(None)
        return Value(self._name(index, tensor), declared)

    def _inputs(self, args: Sequence[Value | None], caller: str) -> list[Value]:
        indices = self.table.inputs
        if args and len(args) != len(indices):
            raise ModelError(f"{caller}: expected {len(indices)} inputs for sub-graph {self.index}, found {len(args)}")
        inputs = []
        for i, index in enumerate(indices):
            tensor, where = self.tensor(index)
            if index in self.values:
                self.fail(f"tensor {index} {tensor.name!r} is an input twice")
            type_ = type_of(tensor, where)
            if not args and index in self.reader.wanted.shapes:
                type_ = type_.with_shape(self.reader.wanted.shapes[index])
            value = self.values[index] = Value(self._name(index, tensor), type_)
            if args and (key := self.reader.handles.get(args[i])) is not None:
                self.reader.handles[value] = key
            inputs.append(value)
        return inputs

    def outputs(self) -> list[Value]:
        """The values of the outputs, which may be inputs or constants."""
        return [self.read(index) for index in self.table.outputs]

    # resources and variable tensors

    def present(self, key: str, type: TensorType | None = None) -> Value:
        """The present value of resource `key`."""
        types = self.reader.types
        if type is not None:
            types.setdefault(key, type)
        if key not in self.current:
            self.current[key] = self.first[key] = Value(self.reader.unique(key), types.get(key, TensorType(None)))
        value = self.current[key]
        if value.type.dtype is None and value.data is None:
            value.type = types.get(key, value.type)
        return value

    def assign(self, key: str, value: Value) -> None:
        """`value` is what resource `key` holds from here on."""
        self.reader.types.setdefault(key, value.type)
        self.current[key] = value

    def is_variable(self, index: int) -> bool:
        """Whether tensor `index` is variable; -1 is none, inputs of the sub-graph are what they are called with."""
        return index >= 0 and index not in self.values and self.tensor(index)[0].is_variable

    def bind(self, index: int, value: Value) -> None:
        """`value` is what tensor `index` stands for from here on."""
        if self.is_variable(index):
            self.assign(tensor_key(self.index, index), value)
        else:
            self.values[index] = value
