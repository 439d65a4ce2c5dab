"""Packs constant weights into the panels that the dot and convolution kernels read. NumPy only."""

from __future__ import annotations

import numpy as np


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
