"""The composition of a seed: some blocks one after the other, heads, and outputs where one does not expect them."""

import random
from typing import Any

import numpy as np

from . import families_flow, families_formats, families_fused, families_places, families_written
from .composition import Composition
from .families_flow import FLOW
from .families_formats import FORMATS
from .families_fused import FUSED
from .families_image import IMAGE
from .families_moving import ANY
from .families_places import PLACES
from .families_sequence import SEQUENCE
from .families_shared import shared
from .families_types import TYPES
from .families_volume import VOLUME, opened_up
from .families_written import WRITTEN
from .grow import LIMIT, Grow, Palette
from .shapes import Misfit, need

SHARED = 0.15
"""How often a block is one with constants that are read several times."""

VOLUMES = 0.08
"""How often a composition begins with a volume."""

CONVOLVED = 0.15
"""How often a composition of operators that only ONNX has begins with a convolution whose weights are computed."""

SEEDS = 250
"""Consecutive seeds that share a palette, unless told otherwise."""


def draw(seed: int, palette: int | None = None) -> Composition:
    """Always the same for a seed and the number of a palette."""
    g = Grow(seed, Palette.of(seed // SEEDS if palette is None else palette))
    first = g.pick(image, image, image, sequence, sequence, vector)
    x = (volume if random.Random(f"volume {seed}").random() < VOLUMES else first)(g)
    blocks, rare = g.pick(1, 2, 2, 3, 3, 4), g.pick(*KINDS)
    if rare is ONNX_ONLY and random.Random(f"convolved {seed}").random() < CONVOLVED:
        x = g.attempt(families_places.convolved, x)
    while blocks > 0:
        kinds = rare if g.chance(0.6) else {}
        y = g.attempt(lambda g, x: shared(g, x, block), x) if g.ties.chance(SHARED) else x
        blocks -= 1 if y == x else 2
        x = block(g, x, kinds) if y == x else y
        if g.chance(0.15):
            x = g.attempt(bridge, x)
    finish(g, x)
    return g.net.prune()


def image(g: Grow) -> str:
    p = g.palette
    n, c, h, w = g.pick(1, 1, *p.batches), g.channels(), g.pick(*p.sizes), g.pick(*p.sizes)
    return g.input(n if n * c * h * w <= LIMIT // 2 else 1, c, h, w)


def volume(g: Grow) -> str:
    """Or slices of a volume, frames of a video."""
    n, c, *sizes = g.pick(*g.palette.batches), g.channels(), *(g.pick(2, 3, 5, *g.palette.sizes) for _ in range(3))
    while n * c * np.prod(sizes) > LIMIT // 2:
        n, sizes = 1, [-(-d // 2) for d in sizes]
    return g.input(n, c, *sizes)


def sequence(g: Grow) -> str:
    n, t, c = g.pick(1, *g.palette.batches), g.pick(*g.palette.lengths), g.channels()
    if g.chance(0.2):
        words = g.const(g.pick(5, 17), c, kind="bias")
        ids = g.input(n, t, below=g.shapes[words][0])
        return g.op("gather", words, ids, axis=0)
    return g.input(n, t, c)


def vector(g: Grow) -> str:
    return g.act(g.dense(g.input(g.pick(*g.palette.batches), g.channels()), g.channels()))


def block(g: Grow, x: str, rare: dict[int, tuple[Any, ...]] | None = None) -> str:
    """One of the families that fit, in several tries."""
    rank = len(g.shapes[x])
    families = {5: VOLUME, 4: IMAGE, 3: SEQUENCE}.get(rank, (dense_unit,))
    for _ in range(4):
        if rare:
            y = g.attempt(g.pick(*rare[0], *rare.get(rank, ())), x)
        else:
            y = g.attempt(g.pick(*ANY) if g.chance(0.33) else g.pick(*families), x)
        if y != x:
            return y
    return x


def inside(g: Grow, x: str) -> str:
    """Blocks in branches, in the rounds of a loop, or along a sequence that is fed."""
    shape = g.shapes[x]
    need(g.depth < 3, "deep enough")
    how = g.pick("if", "loop", "scan", "calls") if not g.depth else "loop"
    nets = tuple(_inner(g, shape) for _ in range(2 if how == "if" else 1))
    if how == "if":
        return g.op("inside", g.input(1, below=2), x, how=how, nets=nets)
    if how in ("loop", "calls"):
        return g.op("inside", x, how=how, nets=nets, trips=g.pick(0, 1, 2, 3) if how == "loop" else 2)
    axis = g.pick(*range(len(shape) + 1))
    rows = g.input(*shape[:axis], g.pick(1, 2, 3), *shape[axis:])
    return g.op("inside", x, rows, how=how, nets=nets, axis=axis)


def _inner(g: Grow, shape: tuple[int, ...]) -> Composition:
    """Blocks whose result has the operand's shape, and which need nothing else."""
    for _ in range(12):
        inner = Grow(g.random.randrange(1 << 30), g.palette, g.depth + 1)
        inner.ties.outer = [*g.net.consts.values(), *g.ties.outer]
        x = y = inner.input(*shape)
        for _ in range(g.pick(1, 2)):
            made = block(inner, y, {0: (inside,)} if g.chance(0.15) else None)
            y = made if inner.shapes[made] == shape else y
        if y != x and len(inner.net.inputs) == 1 and not inner.net.outputs:
            inner.output(y if g.chance(0.5) else inner.op("tanh", y))
            return inner.net.prune()
    raise Misfit("no block keeps the shape")


def dense_unit(g: Grow, x: str) -> str:
    """On vectors: a layer, with a sum perhaps."""
    y = g.act(g.dense(x, g.channels()))
    return g.op("add", y, x) if g.shapes[y] == g.shapes[x] and g.chance(0.7) else y


ONNX_ONLY = {
    0: (*TYPES, *PLACES, *FLOW, *FUSED, *WRITTEN, *[inside] * 4),
    4: families_places.IMAGE_RARE + families_written.IMAGE_RARE,
    3: families_places.SEQUENCE_RARE
    + families_flow.SEQUENCE_RARE
    + families_fused.SEQUENCE_RARE
    + families_written.SEQUENCE_RARE,
}
OTHERS = {0: FORMATS, **families_formats.BY_RANK}
KINDS: tuple[dict[int, tuple[Any, ...]], ...] = (*[{}] * 4, *[ONNX_ONLY] * 4, *[OTHERS] * 2)
"""Blocks of operators that few networks have, for values of any rank (0) and of each. A network has those of one."""


def bridge(g: Grow, x: str) -> str:
    """From volumes to images, from those to sequences and back, or to vectors."""
    shape = g.shapes[x]
    if len(shape) == 5:
        return opened_up(g, x)
    if len(shape) == 4:
        n, c, h, w = shape
        if g.chance(0.3):
            return g.reshape(g.mean(x, 2, 3), n, c) if g.chance(0.5) else g.mean(x, 2, 3, keep=False)
        return g.transpose(g.reshape(x, n, c, h * w), 0, 2, 1)
    if len(shape) == 3:
        n, t, c = shape
        if g.chance(0.5):
            return g.reshape(g.transpose(x, 0, 2, 1), n, c, 1, t)
        return g.mean(x, 1, keep=False) if g.chance(0.5) else g.reshape(g.slice(x, 1, t - 1, t), n, c)
    return x


def finish(g: Grow, x: str) -> None:
    """Heads and outputs."""
    made = list(g.net.made())
    if g.chance(0.25) and len(g.shapes[x]) > 2:
        x = head(g, x)
    if g.chance(0.3):
        g.output(g.pick(*made, *g.net.inputs)) if made else None
    if g.chance(0.1):
        g.output(g.attempt(lambda g, x: g.op("identity", x), x))
    g.output(x)
    if g.chance(0.3):
        g.random.shuffle(g.net.outputs)
    if any(given.below for name, given in g.net.inputs.items() if name in g.net.outputs):
        g.net.outputs = [name for name in g.net.outputs if name not in g.net.inputs]


def head(g: Grow, x: str) -> str:
    """Classes, and perhaps boxes beside them."""
    shape = g.shapes[x]
    axes = tuple(range(2, len(shape))) if len(shape) > 3 else (1,)
    flat = g.mean(x, *axes, keep=False)
    if g.chance(0.4):
        g.output(g.op("sigmoid", g.dense(flat, 4)))
    return g.op(g.pick("softmax", "log_softmax", "softmax"), g.dense(flat, g.pick(10, g.channels())), axis=1)
