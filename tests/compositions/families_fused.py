"""Blocks in the words of newer operator sets and of onnxruntime's optimizers: attention, norms, fused layers."""

from typing import Any

import numpy as np

from .grow import Grow
from .nodes import Piece
from .shapes import need

MS = "com.microsoft"


def attention(g: Grow, x: str) -> str:
    """ONNX's own: shared keys, masks, a cache, a bound for scores."""
    n, t, c = g.shapes[x]
    heads = g.pick(*(h for h in (1, 2, 4) if c % h == 0))
    shared = heads if g.chance(0.6) else 1
    width = c // heads
    q, k, v = (g.dense(x, h * width) for h in (heads, shared, shared))
    p = Piece(g, q, k, v, opset=g.pick(23, 24))
    more: dict[str, Any] = {"q_num_heads": heads, "kv_num_heads": shared, "is_causal": g.pick(0, 0, 1)}
    total, past = t, []
    if g.chance(0.4):
        length = g.pick(*g.palette.lengths)
        past, total = [g.input(n, shared, length, width) for _ in range(2)], t + length
    mask = ""
    if g.chance(0.5):
        mask = g.const(*g.pick((t, total), (1, 1, t, total), (n, 1, t, total)), kind="mask")
        if g.chance(0.4):
            mask = p("Greater", mask, p.const(-1))
    elif g.chance(0.3):  # those before its own, and no later ones
        seen = np.tri(t, total, total - t, dtype=bool)
        mask = p.const(seen, bool) if g.chance(0.5) else p.const(np.where(seen, 0, np.finfo(np.float32).min))
    if g.chance(0.3):
        more |= g.pick({"softcap": 2.0}, {"scale": 0.3})
    made = p("Attention", q, k, v, mask, *past, outputs=3 if past else 1, **more)
    if not past:
        return p.end(made, n, t, c)
    y, keys, values = p.done(*made, shapes=[(n, t, c), *((n, shared, total, width),) * 2])
    g.output(keys)
    g.output(values)
    return y


def several_heads(g: Grow, x: str) -> str:
    """onnxruntime's attention: packed, or with three operands and lengths."""
    n, t, c = g.shapes[x]
    heads = g.pick(*(h for h in (1, 2, 4) if c % h == 0))
    p = Piece(g, x)
    if g.chance(0.4):
        y = p("Attention", x, g.const(c, 3 * c, kind="matrix"), g.const(3 * c, kind="bias"), domain=MS,
              num_heads=heads, unidirectional=g.pick(0, 1))  # fmt: skip
        return p.end(y, n, t, c)
    q, k, v = (g.dense(x, c, False) for _ in range(3))
    p = Piece(g, q, k, v)
    bias = g.const(3 * c, kind="bias") if g.chance(0.5) else ""
    more = ["", g.const(1, heads, t, t, kind="mask")] if g.chance(0.4) else []
    return p.end(p("MultiHeadAttention", q, k, v, bias, *more, domain=MS, num_heads=heads), n, t, c)


def packed_heads(g: Grow, x: str) -> str:
    """Queries, keys and values of one product, told apart before heads are turned."""
    n, t, c = g.shapes[x]
    heads = g.pick(*(h for h in (1, 2, 4) if c % h == 0))
    parts = g.reshape(g.dense(x, 3 * c), n, t, 3, heads, c // heads)
    split = g.split(parts, 1, 1, 1, axis=2)
    q, k, v = (g.transpose(g.reshape(part, n, t, heads, c // heads), 0, 2, 1, 3) for part in split)
    scores = g.op("mul", g.op("matmul", q, g.transpose(k, 0, 1, 3, 2)), g.const(1, kind="half"))
    mixed = g.op("matmul", g.op("softmax", scores, axis=3), v)
    return g.dense(g.reshape(g.transpose(mixed, 0, 2, 1, 3), n, t, c), c)


def turned(g: Grow, x: str) -> str:
    """Rotary embedding: halves or neighbors, positions that are known, fed or counted."""
    n, t, c = g.shapes[x]
    heads = g.pick(*(h for h in (1, 2, 4) if c % (2 * h) == 0))
    half = c // heads // 2
    p = Piece(g, x, opset=23)
    more: dict[str, Any] = {"interleaved": g.pick(0, 1), "num_heads": heads}
    if g.chance(0.5):
        angles = [g.const(t + 3, half, kind="bias") for _ in range(2)]
        at = g.input(n, t, below=t + 3) if g.chance(0.5) else p.const(np.arange(n * t).reshape(n, t) % t, np.int64)
        return p.end(p("RotaryEmbedding", x, *angles, at, **more))
    return p.end(p("RotaryEmbedding", x, *(g.const(n, t, half, kind="bias") for _ in range(2)), **more))


def norm(g: Grow, x: str) -> str:
    """Of rows, of neighbors, of lengths; perhaps with the sum before it."""
    shape = g.shapes[x]
    c, rank = shape[-1], len(shape)
    kind = g.pick("rms", "rms", "lp", "lrn", "skip", "skip rms", "simplified")
    p = Piece(g, x, opset=23 if kind == "rms" else 18)
    scale, shift = g.const(c, kind="positive"), g.const(c, kind="bias")
    match kind:
        case "rms":
            axis = g.pick(*range(1, rank), -1)
            scale = g.const(*shape[axis:], kind="positive")
            return p.end(p("RMSNormalization", x, scale, axis=axis, epsilon=1e-2))
        case "lp":
            safe = p("Add", x, p.const(0.01))
            return p.end(p("LpNormalization", safe, p=g.pick(1, 2), axis=g.pick(*range(rank))))
        case "lrn":
            need(rank == 4, "an image")
            return p.end(p("LRN", x, size=g.pick(1, 3, 5, 13), alpha=0.5, beta=g.pick(0.5, 0.75), bias=1.5))
        case "simplified":
            return p.end(p("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=1e-2))
    need(rank == 3, "a sequence")
    more = [shift] if kind == "skip" else []
    op = "SkipLayerNormalization" if kind == "skip" else "SkipSimplifiedLayerNormalization"
    bias = [g.const(c, kind="bias")] if g.chance(0.5) else []
    return p.end(p(op, x, g.act(x), scale, *more, *bias, domain=MS, epsilon=1e-2))


def fused(g: Grow, x: str) -> str:
    """Activations and products with what stands beside them."""
    shape = g.shapes[x]
    c, p = shape[-1], Piece(g, x)
    match g.pick("bias", "fast", "quick", "product", "conv", "few bits", "gemm"):
        case "bias":
            return p.end(p("BiasGelu", x, g.const(c, kind="bias"), domain=MS))
        case "fast":
            return p.end(p("FastGelu", x, *([g.const(c, kind="bias")] if g.chance(0.5) else []), domain=MS))
        case "quick":
            return p.end(p("QuickGelu", x, domain=MS, alpha=g.pick(1.0, 1.702)))
        case "product":
            need(len(shape) > 1, "rank")
            turn = g.pick(0, 1)
            out = g.channels()
            w = g.const(out, c) if turn else g.const(c, out, kind="matrix")
            return p.end(p("FusedMatMul", x, w, domain=MS, transB=turn, alpha=g.pick(0.5, 1.0)), *shape[:-1], out)
        case "conv":
            need(len(shape) == 4, "an image")
            n, channels, h, w = shape
            out = g.channels()
            kind = g.pick("Relu", "Sigmoid", "Tanh", "LeakyRelu")
            more = {"activation_params": [0.125]} if kind == "LeakyRelu" else {}
            given = [x, g.const(out, channels, 3, 3), g.const(out, kind="bias")]
            return p.end(p("FusedConv", *given, domain=MS, pads=[1] * 4, activation=kind, **more), n, out, h, w)
        case "few bits":
            return _few_bits(g, p, x)
        case _:
            need(len(shape) == 2, "a matrix")
            return p.end(p("FusedGemm", x, g.const(c, c, kind="matrix"), g.const(c, kind="bias"), domain=MS,
                           activation=g.pick("Relu", "Tanh")))  # fmt: skip


def _few_bits(g: Grow, p: Piece, x: str) -> str:
    """Weights of few bits, in blocks of columns with a scale each. Where rows are rounded to bytes, their numbers are
    -1, 0 and 1, which stay what they are.
    """
    shape, block, bits = g.shapes[x], g.pick(16, 16, 32), g.pick(4, 4, 8)
    need(len(shape) > 1 and shape[-1] % 2 == 0, "columns")
    k, n, level = shape[-1], g.channels(), g.pick(0, 4)
    if level == 4:
        x = p("Clip", p.whole(x, np.float32), p.const(-1), p.const(1))
    blocks, rng = -(-k // block), np.random.default_rng(g.random.randrange(1 << 16))
    stored = p.const(rng.integers(0, 256, (n, blocks, block * bits // 8)), np.uint8)
    scales = p.const(rng.uniform(0.2, 2, n * blocks) / (1 << bits))
    attrs = {"K": k, "N": n, "bits": bits, "block_size": block, "accuracy_level": level}
    return p.end(p("MatMulNBits", x, stored, scales, domain=MS, **attrs), *shape[:-1], n)


def product_of_bytes(g: Grow, x: str) -> str:
    """Rounded by its range at run time or by a known step, multiplied as whole numbers, with nothing after it but a
    cast: no layer that rounds for itself.
    """
    shape = g.shapes[x]
    need(len(shape) > 1, "rank")
    p, out, rng = Piece(g, x), g.channels(), np.random.default_rng(g.random.randrange(1 << 16))
    dtype = g.pick(np.int8, np.uint8)
    w = p.const(rng.integers(-9 if dtype is np.int8 else 0, 10, (shape[-1], out)), dtype)
    if g.chance(0.5):
        v = p.whole(x, np.float32)
        q, step, zero = p(
            "DynamicQuantizeLinear",
            p(
                "Concat",
                v,
                p.const(np.full((*shape[:-1], 1), 15.0)),
                p.const(np.full((*shape[:-1], 1), -16.0 * 15)),
                axis=len(shape) - 1,
            ),
            outputs=3,
        )
        q = p("Slice", q, p.ints(0), p.ints(shape[-1]), p.ints(len(shape) - 1))
        y = p("Mul", p.cast(p("MatMulInteger", q, w, zero), np.float32), step)
    else:
        kind = g.pick(np.int8, np.uint8)
        q = p.whole(x, kind, 2)
        zeros = [p.const(3, kind)] if g.chance(0.5) else []
        y = p.cast(p("MatMulInteger", q, w, *zeros), np.float32)
    return p.end(p("Mul", y, p.const(1 / 64)), *shape[:-1], out)


FUSED: tuple[Any, ...] = (norm, norm, fused, fused, product_of_bytes)
SEQUENCE_RARE = attention, attention, several_heads, packed_heads, turned
