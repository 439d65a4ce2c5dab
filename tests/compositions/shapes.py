"""The operators that a composition is made of: what shapes they give. Images are N, C, H, W, volumes N, C, D, H, W.

conv x w [b]             strides, pads (top, left, bottom, right), dilations, group; w: out, in / group, kh, kw;
                         of volumes with another number of each in front
conv_transpose x w [b]   strides, pads, group (1 if absent); w: in, out / group, kh, kw
max_pool, average_pool, lp_pool x   kernel, strides, pads, dilations of max_pool; pads don't count
dense x w [b]            the last axis by w: in, out
matmul a b               of the last two axes, leading ones broadcast
reduce x                 how (mean, max, min, sum, l1, ...), axes, keep
total a b ...            how (sum, mean, max, min) of any number of operands
arg x                    how (max, min), axis: the first place of the largest of x rounded, as a float
layer_norm x s b         of the last axis; batch_norm x s b m v, instance_norm, group_norm x s b: axis 1
concat, split, slice, reshape, transpose, pad, resize, depth_to_space, space_to_depth, gather, expand: as in ONNX
lstm, gru x w r b        x: N, T, C; forward, from zeros; result N, T, H; w, r, b: as ONNX has them
select x a b             a where a test of x holds (TESTS), else b
nodes ...                operators of ONNX's own: nodes.py; more that are rare: rare_kinds.py
inside ...               branches and loops: inside.py
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from .composition import Shape

UNARY = frozenset({
    "relu", "relu6", "sigmoid", "tanh", "hard_swish", "hard_sigmoid", "swish", "gelu", "leaky_relu", "elu", "softplus",
    "abs", "neg", "exp", "sqrt", "clip", "identity", "softmax", "log_softmax", "square", "cube", "cumsum",
})  # fmt: skip
"""Results of the operand's shape."""

BINARY = frozenset({"add", "sub", "mul", "div", "max", "min", "prelu"})


class Misfit(Exception):
    """An operator can't take what it is given."""


def need(holds: bool, what: str) -> None:
    if not holds:
        raise Misfit(what)


def window(image: Shape, kernel: Shape, a: dict[str, Any]) -> Shape:
    pads, dilations = a["pads"], a.get("dilations", (1,) * len(kernel))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sides = zip(image, pads, pads[len(kernel) :], reach, a["strides"], strict=False)
    out = tuple((size + before + after - r) // stride + 1 for size, before, after, r, stride in sides)
    need(len(image) == len(kernel), "the window has another rank")
    need(min(out) > 0, "the window is larger than the image")
    return out


def conv(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    (n, c, *image), (o, i, *kernel) = shapes[0], shapes[1]
    need(c == i * a["group"] and o % a["group"] == 0, "channels")
    need(all(s == (o,) for s in shapes[2:]), "bias")
    return [(n, o, *window(tuple(image), tuple(kernel), a))]


def conv_transpose(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    (n, c, *image), (i, o, *kernel) = shapes[0], shapes[1]
    o *= a.get("group", 1)
    need(c == i and c % a.get("group", 1) == 0 and all(s == (o,) for s in shapes[2:]), "channels")
    pads = a["pads"]
    sides = zip(image, a["strides"], kernel, pads, pads[len(image) :], strict=False)
    out = tuple((size - 1) * stride + k - before - after for size, stride, k, before, after in sides)
    need(min(out) > 0, "the padding takes all away")
    return [(n, o, *out)]


def pool(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    n, c, *image = shapes[0]
    need(all(p < k for p, k in zip(a["pads"], a["kernel"] * 2, strict=True)), "a window of padding only")
    return [(n, c, *window(tuple(image), a["kernel"], a))]


def dense(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    x, (k, n) = shapes[0], shapes[1]
    need(len(x) > 1 and x[-1] == k and all(s == (n,) for s in shapes[2:]), "columns")
    return [(*x[:-1], n)]


def matmul(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    x, y = shapes
    need(len(x) > 1 and len(y) > 1 and x[-1] == y[-2], "columns and rows")
    return [(*np.broadcast_shapes(x[:-2], y[:-2]), x[-2], y[-1])]


def reduce(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    x, axes = shapes[0], a["axes"]
    need(bool(axes) and all(axis < len(x) for axis in axes), "axes")
    return [tuple(1 if i in axes else d for i, d in enumerate(x) if a["keep"] or i not in axes)]


def concat(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    axis, first = a["axis"], shapes[0]
    need(len({(s[:axis], s[axis + 1 :]) for s in shapes}) == 1 and axis < len(first), "parts differ")
    return [(*first[:axis], sum(s[axis] for s in shapes), *first[axis + 1 :])]


def split(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    x, axis = shapes[0], a["axis"]
    need(axis < len(x) and sum(a["sizes"]) == x[axis] and min(a["sizes"]) > 0, "sizes")
    return [(*x[:axis], size, *x[axis + 1 :]) for size in a["sizes"]]


def slice_(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    x, axis = shapes[0], a["axis"]
    need(axis < len(x) and 0 <= a["start"] < a["end"] <= x[axis], "range")
    return [(*x[:axis], len(range(a["start"], a["end"], a.get("step", 1))), *x[axis + 1 :])]


def reshape(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    need(prod(shapes[0]) == prod(a["shape"]), "elements")
    return [tuple(a["shape"])]


def transpose(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    need(sorted(a["perm"]) == list(range(len(shapes[0]))), "axes")
    return [tuple(shapes[0][i] for i in a["perm"])]


def pad(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    x, pads = shapes[0], a["pads"]
    need(2 * len(x) == len(pads), "rank")
    before, after = pads[: len(x)], pads[len(x) :]
    if a["mode"] == "reflect":
        need(all(max(b, e) < d for b, e, d in zip(before, after, x, strict=True)), "reflects too much")
    return [tuple(d + b + e for d, b, e in zip(x, before, after, strict=True))]


def resize(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    n, c, *sizes = shapes[0]
    return [(n, c, *(d * s for d, s in zip(sizes, a["scale"], strict=True)))]


def depth_to_space(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    (n, c, h, w), b = shapes[0], a["block"]
    need(c % (b * b) == 0, "channels")
    return [(n, c // (b * b), h * b, w * b)]


def space_to_depth(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    (n, c, h, w), b = shapes[0], a["block"]
    need(h % b == 0 and w % b == 0, "image")
    return [(n, c * b * b, h // b, w // b)]


def gather(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    x, axis, indices = shapes[0], a["axis"], a.get("indices")
    need(axis < len(x) and (indices is None or max(indices) < x[axis]), "index")
    return [(*x[:axis], *(shapes[1] if indices is None else (len(indices),)), *x[axis + 1 :])]


def expand(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    need(np.broadcast_shapes(shapes[0], a["shape"]) == tuple(a["shape"]), "does not spread so")
    return [tuple(a["shape"])]


def recurrent(gates: int) -> Callable[[list[Shape], dict[str, Any]], list[Shape]]:
    def infer(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
        (n, t, c), w, r, b = shapes
        h = r[-1]
        need((w, r, b) == ((1, gates * h, c), (1, gates * h, h), (1, 2 * gates * h)), "weights")
        return [(n, t, h)]

    return infer


def normalized(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    axis = -1 if a.get("last") else 1
    need(all(s == (shapes[0][axis],) for s in shapes[1:]), "channels")
    return [shapes[0]]


def nodes(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    need(tuple(shapes) == a["takes"], "shapes")
    return list(a["gives"])


def arg(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    x, axis = shapes[0], a["axis"]
    need(axis < len(x), "axis")
    return [(*x[:axis], 1, *x[axis + 1 :])]


def tile(shapes: list[Shape], a: dict[str, Any]) -> list[Shape]:
    need(len(a["repeats"]) == len(shapes[0]), "rank")
    return [tuple(d * r for d, r in zip(shapes[0], a["repeats"], strict=True))]


TESTS = ("greater", "less", "greater_or_equal", "less_or_equal", "equal", "different", "within", "outside", "odd")
EDGE = 1.25
"""Of x against 0; the last three: |x| <= EDGE, |x| > EDGE, either x <= 0 or x < EDGE: no saturated value is near it."""

RULES: dict[str, Callable[[list[Shape], dict[str, Any]], list[Shape]]] = {
    "conv": conv, "conv_transpose": conv_transpose, "max_pool": pool, "average_pool": pool, "lp_pool": pool,
    "arg": arg, "tile": tile, "nodes": nodes,
    "total": lambda shapes, a: [np.broadcast_shapes(*shapes)], "dense": dense,
    "matmul": matmul, "reduce": reduce, "concat": concat, "split": split, "slice": slice_, "reshape": reshape,
    "transpose": transpose, "pad": pad, "resize": resize, "depth_to_space": depth_to_space,
    "space_to_depth": space_to_depth, "gather": gather, "expand": expand, "lstm": recurrent(4), "gru": recurrent(3),
    "layer_norm": lambda shapes, a: normalized(shapes, {"last": True}), "batch_norm": normalized,
    "instance_norm": normalized, "group_norm": normalized, "select": lambda shapes, a: [np.broadcast_shapes(*shapes)],
}  # fmt: skip


def infer(kind: str, shapes: list[Shape], attrs: dict[str, Any]) -> list[Shape]:
    """Shapes of the results; Misfit when the operator can't take these."""
    from . import inside, rare_kinds

    try:
        if kind in UNARY:
            need(attrs.get("axis", 0) < len(shapes[0]), "axis")
            return [shapes[0]]
        if kind in BINARY:
            out = np.broadcast_shapes(*shapes)
            need(kind != "prelu" or out == shapes[0], "a slope of more than the operand")
            return [out]
        if kind in rare_kinds.RULES:
            return [rare_kinds.shape_of(kind, shapes, attrs)]
        if kind == "inside":
            return [inside.shape_of(shapes, attrs)]
        return RULES[kind](shapes, attrs)
    except (IndexError, TypeError, ValueError) as error:
        raise Misfit(f"{kind}: {error}") from None
