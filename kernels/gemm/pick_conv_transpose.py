"""A transposed convolution as dot and col2im: the slots of both, the weights' order, the memory between them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..isa.tiers import Tier
from .pick_conv import Triple
from .pick_dot import DotPiece, Product, dot_args, pick_dot


class Transposed(NamedTuple):
    """y[i * stride + k * dilation - pad] += x[i] * w[k], x [images, *size, groups * c], n output
    channels a group.

    Triples are (depth, height, width); fewer dimensions have leading ones (and pads of 0). pads: those
    before.
    """

    images: int
    groups: int
    c: int
    n: int
    size: Triple
    kernel: Triple
    out: Triple
    strides: Triple = (1, 1, 1)
    dilations: Triple = (1, 1, 1)
    pads: Triple = (0, 0, 0)

    @property
    def pixels(self) -> int:
        """Input pixels of all images: dot's rows."""
        return self.images * self.size[0] * self.size[1] * self.size[2]

    @property
    def columns(self) -> int:
        """Dot's columns: every tap's output channels of a group."""
        return self.kernel[0] * self.kernel[1] * self.kernel[2] * self.n

    @property
    def product(self) -> Product:
        """Dot's operands and result."""
        return Product(self.pixels, self.columns, self.c, self.groups)

    @property
    def products(self) -> int:
        """Bytes of dot's result, [groups, pixels, columns]."""
        return 4 * self.groups * self.pixels * self.columns

    @property
    def scratch(self) -> int:
        """Bytes that col2im needs for each thread, 64-byte aligned."""
        return -(-4 * self.out[2] * self.n // 64) * 64


def tap_weights(weights: np.ndarray, groups: int) -> np.ndarray:
    """[groups, columns, c], to be packed for dot, from weights [groups * n, k..., c]: a column is a tap's n-th."""
    c = weights.shape[-1]
    split = weights.reshape(groups, len(weights) // groups, -1, c)
    return np.ascontiguousarray(split.transpose(0, 2, 1, 3)).reshape(groups, -1, c)


def pick_products(tier: Tier, g: Transposed, threads: int = 1) -> tuple[DotPiece, ...]:
    """The dot calls."""
    return pick_dot(tier, g.product, threads)


def products_args(piece: DotPiece, g: Transposed, **operands: Any) -> dict[str, Any]:
    """The slots of `rows.DOT`; operands: a = x, lda, k (words of g.c), b and its b_stride from group to group, c."""
    return dot_args(
        piece, ldc=g.columns, m=g.pixels, batch=g.groups, a_stride=g.c, c_stride=g.pixels * g.columns, **operands
    )


def col2im_args(g: Transposed, **operands: Any) -> dict[str, Any]:
    """The slots of `rows.COL2IM`: what the geometry decides, and `operands`: t, y, ldy, bias, scratch."""
    triples = {
        "d h w": g.size, "out_d out_h out_w": g.out, "k_d k_h k_w": g.kernel, "pad_z pad_y pad_x": g.pads,
        "stride_z stride_y stride_x": g.strides, "dilation_z dilation_y dilation_x": g.dilations,
    }  # fmt: skip
    sizes = {name: n for names, triple in triples.items() for name, n in zip(names.split(), triple, strict=True)}
    counts = {"images": g.images, "sets": g.groups, "n": g.n, "scratch_bytes": g.scratch}
    return {**counts, **sizes, **operands}
