"""The steps of depth-first blocks: part by part, band by band, and within a band link by link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, starmap
from typing import Any, NamedTuple

from ...ir import Node, Value
from ...kernels.window.pick import Window
from ..layer import Layer
from ..program import AnyStep, Ref, Step, Table
from .depth_first import Block, Link
from .emit import Rows
from .epilogue import operand_rows
from .moves import emit_copy
from .registry import Emit, last
from .repeat import copy_or_emit
from .rolling import Band, Piece, alike, kept, room

_Edge = tuple[Ref, int]
"""A copy of rows of a map, and the first one's number."""


class _Share(NamedTuple):
    """Images, and rows of the last result in them, that are done together, in `bands`. `buffers`: scratch for middle
    maps. `edges`: copies of rows of x, with the number of the first, where the result may lie over x: from the first
    row on that others write, above (0) and below (1). `channels`: one of Block.slices.
    """

    images: range
    rows: range
    bands: Sequence[Band]
    buffers: Sequence[Ref]
    edges: Sequence[_Edge | None]
    channels: range | None = None

    def alike(self, windows: tuple[Window, ...]) -> range:
        """Bands of which each does what the one before does, further on, and that read no edge."""
        above, below = self.edges

        def plain(first: Piece) -> bool:
            return (not above or first.start >= self.rows.start) and (not below or first.end <= self.rows.stop)

        found = [b for b in alike(windows, self.bands) if plain(self.bands[b][0])]
        return range(found[0], found[-1] + 1) if found else range(0)


def emit_block(e: Emit, block: Block) -> None:
    """The steps of a block, part by part and band by band."""
    where, parts, team, start = block.links[-1].window, block.parts(), e.threads, len(e.program.steps)
    divided = block.divided()
    many = {"images": where.images, "rows": where.out[1]}.get(divided, 0)
    cuts = [many * i // parts for i in range(parts + 1)]
    inside = cuts[1:-1] if block.expands() and divided == "rows" else []
    edges = [None, *(_set_aside(e, block, cut) for cut in inside), None] if inside else [None] * (parts + 1)
    for i, own in enumerate(starmap(range, pairwise(cuts))):
        if parts > 1:
            e.threads, e.part = 1, i + 1
        images = own if divided == "images" else range(where.images)
        rows = own if divided == "rows" else range(where.out[1])
        found = block.bands(rows)
        share = _Share(images, rows, found, _buffers(e, block, found), edges[i : i + 2])
        for channels in block.slices(i):
            _emit_share(e, block, share._replace(channels=channels))
    e.threads, e.part = team, 0
    if parts > 1:
        from .scratch import use_again

        use_again([step for step in e.program.steps[start:] if isinstance(step, Step)])


def _buffers(e: Emit, block: Block, found: Sequence[Band]) -> list[Ref]:
    """Scratch for a band's rows of each middle map."""
    images, buffers = block.images(), list[Ref]()
    for i, (line, link) in enumerate(zip(block.lines(), block.links, strict=False)):
        e.node = link.node
        buffers.append(e.scratch(line * room(found, i) * images))
    return buffers


def _set_aside(e: Emit, block: Block, cut: int) -> _Edge | None:
    """A copy of the rows of x that parts below and above a cut both read, where the result is written over them."""
    (expand, *_), (_, where) = block.nodes(), block.windows()[:2]
    if not e.views.overlap(expand.x, block.nodes()[-1].out):
        return None
    e.node, x = expand, expand.x
    low = max(cut * where.strides[1] - where.pads[1], 0)
    high = min((cut - 1) * where.strides[1] - where.pads[1] + where.reach[1], where.size[1])
    (width, c), size = x.type.dims[2:], x.type.itemsize
    kept = e.scratch(max(high - low, 0) * width * c * size)
    strides = (size * e.stride(x), size)
    emit_copy(e, (max(high - low, 0) * width, c), size, (_row(e, x, low * width), strides), (kept, (size * c, size)))
    return kept, low


def _emit_share(e: Emit, block: Block, share: _Share) -> None:
    images, own = block.images(), share.images

    def emit(i: int) -> None:
        first = own.start + i * images
        _emit_images(e, block, share._replace(images=range(first, min(first + images, own.stop))))

    _emit_parts(e.program.steps, emit, -(-len(own) // images), range(len(own) // images))


def _emit_parts(steps: list[AnyStep], emit: Callable[[int], None], count: int, alike: range) -> None:
    """Write the steps of parts 0 to `count` - 1 of some work, by `emit` where need be. From one part of `alike` to the
    next addresses advance by the same differences, if at all: where the first two show it, the others are copies.
    """
    marks, part = [], 0
    while part < count:
        marks.append(len(steps))
        emit(part)
        part += 1
        if part == alike.start + 2 < alike.stop:
            more = _extrapolated(steps[marks[-2] : marks[-1]], steps[marks[-1] :], alike.stop - part)
            steps += more or ()
            part = part if more is None else alike.stop


def _extrapolated(first: Sequence[Any], second: Sequence[Any], count: int) -> list[Step] | None:
    """Copies of `count` further parts of some work whose first two parts are given as steps: addresses advance by the
    same differences. None where the two differ otherwise. It is faster than lowering each part."""
    if len(first) != len(second):
        return None
    found: list[tuple[Step, list[tuple[int, Ref, int]]]] = []
    for a, b in zip(first, second, strict=True):
        moves = []
        for i, (x, y) in enumerate(zip(a.args, b.args, strict=True)):
            if isinstance(x, Ref) and isinstance(y, Ref) and x.base == y.base:
                moves.append((i, y, y.offset - x.offset))
            elif type(x) is not type(y) or (x.words != y.words if isinstance(x, Table) else x != y):
                return None
        if a.kernel != b.kernel or a.share != b.share:
            return None
        found.append((b, [move for move in moves if move[2]]))
    steps = []
    for k in range(1, count + 1):
        for step, moves in found:
            args = list(step.args)
            for i, ref, by in moves:
                args[i] = ref.plus(k * by)
            steps.append(Step(step.kernel, tuple(args), step.node, step.share, step.part))
    return steps


def _emit_images(e: Emit, block: Block, share: _Share) -> None:
    """The bands of a share in some images: of one, or all of each in one band."""
    lines, buffers = block.lines(share.channels), share.buffers

    def emit(b: int) -> None:
        band, before = share.bands[b], share.bands[b - 1] if b else None
        for i, link in enumerate(block.links):
            if i < len(buffers):
                (by, rows), line = kept(before, band, i), lines[i]
                if rows:
                    _move_up(e, link.node, buffers[i], line * by, line * rows)
            x = buffers[i - 1] if i else None
            for piece, aside in [(band[i], x)] if i else _cut(share, link, band[0]):
                y = buffers[i].plus(lines[i] * (piece.start - band[i + 1].low)) if i < len(buffers) else None
                if piece.rows:
                    _emit_link(e, link, piece, share, (aside, y))

    _emit_parts(e.program.steps, emit, len(share.bands), share.alike(block.windows()))


def _cut(share: _Share, link: Link, piece: Piece) -> list[tuple[Piece, Ref | None]]:
    """A piece of the first layer by where its rows of x lie: where they were set aside, or None in their own place."""
    above, below = share.edges
    if above is below is None:
        return [(piece, None)]
    x = link.node.x.type
    line = x.itemsize * x.dims[2] * x.dims[3]
    cuts = share.rows.start if above else piece.start, share.rows.stop if below else piece.end
    ends = [piece.start, *(min(max(cut, piece.start), piece.end) for cut in cuts), piece.end]
    return [
        (Piece(a, b, a, b), None if place is None else place[0].plus(line * (a - place[1])))
        for (a, b), place in zip(pairwise(ends), (above, None, below), strict=True)
    ]


def _emit_link(e: Emit, link: Link, piece: Piece, share: _Share, scratch: tuple[Ref | None, Ref | None]) -> None:
    """A piece of a node. scratch: where x and the result lie, if not in the places of whole values."""
    node, kind, where = link
    images, e.node, steps = share.images, node, len(e.program.steps)
    if kind in ("first", "last"):
        _turn_rows(e, link, piece, share, scratch)
        return
    at, channels = images.start, share.channels
    start = (at * where.out[1] + piece.start) * where.out[2]
    x, ldx = scratch[0], len(channels) if channels else last(node.x)
    if x is None:
        x, ldx = _row(e, node.x, (at * where.size[1] + piece.low) * where.size[2]), e.stride(node.x)
    y, ldy = scratch[1], len(channels) if channels else last(node.out)
    if y is None:
        y, ldy = _row(e, node.out, start), e.stride(node.out)
    rows = Rows(x, y, start)
    refs = (x, y, *operand_rows(e, node, start))
    if kind == "dense":
        count = len(images) * piece.rows * where.out[2]
        copy_or_emit(e, (count, ldx, ldy), refs, lambda: _dot(e, node, rows, count, ldx, ldy))
        return
    pads = (0, piece.low - (piece.start * where.strides[1] - where.pads[1]), where.pads[2])
    ends = (0, where.ends[1] if piece.high == where.size[1] else 0, where.ends[2])
    size, out = (1, piece.high - piece.low, where.size[2]), (1, piece.rows, where.out[2])
    window = where._replace(images=len(images), size=size, out=out, pads=pads, ends=ends)
    if channels:
        window = window._replace(channels=len(channels))
    copy_or_emit(e, (window, channels, ldx, ldy), refs, lambda: _window(e, window, channels, (ldx, ldy), rows))
    if channels:
        for step in e.program.steps[steps:]:
            assert isinstance(step, Step)
            step.share = len(images) * piece.rows * len(channels) / (where.images * where.out[1] * where.channels)


def _window(e: Emit, window: Window, channels: range | None, strides: tuple[int, int], rows: Rows) -> None:
    """A window of rows of e.node, of some channels or all; strides: of x's rows and those of the result."""
    (lowering, layer), (ldx, ldy) = _lowered(e, e.node), strides
    if isinstance(layer, Layer):
        layer = layer.of_channels(channels) if channels else layer
        lowering.emit(e, e.node, layer._replace(window=window, ldx=ldx, ldy=ldy), rows)
    else:
        lowering.emit(e, e.node, window, rows, (ldx, ldy))


def _turn_rows(e: Emit, link: Link, piece: Piece, share: _Share, scratch: tuple[Ref | None, Ref | None]) -> None:
    """Rows of a map to channels last, into scratch, or from there back."""
    node, kind, where = link
    images, channels = share.images, share.channels or range(where.channels)
    (x, y), item, (_, h, w), width = scratch, node.x.type.itemsize, where.size, len(channels)
    near = (item * h * w * width, item * w * width, item * width, item)
    planes = node.x if kind == "first" else node.out
    n, c, row, column = e.strides(planes)
    far = (n, row, column, c)
    there = e.address(planes, n * images.start + c * channels.start + row * piece.start)
    shape = (len(images), piece.rows, w, width)
    steps = len(e.program.steps)
    if kind == "first":
        assert y is not None
        emit_copy(e, shape, item, (there, far), (y, near))
    else:
        assert x is not None
        emit_copy(e, shape, item, (x, near), (there, far))
    for step in e.program.steps[steps:]:
        assert isinstance(step, Step)
        step.share = len(images) * piece.rows * width / (where.images * h * where.channels)


def _lowered(e: Emit, node: Node) -> tuple[Any, Any]:
    found: tuple[Any, Any] | None = e.match(node)
    assert found is not None
    return found


def _dot(e: Emit, node: Node, rows: Rows, count: int, ldx: int, ldy: int) -> None:
    lowering, layer = _lowered(e, node)
    lowering.emit(e, node, layer.of_rows(count, ldx, ldy), rows)


def _move_up(e: Emit, node: Node, made: Ref, start: int, count: int) -> None:
    """Move `count` bytes of the node's result in scratch from byte `start` on to its beginning."""
    e.node, size = node, node.out.type.itemsize
    emit_copy(e, (count // size,), size, (Ref(made.base, start), (size,)), (made, (size,)))


def _row(e: Emit, value: Value, row: int) -> Ref:
    return e.address(value, value.type.itemsize * row * e.stride(value))
