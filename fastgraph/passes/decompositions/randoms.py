"""Random numbers out of words of Philox and Threefry. What a seed fixes for every run is drawn here, by NumPy."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir import Node, TensorType, Value
from ...ir.build import constant
from ...limits import current
from ...ops.random import generator
from ...ops.registry import OPS, attr
from ...rules.moves import cast, shaped
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .element_types import F16, F32, F64, I64

U32, U64, BOOL = np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(np.bool_)
MOST_COMPARED = 1 << 24
"""Draws times classes that are compared one by one."""
DRAWN = 32
"""What a number that NumPy draws costs, in elements that are touched."""


class _Writer:
    """Writes operators on values and numbers, which are broadcast, for a node."""

    def __init__(self, state: Sweep, node: Node) -> None:
        self.state, self.node = state, node

    def __call__(self, op: str, *values: Value | float, dtype: np.dtype | None = None, **attrs: object) -> Value:
        kind = next(v.type.dtype for v in values if isinstance(v, Value))
        own = [v if isinstance(v, Value) else constant(self.node.out, np.array(v, kind), "number") for v in values]
        dims = np.broadcast_shapes(*(v.type.dims for v in own))
        return self.state.add(op, [*own], TensorType(dtype or kind, dims), self.node, **attrs)

    def bits(self, x: Value, dtype: np.dtype, dims: tuple[int, ...]) -> Value:
        return self.state.add("bit_cast", [x], TensorType(dtype, dims), self.node, to=dtype.name, resize=1)

    def shape(self, x: Value, *dims: int) -> Value:
        return shaped(self.state, self.node, x, dims)

    def part(self, x: Value, start: int, count: int, axis: int = 0) -> Value:
        return self.state.cut(x, axis, start, start + count)

    def joined(self, values: list[Value], axis: int) -> Value:
        dims = list(values[0].type.dims)
        dims[axis] = sum(v.type.dims[axis] for v in values)
        return self.state.add("concat", [*values], values[0].type.with_shape(tuple(dims)), self.node, axis=axis)

    def along(self, op: str, x: Value, axis: int, keep: int) -> Value:
        dims = tuple(1 if i == axis else n for i, n in enumerate(x.type.dims) if keep or i != axis)
        at = constant(self.node.out, np.array([axis], np.int64), "axes")
        return self.state.add(op, [x, at], x.type.with_shape(dims), self.node, keepdims=keep, noop_with_empty_axes=0)


def _words(w: _Writer, blocks: int, seeds: tuple[int, int] | None = None, first: Value | None = None) -> Value:
    """[blocks, 4] of the seeds' blocks from number `first` on; without seeds, other ones in each run."""
    key, high = seeds or tuple(np.random.default_rng().integers(1, 2**63, 2).tolist())
    numbers = [constant(w.node.out, np.array(n % 2**64, U64), "seed") for n in (key, high)]
    if seeds is None or first is None:
        first = constant(w.node.out, np.array(0, U64), "first")
    else:
        first = w.bits(w.shape(first), U64, ())
    kind = TensorType(U32, (blocks, 4))
    return w.state.add("random_words", [*numbers, first], kind, w.node, blocks=blocks, fresh=int(seeds is None))


def _unit(w: _Writer, words: Value, dtype: np.dtype) -> Value:
    """Numbers from 0 on below 1: f32 out of 23 bits of each word, f64 out of 52 of each two: [n, 2] become [n]."""
    if dtype == F64:
        pairs = w.bits(words, U64, words.type.dims[:-1])
        raw = w("bitwise_or", w("bit_shift", pairs, 12, direction="RIGHT"), 1023 << 52)
    else:
        raw = w("bitwise_or", w("bitwise_and", words, 0x7FFFFF), 127 << 23)
    return w("sub", w.bits(raw, dtype, raw.type.dims), 1)


def _uniform(w: _Writer, dims: tuple[int, ...], dtype: np.dtype, words: Value) -> Value:
    parts = 2 if dtype == F64 else 1
    flat = w.shape(words, words.type.size // parts, parts) if parts == 2 else w.shape(words, words.type.size)
    return w.shape(w.part(_unit(w, flat, dtype), 0, prod(dims)), *dims)


def _normal(w: _Writer, dims: tuple[int, ...], dtype: np.dtype, words: Value) -> Value:
    """Two out of each pair of uniform numbers, by Box and Muller."""
    parts, least = (2, 2.0**-53) if dtype == F64 else (1, 1e-7)
    pairs = w.shape(words, words.type.size // (2 * parts), 2, *((2,) if parts == 2 else ()))
    unit = _unit(w, pairs, dtype)
    one, other = (w.part(unit, i, 1, 1) for i in (0, 1))
    radius = w("sqrt", w("mul", w("log", w("max", one, least)), -2))
    angle = w("mul", other, 2 * np.pi)
    both = w.joined([w("mul", w(op, angle), radius) for op in ("sin", "cos")], 1)
    return w.shape(w.part(w.shape(both, both.type.size), 0, prod(dims)), *dims)


def _blocks(dims: tuple[int, ...], dtype: np.dtype) -> int:
    return -(-prod(dims) // (2 if dtype == F64 else 4))


def _seeded(node: Node, size: int) -> bool:
    """Whether the numbers are fixed, and few enough to be constants."""
    return node.attrs.get("seed") is not None and current().affords(DRAWN * size, 8 * size)


@rule("rare", "random_normal random_normal_like random_uniform random_uniform_like")
def distribution(state: Sweep, node: Node) -> bool:
    """Uniform and normal numbers."""
    out = node.out.type
    if not out.concrete or not out.size or out.dtype not in (F16, F32, F64) or not all(_known(v) for v in node.inputs):
        return False
    if node.attrs.get("seed") is not None:
        if not _seeded(node, out.size):
            return False
        like = [np.broadcast_to(np.zeros((), v.type.dtype), v.type.dims) for v in node.inputs if v is not None]
        state.replace(node.out, constant(node.out, OPS[node.op].reference(node, like)[0]))
        return True
    w, dtype = _Writer(state, node), F64 if out.dtype == F64 else F32
    words = _words(w, _blocks(out.dims, dtype))
    if node.op.startswith("random_normal"):
        y = w("add", w("mul", _normal(w, out.dims, dtype, words), attr(node, "scale")), attr(node, "mean"))
    else:
        low, high = attr(node, "low"), attr(node, "high")
        y = w("add", w("mul", _uniform(w, out.dims, dtype, words), high - low), low)
    assert out.dtype is not None
    state.replace(node.out, cast(state, node, y, out.dtype))
    return True


def _known(value: Value | None) -> bool:
    return value is None or value.type.concrete


def _draws(w: _Writer, dims: tuple[int, ...], dtype: np.dtype) -> Value | None:
    """Uniform numbers of a node's seed, or fresh ones; None where those of a seed are too many."""
    if w.node.attrs.get("seed") is None:
        return _uniform(w, dims, dtype, _words(w, _blocks(dims, dtype)))
    if not _seeded(w.node, prod(dims)):
        return None
    return constant(w.node.out, generator(w.node).uniform(size=dims), "draws")


@rule("rare", "bernoulli")
def bernoulli(state: Sweep, node: Node) -> bool:
    """Whether a uniform number is below x."""
    x, out = node.x, node.out
    if not x.type.concrete or not x.type.size or x.type.dtype not in (F16, F32, F64) or out.type.dtype is None:
        return False
    w = _Writer(state, node)
    wide = F64 if node.attrs.get("seed") is not None or x.type.dtype == F64 else F32
    draws = _draws(w, x.type.dims, wide)
    if draws is None:
        return False
    y = w("less", draws, cast(state, node, x, wide), dtype=BOOL)
    state.replace(out, cast(state, node, y, out.type.dtype))
    return True


@rule("rare", "dropout")
def dropout(state: Sweep, node: Node) -> bool:
    """In training: elements whose uniform number is below the ratio become 0, the others more."""
    x, ratio, training = node.x, node.const(1), node.const(2)
    known = (not node.has(1) or ratio is not None) and training is not None and bool(training.reshape(-1)[0])
    share = 0.5 if ratio is None else float(ratio.reshape(-1)[0])
    if not known or not x.type.concrete or not x.type.size or x.type.dtype not in (F32, F64) or not 0 < share < 1:
        return False
    w = _Writer(state, node)
    wide = F64 if node.attrs.get("seed") is not None or x.type.dtype == F64 else F32
    draws = _draws(w, x.type.dims, wide)
    if draws is None:
        return False
    keep = w("greater_or_equal", draws, share, dtype=BOOL)
    y = w("mul", w("mul", cast(state, node, keep, x.type.dtype), x), 1 / (1 - share))
    state.replace(node.out, y)
    for mask in node.outputs[1:]:
        state.replace(mask, keep)
    return True


@rule("rare", "multinomial")
def multinomial(state: Sweep, node: Node) -> bool:
    """How many sums of a row's weights a uniform part of all of them reaches."""
    x, out = node.x, node.out
    if not x.type.concrete or x.type.dtype not in (F32, F64) or not out.type.concrete or not out.type.size:
        return False
    (rows, classes), count = x.type.dims, attr(node, "sample_size")
    if rows * classes * count > MOST_COMPARED:
        return False
    w = _Writer(state, node)
    draws = _draws(w, (rows, count), F64)
    if draws is None:
        return False
    logits = cast(state, node, x, F64)
    weights = w("exp", w("sub", logits, w.along("reduce_max", logits, 1, 1)))
    edges = _summed(w, weights)
    points = w("mul", draws, w.part(edges, classes - 1, 1, 1))
    found = w("min", _reached(w, edges, points), classes - 1)
    assert out.type.dtype is not None
    state.replace(out, cast(state, node, found, out.type.dtype))
    return True


def _summed(w: _Writer, x: Value) -> Value:
    """Running sums of rows."""
    at = constant(w.node.out, np.array(1, np.int64), "axis")
    return w.state.add("cum_sum", [x, at], x.type, w.node, exclusive=0, reverse=0)


def _reached(w: _Writer, edges: Value, points: Value) -> Value:
    """How many edges [rows, classes] each point [rows, count] is not below, int64."""
    (rows, classes), count = edges.type.dims, points.type.dims[1]
    wide = w.shape(points, rows, count, 1), w.shape(edges, rows, 1, classes)
    above = w("greater_or_equal", *wide, dtype=BOOL)
    return w.along("reduce_sum", cast(w.state, w.node, above, I64), 2, 0)


@rule("rare", "philox_uniform philox_normal")
def philox(state: Sweep, node: Node) -> bool:
    """The numbers of a stream that goes on from run to run, and how many blocks are drawn then."""
    shape, before, out = node.const(0), node.inputs[1], node.out.type
    if shape is None or before is None or not before.type.concrete or not out.concrete or not out.size:
        return False
    w, blocks = _Writer(state, node), _blocks(out.dims, F32)
    words = _words(w, blocks, attr(node, "seeds"), before)
    make = _uniform if node.op == "philox_uniform" else _normal
    state.replace(node.out, make(w, out.dims, F32, words))
    _drawn(w, before, blocks)
    return True


def _drawn(w: _Writer, before: Value, blocks: int) -> None:
    """Gives the last result: the number of blocks that are drawn now."""
    w.state.replace(w.node.outputs[-1], w.shape(w("add", before, blocks)))


@rule("rare", "philox_multinomial")
def philox_multinomial(state: Sweep, node: Node) -> bool:
    """As `multinomial`; what is not finite has no weight."""
    x, number, before, out = node.x, node.const(1), node.inputs[2], node.out
    known = number is not None and before is not None and before.type.concrete and x.type.concrete
    if not known or not out.type.concrete or not out.type.size or x.type.dtype not in (F32, F64):
        return False
    (rows, classes), count = x.type.dims, out.type.dims[1]
    if rows * classes * count > MOST_COMPARED or not classes:
        return False
    w, logits = _Writer(state, node), cast(state, node, x, F64)
    finite = w("less", w("abs", logits), np.inf, dtype=BOOL)
    least = float(np.finfo(np.float32).min)
    top = w("max", w.along("reduce_max", _where(w, finite, logits, least), 1, 1), least)
    weights = _where(w, finite, w("exp", w("sub", _where(w, finite, logits, 0), top)), 0)
    edges, size = _summed(w, weights), rows * count
    blocks = -(-size // 2)
    pairs = w.shape(_words(w, blocks, attr(node, "seeds"), before), 2 * blocks, 2)
    high, low = (cast(state, node, w.part(w.part(pairs, 0, size), i, 1, 1), U64) for i in (0, 1))
    high = w("bit_shift", w("bitwise_and", high, 0xFFFFF), 32, direction="LEFT")
    raw = w("bitwise_or", w("bitwise_or", high, low), 1023 << 52)
    unit = w.shape(w("sub", w.bits(raw, F64, raw.type.dims), 1), rows, count)
    points = w("mul", unit, w.part(edges, classes - 1, 1, 1))
    assert out.type.dtype is not None and before is not None
    state.replace(out, cast(state, node, _reached(w, edges, points), out.type.dtype))
    _drawn(w, before, rows * (-(-count // 4) * 4) * 2 * 256)
    return True


def _where(w: _Writer, chosen: Value, x: Value, other: float) -> Value:
    number = constant(w.node.out, np.array(other, x.type.dtype), "number")
    return w.state.add("where", [chosen, x, number], x.type, w.node)


@rule("rare", "random_bits")
def random_bits(state: Sweep, node: Node) -> bool:
    """Words of a key and a counter that are read at run time; the next counter."""
    x, out = node.x, node.outputs[1].type
    dtype, numbers = out.dtype, x.type.size if x.type.concrete else 0
    threefry = attr(node, "algorithm") == "THREEFRY"
    if dtype is None or not out.concrete or not out.size or x.type.shape not in (((2,),) if threefry else ((2,), (3,))):
        return False
    count = -(-out.size * dtype.itemsize // 4) if dtype.itemsize >= 4 else out.size
    each = 2 if threefry else 4
    w, blocks = _Writer(state, node), -(-count // each)
    key, counter, *rest = (w.part(x, i, 1) for i in range(numbers))
    kind = TensorType(U32, (blocks, each))
    inputs: list[Value | None] = [key, rest[0] if rest else key, counter]
    words = state.add("random_words", inputs, kind, node, blocks=blocks, threefry=int(threefry))
    words = w.part(w.shape(words, blocks * each), 0, count)
    if dtype.itemsize == 8:
        y = w.bits(w.shape(words, out.size, 2), dtype, (out.size,))
    else:
        y = w.bits(words, dtype, (out.size,)) if dtype.itemsize == 4 else cast(state, node, words, dtype)
    state.replace(node.outputs[1], w.shape(y, *out.dims))
    state.replace(node.outputs[0], w.joined([key, w("add", counter, blocks), *rest], 0))
    return True
