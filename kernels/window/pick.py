"""Sliding windows -> kernel, parameters and shapes of a depthwise convolution or a pool. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.table import row
from ..gemm.pick_conv import Triple
from ..gemm.pick_dot import L2
from ..isa.tiers import Tier
from ..pointwise.chain import Chain

TILES = (7, 8, 6, 5, 4)
"""Outputs in a tile. Most maps are 7 * 2**n wide."""
STANDARD = 0.97
"""What a cost is multiplied by for the first of the tiles: fewer kernels to compile."""
OVERHEAD = 6
"""Cycles that a tile takes beyond its arithmetic."""
POOL_BLOCK = 64
"""Channels of a pixel that are pooled before the next pixels: memory is faster in longer runs."""
BITS = 62
"""Rows and columns of input that a tile can tell apart."""
WIDEST = 31
"""The widest depthwise kernel that is unrolled; wider ones are done by the general kernel."""


@dataclass(frozen=True)
class Window:
    """Windows over x [images, d, h, w, channels] at `out` positions; channels counts y's.

    All triples are (depth, height, width); fewer dimensions have leading ones (and pads of 0). pads: those
    before, ends: those after, of interest only to averages that include them.
    """

    images: int
    channels: int
    size: Triple
    kernel: Triple
    out: Triple
    strides: Triple = (1, 1, 1)
    dilations: Triple = (1, 1, 1)
    pads: Triple = (0, 0, 0)
    ends: Triple = (0, 0, 0)

    @property
    def flat(self) -> bool:
        """Whether the depth is one throughout."""
        return self.size[0] == self.kernel[0] == self.out[0] == 1 and self.pads[0] == self.ends[0] == 0

    @property
    def reach(self) -> Triple:
        """Places of x from a window's first tap to its last, both counted."""
        d, h, w = ((k - 1) * step + 1 for k, step in zip(self.kernel, self.dilations, strict=True))
        return d, h, w

    @property
    def dilated(self) -> bool:
        return any(d > 1 and k > 1 for d, k in zip(self.dilations, self.kernel, strict=True))

    def slots(self) -> dict[str, int]:
        """Its numbers, as the records of kernels call them."""
        names = "d h w od oh ow kd kh kw sd sh sw dd dh dw pad_front pad_top pad_left pad_back pad_bottom pad_right"
        triples = (self.size, self.out, self.kernel, self.strides, self.dilations, self.pads, self.ends)
        numbers = (number for triple in triples for number in triple)
        return {"n": self.images, "c": self.channels, **dict(zip(names.split(), numbers, strict=True))}


def pick_depthwise(
    tier: Tier, kh: int, kw: int, sh: int, sw: int, ow: int, c: int, dh: int = 1, dw: int = 1
) -> dict[str, Any] | None:
    """The depthwise kernel's parameters without chain and extras; None where only "depthwise_any" will do."""
    vectors = -(-c // tier.lanes)
    # Two vectors of channels halve the work of addressing, where no line of the cache is fetched in vain.
    wide = 2 if tier.registers == 32 and vectors % 2 == 0 and c > 2 * tier.lanes else 1
    # Pixels a power of two apart fall into few sets of the cache: use all of their lines at once.
    together = 128 // (wide * tier.lanes) if c % 128 == 0 else 1
    tile = _tile(ow, kh * kw * wide / 2)
    if (tile - 1) * sw + (kw - 1) * dw + 1 > BITS or kh > BITS or kw > WIDEST:
        return None
    shape = {"kh": kh, "kw": kw, "sh": sh, "sw": sw, "dh": dh, "dw": dw}
    return {**shape, "tile": tile, "vectors": wide, "together": together}


def pick_pool(tier: Tier, op: str, kh: int, kw: int, sh: int, sw: int, ow: int) -> dict[str, Any] | None:
    """The pool kernel's parameters without chain and extras; None where only "pool_any" will do."""
    room = (tier.registers - 2 - kw) // sw + 1
    if kw > tier.registers - 2 or kh > BITS:
        return None
    tiles = [t for t in (*TILES, 3, 2, 1) if t <= room]
    return {"op": op, "kh": kh, "kw": kw, "sh": sh, "sw": sw, "tile": _tile(ow, (kh + kw) / 2, tiles)}


def plan_depthwise(
    tier: Tier, window: Window, multiplier: int = 1, chain: Chain = (), extras: Sequence[str] = ()
) -> tuple[str, dict[str, Any]]:
    """(kernel, its parameters) where output channel o reads input channel o // multiplier."""
    params = None
    if window.flat and multiplier == 1:
        dilations = window.dilations[1:] if window.dilated else (1, 1)
        params = pick_depthwise(tier, *_planar(window), window.out[2], window.channels, *dilations)
    name = "depthwise_any" if params is None else "depthwise"
    return name, {**(params or {"multiplier": multiplier}), "chain": chain, "extras": tuple(extras)}


def plan_pool(
    tier: Tier,
    window: Window,
    op: str,
    include_pad: bool = False,
    chain: Chain = (),
    extras: Sequence[str] = (),
) -> tuple[str, dict[str, Any]]:
    """(kernel, its parameters) for a pool; op as in kernels.pool.OPS."""
    params = pick_pool(tier, op, *_planar(window), window.out[2]) if window.flat and not window.dilated else None
    name = "pool_any" if params is None else "pool"
    include_pad = include_pad and op == "average"
    epilogue = {"chain": chain, "extras": tuple(extras)}
    return name, {**(params or {"op": op}), "include_pad": include_pad, **epilogue}


def window_args(
    tier: Tier, name: str, params: dict[str, Any], window: Window, threads: int = 1, l2: int = L2
) -> dict[str, int]:
    """The slots of a planned kernel that follow from the window: all but addresses and distances of pixels."""
    shapes = window.slots()
    found = {slot: shapes[slot] for slot in row(name).args if slot in shapes}
    if name in ("depthwise", "pool"):
        block = POOL_BLOCK if name == "pool" else params["together"] * params["vectors"] * tier.lanes
        found["band"] = band_rows(window, block, threads, l2)
    return found


def band_rows(g: Window, block: int, threads: int = 1, l2: int = L2) -> int:
    """Rows of y to compute for `block` channels before the next: their input takes half of the cache.

    Where blocks don't divide among the threads, there are enough bands for that.
    """
    row = 4 * g.size[2] * g.channels
    fits = max(4, (l2 // 2 // row - g.kernel[1]) // g.strides[1] + 1)
    bands = max(1, -(-g.out[1] // fits))
    units = g.images * -(-g.channels // block)
    if units % threads and units * bands < 8 * threads:
        bands = -(-bands // threads) * threads
    return max(1, -(-g.out[1] // bands))


def _planar(g: Window) -> tuple[int, int, int, int]:
    return (*g.kernel[1:], *g.strides[1:])


def _tile(ow: int, work: float, tiles: Sequence[int] = TILES) -> int:
    """The tile that covers `ow` outputs in the least time, at `work` cycles per output."""

    def cost(t: int) -> float:
        return -(-ow // t) * (min(t, ow) * work + OVERHEAD) * (STANDARD if t == TILES[0] else 1.0)

    return min(tiles, key=cost)
