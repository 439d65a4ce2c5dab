"""Blocks on images (N, C, H, W); some do for volumes. Each gives a value of the same rank; Misfit when it fits not."""

from .grow import Grow


def plain(g: Grow, x: str) -> str:
    kernel, (stride, dilation) = g.pick(1, *g.palette.kernels), g.pick((1, 1), (2, 1), (1, 2), (1, 2))
    pads = (g.pick(0, 4), g.pick(0, 1), g.pick(0, 1), g.pick(0, 4)) if g.chance(0.1) else None
    if g.chance(0.1):
        y = g.op("relu", g.conv(x, g.channels(), kernel, stride, dilation=dilation, pads=pads))
        return g.op(g.pick("mul", "add", "sub", "div"), y, g.const(1, kind="half"))
    return g.layer(x, g.channels(), kernel, stride=stride, dilation=dilation, pads=pads)


def transposed(g: Grow, x: str) -> str:
    kernel, stride = g.pick((2, 2), (3, 2), (4, 2), (3, 1))
    pad = (kernel - stride) // 2
    c, more = g.shapes[x][1], {}
    out = each = g.channels()
    if g.chance(0.4):
        more, out, each = {"group": c}, c, 1
    inputs = [x, g.const(c, each, kernel, kernel), *([g.const(out, kind="bias")] if g.chance(0.5) else [])]
    pads = (pad, pad, kernel - stride - pad, pad)
    y = g.act(g.op("conv_transpose", *inputs, strides=(stride,) * 2, pads=pads, **more))
    return g.op("add", y, g.input(*g.shapes[y])) if g.chance(0.2) else y  # an encoder's map


def pooled(g: Grow, x: str) -> str:
    kind = g.pick("max_pool", "max_pool", "average_pool", "average_pool", "lp_pool")
    kernel, stride, pad = g.pick((2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 1, 0))
    if kind == "max_pool" and g.chance(0.4):
        return g.op(kind, x, kernel=(kernel,) * 2, strides=(stride,) * 2, pads=(pad,) * 4, dilations=(2, 2))
    return g.op(kind, x, kernel=(kernel,) * 2, strides=(stride,) * 2, pads=(pad,) * 4)


def residual(g: Grow, x: str) -> str:
    """Activations before or after, sums in either order, a projection or none, perhaps a second sum."""
    c = g.shapes[x][1]
    before = g.act(g.norm(x)) if g.chance(0.3) else x
    y = g.conv(g.layer(before, g.pick(c, *g.palette.channels), g.pick(1, 3)), c, g.pick(1, 3))
    short = g.pick(x, x, before) if g.chance(0.8) else g.conv(x, c, 1)
    y = g.norm(y) if g.chance(0.5) else g.act(y)
    y = g.op("add", *((y, short) if g.chance(0.5) else (short, y)))
    if g.chance(0.2):
        y = g.combine(y, g.pick(x, before))
    return g.act(y) if g.chance(0.6) else y


def inverted(g: Grow, x: str) -> str:
    """1x1, depthwise, 1x1; the sum may read any map on the way, and stand anywhere."""
    c = g.shapes[x][1]
    wide = c if g.chance(0.4) else g.pick(*(w for w in g.palette.channels if w >= c), 2 * c)
    kernel, stride = g.pick(*g.palette.kernels), g.pick(1, 1, 1, 2)
    e = g.layer(x, wide, 1) if g.chance(0.85) else x
    d = g.norm(g.depthwise(e, kernel, stride, g.pick(1, 1, 1, 2)))
    d = d if g.chance(0.2) else g.act(d)
    maps = [x, e, d]
    if g.chance(0.25):
        d = g.attempt(lambda g, d: g.act(g.op("add", *g.random.sample([d, g.pick(*maps)], 2))), d)
    if g.chance(0.15):
        d = excite(g, d)
    y = g.conv(d, c if g.chance(0.6) else wide, 1) if g.chance(0.85) else d
    maps += [d, y]
    if g.chance(0.7):
        y = g.attempt(lambda g, y: g.combine(y, g.pick(*maps)), y)
    if g.chance(0.2):
        g.output(g.pick(*maps))
    return g.act(y) if g.chance(0.3) else y


def excite(g: Grow, x: str) -> str:
    """Squeeze and excite, with convolutions or dense layers."""
    n, c, *sizes = g.shapes[x]
    narrow = g.pick(*g.palette.channels)
    squeezed = g.mean(x, *range(2, 2 + len(sizes)), how=g.pick("mean", "mean", "max"))
    if g.chance(0.5):
        scale = g.gate(g.conv(g.act(g.conv(squeezed, narrow)), c))
    else:
        flat = g.reshape(squeezed, n, c)
        scale = g.reshape(g.gate(g.dense(g.act(g.dense(flat, narrow)), c)), n, c, *(1 for _ in sizes))
    return g.op("mul", *((x, scale) if g.chance(0.7) else (scale, x)))


def spatial_gate(g: Grow, x: str) -> str:
    """Attention by place: mean and maximum over channels, a convolution, a gate."""
    both = g.concat(g.mean(x, 1), g.mean(x, 1, how="max"))
    return g.op("mul", x, g.gate(g.conv(both, 1, 3)))


def dense_block(g: Grow, x: str) -> str:
    growth, maps = g.channels(), [x]
    for _ in range(g.pick(2, 3)):
        so_far = maps[0] if len(maps) == 1 else g.concat(*maps)
        maps.append(g.layer(so_far, growth, g.pick(1, 3)))
    return g.concat(*(maps if g.chance(0.7) else maps[::-1]))


def branches(g: Grow, x: str) -> str:
    """Inception: several ways, side by side; perhaps x itself among them, or one of them twice."""
    ways = [g.layer(x, g.channels(), kernel) for kernel in g.random.sample([1, 3, *g.palette.kernels], g.pick(2, 3))]
    if g.chance(0.4):
        ways.append(g.op(g.pick("max_pool", "average_pool"), x, kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1)))
    if g.chance(0.3):
        ways.append(x)
    if g.chance(0.2):
        ways.append(ways[0])
    return g.act(g.concat(*ways)) if g.chance(0.3) else g.concat(*ways)


def u_shape(g: Grow, x: str) -> str:
    """Down, work, up again, beside what was there before."""
    n, c, h, w = g.shapes[x]
    skip = g.layer(x, g.channels(), 3)
    down = (
        g.op("max_pool", skip, kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0))
        if g.chance(0.6)
        else (g.conv(skip, g.channels(), 3, 2))
    )
    deep = g.layer(down, g.channels(), 3)
    if g.chance(0.5):
        up = g.op("resize", deep, scale=(2, 2), mode=g.pick("nearest", "linear"))
    else:
        up = transposed_by_two(g, deep)
    _, _, uh, uw = g.shapes[up]
    if (uh, uw) != (h, w):
        need = (h - uh, w - uw)
        if min(need) >= 0:
            up = g.op("pad", up, pads=(0, 0, 0, 0, 0, 0, *need), mode=g.pick("constant", "edge"))
        else:
            up = g.slice(g.slice(up, 2, 0, h), 3, 0, w)
    y = g.concat(*g.random.sample([skip, up], 2))
    return g.layer(y, c, 3) if g.chance(0.6) else y


def transposed_by_two(g: Grow, x: str) -> str:
    weights = g.const(g.shapes[x][1], g.channels(), 2, 2)
    return g.op("conv_transpose", x, weights, strides=(2, 2), pads=(0, 0, 0, 0))


def shuffle(g: Grow, x: str, groups: int = 2) -> str:
    n, c, h, w = g.shapes[x]
    y = g.transpose(g.reshape(x, n, groups, c // groups, h, w), 0, 2, 1, 3, 4)
    return g.reshape(y, n, c, h, w)


def shuffle_unit(g: Grow, x: str) -> str:
    """Half of the channels go on, half through a branch; then shuffled."""
    c = g.shapes[x][1]
    left, right = g.split(x, c // 2, c - c // 2)
    right = g.layer(g.norm(g.depthwise(g.layer(right, c - c // 2))), c - c // 2)
    y = g.concat(left, right)
    return shuffle(g, y, g.pick(2, 2, 4)) if g.chance(0.8) else y


def parts_in_turn(g: Grow, x: str) -> str:
    """Split, transform, merge: each part sees the sum with the one before it."""
    c = g.shapes[x][1]
    size = c // g.pick(2, 3, 4)
    pieces = g.split(x, size, *([size] if 2 * size < c else []), c - size * (2 if 2 * size < c else 1))
    done, carry = [], None
    for piece in pieces:
        width = g.shapes[piece][1]
        if carry is not None and g.shapes[carry] == g.shapes[piece]:
            piece = g.op("add", piece, carry)
        carry = piece if g.chance(0.2) else g.layer(piece, width, 3)
        done.append(carry)
    y = g.concat(*done)
    return g.op("add", y, x) if g.chance(0.5) else g.act(y)


def grouped(g: Grow, x: str) -> str:
    c = g.shapes[x][1]
    groups = g.pick(2, 4, c)
    y = g.act(g.conv(x, groups * g.pick(1, 2, 4, 8), 3, group=groups))
    return g.op("add", g.conv(y, c), x) if g.chance(0.5) else y


def upscale(g: Grow, x: str) -> str:
    """A head that turns channels into pixels, or the other way round; or interpolates."""
    if g.chance(0.3):
        return g.conv(g.op("resize", x, scale=g.pick((2, 2), (1, 3)), mode=g.pick("linear", "linear", "nearest")), 4)
    if g.chance(0.4):
        return g.layer(g.op("space_to_depth", x, block=2), g.channels(), 1)
    y = g.conv(x, 4 * g.pick(1, 3, *g.palette.channels[:1]), 3)
    return g.act(g.op("depth_to_space", y, block=2, mode=g.pick("DCR", "CRD")))


def focus(g: Grow, x: str) -> str:
    """Every second pixel, four times, beside each other."""
    _, _, h, w = g.shapes[x]
    rows = [g.slice(x, 2, i, h - h % 2, 2) for i in (0, 1)]
    return g.layer(g.concat(*(g.slice(r, 3, j, w - w % 2, 2) for r in rows for j in (0, 1))), g.channels(), 3)


def pools_in_turn(g: Grow, x: str) -> str:
    """Spatial pyramid pooling, fast: pools of pools, all beside each other."""
    x = g.layer(x, g.channels())
    maps, holes = [x], {"dilations": (2, 2)} if g.chance(0.2) else {}
    for _ in range(g.pick(2, 3)):
        pads = (2,) * 4 if holes else (1,) * 4
        maps.append(g.op("max_pool", maps[-1], kernel=(3, 3), strides=(1, 1), pads=pads, **holes))
    return g.layer(g.concat(*maps), g.channels())


def pyramid(g: Grow, x: str) -> str:
    """Three levels, joined from the top down, with heads of their own."""
    width = g.channels()
    levels = [x]
    for _ in range(2):
        levels.append(g.layer(levels[-1], g.channels(), 3, stride=2))
    top, heads = g.conv(levels[-1], width), []
    for level in levels[-2::-1]:
        heads.append(top)
        up = g.op("resize", top, scale=(2, 2), mode="nearest")
        _, _, h, w = g.shapes[level]
        up = g.slice(g.slice(up, 2, 0, h), 3, 0, w) if g.shapes[up][2:] != (h, w) else up
        top = g.op("add", g.conv(level, width), up)
    for head in heads:
        g.output(g.conv(head, g.pick(1, 4, width), 3) if g.chance(0.7) else head)
    return g.act(top)


def gated(g: Grow, x: str) -> str:
    """Half of the channels open and close the others."""
    c = g.channels()
    a, b = g.split(g.conv(x, 2 * c, g.pick(1, 3)), c, c)
    return g.op("mul", *g.random.sample([a if g.chance(0.5) else g.op("tanh", a), g.gate(b)], 2))


def modern(g: Grow, x: str) -> str:
    """Depthwise, layer norm and two dense layers with channels last, a scale per channel, a sum."""
    c, last = g.shapes[x][1], len(g.shapes[x]) - 1
    y = g.transpose(g.depthwise(x, 5 if 5 in g.palette.kernels else 3), 0, *range(2, last + 1), 1)
    y = g.dense(g.act(g.dense(g.layer_norm(y), 2 * c)), c)
    if g.chance(0.6):
        y = g.op("mul", y, g.const(c, kind="bias"))
    return g.op("add", x, g.transpose(y, 0, last, *range(1, last)))


def padded(g: Grow, x: str) -> str:
    """A pad of its own before a layer."""
    t, l, b, r = (g.pick(0, 1, 2) for _ in range(4))  # noqa: E741
    y = g.op("pad", x, pads=(0, 0, t, l, 0, 0, b, r), mode=g.pick("constant", "constant", "reflect", "edge"))
    if g.chance(0.2):
        return g.op("max_pool", y, kernel=(2, 2), strides=(2, 2), pads=(0,) * 4)
    return g.layer(y, g.channels(), 3, pads=(0, 0, 0, 0), stride=g.pick(1, 2))


def normalized(g: Grow, x: str) -> str:
    """Normalization of instances or groups."""
    n, c, h, w = g.shapes[x]
    if g.chance(0.3):
        groups = g.pick(*(d for d in (1, 2, 4, c) if c % d == 0))
        y = g.op("group_norm", x, g.const(c, kind="positive"), g.const(c, kind="bias"), groups=groups)
    elif g.chance(0.5) or c % 2:
        y = g.op("instance_norm", x, g.const(c, kind="positive"), g.const(c, kind="bias"))
    else:
        rows = g.reshape(g.conv(x, c) if g.chance(0.5) else x, n, 2, c // 2 * h * w, *g.pick((1,), ()))
        y = g.op("instance_norm", rows, g.const(2, kind="one"), g.const(2, kind="zero"))
        y = g.op("mul", g.reshape(y, n, c, h, w), g.const(c, 1, 1, kind="positive"))
    return g.act(y)


IMAGE = (
    plain, plain, transposed, pooled, residual, residual, inverted, inverted, inverted, excite, spatial_gate,
    dense_block, branches, u_shape, shuffle_unit, parts_in_turn, grouped, upscale, focus, pools_in_turn, pyramid, gated,
    modern, padded, normalized,
)  # fmt: skip
