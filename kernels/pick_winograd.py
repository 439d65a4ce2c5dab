"""A 3x3 convolution's geometry -> tile sizes, scratch and the record of the winograd kernel. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .chain import Chain
from .isa.tiers import Tier
from .pick_conv import Geometry, cover
from .pick_dot import L2, STANDARD, columns_first, max_rows, tile_cost


@dataclass(frozen=True)
class WinogradChoice:
    """How winograd computes a convolution; `params` makes the kernel; scratch: bytes per thread, 64-byte aligned."""

    m: int
    nv: int
    params: dict[str, Any]
    scratch: int
    fields: dict[str, int]


def suits_winograd(g: Geometry) -> bool:
    """Whether the kernel can compute it: 3x3, two spatial dimensions, stride and dilation 1, one group."""
    plain = g.strides == g.dilations == (1, 1, 1)
    return plain and g.kernel == (1, 3, 3) and g.groups == 1 and g.out[0] == 1 == g.size[0]


def best_winograd(tier: Tier, g: Geometry, largest: int = 4, l2: int = L2) -> int | None:
    """The m (at most `largest`, 2 or 4) to compute a convolution with; None where the conv kernel is as good.

    m = 2 is as exact as the plain sum; m = 4 errs by about 1e-5 of the largest output.
    """
    if not suits_winograd(g) or g.c < tier.lanes or not tier.fma:
        return None
    pixels = g.images * g.out[1] * g.out[2]
    plain = 1.05 * pixels * g.k * -(-g.n // tier.lanes) / 2
    costs = {m: _cycles(tier, g, m, l2) for m in (2, 4) if m <= largest}
    best = min(costs, key=lambda m: costs[m] * (1.0 if m == 2 else 1.15))
    return best if costs[best] * 1.15 < plain else None


def _cycles(tier: Tier, g: Geometry, m: int, l2: int) -> float:
    """Of the dots, or of reading their weights for every band; and of the transforms."""
    band, mr, nv = _blocks(tier, g, m, l2)
    down, across, places = -(-g.out[1] // m), -(-g.out[2] // m), (m + 2) ** 2
    vectors, panels = -(-g.n // tier.lanes), -(-g.n // (nv * tier.lanes))
    bands = g.images * -(-down // band)
    dots = bands * -(-band * across // mr) * places * panels * tile_cost(tier, mr, nv, g.c)
    weights = bands * _weight_bytes(g, m) / 7
    there, back = {2: (35, 40), 4: (130, 150)}[m]
    transforms = g.images * down * across * (-(-g.c // tier.lanes) * there + vectors * back)
    return max(dots, weights) + transforms


def _weight_bytes(g: Geometry, m: int) -> int:
    return (m + 2) ** 2 * g.c * g.n * 4


def _v_row(tier: Tier, g: Geometry) -> int:
    """Bytes from tile to tile of the transformed input; multiples of 4 KiB would collide in the cache."""
    row = -(-g.c // tier.lanes) * tier.lanes * 4
    return row + 64 if row % 4096 == 0 else row


def _blocks(tier: Tier, g: Geometry, m: int, l2: int) -> tuple[int, int, int]:
    """(rows of Winograd tiles in a band, mr, nv)."""
    down, across = -(-g.out[1] // m), -(-g.out[2] // m)
    # Every band reads all weights: where they don't stay in the cache, bands may leave it too.
    budget = l2 // 2 if _weight_bytes(g, m) <= l2 else l2
    most = budget // ((m + 2) ** 2 * across * (_v_row(tier, g) + 8 * tier.lanes))
    band = -(-down // -(-down // min(max(most, 1), down)))
    tiles = band * across

    def cost(choice: tuple[int, int]) -> float:
        mr, nv = choice
        standard = STANDARD if mr == max_rows(tier, nv) else 1.0
        return -(-tiles // mr) * tile_cost(tier, mr, nv, g.c) * -(-g.n // (nv * tier.lanes)) * standard

    choices = [(mr, nv) for nv in (1, 2, 3, 4) for mr in range(1, min(max_rows(tier, nv), tiles) + 1)]
    return band, *min(choices, key=cost)


def pick_winograd(
    tier: Tier,
    g: Geometry,
    m: int = 2,
    threads: int = 1,
    chain: Chain = (),
    extras: Sequence[str] = (),
    l2: int = L2,
) -> WinogradChoice:
    """The choice for a geometry that suits_winograd; m x m outputs a tile."""
    lanes = tier.lanes
    down, across, places = -(-g.out[1] // m), -(-g.out[2] // m), (m + 2) ** 2
    band, mr, nv = _blocks(tier, g, m, l2)
    panels = -(-g.n // (nv * lanes))
    size = g.c * g.size[1] * g.size[2]
    by_columns = columns_first(g.images * down, panels, size, places * g.c * g.n, threads)
    if not by_columns and g.images % threads:
        bands = -(-down // band)
        band = -(-down // min(-(-bands // threads) * threads, down))
    v_row = _v_row(tier, g)

    x_image, _, x_y, x_x = (4 * s for s in g.x_strides)
    pixel = g.c * 4
    wide = across * m + 2
    left, inside = cover(-g.pads[2], 1, g.size[2], wide)
    merged = x_x == pixel
    room = -(-band * across // mr) * mr
    band_y = wide * pixel
    v_plane, s_plane = room * v_row + 64, room * nv * lanes * 4 + 64
    v_start = -(-((band * m + 2) * band_y + 128) // 64) * 64
    s_start = v_start + places * v_plane + 64
    fields = {
        "images": g.images, "out_h": g.out[1], "out_w": g.out[2], "n": g.n, "k": g.c, "x_image": x_image, "x_y": x_y,
        "x_first": (left - g.pads[2]) * x_x, "h": g.size[1], "pad_y": g.pads[1], "band": band, "across": across,
        "left": left * g.c, "pixels": 1 if merged else inside, "run": inside * g.c if merged else g.c,
        "x_step": x_x, "pixel_step": inside * pixel if merged else pixel, "right": (wide - left - inside) * g.c,
        "band_y": band_y, "pixel": pixel, "v_start": v_start, "v_row": v_row, "v_plane": v_plane,
        "s_start": s_start, "s_plane": s_plane, "by_columns": int(by_columns),
    }  # fmt: skip
    params = {
        "m": m, "mr": mr, "nv": nv, "ragged": g.n % (nv * lanes) != 0, "chain": chain, "extras": tuple(extras),
    }  # fmt: skip
    return WinogradChoice(m, nv, params, s_start + places * s_plane, fields)


def winograd_record(
    choice: WinogradChoice,
    *,
    x: Any,
    w: Any,
    y: Any,
    ldy: int,
    scratch: Any,
    extras: Sequence[tuple[Any, int, int]] = (),
) -> list[Any]:
    """The winograd kernel's record; addresses may be whatever stands for them. w: pack.pack_winograd's.

    ldy: f32 per pixel of y; an extra is (address, stride per image, stride per pixel) in f32.
    """
    from .rows_dot import WINOGRAD_ARGS

    values = {**choice.fields, "x": x, "w": w, "y": y, "ldy": ldy, "scratch": scratch}
    values["scratch_bytes"] = choice.scratch
    return [values[name] for name in WINOGRAD_ARGS] + [field for extra in extras for field in extra]
