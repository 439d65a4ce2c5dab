"""A transposed convolution as dot and fold: their records, the weights' order and the memory between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..isa.tiers import Tier
from ..pointwise.chain import Chain
from .pick_dot import DotPiece, pick_dot

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Transposed:
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
    def products(self) -> int:
        """Bytes of dot's result, [groups, pixels, columns]."""
        return 4 * self.groups * self.pixels * self.columns

    @property
    def scratch(self) -> int:
        """Bytes that fold needs for each thread, 64-byte aligned."""
        return -(-4 * self.out[2] * self.n // 64) * 64


def tap_weights(weights: np.ndarray, g: Transposed) -> np.ndarray:
    """[groups, columns, c], to be packed for dot, from weights [groups * n, k..., c]."""
    split = weights.reshape(g.groups, g.n, -1, g.c)
    return np.ascontiguousarray(split.transpose(0, 2, 1, 3)).reshape(g.groups, g.columns, g.c)


def pick_products(tier: Tier, g: Transposed, threads: int = 1) -> tuple[DotPiece, ...]:
    """The dot calls; record: a = x, lda = its pixel stride, m = pixels, k = c, ldc = columns, batch = groups,
    a_stride = c, b_stride = one group's packed weights, c_stride = pixels * columns.
    """
    return pick_dot(tier, g.pixels, g.columns, g.c, g.groups, threads)


def fold_params(chain: Chain = (), extras: Sequence[str] = ()) -> dict[str, Any]:
    """What makes the fold kernel."""
    return {"chain": chain, "extras": tuple(extras)}


def fold_record(
    g: Transposed,
    *,
    t: Any,
    y: Any,
    ldy: int,
    bias: Any,
    scratch: Any,
    extras: Sequence[tuple[Any, int, int]] = (),
) -> list[Any]:
    """The fold kernel's record; addresses may be whatever stands for them. bias: [groups * n], zeros
    for none.

    An extra is (address, stride per image, stride per pixel) in f32.
    """
    record = [
        t,
        y,
        ldy,
        bias,
        scratch,
        g.scratch,
        g.images,
        g.groups,
        g.n,
        *g.size,
        *g.out,
        *g.kernel,
        *g.strides,
        *g.dilations,
        *g.pads,
    ]
    return record + [field for extra in extras for field in extra]
