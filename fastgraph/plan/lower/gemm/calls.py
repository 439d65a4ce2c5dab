"""The calls of the kernels for products: pieces of a layer's columns, packed weights, records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ....ir import Node
from ....kernels.gemm.pack_int8 import Head, pack_int8
from ....kernels.gemm.pick_conv import ConvPiece, conv_args
from ....kernels.gemm.pick_dot import DotPiece, dot_args
from ....kernels.isa.tiers import Tier
from ...layer import Integers, Layer, RowPart
from ...program import Ref
from ...quantized import folded_bias
from ..emit import Rows
from ..registry import Emit, Slot, row_count


class Columns(NamedTuple):
    """Output channels of each group that are packed together, in panels of nv vectors."""

    start: int
    columns: int
    nv: int

    @property
    def part(self) -> slice:
        return slice(self.start, self.start + self.columns)


Pack = Callable[[Columns], Ref]
"""Gives the packed weights of some columns."""


def columns_of(piece: DotPiece | ConvPiece) -> Columns:
    """Those that a call of a kernel is for."""
    return Columns(piece.start, piece.columns, piece.nv)


def part_of(node: Node, layer: Layer[Any]) -> float:
    """Which part of the node's result the layer is."""
    return layer.pixels / row_count(node.out)


def dot_calls(
    e: Emit, kernel: str, pieces: Iterable[DotPiece], rows: Rows, pack: Pack, n: int, part: float, **slots: Slot
) -> None:
    """Products of rows by n columns. part: of the node's result."""
    for piece in pieces:
        args = dot_args(piece, a=rows.x, b=pack(columns_of(piece)), c=rows.y, **slots)
        e.kernel(kernel, piece.params, args, share=part * piece.columns / n)


def conv_calls(
    e: Emit,
    kernel: str,
    pieces: Iterable[ConvPiece],
    part: RowPart,
    rows: Rows,
    pack: Pack,
    share: float,
    **slots: Slot,
) -> None:
    """A convolution, or the part of it that is some outputs of each row. share: of the node's result."""
    for piece in pieces:
        packed = pack(columns_of(piece))
        args = conv_args(
            piece, x=rows.x, w=packed, y=rows.y, taps=piece.table,
            scratch=e.scratch(piece.scratch * e.threads), **slots,
        )  # fmt: skip
        e.kernel(kernel, piece.params, args, share=share * piece.columns / part.g.n)


def panels(tier: Tier, layer: Integers, zero: int, columns: Columns, run: int, groups: int, chains: int) -> np.ndarray:
    """A quantized layer's weights for these columns of each group, packed. zero: the u8 that stands for 0.0 in x;
    run, chains: as of pack_int8.
    """
    part = columns.part
    weights = layer.weights.reshape(groups, len(layer.weights) // groups, -1)[:, part]
    bias, multipliers, zeros = (v.reshape(groups, -1)[:, part] for v in (layer.bias, layer.multipliers, layer.zeros))
    start = np.stack([folded_bias(w, b, zero, z) for w, b, z in zip(weights, bias, zeros, strict=True)])
    minus = -zeros.astype(np.int32) if layer.rowsum else None
    return pack_int8(tier, weights, Head(start, multipliers, minus), columns.nv, run, layer.out, chains)
