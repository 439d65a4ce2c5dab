"""Fourier transforms as products with constant matrices: one, or two where a length has two factors."""

from __future__ import annotations

from math import gcd, isqrt
from typing import NamedTuple

import numpy as np

from ...ir import Node, Value
from ...ir.build import constant
from ...rules.moves import shaped, turn
from ...rules.sweep import Sweep

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
    """What has this spectrum, of which the first `taken` bins are given and the others 0."""
    return Transform(n, np.full(taken, 1 / n), n, 1)


def backward_real(n: int, taken: int) -> Transform:
    """The real numbers whose spectrum begins with these bins: all but the first and the middle one stand for two."""
    k = np.arange(taken)
    return Transform(n, np.where((k == 0) | (2 * k == n), 1, 2) / n, n, 1, True)


def transformed(state: Sweep, node: Node, x: Value, f: Transform) -> Value:
    """f of the middle axis of x [rows, taken, parts]: [rows, made, 1 if f.real else 2], in x's type."""
    taken, parts = x.type.dims[1:]
    wanted = 1 if f.real else 2
    a, b = _factors(f, parts)
    if a == 1:
        t, k = np.arange(taken)[:, None], np.arange(f.made)
        matrix = _reals(f.weight[:, None] * _unit(f, t * k), parts, wanted)
        return _product(state, node, x, matrix, "transform", f.made, wanted)
    return _split(state, node, x, f, a, b)


def _split(state: Sweep, node: Node, x: Value, f: Transform, a: int, b: int) -> Value:
    """With t = b t1 + t2 and k = k1 + a k2: over t1 for each t2 on its own, then over t2."""
    rows, taken, parts = x.type.dims
    wanted = 1 if f.real else 2
    first, last = -(-taken // b), -(-f.made // a)
    if first * b > taken:
        x = padded(state, node, x, first * b)
        f = f._replace(weight=np.pad(f.weight, (0, first * b - taken)))
    by_t2 = turn(state, node, shaped(state, node, x, (rows, first, b, parts)), (2, 0, 1, 3))
    t = np.arange(first * b).reshape(first, b).T[:, :, None]
    inner = _reals(f.weight[t] * _unit(f, t * np.arange(a)), parts, 2)
    y = _product(state, node, shaped(state, node, by_t2, (b, rows, first * parts)), inner, "inner", a, 2)
    y = turn(state, node, shaped(state, node, y, (b, rows, a, 2)), (1, 2, 0, 3))
    outer = _reals(_unit(f, a * np.arange(b)[:, None] * np.arange(last)), 2, wanted)
    y = _product(state, node, shaped(state, node, y, (rows * a, b, 2)), outer, "outer", last, wanted)
    y = turn(state, node, shaped(state, node, y, (rows, a, last, wanted)), (0, 2, 1, 3))
    y = shaped(state, node, y, (rows, last * a, wanted))
    return cut(state, node, y, 1, 0, f.made)


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
    """Complex matrices [..., t, k] as real ones [..., t * parts, k * wanted] of numbers that are `parts` long."""
    *lead, t, k = matrix.shape
    found = np.empty((*lead, t, parts, k, wanted))
    for part, factor in zip(range(parts), (1, 1j), strict=False):
        found[..., part, :, 0] = (factor * matrix).real
        if wanted == 2:
            found[..., part, :, 1] = (factor * matrix).imag
    return found.reshape(*lead, t * parts, k * wanted)


def _product(state: Sweep, node: Node, x: Value, matrix: np.ndarray, name: str, made: int, wanted: int) -> Value:
    """x times the matrix, or its matrices: [..., made, wanted]."""
    dims = x.type.dims if matrix.ndim == 3 else (x.type.dims[0], matrix.shape[-2])
    rows, held = shaped(state, node, x, dims), constant(node.out, matrix.astype(x.type.dtype), name)
    y = state.add("matmul", [rows, held], x.type.with_shape((*dims[:-1], made * wanted)), node)
    return shaped(state, node, y, (*dims[:-1], made, wanted))


def padded(state: Sweep, node: Node, x: Value, size: int) -> Value:
    """x with zeros behind the elements of axis 1."""
    pads = np.zeros((2, len(x.type.dims)), np.int64)
    pads[1, 1] = size - x.type.dims[1]
    wide = x.type.with_shape((x.type.dims[0], size, *x.type.dims[2:]))
    return state.add("pad", [x, constant(node.out, pads.ravel(), "pads")], wide, node, mode="constant")


def cut(state: Sweep, node: Node, x: Value, axis: int, start: int, end: int) -> Value:
    """The elements of an axis from start up to end."""
    if (start, end) == (0, x.type.dims[axis]):
        return x
    parts = zip(("starts", "ends", "axes"), (start, end, axis), strict=True)
    which = [constant(node.out, np.array([v], np.int64), name) for name, v in parts]
    dims = tuple(end - start if i == axis else d for i, d in enumerate(x.type.dims))
    return state.add("slice", [x, *which], x.type.with_shape(dims), node)


def framed(state: Sweep, node: Node, x: Value, size: int, step: int) -> Value:
    """The frames of `size` that begin every `step` elements of axis 1 of x [batch, n, parts]: [batch, frames, size,
    parts]."""
    batch, n, parts = x.type.dims
    count = (n - size) // step + 1
    x = cut(state, node, x, 1, 0, (count - 1) * step + size)
    dims = (batch, count, size, parts)
    if count == 1 or step == size:
        return shaped(state, node, x, dims)
    run = gcd(size, step)
    x = shaped(state, node, x, (batch, x.type.dims[1] // run, run * parts))
    places = np.arange(count)[:, None] * (step // run) + np.arange(size // run)
    wide = x.type.with_shape((batch, *places.shape, run * parts))
    y = state.add("gather", [x, constant(node.out, places, "places")], wide, node, axis=1)
    return shaped(state, node, y, dims)
