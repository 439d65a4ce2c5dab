"""Geometries of convolutions for tests, and the sums of their windows in f64."""

from itertools import product
from random import Random
from typing import Any

import numpy as np

from fastgraph.kernels.gemm.pick_conv import Geometry


def reference(x: np.ndarray, w: np.ndarray, g: Geometry) -> np.ndarray:
    """[images, *out, groups * n] in f64 from x [images, d, h, w, groups * c] and w [groups * n, k..., c]."""
    span = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(g.out, g.strides, g.kernel, g.dilations, strict=True)]
    after = [max(n - p - size, 0) for n, p, size in zip(span, g.pads, g.size, strict=True)]
    padded = np.pad(x.astype(np.float64), [(0, 0), *zip(g.pads, after, strict=True), (0, 0)])
    y = np.zeros((g.images, *g.out, g.groups, g.n))
    for tap in product(*map(range, g.kernel)):
        place = tuple(
            slice(t * d, t * d + (o - 1) * s + 1, s)
            for t, d, o, s in zip(tap, g.dilations, g.out, g.strides, strict=True)
        )
        seen = padded[(slice(None), *place)].reshape(*y.shape[:4], g.groups, g.c)
        y += np.einsum("...gc,gnc->...gn", seen, w.reshape(g.groups, g.n, *g.kernel, g.c)[:, :, *tap])
    return y.reshape(*y.shape[:4], -1)


def strided(g: Geometry, gap: int = 0, item: int = 4) -> Geometry:
    """The geometry with x in dense rows, `gap` elements more than channels in each pixel."""
    pixel = g.groups * g.c + gap
    row, plane = g.size[2] * pixel, g.size[1] * g.size[2] * pixel
    return g._replace(item=item, x_strides=(g.size[0] * plane, plane, row, pixel))


def square(c: int, n: int, size: int, k: int, stride: int = 1, pad: int = 0, groups: int = 1) -> Geometry:
    out = (size + 2 * pad - k) // stride + 1
    whole, kernel, strides = (1, size, size), (1, k, k), (1, stride, stride)
    g = Geometry(1, groups, c, n, whole, kernel, (1, out, out), (0, 0, 0, 0), strides, pads=(0, pad, pad))
    return strided(g)


def random_geometry(pick: Random, out: tuple[int, int, int], c: int, n: int, groups: int) -> Geometry:
    """Strides, dilations and padding as they fall, in three dimensions where there are several planes."""

    def some() -> Any:
        return (pick.randint(1, 3) if out[0] > 1 else 1, pick.randint(1, 3), pick.randint(1, 3))

    kernel, strides, dilations = some(), some(), some()
    extents, before = [], []
    for o, k, s, d in zip(out, kernel, strides, dilations, strict=True):
        span = (o - 1) * s + (k - 1) * d + 1
        extents.append(pick.randint(max(1, span - 5), span + 2))
        before.append(pick.randint(0, max(0, span - extents[-1])))
    images, (d, h, w), (front, top, left) = pick.randint(1, 2), extents, before
    size, pads = (d, h, w), (front, top, left)
    g = Geometry(images, groups, c, n, size, kernel, out, (0, 0, 0, 0), strides, dilations, pads)
    return strided(g, pick.randint(0, 3))


def small_geometry(pick: Random) -> Geometry:
    out = (pick.randint(1, 2), pick.randint(1, 5), pick.randint(1, 17))
    return random_geometry(pick, out, pick.randint(1, 9), pick.randint(1, 11), pick.randint(1, 3))


PICKED = {
    "3x3": square(5, 40, 9, 3, 1, 1),
    "mostly padding": square(3, 24, 11, 5, 2, 7),
    "taps apart in padding": square(3, 40, 5, 7, 1, 6)._replace(out=(1, 5, 5), dilations=(1, 2, 2)),
    "taps farther apart than rows": square(3, 40, 13, 3, 1, 9)._replace(out=(1, 4, 13), dilations=(1, 9, 9)),
    "pixels a page apart": square(1024, 8, 4, 1, 2),
}
