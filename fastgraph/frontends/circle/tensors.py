"""A tensor of a file: its type as the graph knows it, and a constant's array."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ...errors import ModelError, UnsupportedError
from ...ir import Quantization, TensorType
from ..core.elements import ELEMENTS, aligned, decode
from .wire import Table

RANK_LIMIT = 64
"""NumPy's limit of dimensions."""

_NAMES = """
FLOAT16 FLOAT32 FLOAT64 BFLOAT16 INT2 INT4 INT8 INT16 INT32 INT64 UINT4 UINT8 UINT16 UINT32 UINT64 BOOL COMPLEX64
COMPLEX128 STRING
""".split()

DTYPES: dict[str, np.dtype | None] = {
    **{name: ELEMENTS[name].dtype for name in _NAMES},
    **dict.fromkeys(("GGML_Q4_0", "GGML_Q4_1", "GGML_Q8_0", "GGML_Q8_1"), np.dtype(np.float32)),
    **dict.fromkeys(("RESOURCE", "VARIANT"), None),
}
"""The NumPy type of each tensor type."""

BIGGEST = 1 << 40
"""Most bytes of a tensor: what is declared bigger is a damaged file."""


def dtype_of(name: str) -> np.dtype | None:
    """The dtype that holds tensor type `name`, None for resources and variants. UnsupportedError when none does."""
    if name not in DTYPES:
        raise UnsupportedError(f"tensors of type {name}")
    return DTYPES[name]


def type_of(tensor: Table, where: str, constant: bool = False) -> TensorType:
    """The type that the file declares: open extents are None, and so is the shape when not even the rank is sure.

    A constant's shape is a fact, and [] then means a scalar. `dtype` is None for resources and variants.
    """
    shape, signature = tensor.shape, tensor.shape_signature
    if signature and len(signature) != len(shape) and not constant:
        _fail(where, f"expected as many extents in shape_signature as in shape {shape}, found {signature}")
    given = shape
    if signature and not constant:
        given = tuple(-1 if s == -1 else d for s, d in zip(signature, shape, strict=True))
    if len(given) > RANK_LIMIT:
        _fail(where, f"expected at most {RANK_LIMIT} dimensions, found {len(given)}")
    if any(d < -1 or (d < 0 and constant) for d in given):
        _fail(where, f"expected a shape of extents from 0 on, found {list(given)}")
    name = tensor.type
    dtype = dtype_of(name)
    dims = tuple(None if d < 0 else d for d in given)
    if not _fits(dims, 8 if dtype is None else dtype.itemsize):
        _fail(where, f"expected a tensor that some memory can hold, found shape {list(given)} of {name}")
    if dtype is None:
        return TensorType(None)
    return TensorType(dtype, dims, quantization(tensor, dtype, given, where, constant))


def _fits(dims: tuple[int | None, ...], itemsize: int) -> bool:
    size = itemsize
    for d in dims:
        size *= max(1, d or 1)
    return size <= BIGGEST


def quantization(
    tensor: Table, dtype: np.dtype, shape: tuple[int, ...], where: str, constant: bool
) -> Quantization | None:
    """What a tensor's integers stand for; None for plain numbers. Files that only note min and max say nothing.

    A scale of 0 makes dead channels of weights: all that they store stands for 0. Constants may have scales below 0.
    """
    if dtype.kind not in "iu" or not (table := tensor.quantization):
        return None
    scale, zero = table.array("scale"), table.array("zero_point")
    if not len(scale):
        return None
    if len(scale) == 1 and scale[0] == 0 and (dtype.itemsize >= 4 or not constant):
        return None  # how some converters write that indices are plain numbers
    least, most = _ends(scale)
    if not -np.inf < least <= most < np.inf or not (constant or least > 0):
        _fail(where, f"expected finite scales{'' if constant else ' above 0'}, found {scale[:8].tolist()}")
    if len(zero) not in (1, len(scale)):
        _fail(where, f"expected a zero point for each of {len(scale)} scales, found {len(zero)}")
    least, most = _ends(zero)
    if not -(1 << 31) <= least <= most < 1 << 31:
        _fail(where, f"expected zero points of 32 bits, found {zero[:8].tolist()}")
    zeros = tuple(zero.tolist()) if len(zero) == len(scale) else (int(zero[0]),) * len(scale)
    if len(scale) == 1:
        return Quantization((float(scale[0]),), zeros)
    axis = 0 if len(shape) == 1 else table.quantized_dimension  # some name the axis of the weights a bias belongs to
    if not 0 <= axis < len(shape):
        _fail(where, f"expected quantized_dimension within shape {list(shape)}, found {axis}")
    if shape[axis] not in (-1, len(scale)):
        _fail(where, f"expected {shape[axis]} scales along axis {axis} of shape {list(shape)}, found {len(scale)}")
    return Quantization(tuple(scale.tolist()), zeros, axis)


def _ends(numbers: np.ndarray) -> tuple[Any, Any]:
    """The least and the greatest."""
    return (numbers[0],) * 2 if len(numbers) == 1 else (numbers.min(), numbers.max())


def constant(tensor: Table, data: np.ndarray, type: TensorType, where: str) -> np.ndarray:
    """The array of a constant whose buffer holds the bytes `data`: a view of them where numpy can read them so."""
    name = tensor.type
    if type.dtype is None:
        _fail(where, f"expected numbers or text in a buffer, found a constant of type {name}")
    if tensor.wire.tables["Tensor"].get("compression_type") and tensor.compression_type != "NONE":
        raise UnsupportedError(f"constants compressed by {tensor.compression_type}")
    if name == "STRING":
        return _strings(data, type.dims, where)
    if name.startswith("GGML"):
        from .packed import ggml

        return ggml(name, data, type.dims, where)
    if tensor.sparsity is not None:
        from .packed import densify

        sparsity = tensor.sparsity
        return densify(sparsity, lambda count: _numbers(name, data, count, where), type, where)
    return _numbers(name, data, type.size, where).reshape(type.dims)


def _numbers(name: str, data: np.ndarray, count: int, where: str) -> np.ndarray:
    """`count` numbers of a tensor type from a buffer that holds exactly them."""
    element = ELEMENTS[name]
    expected = element.size(count)
    if len(data) != expected:
        _fail(where, f"expected a buffer of {expected} bytes for {count} elements of {name}, found {len(data)}")
    return aligned(decode(data, element, count))


def _strings(data: np.ndarray, dims: tuple[int, ...], where: str) -> np.ndarray:
    """Text as a buffer holds it: the count, an offset for each and the end (int32), then the bytes."""
    count = int(np.prod(dims, dtype=np.int64))
    raw = data.tobytes()
    head = np.frombuffer(raw, "<i4", len(raw) // 4)
    if len(head) < count + 2 or head[0] != count:
        _fail(where, f"expected {count} strings in its buffer, found {head[0] if len(head) else 'none'}")
    ends = head[1 : count + 2]
    if ends[0] < 4 * (count + 2) or ends[-1] > len(raw) or (np.diff(ends) < 0).any():
        _fail(where, f"expected strings one after the other within {len(raw)} bytes, found offsets {ends[:8].tolist()}")
    found = np.empty(count, object)
    found[:] = [raw[a:b].decode("utf-8", "surrogateescape") for a, b in zip(ends[:-1], ends[1:], strict=True)]
    return found.reshape(dims)


def _fail(where: str, what: str) -> NoReturn:
    raise ModelError(f"{where}: {what}; the file was not written correctly")


# the bytes of constants: inside the FlatBuffer, or behind it in files above 2 GB

EMPTY = np.empty(0, np.uint8)


def outside(table: Table, offset: int, size: int, where: str) -> np.ndarray:
    """`size` bytes of the file from `offset` on. ModelError when they are not in it."""
    data = table.wire.data
    if offset + size > len(data):
        raise ModelError(
            f"{where}: expected its {size} bytes from {offset} on within the file's {len(data)} bytes, "
            "found its end; the file was cut short, or the part behind the FlatBuffer is missing"
        )
    return np.frombuffer(data, np.uint8, size, offset)


def buffer(buffers: object, index: int, where: str) -> np.ndarray:
    """The bytes of buffer `index` as a view of the file; none for a tensor that nothing is stored for."""
    count = len(buffers)  # type: ignore[arg-type]
    if index >= count:
        if index == 0:
            return EMPTY  # a model without constants may leave out even the empty buffer
        raise ModelError(
            f"{where}: expected a buffer from 0 to {count - 1}, found {index}; the file was not written correctly"
        )
    table: Table = buffers[index]  # type: ignore[index]
    if "offset" in table.fields and table.offset > 1:
        return outside(table, table.offset, table.size, where)
    return table.array("data")


def custom_options(operator: Table, where: str) -> bytes:
    """The options of a custom operator, wherever the file keeps them."""
    if operator.large_custom_options_offset > 1:
        return outside(
            operator, operator.large_custom_options_offset, operator.large_custom_options_size, where
        ).tobytes()
    return operator.array("custom_options").tobytes()
