"""Depth-first bands of inverted residual blocks: expand (1x1), depthwise, project (1x1) without large maps in between.

Done one after the other, each of the three streams a map of many channels through memory. Depth first, the rows that a
band of depthwise outputs needs are made in scratch that stays in the second-level cache; the rows that two bands share
are kept. A band is some rows of an image, or as many whole images as fit. The arithmetic of every element stays what
it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ...freedoms import free, threshold
from ...ir import Graph, Node, Value
from ...kernels.gemm.pick_dot import L2
from ...kernels.window.pick import Window
from ..layer import Layer, chain_of
from ..program import AnyStep, Ref, Step, Table
from ..storage import Views, same_form
from .emit import Matched, Rows
from .moves import emit_copy
from .registry import Emit, last

WORTH = L2 // 2
"""Least bytes of the middle maps for which bands pay, for each thread: smaller maps stay in the caches."""
BUDGET = L2 * 5 // 8
"""Bytes of scratch for a band of f32, for each thread; a band of bytes takes a quarter, so that it saves memory too."""
MOST = 256
"""The most bands of a block: each has its own steps, which take time to write."""


class Block(NamedTuple):
    """Two or three nodes in a row; `layer`: that of the depthwise one. Threads share the rows of each band."""

    expand: Node | None
    middle: Node
    project: Node | None
    layer: Layer[Any]
    threads: int

    def nodes(self) -> list[Node]:
        return [node for node in (self.expand, self.middle, self.project) if node is not None]

    def saves(self) -> int:
        """Bytes of the middle maps, which need no memory."""
        node = self.middle
        return (node.x.type.nbytes if self.expand else 0) + (node.out.type.nbytes if self.project else 0)

    def lines(self) -> tuple[int, int]:
        """Bytes of scratch for a row of the depthwise layer's input, and for one of its result."""
        x, out = self.middle.x.type, self.middle.out.type
        return (
            x.itemsize * x.dims[2] * x.dims[3] if self.expand else 0,
            out.itemsize * out.dims[2] * out.dims[3] if self.project else 0,
        )

    def budget(self) -> int:
        """Bytes of scratch for a band."""
        return threshold("bands_budget", BUDGET * self.threads) * self.middle.x.type.itemsize // 4

    def height(self) -> int:
        """Rows of the depthwise layer's result in a band."""
        return _band_height(self.layer.window, *self.lines(), self.budget())

    def images(self) -> int:
        """Images in a band: several only where whole ones fit."""
        where, (line, out_line) = self.layer.window, self.lines()
        taken = line * where.size[1] + out_line * where.out[1]
        fit = self.budget() // taken if self.height() >= where.out[1] else 1
        return min(max(fit, 1), where.images)

    def bands(self) -> int:
        """The number of bands."""
        return -(-self.layer.window.out[1] // self.height()) * -(-self.layer.window.images // self.images())

    def by_image(self) -> bool:
        """Whether a chain reads an operand by image, which a band of several images can't."""
        return any("image" in chain_of(node)[1] for node in self.nodes())


def blocks(graph: Graph, views: Views, match: Matched, threads: int) -> Iterator[Block]:
    """The blocks of a graph that are worth doing depth first."""
    uses, outputs = views.uses, set(graph.outputs)
    taken: set[Node] = set()

    def private(value: Value, reader: Node) -> bool:
        """Whether only `reader` reads the value, as its first operand: a chain would need the whole map."""
        once = uses.get(value) == [reader] and reader.inputs.count(value) == 1
        return once and value not in outputs and views.alone(value)

    for before, node, after in zip([None, *graph.nodes], graph.nodes, [*graph.nodes[1:], None], strict=False):
        plan = _depthwise(node, match)
        if plan is None:
            continue
        expand = project = None
        if before is not None and before not in taken and before.out is node.x and _dense(before, match):
            expand = before if private(node.x, node) else None
        if after is not None and _dense(after, match) and after.x is node.out and private(node.out, after):
            project = after
        ends = ((expand, project), (expand, None), (None, project))
        found = (Block(first, node, final, plan, threads) for first, final in ends)
        block = next((b for b in found if _pays(b) and _independent(b, views)), None)
        if block is not None and free("bands"):
            taken.update(block.nodes())
            yield block


def _pays(block: Block) -> bool:
    worth = block.saves() >= threshold("bands_worth", WORTH * block.threads) and block.bands() <= MOST
    return worth and (block.layer.window.images == 1 or not block.by_image())


def _independent(block: Block, views: Views) -> bool:
    """Whether no band writes memory that a later band reads.

    The result may lie over an operand of the same form that is read row by row, as the rows of the expansion are always
    ahead of it; but not over the depthwise layer's input, nor over another part of an operand.
    """
    nodes = block.nodes()
    out, inner = nodes[-1].out, {node.out for node in nodes}
    for node in nodes:
        for value in node.inputs:
            if value is None or value.data is not None or value in inner or not views.overlap(value, out):
                continue
            slides = node is block.middle and value is node.x
            if slides or not same_form(value, out) or views.storage(value) != views.storage(out):
                return False
    return True


def _dense(node: Node, match: Matched) -> bool:
    found = match(node)
    return node.op == "conv" and found is not None and isinstance(found[1], Layer) and found[1].form == "dense"


def _depthwise(node: Node, match: Matched) -> Layer[Any] | None:
    """The layer of a depthwise convolution of two dimensions, with one output channel per input channel, and no row of
    outputs that sees padding only.
    """
    found = match(node)
    if found is None or not isinstance(found[1], Layer) or found[1].form != "depthwise" or len(node.x.type.dims) != 4:
        return None
    where = found[1].window
    simple = where.channels == found[1].inputs and max(where.pads[1], where.ends[1]) < where.reach[1]
    return found[1] if simple else None


def _band_height(where: Window, line: int, out_line: int, budget: int) -> int:
    """Rows of the depthwise layer's result in a band, whose scratch is within the budget where possible. line,
    out_line: bytes of scratch for a row of its input and of its result."""
    reach, stride, height = where.reach[1], where.strides[1], where.out[1]
    fits = max((budget - line * (reach - stride)) // (line * stride + out_line), 1)
    bands = -(-height // min(fits, height))
    # The rows that two bands share move down in one copy, so they must not be more than a band goes on by.
    apart = -(-(reach - stride + where.pads[1]) // stride)
    return max(-(-height // bands), apart)


def emit_block(e: Emit, block: Block) -> None:
    """The steps of a block, band by band."""
    (line, out_line), band, images = block.lines(), block.height(), block.images()
    where = block.layer.window
    e.node = block.middle
    rows = where.size[1] if images > 1 else (band - 1) * where.strides[1] + where.reach[1]
    made = e.scratch(line * rows * images) if block.expand else None
    kept = e.scratch(out_line * band * images) if block.project else None

    def emit(i: int) -> None:
        _emit_images(e, block, i * images, min(images, where.images - i * images), made, kept)

    _emit_parts(e.program.steps, emit, -(-where.images // images), range(where.images // images))


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
            steps.append(Step(step.kernel, tuple(args), step.node, step.share))
    return steps


def _emit_images(e: Emit, block: Block, image: int, images: int, made: Ref | None, kept: Ref | None) -> None:
    """The bands of some images from `image` on: of one, or all of each in one band."""
    node, whole = block.middle, block.layer.window
    (_, height, width), (_, out_height, out_width) = whole.size, whole.out
    reach, stride, pad = whole.reach[1], whole.strides[1], whole.pads[1]
    line, band = block.lines()[0], block.height()
    before, out_before = image * height * width, image * out_height * out_width

    def top(i: int) -> int:
        """The first row of its input that the depthwise layer reads for a band; in padding where it is less than 0."""
        return i * band * stride - pad

    def emit(i: int) -> None:
        first, end = i * band, min((i + 1) * band, out_height)
        low, below = max(top(i), 0), min(top(i) - stride + reach, height) if i else 0
        high = min((end - 1) * stride - pad + reach, height) if images == 1 else height
        if made is not None and block.expand is not None:
            previous, start = max(top(i - 1), 0), max(below, low)
            if below > low > previous:
                _move_up(e, block.expand, made, line * (low - previous), line * (below - low))
            _expand(e, block.expand, Ref(made.base, line * (start - low)), range(start, images * high), before)
            x, ldx = made, last(node.x)
        else:
            x, ldx = _row(e, node.x, before + low * width), e.stride(node.x)
        start, count = out_before + first * out_width, images * (end - first) * out_width
        y, ldy = (kept, last(node.out)) if kept else (_row(e, node.out, start), e.stride(node.out))
        size, out, pads = (1, high - low, width), (1, end - first, out_width), (0, low - top(i), whole.pads[2])
        e.node = node
        part = whole._replace(images=images, size=size, out=out, pads=pads)
        layer = block.layer._replace(window=part, ldx=ldx, ldy=ldy)
        _lowered(e, node)[0].emit(e, node, layer, Rows(x, y, start))
        if block.project is not None:
            e.node = project = block.project
            _dot(e, project, Rows(y, _row(e, project.out, start), start), count, ldy, e.stride(project.out))

    whole_bands = min((height - reach + pad + stride) // (band * stride), out_height // band)  # read no padding below
    alike = range(2 if made else 1, whole_bands)
    _emit_parts(e.program.steps, emit, -(-out_height // band), alike)


def _lowered(e: Emit, node: Node) -> tuple[Any, Layer[Any]]:
    """The lowering of a node, and its layer."""
    found: tuple[Any, Layer[Any]] | None = e.match(node)
    assert found is not None
    return found


def _dot(e: Emit, node: Node, rows: Rows, count: int, ldx: int, ldy: int) -> None:
    lowering, layer = _lowered(e, node)
    lowering.emit(e, node, layer.of_rows(count, ldx, ldy), rows)


def _move_up(e: Emit, node: Node, made: Ref, start: int, count: int) -> None:
    """Move `count` bytes of the node's result in scratch from byte `start` on to its beginning."""
    e.node, size = node, node.out.type.itemsize
    emit_copy(e, (count // size,), size, (Ref(made.base, start), (size,)), (made, (size,)))


def _expand(e: Emit, node: Node, made: Ref, rows: range, before: int) -> None:
    """Compute rows of the depthwise layer's input. before: pixels of x before the band's image."""
    e.node, width = node, node.out.type.dims[2]
    if rows:
        pixel = before + rows.start * width
        part = Rows(_row(e, node.x, pixel), made, pixel)
        _dot(e, node, part, len(rows) * width, e.stride(node.x), last(node.out))


def _row(e: Emit, value: Value, row: int) -> Ref:
    """The address of a row of a value."""
    return e.address(value, value.type.itemsize * row * e.stride(value))
