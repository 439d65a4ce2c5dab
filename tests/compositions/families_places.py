"""Blocks that read and write at places: gathers, scatters, sorting, sampling, triangles, boxes."""

from typing import Any

import numpy as np

from .grow import Grow
from .nodes import Piece
from .shapes import need, window

Shape = tuple[int, ...]


def _rng(g: Grow) -> np.random.Generator:
    return np.random.default_rng(g.random.randrange(1 << 16))


def _axis(g: Grow, x: str) -> int:
    return g.pick(*range(len(g.shapes[x])))


def by_elements(g: Grow, x: str) -> str:
    """Other places along an axis for each number, known or fed."""
    shape, axis = g.shapes[x], _axis(g, x)
    d = shape[axis]
    taken = (*shape[:axis], g.pick(d, 1, 3), *shape[axis + 1 :])
    p = Piece(g, x)
    at = g.input(*taken, below=d) if g.chance(0.5) else p.const(_rng(g).integers(-d, d, taken), np.int64)
    return p.end(p("GatherElements", x, at, axis=axis), *taken)


def by_rows(g: Grow, x: str) -> str:
    """Parts by places of one axis or several, for each of the first axis or for all."""
    shape, rng = g.shapes[x], _rng(g)
    batch = g.pick(0, 0, 1)
    depth = g.pick(*range(1, len(shape) - batch))
    count = g.pick(1, 3, shape[batch])
    lead = (*shape[:batch], count)
    at = np.stack([rng.integers(-d, d, lead) for d in shape[batch : batch + depth]], -1)
    p = Piece(g, x)
    made = (*lead, *shape[batch + depth :])
    y = p.end(p("GatherND", x, p.const(at, np.int64), batch_dims=batch), *made)
    return y if depth == 1 else g.op("add", x, g.mean(y, *range(len(made))))


def scattered(g: Grow, x: str) -> str:
    """Numbers written, or added, at places of an axis."""
    shape, axis, how = g.shapes[x], _axis(g, x), g.pick("none", "none", "add", "mul", "max", "min")
    p = Piece(g, x, opset=18)
    d, rng = shape[axis], _rng(g)
    taken = (*shape[:axis], g.pick(1, d, max(1, d // 2)), *shape[axis + 1 :])
    if how == "none":  # each place once
        at = np.argsort(rng.random(shape), axis).take(range(taken[axis]), axis) - g.pick(0, d)
        indices = p.const(at, np.int64)
    else:
        indices = g.input(*taken, below=d) if g.chance(0.5) else p.const(rng.integers(-d, d, taken), np.int64)
    y = g.act(x)
    new = g.slice(y, axis, 0, taken[axis]) if taken[axis] < d else y
    return p.end(p("ScatterElements", g.gate(x), indices, new, axis=axis, reduction=how), *shape)


def scattered_rows(g: Grow, x: str) -> str:
    shape, how, rng = g.shapes[x], g.pick("none", "add", "mul", "max", "min"), _rng(g)
    depth = g.pick(*range(1, len(shape) + 1))
    places = int(np.prod(shape[:depth]))
    count = g.pick(*(c for c in (1, 2, 5) if c <= places))
    flat = rng.permutation(places)[:count] if how == "none" else rng.integers(0, places, count)
    at = np.stack(np.unravel_index(flat, shape[:depth]), -1)
    p = Piece(g, g.act(x), opset=18)
    new = g.const(count, *shape[depth:], kind="bias")
    return p.end(p("ScatterND", p.operands[0], p.const(at, np.int64), new, reduction=how), *shape)


def reversed_parts(g: Grow, x: str) -> str:
    """The first so many along one axis the other way round, for each of another axis."""
    shape = g.shapes[x]
    need(len(shape) > 1, "rank")
    batch, time = g.pick((0, 1), (1, 0))
    n, d = shape[batch], shape[time]
    p = Piece(g, x)
    if g.chance(0.5):
        lengths = p("Add", g.input(n, below=d), p.ints(1))
    else:
        lengths = p.const(_rng(g).integers(1, d + 1, n), np.int64)
    return p.end(p("ReverseSequence", x, lengths, batch_axis=batch, time_axis=time), *shape)


def largest(g: Grow, x: str) -> str:
    """The largest or the least few, in order; or what lies where they are."""
    shape, axis = g.shapes[x], _axis(g, x)
    k = g.pick(1, 2, shape[axis])
    need(k <= shape[axis], "too few")
    taken = (*shape[:axis], k, *shape[axis + 1 :])
    p = Piece(g, x)
    order = {"axis": axis, "largest": g.pick(0, 1)}
    if g.chance(0.5):
        return p.end(p("TopK", x, p.ints(k), outputs=2, **order)[0], *taken)
    dtype = g.pick(np.float32, np.int32, np.int8, np.int64, np.float64)
    best, at = p("TopK", p.whole(x, dtype), p.ints(k), outputs=2, **order)
    y = p("Add", p("GatherElements", x, at, axis=axis), p.cast(best, np.float32))
    return p.end(y, *taken)


def one_hot(g: Grow, x: str) -> str:
    """Marks at fed places, in a new axis that is the last, added."""
    shape = g.shapes[x]
    axis = _axis(g, x)
    rest, depth = (*shape[:axis], *shape[axis + 1 :]), shape[axis]
    p = Piece(g, x)
    values = p.const([0.25, 2])
    ids = g.input(*rest, below=depth + 2)
    ids = p("Sub", ids, p.ints(g.pick(0, 2)))
    return p.end(p("Add", x, p("OneHot", ids, p.ints(depth), values, axis=axis)), *shape)


def triangle(g: Grow, x: str) -> str:
    shape = g.shapes[x]
    need(len(shape) > 1, "rank")
    p = Piece(g, x)
    k = p.const(g.pick(-2, -1, 0, 0, 1, 3), np.int64) if g.chance(0.6) else p("Squeeze", g.input(1, below=3))
    return p.end(p("Trilu", x, k, upper=g.pick(0, 1)))


def unit_matrix(g: Grow, x: str) -> str:
    """A matrix of ones along a diagonal, as large as what is beside it."""
    shape = g.shapes[x]
    p = Piece(g, x)
    flat = p("Reshape", x, p.ints(shape[0], -1))
    y = p("Add", flat, p("EyeLike", flat, k=g.pick(-1, 0, 0, 1)))
    return p.end(p("Reshape", y, p.ints(*shape)))


def hard_max(g: Grow, x: str) -> str:
    p = Piece(g, x)
    y = p("Hardmax", p.whole(x, np.float32), axis=_axis(g, x))
    return p.end(p("Mul", x, y) if g.chance(0.5) else y)


def pooled_and_back(g: Grow, x: str) -> str:
    """What was largest goes back to where it was."""
    n, c, h, w = g.shapes[x]
    need(h % 2 == w % 2 == 0, "places count in the whole image")
    p = Piece(g, x)
    y, at = p("MaxPool", p.whole(x, np.float32), outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    y = p("Mul", p(g.pick("Relu", "Neg", "Abs"), y), p.const(0.5))
    return p.end(p("MaxUnpool", y, at, kernel_shape=[2, 2], strides=[2, 2]), n, c, h, w)


def cropped(g: Grow, x: str) -> str:
    """The middle, or what lies around it too."""
    shape = list(g.shapes[x])
    axes = sorted(g.random.sample(range(1, len(shape)), g.pick(*range(1, len(shape)))))
    for axis in axes:
        shape[axis] = max(1, shape[axis] + g.pick(-3, -1, 0, 2))
    p = Piece(g, x, opset=18)
    return p.end(p("CenterCropPad", x, p.ints(*(shape[a] for a in axes)), axes=axes), *shape)


def window_read(g: Grow, x: str) -> str:
    """A slice from a place that is fed."""
    shape = g.shapes[x]
    axis = g.pick(*(a for a, d in enumerate(shape) if d > 1))
    most = g.pick(1, shape[axis] // 2, shape[axis] - 1)
    p = Piece(g, x)
    start = g.input(1, below=shape[axis] - most + 1)
    y = p("Slice", x, start, p("Add", start, p.ints(most)), p.ints(axis))
    return p.end(y, *(most if a == axis else d for a, d in enumerate(shape)))


def backwards(g: Grow, x: str) -> str:
    """An axis the other way round, perhaps every second place."""
    shape, axis, step = g.shapes[x], _axis(g, x), g.pick(-1, -1, -2, -3)
    p = Piece(g, x)
    y = p("Slice", x, p.ints(-1), p.ints(-(1 << 30)), p.ints(axis), p.ints(step))
    return p.end(y, *(-(-d // -step) if a == axis else d for a, d in enumerate(shape)))


def cache(g: Grow, x: str) -> str:
    """Rows written into what is kept, from a place on that is fed for each."""
    n, *inner = g.shapes[x]
    need(len(inner) in (2, 3), "rank")
    time, p = len(inner) - 1, Piece(g, x, opset=24)
    length = inner[time - 1]
    kept = g.input(n, *inner[: time - 1], length + g.pick(0, 2, 5), *inner[time:])
    room = g.shapes[kept][time] - length
    mode = g.pick("linear", "circular")
    at = g.input(n, below=room + 1 if mode == "linear" else g.shapes[kept][time])
    return p.end(p("TensorScatter", kept, x, at, axis=time, mode=mode), *g.shapes[kept])


def boxes(g: Grow, x: str) -> str:
    """What is kept of boxes that lie over each other, marked."""
    shape = g.shapes[x]
    count = shape[-1]
    p = Piece(g, x)
    at, scores = g.input(1, count, 4), g.input(1, 1, count)
    most, limit, least = p.ints(g.pick(1, 3, count)), p.const(g.pick(0, 0.25, 0.5)), p.const(g.pick(-9, 0, 0.2))
    chosen = p("NonMaxSuppression", at, scores, most, limit, least, center_point_box=g.pick(0, 1))
    places = p("Gather", chosen, p.ints(2), axis=1)
    ones = p("Cast", p("Greater", p("Add", places, p.ints(1)), p.ints(0)), to=1)
    marks = p("ScatterND", p.const(np.zeros(count)), places, p("Squeeze", ones, p.ints(1)))
    return p.end(p("Mul", x, p("Add", marks, p.const(0.5))))


def sampled(g: Grow, x: str) -> str:
    """An image at places that are fed, or of a turned grid."""
    n, c, h, w = g.shapes[x]
    p = Piece(g, x, opset=20)
    rows, columns = g.pick(1, 3, h), g.pick(1, 2, w)
    if g.chance(0.5):
        grid = p("Mul", g.input(n, rows, columns, 2), p.const(0.7))
    else:
        grid = p("AffineGrid", g.input(n, 2, 3), p.ints(n, c, rows, columns),
                 align_corners=g.pick(0, min(rows, columns) > 1))  # fmt: skip  # of one place engines differ
    y = p("GridSample", x, grid, mode=g.pick("linear", "linear", "cubic"),
          padding_mode=g.pick("zeros", "border"), align_corners=g.pick(0, 1))  # fmt: skip
    return p.end(y, n, c, rows, columns)


def convolved(g: Grow, x: str) -> str:
    """By weights or a bias that are fed, or weights made of what they convolve."""
    n, c, *sizes = g.shapes[x]
    need(len(sizes) > 1, "rank")
    k, places = g.pick(1, 3), len(sizes)
    group, out = g.pick((1, g.channels()), (1, g.channels()), (c, c), (c, 2 * c), (2 - c % 2, 2 * g.channels()))
    p, fed = Piece(g, x), g.chance(0.25)
    bias = [g.input(out)] if fed else [g.const(out, kind="bias")] if g.chance(0.5) else []
    back = g.chance(0.3)
    shape = (c, out // group) if back else (out, c // group)
    if fed and g.chance(0.5):
        weights = g.const(*shape, *[k] * places)
    elif g.chance(0.6):
        weights = p("Mul", g.input(*shape, *[k] * places), p.const((c // group * k**places) ** -0.5))
    else:
        weights = p("Mul", g.const(*shape, *[k] * places), p("ReduceMean", p("Sigmoid", x), keepdims=0))
    if back:
        return p.end(p("ConvTranspose", x, weights, *bias, group=group, pads=[k // 2] * 2 * places), n, out, *sizes)
    dilations = [g.pick(1, 1, 2, 5)] * places
    a = {"strides": [g.pick(1, 1, 2)] * places, "dilations": dilations, "pads": [k // 2 * dilations[0]] * 2 * places}
    return p.end(p("Conv", x, weights, *bias, group=group, **a), n, out, *window(tuple(sizes), (k,) * places, a))


PLACES: tuple[Any, ...] = (
    by_elements, by_rows, scattered, scattered_rows, reversed_parts, largest, one_hot, triangle, unit_matrix, hard_max,
    cropped, window_read, backwards, boxes,
)  # fmt: skip
IMAGE_RARE = pooled_and_back, sampled, convolved, cache
SEQUENCE_RARE = (cache,)
