"""fastgraph as a backend of the onnx package (`onnx.backend.base`), for what is written against that interface.

    import fastgraph.backend as backend

    outputs = backend.prepare(onnx.load("net.onnx")).run([array])      # by position in the file, and by name

It needs the package onnx: `pip install 'fastgraph-runtime[onnx]'`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

try:
    import onnx
    from onnx.backend import base
except ImportError as error:
    raise ImportError(f"onnx: not installed ({error}): pip install 'fastgraph-runtime[onnx]'") from None

from .errors import FastgraphError, InputError, UnsupportedError
from .frontends.onnx.signatures import NEWEST
from .loading import load
from .runtime.model import Model
from .text import counted

OPTIONS = ("threads", "isa", "shapes", "limits", "plans", "outputs", "float_io")
"""The options that `prepare` passes to `fastgraph.load`."""


class BackendRep(base.BackendRep):
    """A model that is ready to run. `model`: fastgraph's."""

    def __init__(self, model: Model) -> None:
        self.model = model
        names = [spec.name for spec in model.outputs]
        self._outputs: Any = base.namedtupledict("Outputs", names)

    def run(self, inputs: Any, timeout: float | None = None, **_: Any) -> tuple[Any, ...]:
        """The outputs, in the file's order and by name (a named tuple that takes names in brackets too).

        `inputs`: arrays in the file's order, or by name, or one alone. `timeout`: seconds, as of `Model.run`.
        """
        specs = self.model.inputs
        if not isinstance(inputs, Mapping):
            arrays = inputs if isinstance(inputs, list | tuple) else [inputs]
            if len(arrays) != len(specs):
                names = ", ".join(spec.name for spec in specs)
                raise InputError(f"expected {counted(len(specs), 'input')} ({names}), found {len(arrays)}")
            inputs = {spec.name: array for spec, array in zip(specs, arrays, strict=True)}
        return self._outputs(*self.model.run(inputs, timeout=timeout).values())


class Backend(base.Backend):
    """ONNX models and nodes, run by fastgraph."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether it is "CPU", or one of its numbers, as "CPU:0"."""
        return device.partition(":")[0] == "CPU"

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **options: Any) -> bool:
        """False where a model uses what fastgraph lacks. Of a broken one `prepare` says what is wrong."""
        try:
            cls.prepare(model, device, **options)
        except UnsupportedError:
            return False
        except FastgraphError:
            return cls.supports_device(device)
        return True

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **options: Any) -> BackendRep:
        """A model that is ready to run, of an onnx.ModelProto, a file's path or its bytes. A file's path is what is
        wanted where weights lie in other files. `options`: those of `fastgraph.load`; raises what that does.
        """
        if not cls.supports_device(device):
            raise InputError(f"device={device!r}: expected 'CPU', on which fastgraph runs")
        for tolerance in ("rtol", "atol"):  # ONNX's suite of tests hands its own on
            options.pop(tolerance, None)
        unknown = [name for name in options if name not in OPTIONS]
        if unknown:
            raise InputError(f"no option is called {unknown[0]!r}: they are {', '.join(OPTIONS)}")
        source = model if isinstance(model, str | os.PathLike | bytes) else model.SerializeToString()
        return BackendRep(load(source, **options))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **options: Any) -> tuple[Any, ...]:
        """The outputs of a model for these inputs: `prepare`, then `run`."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **options: Any
    ) -> tuple[Any, ...]:
        """What one node gives for these inputs, by position, or by name. `options`: `opset_version` (default: the
        newest that both know), and those of `prepare`. `outputs_info` says nothing that does not follow from the node.
        """
        version = options.pop("opset_version", min(NEWEST, onnx.defs.onnx_opset_version()))
        names = [name for name in node.input if name]
        arrays = [inputs[name] for name in names] if isinstance(inputs, Mapping) else _listed(inputs)
        if len(arrays) != len(names):
            raise InputError(f"node {node.op_type}: expected {counted(len(names), 'input')}, found {len(arrays)}")
        given = [_info(name, array) for name, array in zip(names, arrays, strict=True)]
        made = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", given, made)
        imports = [onnx.helper.make_opsetid("", version)]
        if node.domain not in ("", "ai.onnx"):
            imports.append(onnx.helper.make_opsetid(node.domain, 1))
        model = onnx.helper.make_model(graph, opset_imports=imports)
        return cls.run_model(model, dict(zip(names, arrays, strict=True)), device, **options)


def _listed(inputs: Any) -> Sequence[Any]:
    return inputs if isinstance(inputs, list | tuple) else [inputs]


def _info(name: str, value: Any) -> Any:
    """The declaration of an input that takes a value: a tensor, or a list of tensors of one type."""
    if isinstance(value, list):
        dtype = np.asarray(value[0]).dtype if value else np.dtype(np.float32)
        return onnx.helper.make_tensor_sequence_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(dtype), None)
    array = np.asarray(value)
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = run = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
