"""A transposed convolution as dot and col2im: the slots of both, the weights' order, the memory between them."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ..isa.tiers import Tier
from .pick_conv import Geometry, Triple, plain_cycles
from .pick_dot import L2, DotPiece, Product, dot_args, pick_dot

OVERLAP_CYCLES = 4
"""Of col2im, for each vector of products."""
FAR = 0.3
"""Cycles more to write and to read a byte of products that do not stay in the second-level cache."""


class Transposed(NamedTuple):
    """y[i * stride + k * dilation - pad] += x[i] * w[k], x [images, *size, groups * c], n output
    channels a group.

    Triples are (depth, height, width); fewer dimensions have leading ones (and pads of 0). pads: those
    before. zeros: whether sums may leave out products by what lies outside of x, as all weights are finite.
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
    zeros: bool = True

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
    def disjoint(self) -> bool:
        """Whether each output pixel is one tap of one input pixel, so that nothing is summed; in one group, and the
        lines of x are at equal distances in y."""
        dense = tuple(n * s for n, s in zip(self.size, self.strides, strict=True))
        undilated = all(d == 1 for d, k in zip(self.dilations, self.kernel, strict=True) if k > 1)
        plain = self.groups == self.kernel[0] == 1 and self.pads == (0, 0, 0) and undilated
        return plain and self.kernel == self.strides and self.out == dense

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
    """The products, as calls of dot."""
    return pick_dot(tier, g.product, threads)


def products_args(piece: DotPiece, g: Transposed, **operands: Any) -> dict[str, Any]:
    """The slots of `rows.DOT`; operands: a = x, lda, k (words of g.c), b and its b_stride from group to group, c."""
    return dot_args(
        piece, ldc=g.columns, m=g.pixels, batch=g.groups, a_stride=g.c, c_stride=g.pixels * g.columns, **operands
    )


class Run(NamedTuple):
    """Columns of `tap_weights` from `start` on that are neighbors in y too, for each pixel; `y`: which pixel of y the
    first input pixel's are."""

    start: int
    y: int


def disjoint_runs(g: Transposed, ldy: int) -> tuple[Product, list[Run]]:
    """The product of each run, where `g.disjoint`: that of the taps of a row of the window, which lie together where y
    has no other channels, or of one tap."""
    _, k_h, k_w = g.kernel
    together = k_w if ldy == g.n else 1
    lines, pixels = (g.pixels // g.size[2], g.size[2]) if k_h > 1 else (1, g.pixels)
    taps = range(0, k_h * k_w, together)
    runs = [Run(tap * g.n, tap // k_w * g.out[2] + tap % k_w) for tap in taps]
    return Product(pixels, together * g.n, g.c, lines), runs


def run_args(piece: DotPiece, g: Transposed, product: Product, lda: int, ldy: int, **operands: Any) -> dict[str, Any]:
    """The slots of `rows.DOT` for a run; operands: a = x, b, c: the run's first pixel."""
    _, k_h, k_w = g.kernel
    strides = {"a_stride": product.m * lda, "c_stride": k_h * g.out[2] * ldy}
    shapes = {"lda": lda, "ldc": k_w * ldy, "m": product.m, "k": g.c, "batch": product.batch}
    return dot_args(piece, **shapes, **strides, **operands)


class Phase(NamedTuple):
    """Outputs a stride apart from `first` (row, column) on: a convolution with some taps (rows, columns)."""

    first: tuple[int, int]
    taps: tuple[tuple[int, ...], tuple[int, ...]]
    g: Geometry


def phases(g: Transposed, ldx: int) -> list[Phase] | None:
    """The convolutions that make y, each output of which reads the taps of one phase; None unless there are two
    dimensions without dilation, and each phase has taps, the first of which lies in x or before it, and as many outputs
    as the others if there are several images. ldx: from pixel to pixel of x.
    """
    alike = g.images == 1 or not any(n % s for n, s in zip(g.out, g.strides, strict=True))
    flat = g.kernel[0] == g.out[0] == g.size[0] == g.strides[0] == 1 and g.pads[0] == 0
    if not alike or not flat or any(d > 1 and k > 1 for d, k in zip(g.dilations, g.kernel, strict=True)):
        return None
    down, across = (_phases(*(triple[axis] for triple in (g.kernel, g.strides, g.pads, g.out))) for axis in (1, 2))
    if not down or not across:
        return None
    _, h, w = g.size
    plain = Geometry(g.images, g.groups, g.c, g.n, g.size, g.kernel, g.out, (h * w * ldx, h * w * ldx, w * ldx, ldx))
    found = []
    for y, x in product(down, across):
        kernel, out, pads = (1, len(y.taps), len(x.taps)), (1, y.outputs, x.outputs), (0, y.pad, x.pad)
        part = plain._replace(kernel=kernel, out=out, pads=pads, zeros=g.zeros, gaps=g.out[1] > 1)
        found.append(Phase((y.first, x.first), (y.taps, x.taps), part))
    return found


class _Axis(NamedTuple):
    """A phase along one axis: its taps, which `outputs` outputs read from `pad` before x on."""

    first: int
    taps: tuple[int, ...]
    pad: int
    outputs: int


def _phases(kernel: int, stride: int, pad: int, out: int) -> list[_Axis] | None:
    found = []
    for first in range(min(stride, out)):
        further, tap = divmod(first + pad, stride)
        taps = tuple(range(tap, kernel, stride))[::-1]
        if further >= len(taps):
            return None
        found.append(_Axis(first, taps, len(taps) - 1 - further, len(range(first, out, stride))))
    return found


def phases_cycles(tier: Tier, found: list[Phase]) -> float:
    """Cycles of these convolutions."""
    return sum(plain_cycles(tier, phase.g) for phase in found)


def products_cycles(tier: Tier, g: Transposed, overlap: bool, l2: int = L2) -> float:
    """Cycles of products, and of col2im where taps overlap."""
    products = Geometry(1, g.groups, g.c, g.columns, (1, 1, g.pixels), (1, 1, 1), (1, 1, g.pixels), (0, 0, 0, g.c))
    sums = g.groups * g.pixels * g.columns // g.n * -(-g.n // tier.lanes)
    summed = OVERLAP_CYCLES * sums + (FAR * g.products if g.products > l2 else 0.0)
    return plain_cycles(tier, products) + summed * overlap


def col2im_args(g: Transposed, **operands: Any) -> dict[str, Any]:
    """The slots of `rows.COL2IM`: what the geometry decides, and `operands`: t, y, ldy, bias, scratch."""
    triples = {
        "d h w": g.size, "out_d out_h out_w": g.out, "k_d k_h k_w": g.kernel, "pad_z pad_y pad_x": g.pads,
        "stride_z stride_y stride_x": g.strides, "dilation_z dilation_y dilation_x": g.dilations,
    }  # fmt: skip
    sizes = {name: n for names, triple in triples.items() for name, n in zip(names.split(), triple, strict=True)}
    counts = {"images": g.images, "sets": g.groups, "n": g.n, "scratch_bytes": g.scratch}
    return {**counts, **sizes, **operands}
