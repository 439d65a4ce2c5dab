"""Blocks of operators that have no kernel: what other operators write them as."""

from typing import Any

import numpy as np

from .grow import Grow
from .nodes import Piece
from .shapes import need

LETTERS = "abcdefgh"


def sum_of_products(g: Grow, x: str) -> str:
    """Along named axes: one of x becomes another, is weighed and summed with all others, or is a diagonal."""
    shape, p = g.shapes[x], Piece(g, x)
    rank = len(shape)
    own = LETTERS[:rank]
    axis = g.pick(*range(rank))
    k, rest = own[axis], "".join(g.random.sample(own, rank))
    match g.pick("matrix", "matrix", "batch", "three", "rows", "diagonal"):
        case "matrix":
            out = g.channels()
            w, term = g.pick((g.const(shape[axis], out), k + "z"), (g.const(out, shape[axis]), "z" + k))
            y, made = p("Einsum", x, w, equation=f"{own},{term}->{rest.replace(k, 'z')}"), [*own.replace(k, "z")]
            sizes = dict(zip(own, shape, strict=True)) | {"z": out}
            need(len(made) == rank, "axes")
            return p.end(_scaled(p, y, shape[axis]), *(sizes[a] for a in rest.replace(k, "z")))
        case "batch":
            other = g.gate(x)
            y = p("Einsum", x, other, equation=f"{own},{own}->{own.replace(k, '')}")
            return p.end(p("Add", x, p("Unsqueeze", _scaled(p, y, shape[axis]), p.ints(axis))))
        case "three":
            parts = [g.const(d, kind="bias") for d in (shape[0], shape[-1])]
            return p.end(p("Einsum", x, *parts, equation=f"{own},{own[0]},{own[-1]}->{own}"))
        case "rows":
            need(rank > 1, "rank")
            y = p("Einsum", x, g.const(shape[-1], shape[-1], kind="matrix"), equation="...k,kn->...n")
            return p.end(y)
    need(rank > 1 and shape[-1] == shape[-2], "a square")
    head = own[:-2]
    d = p("Einsum", x, equation=f"{head}ii->{head}i")
    return p.end(p("Einsum", d, x, equation=f"{head}i,{head}ij->{head}ij"))


def _scaled(p: Piece, y: str, terms: int) -> str:
    return p("Mul", y, p.const(terms**-0.5))


def loss(g: Grow, x: str) -> str:
    """Of classes along the second axis, with fed targets: one for each place, or of all."""
    shape = g.shapes[x]
    need(len(shape) > 1 and shape[1] > 1, "classes")
    places = shape[0], *shape[2:]
    target, p = g.input(*places, below=shape[1]), Piece(g, x)
    weight = [p.const(np.linspace(0.5, 1.5, shape[1]))] if g.chance(0.5) else []
    how: dict[str, Any] = {"reduction": g.pick("none", "none", "mean", "sum")}
    if g.chance(0.3):
        how["ignore_index"] = 0
    if how["reduction"] == "mean" and "ignore_index" in how:
        how["reduction"] = "sum"  # nothing may be left to divide by
    if g.chance(0.6):
        y = p("SoftmaxCrossEntropyLoss", x, target, *weight, **how)
    else:
        y = p("NegativeLogLikelihoodLoss", p("LogSoftmax", x, axis=1), target, *weight, **how)
    y = p("Unsqueeze", y, p.ints(1)) if how["reduction"] == "none" else y
    total = np.prod(places) if how["reduction"] == "sum" else 1
    return p.end(p("Add", x, p("Mul", y, p.const(1 / total))))


def normalized(g: Grow, x: str) -> str:
    """By mean and variance of some axes, of what is nowhere the same; or by statistics that are fed or the batch's."""
    shape = g.shapes[x]
    p, rank = Piece(g, x, opset=15), len(shape)
    wide = p("Add", x, p.const(np.random.default_rng(g.random.randrange(1 << 16)).standard_normal(shape)))
    if g.chance(0.4):
        axes = sorted(g.random.sample(range(rank), g.pick(*range(1, rank + 1))))
        need(np.prod([shape[a] for a in axes]) >= 4, "numbers")
        return p.end(p("MeanVarianceNormalization", wide, axes=axes))
    need(rank > 1, "channels")
    c = shape[1]
    mean, var = (g.input(c) for _ in range(2))
    statistics = [g.const(c, kind="positive"), g.const(c, kind="bias"), mean, p("Add", p("Abs", var), p.const(0.1))]
    if g.chance(0.5):
        return p.end(p("BatchNormalization", wide, *statistics))
    need(np.prod(shape) // c >= 4, "numbers")
    y = p("BatchNormalization", wide, *statistics, outputs=3, training_mode=1, momentum=0.75)[0]
    return p.end(y)


def _fed(g: Grow, p: Piece, dtype: Any, low: int, below: int) -> str:
    """A number that is known at run time only."""
    return p.cast(p("Squeeze", p("Add", g.input(1, below=below), p.ints(low))), dtype)


def computed_steps(g: Grow, x: str) -> str:
    """Rounded, multiplied or filtered with scales and zero points that are fed: powers of two, so that halves stay."""
    shape = g.shapes[x]
    kinds = ["steps"] + ["product", "integer"] * (len(shape) > 1) + ["filter", "filter", "windows"] * (len(shape) == 4)
    kind = g.pick(*kinds)
    dtype = np.uint8 if kind in ("filter", "windows") else g.pick(np.int8, np.uint8)
    p, rng = Piece(g, x, opset=19), np.random.default_rng(g.random.randrange(1 << 16))
    v = p.whole(x, np.float32, 2)
    scale = p("Pow", p.const(2), _fed(g, p, np.float32, -1, 3))
    zero = _fed(g, p, dtype, 0 if dtype is np.int8 else 100, 9)
    q = p("QuantizeLinear", v, scale, zero)
    if kind == "steps":
        return p.end(p("DequantizeLinear", q, scale, zero))
    stored = np.uint8 if dtype is np.uint8 and g.chance(0.5) else np.int8
    low = 0 if stored is np.uint8 else -4
    w_zero = _fed(g, p, stored, max(low, -1), 3)
    if kind in ("product", "integer"):
        out = g.channels()
        w, made = p.const(rng.integers(low, 6, (shape[-1], out)), stored), (*shape[:-1], out)
    else:
        out, stored = g.channels(), np.uint8
        w_zero = _fed(g, p, stored, 0, 3)
        w, made = p.const(rng.integers(0, 6, (out, shape[1], 3, 3)), stored), (shape[0], out, *shape[2:])
    terms = shape[-1] if kind in ("product", "integer") else 9 * shape[1]
    if kind in ("integer", "windows"):
        more = {"pads": [1] * 4} if kind == "windows" else {}
        y = p.cast(p("MatMulInteger" if kind == "integer" else "ConvInteger", q, w, zero, w_zero, **more), np.float32)
        return p.end(p("Mul", y, p.const(1 / (16 * terms**0.5))), *made)
    fine, coarse = p.const(1 / 4), p.const(2.0 ** round(np.log2(terms**0.5)))
    given = [q, scale, zero, w, fine, w_zero, coarse, zero]
    y = p("QLinearMatMul", *given) if kind == "product" else p("QLinearConv", *given, pads=[1] * 4)
    return p.end(p("DequantizeLinear", y, p.const(1 / 8), zero), *made)


def small_function(g: Grow, x: str) -> str:
    """Towards 0, or determinants of small matrices."""
    shape, p = g.shapes[x], Piece(g, x, opset=22)
    if g.chance(0.5):
        bound = g.pick(0.25, 0.5)
        return p.end(p("Shrink", x, lambd=bound, bias=bound))
    n = g.pick(*(n for n in (1, 2, 3) if n <= shape[-1]))
    square = p("Reshape", p("Slice", x, p.ints(0), p.ints(n), p.ints(-1)), p.ints(*shape[:-1], n, 1))
    d = p("Det", p("Add", p("Mul", square, p.const(np.linspace(0.5, 1, n))), p.const(np.eye(n))))
    return p.end(p("Add", x, p("Unsqueeze", d, p.ints(-1))))


def dropped(g: Grow, x: str) -> str:
    """Half of the numbers are left out at random, and put back."""
    p = Piece(g, x)
    y, kept = p("Dropout", x, p.const(0.5), p.const(True, bool), outputs=2)
    return p.end(p("Where", kept, p("Mul", y, p.const(0.5)), x))


def spectrum(g: Grow, x: str) -> str:
    """Of an axis: the whole of it or one side, back again, or of a sequence's windows."""
    shape, p = g.shapes[x], Piece(g, x, opset=20)
    axis = g.pick(*range(len(shape)))
    n = shape[axis]
    y = p("DFT", p("Unsqueeze", x, p.ints(-1)), "", p.const(axis, np.int64), onesided=g.pick(0, 1))
    need(n > 1, "one place")
    kept = n // 2 + 1 if p.nodes[-1][4]["onesided"] else n
    y = p("Mul", y, p.const(n**-0.5))
    if kept == n and g.chance(0.4):
        y = p("DFT", p("Mul", y, p.const([n**0.5, 0.5])), "", p.const(axis, np.int64), inverse=1)
    return p.end(p("ReduceSum", y, p.ints(-1), keepdims=0), *shape[:axis], kept, *shape[axis + 1 :])


def spectrogram(g: Grow, x: str) -> str:
    n, t, c = g.shapes[x]
    length, step = g.pick(*(k for k in (2, 4, 7) if k <= t)), g.pick(1, 3)
    p = Piece(g, x)
    line = p("Unsqueeze", p("ReduceMean", x, p.ints(2), keepdims=0), p.ints(-1))
    one = g.pick(0, 1)
    window = p.const(np.hanning(length + 2)[1:-1]) if g.chance(0.6) else ""
    y = p("STFT", line, p.const(step, np.int64), window, p.const(length, np.int64), onesided=one)
    frames, bins = (t - length) // step + 1, length // 2 + 1 if one else length
    return p.end(p("ReduceSum", y, p.ints(-1), keepdims=0), n, frames, bins)


def power_pool(g: Grow, x: str) -> str:
    """Windows that no kernel has: of norms, and in f64."""
    n, c, h, w = g.shapes[x]
    need(min(h, w) > 1, "windows")
    p, how = Piece(g, x, opset=18), {"kernel_shape": [2, 2], "strides": g.pick([1, 1], [2, 1], [2, 2])}
    out = [(d - 2) // s + 1 for d, s in zip((h, w), how["strides"], strict=True)]
    if g.chance(0.6):
        return p.end(p("LpPool", x, p=g.pick(1, 3, 4), **how), n, c, *out)
    return p.end(p.cast(p("MaxPool", p.cast(x, np.float64), **how), np.float32), n, c, *out)


def folded(g: Grow, x: str) -> str:
    """An image of blocks that lie over one another."""
    n, c, h, w = g.shapes[x]
    block = g.pick((2, 2), (1, 3), (3, 2))
    strides = g.pick((1, 1), (2, 1), block)
    size = [(d - 1) * s + b for d, s, b in zip((h, w), strides, block, strict=True)]
    p, copies = Piece(g, x), block[0] * block[1]
    rows = p("Mul", p("Unsqueeze", x, p.ints(2)), p.const(np.linspace(0.25, 0.75, copies).reshape(1, 1, copies, 1, 1)))
    columns = p("Reshape", rows, p.ints(n, c * copies, h * w))
    return p.end(p("Col2Im", columns, p.ints(*size), p.ints(*block), strides=list(strides)), n, c, *size)


def resized_bytes(g: Grow, x: str) -> str:
    """Twice as wide and high, of numbers whose means are whole."""
    n, c, h, w = g.shapes[x]
    p, dtype = Piece(g, x, opset=19), g.pick(np.int8, np.uint8)
    v = p("Mul", p.whole(x, dtype), p.const(4, dtype))
    y = p("Resize", v, "", p.const([1, 1, 2, 2]), mode="linear", coordinate_transformation_mode="asymmetric")
    return p.end(p("Mul", p.cast(y, np.float32), p.const(1 / 8)), n, c, 2 * h, 2 * w)


def stored_filters(g: Grow, x: str) -> str:
    """A convolution of stored numbers, whose weights are fed and stored at run time."""
    n, c, h, w = g.shapes[x]
    p, out, dtype, k = Piece(g, x, opset=19), g.channels(), g.pick(np.int8, np.uint8), g.pick(1, 3)
    group, out = g.pick((1, out), (c, c))
    zero, w_zero = (p.const(g.pick(0, 3) if dtype is np.int8 else g.pick(100, 128), dtype) for _ in range(2))
    half, step = p.const(1 / 2), p.const(1 / 16)
    q = p("QuantizeLinear", p.whole(x, np.float32, 2), half, zero)
    filters = p("QuantizeLinear", g.input(out, c // group, k, k), step, w_zero)
    coarse = p.const(2.0 ** round(np.log2((c // group) ** 0.5 * k)) / 8)
    y = p("QLinearConv", q, half, zero, filters, step, w_zero, coarse, zero, group=group, pads=[k // 2] * 4)
    return p.end(p("DequantizeLinear", y, p.const(1 / 8), zero), n, out, h, w)


def wandering(g: Grow, x: str) -> str:
    """A convolution that reads where it is told."""
    n, c, h, w = g.shapes[x]
    p, out = Piece(g, x, opset=19), g.channels()
    offsets = p("Mul", g.input(n, 18, h, w), p.const(g.pick(0.3, 2)))
    masks = [g.input(n, 9, h, w)] if g.chance(0.5) else []
    bias = g.const(out, kind="bias") if g.chance(0.5) else ""
    y = p("DeformConv", x, g.const(out, c, 3, 3), offsets, bias, *masks, pads=[1] * 4, kernel_shape=[3, 3])
    return p.end(y, n, out, h, w)


def blocks_of_few_bits(g: Grow, x: str) -> str:
    """Weights in blocks with scales of their own, that stand before the product."""
    shape = g.shapes[x]
    need(len(shape) > 1 and shape[-1] % 8 == 0, "columns")
    p, out, rng = Piece(g, x, opset=21), g.channels(), np.random.default_rng(g.random.randrange(1 << 16))
    k, dtype = shape[-1], g.pick(np.int8, np.uint8)
    block = g.pick(*(b for b in (8, 16, k) if k % b == 0))
    low, high = g.pick((-8, 8), (-128, 128)) if dtype is np.int8 else g.pick((0, 16), (0, 4), (0, 256))
    given = [p.const(rng.integers(low, high, (k, out)), dtype)]
    given += [p.const(rng.uniform(0.1, 1, (k // block, out)) / (high - low))]
    if g.chance(0.5) or dtype is np.uint8:
        given.append(p.const(rng.integers(max(low, 0), min(high, 9), (k // block, out)), dtype))
    y = p("MatMul", x, p("DequantizeLinear", *given, axis=0, block_size=block))
    return p.end(y, *shape[:-1], out)


WRITTEN: tuple[Any, ...] = (
    sum_of_products, sum_of_products, loss, normalized, normalized, computed_steps, computed_steps, small_function,
    spectrum, dropped, blocks_of_few_bits,
)  # fmt: skip
IMAGE_RARE = power_pool, folded, wandering, resized_bytes, stored_filters
SEQUENCE_RARE = (spectrogram,)
