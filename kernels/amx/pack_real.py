"""Constant operands of amx_real: weights as bf16 or f16 in panels of tiles. NumPy only."""

from __future__ import annotations

import numpy as np

from ..gemm.pack_bf16 import rounded
from .pack_amx import LINE, ROWS
from .pack_amx import WORK as BYTES_WORK

MT = 2
"""Tiles of pixels in a block."""
NUMBERS = LINE // 2
"""Numbers in a line of A."""
BUFFER = MT * ROWS * 2 * ROWS * 4
"""Bytes of a block's sums row by row, to which a chain is applied."""
LEAST, LEAST_WEIGHT, MOST = 2.0**-40, 2.0**-60, 2.0**40
"""Sizes within which products of three parts are as exact as f32's: numbers of A from LEAST, weights from LEAST_WEIGHT,
both up to MOST, or 0. Then parts are no denormals, and a product of at least 2**-100 loses at most 6 * 2**-126, by
those of its parts that are below 2**-126."""
SURE = 2.0**-40
"""Size from which on a finite sum of up to 2**17 products is as exact as f32's whatever numbers it reads: parts that
are lost, below 2**-126, change a product by at most 3 * 2**-126 * MOST. What overflows is infinite or NaN."""
SIZES = {"bf16": (LEAST, MOST), "f16": (2.0**-13, 65504.0)}
"""By element, the range of sizes in which parts hold numbers of A: of bf16 that of each number, of f16 that of the
largest number of a sum: denormals err by 2**-25, so each number by at most 2**-12 of itself or of the largest."""
WORK = BYTES_WORK + BUFFER
"""Bytes that a thread works in: as of amx_conv, and this."""


def held_planes(planes: int, element: str) -> int:
    """Planes of a band in scratch; unless it is a single one of bf16, two more hold the halves of the bits, for numbers
    that lose bits in parts.
    """
    return planes if (planes, element) == (1, "bf16") else planes + 2


def products(nt: int, planes: int) -> int:
    """Products of tiles for a line of A in a block of MT x nt tiles."""
    return MT * nt * planes * (planes + 1) // 2


def splits(weights: np.ndarray) -> bool:
    """Whether all weights (f32) may be split: finite, and in size within LEAST_WEIGHT .. MOST, or 0."""
    least, most = (int(np.float32(size).view(np.uint32)) for size in (LEAST_WEIGHT, MOST))
    bits = np.ascontiguousarray(weights).reshape(-1).view(np.uint32)
    for start in range(0, len(bits), 1 << 15):  # in parts that stay in the cache
        size = bits[start : start + (1 << 15)] & 0x7FFFFFFF
        outside = size - np.uint32(least) > most - least
        if outside.any() and size[outside].any():
            return False
    return True


def scalable(weights: np.ndarray) -> bool:
    """Whether all weights (f32) [N, ...] may become f16: finite, the largest of each column as `splits` wants them."""
    largest = _largest(weights.reshape(len(weights), -1))
    return bool(((largest == 0) | (largest >= LEAST_WEIGHT) & (largest <= MOST)).all())


def scales(weights: np.ndarray) -> np.ndarray:
    """f32 [sets, N]: powers of two over which the largest weight of each column [sets, N, ...] is 2**14 or more and
    below 2**15; those down to 2**-28 of it have all of f16's bits then.
    """
    largest = _largest(weights.reshape(*weights.shape[:2], -1))
    return np.ldexp(np.float32(1), np.where(largest > 0, np.frexp(largest)[1] - 15, 0))


def _largest(columns: np.ndarray) -> np.ndarray:
    return np.maximum(columns.max(-1), -columns.min(-1))


def widened(bits: np.ndarray) -> np.ndarray:
    """f32 of bf16."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def planes_of(x: np.ndarray, planes: int) -> list[np.ndarray]:
    """f32 as so many bf16 (uint16), each of which rounds what those before it leave. Of three the first is cut off, so
    that their sum is x.
    """
    numbers = np.ascontiguousarray(x, np.float32).reshape(-1)
    parts = np.empty((planes, len(numbers)), np.uint16)
    for start in range(0, len(numbers), 1 << 15):  # in parts that stay in the cache
        left = numbers[start : start + (1 << 15)]
        for place, part in enumerate(parts[:, start : start + len(left)]):
            part[:] = left.view(np.uint32) >> 16 if place == 0 and planes == 3 else rounded(left)
            with np.errstate(invalid="ignore"):
                left = left - widened(part)
    return list(parts.reshape(planes, *x.shape))


def panel_bytes_real(nt: int, lines: int, planes: int, element: str) -> int:
    """Bytes of one panel of `pack_real`."""
    return nt * LINE * ((2 if element == "f16" else 1) + lines * planes * ROWS)


def pack_real(weights: np.ndarray, bias: np.ndarray | None, nt: int, planes: int, element: str = "bf16") -> np.ndarray:
    """uint8 [sets, panels, panel_bytes_real] from f32 weights [sets, N, runs, run, c] and bias [sets, N]; where a run
    has several taps, their c numbers are rounded up to pairs.

    A panel is 16 * nt columns: their bias, of f16 their `scales`, then for every line of A (a run takes whole ones, the
    rest of its last line meets zeros) and each plane, the last one first, nt tiles of 16 rows, each with two
    consecutive weights of 16 columns. Columns past N are zeros.
    """
    sets, n, runs, run, c = weights.shape
    even = c if run == 1 else c + c % 2
    weights, length = np.pad(weights, [(0, 0)] * 4 + [(0, even - c)]).reshape(sets, n, runs, -1), run * even
    per_run, width = -(-length // NUMBERS), ROWS * nt
    panels, lines = -(-n // width), runs * per_run
    out = np.zeros((sets, panels, panel_bytes_real(nt, lines, planes, element)), np.uint8)
    scale = scales(weights) if element == "f16" else None
    for place, each in enumerate((bias, scale)):
        if each is not None:
            padded = np.zeros((sets, panels * width), np.float32)
            padded[:, :n] = each
            out[..., 4 * width * place :][..., : 4 * width] = padded.reshape(sets, panels, width).view(np.uint8)
    tiles = out[..., panel_bytes_real(nt, 0, planes, element) :].view(np.uint32)
    tiles = tiles.reshape(sets, panels, lines, planes, nt, ROWS, ROWS)
    if scale is None:
        parts = planes_of(weights, planes)
    else:
        parts = [(weights / scale[:, :, None, None]).astype(np.float16).view(np.uint16)]
    full = np.zeros((sets, panels * width, runs, per_run * NUMBERS), np.uint16)
    for place, plane in enumerate(reversed(parts)):
        full[:, :n, :, :length] = plane
        pairs = full.view(np.uint32).reshape(sets, panels, nt, ROWS, lines, ROWS)
        tiles[:, :, :, place] = pairs.transpose(0, 1, 4, 2, 5, 3)
    return out
