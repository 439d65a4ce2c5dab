"""Blocks on values of any rank: views of views, chains in place, values with many readers, rare operators."""

from .grow import Grow
from .shapes import TESTS


def in_place(g: Grow, x: str) -> str:
    """A chain of elementwise steps of which some are read again."""
    kept, y = [x], x
    for _ in range(g.pick(2, 3, 5)):
        kind = g.pick("act", "act", "gate", "constant", "binary", "select", "select")
        if kind == "act":
            y = g.act(y)
        elif kind == "gate":
            y = g.gate(y)
        elif kind == "constant":
            shape = g.shapes[y]
            part = g.pick((1,), (1,) * len(shape), shape[-1:], (shape[1], *[1] * (len(shape) - 2)), shape)
            c = g.const(*part, kind="half" if max(part) == 1 else "positive")
            y = g.op(g.pick(*g.palette.binaries, "div", "prelu"), y, c)
        elif kind == "binary":
            y = g.combine(y, g.pick(*kept))
        else:
            y = g.op("select", g.pick(*kept), y, g.pick(*kept), test=g.pick(*TESTS))
        kept.append(y)
    if g.chance(0.3):
        g.output(g.pick(*kept))
    return y


def cut_and_joined(g: Grow, x: str) -> str:
    """Parts of parts, put together again in some order, along any axis."""
    shape = g.shapes[x]
    axis = g.pick(*(i for i, d in enumerate(shape) if d > 1))
    cut = g.pick(1, shape[axis] // 2, shape[axis] - 1)
    a, b = g.split(x, cut, shape[axis] - cut, axis=axis)
    if g.chance(0.5):
        a = g.op(g.pick("relu", "sigmoid", "neg"), a)
    if g.shapes[b][axis] > 1 and g.chance(0.4):
        b = g.concat(*g.split(b, 1, g.shapes[b][axis] - 1, axis=axis)[::-1], axis=axis)
    y = g.concat(*g.random.sample([a, b], 2), axis=axis)
    if g.chance(0.2):
        g.output(g.pick(a, b))
    return y


def overlapping(g: Grow, x: str) -> str:
    """Differences of neighbors: slices that lie over each other."""
    shape = g.shapes[x]
    axis = g.pick(*(i for i, d in enumerate(shape) if d > 2))
    d = shape[axis]
    a, b = g.slice(x, axis, 1, d), g.slice(x, axis, 0, d - 1)
    y = g.combine(a, b)
    pads = [0] * (2 * len(shape))
    pads[axis] = 1
    return g.op("pad", y, pads=tuple(pads), mode="constant")


def turned(g: Grow, x: str) -> str:
    """Transposed, worked on, transposed back: or not quite."""
    rank = len(g.shapes[x])
    perm = g.random.sample(range(rank), rank)
    y = g.act(g.transpose(x, *perm))
    if g.chance(0.3):
        y = g.op("softmax", y, axis=g.pick(*range(rank)))
    return g.transpose(y, *(perm.index(i) for i in range(rank)))


def regrouped(g: Grow, x: str) -> str:
    """Flattened, worked on, and given its shape back."""
    shape = g.shapes[x]
    flat = g.reshape(x, shape[0], -1 if 0 in shape else _rest(shape))
    y = g.act(flat)
    if g.chance(0.3):
        y = g.op("mul", y, flat)
    return g.reshape(y, *shape)


def _rest(shape: tuple[int, ...]) -> int:
    size = 1
    for d in shape[1:]:
        size *= d
    return size


def centered(g: Grow, x: str) -> str:
    """What a reduction gives, spread over what was reduced."""
    rank = len(g.shapes[x])
    axes = tuple(sorted(g.random.sample(range(1, rank), g.pick(*range(1, rank)))))
    how = g.pick("mean", "max", "min", "min", "sum", "sum", "l1", "l2", "sum_square", "log_sum_exp", "prod", "log_sum")
    if how == "log_sum":
        return g.op("sub", x, g.mean(g.op("abs", g.op("add", x, g.const(1, kind="one"))), *axes, how=how))
    return g.op("sub", x, g.mean(x, *axes, how=how))


def picked(g: Grow, x: str) -> str:
    """Some places along an axis, by constant indices."""
    axis = g.pick(*range(1, len(g.shapes[x])))
    d = g.shapes[x][axis]
    return g.op("gather", x, axis=axis, indices=tuple(g.random.randrange(d) for _ in range(g.pick(d, 1, 3))))


def rare(g: Grow, x: str) -> str:
    """Operators without kernels, between some with."""
    rank = len(g.shapes[x])
    y = g.op("cumsum", x, axis=g.pick(*range(rank))) if g.chance(0.5) else g.op("log_softmax", x, axis=rank - 1)
    return g.op("tanh", y)


def spread(g: Grow, x: str) -> str:
    """A row or a place of numbers, added after it was expanded or repeated."""
    shape = g.shapes[x]
    row = g.mean(x, *range(1, len(shape) - 1))
    if g.chance(0.5):
        return g.op("add", x, g.op("expand", row, shape=shape))
    return g.op("add", x, g.op("tile", row, repeats=(1, *shape[1:-1], 1)))


def totals(g: Grow, x: str) -> str:
    """Several operands at once; the same one twice, or one alone."""
    ways = [x, g.act(x), g.gate(x)][: g.pick(1, 2, 3, 3)]
    how = g.pick("sum", "mean", "max", "min", "concat")
    if how == "concat":
        return g.concat(*ways[:2], axis=g.pick(*range(1, len(g.shapes[x]))))
    return g.op("total", *ways, *g.random.sample(ways, g.pick(0, 1)), how=how)


def chosen(g: Grow, x: str) -> str:
    """One or the other, by a test of a value."""
    return g.op("select", x, g.act(x), g.gate(x), test=g.pick(*TESTS))


def extremes(g: Grow, x: str) -> str:
    """What a value is more, or less, than another one's extremes, or its sum."""
    axes = tuple(sorted(g.random.sample(range(1, len(g.shapes[x])), 1)))
    y = g.act(x)
    return g.op("sub", y, g.mean(y, *axes, how=g.pick("min", "max", "sum")))


def places(g: Grow, x: str) -> str:
    """Where the largest is, as another output."""
    g.output(g.op("arg", x, how=g.pick("max", "min"), axis=g.pick(*range(1, len(g.shapes[x])))))
    return g.act(x)


ANY = (
    in_place,
    in_place,
    cut_and_joined,
    cut_and_joined,
    overlapping,
    turned,
    regrouped,
    centered,
    picked,
    rare,
    spread,
    totals,
    places,
    chosen,
    extremes,
)
