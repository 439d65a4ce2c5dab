"""Random small networks: the operators of image networks in all the places that passes and plans look at."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnx
from hypothesis import settings
from hypothesis import strategies as st
from onnx import printer

from tests.nets import F32, I64, Net, by_reference, graph_of

Draw = Callable[[st.SearchStrategy], Any]

DIMS = st.sampled_from([1, 2, 3, 4, 5, 8, 16, 17])
LIMIT = 1 << 13
"""No value has more elements."""


@dataclass
class Growing:
    """A net under construction, with the shapes of its f32 values."""

    draw: Draw
    net: Net
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    used: list[str] = field(default_factory=list)

    def pick(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def add(self, shape: tuple[int, ...], op: str, *inputs: str, **attrs: Any) -> str:
        name = self.net(op, *inputs, **attrs)
        self.shapes[name] = tuple(shape)
        return name

    def ints(self, *values: int) -> str:
        return self.net.const(np.array(values, I64))

    def value(self, *ranks: int) -> str | None:
        """One of the values (of these ranks), rather a late one."""
        found = [name for name, shape in self.shapes.items() if not ranks or len(shape) in ranks]
        return self.draw(st.sampled_from(found[::-1])) if found else None

    def array(self, *shape: int) -> np.ndarray:
        """Numbers of which some are 0 and 1, as real parameters are."""
        data = self.net.rng.standard_normal(shape)
        return np.where(self.net.rng.random(shape) < 0.1, np.round(data), data).astype(F32)


def axis_of(g: Growing, rank: int) -> int:
    axis = g.number(0, rank - 1)
    return axis - rank if g.pick(False, True) else axis


# -- one function per family: adds to the net, or leaves it alone when nothing fits


def nothing(g: Growing) -> None:
    """What a step becomes when hypothesis makes a failing network smaller."""


def unary(g: Growing) -> None:
    x = g.value()
    shape = g.shapes[x]
    op, attrs = g.pick(
        ("Relu", {}), ("Sigmoid", {}), ("Neg", {}), ("HardSwish", {}), ("LeakyRelu", {"alpha": 0.1}), ("Abs", {}),
        ("Tanh", {}), ("HardSigmoid", {}), ("Identity", {}), ("Clip", {}), ("Sqrt", {}), ("Softplus", {}),
    )  # fmt: skip
    inputs = [x]
    if op == "Clip":
        low, high = g.net.const(np.array(-0.5, F32)), g.net.const(np.array(1.5, F32))
        inputs += g.pick([low, high], [low], ["", high], [])
    if op == "Sqrt":
        inputs = [g.add(shape, "Abs", x)]
    g.add(shape, op, *inputs, **attrs)


def with_constant(g: Growing) -> None:
    x = g.value()
    shape = list(g.shapes[x])
    part = [g.pick(d, d, 1) for d in shape][g.number(0, len(shape)) :]
    if g.number(0, 5) == 0:
        part = [1, *shape] if len(shape) < 5 else part
    c = g.net.const(g.array(*part))
    op = g.pick("Add", "Mul", "Sub", "Div", "Max", "Min", "PRelu", "Pow")
    out = np.broadcast_shapes(tuple(shape), tuple(part))
    if op == "PRelu" and len(out) > len(shape):
        return
    if op == "Div":
        c = g.net.const(np.abs(g.array(*part)) + F32.type(0.5))
    if op == "Pow":
        x, c = g.add(tuple(shape), "Abs", x), g.net.const(np.array(g.pick(2.0, 0.5, 1.0, 3.0), F32))
        out = tuple(shape)
    pair = (c, x) if op in ("Add", "Mul", "Sub") and g.pick(False, True) else (x, c)
    g.add(out, op, *pair)


def with_value(g: Growing) -> None:
    """Two values whose shapes broadcast; perhaps the same one twice."""
    x = g.value()
    found = []
    for name, shape in g.shapes.items():
        try:
            if prod(np.broadcast_shapes(shape, g.shapes[x])) <= LIMIT and max(len(shape), len(g.shapes[x])) <= 5:
                found.append(name)
        except ValueError:
            pass
    y = g.pick(*found[::-1])
    if g.number(0, 7) == 0:
        x, y = y, x
    out = np.broadcast_shapes(g.shapes[x], g.shapes[y])
    op = g.pick("Add", "Mul", "Sub", "Max", "Sum", "Mean", "Min")
    extra = [g.pick(x, y)] if op in ("Max", "Sum", "Mean", "Min") and g.pick(False, True) else []
    g.add(out, op, x, y, *extra)


def gate(g: Growing) -> None:
    """x * sigmoid(reduced x): squeeze and excite."""
    x = g.value(3, 4, 5)
    if x is None or 0 in g.shapes[x]:
        return
    shape = g.shapes[x]
    pooled = g.add((*shape[:2], *[1] * (len(shape) - 2)), "GlobalAveragePool", x)
    g.add(shape, "Mul", x, g.add(g.shapes[pooled], g.pick("Sigmoid", "HardSigmoid", "Relu"), pooled))


def conv(g: Growing) -> None:
    x = g.value(3, 4, 4, 4, 5)
    if x is None or 0 in g.shapes[x]:
        return
    n, c, *image = g.shapes[x]
    kernel = [g.pick(*(k for k in (1, 2, 3) if k <= d + 1)) for d in image]
    strides = [g.number(1, 2) for _ in image]
    dilations = [g.pick(1, 1, 2) for _ in image]
    groups = g.pick(1, c, *(d for d in (2, 4) if c % d == 0))
    o = groups * g.pick(1, 1, 3, *([8, 16] if groups == 1 else []))
    attrs: dict[str, Any] = {"strides": strides, "group": groups}
    auto = g.pick("NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    begins, ends = ([g.number(0, 2) for _ in image] for _ in range(2))
    if auto == "SAME_UPPER" or auto == "SAME_LOWER":
        out = [-(-d // s) for d, s in zip(image, strides, strict=True)]
        dilations = [1] * len(image)
    else:
        if auto == "VALID":
            begins, ends = [0] * len(image), [0] * len(image)
        sizes = zip(image, kernel, strides, dilations, begins, ends, strict=True)
        out = [(d + b + e - w * (k - 1) - 1) // s + 1 for d, k, s, w, b, e in sizes]
    if auto == "NOTSET":
        attrs["pads"] = [*begins, *ends]
    else:
        attrs["auto_pad"] = auto
    if min(out) < 1 or n * o * prod(out) > LIMIT:
        return
    inputs = [x, g.net.weight(o, c // groups, *kernel)]
    if g.pick(False, True):
        inputs.append(g.net.weight(o))
    y = g.add((n, o, *out), "Conv", *inputs, **attrs, dilations=dilations)
    if g.pick(False, True):
        normalize(g, y)


def normalize(g: Growing, x: str | None = None) -> None:
    x = x or g.value(2, 3, 4, 5)
    if x is None:
        return
    c = g.shapes[x][1]
    scale, shift, mean = (g.net.const(g.array(c)) for _ in range(3))
    g.add(g.shapes[x], "BatchNormalization", x, scale, shift, mean, g.net.const(np.abs(g.array(c)) + F32.type(0.1)))


def pool(g: Growing) -> None:
    x = g.value(3, 4, 5)
    if x is None or 0 in g.shapes[x]:
        return
    n, c, *image = g.shapes[x]
    if g.number(0, 3) == 0:
        g.add((n, c, *[1] * len(image)), g.pick("GlobalAveragePool", "GlobalMaxPool"), x)
        return
    op = g.pick("MaxPool", "AveragePool")
    kernel = [g.pick(*(k for k in (1, 2, 3) if k <= d)) for d in image]
    strides = [g.number(1, 2) for _ in image]
    pads = [g.number(0, k // 2) for k in kernel * 2]
    sizes = zip(image, kernel, strides, pads[: len(image)], pads[len(image) :], strict=True)
    out = [(d + b + e - k) // s + 1 for d, k, s, b, e in sizes]
    attrs: dict[str, Any] = {"count_include_pad": g.number(0, 1)} if op == "AveragePool" else {}
    g.add((n, c, *out), op, x, kernel_shape=kernel, strides=strides, pads=pads, **attrs)


def transpose(g: Growing) -> None:
    x = g.value()
    perm = g.draw(st.permutations(range(len(g.shapes[x]))))
    g.add(tuple(g.shapes[x][p] for p in perm), "Transpose", x, perm=perm)


def channels_last(g: Growing) -> None:
    """Elementwise work between a transpose and its inverse."""
    x = g.value(3, 4, 5)
    if x is None:
        return
    rank = len(g.shapes[x])
    perm, back = (0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))
    turned = g.add(tuple(g.shapes[x][p] for p in perm), "Transpose", x, perm=perm)
    y = g.add(g.shapes[turned], g.pick("Relu", "Sigmoid", "Tanh"), turned)
    g.add(g.shapes[x], "Transpose", y, perm=back)


def reshape(g: Growing) -> None:
    x = g.value()
    shape = g.shapes[x]
    kind = g.pick("regroup", "merge", "split", "flatten", "squeeze", "unsqueeze", "computed")
    if kind == "flatten":
        axis = g.number(0, len(shape))
        g.add((prod(shape[:axis]), prod(shape[axis:])), "Flatten", x, axis=axis)
    elif kind == "squeeze":
        ones = [i for i, d in enumerate(shape) if d == 1]
        if ones and len(shape) > 1:
            axis = g.pick(*ones)
            g.add(shape[:axis] + shape[axis + 1 :], "Squeeze", x, g.ints(axis - g.pick(0, len(shape))))
    elif kind == "unsqueeze":
        if len(shape) < 5:
            axis = g.number(0, len(shape))
            g.add((*shape[:axis], 1, *shape[axis:]), "Unsqueeze", x, g.ints(axis))
    elif kind == "computed":
        whole = g.net("Shape", x)
        first = g.net("Gather", whole, g.ints(0), axis=0)
        if 0 not in shape:
            target = g.net("Concat", first, g.ints(-1), axis=0)
            g.add((shape[0], prod(shape[1:])), "Reshape", x, target)
    elif kind == "merge":
        if len(shape) > 1:
            axis = g.number(0, len(shape) - 2)
            new = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
            g.add(new, "Reshape", x, g.ints(*new), allowzero=1)
    elif kind == "split":
        axis = g.number(0, len(shape) - 1)
        divisors = [d for d in (2, 3, 4) if shape[axis] and shape[axis] % d == 0]
        if divisors and len(shape) < 5:
            d = g.pick(*divisors)
            new = (*shape[:axis], d, shape[axis] // d, *shape[axis + 1 :])
            short = tuple(0 if i < axis and g.pick(False, True) else d for i, d in enumerate(new))
            g.add(new, "Reshape", x, g.ints(*(new if 0 in shape else short)), allowzero=int(0 in shape))
    else:
        factors = [f for d in shape for f in factorize(d)]
        new = [1] * g.number(1, 5)
        for f in factors:
            new[g.number(0, len(new) - 1)] *= f
        given = list(new)
        if prod(shape) and g.pick(False, True):
            given[g.number(0, len(new) - 1)] = -1
        g.add(tuple(new), "Reshape", x, g.ints(*given), allowzero=1)


def factorize(n: int) -> list[int]:
    for p in (2, 3, 5, 7, 11, 13, 17):
        if n > 1 and n % p == 0:
            return [p, *factorize(n // p)]
    return [n] if n != 1 else []


def shuffle(g: Growing) -> None:
    """A channel shuffle."""
    x = g.value(4)
    if x is None:
        return
    n, c, h, w = g.shapes[x]
    groups = next((k for k in (2, 3, 4) if c % k == 0), None)
    if groups is None or 0 in (n, c, h, w):
        return
    split = g.add((n, groups, c // groups, h, w), "Reshape", x, g.ints(n, groups, c // groups, h, w))
    turned = g.add((n, c // groups, groups, h, w), "Transpose", split, perm=[0, 2, 1, 3, 4])
    g.add((n, c, h, w), "Reshape", turned, g.ints(n, -1, h, w))


def concat(g: Growing) -> None:
    x = g.value()
    shape = g.shapes[x]
    axis = g.number(0, len(shape) - 1)
    rest = len(shape), shape[:axis], shape[axis + 1 :]
    fits = [n for n, s in g.shapes.items() if (len(s), s[:axis], s[axis + 1 :]) == rest]
    parts = [x] + [g.pick(*fits[::-1]) for _ in range(g.number(0, 2))]
    sizes = [g.shapes[p][axis] for p in parts]
    if g.number(0, 3) == 0:
        extra = g.number(1, 3)
        parts.append(g.net.const(g.array(*shape[:axis], extra, *shape[axis + 1 :])))
        sizes.append(extra)
    out = (*shape[:axis], sum(sizes), *shape[axis + 1 :])
    if prod(out) <= LIMIT:
        order = g.draw(st.permutations(range(len(parts))))
        g.add(out, "Concat", *(parts[i] for i in order), axis=axis - g.pick(0, len(shape)))


def split(g: Growing) -> None:
    x = g.value()
    shape = g.shapes[x]
    axis = g.number(0, len(shape) - 1)
    if shape[axis] < 2:
        return
    cut = g.number(1, shape[axis] - 1)
    sizes = [cut, shape[axis] - cut]
    names = g.net("Split", x, g.ints(*sizes), outputs=2, axis=axis - g.pick(0, len(shape)))
    for name, size in zip(names, sizes, strict=True):
        g.shapes[name] = (*shape[:axis], size, *shape[axis + 1 :])


def slice_(g: Growing) -> None:
    x = g.value()
    shape = g.shapes[x]
    axes = g.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=2, unique=True))
    starts, ends, steps, new = [], [], [], list(shape)
    for axis in axes:
        step = g.pick(1, 1, 1, 2, -1, -2)
        low, high = sorted((g.number(0, shape[axis]), g.number(0, shape[axis])))
        start, end = (low, high) if step > 0 else (max(high - 1, 0), low - 1 if low else -(2**31))
        if step > 0 and g.pick(False, True):
            end = 2**31
        new[axis] = len(range(*slice(start, None if end == -(2**31) else end, step).indices(shape[axis])))
        if step > 0 and 0 < start < shape[axis] and g.pick(False, True):
            start -= shape[axis]
        starts.append(start)
        ends.append(end)
        steps.append(step)
    if 0 in new and g.number(0, 3):
        return
    inputs = [x, g.ints(*starts), g.ints(*ends), g.ints(*axes)]
    g.add(tuple(new), "Slice", *inputs, *([g.ints(*steps)] if steps != [1] * len(steps) else []))


def pad(g: Growing) -> None:
    x = g.value()
    shape = g.shapes[x]
    mode = g.pick("constant", "constant", "constant", "reflect", "edge")
    if 0 in shape and mode != "constant":
        return
    most = 1 if mode == "reflect" else 2
    limits = [min(most, d - 1) if mode == "reflect" else most for d in shape]
    pads = [[g.number(0, limit) if g.pick(False, True) else 0 for limit in limits] for _ in "be"]
    out = tuple(d + b + e for d, b, e in zip(shape, *pads, strict=True))
    if prod(out) > LIMIT:
        return
    inputs = [x, g.ints(*pads[0], *pads[1])]
    if mode == "constant" and g.pick(False, True):
        inputs.append(g.net.const(np.array(g.pick(0.0, 0.5), F32)))
    g.add(out, "Pad", *inputs, mode=mode)


def pad_conv(g: Growing) -> None:
    """A zero pad of the image before a convolution."""
    x = g.value(4)
    if x is None or 0 in g.shapes[x]:
        return
    n, c, h, w = g.shapes[x]
    t, l, b, r = (g.number(0, 2) for _ in range(4))  # noqa: E741
    if h + t + b < 3 or w + l + r < 3 or n * max(c, 4) * (h + 4) * (w + 4) > LIMIT:
        return
    padded = g.add((n, c, h + t + b, w + l + r), "Pad", x, g.ints(0, 0, t, l, 0, 0, b, r))
    o = g.pick(4, c)
    g.add((n, o, h + t + b - 2, w + l + r - 2), "Conv", padded, g.net.weight(o, c, 3, 3))


def reduce(g: Growing) -> None:
    x = g.value()
    shape = g.shapes[x]
    if 0 in shape:
        return
    axes = sorted(g.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    keep = g.number(0, 1)
    out = tuple(1 if i in axes else d for i, d in enumerate(shape) if keep or i not in axes)
    op = g.pick("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSumSquare", "ReduceL1", "ReduceLogSumExp")
    if not out:
        return
    g.add(out, op, x, axes=[a - g.pick(0, len(shape)) for a in axes], keepdims=keep)


def reduce_sum(g: Growing) -> None:
    x = g.value()
    shape = g.shapes[x]
    axis, keep = g.number(0, len(shape) - 1), g.number(0, 1)
    out = (*shape[:axis], *([1] if keep else []), *shape[axis + 1 :])
    if out and 0 not in shape:
        g.add(out, "ReduceSum", x, g.ints(axis), keepdims=keep)


def softmax(g: Growing) -> None:
    x = g.value()
    if 0 not in g.shapes[x]:
        g.add(g.shapes[x], g.pick("Softmax", "LogSoftmax"), x, axis=axis_of(g, len(g.shapes[x])))


def gather(g: Growing) -> None:
    x = g.value()
    shape = g.shapes[x]
    axis = g.number(0, len(shape) - 1)
    if not shape[axis]:
        return
    kind = g.pick((), (1,), (3,), (2, 2))
    if len(shape) - 1 + len(kind) > 5 or len(shape) - 1 + len(kind) == 0:
        return
    indices = g.net.rng.integers(-shape[axis], shape[axis], kind)
    out = (*shape[:axis], *kind, *shape[axis + 1 :])
    if prod(out) <= LIMIT:
        g.add(out, "Gather", x, g.net.const(np.asarray(indices, I64)), axis=axis - g.pick(0, len(shape)))


def places(g: Growing) -> None:
    """Reading and writing at constant places, and what moves by them."""
    x = g.value()
    shape = g.shapes[x]
    if 0 in shape or len(shape) < 2:
        return
    op, rng = g.pick(*(f"{way}{how}" for way in ("Gather", "Scatter") for how in ("Elements", "ND")), "Trilu",
                     "ReverseSequence"), g.net.rng  # fmt: skip
    axis = g.number(0, len(shape) - 1)
    if op == "Trilu":
        g.add(shape, op, x, g.net.const(np.array(g.number(-3, 3), I64)), upper=g.number(0, 1))
    elif op == "ReverseSequence":
        g.add(shape, op, x, g.net.const(rng.integers(1, shape[0] + 1, shape[1])), time_axis=0, batch_axis=1)
    elif op.endswith("Elements"):
        at = np.argsort(rng.random(shape), axis).take(range(g.number(1, shape[axis])), axis) - g.pick(0, shape[axis])
        if op == "GatherElements":
            g.add(at.shape, op, x, g.net.const(at), axis=axis)
        else:
            g.add(shape, op, x, g.net.const(at), g.net.const(g.array(*at.shape)), axis=axis)
    else:
        flat = rng.permutation(prod(shape[:2]))[: g.number(1, 4)]
        at = np.stack(np.unravel_index(flat, shape[:2]), -1)
        if op == "GatherND":
            g.add((len(flat), *shape[2:]), op, x, g.net.const(at))
        else:
            g.add(shape, op, x, g.net.const(at), g.net.const(g.array(len(flat), *shape[2:])))


def dense(g: Growing) -> None:
    x = g.value(2, 3, 4)
    if x is None or 0 in g.shapes[x]:
        return
    *rows, k = g.shapes[x]
    n = g.pick(1, 3, 8, 17)
    if prod(rows) * n > LIMIT:
        return
    if len(rows) == 1 and g.pick(False, True):
        a, b = g.number(0, 1), g.number(0, 1)
        if a:
            x = g.add((k, *rows), "Transpose", x, perm=[1, 0])
        w = g.net.weight(*((n, k) if b else (k, n)))
        bias = g.pick([], [g.net.weight(n)], [g.net.weight(1)], [g.net.weight(*rows, 1)], [g.net.weight(*rows, n)])
        g.add((*rows, n), "Gemm", x, w, *bias, transA=a, transB=b, alpha=g.pick(1.0, 0.5), beta=g.pick(1.0, 2.0))
    else:
        y = g.add((*rows, n), "MatMul", x, g.net.weight(k, n))
        if g.pick(False, True):
            g.add((*rows, n), "Add", y, g.net.weight(n))


def product(g: Growing) -> None:
    """x @ x transposed: both sides made at run time."""
    x = g.value(2, 3, 4)
    if x is None or 0 in g.shapes[x]:
        return
    *batch, m, k = g.shapes[x]
    perm = [*range(len(batch)), len(batch) + 1, len(batch)]
    if prod(batch) * m * m <= LIMIT:
        turned = g.add((*batch, k, m), "Transpose", x, perm=perm)
        g.add((*batch, m, m), "MatMul", x, turned)


def resize(g: Growing) -> None:
    x = g.value(4)
    if x is None or 0 in g.shapes[x]:
        return
    n, c, h, w = g.shapes[x]
    fh, fw = g.pick(1, 2, 3), g.pick(1, 2)
    if n * c * h * fh * w * fw > LIMIT:
        return
    linear = [("linear", how) for how in ("half_pixel", "asymmetric", "align_corners")]
    mode, how = g.pick(("nearest", "asymmetric"), *linear)
    more = {"nearest_mode": "floor"} if mode == "nearest" else {}
    scales = g.net.const(np.array([1, 1, fh, fw], F32))
    g.add((n, c, h * fh, w * fw), "Resize", x, "", scales, mode=mode, coordinate_transformation_mode=how, **more)


def expand(g: Growing) -> None:
    x = g.value()
    shape = g.shapes[x]
    new = tuple(g.pick(1, 2, 3) if d == 1 else d for d in shape)
    if prod(new) > LIMIT:
        return
    if g.pick(False, True):
        g.add(new, "Expand", x, g.ints(*new))
    elif 0 not in shape:
        repeats = [b // a for a, b in zip(shape, new, strict=True)]
        g.add(new, "Tile", x, g.ints(*repeats))


def depth(g: Growing) -> None:
    x = g.value(4)
    if x is None or 0 in g.shapes[x]:
        return
    n, c, h, w = g.shapes[x]
    if c % 4 == 0 and g.pick(False, True):
        g.add((n, c // 4, 2 * h, 2 * w), "DepthToSpace", x, blocksize=2, mode=g.pick("DCR", "CRD"))
    elif h % 2 == 0 and w % 2 == 0:
        g.add((n, c * 4, h // 2, w // 2), "SpaceToDepth", x, blocksize=2)


def rare(g: Growing) -> None:
    """Operators that have no kernel (today): host steps between native segments."""
    x = g.value()
    shape = g.shapes[x]
    match g.pick("cumsum", "where", "cast", "instance", "argmax", "einsum"):
        case "cumsum":
            g.add(shape, "CumSum", x, g.net.const(np.array(g.number(0, len(shape) - 1), I64)))
        case "where":
            zero = g.net.const(np.zeros((), F32))
            g.add(shape, "Where", g.net("Greater", x, zero), x, zero)
        case "cast":
            g.add(shape, "Cast", g.net("Cast", g.net("Floor", x), to=7), to=1)
        case "instance":
            if len(shape) > 2 and 0 not in shape:
                c = shape[1]
                g.add(shape, "InstanceNormalization", x, g.net.const(g.array(c)), g.net.const(g.array(c)))
        case "argmax":
            axis = g.number(0, len(shape) - 1)
            if 0 not in shape:
                index = g.net("ArgMax", g.net("Floor", x), axis=axis, keepdims=1)
                g.add((*shape[:axis], 1, *shape[axis + 1 :]), "Cast", index, to=1)
        case "einsum":
            if len(shape) == 2 and 0 not in shape:
                g.add((shape[0], shape[0]), "Einsum", x, x, equation="ij,kj->ik")


FAMILIES = (
    unary, with_constant, with_value, gate, conv, conv, normalize, pool, transpose, channels_last, reshape, reshape,
    shuffle, concat, concat, split, slice_, pad, pad_conv, reduce, reduce_sum, softmax, gather, places, dense, product,
    resize, expand, depth, rare,
)  # fmt: skip


def examples(count: int) -> settings:
    """So many examples, $EXAMPLES times as many when exploring."""
    return settings(max_examples=count * int(os.environ.get("EXAMPLES", "1")))


@dataclass
class Case:
    """A network and what to feed it. Printed as ONNX text."""

    source: bytes
    feeds: dict[str, np.ndarray]

    def _repr_pretty_(self, out: Any, cycle: bool) -> None:
        feeds = ", ".join(f"{k}{list(v.shape)}" for k, v in self.feeds.items())
        out.text(f"\n{printer.to_text(onnx.load_from_string(self.source))}\nfed {feeds}\n")


@st.composite
def networks(draw: Draw, families: tuple = FAMILIES, least: int = 6, zeros: bool = True) -> Case:
    """All shapes are known; some values are read often, some are also outputs."""
    net = Net(17, draw(st.integers(0, 2**16)))
    g = Growing(draw, net)
    for i in range(draw(st.integers(1, 2))):
        image = draw(st.lists(DIMS, min_size=2, max_size=3).filter(lambda d: prod(d) <= 150))
        shape = g.pick([1], [2], [3]) + [draw(DIMS)] + image if g.number(0, 3) else image
        if zeros and g.number(0, 19) == 0:
            shape[g.number(0, len(shape) - 1)] = 0
        g.shapes[net.input(f"x{i}", shape)] = tuple(shape)
    steps = st.lists(st.sampled_from((nothing, *families)), min_size=least, max_size=2 * least)
    for family in draw(steps):
        family(g)
    made = list(g.shapes)
    outputs = {made[-1], *draw(st.lists(st.sampled_from(made), max_size=2))}
    if g.number(0, 9) == 0:
        outputs.add(net.const(g.array(2, 3)))
    net.output(*sorted(outputs))
    feeds = {f"x{i}": g.array(*g.shapes[f"x{i}"]) for i in range(len(net.inputs))}
    return Case(net.bytes(), feeds)


def magnitude(source: bytes, feeds: dict[str, np.ndarray]) -> float:
    """The largest number that any value of the network has: what rounding errors are measured by."""
    graph = graph_of(source)
    graph.outputs = [v for node in graph.nodes for v in node.outputs] or graph.outputs
    largest = [np.abs(a).max() for a in by_reference(graph, feeds) if a.size and a.dtype.kind == "f"]
    return float(max([1.0, *largest]))
