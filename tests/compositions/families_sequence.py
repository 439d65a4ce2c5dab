"""Blocks on sequences (N, T, C). Each gives a value of the same rank; Misfit when it does not fit there."""

from .grow import Grow


def around(g: Grow, x: str, y: str) -> str:
    """The sum, with a norm after it or none."""
    y = g.op("add", *g.random.sample([x, y], 2)) if g.shapes[x] == g.shapes[y] else y
    return g.layer_norm(y) if g.chance(0.4) else y


def norm(g: Grow, x: str) -> str:
    kind = g.pick("layer", "layer", "rms", "hand", "none")
    if kind == "layer":
        return g.layer_norm(x)
    if kind == "none":
        return x
    centered = x if kind == "rms" else g.op("sub", x, g.mean(x, 2))
    squares = g.op("mul", centered, centered) if g.chance(0.5) else g.op("square", centered)
    root = g.op("sqrt", g.op("add", g.mean(squares, 2), g.const(1, kind="half")))
    y = g.op("div", centered, root)
    return g.op("mul", y, g.const(g.shapes[x][2], kind="positive"))


def heads_of(g: Grow, x: str, heads: int) -> str:
    """N, heads, T, C / heads."""
    n, t, c = g.shapes[x]
    return g.transpose(g.reshape(x, n, t, heads, c // heads), 0, 2, 1, 3)


def attention(g: Grow, x: str) -> str:
    """Heads, fewer of keys than of queries perhaps; a mask, causal or not; a cache of what came before."""
    n, t, c = g.shapes[x]
    heads = g.pick(*(h for h in (1, 2, 4) if c % h == 0))
    shared = heads if g.chance(0.7) else 1
    width = c // heads
    y = norm(g, x)
    if shared == heads and g.chance(0.4):
        q, k, v = g.split(g.dense(y, 3 * c), c, c, c, axis=2)
    else:
        q, k, v = (g.dense(y, h * width) for h in (heads, shared, shared))
    q, k, v = heads_of(g, q, heads), heads_of(g, k, shared), heads_of(g, v, shared)
    if g.chance(0.25):
        past = g.pick(*g.palette.lengths)
        old = [g.input(n, shared, past, width) for _ in range(2)]
        if g.chance(0.3):
            old = [g.concat(each, axis=2) for each in old]
        k, v = (g.concat(each, part, axis=2) for each, part in zip(old, (k, v), strict=True))
        g.output(k)
        g.output(v)
    total = g.shapes[k][2]
    scores = g.op("matmul", q, g.transpose(k, 0, 1, 3, 2))
    scores = g.op("mul", scores, g.const(1, kind="half"))
    if g.chance(0.5):
        scores = g.op("add", scores, g.const(t, total, kind=g.pick("mask", "causal")))
    elif g.chance(0.3):
        scores = g.op("add", scores, g.input(n, 1, 1, total))
    elif g.chance(0.5):
        scores = positioned(g, scores)
    mixed = g.op("matmul", g.op("softmax", scores, axis=3), v)
    if g.chance(0.1):
        g.output(scores)
    y = g.reshape(g.transpose(mixed, 0, 2, 1, 3), n, t, c)
    return around(g, x, g.dense(y, c))


def positioned(g: Grow, scores: str) -> str:
    """Scores plus numbers of rows and of columns, while queries and keys are two axes each."""
    *lead, t, total = g.shapes[scores]
    down, high = (g.pick(*(s for s in (1, 2, 3, 4) if length % s == 0)) for length in (t, total))
    queries, keys = (down, t // down), (high, total // high)
    y = g.reshape(scores, *lead, *queries, *keys)
    for shape in ((keys[0], 1), (1, keys[1])):
        y = g.op("add", y, g.input(*lead, *queries, *shape))
    return g.reshape(y, *lead, t, total)


def feed_forward(g: Grow, x: str) -> str:
    c = g.shapes[x][2]
    wide = g.dense(norm(g, x), g.channels())
    bent = g.act(wide) if g.chance(0.8) else g.op("mul", wide, g.op("tanh", g.op("add", wide, g.op("cube", wide))))
    return around(g, x, g.dense(bent, c))


def gated(g: Grow, x: str) -> str:
    """Gated units: two dense layers, or one that is split."""
    c, wide = g.shapes[x][2], g.channels()
    y = norm(g, x)
    if g.chance(0.5):
        a, b = g.split(g.dense(y, 2 * wide), wide, wide, axis=2)
    else:
        a, b = g.dense(y, wide), g.dense(y, wide)
    opened = g.op("mul", g.gate(a) if g.chance(0.5) else g.act(a), b)
    return around(g, x, g.dense(opened, c))


def recurrent(g: Grow, x: str) -> str:
    _, _, c = g.shapes[x]
    kind, hidden = g.pick("lstm", "gru"), g.pick(c, *g.palette.channels)
    gates = 4 if kind == "lstm" else 3
    parameters = g.const(1, gates * hidden, c), g.const(1, gates * hidden, hidden), g.const(1, 2 * gates * hidden)
    y = g.op(kind, x, *parameters)
    return around(g, x, y)


def convolution(g: Grow, x: str) -> str:
    """Along the sequence: perhaps depthwise, perhaps with a gate."""
    n, t, c = g.shapes[x]
    y = g.reshape(g.transpose(norm(g, x), 0, 2, 1), n, c, 1, t)
    kernel = g.pick(*g.palette.kernels)
    y = g.conv(y, c, (1, kernel), group=g.pick(1, c))
    y = g.norm(y)
    y = g.act(y) if g.chance(0.7) else g.op("mul", y, g.gate(y))
    return around(g, x, g.transpose(g.reshape(y, n, c, t), 0, 2, 1))


def mixer(g: Grow, x: str) -> str:
    """A dense layer across the places."""
    _, t, _ = g.shapes[x]
    y = g.transpose(norm(g, x), 0, 2, 1)
    y = g.dense(g.act(g.dense(y, g.channels())), t)
    return around(g, x, g.transpose(y, 0, 2, 1))


def windows(g: Grow, x: str) -> str:
    """Attention within windows: views of views."""
    n, t, c = g.shapes[x]
    size = g.pick(*(s for s in (1, 2, 3, 4, 8) if t % s == 0))
    shift = g.pick(0, size // 2)
    y = g.concat(g.slice(x, 1, shift, t), g.slice(x, 1, 0, shift), axis=1) if shift else x
    if c % 2 == 0 and g.chance(0.5):  # heads before windows
        y = g.transpose(g.reshape(y, n, t // size, size, 2, c // 2), 0, 3, 1, 2, 4)
        scores = g.op("softmax", g.op("matmul", y, g.transpose(y, 0, 1, 2, 4, 3)), axis=4)
        y = g.reshape(g.transpose(g.op("matmul", scores, y), 0, 2, 3, 1, 4), n, t, c)
    else:
        y = g.reshape(y, n * t // size, size, c)
        scores = g.op("softmax", g.op("matmul", y, g.transpose(y, 0, 2, 1)), axis=2)
        y = g.reshape(g.op("matmul", scores, y), n, t, c)
    y = g.concat(g.slice(y, 1, t - shift, t), g.slice(y, 1, 0, t - shift), axis=1) if shift else y
    return around(g, x, y)


def rotary(g: Grow, x: str) -> str:
    """Halves turned by constant angles."""
    _, t, c = g.shapes[x]
    a, b = g.split(x, c // 2, c - c // 2, axis=2)
    turned = g.concat(g.op("neg", b), a, axis=2)
    cosines, sines = g.const(t, c, kind="bias"), g.const(t, c, kind="bias")
    return g.op("add", g.op("mul", x, cosines), g.op("mul", turned, sines))


SEQUENCE = (attention, attention, attention, feed_forward, gated, recurrent, convolution, mixer, windows, rotary)
