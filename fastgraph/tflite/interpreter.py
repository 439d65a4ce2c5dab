"""LiteRT's `Interpreter`, computed by fastgraph. Semantics: ai_edge_litert/interpreter.py and its wrapper."""

from __future__ import annotations

import enum
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ..cpus import default_threads
from ..errors import FastgraphError
from ..frontends.circle.load import root
from ..text import counted
from .file import File
from .network import Network


class OpResolverType(enum.Enum):
    """Which kernels LiteRT takes. fastgraph has one kind; all are accepted."""

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


class Delegate:
    """A plugin of LiteRT's for other hardware. There is none here: making one raises ValueError."""

    def __init__(self, library: str, options: dict[str, Any] | None = None) -> None:
        raise ValueError(
            f"{library}: fastgraph computes on the CPU, and has no delegates: leave experimental_delegates out, or use "
            "ai_edge_litert for other hardware"
        )


def load_delegate(library: str, options: dict[str, Any] | None = None) -> Delegate:
    """Raises ValueError, as LiteRT does where a delegate can't be loaded: callers then use the CPU."""
    return Delegate(library, options)


class Interpreter:
    """A .tflite (or .circle) file that runs: `model_path`, or its bytes as `model_content`.

    `num_threads`: 1 by default, as in LiteRT; no more than there are CPUs. `experimental_preserve_all_tensors`: whether
    `get_tensor` gives inner tensors too; fewer operators are then computed together. Delegates are passed over with a
    warning. The other arguments change how LiteRT computes, and nothing here.

    Raises ValueError for a file that can't be read, and arguments that can't be.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
        experimental_delegates: Sequence[Any] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: OpResolverType = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
    ) -> None:
        self.experimental_compress_quantization_zero_points = experimental_compress_quantization_zero_points
        if num_threads is not None and not isinstance(num_threads, int):
            raise ValueError(f"num_threads={num_threads!r}: expected an int")
        if num_threads is not None and num_threads < 1:
            raise ValueError(f"num_threads={num_threads}: expected 1 or more")
        if getattr(experimental_op_resolver_type, "name", "") not in OpResolverType.__members__:
            raise ValueError(f"expected an OpResolverType, found {experimental_op_resolver_type!r}")
        if experimental_delegates:
            warnings.warn("delegates are passed over: fastgraph computes on the CPU", RuntimeWarning, stacklevel=2)
        source = _source(model_path, model_content)
        try:
            self._file = File(root(source, "model_content" if isinstance(source, bytes) else source))
        except (FastgraphError, OSError) as error:
            raise ValueError(str(error)) from error
        self._threads = min(num_threads or 1, default_threads())
        self._source, self._keep = source, experimental_preserve_all_tensors
        self._variables: dict[str, np.ndarray] = {}
        self._networks: dict[int, Network] = {}
        if not len(self._file.graphs):
            raise ValueError(f"{model_path or 'model_content'}: expected a sub-graph, found none")
        self._main = self._network(0)

    def _network(self, index: int) -> Network:
        if index not in self._networks:
            wanted = self._file, index, self._source, self._threads, self._keep, self._variables
            self._networks[index] = Network(*wanted)
        return self._networks[index]

    # -- running

    def allocate_tensors(self) -> None:
        """Plan memory and kernels for the shapes of the inputs. RuntimeError where that can't be."""
        self._main.allocate()

    def invoke(self) -> None:
        """Run once. RuntimeError before `allocate_tensors`, and when the run fails."""
        self._main.run()

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy an array of exactly its element type and shape into an input. ValueError for others."""
        _set(self._main, _index(tensor_index), value)

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> np.ndarray:
        """A copy of an input, an output or a constant; of any tensor with experimental_preserve_all_tensors. Of one
        without axes it is a NumPy scalar.

        ValueError when there is none of that index, or nothing was kept of it.
        """
        return self._view(_index(tensor_index), _index(subgraph_index)).copy()[()]

    def tensor(self, tensor_index: int) -> Callable[[], np.ndarray]:
        """A function that gives an input, an output or a constant without a copy: what is written into an input is fed
        to the next `invoke`. An output's array is another after each `invoke`: call the function again.
        """
        index = _index(tensor_index)
        return lambda: self._view(index, 0)

    def _view(self, index: int, graph: int) -> np.ndarray:
        known = self._networks.get(graph)
        if known is not None and index in known.arrays:
            return known.arrays[index]
        if not 0 <= graph < len(self._file.graphs):
            raise ValueError(f"expected a sub-graph from 0 to {len(self._file.graphs) - 1}, found {graph}")
        tensor = self._file.tensor(graph, index)
        constant = self._file.constant(graph, index)
        if constant is not None:
            return constant
        if known is None or not known.ready:
            raise ValueError(f"tensor {index} {tensor.name!r} has no memory yet: call allocate_tensors() first")
        raise ValueError(
            f"tensor {index} {tensor.name!r} is an inner one, of which nothing is kept: make the interpreter with "
            "experimental_preserve_all_tensors=True"
        )

    def resize_tensor_input(self, input_index: int, tensor_size: Sequence[int], strict: bool = False) -> None:
        """Let an input have another shape from the next `allocate_tensors` on. With `strict` only extents may change
        that are -1 in its `shape_signature`. RuntimeError where that can't be.
        """
        shape = tuple(int(extent) for extent in np.array(tensor_size, np.int32).reshape(-1))
        self._main.resize(_index(input_index), shape, strict)

    def reset_all_variables(self) -> None:
        """Let variable tensors (of recurrent layers, say) have their first values again."""
        for network in self._networks.values():
            network.reset()

    # -- what there is

    def get_input_details(self) -> list[dict[str, Any]]:
        """A dict for each input: name, index, shape, shape_signature, dtype, quantization, quantization_parameters
        (scales, zero_points, quantized_dimension), sparsity_parameters.
        """
        return [self._get_tensor_details(i, 0) for i in self._main.table.inputs]

    def get_output_details(self) -> list[dict[str, Any]]:
        """The same for each output; shapes are those of the last run, or of the plan."""
        return [self._get_tensor_details(i, 0) for i in self._main.table.outputs]

    def get_tensor_details(self, subgraph_index: int = 0) -> list[dict[str, Any]]:
        """The same for each tensor of a sub-graph of the file."""
        if not 0 <= subgraph_index < len(self._file.graphs):
            raise ValueError(f"subgraph_index={subgraph_index}: the model has {len(self._file.graphs)} sub-graphs")
        count = len(self._file.graphs[subgraph_index].tensors)
        return [self._get_tensor_details(i, subgraph_index) for i in range(count)]

    def _get_tensor_details(self, tensor_index: int, subgraph_index: int) -> dict[str, Any]:
        network = self._networks.get(subgraph_index)
        shape = None
        if network is not None:
            array = network.arrays.get(tensor_index)
            shape = network.shapes.get(tensor_index, None if array is None else array.shape)
        return self._file.details(subgraph_index, tensor_index, shape)

    def _get_ops_details(self) -> list[dict[str, Any]]:
        """The operators of the file: names, tensors and their types."""
        return list(self._file.operators())

    def num_subgraphs(self) -> int:
        """How many sub-graphs the file has."""
        return len(self._file.graphs)

    # -- signatures

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """By key, the names of the inputs and outputs of each signature."""
        return {
            key: {"inputs": list(_names(each.inputs)), "outputs": list(_names(each.outputs))}
            for key, each in self._file.signatures.items()
        }

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """What runs a signature: its name may be left out where there is one. ValueError for one that is not there."""
        keys = list(self._file.signatures)
        if signature_key is None and len(keys) != 1:
            raise ValueError(f"signature_key is None, and the model has {len(keys)} signatures: {', '.join(keys)}")
        return SignatureRunner(self, keys[0] if signature_key is None else signature_key)


class SignatureRunner:
    """Call it with an array for each input, by name: it gives a dict of the outputs' arrays. Inputs take the arrays'
    shapes. What `Interpreter.get_signature_runner` gives.
    """

    def __init__(self, interpreter: Interpreter, signature_key: str) -> None:
        found = interpreter._file.signatures
        if signature_key not in found:
            raise ValueError(
                f"no signature is called {signature_key!r}: the signatures are {', '.join(found) or 'none'}"
            )
        signature = found[signature_key]
        self._interpreter, self._signature_key = interpreter, signature_key
        self._subgraph_index = signature.subgraph_index
        self._inputs, self._outputs = _names(signature.inputs), _names(signature.outputs)

    def __call__(self, **arrays: Any) -> dict[str, np.ndarray]:
        """The outputs by name. ValueError for names, element types or ranks that don't fit."""
        if len(arrays) != len(self._inputs):
            names = ", ".join(self._inputs)
            raise ValueError(
                f"{self._signature_key}: expected {counted(len(self._inputs), 'input')} ({names}), found {len(arrays)}"
            )
        unknown = [name for name in arrays if name not in self._inputs]
        if unknown:
            raise ValueError(f"{self._signature_key}: no input is called {unknown[0]!r}: {', '.join(self._inputs)}")
        network = self._interpreter._network(self._subgraph_index)
        values = {self._inputs[name]: np.asarray(array) for name, array in arrays.items()}
        for index, array in values.items():
            network.resize(index, array.shape)
        network.allocate()
        for index, array in values.items():
            _set(network, index, array)
        network.run()
        view = self._interpreter._view
        return {name: view(index, self._subgraph_index).copy()[()] for name, index in self._outputs.items()}

    def get_input_details(self) -> dict[str, dict[str, Any]]:
        """By name, what the interpreter's `get_input_details` says of each input."""
        return self._details(self._inputs)

    def get_output_details(self) -> dict[str, dict[str, Any]]:
        """The same for each output."""
        return self._details(self._outputs)

    def _details(self, names: dict[str, int]) -> dict[str, dict[str, Any]]:
        details = self._interpreter._get_tensor_details
        return {name: details(index, self._subgraph_index) for name, index in names.items()}


class InterpreterWithCustomOps(Interpreter):
    """An Interpreter; LiteRT's functions that register custom operators can't be called here."""

    def __init__(self, custom_op_registerers: Sequence[Any] | None = None, **others: Any) -> None:
        if custom_op_registerers:
            raise ValueError(
                "custom_op_registerers add C++ kernels to LiteRT: give Python functions to "
                "fastgraph.register_custom_op before the interpreter is made"
            )
        super().__init__(**others)


def _source(path: Any, content: Any) -> str | bytes:
    """The path as text, or the bytes. ValueError unless there is one of them."""
    if not path and not content:
        raise ValueError("give model_path, or model_content")
    if path and content:
        raise ValueError("give model_path or model_content, not both")
    if path:
        return os.fsdecode(path)
    if not isinstance(content, bytes | bytearray | memoryview):
        raise TypeError(f"model_content: expected bytes, found {type(content).__name__}")
    return bytes(content)


def _index(index: Any) -> int:
    """An index as an int. TypeError for what is none."""
    try:
        return index.__index__()
    except AttributeError:
        raise TypeError(f"expected the index of a tensor, found {index!r}") from None


def _names(maps: Any) -> dict[str, int]:
    """The tensors of a signature's inputs or outputs, in the order of their names."""
    return {each.name: each.tensor_index for each in sorted(maps, key=lambda each: each.name)}


def _set(network: Network, index: int, value: Any) -> None:
    """Copy a value into an input. ValueError unless it has its element type and shape."""
    place = network.arrays.get(index)
    if type(value) is np.ndarray and place is not None and network.ready and index in network.shapes:
        if value.dtype is place.dtype and value.shape == place.shape:
            place[...] = value
            return
    tensor = network.file.tensor(network.index, index)
    where = f"input {index} {tensor.name!r}"
    if index not in network.shapes:
        raise ValueError(f"tensor {index} {tensor.name!r} is no input: only inputs can be set")
    if not network.ready:
        raise ValueError(f"{where} has no memory yet: call allocate_tensors() first")
    array = np.asarray(value)
    assert place is not None
    text = place.dtype == object and array.dtype.kind in "USO"
    if array.dtype != place.dtype and not text:
        how = _conversion(network.file.details(network.index, index)["quantization"], array.dtype, place.dtype)
        _refuse(where, f"of type {place.dtype}", f"{array.dtype}: convert it, {how}")
    if array.shape != place.shape:
        _refuse(where, f"of shape {list(place.shape)}", f"{list(array.shape)}: call resize_tensor_input for another")
    place[...] = array


def _conversion(quantization: tuple[float, int], found: np.dtype, wanted: np.dtype) -> str:
    """The expression of what an input stores for x, for an error's text."""
    scale, zero = quantization
    if scale == 0 or found.kind != "f" or wanted.kind not in "iu":
        return f"x.astype(np.{wanted})"
    limits = np.iinfo(wanted)
    return f"np.clip(np.rint(x / {scale:.9g}) + {zero}, {limits.min}, {limits.max}).astype(np.{wanted})"


def _refuse(where: str, expected: str, found: str) -> NoReturn:
    raise ValueError(f"cannot set {where}: expected a value {expected}, found {found}")
