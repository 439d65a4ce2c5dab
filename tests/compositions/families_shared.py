"""Blocks that read the same constants several times: in other operators, along other windows, on other values."""

from collections.abc import Callable

from .grow import Grow
from .shapes import need

Block = Callable[[Grow, str], str]


def joined(g: Grow, x: str, *others: str) -> str:
    """The first of several results, to which the others are added as far as they fit, or are outputs."""
    for y in others:
        small = g.mean(y, *range(2, len(g.shapes[y]))) if len(g.shapes[y]) > 2 else y
        before, x = x, g.attempt(lambda g, x, y=small: g.op("add", x, y), x)  # type: ignore[misc]
        if x == before or g.shapes[x] != g.shapes[before] or g.chance(0.3):
            x = before
            g.output(y)
    return x


def windows(g: Grow, x: str) -> str:
    """Convolutions with the same weights and other strides, dilations, paddings, and groups."""
    c, out = g.shapes[x][1], g.pick(1, 2, 2, 3, 4, g.channels())
    kernel = g.pick((3, 3), (1, 1), (5, 5), (1, 3), (3, g.pick(*g.palette.kernels)))
    group = g.pick(1, 1, 1, c) if c < 9 else 1
    out = c if group == c else out
    w, b = g.const(out, c // group, *kernel), g.const(out, kind="bias")
    made = []
    for i in range(g.pick(2, 3, 3)):
        dilation, shift = g.pick(1, 1, 1, 1, 2), g.pick(0, 0, 1)
        strides = (1, 1) if i == 0 else g.pick((1, 2), (1, 4), (2, 1), (2, 2), (1, 1), (1, 3))
        before = [min((k - 1) * dilation // 2 + shift, k - 1) for k in kernel]
        pads = (*before, *((k - 1) * dilation - p if i == 0 else p for k, p in zip(kernel, before, strict=True)))
        inputs = [g.act(x) if g.chance(0.2) else x, w, *([b] if g.chance(0.9) else [])]
        y = g.op("conv", *inputs, strides=strides, pads=pads, dilations=(dilation,) * 2, group=group)
        made.append(g.act(y) if g.chance(0.4) else y)
    return joined(g, *made)


def kinds_of_windows(g: Grow, x: str) -> str:
    """The weights of a convolution in one with groups, in one channel by channel, and in a transposed one."""
    c, k = g.shapes[x][1], g.pick(1, 2, 3)
    out = g.pick(2, 4, c)
    w = g.const(out, c, k, k)
    how = {"strides": g.pick((1, 1), (1, 1), (1, 2)), "pads": (k // 2,) * 4}
    same = {**how, "dilations": (1, 1)}
    y = g.op("conv", x, w, **same, group=1)
    made = [g.op("conv", g.concat(x, g.act(x)), w, **same, group=2)]
    made.append(g.op("conv_transpose", y, w, **how))
    if g.chance(0.5):
        deep = g.const(c, 1, k, k)
        one = g.mean(x, 1)
        made += [g.op("conv", x, deep, **same, group=c), g.op("conv", one, deep, **same, group=1)]
    return joined(g, y, *g.random.sample(made, g.pick(1, 2)))


def words(g: Grow, x: str) -> str:
    """Numbers of words, that are looked up, what is likely the next, and the mean of what may come."""
    n, t, c = g.shapes[x]
    table = g.const(g.pick(5, 17), c, kind="bias")
    count = g.shapes[table][0]
    y = g.op("add", x, g.op("gather", table, g.input(n, t, below=count), axis=0))
    scores = g.dense(y, count)
    if g.chance(0.3):
        return scores
    return g.op("add", y, g.op("dense", g.op("softmax", scores, axis=2), table, gemm=False))


def there_and_back(g: Grow, x: str) -> str:
    """A dense layer, and its transpose; perhaps a second time on what comes out."""
    c, out = g.shapes[x][-1], g.channels()
    for _ in range(g.pick(1, 2)):
        x = g.dense(g.act(g.dense(x, out)), c)
    return x


def heads(g: Grow, x: str) -> str:
    """What asks and what is asked are seen alike; a norm before, the same after."""
    n, t, c = g.shapes[x]
    y = g.layer_norm(x)
    q, k, v = (g.dense(y, c, bias=True) for _ in range(3))
    mixed = g.op("matmul", g.op("softmax", g.op("matmul", q, g.transpose(k, 0, 2, 1)), axis=2), v)
    return g.layer_norm(g.op("add", x, g.dense(mixed, c)))


def cells(g: Grow, x: str) -> str:
    """A cell on a sequence, then on what it made, or on the sequence in reverse."""
    c = g.shapes[x][2]
    kind = g.pick("lstm", "lstm", "gru")
    gates = 4 if kind == "lstm" else 3
    made = [x]
    for _ in range(2):
        parameters = g.const(1, gates * c, c), g.const(1, gates * c, c), g.const(1, 2 * gates * c)
        given = g.pick(made[-1], g.act(x))
        made.append(g.op(kind, given, *parameters))
    return joined(g, *made[:0:-1])


def twice(g: Grow, x: str, block: Block) -> str:
    """A block with all of its constants on two or three values: on its own result, or side by side."""
    state, g.ties.asked, count = g.random.getstate(), [], len(g.net.ops)
    y = before = block(g, x)
    need(y != x and len(g.net.ops) - count < 12, "no block, or a large one")
    asked = g.ties.asked
    for _ in range(g.ties.random.choice([1, 1, 1, 2])):
        alike = g.shapes[before] == g.shapes[x]
        after = g.random.getstate()
        other = before if alike and g.ties.chance(0.6) else sibling(g, x)
        g.random.setstate(state)
        g.ties.replayed = list(asked)
        y = block(g, other)
        g.ties.replayed = []
        g.random.setstate(after)
        before = y if other == before or y == other else joined(g, y, before)
    return before


def sibling(g: Grow, x: str) -> str:
    """Another value of the shape."""
    return g.input(*g.shapes[x]) if g.ties.chance(0.6) else g.op("neg", x)


EACH = (there_and_back,)
BY_RANK = {2: EACH, 3: (words, heads, cells, *EACH), 4: (windows, windows, windows, kinds_of_windows)}


def shared(g: Grow, x: str, block: Block) -> str:
    """One of these, or a block twice."""
    families = BY_RANK.get(len(g.shapes[x]), EACH)
    if g.ties.chance(0.35):
        return twice(g, x, block)
    with g.ties.tight():
        return g.ties.random.choice(families)(g, x)
