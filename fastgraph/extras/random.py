"""Random numbers: words of Philox and Threefry, and distributions out of them. Never folded.

With a seed the same numbers at every run: ONNX's are NumPy's Mersenne twister, drawn before the run; those of
TensorFlow and StableHLO are words by key and counter. Semantics: ONNX; tsl/lib/random;
tflite/kernels/{random_ops, stablehlo_rng_bit_generator}.cc.
"""

from __future__ import annotations

import struct
from math import prod
from typing import Any

import numpy as np

from ..ir import BOOL, FLOAT32, FLOAT64, INT32, INT64, Node, TensorType, Value
from ..ir.build import constant
from ..limits import current
from ..ops import check
from ..ops.inference import Types, ints, unknown_dims
from ..ops.registry import OPS, REQUIRED, attr, define, fail
from ..rules.operands import decided, known, number
from ..rules.rule import rule
from ..rules.sweep import Sweep

UINT64 = np.dtype(np.uint64)
DRAWN = 32
"""The cost of a number that NumPy draws, in elements that are touched."""


# -- ONNX: distributions, of a seed or fresh ones


def generator(node: Node) -> np.random.RandomState:
    """Numbers for a node: from its seed, or fresh ones."""
    seed = node.attrs.get("seed")
    if seed is None:
        return np.random.RandomState()
    return np.random.RandomState(seed if isinstance(seed, int) else struct.unpack("<I", struct.pack("<f", seed))[0])


def _drawn(node: Node, inputs: list[Any]) -> list[Any]:
    dtype = attr(node, "dtype") or inputs[0].dtype
    first, second = _limits(node)
    draw = generator(node).normal if "normal" in node.op else generator(node).uniform
    return [np.asarray(draw(first, second, inputs[0].shape if inputs else attr(node, "shape"))).astype(dtype)]


def _limits(node: Node) -> tuple[float, float]:
    """The mean and the deviation, or the least and the greatest number."""
    names = ("mean", "scale") if "normal" in node.op else ("low", "high")
    return attr(node, names[0]), attr(node, names[1])


def _infer(node: Node, types: Types) -> list[TensorType]:
    """The type of the numbers. ModelError unless they are floats, of a distribution that exists."""
    dtype = np.dtype(attr(node, "dtype")) if attr(node, "dtype") else types[0].dtype
    check.operand(node, TensorType(dtype, ()), "dtype f")
    first, second = _limits(node)
    if not (np.isfinite(first) and np.isfinite(second)) or ("normal" in node.op and second < 0):
        names = "mean and scale" if "normal" in node.op else "low and high"
        fail(node, f"{names} must be numbers of a distribution, found {first} and {second}")
    return [TensorType(dtype, types[0].shape if types else tuple(attr(node, "shape")))]


_DISTRIBUTIONS = {"normal": {"mean": 0.0, "scale": 1.0}, "uniform": {"low": 0.0, "high": 1.0}}
for _name, _numbers in _DISTRIBUTIONS.items():
    _attrs = {**_numbers, "seed": None}
    _shaped = {**_attrs, "dtype": FLOAT32, "shape": REQUIRED}
    define(f"random_{_name}", _infer, _drawn, pure=False, inputs=(0, 0), attrs=_shaped)
    define(f"random_{_name}_like", _infer, _drawn, pure=False, inputs=(1, 1), attrs={**_attrs, "dtype": None})


@rule("rare", "random_normal random_normal_like random_uniform random_uniform_like")
def distribution(g: Sweep, node: Node) -> bool:
    """Fresh numbers are made of words, those of a seed are constants where they are few enough."""
    out = node.out.type
    if not known(*node.inputs, node.out):
        return False
    if node.attrs.get("seed") is not None:
        if not _affordable(out.size):
            return False
        like = [np.broadcast_to(np.zeros((), v.type.dtype), v.type.dims) for v in node.inputs if v is not None]
        return g.becomes(constant(node.out, OPS[node.op].reference(node, like)[0]))
    dtype = FLOAT64 if out.dtype == FLOAT64 else FLOAT32
    first, second = _limits(node)
    if "normal" in node.op:
        y = _normal(g, out.dims, dtype, _fresh(g, out.dims, dtype)) * second + first
    else:
        y = _uniform(g, out.dims, dtype, _fresh(g, out.dims, dtype)) * (second - first) + first
    return g.becomes(g.cast(y, out.element))


def _affordable(size: int) -> bool:
    """Whether numbers of a seed are few enough to be constants."""
    return current().affords(DRAWN * size, 8 * size)


def _draws(g: Sweep, dims: tuple[int, ...], dtype: np.dtype) -> Value:
    """Uniform numbers of the node's seed, in f64, or fresh ones."""
    seed = g.node.attrs.get("seed")
    if seed is None:
        return _uniform(g, dims, dtype, _fresh(g, dims, dtype))
    if not _affordable(prod(dims)):
        return g("random_uniform", shape=dims, dtype=FLOAT64, seed=seed)
    return g.number(generator(g.node).uniform(size=dims))


def _width(node: Node, dtype: np.dtype | None) -> np.dtype:
    """The element type of the uniform numbers that a node compares with."""
    return FLOAT64 if node.attrs.get("seed") is not None or dtype == FLOAT64 else FLOAT32


@check.takes("x f")
def _infer_bernoulli(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(attr(node, "dtype") or types[0].dtype, types[0].shape)]


define("bernoulli", _infer_bernoulli, pure=False, attrs={"dtype": None, "seed": None})


@rule("rare", "bernoulli")
def bernoulli(g: Sweep, node: Node) -> bool:
    """Whether a uniform number is below x."""
    x = node.x
    if not known(x, node.out):
        return False
    wide = _width(node, x.type.dtype)
    return g.becomes(g.cast(_draws(g, x.type.dims, wide) < g.cast(x, wide), node.out.type.element))


@check.takes("x iuf, ratio? f one, training_mode? b one")
def _infer_dropout(node: Node, types: Types) -> list[TensorType]:
    ratio = node.const(1)
    if ratio is not None and not 0 <= float(ratio.reshape(-1)[0]) < 1:
        fail(node, f"ratio must be from 0 up to 1, found {ratio.reshape(-1)[0]}")
    return [TensorType(types[0].dtype, types[0].shape), TensorType(BOOL, types[0].shape)]


define("dropout", _infer_dropout, pure=False, attrs={"seed": None})


@rule("rare", "dropout")
def dropout(g: Sweep, node: Node) -> bool:
    """In training: elements whose uniform number is below the ratio become 0, the others more."""
    x, share = node.x, number(node, 1) if node.has(1) else 0.5
    if not decided(node, 1, 2) or not known(x):
        return False
    if not number(node, 2) or not share:
        return g.becomes(x, *(g.number(np.ones(x.type.dims, bool)) for _ in node.outputs[1:]))
    keep = _draws(g, x.type.dims, _width(node, x.type.dtype)) >= share
    dtype = x.type.element
    wide = dtype if dtype.kind == "f" else FLOAT64
    return g.becomes(g.cast(g.cast(keep, wide) * g.cast(x, wide) * (1 / (1 - share)), dtype), keep)


@check.takes("x f 2")
def _infer_multinomial(node: Node, types: Types) -> list[TensorType]:
    check.operand(node, TensorType(np.dtype(attr(node, "dtype")), ()), "dtype iu")
    check.at_least(node, "sample_size", attr(node, "sample_size"), 1)
    if types[0].shape and types[0].shape[1] == 0:
        fail(node, "there is no class to draw")
    rows = types[0].shape[0] if types[0].shape else None
    return [TensorType(np.dtype(attr(node, "dtype")), (rows, attr(node, "sample_size")))]


_DRAWN = {"dtype": INT32, "sample_size": 1, "seed": None}
define("multinomial", _infer_multinomial, pure=False, attrs=_DRAWN)


@rule("rare", "multinomial")
def multinomial(g: Sweep, node: Node) -> bool:
    """Classes drawn with replacement by each row's unnormalized log probabilities."""
    x, out = node.x, node.out.type
    if not known(x, node.out):
        return False
    draws = _draws(g, out.dims, FLOAT64)
    logits = g.cast(x, FLOAT64)
    edges = g("cum_sum", g.exp(logits - g.largest(logits, [1], keep=True)), np.array(1))
    found = _reached(g, edges, draws)
    return g.becomes(g.cast(g.min(found, x.type.dims[1] - 1), out.element))


def _reached(g: Sweep, edges: Value, draws: Value) -> Value:
    """For each share [rows, count] of the last running sum, how many of the running sums [rows, classes] are at most
    that, int64.
    """
    (rows, classes), count = edges.type.dims, draws.type.dims[1]
    points = draws * g.cut(edges, 1, classes - 1, classes)
    above = g.shape(points, rows, count, 1) >= g.shape(edges, rows, 1, classes)
    return g.sum(g.cast(above, INT64), [2])


# -- words by key and counter


def _words(g: Sweep, blocks: int, seeds: tuple[int, int] | None, first: Value | None = None) -> Value:
    """[blocks, 4] of the seeds' blocks from number `first` on; without seeds, other ones in each run."""
    fresh = seeds is None or first is None
    key, high = seeds or tuple(np.random.default_rng().integers(1, 2**63, 2).tolist())
    start = np.array(0, UINT64) if fresh or first is None else g("bit_cast", g.shape(first), to="uint64", resize=1)
    return g("random_words", _u64(key), _u64(high), start, blocks=blocks, fresh=int(seeds is None))


def _u64(seed: int) -> np.ndarray:
    return np.array(seed % 2**64, UINT64)


def _fresh(g: Sweep, dims: tuple[int, ...], dtype: np.dtype) -> Value:
    return _words(g, _blocks(dims, dtype), None)


def _blocks(dims: tuple[int, ...], dtype: np.dtype) -> int:
    return -(-prod(dims) // (2 if dtype == FLOAT64 else 4))


def _unit(g: Sweep, words: Value, dtype: np.dtype) -> Value:
    """Numbers from 0 on below 1: f32 out of 23 bits of each word, f64 out of 52 of each two: [n, 2] become [n]."""
    if dtype == FLOAT64:
        pairs = g("bit_cast", words, to="uint64", resize=1)
        raw = g("bitwise_or", g("bit_shift", pairs, 12, direction="RIGHT"), 1023 << 52)
    else:
        raw = g("bitwise_or", g("bitwise_and", words, 0x7FFFFF), 127 << 23)
    return g("bit_cast", raw, to=dtype.name, resize=1) - 1.0


def _uniform(g: Sweep, dims: tuple[int, ...], dtype: np.dtype, words: Value) -> Value:
    size = words.type.size
    flat = g.shape(words, size // 2, 2) if dtype == FLOAT64 else g.shape(words, size)
    return g.shape(g.cut(_unit(g, flat, dtype), 0, 0, prod(dims)), *dims)


def _normal(g: Sweep, dims: tuple[int, ...], dtype: np.dtype, words: Value) -> Value:
    """Two out of each pair of uniform numbers, by Box and Muller."""
    parts, least = (2, 2.0**-53) if dtype == FLOAT64 else (1, 1e-7)
    unit = _unit(g, g.shape(words, words.type.size // (2 * parts), 2, *(2,) * (parts - 1)), dtype)
    one, other = (g.cut(unit, 1, i, i + 1) for i in (0, 1))
    radius = g.sqrt(g.log(g.max(one, least)) * -2.0)
    angle = other * (2 * np.pi)
    both = g.join([g("sin", angle) * radius, g("cos", angle) * radius], 1)
    return g.shape(g.cut(g.shape(both, both.type.size), 0, 0, prod(dims)), *dims)


# -- TensorFlow: streams that go on from run to run. Each takes how many blocks were drawn before, and gives how many
# were drawn after it.


def _infer_stream(node: Node, types: Types) -> list[TensorType]:
    shape = node.const(0)
    return [TensorType(FLOAT32, unknown_dims(types[0]) if shape is None else tuple(ints(shape))), TensorType(INT64, ())]


for _name in ("philox_uniform", "philox_normal"):
    define(_name, _infer_stream, pure=False, inputs=(2, 2), attrs={"seeds": None}, shaped_by=(0,))


@rule("rare", "philox_uniform philox_normal")
def philox(g: Sweep, node: Node) -> bool:
    """Numbers of a shape, and how many blocks are drawn then."""
    before, out = node.y, node.out.type
    if node.const(0) is None or not known(before, node.out):
        return False
    blocks = _blocks(out.dims, FLOAT32)
    make = _uniform if node.op == "philox_uniform" else _normal
    y = make(g, out.dims, FLOAT32, _words(g, blocks, attr(node, "seeds"), before))
    return g.becomes(y, before + blocks)


@check.takes("logits 2, count, blocks_drawn")
def _infer_classes(node: Node, types: Types) -> list[TensorType]:
    count = number(node, 1)
    rows, classes = types[0].shape or (None, None)
    if classes == 0 or (count or 0) < 0:
        fail(node, f"needs classes and a count from 0 on, found {classes} classes and count {count}")
    return [TensorType(np.dtype(attr(node, "dtype")), (rows, count)), TensorType(INT64, ())]


_SEEDED = {"seeds": None, "dtype": INT64}
define("philox_multinomial", _infer_classes, pure=False, attrs=_SEEDED, shaped_by=(1,))


@rule("rare", "philox_multinomial")
def philox_multinomial(g: Sweep, node: Node) -> bool:
    """As `multinomial`; weights that are not finite count as 0."""
    x, before, out = node.x, node.input(2), node.out.type
    if before is None or not known(x, before, node.out):
        return False
    rows, count = out.dims
    logits, least = g.cast(x, FLOAT64), float(np.finfo(np.float32).min)
    finite = abs(logits) < np.inf
    top = g.max(g.largest(g.choose(finite, logits, least), [1], keep=True), least)
    edges = g("cum_sum", g.choose(finite, g.exp(g.choose(finite, logits, 0.0) - top), 0.0), np.array(1))
    blocks = -(-rows * count // 2)
    pairs = g.cut(g.shape(_words(g, blocks, attr(node, "seeds"), before), 2 * blocks, 2), 0, 0, rows * count)
    high, low = (g.cast(g.cut(pairs, 1, i, i + 1), UINT64) for i in (0, 1))
    high = g("bit_shift", g("bitwise_and", high, 0xFFFFF), 32, direction="LEFT")
    raw = g("bitwise_or", g("bitwise_or", high, low), 1023 << 52)
    draws = g.shape(g("bit_cast", raw, to="float64", resize=1) - 1.0, rows, count)
    return g.becomes(g.cast(_reached(g, edges, draws), out.element), before + rows * (-(-count // 4) * 4) * 2 * 256)


# -- StableHLO: bits of a state, a key and a counter of 64 (Threefry) or 128 bits (Philox)


def _infer_bits(node: Node, types: Types) -> list[TensorType]:
    if types[0].dtype != UINT64:
        fail(node, f"the state must be uint64, found {types[0].dtype}")
    sizes = (2,) if attr(node, "algorithm") == "THREEFRY" else (2, 3)
    if types[0].concrete and types[0].size not in sizes:
        many = " or ".join(map(str, sizes))
        fail(node, f"{attr(node, 'algorithm')}'s state must have {many} numbers, found {types[0].size}")
    return [TensorType(UINT64, types[0].shape), TensorType(np.dtype(attr(node, "dtype")), tuple(attr(node, "shape")))]


_BITS = {"algorithm": "PHILOX", "dtype": REQUIRED, "shape": REQUIRED}
define("random_bits", _infer_bits, inputs=(1, 1), attrs=_BITS)


@rule("rare", "random_bits")
def random_bits(g: Sweep, node: Node) -> bool:
    """The next state, and words of the key and the counter that are read at run time."""
    x, out = node.x, node.outputs[1].type
    if not known(x, node.outputs[1]):
        return False
    size = out.element.itemsize
    count = -(-out.size * size // 4) if size >= 4 else out.size
    threefry = attr(node, "algorithm") == "THREEFRY"
    each = 2 if threefry else 4
    blocks = -(-count // each)
    state = g.shape(x, x.type.size)
    key, counter, *rest = (g.cut(state, 0, i, i + 1) for i in range(x.type.size))
    words = g("random_words", key, rest[0] if rest else key, counter, blocks=blocks, threefry=int(threefry))
    words = g.cut(g.shape(words, blocks * each), 0, 0, count)
    if size < 4:
        y = g.cast(words, out.element)
    else:
        y = g("bit_cast", g.shape(words, out.size, 2) if size == 8 else words, to=out.element.name, resize=1)
    return g.becomes(g.join([key, counter + blocks, *rest], 0), y)
