"""The graph that every format becomes."""

from .check import check, fits
from .copy import copy
from .graph import Graph, Interface, Node, Port, State, Value, captured, read_by
from .quantization import Quantization
from .types import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    LENGTHS,
    MAX_ELEMENTS,
    MAX_RANK,
    MOST_LENGTH,
    STRING,
    UINT8,
    UNKNOWN,
    Dim,
    Kind,
    Open,
    Shape,
    TensorType,
    is_open,
    open_axes,
)
