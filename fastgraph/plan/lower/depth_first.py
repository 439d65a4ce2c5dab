"""Depth-first bands: inverted residual blocks (1x1, depthwise, 1x1), depthwise layers and pools in a row, 1x1 layers in
a row, and the transposes before and behind these, without large maps in between.

Done one after the other, each streams a map through memory. Depth first, the rows that a band of the last result needs
are made in scratch that stays in the second-level cache; the rows that two bands share are kept. A band is some rows of
an image, or as many whole images as fit; of windows between transposes only some channels, one slice after the other.
The arithmetic of every element stays what it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from ...cpus import near_bytes
from ...freedoms import free, threshold
from ...ir import Graph, Node, Value
from ...kernels.gemm.pick_dot import L2
from ...kernels.window.pick import Window
from ...ops.shape import permutation
from ..layer import Layer, chain_of, extra_values
from ..storage import Views, same_form
from .emit import Matched
from .moves import movable
from .rolling import Band, Piece, band_height, bands

WORTH = L2 // 2
"""Least bytes of the middle maps for which bands pay, for each thread: smaller maps stay in the caches. Windows without
1x1 layers, of which threads do parts, pay whatever they save, as threads need not wait for one another."""
BUDGET = L2 * 5 // 8
"""Bytes of scratch for a band of f32, for each thread; a band of bytes takes a quarter, so that it saves memory too."""
EXTRA = 25
"""Percent of a block's rows that the largest of its parts may have beyond an even share, to be done by one thread."""
SLICED = 34
"""The same of a part's channels, where bands pay for nothing but parts: enough for three lines of channels on two
threads."""
MOST = 256
"""The most bands of a block: each has its own steps, which take time to write."""
WEIGHTS = L2 // 4
"""The most bytes of weights that stay in the cache beside scratch, of chains other than inverted residual blocks."""
ROWS, LINE = 12 << 10, 64
"""Bytes that the rows of x under a window take at most, so that they stay in the first-level cache, where some channels
are done at a time; these are lines of the cache."""
FORWARD, BACK = (0, 2, 3, 1), (0, 3, 1, 2)
"""Permutations to channels last, and back."""


class Link(NamedTuple):
    """A node of a chain. kind: "dense" (1x1), "window" (depthwise or a pool), or "first" or "last", a transpose to
    channels last or back. window: of the rows of its maps; all but windows make each from one row."""

    node: Node
    kind: str
    window: Window


class Block(NamedTuple):
    """Nodes in a row, of which each but the last is read by the next alone. Threads do `parts` of it, each in bands of
    its own, or share the rows of each band.
    """

    links: tuple[Link, ...]
    threads: int

    def nodes(self) -> list[Node]:
        return [link.node for link in self.links]

    def windows(self) -> tuple[Window, ...]:
        return tuple(link.window for link in self.links)

    def saves(self) -> int:
        """Bytes of the middle maps, which need no memory."""
        return sum(link.node.out.type.nbytes for link in self.links[:-1])

    def worth(self, least: int = WORTH) -> bool:
        """Whether bands save as much for each thread; with the default, so much that they pay without parts."""
        return self.saves() >= threshold("bands_worth", least * self.threads)

    def lines(self, channels: range | None = None) -> list[int]:
        """Bytes of scratch for a row of each middle map, channels last; for some channels, or the most of `slices`."""
        values, width = [link.node.out.type for link in self.links[:-1]], len(channels or ()) or self.width()
        return [value.itemsize * value.dims[2] * (width or value.dims[3]) for value in values]

    def width(self) -> int:
        """How many channels are done at a time, in dense scratch, where some can be alone; 0: all of them."""
        if not self.by_channel():
            return 0
        step, lines = self.channel_lines()
        pixels = max(w.reach[1] * w.size[2] for _, _, w in self.links[1:-1])
        fits = max(threshold("bands_rows", ROWS) // (pixels * LINE), 1) if self.worth() else lines
        if self.divided() == "channels":
            fits = min(fits, -(-lines // self.threads))
        return fits * step if fits < lines else 0

    def by_channel(self) -> bool:
        """Whether all is windows of f32 or bf16 between transposes, which read and write whole planes."""
        first, *windows, last = self.links
        return (first.kind, last.kind) == ("first", "last") and all(map(_by_channel, windows))

    def channel_lines(self) -> tuple[int, int]:
        """The channels of a line of the cache, and how many such lines a pixel has."""
        step = LINE // self.links[0].node.out.type.itemsize
        return step, -(-self.links[-1].window.channels // step)

    def slices(self, part: int) -> Sequence[range | None]:
        """The channels that a part does at a time; None: all."""
        width, first, end = self.width(), 0, self.links[-1].window.channels
        if self.divided() == "channels":
            step, lines = self.channel_lines()
            first, end = (min(lines * i // self.threads * step, end) for i in (part, part + 1))
        return [range(a, min(a + width, end)) for a in range(first, end, width)] if width else [None]

    def expands(self) -> bool:
        """Whether it is an inverted residual block whose first layer is of 1x1."""
        return self.inverted() and self.links[0].kind == "dense"

    def parts(self) -> int:
        """How many parts threads take; 1: they share each band."""
        return self.threads if self.divided() else 1

    def divided(self) -> str:
        """The axis that threads share: "channels", "images" or "rows"; "" where none is even enough. Rows of
        the expansion that two parts need are made twice.
        """
        where, extra = self.links[self.expands()].window, threshold("bands_extra", EXTRA)
        by_image = where.images > 1 and self._beyond(where.images) <= extra
        uneven = extra if by_image or self.worth() else max(SLICED, extra)
        if self.by_channel() and self._beyond(self.channel_lines()[1]) <= uneven:
            return "channels"
        if where.images > 1 or not (self.inverted() or self.row_by_row()):
            return "images" if by_image else ""
        shared = 0
        if self.expands():
            shared = -(-(where.reach[1] - where.strides[1]) // (where.strides[1] * min(self.threads - 1, 2) or 1))
        return "rows" if self._beyond(where.out[1], shared) <= extra else ""

    def _beyond(self, many: int, shared: int = 0) -> float:
        """Percent by which the largest part of so many is beyond an even share, with what parts have in common."""
        threads = self.threads
        return 100 * (-(-many // threads) + shared) * threads / many - 100 if threads <= many else math.inf

    def budget(self) -> int:
        """Bytes of scratch for a band."""
        threads = 1 if self.parts() > 1 else self.threads
        return threshold("bands_budget", BUDGET * threads) * self.links[-1].node.x.type.itemsize // 4

    def height(self) -> int:
        """Rows of the last result in a band."""
        last = self.links[-1].window
        rows = last.out[1] if last.images > 1 or self.width() else -(-last.out[1] // self.parts())
        return band_height(self.windows(), self.lines(), self.budget(), rows)

    def images(self) -> int:
        """Images in a band: several only where whole ones fit."""
        last = self.links[-1].window
        taken = sum(line * link.window.out[1] for line, link in zip(self.lines(), self.links, strict=False))
        fit = self.budget() // taken if self.height() >= last.out[1] else 1
        return min(max(fit, 1), last.images)

    def bands(self, rows: range | None = None) -> list[Band]:
        """The bands of an image, or of some rows of it. Of several images all rows, as one follows the other."""
        if self.images() > 1:
            return [tuple(Piece(0, where.size[1], 0, where.out[1]) for where in self.windows())]
        return bands(self.windows(), self.height(), rows or range(self.links[-1].window.out[1]))

    def by_image(self) -> bool:
        """Whether a chain reads an operand by image, which a band of several images can't."""
        layers = [link.node for link in self.links if link.node.op == "conv"]
        return any("image" in chain_of(node)[1] for node in layers)

    def row_by_row(self) -> bool:
        """Whether no layer sees other rows than its own."""
        return all(link.kind != "window" for link in self.links)

    def dense(self) -> bool:
        """Whether there are 1x1 layers, which read all channels."""
        return any(link.kind == "dense" for link in self.links)

    def inverted(self) -> bool:
        """Whether it is an inverted residual block, or a part of one."""
        kinds = [link.kind for link in self.links if link.kind != "dense"]
        return kinds == ["window"] and all(link.node.op == "conv" for link in self.links)


def blocks(graph: Graph, views: Views, match: Matched, threads: int) -> Iterator[Block]:
    """The blocks of a graph that are worth doing depth first: around windows, then of 1x1 layers without any."""
    if not free("bands"):
        return
    links = [_link(node, match) for node in graph.nodes]
    outputs, taken = set(graph.outputs), set[int]()

    def joined(i: int) -> bool:
        """Whether node i follows its neighbor, which nobody else reads: a chain would need the whole map."""
        if not 0 < i < len(links) or taken & {i - 1, i}:
            return False
        value, node, one, two = graph.nodes[i - 1].out, graph.nodes[i], links[i - 1], links[i]
        if one is None or two is None or one.kind == "last" or two.kind == "first" or node.x is not value:
            return False
        once = views.uses.get(value) == [node] and node.inputs.count(value) == 1
        return once and value not in outputs and views.alone(value)

    for kind in ("window", "dense"):
        for i, link in enumerate(links):
            if link is None or link.kind != kind or i in taken:
                continue
            for where in _around(i, kind, links, joined):
                block = Block(tuple(one for one in links[where.start : where.stop] if one is not None), threads)
                if _pays(block) and _independent(block, views):
                    taken.update(where)
                    yield block
                    break


def _around(i: int, kind: str, links: Sequence[Link | None], joined: Callable[[int], bool]) -> list[range]:
    """Chains of nodes that begin with the layers of a kind from node i on, with what is around these: first those with
    the transpose before them, longest first."""

    def follows(at: int, kind: str) -> bool:
        return joined(at) and getattr(links[at], "kind", "") == kind

    def precedes(at: int, kind: str) -> bool:
        return joined(at) and getattr(links[at - 1], "kind", "") == kind

    far, dense = i + 1, kind == "window"
    while follows(far, kind):
        far += 1
    starts = dict.fromkeys((i - (dense and precedes(i, "dense")), i))
    found = list[range]()
    for end, a in product(range(far, i, -1), starts):
        for b in dict.fromkeys((end + (dense and follows(end, "dense")), end)):
            whole = (dict.fromkeys((a - precedes(a, "first"), a)), dict.fromkeys((b + follows(b, "last"), b)))
            found += (range(*pair) for pair in product(*whole) if pair[1] - pair[0] > 1)
    return sorted(found, key=lambda where: getattr(links[where.start], "kind", "") != "first")


def _pays(block: Block) -> bool:
    where, apart = block.links[-1].window, block.parts() > 1 and not block.dense()
    worth = block.worth(0 if apart else WORTH)
    if not worth or (where.images > 1 and block.by_image()) or not (block.inverted() or _stays_near(block)):
        return False
    slices = sum(len(block.slices(part)) for part in range(block.parts()))
    return len(block.bands()) * slices * -(-where.images // block.images()) <= MOST


def _stays_near(block: Block) -> bool:
    """Whether weights stay in the cache beside scratch, rows that are kept are few beside those that are made, and no
    map under a window is so large that it is in memory: from there short runs, as of a few rows of each channel, come
    slowly. Pools and 1x1 layers, which read long runs of memory, are no faster together."""
    kinds = {"pool" if "pool" in link.node.op else link.kind for link in block.links}
    largest = max(node.x.type.nbytes + node.out.type.nbytes for node in block.nodes())
    far = largest > near_bytes() and not block.width()
    if kinds >= {"pool", "dense"} or (far and kinds & {"pool", "window"}):
        return False
    constants = [v for node in block.nodes() for v in node.inputs if v is not None and v.data is not None]
    most = max((w.reach[1] - w.strides[1] for w in block.windows()[1:]), default=0)
    share = (block.width() or block.links[-1].window.channels) / block.links[-1].window.channels
    height, near = block.height(), share * sum(v.type.nbytes for v in constants) <= WEIGHTS * block.threads
    return near and (height >= threshold("bands_kept", 2) * most or height >= block.links[-1].window.out[1])


def _independent(block: Block, views: Views) -> bool:
    """Whether no band writes memory that a later band reads.

    The result of an inverted residual block may lie over an operand of the same form that is read row by row, as the
    rows of the expansion are always ahead of it; but not over the depthwise layer's input, nor over another part of an
    operand, nor over a window's other operands, which would be set aside whole for each band (`epilogue`). Of what is
    read beyond the edges of parts x alone is set aside.
    """
    nodes = block.nodes()
    out, inner = nodes[-1].out, {node.out for node in nodes}
    for node, kind, _ in block.links:
        for value in node.inputs:
            if value is None or value.data is not None or value in inner or not views.overlap(value, out):
                continue
            slides = kind == "window"
            if node is nodes[0] and block.expands() and block.parts() > 1:
                slides = value is not node.x or node.inputs.count(value) > 1
            if slides or not block.inverted() or not same_form(value, out):
                return False
            if views.storage(value) != views.storage(out):
                return False
    return True


def _link(node: Node, match: Matched) -> Link | None:
    """The node as part of a chain: of two dimensions, and no row of outputs sees padding only."""
    found = match(node) if node.op in ("conv", "transpose", "max_pool", "average_pool") else None
    if found is None or len(node.x.type.dims) != 4 or not node.out.type.size:
        return None
    if node.op == "transpose":
        return _turn(node)
    layer = found[1]
    if isinstance(layer, Layer) and layer.form == "dense":
        return Link(node, "dense", _row_by_row(node.out))
    if isinstance(layer, Layer):
        where = layer.window
        single = layer.form == "depthwise" and where.channels == layer.inputs
    else:
        where = layer
        pools = node.op != "conv" and isinstance(where, Window)
        single = pools and node.x.type.quant is None and not node.attrs.get("chain")
    simple = single and max(where.pads[1], where.ends[1]) < where.reach[1]
    return Link(node, "window", where) if simple else None


def _by_channel(link: Link) -> bool:
    """Whether a window can be done for some channels alone: without other operands, and not of bytes."""
    weights = [v for v in link.node.inputs if v is not None]
    floats = all(v.type.quant is None for v in (*weights, link.node.out))
    return link.kind == "window" and floats and not extra_values(link.node)


def _turn(node: Node) -> Link | None:
    """A transpose that moves elements."""
    perm = permutation(node) if movable(node) else None
    kinds: dict[tuple[int, ...], tuple[str, Value]] = {FORWARD: ("first", node.out), BACK: ("last", node.x)}
    kind, value = kinds.get(tuple(perm or ()), ("", node.x))
    moves = min(value.type.dims[3], value.type.dims[1] * value.type.dims[2]) > 1
    return Link(node, kind, _row_by_row(value)) if kind and moves else None


def _row_by_row(value: Value) -> Window:
    """Windows of one pixel, for each pixel of a map with channels last."""
    images, h, w, c = value.type.dims
    return Window(images, c, (1, h, w), (1, 1, 1), (1, h, w))
