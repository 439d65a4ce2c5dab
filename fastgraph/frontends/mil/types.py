"""What MIL says of a value's type, and how the graph holds it.

Element types that NumPy lacks, or that are computed in f32, are held in wider ones: FLOAT16, BFLOAT16 and FLOAT8 in
float32, integers of 1 to 6 bits in 8, text in object arrays of str.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import NamedTuple

import numpy as np

from ...errors import ModelError
from ...ir import Dim, Shape, TensorType
from ..core import elements
from .wire import Message, message, wrong

RANK_LIMIT = 64
"""NumPy's limit of dimensions."""

BIGGEST = 1 << 40
"""Most elements of a tensor: what is declared bigger is a damaged file."""

LONGEST = (1 << 31) - 1
"""The largest extent that is taken for one."""

_NAMES = """
BOOL STRING FLOAT16 FLOAT32 FLOAT64 BFLOAT16 FLOAT8E4M3FN FLOAT8E5M2 INT4 INT8 INT16 INT32 INT64
UINT1 UINT2 UINT3 UINT4 UINT6 UINT8 UINT16 UINT32 UINT64
""".split()

ELEMENTS: dict[str, np.dtype] = {name: elements.ELEMENTS[name].dtype for name in _NAMES}
ELEMENTS["FLOAT16"] = np.dtype(np.float32)
"""The element types of MIL, and what the graph holds them in."""


class MilType(NamedTuple):
    """A ValueType. `kind`: "tensor", "list", "tuple", "dictionary" or "state".

    A tensor has an `element` type and a `shape` (None: of any rank; None in it: of any extent). `items` are the types
    of a list's elements (one), a tuple's, a dictionary's keys and values, or what a state wraps (one); `length` is a
    list's, None when it is open.
    """

    kind: str
    element: str = ""
    shape: Shape | None = None
    items: tuple[MilType, ...] = ()
    length: Dim = None

    @property
    def held(self) -> TensorType:
        """The type of the value in the graph; what is no tensor has dtype None. A list of tensors is one, stacked."""
        if self.kind == "state":
            return self.items[0].held
        if self.kind == "list" and self.items and self.items[0].kind == "tensor":
            element = self.items[0].held
            # The length that a program declares is that of the beginning: lists may grow.
            return element.with_shape(None if element.shape is None else (None, *element.shape))
        return TensorType(ELEMENTS[self.element], self.shape) if self.kind == "tensor" else TensorType(None)

    @property
    def api(self) -> np.dtype | None:
        """The element type in which callers feed and get it: float16 stays what it is."""
        return np.dtype(np.float16) if self.element == "FLOAT16" else self.held.dtype

    def __str__(self) -> str:
        if self.kind == "tensor":
            dims = "*" if self.shape is None else ",".join("?" if d is None else str(d) for d in self.shape)
            return f"{self.element.lower()}[{dims}]"
        return f"{self.kind}<{', '.join(map(str, self.items))}>"


def mil_type(proto: Message, where: str) -> MilType:
    """The type that a ValueType describes. ModelError when it is empty, or of an unknown kind."""
    kind = proto.WhichOneof("type")
    if kind == "tensorType":
        return _tensor(proto.tensorType, where)
    if kind == "listType":
        length = proto.listType.length
        known = _extent(length, where) if length.WhichOneof("dimension") else None
        return MilType("list", items=(mil_type(proto.listType.type, where),), length=known)
    if kind == "tupleType":
        return MilType("tuple", items=tuple(mil_type(t, where) for t in proto.tupleType.types))
    if kind == "dictionaryType":
        types = proto.dictionaryType
        return MilType("dictionary", items=(mil_type(types.keyType, where), mil_type(types.valueType, where)))
    if kind == "stateType":
        wrapped = mil_type(proto.stateType.wrappedType, where)
        if wrapped.kind != "tensor":
            raise ModelError(f"{where}: expected a state of a tensor, found {wrapped}")
        return MilType("state", items=(wrapped,))
    raise wrong(f"{where}: it has no type")


def _tensor(proto: Message, where: str) -> MilType:
    element = _elements().get(proto.dataType)
    if element is None:
        raise ModelError(f"{where}: expected one of MIL's element types, found number {proto.dataType}")
    dims, open_rank = proto.dimensions, proto.rank < 0
    shape = () if open_rank else tuple(_extent(d, where) for d in dims)
    if open_rank or (None in shape and any(d.unknown.variadic for d in dims)):
        return MilType("tensor", element)
    if proto.rank != len(dims) or len(dims) > RANK_LIMIT:
        raise wrong(f"{where}: expected {proto.rank} extents, its rank (at most {RANK_LIMIT}), found {len(dims)}")
    if prod(max(1, d) for d in shape if isinstance(d, int)) > BIGGEST:
        raise ModelError(f"{where}: expected a tensor that some memory can hold, found shape {list(shape)}")
    return MilType("tensor", element, shape)


@cache
def _elements() -> dict[int, str]:
    """The element types by their numbers."""
    found = message("MILSpec.TensorType").DESCRIPTOR.fields_by_name["dataType"].enum_type.values_by_number
    return {number: value.name for number, value in found.items() if value.name in ELEMENTS}


def _extent(proto: Message, where: str) -> Dim:
    """A number, or None where the program leaves it open."""
    kind = proto.WhichOneof("dimension")
    if kind == "unknown":
        return None
    if kind is None or proto.constant.size > LONGEST:
        found = proto.constant.size if kind else "none"
        raise ModelError(f"{where}: expected an extent from 0 to {LONGEST}, found {found}")
    return proto.constant.size
