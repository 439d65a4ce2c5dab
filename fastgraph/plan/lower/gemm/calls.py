"""Calls of the kernels for products: split by columns, with packed weights and records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ....cpus import near_bytes
from ....freedoms import threshold
from ....kernels.gemm.pack import Arrangement
from ....kernels.gemm.pack_int8 import Head, Words, pack_int8
from ....kernels.gemm.pick_conv import ConvPiece, conv_args
from ....kernels.gemm.pick_dot import DotPiece, dot_args
from ....kernels.isa.tiers import Tier
from ....kernels.window.pick import APART, Window, window_args
from ...layer import Integers, Layer, RowPart
from ...program import Ref
from ...quantized import folded_bias
from ..emit import Rows
from ..registry import Emit, Slot, row_count


class Columns(NamedTuple):
    """Output channels of each group that are packed together, in panels of nv vectors, or one whose last is half."""

    start: int
    columns: int
    nv: int
    half: bool = False

    @property
    def part(self) -> slice:
        return slice(self.start, self.start + self.columns)


Pack = Callable[[Columns], Ref]
"""Columns -> their packed weights."""


def columns_of(piece: DotPiece | ConvPiece) -> Columns:
    """The columns of one call of a kernel."""
    return Columns(piece.start, piece.columns, piece.nv, piece.params.get("half", False))


def part_of(e: Emit, pixels: int) -> float:
    """The share of the node's result that so many pixels are."""
    return pixels / row_count(e.node.out)


def window_slots(e: Emit, kernel: str, params: dict[str, Any], g: Window) -> dict[str, Slot]:
    """The slots of a depthwise kernel that follow from its window, with its scratch."""
    apart = threshold("lines_apart", APART)
    found = window_args(e.tier, kernel, params, g, e.threads, near_bytes(), apart)
    taken = found.get("scratch_bytes")
    return {**found, "scratch": e.scratch(taken * e.threads)} if taken else {**found}


def dense_sizes(layer: Layer[Any], images: int, words: int) -> dict[str, Slot]:
    """The slots of a dense layer on rows of so many images, each of so many words."""
    m = layer.pixels // images
    return {"m": m, "k": words, "batch": images, "a_stride": m * layer.ldx, "c_stride": m * layer.ldy}


def tile_slots(e: Emit, choice: Any, rows: Rows, ldy: int, panels: Ref) -> dict[str, Any]:
    """The slots of a call on AMX tiles that a TileChoice and the layer's memory give."""
    own = {"x": rows.x, "w": panels, "y": rows.y, "ldy": ldy}
    return own | {"offsets": choice.table, "config": choice.config, "scratch": e.scratch(choice.scratch * e.threads)}


def dot_calls(
    e: Emit, layer: Layer[Any], rows: Rows, kernel: str, pieces: Iterable[DotPiece], pack: Pack, **slots: Slot
) -> None:
    """Write the calls of a dense layer."""
    own = {"a": rows.x, "lda": layer.ldx, "c": rows.y, "ldc": layer.ldy, **slots}
    for piece in pieces:
        args = dot_args(piece, b=pack(columns_of(piece)), **own)
        e.kernel(kernel, piece.params, args, share=part_of(e, layer.pixels) * piece.columns / layer.n)


def conv_calls(
    e: Emit,
    layer: Layer[Any],
    rows: Rows,
    kernel: str,
    pieces: Iterable[ConvPiece],
    part: RowPart,
    pack: Pack,
    **slots: Slot,
) -> None:
    """Write the calls of a convolution, or of the part of it that computes some outputs of each row."""
    x, y = rows.x.plus(part.g.item * part.x), rows.y.plus(e.node.out.type.itemsize * part.y)
    own = {"x": x, "y": y, "ldy": layer.ldy * part.how.together, **slots}
    for piece in pieces:
        scratch = e.scratch(piece.scratch * e.threads)
        args = conv_args(piece, w=pack(columns_of(piece)), scratch=scratch, **own)
        e.kernel(kernel, piece.params, args, share=part_of(e, part.outputs) * piece.columns / part.g.n)


def panels(tier: Tier, layer: Integers, how: Arrangement, zero: int, columns: Columns, words: Words) -> np.ndarray:
    """A quantized layer's weights for these columns of each group, packed. zero: the u8 that stands for 0.0 in x."""
    layer, part = layer.arranged(how), columns.part
    weights = layer.weights.reshape(how.merged, len(layer.weights) // how.merged, -1)[:, part]
    bias, multipliers, zeros = (
        v.reshape(how.merged, -1)[:, part] for v in (layer.bias, layer.multipliers, layer.zeros)
    )
    # Kernels that learn the zero point of x when they run want the sum of the weights, and the bias in f32.
    start, zero = (0 * bias, -1) if layer.ranged else (bias, zero)
    sums = np.stack([folded_bias(w, b, zero, z) for w, b, z in zip(weights, start, zeros, strict=True)])
    minus = -zeros.astype(np.int32) if layer.rowsum(tier, words.narrow) else None
    if minus is None and zeros.any():
        weights = (weights.astype(np.int16) - zeros[..., None]).astype(np.int16)
    head = Head(sums, multipliers, minus, bias if layer.ranged else None)
    return pack_int8(tier, weights, head, words, columns.nv, layer.out, columns.half)
