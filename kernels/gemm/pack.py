"""Packs constant weights into the panels that the dot and convolution kernels read. NumPy only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


def pack_weights(
    weights: np.ndarray, bias: np.ndarray | None, nv: int, lanes: int, *, empty: Callable[..., Any] = np.empty
) -> np.ndarray:
    """f32 [batch, panels, 1 + K, nv * lanes] from weights [batch, N, K] (or [N, K]) and bias [batch, N]
    (or [N]).

    A panel holds nv * lanes columns: their bias (0 without one, and 0 for -0, as a sum is that leaves out products that
    are 0) and then one line per k; columns past N are 0. empty(shape, dtype): where they go.
    """
    w = weights.astype(np.float32, copy=False)
    w = w[None] if w.ndim == 2 else w
    batch, n, k = w.shape
    width = nv * lanes
    whole, rest = divmod(n, width)
    packed: np.ndarray = empty((batch, whole + bool(rest), 1 + k, width), np.float32)
    packed[:, :whole, 1:] = w[:, : n - rest].reshape(batch, whole, width, k).transpose(0, 1, 3, 2)
    if rest:
        packed[:, whole, 1:, :rest] = w[:, n - rest :].transpose(0, 2, 1)
        packed[:, whole, :, rest:] = 0
    first = np.zeros((batch, packed.shape[1] * width), np.float32)
    if bias is not None:
        first[:, :n] += bias.reshape(batch, n)
    packed[:, :, 0] = first.reshape(batch, -1, width)
    return packed


class Arrangement(NamedTuple):
    """How a convolution's weights are rearranged: `factor` of its `groups` become one, and `together` outputs of a row,
    whose windows are `stride` pixels apart.
    """

    groups: int = 1
    factor: int = 1
    together: int = 1
    stride: int = 1

    @property
    def merged(self) -> int:
        """Groups after merging."""
        return self.groups // self.factor


def arranged(weights: np.ndarray, how: Arrangement, zeros: np.ndarray | None = None) -> np.ndarray:
    """[together * O, k..., k_w + ..., C * factor] from weights [O, k..., k_w, C]; elements outside of a window are the
    zero point of their channel, zeros [O], or 0.
    """
    if how.factor > 1:
        weights = merge_groups(weights, how.groups, how.factor, zeros)
    return widen(weights, how.together, how.stride, zeros) if how.together > 1 else weights


def merge_groups(weights: np.ndarray, groups: int, factor: int, zeros: np.ndarray | None = None) -> np.ndarray:
    """[O, k..., C * factor] weights for groups / factor groups, equivalent to [O, k..., C] for `groups`.

    Each new group is block diagonal; elements outside of the blocks are zero points, zeros [O], or 0.
    """
    o, *taps, c = weights.shape
    per = o // groups
    out = np.zeros((groups // factor, factor, per, *taps, factor, c), weights.dtype)
    if zeros is not None:
        out[...] = zeros.reshape(groups // factor, factor, per, *[1] * (len(taps) + 2))
    split = weights.reshape(groups // factor, factor, per, *taps, c)
    for i in range(factor):
        out[:, i, ..., i, :] = split[:, i]
    return out.reshape(o, *taps, factor * c)


def widen(weights: np.ndarray, factor: int, stride: int, zeros: np.ndarray | None = None) -> np.ndarray:
    """[factor * N, ..., k_w + (factor - 1) * stride, C] from weights [N, ..., k_w, C], for `factor` outputs of a row at
    once.

    Elements outside of a window are zero points, zeros [N], or 0.
    """
    n, *outer, k_w, c = weights.shape
    wide = np.zeros((factor, n, *outer, k_w + (factor - 1) * stride, c), weights.dtype)
    if zeros is not None:
        wide[...] = zeros.reshape(n, *[1] * (weights.ndim - 1))
    for i in range(factor):
        wide[i, ..., i * stride : i * stride + k_w, :] = weights
    return wide.reshape(factor * n, *wide.shape[2:])
