"""Pools of bytes: kernel, parameters and shapes. Pure arithmetic."""

from __future__ import annotations

import struct
from typing import Any

from ..isa.tiers import Tier
from .pick import Window, window_args

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


def pool_int8_args(
    tier: Tier, params: dict[str, Any], window: Window, ratio: float = 1.0, include_pad: bool = False
) -> dict[str, int]:
    """The slots of the kernel that follow from the window; ratio: scale of x by scale of y."""
    g = window
    return {
        **window_args(tier, "pool_int8", params, g), "end_y": g.size[1] + g.ends[1], "end_x": g.size[2] + g.ends[2],
        "include_pad": int(include_pad), "ratio": struct.unpack("<q", struct.pack("<d", ratio))[0],
    }  # fmt: skip
