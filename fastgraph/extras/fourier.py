"""Fourier transforms as products with constant matrices: one product, or two where the length has two factors."""

from __future__ import annotations

from math import gcd, isqrt, prod
from typing import NamedTuple

import numpy as np

from ..ir import Value
from ..rules.sweep import Sweep

WORTH = 3
"""Two products, with the moves around them, take the time of one that has so many times their multiplications."""
SHORT = 1 << 15
"""Multiplications of a row that are no reason to split."""


class Transform(NamedTuple):
    """y[k] = sum of weight[t] x[t] e**(2 pi i sign t k / n) over t, for k < made; of which the real part, if `real`."""

    n: int
    weight: np.ndarray
    made: int
    sign: int = -1
    real: bool = False


def forward(n: int, taken: int, made: int) -> Transform:
    """The spectrum of the first `taken` of n elements, the others being 0: its first `made` bins."""
    return Transform(n, np.ones(taken), made)


def backward(n: int, taken: int) -> Transform:
    """The signal of a spectrum whose first `taken` bins are given, and the others 0."""
    return Transform(n, np.full(taken, 1 / n), n, 1)


def backward_real(n: int, taken: int) -> Transform:
    """The real numbers whose spectrum begins with these bins: all but the first and the middle one stand for two."""
    k = np.arange(taken)
    return Transform(n, np.where((k == 0) | (2 * k == n), 1, 2) / n, n, 1, True)


def transformed(g: Sweep, x: Value, f: Transform) -> Value:
    """f of the middle axis of x [rows, taken, parts]: [rows, made, 1 if f.real else 2], in x's type."""
    taken, parts = x.type.dims[1:]
    wanted = 1 if f.real else 2
    a, b = _factors(f, parts)
    if a == 1:
        t, k = np.arange(taken)[:, None], np.arange(f.made)
        return _product(g, x, _reals(f.weight[:, None] * _unit(f, t * k), parts, wanted), f.made)
    return _split(g, x, f, a, b)


def _split(g: Sweep, x: Value, f: Transform, a: int, b: int) -> Value:
    """With t = b t1 + t2 and k = k1 + a k2: over t1 for each t2 on its own, then over t2."""
    rows, taken, parts = x.type.dims
    wanted = 1 if f.real else 2
    first, last = -(-taken // b), -(-f.made // a)
    missing = first * b - taken
    if missing:
        x = g("pad", x, g.vector(0, 0, 0, 0, missing, 0), mode="constant")
        f = f._replace(weight=np.pad(f.weight, (0, missing)))
    by_t2 = g.transpose(g.shape(x, rows, first, b, parts), 2, 0, 1, 3)
    t = np.arange(first * b).reshape(first, b).T[:, :, None]
    inner = _reals(f.weight[t] * _unit(f, t * np.arange(a)), parts, 2)
    y = _product(g, g.shape(by_t2, b, rows, first * parts), inner, a)
    y = g.transpose(g.shape(y, b, rows, a, 2), 1, 2, 0, 3)
    outer = _reals(_unit(f, a * np.arange(b)[:, None] * np.arange(last)), 2, wanted)
    y = _product(g, g.shape(y, rows * a, b, 2), outer, last)
    y = g.transpose(g.shape(y, rows, a, last, wanted), 0, 2, 1, 3)
    return g.cut(g.shape(y, rows, last * a, wanted), 1, 0, f.made)


def _factors(f: Transform, parts: int) -> tuple[int, int]:
    """(a, b) with a b = n for which the products are smallest; (1, n) where they should not be split."""
    wanted, taken = 1 if f.real else 2, len(f.weight)

    def cost(a: int) -> int:
        b = f.n // a
        return -(-taken // b) * b * parts * 2 * a + a * 2 * b * -(-f.made // a) * wanted

    whole = taken * parts * f.made * wanted
    best = min((a for a in range(2, isqrt(f.n) + 1) if f.n % a == 0), key=cost, default=1)
    return (best, f.n // best) if best > 1 and whole > SHORT and whole > WORTH * cost(best) else (1, f.n)


def _unit(f: Transform, turns: np.ndarray) -> np.ndarray:
    """e**(2 pi i sign turns / n)."""
    return np.exp(f.sign * 2j * np.pi / f.n * (turns % f.n))


def _reals(matrix: np.ndarray, parts: int, wanted: int) -> np.ndarray:
    """Complex matrices [..., t, k] as real ones [..., t * parts, k * wanted], for numbers of `parts` reals that give
    `wanted`.
    """
    *lead, t, k = matrix.shape
    found = np.empty((*lead, t, parts, k, wanted))
    for part, factor in zip(range(parts), (1, 1j), strict=False):
        found[..., part, :, 0] = (factor * matrix).real
        if wanted == 2:
            found[..., part, :, 1] = (factor * matrix).imag
    return found.reshape(*lead, t * parts, k * wanted)


def _product(g: Sweep, x: Value, matrix: np.ndarray, made: int) -> Value:
    """x times the matrix, or its matrices: [..., made, parts]."""
    rows = x if matrix.ndim == 3 else g.shape(x, x.type.dims[0], matrix.shape[-2])
    y = rows @ matrix.astype(x.type.dtype)
    return g.shape(y, *rows.type.dims[:-1], made, matrix.shape[-1] // made)


def along(g: Sweep, x: Value, axis: int, f: Transform) -> Value:
    """f along an axis of x [..., parts]."""
    rank = len(x.type.dims)
    perm = (*(a for a in range(rank - 1) if a != axis), axis, rank - 1)
    moved = g.transpose(x, *perm)
    *lead, taken, parts = moved.type.dims
    y = transformed(g, g.shape(moved, prod(lead), taken, parts), f)
    return g.transpose(g.shape(y, *lead, *y.type.dims[1:]), *(perm.index(a) for a in range(rank)))


def framed(g: Sweep, x: Value, size: int, step: int) -> Value:
    """The frames of `size` that begin every `step` elements of axis 1 of x [batch, n, parts], one after the other:
    [batch * frames, size, parts].
    """
    batch, n, parts = x.type.dims
    count = (n - size) // step + 1
    x = g.cut(x, 1, 0, (count - 1) * step + size)
    if count > 1 and step != size:
        run = gcd(size, step)
        x = g.shape(x, batch, x.type.dims[1] // run, run * parts)
        x = g.pick(x, np.arange(count)[:, None] * (step // run) + np.arange(size // run), 1)
    return g.shape(g.shape(x, batch, count, size, parts), batch * count, size, parts)
