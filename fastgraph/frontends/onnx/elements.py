"""ONNX's element types by their numbers, and the fields of a TensorProto that hold them."""

from __future__ import annotations

from ...errors import ModelError
from ..core import elements
from ..core.elements import Element

_NAMES = """
FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64 COMPLEX64 COMPLEX128 BFLOAT16
FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ UINT4 INT4 FLOAT4E2M1 FLOAT8E8M0 UINT2 INT2 FLOAT6E2M3 FLOAT6E3M2
""".split()

NUMBERS = {name: number for number, name in enumerate(_NAMES, 1)}
"""By ONNX's own names."""

ELEMENTS: dict[int, Element] = {
    number: elements.ELEMENTS[{"FLOAT": "FLOAT32", "DOUBLE": "FLOAT64"}.get(name, name)]
    for name, number in NUMBERS.items()
}

_FIELDS = """
FLOAT32=float_data COMPLEX64=float_data FLOAT64=double_data COMPLEX128=double_data INT64=int64_data UINT32=uint64_data
UINT64=uint64_data STRING=string_data
"""
FIELDS = dict(pair.split("=") for pair in _FIELDS.split())
"""Where elements are that are not in raw_data, by their names: all others in int32_data."""


def element_of(code: int, where: str) -> Element:
    """The element type numbered `code`; ModelError when there is none."""
    if code not in ELEMENTS:
        raise ModelError(f"{where}: expected an element type of ONNX (1 to {max(ELEMENTS)}), found {code}")
    return ELEMENTS[code]
