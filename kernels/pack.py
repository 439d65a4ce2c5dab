"""Packs constant weights into the panels that the dot and convolution kernels read. NumPy only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Transforms(NamedTuple):
    """The matrices of F(m x m, 3 x 3): of an input tile, of a 3 x 3 kernel, of the sums."""

    input: tuple[tuple[float, ...], ...]
    kernel: tuple[tuple[float, ...], ...]
    output: tuple[tuple[float, ...], ...]


# Lavin and Gray, "Fast algorithms for convolutional neural networks", arXiv 1509.09308.
WINOGRAD = {
    2: Transforms(
        ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
        ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)),
        ((1, 1, 1, 0), (0, 1, -1, -1)),
    ),
    4: Transforms(
        (
            (4, 0, -5, 0, 1, 0),
            (0, -4, -4, 1, 1, 0),
            (0, 4, -4, -1, 1, 0),
            (0, -2, -1, 2, 1, 0),
            (0, 2, -1, -2, 1, 0),
            (0, 4, 0, -5, 0, 1),
        ),
        (
            (1 / 4, 0, 0),
            (-1 / 6, -1 / 6, -1 / 6),
            (-1 / 6, 1 / 6, -1 / 6),
            (1 / 24, 1 / 12, 1 / 6),
            (1 / 24, -1 / 12, 1 / 6),
            (0, 0, 1),
        ),
        ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
    ),
}


def pack_weights(weights: np.ndarray, bias: np.ndarray | None, nv: int, lanes: int) -> np.ndarray:
    """f32 [batch, panels, 1 + K, nv * lanes] from weights [batch, N, K] (or [N, K]) and bias [batch, N]
    (or [N]).

    A panel holds nv * lanes columns: their bias (0 without one) and then one line per k; columns past N
    are 0.
    """
    w = weights.astype(np.float32, copy=False)
    w = w[None] if w.ndim == 2 else w
    batch, n, k = w.shape
    width = nv * lanes
    panels = -(-n // width)
    full = np.zeros((batch, panels * width, 1 + k), np.float32)
    full[:, :n, 1:] = w
    if bias is not None:
        full[:, :n, 0] = bias.reshape(batch, n)
    return np.ascontiguousarray(full.reshape(batch, panels, width, 1 + k).transpose(0, 1, 3, 2))


def merge_groups(weights: np.ndarray, groups: int, factor: int) -> np.ndarray:
    """[O, k..., C * factor] weights for groups / factor groups that compute what [O, k..., C] does for
    `groups`.

    Each new group is block diagonal: zeros where an output channel doesn't see an input channel.
    """
    o, *taps, c = weights.shape
    per = o // groups
    out = np.zeros((groups // factor, factor, per, *taps, factor, c), weights.dtype)
    split = weights.reshape(groups // factor, factor, per, *taps, c)
    for i in range(factor):
        out[:, i, ..., i, :] = split[:, i]
    return out.reshape(o, *taps, factor * c)


def pack_winograd(weights: np.ndarray, bias: np.ndarray | None, m: int, nv: int, lanes: int) -> np.ndarray:
    """Panels f32 [(m + 2)^2, panels, 1 + C, nv * lanes] from weights [O, 3, 3, C] and bias [O]."""
    kernel = np.array(WINOGRAD[m].kernel)
    o, _, _, c = weights.shape
    rows = np.tensordot(kernel, weights.astype(np.float64), (1, 1))
    places = np.tensordot(kernel, rows, (1, 2)).swapaxes(0, 1).reshape(-1, o, c)
    biases = np.zeros((len(places), o), np.float32)
    if bias is not None:
        # The output transform adds place (1, 1) to all outputs with a factor of one.
        biases[m + 3] = bias
    return pack_weights(places.astype(np.float32), biases, nv, lanes)
