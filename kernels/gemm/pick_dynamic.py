"""Shapes -> tiles of the kernels for layers of bytes that are rounded by their range. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..isa.tiers import Tier
from ..pointwise.chain import Chain
from .pick_conv import ConvPiece, Geometry, conv_args, conv_pieces, upright
from .pick_dot import L2, DotPiece, dot_args, dot_pieces
from .pick_int8 import COSTS
from .rows import CONV, DOT

Ranges = tuple[Any, int, int]
"""Where ranges are, and how many there are per image (or batch) and per row."""

WORTH_A_PART = 8192
"""Numbers of an image that are enough for threads to share them."""


def parts_of(images: int, count: int, threads: int) -> int:
    """In how many parts the extremes of each image of `count` numbers are looked for."""
    return threads if images < threads and count >= WORTH_A_PART else 1


def pick_dot_dynamic(
    tier: Tier, m: int, n: int, k: int, batch: int, threads: int, per_row: bool, chain: Chain, kinds: Sequence[str]
) -> tuple[DotPiece, ...]:
    """The dot_dynamic calls for C [batch, m, n] = A [batch, m, k] x B."""
    more = {"per_row": per_row, "chain": chain, "extras": tuple(kinds)}
    return dot_pieces(tier, m, n, -(-k // 4), batch, threads, COSTS[False], more, k)


def dot_dynamic_record(
    piece: DotPiece, k: int, ranges: Ranges, extras: Sequence[tuple[Any, int, int]], **places: Any
) -> list[Any]:
    """The record of `dot_dynamic`: k counts products, lda and a_stride bytes, ldc and c_stride elements of C."""
    record = DOT.filled(**dot_args(piece, k=-(-k // 4), **places))
    return [*record, *(slot for extra in [ranges, *extras] for slot in extra)]


def pick_conv_dynamic(
    tier: Tier, g: Geometry, threads: int, chain: Chain, kinds: Sequence[str], l2: int = L2
) -> tuple[Geometry, tuple[ConvPiece, ...]]:
    """The conv_dynamic calls for a geometry of u8 without padding, and the geometry that they are for."""
    assert g.item == 1 and not any(g.pads)
    g = upright(g, l2)
    more = {"per_row": False, "chain": chain, "extras": tuple(kinds)}
    return g, conv_pieces(tier, g, threads, COSTS[False], more, l2)


def conv_dynamic_record(
    piece: ConvPiece, ranges: Ranges, extras: Sequence[tuple[Any, int, int]], **places: Any
) -> list[Any]:
    """The record of `conv_dynamic`, as `conv_args`."""
    return [*CONV.filled(**conv_args(piece, **places)), *(slot for extra in [ranges, *extras] for slot in extra)]
