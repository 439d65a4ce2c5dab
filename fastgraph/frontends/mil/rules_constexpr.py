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
from .call import Call
from .signatures import Formulas, formulas, rule

BYTES = (np.dtype(np.int8), np.dtype(np.uint8))

PART = 1 << 16


# scales and offsets


@rule("constexpr_affine_dequantize: quantized_data:Array scale:Array zero_point:Array axis:int=0")
def affine_dequantize(
    c: Call, quantized_data: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, axis: int
) -> Value:
    """One scale and zero point, or one of each along an axis."""
    axis = axis_in(c, axis, max(quantized_data.ndim, 1))
    return _scaled(c, quantized_data, *(_along(c, quantized_data, axis, p) for p in (scale, zero_point)))


def _along(c: Call, data: np.ndarray, axis: int, parameter: np.ndarray) -> np.ndarray:
    """A scalar, or a vector along `axis`, with the data's rank."""
    if parameter.size == 1:
        return parameter.reshape((1,) * data.ndim)
    if parameter.shape != data.shape[axis : axis + 1]:
        c.fail(
            f"expected a number for each place along axis {axis} of shape {list(data.shape)}, "
            f"found shape {list(parameter.shape)}"
        )
    return parameter.reshape([-1 if i == axis else 1 for i in range(data.ndim)])


@rule("constexpr_sparse_blockwise_shift_scale: data_mask:Array nonzero_data:Array scale:Array offset:Array?")
def sparse_blockwise_shift_scale(
    c: Call, data_mask: np.ndarray, nonzero_data: np.ndarray, scale: np.ndarray, offset: np.ndarray | None
) -> list[Value]:
    """The same for the elements that a mask keeps: (mask, elements)."""
    zero = _offset(c, data_mask.shape, scale, offset)
    return _sparse(c, data_mask, _decoded(_dense(c, data_mask, nonzero_data), scale, zero))


def _offset(c: Call, dims: tuple[int, ...], scale: np.ndarray, offset: np.ndarray | None) -> np.ndarray:
    """The offsets of blocks: 0 without."""
    fits = len(dims) == scale.ndim and all(n and d % n == 0 for d, n in zip(dims, scale.shape, strict=True))
    if not fits or (offset is not None and offset.shape != scale.shape):
        c.fail(
            f"expected scales, and offsets of their shape, for blocks of shape {list(dims)}, found "
            f"{list(scale.shape)} and {None if offset is None else list(offset.shape)}"
        )
    return np.zeros_like(scale) if offset is None else offset


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
    """The constant as float32, for scales and zero points of blocks."""
    blocks = np.maximum(scale.shape, zero.shape)
    split = [n for d, b in zip(data.shape, blocks, strict=True) for n in (b, d // b)]
    real = data.astype(np.float32).reshape(split)
    zero, scale = (p.astype(np.float32).reshape([n for d in p.shape for n in (d, 1)]) for p in (zero, scale))
    if zero.any():
        real -= zero
    real *= scale
    return real.reshape(data.shape)


# palettes


@rule("constexpr_lut_to_dense: indices:Array lut:Array shape:Extents?")
def lut_to_dense(c: Call, indices: np.ndarray, lut: np.ndarray, shape: tuple[int, ...] | None) -> Value:
    """Numbers of palettes. With `shape` there is one, and its indices are packed, each in as few bits as it needs."""
    if shape is None:
        return c.const(_looked_up(c, indices, lut))
    bits = max(lut.size - 1, 1).bit_length()
    size = (bits * prod(shape) + 7) // 8
    if lut.ndim != 1 or lut.size not in (2, 4, 16, 64, 256):
        c.fail(f"expected a palette of 2, 4, 16, 64 or 256 numbers, found shape {list(lut.shape)}")
    if indices.dtype != np.uint8 or indices.size != size:
        c.fail(f"expected {size} bytes of {bits}-bit indices, found {indices.dtype}{list(indices.shape)}")
    codes = indices.reshape(-1) if bits == 8 else unpack(indices.reshape(-1), bits, prod(shape))
    return c.const(_taken(lut, codes).reshape(shape))


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
        c.fail(
            f"expected palettes [blocks..., numbers, vector] for indices {list(codes.shape)}, "
            f"found shape {list(lut.shape)}"
        )
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


@rule("constexpr_sparse_to_dense: mask:Array nonzero_data:Array shape:Extents?")
def sparse_to_dense(c: Call, mask: np.ndarray, nonzero_data: np.ndarray, shape: tuple[int, ...] | None) -> Value:
    """Elements at the places of a mask, in order; zeros elsewhere. With `shape` the mask is packed bits."""
    if shape is not None:
        if mask.dtype != np.uint8 or mask.size != (prod(shape) + 7) // 8:
            c.fail(f"expected a mask of {(prod(shape) + 7) // 8} bytes, found {mask.dtype}{list(mask.shape)}")
        mask = np.unpackbits(mask.reshape(-1), count=prod(shape), bitorder="little").reshape(shape)
    return c.const(_dense(c, mask, nonzero_data))


@rule("constexpr_lut_to_sparse: indices_mask:Array indices_nonzero_data:Array lut:Array")
def lut_to_sparse(c: Call, indices_mask: np.ndarray, indices_nonzero_data: np.ndarray, lut: np.ndarray) -> list[Value]:
    """(mask, elements): the palettes' numbers for indices at the places of a mask."""
    found = _looked_up(c, _dense(c, indices_mask, indices_nonzero_data), lut)
    if lut.shape[-1] > 1:
        axis = axis_in(c, c.known("vector_axis"), indices_mask.ndim)
        indices_mask = np.repeat(indices_mask, lut.shape[-1], axis)
    return _sparse(c, indices_mask, found)


def _dense(c: Call, mask: np.ndarray, elements: np.ndarray) -> np.ndarray:
    if elements.shape != (np.count_nonzero(mask),):
        c.fail(
            f"expected an element for each of {np.count_nonzero(mask)} places of the mask, "
            f"found shape {list(elements.shape)}"
        )
    found = np.zeros(mask.shape, elements.dtype)
    found[mask != 0] = elements
    return found


def _sparse(c: Call, mask: np.ndarray, found: np.ndarray) -> list[Value]:
    """(mask, the elements that it keeps)."""
    return [c.const((mask != 0).view(np.uint8)), c.const(found[mask != 0])]


FORMULAS: Formulas = {
    "constexpr_blockwise_shift_scale: data:Array scale:Array offset:Array?": lambda c, data, scale, offset: _scaled(
        c, data, scale, _offset(c, data.shape, scale, offset)
    ),
    "constexpr_cast: source_val:Array output_dtype:F32": lambda c, array, _: c.const(array),
}
formulas(FORMULAS)
