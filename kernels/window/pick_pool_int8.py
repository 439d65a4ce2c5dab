"""Pools of bytes: kernel, parameters and record. Pure arithmetic."""

from __future__ import annotations

import struct
from typing import Any

from ..isa.tiers import Tier
from .pick import Window

BLOCK = 512
"""Channels that a thread pools before it takes the next share."""
MOST_TAPS = 25
"""Taps of the largest window that is unrolled."""


def plan_pool_int8(tier: Tier, window: Window, op: str) -> tuple[str, dict[str, Any]]:
    """(kernel, its parameters) for a pool of two dimensions; op: "max", "average" or "sum"."""
    c, (kh, kw) = window.channels, window.kernel[1:]
    width = max((w for w in (64, 32, 16) if w <= min(4 * tier.lanes, c)), default=16)
    small = kh * kw <= MOST_TAPS
    params = {"op": op, "kh": kh if small else 0, "kw": kw if small else 0, "lanes": width // 4, "partial": c < width}
    return "pool_int8", params


def pool_int8_record(
    window: Window, *, x: Any, ldx: int, y: Any, ldy: int, ratio: float = 1.0, zero_x: int = 0, zero_y: int = 0,
    low: int = 0, high: int = 255, include_pad: bool = False,
) -> list[Any]:
    """The record of the kernel; ratio: scale of x by scale of y, ldx, ldy: bytes from pixel to pixel."""  # fmt: skip
    g = window
    ends = (g.size[1] + g.ends[1], g.size[2] + g.ends[2])
    shape = [*g.size[1:], g.channels, *g.out[1:], *g.kernel[1:], *g.strides[1:], *g.dilations[1:], *g.pads[1:], *ends]
    bits = struct.unpack("<q", struct.pack("<d", ratio))[0]
    return [x, ldx, y, ldy, g.images, *shape, int(include_pad), bits, zero_x, zero_y, low, high]
