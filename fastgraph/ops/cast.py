"""Changes of element type. Attribute `format` names a type that NumPy lacks, held widened."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..ir import STRING, Node, TensorType
from . import check
from .inference import Types
from .narrow import is_narrow, rounded
from .registry import REQUIRED, Layout, attr, define, fail


def converted(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """x in another type: floats to integers truncate, strings parse, numbers to strings print shortest.

    Of a complex number the real part counts, but for bools.
    """
    if dtype == STRING:
        return np.frompyfunc(_text, 1, 1)(x).astype(object) if x.size else x.astype(object)
    if x.dtype == STRING:
        wide = x.astype(np.float64 if dtype.kind == "f" else np.int64)
        return wide.astype(dtype)
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real
    with np.errstate(all="ignore"):
        if x.dtype.kind == "f" and dtype == np.uint32:
            return _as_uint32(x)
        return x.astype(dtype)


def _as_uint32(x: np.ndarray) -> np.ndarray:
    """Floats as uint32 by way of int32, with 2**31 subtracted before and added after where x is as large: NumPy's own
    cast of NaN and of overflow differs from array to array."""
    large = x >= 2.0**31
    wide = x.astype(np.promote_types(x.dtype, np.float32))
    low = np.where(large, wide - wide.dtype.type(2.0**31), wide).astype(np.int32)
    return np.asarray(low.view(np.uint32) ^ (large.astype(np.uint32) << 31))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value.item() if isinstance(value, np.bool_ | np.integer) else value)


def _cast(node: Node, x: np.ndarray, dtype: np.dtype) -> list[np.ndarray]:
    kind = attr(node, "format")
    if not is_narrow(kind):
        return [converted(x, dtype)]
    x = converted(x, np.dtype(np.float32)) if x.dtype == STRING else x
    with np.errstate(all="ignore"):
        return [rounded(x, dtype, kind, bool(attr(node, "saturate")), attr(node, "round_mode"))]


def _target(node: Node) -> np.dtype:
    return np.dtype(attr(node, "to"))


def _infer_cast(node: Node, types: Types) -> list[TensorType]:
    if attr(node, "format") == "float8e8m0":
        check.one_of(node, "round_mode", attr(node, "round_mode"), ("up", "nearest", "down"))
    return [TensorType(_target(node), types[0].shape)]


def _refuse_narrow(node: Node) -> None:
    """UnsupportedError for formats whose values are held widened, and so have lost the file's bits."""
    names = [name for name in (attr(node, "from_format"), attr(node, "format")) if is_narrow(name)]
    if names:
        raise UnsupportedError(f"bit_cast: the bits of {names[0]} are not kept; use a type that NumPy has")


def _bit_cast(node: Node, inputs: list[Any]) -> list[Any]:
    _refuse_narrow(node)
    x, to = inputs[0], _target(node)
    if to.itemsize > x.dtype.itemsize:
        return [np.ascontiguousarray(x).view(to).reshape(x.shape[:-1])]
    if to.itemsize < x.dtype.itemsize:
        return [np.asarray(x, order="C")[..., None].view(to)]
    return [x.view(to)]


def _infer_bit_cast(node: Node, types: Types) -> list[TensorType]:
    x, to = types[0], _target(node)
    _refuse_narrow(node)
    if x.dtype is None or x.dtype.itemsize == to.itemsize:
        return [TensorType(to, x.shape)]
    if not attr(node, "resize"):
        fail(node, f"needs types of one width, found {x.dtype} and {to}")
    if x.shape is None:
        return [TensorType(to, None)]
    if to.itemsize < x.dtype.itemsize:
        return [TensorType(to, (*x.shape, x.dtype.itemsize // to.itemsize))]
    parts = to.itemsize // x.dtype.itemsize
    if not x.shape or x.shape[-1] not in (parts, None):
        fail(node, f"needs a last axis of {parts} {x.dtype} for each {to}, found {x}")
    return [TensorType(to, x.shape[:-1])]


PLAIN: dict[str, Any] = {"saturate": 1, "round_mode": "up", "format": ""}
"""Attributes of a cast between element types that NumPy has."""

define(
    "cast", _infer_cast, lambda node, inputs: _cast(node, inputs[0], _target(node)),
    inputs=(1, 1), attrs={"to": REQUIRED, **PLAIN}, layout=Layout.EACH,
)  # fmt: skip
define(
    "cast_like",
    lambda node, types: [TensorType(types[1].dtype, types[0].shape)],
    lambda node, inputs: _cast(node, inputs[0], inputs[1].dtype),
    inputs=(2, 2),
    attrs=PLAIN,
)
define(
    "bit_cast",
    _infer_bit_cast,
    _bit_cast,
    inputs=(1, 1),
    attrs={"to": REQUIRED, "format": "", "from_format": "", "resize": 0},
)
