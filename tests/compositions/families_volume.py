"""Blocks on volumes (N, C, D, H, W): three-dimensional layers, and work on the images that a volume is made of."""

from .families_image import dense_block, excite, inverted, modern, residual
from .grow import Grow


def plain(g: Grow, x: str) -> str:
    """A window that need not be a cube, with a stride or holes, perhaps of groups, perhaps padded on one side."""
    k, c = g.pick(1, *g.palette.kernels), g.shapes[x][1]
    kernel = g.pick((k, k, k), (1, k, k), (k, 1, 1), (k, k, 1), (1, 1, k), (k, 1, k))
    stride, dilation = g.pick((1, 1), (1, 1), (2, 1), (1, 2))
    pads = tuple(g.pick(0, 0, 1, 2) for _ in range(6)) if g.chance(0.15) else None
    if c % 2 == 0 and g.chance(0.2):
        return g.layer(x, g.pick(c, 2 * c), kernel, stride=stride, dilation=dilation, pads=pads, group=2)
    return g.layer(x, g.channels(), kernel, stride=stride, dilation=dilation, pads=pads)


def factored(g: Grow, x: str) -> str:
    """Within the images first, then along them; a sum perhaps."""
    c = g.shapes[x][1]
    y = g.layer(x, g.channels(), (1, 3, 3))
    y = g.conv(y, c, (3, 1, 1))
    return g.act(g.combine(y, x) if g.chance(0.7) else y)


def depthwise(g: Grow, x: str) -> str:
    return g.act(g.norm(g.depthwise(x, stride=g.pick(1, 1, 2), dilation=g.pick(1, 1, 2))))


def transposed(g: Grow, x: str) -> str:
    k, s = g.pick((2, 2), (3, 2), (3, 1), (4, 2))
    sides, strides = g.pick(((k,) * 3, (s,) * 3), ((1, k, k), (1, s, s)), ((k, 1, 1), (s, 1, 1)))
    before = tuple((a - b) // 2 for a, b in zip(sides, strides, strict=True))
    after = tuple(a - b - p for a, b, p in zip(sides, strides, before, strict=True))
    c = g.shapes[x][1]
    out, each, more = g.pick((g.palette.channels[0],) * 2 + ({},), (c, 1, {"group": c}))
    inputs = [x, g.const(c, each, *sides), *([g.const(out, kind="bias")] if g.chance(0.5) else [])]
    return g.act(g.op("conv_transpose", *inputs, strides=strides, pads=(*before, *after), **more))


def pooled(g: Grow, x: str) -> str:
    kind = g.pick("max_pool", "max_pool", "average_pool", "average_pool", "lp_pool")
    kernel, stride, pad = g.pick((2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 1, 0))
    flat = g.chance(0.3)
    sides = {name: (same if flat else n, n, n)
             for name, n, same in (("kernel", kernel, 1), ("strides", stride, 1), ("pads", pad, 0))}  # fmt: skip
    sides["pads"] *= 2
    if kind == "max_pool" and g.chance(0.3):
        sides["dilations"] = (1 if flat else 2, 2, 2)
    return g.op(kind, x, **sides)


def branches(g: Grow, x: str) -> str:
    """Windows of several shapes side by side, a pool among them, joined along channels, or x along another axis."""
    if g.chance(0.3):
        axis = g.pick(0, 2, 3, 4)
        return g.concat(*g.random.sample([x, g.act(x), g.layer(x, g.shapes[x][1], 3)], 2), axis=axis)
    ways = [g.layer(x, g.channels(), kernel) for kernel in g.random.sample([1, 3, (3, 1, 1), (1, 3, 3)], g.pick(2, 3))]
    if g.chance(0.5):
        ways.append(g.op(g.pick("max_pool", "average_pool"), x, kernel=(3,) * 3, strides=(1,) * 3, pads=(1,) * 6))
    if g.chance(0.3):
        ways.append(x)
    y = g.concat(*ways)
    return g.layer(y, g.shapes[x][1], g.pick(1, 3)) if g.chance(0.4) else y


def u_shape(g: Grow, x: str) -> str:
    """Down, work, up again, beside what was there before; all axes, or within the images only."""
    flat = g.chance(0.3)
    step = (1, 2, 2) if flat else (2, 2, 2)
    skip = g.layer(x, g.channels(), 3)
    deep = g.layer(g.op(g.pick("max_pool", "average_pool"), skip, kernel=step, strides=step, pads=(0,) * 6),
                   g.channels(), 3)  # fmt: skip
    if g.chance(0.5):
        up = g.op("resize", deep, scale=step, mode=g.pick("nearest", "linear"))
    else:
        weights = g.const(g.shapes[deep][1], g.channels(), *step)
        up = g.op("conv_transpose", deep, weights, strides=step, pads=(0,) * 6)
    missing = [a - b for a, b in zip(g.shapes[x][2:], g.shapes[up][2:], strict=True)]
    if any(missing):
        up = g.op("pad", up, pads=(0,) * 7 + tuple(missing), mode=g.pick("constant", "edge"))
    y = g.concat(*g.random.sample([skip, up], 2))
    return g.layer(y, g.shapes[x][1], 3) if g.chance(0.6) else y


def frames(g: Grow, x: str) -> str:
    """The images of a volume one by one, as a batch; or beside one another in a tall one."""
    n, c, d, h, w = g.shapes[x]
    if g.chance(0.3):
        tall = g.layer(g.reshape(x, n, c, d * h, w), g.channels(), 3)
        return g.reshape(tall, n, g.shapes[tall][1], d, h, w)
    y = g.reshape(g.transpose(x, 0, 2, 1, 3, 4), n * d, c, h, w)
    y = g.layer(y, g.channels(), g.pick(1, 3)) if g.chance(0.6) else g.depthwise(y)
    _, c, h, w = g.shapes[y]
    return g.transpose(g.reshape(y, n, d, c, h, w), 0, 2, 1, 3, 4)


def shifted(g: Grow, x: str) -> str:
    """Some channels one image later, some earlier; the others stay."""
    c, d = g.shapes[x][1:3]
    one, rest = g.split(x, c // 2, c - c // 2)
    later = g.op("pad", g.slice(one, 2, 0, d - 1), pads=(0, 0, 1, *[0] * 7), mode="constant")
    if g.chance(0.5):
        rest = g.op("pad", g.slice(rest, 2, 1, d), pads=(*[0] * 7, 1, 0, 0), mode="constant")
    return g.layer(g.concat(later, rest), c, g.pick(1, 3))


def padded(g: Grow, x: str) -> str:
    pads = [0, 0, *(g.pick(0, 1, 2) for _ in range(3))]
    y = g.op("pad", x, pads=(*pads, *pads), mode=g.pick("constant", "constant", "reflect", "edge"))
    return g.layer(y, g.channels(), 3, pads=(0,) * 6, stride=g.pick(1, 2))


def normalized(g: Grow, x: str) -> str:
    c = g.shapes[x][1]
    weights = g.const(c, kind="positive"), g.const(c, kind="bias")
    if g.chance(0.5):
        return g.act(g.op("instance_norm", x, *weights))
    return g.act(g.op("group_norm", x, *weights, groups=g.pick(*(d for d in (1, 2, 4, c) if c % d == 0))))


def non_local(g: Grow, x: str) -> str:
    """Each place reads all places."""
    n, c, *sizes = g.shapes[x]
    places = sizes[0] * sizes[1] * sizes[2]
    q, k, v = (g.reshape(g.conv(x, c), n, c, places) for _ in "qkv")
    weights = g.op("softmax", g.op("matmul", g.transpose(q, 0, 2, 1), k), axis=2)
    y = g.transpose(g.op("matmul", weights, g.transpose(v, 0, 2, 1)), 0, 2, 1)
    return g.op("add", x, g.conv(g.reshape(y, n, c, *sizes), c))


def opened_up(g: Grow, x: str) -> str:
    """An image of a volume: two axes as one, or without the third."""
    n, c, d, h, w = g.shapes[x]
    match g.pick("depth", "tall", "channels", "row"):
        case "depth":
            return g.mean(x, 2, keep=False, how=g.pick("mean", "max"))
        case "tall":
            return g.reshape(x, n, c, d * h, w)
        case "channels":
            return g.reshape(x, n, c * d, h, w)
    return g.reshape(g.slice(x, 3, h - 1, h), n, c, d, w)


VOLUME = (
    plain, plain, plain, residual, residual, inverted, inverted, dense_block, factored, depthwise, transposed, pooled,
    pooled, excite, branches, branches, u_shape, u_shape, frames, shifted, padded, normalized, modern, non_local,
)  # fmt: skip
