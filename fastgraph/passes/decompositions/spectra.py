"""Operators on spectra by products with constant matrices, and complex numbers as pairs of reals."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir import Node, TensorType, Value
from ...ir.build import constant
from ...ops.registry import OPS, attr
from ...rules.moves import shaped, turn
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .fourier import Transform, backward, backward_real, cut, forward, framed, transformed

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
WIDEST = 256
"""Up to this width a Hadamard matrix is multiplied with as one."""


def _plain(node: Node) -> bool:
    """Whether x is of floats, and it and the result are known and not empty."""
    x, out = node.x.type, node.out.type
    return x.concrete and out.concrete and x.dtype in FLOATS and x.size > 0 and out.size > 0


def _number(node: Node, index: int) -> int | None:
    found = node.const(index)
    return None if found is None else int(found.reshape(-1)[0])


@rule("rare", "dft")
def dft(state: Sweep, node: Node) -> bool:
    """Along any axis but the last."""
    if not _plain(node) or any(node.has(i) and node.const(i) is None for i in (1, 2)):
        return False
    dims, axis = node.x.type.dims, _number(node, 2)
    rank, inverse, onesided = len(dims), bool(attr(node, "inverse")), bool(attr(node, "onesided"))
    axis = rank - 2 if axis is None else axis % rank
    made, half = node.out.type.dims[axis], inverse and onesided
    n = _number(node, 1) or (2 * (dims[axis] - 1) if half else dims[axis])
    taken = min(dims[axis], n // 2 + 1 if half else n)
    if half:
        f = backward_real(n, taken)
    else:
        f = backward(n, taken)._replace(made=made) if inverse else forward(n, taken, made)
    state.replace(node.out, _along(state, node, cut(state, node, node.x, axis, 0, taken), axis, f))
    return True


def _along(state: Sweep, node: Node, x: Value, axis: int, f: Transform) -> Value:
    """f along an axis of x [..., parts]."""
    rank = len(x.type.dims)
    perm = (*(a for a in range(rank - 1) if a != axis), axis, rank - 1)
    moved = turn(state, node, x, perm)
    *lead, taken, parts = moved.type.dims
    y = transformed(state, node, shaped(state, node, moved, (prod(lead), taken, parts)), f)
    y = shaped(state, node, y, (*lead, *y.type.dims[1:]))
    return turn(state, node, y, tuple(perm.index(a) for a in range(rank)))


@rule("rare", "stft")
def stft(state: Sweep, node: Node) -> bool:
    """Frames of the signal, and their spectra; the window is part of the matrix."""
    step, window = _number(node, 1), node.const(2)
    if not _plain(node) or step is None or any(node.has(i) and node.const(i) is None for i in (2, 3)):
        return False
    batch, length, parts = (*node.x.type.dims, 1)[:3]
    n = _number(node, 3) or (length if window is None else len(window))
    x = framed(state, node, shaped(state, node, node.x, (batch, length, parts)), n, step)
    weight = np.ones(n) if window is None else window.astype(np.float64)
    f = Transform(n, weight, node.out.type.dims[2])
    y = transformed(state, node, shaped(state, node, x, (prod(x.type.dims[:2]), n, parts)), f)
    state.replace(node.out, shaped(state, node, y, node.out.type.dims))
    return True


@rule("rare", "rfft2d")
def rfft2d(state: Sweep, node: Node) -> bool:
    """Along rows, then along columns where there are several."""
    lengths = node.const(1)
    if not _plain(node) or lengths is None or node.x.type.dtype != np.float32:
        return False
    height, width = (int(n) for n in lengths.ravel())
    rank, (*_, h, w) = len(node.x.type.dims), node.x.type.dims
    x = cut(state, node, node.x, rank - 2, 0, min(h, height))
    x = cut(state, node, x, rank - 1, 0, min(w, width))
    x = shaped(state, node, x, (*x.type.dims, 1))
    y = _along(state, node, x, rank - 1, forward(width, min(w, width), width // 2 + 1))
    if height > 1:
        y = _along(state, node, y, rank - 2, forward(height, min(h, height), height))
    state.replace(node.out, state.add("bit_cast", [y], node.out.type, node, to="complex64", resize=1))
    return True


@rule("rare", "audio_spectrogram")
def audio_spectrogram(state: Sweep, node: Node) -> bool:
    """Squares of the spectra of frames under a Hann window, or their roots."""
    if not _plain(node) or node.x.type.dtype != np.float32:
        return False
    size, bins = attr(node, "window_size"), node.out.type.dims[2]
    x = turn(state, node, node.x, (1, 0))
    x = framed(state, node, shaped(state, node, x, (*x.type.dims, 1)), size, attr(node, "stride"))
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    f = Transform(2 * (bins - 1), window, bins)
    y = transformed(state, node, shaped(state, node, x, (prod(x.type.dims[:2]), size, 1)), f)
    y = state.add("mul", [y, y], y.type, node)
    axes = constant(node.out, np.array([2], np.int64), "axes")
    flat = y.type.with_shape(y.type.dims[:2])
    y = state.add("reduce_sum", [y, axes], flat, node, keepdims=0, noop_with_empty_axes=0)
    y = y if attr(node, "squared") else state.add("sqrt", [y], flat, node)
    state.replace(node.out, shaped(state, node, y, node.out.type.dims))
    return True


@rule("rare", "mfcc")
def mfcc(state: Sweep, node: Node) -> bool:
    """A product with the filters, logarithms, and a product with cosines."""
    from ...ops.audio import FLOOR, cosines, filters

    rate = node.const(1)
    if not _plain(node) or rate is None or node.x.type.dtype != np.float32:
        return False
    x, kind = state.add("sqrt", [node.x], node.x.type, node), node.x.type
    weights = filters(node, kind.dims[2], float(rate.reshape(-1)[0]))
    turns = cosines(node, weights.shape[1])
    wide = kind.with_shape((*kind.dims[:2], weights.shape[1]))
    y = state.add("matmul", [x, constant(node.out, weights.astype(np.float32), "filters")], wide, node)
    y = state.add("max", [y, constant(node.out, np.float32(FLOOR), "floor")], wide, node)
    y = state.add("log", [y], wide, node)
    y = state.add("matmul", [y, constant(node.out, turns.astype(np.float32), "cosines")], node.out.type, node)
    state.replace(node.out, y)
    return True


@rule("rare", "hadamard_rotation")
def hadamard_rotation(state: Sweep, node: Node) -> bool:
    """A product with the matrix; a wide one is that of two, along the axes of a block."""
    size = attr(node, "size")
    if not _plain(node):
        return False
    right = min(size, WIDEST)
    left = size // right
    if left > WIDEST:
        return False
    rows = node.x.type.size // size
    y = _hadamard(state, node, shaped(state, node, node.x, (rows * left, right)))
    if left > 1:
        y = turn(state, node, shaped(state, node, y, (rows, left, right)), (0, 2, 1))
        y = _hadamard(state, node, shaped(state, node, y, (rows * right, left)))
        y = turn(state, node, shaped(state, node, y, (rows, right, left)), (0, 2, 1))
    state.replace(node.out, shaped(state, node, y, node.out.type.dims))
    return True


def _hadamard(state: Sweep, node: Node, x: Value) -> Value:
    """Rows times the orthonormal matrix of their width."""
    n = x.type.dims[1]
    whole = Node("hadamard_rotation", [x], [node.out], {"size": n})
    matrix = OPS["hadamard_rotation"].reference(whole, [np.eye(n)])[0].astype(x.type.dtype)
    return state.add("matmul", [x, constant(node.out, matrix, "matrix")], x.type, node)


def _parts(state: Sweep, node: Node) -> list[Value] | None:
    """The real and the imaginary part of complex numbers."""
    x, out = node.x, node.out.type
    if not x.type.concrete or x.type.dtype is None or x.type.dtype.kind != "c" or not x.type.size:
        return None
    assert out.dtype is not None
    rank, maker = len(x.type.dims), state.maker.get(x)
    if maker is not None and maker.op == "bit_cast" and maker.x.type.dims == (*x.type.dims, 2):
        pairs = maker.x
    else:
        wide = TensorType(out.dtype, (*x.type.dims, 2))
        pairs = state.add("bit_cast", [x], wide, node, to=out.dtype.name, resize=1)
    return [shaped(state, node, cut(state, node, pairs, rank, i, i + 1), x.type.dims) for i in (0, 1)]


@rule("rare", "real imag")
def part(state: Sweep, node: Node) -> bool:
    """The first of each pair, or the second."""
    found = _parts(state, node)
    if found is not None:
        state.replace(node.out, found[node.op == "imag"])
    return found is not None


@rule("rare", "complex_abs")
def complex_abs(state: Sweep, node: Node) -> bool:
    """The larger part times the root of 1 and the square of what the smaller is of it: no square overflows."""
    parts, kind = _parts(state, node), node.out.type
    if parts is None:
        return False
    a, b = (state.add("abs", [each], kind, node) for each in parts)
    large, small = (state.add(op, [a, b], kind, node) for op in ("max", "min"))
    one = constant(node.out, np.ones((), kind.dtype), "one")
    same = state.add("equal", [large, small], TensorType(np.dtype(bool), kind.shape), node)
    share = state.add("where", [same, one, state.add("div", [small, large], kind, node)], kind, node)
    square = state.add("mul", [share, share], kind, node)
    root = state.add("sqrt", [state.add("add", [square, one], kind, node)], kind, node)
    state.replace(node.out, state.add("mul", [large, root], kind, node))
    return True
