"""The graph that every format becomes."""

from .check import check, fits
from .copy import copy
from .graph import Graph, Interface, Node, Port, State, Value, captured, read_by
from .quantization import Quantization
from .types import (
    LENGTHS,
    MAX_ELEMENTS,
    MAX_RANK,
    MOST_LENGTH,
    UNKNOWN,
    Dim,
    Kind,
    Open,
    Shape,
    TensorType,
    is_open,
    open_axes,
)

__all__ = [
    "LENGTHS",
    "MAX_ELEMENTS",
    "MAX_RANK",
    "MOST_LENGTH",
    "UNKNOWN",
    "Dim",
    "Graph",
    "Interface",
    "Kind",
    "Node",
    "Open",
    "Port",
    "Quantization",
    "Shape",
    "State",
    "TensorType",
    "Value",
    "captured",
    "check",
    "copy",
    "fits",
    "is_open",
    "open_axes",
    "read_by",
]
