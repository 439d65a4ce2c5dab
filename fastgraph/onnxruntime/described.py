"""The interface of an ONNX file: inputs and outputs with names of open axes, and metadata. Weights are not read."""

from __future__ import annotations

import mmap
from typing import NamedTuple

from ..frontends import kind_of
from ..frontends.core.files import opened
from ..frontends.core.protobuf import fields, read_of
from ..frontends.onnx.wire import GRAPH, Message, message
from ..locks import undisturbed
from ..runtime.model import Model, TensorSpec
from ..saved.source import saved_in
from .values import NAMES, element_of

_NODE, _INITIALIZER, _INFO, _NAME = 1, 5, 13, 8


class NodeArg:
    """Name, type (as "tensor(float)") and shape of an input or output: of each axis its extent, or the name that the
    file gives it, or None.
    """

    def __init__(self, name: str, type: str, shape: list[int | str | None], marks: tuple[str, ...] = ()) -> None:
        self.name, self.type, self.shape = name, type, shape
        self._marks = marks

    def __str__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


NO_VERSION = (1 << 63) - 1
"""The version of a model whose file has none."""


class ModelMetadata:
    """The metadata that the file's author wrote."""

    custom_metadata_map: dict[str, str] = {}
    producer_name = domain = description = graph_description = graph_name = ""
    version = NO_VERSION

    def __init__(self, model: Message | None = None) -> None:
        if model is None:
            return
        self.custom_metadata_map = {p.key: p.value for p in model.metadata_props}
        self.producer_name, self.domain = model.producer_name, model.domain
        self.version = model.model_version if model.HasField("model_version") else NO_VERSION
        self.description, self.graph_description = model.doc_string, model.graph.doc_string
        self.graph_name = model.graph.name


class Described(NamedTuple):
    inputs: list[NodeArg]
    outputs: list[NodeArg]
    overridable: list[NodeArg]
    meta: ModelMetadata
    shaped: set[str]
    """Outputs whose shapes the file says."""


def describe(source: str | bytes) -> Described:
    """What the file, or its bytes, says; ValueError where it is broken. Files in other formats, and saved programs, say
    nothing.
    """
    onnx = not saved_in(source) and kind_of(source) == "onnx"
    return _described(*_outline(source)) if onnx else Described([], [], [], ModelMetadata(), set())


def _outline(source: str | bytes) -> tuple[Message, set[str]]:
    """The model without nodes and weights, and the names of its weights."""
    if isinstance(source, bytes):
        return _without_weights(memoryview(source))
    with opened(source) as file:
        if not file.seek(0, 2):
            return message("ModelProto")(), set()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
            return _without_weights(view)


def _without_weights(data: memoryview) -> tuple[Message, set[str]]:
    """ValueError where this is no message."""
    with undisturbed():
        from google.protobuf.message import DecodeError  # saved programs are run without it

    read = read_of(data)
    model, rest, graphs, at = message("ModelProto")(), [], [], 0
    names: set[str] = set()
    for number, first, end in fields(read, 0, len(data)):
        if number == GRAPH:
            kept, names = _graph(data, first, end)
            graphs.append(kept)
        elif number != 25:  # functions
            rest.append(bytes(data[at:end]))
        at = end
    try:
        model.MergeFromString(b"".join(rest))
        for graph in graphs:
            model.graph.MergeFromString(graph)
    except DecodeError as error:
        raise ValueError(str(error)) from None
    return model, names


def _graph(data: memoryview, first: int, end: int) -> tuple[bytes, set[str]]:
    names: set[str] = set()
    kept, at = [], first
    for number, start, stop in fields(read_of(data), first, end):
        if number == _INITIALIZER:
            names |= {bytes(data[a:b]).decode() for n, a, b in fields(read_of(data), start, stop) if n == _NAME}
        elif number not in (_NODE, _INFO):
            kept.append(bytes(data[at:stop]))
        at = stop
    return b"".join(kept), names


def _described(model: Message, weights: set[str]) -> Described:
    graph = model.graph
    inputs = [_arg(info) for info in graph.input if info.name not in weights]
    overridable = [_arg(info) for info in graph.input if info.name in weights and model.ir_version > 3]
    shaped = {info.name for info in graph.output if _shape_of(info.type) is not None}
    return Described(inputs, [_arg(info) for info in graph.output], overridable, ModelMetadata(model), shaped)


def _arg(info: Message) -> NodeArg:
    shape = _shape_of(info.type)
    marks = tuple(d.denotation for d in shape.dim) if shape else ()
    return NodeArg(info.name, _type(info.type), [_extent(d) for d in shape.dim] if shape else [], marks)


def _shape_of(type: Message) -> Message | None:
    tensor = type.WhichOneof("value") == "tensor_type" and type.tensor_type.HasField("shape")
    return type.tensor_type.shape if tensor else None


def _extent(dim: Message) -> int | str | None:
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or None


def _type(type: Message) -> str:
    kind = type.WhichOneof("value")
    if kind == "sequence_type":
        return f"seq({_type(type.sequence_type.elem_type)})"
    if kind == "optional_type":
        return f"optional({_type(type.optional_type.elem_type)})"
    if kind == "map_type":
        return f"map({NAMES[type.map_type.key_type]},{_type(type.map_type.value_type)})"
    if kind is None:
        return ""
    name = NAMES.get(getattr(type, kind).elem_type, "undefined")
    return f"sparse_tensor({name})" if kind == "sparse_tensor_type" else f"tensor({name})"


def completed(described: Described, model: Model) -> Described:
    """The description with extents of outputs from the plan; of a file that describes nothing, all from the model."""
    if not described.inputs and not described.outputs:
        return described._replace(inputs=[_of(s) for s in model.inputs], outputs=[_of(s) for s in model.outputs])
    told = {spec.name: _of(spec) for spec in model.outputs}
    for arg in described.outputs:
        shape = told[arg.name].shape if arg.name in told else []
        if shape and arg.name not in described.shaped:
            arg.shape = shape
        elif len(shape) == len(arg.shape):
            arg.shape = [b if isinstance(b, int) else a for a, b in zip(arg.shape, shape, strict=True)]
    return described


def _of(spec: TensorSpec) -> NodeArg:
    element = "undefined" if spec.dtype is None else element_of(spec.dtype)
    return NodeArg(spec.name, f"tensor({element})", list(spec.shape or ()))
