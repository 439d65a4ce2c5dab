"""Pools of bytes: kernel, parameters and shapes. Pure arithmetic."""

from __future__ import annotations

import struct
from typing import Any

from ..isa.tiers import Tier
from .pick import Window, window_args

BLOCK = 512
"""Channels of a row that a thread pools before it takes the next share."""


def plan_pool_int8(op: str) -> tuple[str, dict[str, Any]]:
    """(kernel, its parameters) for a pool of two dimensions; op: "max", "average" or "sum"."""
    return "pool_int8", {"op": "sum" if op == "average" else op}


def pool_int8_args(tier: Tier, op: str, window: Window, ratio: float, include_pad: bool) -> dict[str, int]:
    """The slots of the kernel that follow from op and window; ratio: scale of x by scale of y."""
    return {
        **window_args(tier, "pool_int8", {}, window), "block": BLOCK, "band": 1,
        "average": int(op == "average"), "include_pad": int(op == "average" and include_pad),
        "ratio": struct.unpack("<q", struct.pack("<d", ratio))[0],
    }  # fmt: skip
