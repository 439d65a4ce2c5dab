"""The graph that every format becomes."""

from .check import check, fits
from .copy import copy
from .graph import Graph, Interface, Node, Port, State, Value, captured, read_by
from .kinds import Kind
from .quantization import Quantization
from .types import MAX_ELEMENTS, MAX_RANK, UNKNOWN, Dim, Shape, TensorType

__all__ = [
    "MAX_ELEMENTS",
    "MAX_RANK",
    "UNKNOWN",
    "Dim",
    "Graph",
    "Interface",
    "Kind",
    "Node",
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
    "read_by",
]
