"""Element types of files: how files store them, and what holds them in a graph where NumPy lacks them.

bfloat16 and floats of 8 bits and fewer are held in float32, integers of 6 bits and fewer in (u)int8, text in arrays of
str objects. Layouts: ONNX's IR description of TensorProto.DataType, the OCP formats, and for the "fnuz" kinds the
papers that ONNX cites.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np


class Element(NamedTuple):
    """`dtype` holds the values in a graph, `bits` is the size in a file, `format` names what numpy lacks."""

    name: str
    dtype: np.dtype
    bits: int
    format: str = ""

    @property
    def stored(self) -> np.dtype:
        """The dtype of the file's own elements of 8 bits and more."""
        if self.format:
            return np.dtype("<u2" if self.bits == 16 else "u1")
        return self.dtype.newbyteorder("<")

    def size(self, count: int) -> int:
        """Bytes of so many elements, packed."""
        return -(-count * self.bits // 8)


_HELD = """
BOOL=bool STRING=object FLOAT16=f2 FLOAT32=f4 FLOAT64=f8 COMPLEX64=c8 COMPLEX128=c16 INT8=i1 INT16=i2 INT32=i4 INT64=i8
UINT8=u1 UINT16=u2 UINT32=u4 UINT64=u8
"""
_WIDENED = """
BFLOAT16=f4/16 FLOAT8E4M3FN=f4/8 FLOAT8E4M3FNUZ=f4/8 FLOAT8E5M2=f4/8 FLOAT8E5M2FNUZ=f4/8 FLOAT8E8M0=f4/8 FLOAT6E2M3=f4/6
FLOAT6E3M2=f4/6 FLOAT4E2M1=f4/4 INT4=i1/4 INT2=i1/2 UINT6=u1/6 UINT4=u1/4 UINT3=u1/3 UINT2=u1/2 UINT1=u1/1
"""
"""Types that NumPy lacks: the type that holds each, and its bits."""


def _element(text: str) -> Element:
    name, _, how = text.partition("=")
    held, _, bits = how.partition("/")
    dtype = np.dtype(held)
    return Element(name, dtype, int(bits), name.lower()) if bits else Element(name, dtype, 8 * dtype.itemsize)


ELEMENTS = {element.name: element for element in map(_element, [*_HELD.split(), *_WIDENED.split()])}
"""By name."""

# bits of the exponent and of the mantissa, bias, and what the highest exponent is for:
# "ieee" infinities and NaNs, "fn" one NaN per sign, "fnuz" NaN in place of -0, "" numbers only
_FLOATS = {
    "float8e4m3fn": (4, 3, 7, "fn"),
    "float8e4m3fnuz": (4, 3, 8, "fnuz"),
    "float8e5m2": (5, 2, 15, "ieee"),
    "float8e5m2fnuz": (5, 2, 16, "fnuz"),
    "float6e2m3": (2, 3, 1, ""),
    "float6e3m2": (3, 2, 3, ""),
    "float4e2m1": (2, 1, 1, ""),
}


def widen(element: Element, codes: np.ndarray) -> np.ndarray:
    """Values of the file's codes (uint16 for bfloat16, else one uint8 per element) in `element.dtype`."""
    if element.format == "bfloat16":
        return (codes.astype(np.uint32) << 16).view(np.float32)
    if element.format == "float8e8m0" or element.format in _FLOATS:
        return floats(element.format)[codes]
    return codes


def decode(data: np.ndarray, element: Element, count: int) -> np.ndarray:
    """`count` elements from the bytes `data` (uint8): a view, perhaps unaligned, where NumPy has the type."""
    if element.bits < 8:
        return widen(element, unpack(data, element.bits, count, element.dtype == np.int8))
    if element.name == "BOOL":
        return data.view(np.bool_) if data.size == 0 or data.max() <= 1 else data != 0
    values = data.view(element.stored)
    return widen(element, values) if element.format else values.astype(element.dtype, copy=False)


def aligned(array: np.ndarray) -> np.ndarray:
    """The array, or a copy of one that is unaligned."""
    return array if array.flags.aligned else array.copy()


@cache
def floats(name: str) -> np.ndarray:
    """The value of every code of a small float type, as float32."""
    if name == "float8e8m0":
        return np.append(np.ldexp(1.0, np.arange(255) - 127), np.nan).astype(np.float32)
    exponent_bits, mantissa_bits, bias, special = _FLOATS[name]
    codes = np.arange(1 << (1 + exponent_bits + mantissa_bits))
    top = (1 << exponent_bits) - 1
    exponent = (codes >> mantissa_bits) & top
    mantissa = codes & ((1 << mantissa_bits) - 1)
    fraction = mantissa / (1 << mantissa_bits) + (exponent > 0)
    values = np.ldexp(fraction, np.maximum(exponent, 1) - bias)
    if special == "ieee":
        values = np.where(exponent == top, np.where(mantissa == 0, np.inf, np.nan), values)
    if special == "fn":
        values[(exponent == top) & (mantissa == (1 << mantissa_bits) - 1)] = np.nan
    negative = codes >> (exponent_bits + mantissa_bits) == 1
    values = np.where(negative, -values, values)
    if special == "fnuz":
        values[negative & (exponent == 0) & (mantissa == 0)] = np.nan
    return values.astype(np.float32)


def unpack(data: np.ndarray, bits: int, count: int, signed: bool = False) -> np.ndarray:
    """`count` codes of 1 to 6 bits, packed from the low end of each byte on, one per uint8 (int8 where `signed`)."""
    if bits in (1, 2, 4):
        each = 8 // bits
        high = np.empty((len(data), each), np.uint8)  # each code in the high bits of its byte: shifts bring the sign
        for i in range(each):
            np.left_shift(data, 8 - bits * (i + 1), out=high[:, i])
        codes = high.view(np.int8) if signed else high
        codes >>= 8 - bits
        return codes.reshape(-1)[:count]
    if bits in (3, 6):
        # Codes fill three bytes evenly.
        parts = np.pad(data, (0, -len(data) % 3)).reshape(-1, 3).T.astype(np.uint32)
        words = parts[0] | parts[1] << 8 | parts[2] << 16
        found = np.empty((len(words), 24 // bits), np.uint8)
        for i in range(24 // bits):
            found[:, i] = (words >> (bits * i)) & ((1 << bits) - 1)
        return found.reshape(-1)[:count]
    stream = np.unpackbits(data, count=bits * count, bitorder="little").reshape(count, bits)
    return np.packbits(stream, axis=1, bitorder="little").reshape(count)
