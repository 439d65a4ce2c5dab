"""The transforms of Winograd's minimal filtering F(m x m, 3 x 3) and F(m, 3); weights packed. NumPy only."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .pack import pack_weights

Matrix = tuple[tuple[float, ...], ...]

POINTS = {2: (1.0,), 4: (0.625, 1.5)}
"""Besides 0 and infinity, each with its opposite, where the polynomials are multiplied (Lavin and Gray 2016).

Those of m = 4 make a third of the error of the usual 1 and 2, as measured for all pairs of eighths; all
entries of the input and output transforms are exact in f32.
"""


class Transforms(NamedTuple):
    """Outputs are output x ((input x tile x input^T) * (kernel x weights x kernel^T)) x output^T.

    Rows of `input` and `kernel`, columns of `output`: point 0, pairs of opposite points, infinity.
    """

    input: Matrix
    kernel: Matrix
    output: Matrix


@cache
def transforms(m: int) -> Transforms:
    """The matrices of F(m x m, 3 x 3), m 2 or 4: (m + 2) x (m + 2), (m + 2) x 3, m x (m + 2)."""
    points = [0.0, *(sign * p for p in POINTS[m] for sign in (1, -1))]
    rest = [[q for q in points if q != p] for p in points]
    infinity = [0.0] * (m - 1) + [1.0]
    rows = [[*np.poly(others)[::-1], 0.0] for others in rest] + [[*np.poly(points)[::-1]]]
    kernel = [[p**j / prod(p - q for q in others) for j in range(3)] for p, others in zip(points, rest, strict=True)]
    output = [[*(p**i for p in points), infinity[i]] for i in range(m)]
    return Transforms(_matrix(rows), _matrix([*kernel, [0, 0, 1]]), _matrix(output))


def _matrix(rows: list[list[float]]) -> Matrix:
    return tuple(tuple(float(value) for value in row) for row in rows)


def pack_winograd(
    weights: np.ndarray, bias: np.ndarray | None, m: int, tall: bool, nv: int, lanes: int,
    *, empty: Callable[..., Any] = np.empty,
) -> np.ndarray:  # fmt: skip
    """f32, one dimension, from weights [sets, O, slices, rows, columns, C] (one column for `tall` tiles) and bias
    [sets * O] (zeros without one).

    For each set panels [places, panels, 1 + blocks * C, nv * lanes] of the transformed weights, each beginning with a
    line of zeros, of blocks of 3 x 3 (or 3) taps; places are (m + 2)^2 (or m + 2). Then its bias in whole panels.
    empty(shape, dtype): where they go; they are made panel by panel, as all transformed weights at once, in f64, would
    take 16 times the memory of the weights.
    """
    sets, o, slices, rows, columns, c = weights.shape
    y, x = -(-rows // 3), 1 if tall else -(-columns // 3)
    width = nv * lanes
    shape = (m + 2) ** (1 if tall else 2), -(-o // width), 1 + slices * y * x * c, width
    packed: np.ndarray = empty((sets * (prod(shape) + shape[1] * width),), np.float32)
    biases = np.zeros((sets, o), np.float32) if bias is None else bias.reshape(sets, o)
    for own, into, offsets in zip(weights, packed.reshape(sets, -1), biases, strict=True):
        panels, padded = into[: prod(shape)].reshape(shape), into[prod(shape) :]
        for panel in range(shape[1]):
            part = _places(own[panel * width : (panel + 1) * width], m, tall)
            panels[:, panel] = pack_weights(part, None, nv, lanes)[:, 0]
        padded[...] = 0
        padded[:o] = offsets
    return packed


def _places(weights: np.ndarray, m: int, tall: bool) -> np.ndarray:
    """The transformed weights, f32 [places, O, slices * blocks * C]."""
    kernel = np.array(transforms(m).kernel)
    o, slices, rows, columns, c = weights.shape
    y, x = -(-rows // 3), 1 if tall else -(-columns // 3)
    taps = np.zeros((o, slices, 3 * y, 1 if tall else 3 * x, c))
    taps[:, :, :rows, :columns] = weights
    taps = taps.reshape(o, slices, y, 3, x, -1, c)
    # [O, slices, y, 3, x, 3 or 1, C] -> [places, O, slices, y, x, C]
    lines = np.tensordot(kernel, taps, (1, 3))
    places = lines.transpose(0, 5, 1, 2, 3, 4, 6) if tall else np.tensordot(kernel, lines, (1, 5)).swapaxes(0, 1)
    return places.reshape(-1, o, slices * y * x * c).astype(np.float32)
