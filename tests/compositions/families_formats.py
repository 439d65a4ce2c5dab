"""Blocks of operators that TensorFlow Lite and Core ML have beside ONNX: rare_kinds.py."""

from typing import Any

from .grow import Grow
from .shapes import need


def taken(g: Grow, x: str) -> str:
    shape = g.shapes[x]
    need(len(shape) > 1, "rank")
    return g.op("take_each", x, g.input(shape[0], g.pick(shape[1], 1, 3), below=shape[1]))


def window(g: Grow, x: str) -> str:
    shape = g.shapes[x]
    axis = g.pick(*(a for a, d in enumerate(shape) if d > 1))
    size = g.pick(1, shape[axis] // 2, shape[axis] - 1)
    return g.op("window", x, g.input(1, below=shape[axis] - size + 1), axis=axis, size=size)


def updated(g: Grow, x: str) -> str:
    """Written over what may be read again, or no more."""
    shape = g.shapes[x]
    axis = g.pick(*(a for a, d in enumerate(shape) if d > 1))
    size = g.pick(1, shape[axis] // 2, shape[axis] - 1)
    part = g.act(g.slice(x, axis, 0, size))
    room = shape[axis] - size
    under = x if g.chance(0.4) else g.gate(x)
    if g.chance(0.5):
        return g.op("update", under, part, g.input(1, below=room + 1), axis=axis)
    return g.op("update", under, part, axis=axis, start=g.random.randint(0, room))


def diagonals(g: Grow, x: str) -> str:
    shape = g.shapes[x]
    need(len(shape) == 3, "matrices")
    if g.chance(0.5):
        return g.op("matmul", x, g.op("diagonal", g.mean(x, 1, keep=False)))
    d = min(shape[1:])
    row = g.mean(x, 3 - shape.index(d, 1), keep=False)
    return g.op("with_diagonal", g.act(x), row if g.shapes[row] == (shape[0], d) else g.slice(row, 1, 0, d))


def kept(g: Grow, x: str) -> str:
    """What is kept of boxes, one for each channel."""
    n = g.shapes[x][-1]
    marks = g.op("marks", g.input(n, 4), g.input(n), most=g.pick(1, 3, n), limit=g.pick(0.1, 0.25, 0.5),
                 least=g.pick(-9.0, 0.0, 0.2))  # fmt: skip
    return g.op("mul", x, marks)


def remembered(g: Grow, x: str) -> str:
    shape = g.shapes[x]
    need(len(shape) == 2, "one step")
    units, rank = g.channels(), g.pick(1, 2)
    return g.act(g.op("memory", x, g.const(units * rank, shape[1]), g.const(units * rank, g.pick(1, 4)),
                      g.const(units, kind="bias"), rank=rank))  # fmt: skip


def floored(g: Grow, x: str) -> str:
    return g.op("add", x, g.op("floor_div", x, by=g.pick(1, 2, 3, -2), rounds=1.0))


def sampled(g: Grow, x: str) -> str:
    n, _, h, w = g.shapes[x]
    return g.op("sample", x, g.op("tanh", g.input(n, g.pick(1, h), g.pick(2, w), 2)))


def cropped(g: Grow, x: str) -> str:
    _, _, h, w = g.shapes[x]
    size = g.pick(2, 3, h + 1), g.pick(2, 5)
    if g.chance(0.5):
        return g.op("crop", x, g.op("sigmoid", g.input(1, 4)), size=size)
    places = tuple(tuple(sorted(g.random.uniform(0, d - 1) for _ in range(2))) for d in (h, w))
    return g.op("crop", x, places=places, size=size)


def steps(g: Grow, x: str) -> str:
    """Whole numbers and quarters of what was computed: how many bounds it reached, or steps in few bits."""
    if g.chance(0.5):
        return g.op("fake_quant", x, rounds=4.0)
    bounds = tuple(sorted(g.pick(-1.5, -0.5, 0.5, 1.0, 2.5) for _ in range(g.pick(1, 2, 4))))
    return g.op("add", x, g.op("bucketize", x, boundaries=bounds, rounds=1.0))


def spectrum(g: Grow, x: str) -> str:
    y = g.op("spectrum", x, part=g.pick("ABS", "REAL", "IMAG"))
    return g.op("mul", y, g.op("reduce", g.gate(x), how="mean", axes=(len(g.shapes[x]) - 1,), keep=True))


def added_rows(g: Grow, x: str) -> str:
    shape, count = g.shapes[x], g.pick(1, 2, 4)
    places = tuple(g.random.randrange(shape[0]) for _ in range(count))
    return g.op("add_rows", x, g.const(count, *shape[1:], kind="bias"), places=places)


FORMATS: tuple[Any, ...] = (taken, window, updated, updated, kept, floored, steps, spectrum, added_rows)
BY_RANK: dict[int, tuple[Any, ...]] = {4: (sampled, cropped), 3: (diagonals,), 2: (remembered, remembered)}
