"""Depthwise convolution of bytes as pairs of i16, across pixels: its blocks, shapes, cycles and packed constants."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..gemm.pick_dot import L2
from ..isa.tiers import Tier
from .pick import Window
from .rows import MOST_PAIR_ROWS, PAIR_ROWS, STRIP, across_channels, pair_rows

MOST = 64
"""The most channels of a block."""
L1 = 32 << 10
FAR = 1.6 * L1
"""A block takes longer where its constants leave no room in the cache: by a factor that grows with their bytes by one
over this."""
PIXEL, SPEED, BESIDE = 3, 1.2, 8
"""A block's pixel takes as long as so many channels more, products of vectors are so many a cycle, and a vector of
results takes so many cycles beside. Fitted, as FAR, to shapes of 3 to 512 channels and windows of 5 to 11, on AVX2."""


def has_pairs(tier: Tier, g: Window) -> bool:
    """Whether the kernel suits a window: in a plane, its strides alike, without gaps, and tall enough."""
    stride = g.strides[1]
    square = g.strides[1:] == (stride, stride) and stride in PAIR_ROWS and not g.dilated
    return not tier.byte_dot and tier.registers < 32 and g.flat and square and g.kernel[1] >= 4


@lru_cache(1024)
def block_of(tier: Tier, g: Window) -> int:
    """Channels that are computed together: they fill blocks, and their constants stay in the cache."""

    def cost(block: int) -> float:
        far = max(1, 0.65 + _constants(tier, g, block) / FAR)
        return -(-g.channels // block) * (block + PIXEL) * far

    return min(range(1, min(g.channels, MOST) + 1), key=cost)


def _constants(tier: Tier, g: Window, block: int) -> int:
    """Bytes of a block."""
    _, k_h, k_w = g.kernel
    return 4 * across_channels(block, tier.lanes) * (2 + k_w * pair_rows(k_h) * (2 // g.strides[1]))


def pair_args(tier: Tier, g: Window, threads: int) -> dict[str, int]:
    """The slots beyond the window's own."""
    (_, k_h, _), stride, block = g.kernel, g.strides[1], block_of(tier, g)
    strip = STRIP * tier.lanes
    plane = (g.out[2] + (g.kernel[2] - 1) // stride) * block
    row = -(-g.out[2] * block // strip) * strip
    line = 4 * (stride * plane + row - g.out[2] * block + 16)
    blank = -(-(g.size[2] * block + tier.lanes) // 64) * 64
    band = _band(g, line, -(-g.channels // block), threads)
    scratch = blank + MOST_PAIR_ROWS * row + pair_lines(stride, band, k_h) * line
    return {
        "block": block, "band": band, "across": across_channels(block, tier.lanes), "pairs": pair_rows(k_h),
        "blank": blank, "row": row, "line": line, "plane": plane, "scratch_bytes": -(-scratch // 64) * 64,
    }  # fmt: skip


def _band(g: Window, line: int, blocks: int, threads: int) -> int:
    """Rows of y whose lines fit half of the cache; enough bands for all threads."""
    stride, most = g.strides[1], PAIR_ROWS[g.strides[1]][1]
    fits = max((L2 // 2 // line * 2 - g.kernel[1]) // stride // most, 1) * most
    units = g.images * blocks
    own = g.out[1] if units % threads == 0 or units >= 8 * threads else -(-g.out[1] // threads)
    bands = -(-own // fits)
    return max(-(-own // bands), 1)


def pair_lines(stride: int, band: int, k_h: int) -> int:
    """Lines of a band, all of whose rows of results are computed as many at a time as there is a body for."""
    rows = -(-band // PAIR_ROWS[stride][1]) * PAIR_ROWS[stride][1]
    return ((rows - 1) * stride) // 2 + pair_rows(k_h)


def pair_cycles(tier: Tier, g: Window) -> float:
    """Cycles per output pixel: products, also of rows that the last tile lacks, and what each vector costs beside."""
    (_, k_h, k_w), block, (few, many) = g.kernel, block_of(tier, g), PAIR_ROWS[g.strides[1]]
    rest = g.out[1] % many
    rows = g.out[1] - rest + (0 if not rest else few if rest <= few else many)
    vectors = -(-g.channels // block) * (block + PIXEL) / tier.lanes
    return vectors * (k_w * pair_rows(k_h) * rows / g.out[1] / SPEED + BESIDE)


def pack_pairs(
    tier: Tier, stride: int, block: int, weights: np.ndarray, bias: np.ndarray, multipliers: np.ndarray
) -> np.ndarray:
    """The constants of all blocks as bytes: for each the bias, the multipliers, and for each column of the window the
    pairs of its rows, for windows that begin with a pair and, where outputs are one row apart, within one."""
    k_h, k_w, c = weights.shape
    pairs, phases = pair_rows(k_h), 2 // stride
    rows = np.zeros((phases, 2 * pairs + 1, k_w, -(-c // block) * block), np.int16)
    for phase in range(phases):
        rows[phase, phase : phase + k_h, :, :c] = weights
    words = np.ascontiguousarray(rows[:, : 2 * pairs].reshape(phases, pairs, 2, k_w, -1).transpose(3, 1, 0, 4, 2))
    taps = words.view(np.int32).reshape(k_w * pairs * phases, -1, block)
    ends = [np.resize(np.pad(n, (0, taps.shape[1] * block - c)), (1, *taps.shape[1:])) for n in (bias, multipliers)]
    parts = [ends[0].astype(np.int32), ends[1].astype(np.float32).view(np.int32), taps]
    index = np.arange(across_channels(block, tier.lanes)) % block
    return np.concatenate(parts).transpose(1, 0, 2)[..., index].copy().view(np.uint8).reshape(-1)
