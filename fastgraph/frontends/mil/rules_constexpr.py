"""Compressed weights, which become constants here: integers with scales, palettes, sparse tensors, and pairs of these.

Semantics: coremltools/converters/mil/mil/ops/defs/iOS16/constexpr_ops.py and iOS18/compression.py.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir import Quantization, Value
from ...limits import current
from ..core.common import axis_in
from ..core.elements import unpack
from .call import Call, rule
from .common import reals

BYTES = (np.dtype(np.int8), np.dtype(np.uint8))

PART = 1 << 16


def _array(c: Call, key: str) -> np.ndarray:
    """A constant parameter as the numbers that it stands for."""
    return reals(c, c.x(key))


def _optional(c: Call, key: str) -> np.ndarray | None:
    return None if c.value(key) is None else _array(c, key)


def _dims(c: Call) -> tuple[int, ...]:
    dims = c.ints("shape")
    if not dims or prod(dims) > 1 << 40:
        c.fail(f"expected the extents of a tensor as 'shape', found {list(dims)}")
    return dims


@rule("constexpr_cast")
def _cast(c: Call) -> None:
    c.text("output_dtype", "fp32")
    c.give(c.const(_array(c, "source_val")))


# scales and offsets


@rule("constexpr_affine_dequantize")
def _affine(c: Call) -> None:
    """One scale and zero point, or one of each along an axis."""
    data, scale, zero = (_array(c, key) for key in ("quantized_data", "scale", "zero_point"))
    axis = axis_in(c, c.known("axis", 0), max(data.ndim, 1))
    c.give(_scaled(c, data, *(_along(c, data, axis, p) for p in (scale, zero))))


def _along(c: Call, data: np.ndarray, axis: int, parameter: np.ndarray) -> np.ndarray:
    """A scalar, or a vector along `axis`, with the data's rank."""
    if parameter.size == 1:
        return parameter.reshape((1,) * data.ndim)
    if parameter.shape != data.shape[axis : axis + 1]:
        c.fail(f"expected a number for each place along axis {axis} of shape {list(data.shape)}, "
               f"found shape {list(parameter.shape)}")  # fmt: skip
    return parameter.reshape([-1 if i == axis else 1 for i in range(data.ndim)])


@rule("constexpr_blockwise_shift_scale")
def _blockwise(c: Call) -> None:
    """A scale, and an offset if any, for each block: extents of data / extents of scale."""
    data, scale, offset = _array(c, "data"), _array(c, "scale"), _optional(c, "offset")
    _check_blocks(c, data.shape, scale, offset)
    c.give(_scaled(c, data, scale, np.zeros_like(scale) if offset is None else offset))


@rule("constexpr_sparse_blockwise_shift_scale")
def _sparse_blockwise(c: Call) -> None:
    """The same for the elements that a mask keeps: (mask, elements)."""
    mask, scale, offset = _array(c, "data_mask") != 0, _array(c, "scale"), _optional(c, "offset")
    _check_blocks(c, mask.shape, scale, offset)
    data = _dense(c, mask, _array(c, "nonzero_data"))
    _give_sparse(c, mask, _decoded(data, scale, np.zeros_like(scale) if offset is None else offset))


def _check_blocks(c: Call, dims: tuple[int, ...], scale: np.ndarray, offset: np.ndarray | None) -> None:
    fits = len(dims) == scale.ndim and all(n and d % n == 0 for d, n in zip(dims, scale.shape, strict=True))
    if not fits or (offset is not None and offset.shape != scale.shape):
        c.fail(f"expected scales, and offsets of their shape, for blocks of shape {list(dims)}, found "
               f"{list(scale.shape)} and {None if offset is None else list(offset.shape)}")  # fmt: skip


def _scaled(c: Call, data: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> Value:
    """scale * (data - zero). Bytes with a scale per tensor or per place of an axis stay, with their quantization."""
    axes = [i for i, (n, m) in enumerate(zip(scale.shape, zero.shape, strict=True)) if max(n, m) > 1]
    whole = np.all(zero == np.rint(zero)) and np.all(np.abs(zero) < 1 << 15)
    channel = len(axes) == 1 and max(scale.shape[axes[0]], zero.shape[axes[0]]) == data.shape[axes[0]]
    usable = np.all(np.isfinite(scale) & (scale > 0))
    if data.dtype not in BYTES or data.ndim < 2 or not whole or not usable or not (channel or not axes):
        return c.const(_decoded(data, scale, zero))
    count = data.shape[axes[0]] if axes else 1
    scales, zeros = (np.broadcast_to(p.reshape(-1), count) for p in (scale, zero))
    quant = Quantization(
        tuple(float(s) for s in scales), tuple(int(z) for z in zeros), axes[0] if axes and count > 1 else None
    )
    return c.const(data, quant)


def _decoded(data: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """The same as float32, for scales and zero points of blocks."""
    blocks = np.maximum(scale.shape, zero.shape)
    split = [n for d, b in zip(data.shape, blocks, strict=True) for n in (b, d // b)]
    real = data.astype(np.float32).reshape(split)
    if zero.any():
        real -= _apart(zero)
    real *= _apart(scale)
    return real.reshape(data.shape)


def _apart(parameter: np.ndarray) -> np.ndarray:
    return parameter.astype(np.float32).reshape([n for d in parameter.shape for n in (d, 1)])


# palettes


@rule("constexpr_lut_to_dense")
def _palette(c: Call) -> None:
    if c.value("shape") is None:
        c.give(c.const(_looked_up(c, _array(c, "indices"), _array(c, "lut"))))
        return
    dims, packed, lut = _dims(c), _array(c, "indices"), _array(c, "lut")
    bits = max(lut.size - 1, 1).bit_length()
    if lut.ndim != 1 or lut.size not in (2, 4, 16, 64, 256):
        c.fail(f"expected a palette of 2, 4, 16, 64 or 256 numbers, found shape {list(lut.shape)}")
    if packed.dtype != np.uint8 or packed.size != (bits * prod(dims) + 7) // 8:
        c.fail(f"expected {(bits * prod(dims) + 7) // 8} bytes of {bits}-bit indices, found {packed.dtype}"
               f"{list(packed.shape)}")  # fmt: skip
    codes = packed.reshape(-1) if bits == 8 else unpack(packed.reshape(-1), bits, prod(dims))
    c.give(c.const(_taken(lut, codes).reshape(dims)))


def _taken(lut: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """lut[codes], of codes that are in range. In parts, whose indices as NumPy wants them fit a cache."""
    found, codes = np.empty(codes.shape, lut.dtype), np.ascontiguousarray(codes)
    flat, source = found.reshape(-1), codes.reshape(-1)
    for start in range(0, flat.size, PART):
        part = slice(start, start + PART)
        np.take(lut, source[part], out=flat[part], mode="clip")
    return found


def _looked_up(c: Call, codes: np.ndarray, lut: np.ndarray) -> np.ndarray:
    """A palette [blocks..., numbers, vector] for each block of codes; a vector's elements lie along `vector_axis`."""
    groups = lut.shape[:-2]
    fits = codes.ndim > 0 and len(groups) == codes.ndim
    if not fits or not all(n and d % n == 0 for d, n in zip(codes.shape, groups, strict=True)):
        c.fail(f"expected palettes [blocks..., numbers, vector] for indices {list(codes.shape)}, "
               f"found shape {list(lut.shape)}")  # fmt: skip
    numbers, vector = lut.shape[-2:]
    if codes.dtype.kind not in "iu" or (codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < numbers):
        c.fail(f"expected indices of a palette of {numbers} numbers, found {codes.max(initial=0)}")
    if prod(groups) > 1:
        split = [n for d, g in zip(codes.shape, groups, strict=True) for n in (g, d // g)]
        first = np.arange(prod(groups), dtype=np.int64).reshape([n for g in groups for n in (g, 1)]) * numbers
        codes = (codes.reshape(split) + first).reshape(codes.shape)
    if vector == 1:
        return _taken(lut.reshape(-1), codes)
    current().hold(codes.size * vector * lut.itemsize, c.where)
    found = np.take(lut.reshape(-1, vector), codes, axis=0)
    axis = axis_in(c, c.known("vector_axis"), codes.ndim)
    dims = [d * vector if i == axis else d for i, d in enumerate(codes.shape)]
    return np.moveaxis(found, -1, axis + 1).reshape(dims)


# sparse tensors


@rule("constexpr_sparse_to_dense")
def _sparse(c: Call) -> None:
    """Elements at the places of a mask, in order; zeros elsewhere."""
    mask = _array(c, "mask")
    if c.value("shape") is not None:
        dims = _dims(c)
        if mask.dtype != np.uint8 or mask.size != (prod(dims) + 7) // 8:
            c.fail(f"expected a mask of {(prod(dims) + 7) // 8} bytes, found {mask.dtype}{list(mask.shape)}")
        mask = np.unpackbits(mask.reshape(-1), count=prod(dims), bitorder="little").reshape(dims)
    c.give(c.const(_dense(c, mask != 0, _array(c, "nonzero_data"))))


@rule("constexpr_lut_to_sparse")
def _sparse_palette(c: Call) -> None:
    """(mask, elements): the palettes' numbers for indices at the places of a mask."""
    mask, lut = _array(c, "indices_mask") != 0, _array(c, "lut")
    found = _looked_up(c, _dense(c, mask, _array(c, "indices_nonzero_data")), lut)
    if lut.shape[-1] > 1:
        mask = np.repeat(mask, lut.shape[-1], axis_in(c, c.known("vector_axis"), mask.ndim))
    _give_sparse(c, mask, found)


def _dense(c: Call, mask: np.ndarray, elements: np.ndarray) -> np.ndarray:
    if elements.shape != (np.count_nonzero(mask),):
        c.fail(f"expected an element for each of {np.count_nonzero(mask)} places of the mask, "
               f"found shape {list(elements.shape)}")  # fmt: skip
    found = np.zeros(mask.shape, elements.dtype)
    found[mask] = elements
    return found


def _give_sparse(c: Call, mask: np.ndarray, found: np.ndarray) -> None:
    c.give(c.const(mask.view(np.uint8)), 0)
    c.give(c.const(found[mask]), 1)
