"""AttributeProto to Python values: int, float, str, tuples, arrays, types. Graphs are the reader's work."""

from __future__ import annotations

from typing import Any

from ...errors import ModelError
from ...ir import UNKNOWN, Kind, TensorType
from .elements import ELEMENTS, element_of
from .scope import readable
from .tensors import densify, sound, to_array
from .wire import Message

GRAPH, GRAPHS = 5, 10
LISTS = (6, 7, 8, 9, 10, 12, 14)

_FIELDS = " f i s t g floats ints strings tensors graphs sparse_tensor sparse_tensors tp type_protos".split(" ")
"""The content field of every AttributeType, by its number."""


def kind_of(attr: Message) -> int:
    """The AttributeType. Where the oldest files leave it out, the field that is present tells."""
    if attr.type:
        return attr.type
    present = {field.name for field, _ in attr.ListFields()}
    return next((i for i, name in enumerate(_FIELDS) if name in present), 0)


def decode(attr: Message, path: str | None, where: str) -> tuple[Any, str]:
    """The attribute's value, and for a tensor the name of its element type when numpy lacks it.

    Raises ModelError for what is not one of ONNX's kinds.
    """
    where = f"{where}: attribute {attr.name!r}"
    kind = kind_of(attr)
    if not 0 < kind < len(_FIELDS) or kind in (GRAPH, GRAPHS):
        raise ModelError(f"{where}: expected a value of one of ONNX's attribute types, found type {kind}")
    content, many = getattr(attr, _FIELDS[kind]), kind in LISTS
    items = content if many else [content]
    if kind in (3, 8):
        try:
            items = [text.decode() for text in items]
        except UnicodeDecodeError as error:
            raise ModelError(f"{where}: expected UTF-8 text, found {error.object[:40]!r}") from error
    elif kind in (4, 9):
        items = [to_array(tensor, path, where) for tensor in items]
    elif kind in (11, 12):
        items = [densify(tensor, path, where) for tensor in items]
    elif kind in (13, 14):
        items = [type_of(proto, where) for proto in items]
    return tuple(items) if many else items[0], ELEMENTS[content.data_type].format if kind == 4 else ""


def type_of(proto: Message, where: str) -> TensorType:
    """Element type and shape. Sequences, optionals and maps have dtype None; unknown extents are None."""
    kind = proto.WhichOneof("value")
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return UNKNOWN
    tensor = getattr(proto, kind)
    if tensor.elem_type == 0:
        return UNKNOWN
    dtype = element_of(tensor.elem_type, where).dtype
    shape = map(_extent, tensor.shape.dim)
    return TensorType(dtype, sound(shape, dtype.itemsize, where) if tensor.HasField("shape") else None)


def _extent(dim: Message) -> int | str | None:
    """An extent's number, or its name. -1 is how some exporters spell that it is unknown."""
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value != -1 else None
    return readable(dim.dim_param) or None


def format_of(proto: Message) -> str:
    """The name of a tensor type's elements when numpy lacks them, else ""."""
    element = ELEMENTS.get(proto.tensor_type.elem_type) if proto.HasField("tensor_type") else None
    return element.format if element else ""


def kind_of_type(proto: Message, where: str) -> Kind | None:
    """The kind of a tensor, sequence or optional of known element type; None for all else."""
    form = proto.WhichOneof("value")
    if form == "tensor_type":
        found = type_of(proto, where)
        return None if found.dtype is None else Kind("tensor", found, format_of(proto))
    if form not in ("sequence_type", "optional_type"):
        return None
    item = kind_of_type(getattr(proto, form).elem_type, where)
    return None if item is None else Kind(form.removesuffix("_type"), item=item)
