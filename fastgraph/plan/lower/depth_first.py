"""Depth-first bands of inverted residual blocks: expand (1x1), depthwise, project (1x1) without large maps in between.

Done one after the other, each of the three streams a map of many channels through memory. Depth first, the rows that a
band of depthwise outputs needs are made in scratch that stays in the second-level cache; the rows that two bands share
are kept. A band is some rows of an image, or as many whole images as fit. The arithmetic of every element stays what
it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
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
EXTRA = 25
"""Percent of a block's rows that the largest of its parts may have beyond an even share, to be done by one thread."""
MOST = 256
"""The most bands of a block: each has its own steps, which take time to write."""


class Block(NamedTuple):
    """Two or three nodes in a row; `layer`: that of the depthwise one. Threads do `parts` of it, each in bands of its
    own, or share the rows of each band.
    """

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

    def parts(self) -> int:
        """In how many parts threads do it, by images or rows; 1: they share each band. Rows of the expansion that two
        parts need are made twice.
        """
        where, threads = self.layer.window, self.threads
        many = where.images if where.images > 1 else where.out[1]
        share, shared = -(-many // threads), 0
        if where.images == 1 and self.expand:
            shared = -(-(where.reach[1] - where.strides[1]) // (where.strides[1] * min(threads - 1, 2) or 1))
        even = 100 * (share + shared) * threads <= (100 + threshold("bands_extra", EXTRA)) * many
        return threads if even and threads <= many else 1

    def budget(self) -> int:
        """Bytes of scratch for a band."""
        threads = 1 if self.parts() > 1 else self.threads
        return threshold("bands_budget", BUDGET * threads) * self.middle.x.type.itemsize // 4

    def height(self) -> int:
        """Rows of the depthwise layer's result in a band."""
        where = self.layer.window
        rows = where.out[1] if where.images > 1 else -(-where.out[1] // self.parts())
        return _band_height(where, rows, *self.lines(), self.budget())

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
    ahead of it; but not over the depthwise layer's input, nor over another part of an operand. Of what is read beyond
    the edges of parts x alone is set aside.
    """
    nodes = block.nodes()
    out, inner = nodes[-1].out, {node.out for node in nodes}
    for node in nodes:
        for value in node.inputs:
            if value is None or value.data is not None or value in inner or not views.overlap(value, out):
                continue
            slides = node is block.middle and value is node.x
            if node is block.expand and block.parts() > 1:
                slides = value is not node.x or node.inputs.count(value) > 1
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


def _band_height(where: Window, height: int, line: int, out_line: int, budget: int) -> int:
    """Rows of the depthwise layer's result in a band of `height` rows, whose scratch is within the budget where
    possible. line, out_line: bytes of scratch for a row of its input and of its result."""
    reach, stride = where.reach[1], where.strides[1]
    fits = max((budget - line * (reach - stride)) // (line * stride + out_line), 1)
    bands = -(-height // min(fits, height))
    # The rows that two bands share move down in one copy, so they must not be more than a band goes on by.
    apart = -(-(reach - stride + where.pads[1]) // stride)
    return max(-(-height // bands), apart)


class _Part(NamedTuple):
    """Images, and rows of the depthwise layer's result in them, that are done together. `made`, `kept`: scratch for the
    expansion and for that result. `edges`: copies of rows of x, with the number of the first, where the result may lie
    over x: from the first row on that others write, above (0) and below (1).
    """

    images: range
    rows: range
    made: Ref | None
    kept: Ref | None
    edges: tuple[tuple[Ref, int] | None, ...] = (None, None)

    def below(self, height: int) -> int:
        """The end of the rows of x that are read where they lie."""
        return self.rows.stop if self.edges[1] else height


def emit_block(e: Emit, block: Block) -> None:
    """The steps of a block, part by part and band by band."""
    where, parts = block.layer.window, block.parts()
    by_image = where.images > 1
    many = where.images if by_image else where.out[1]
    cuts = [many * i // parts for i in range(parts + 1)]
    inside = [] if by_image or block.expand is None else cuts[1:-1]
    edges = [None, *(_set_aside(e, block, cut) for cut in inside), None] if inside else [None] * (parts + 1)
    team = e.threads
    for i, (first, end) in enumerate(pairwise(cuts)):
        if parts > 1:
            e.threads, e.part = 1, i + 1
        images, rows = (range(first, end), range(where.out[1])) if by_image else (range(1), range(first, end))
        _emit_part(e, block, _Part(images, rows, *_scratch(e, block), tuple(edges[i : i + 2])))
    e.threads, e.part = team, 0


def _scratch(e: Emit, block: Block) -> tuple[Ref | None, Ref | None]:
    """Scratch for a band's rows of the expansion, and of the depthwise layer's result."""
    (line, out_line), band, images = block.lines(), block.height(), block.images()
    where = block.layer.window
    e.node = block.middle
    rows = where.size[1] if images > 1 else (band - 1) * where.strides[1] + where.reach[1]
    made = e.scratch(line * rows * images) if block.expand else None
    return made, e.scratch(out_line * band * images) if block.project else None


def _set_aside(e: Emit, block: Block, cut: int) -> tuple[Ref, int] | None:
    """A copy of the rows of x that parts below and above a cut both read, where the result is written over them."""
    expand, where = block.expand, block.layer.window
    assert expand is not None
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


def _emit_part(e: Emit, block: Block, part: _Part) -> None:
    images, own = block.images(), part.images

    def emit(i: int) -> None:
        first = own.start + i * images
        _emit_images(e, block, part._replace(images=range(first, min(first + images, own.stop))))

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


def _emit_images(e: Emit, block: Block, part: _Part) -> None:
    """The bands of a part in some images: of one, or all of each in one band."""
    node, whole, made, rows = block.middle, block.layer.window, part.made, part.rows
    (_, height, width), (_, out_height, out_width) = whole.size, whole.out
    reach, stride, pad = whole.reach[1], whole.strides[1], whole.pads[1]
    line, band, images = block.lines()[0], block.height(), len(part.images)
    before, out_before = part.images.start * height * width, part.images.start * out_height * out_width

    def top(i: int) -> int:
        """The first row of its input that the depthwise layer reads for a band; in padding where it is less than 0."""
        return (rows.start + i * band) * stride - pad

    def emit(i: int) -> None:
        first, end = rows.start + i * band, min(rows.start + (i + 1) * band, rows.stop)
        low, below = max(top(i), 0), min(top(i) - stride + reach, height) if i else 0
        high = min((end - 1) * stride - pad + reach, height) if images == 1 else height
        if made is not None and block.expand is not None:
            previous, start = max(top(i - 1), 0), max(below, low)
            if below > low > previous:
                _move_up(e, block.expand, made, line * (low - previous), line * (below - low))
            _expand(e, block.expand, Ref(made.base, line * (start - low)), range(start, images * high), before, part)
            x, ldx = made, last(node.x)
        else:
            x, ldx = _row(e, node.x, before + low * width), e.stride(node.x)
        start, count = out_before + first * out_width, images * (end - first) * out_width
        y, ldy = (part.kept, last(node.out)) if part.kept else (_row(e, node.out, start), e.stride(node.out))
        size, out, pads = (1, high - low, width), (1, end - first, out_width), (0, low - top(i), whole.pads[2])
        e.node = node
        piece = whole._replace(images=images, size=size, out=out, pads=pads)
        layer = block.layer._replace(window=piece, ldx=ldx, ldy=ldy)
        _lowered(e, node)[0].emit(e, node, layer, Rows(x, y, start))
        if block.project is not None:
            e.node = project = block.project
            _dot(e, project, Rows(y, _row(e, project.out, start), start), count, ldy, e.stride(project.out))

    plain = (part.below(height) - reach + pad + stride) // stride - rows.start  # read neither padding below nor an edge
    alike = range(2 if made else 1, min(plain, len(rows)) // band)
    _emit_parts(e.program.steps, emit, -(-len(rows) // band), alike)


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


def _expand(e: Emit, node: Node, made: Ref, rows: range, before: int, part: _Part) -> None:
    """Compute rows of the depthwise layer's input. before: pixels of x before the band's image."""
    e.node, width = node, node.out.type.dims[2]
    line = node.out.type.itemsize * width * last(node.out)
    own = part.rows
    cuts = [own.start if part.edges[0] else rows.start, own.stop if part.edges[1] else rows.stop]
    ends = [rows.start, *(min(max(cut, rows.start), rows.stop) for cut in cuts), rows.stop]
    for (first, end), edge in zip(pairwise(ends), (part.edges[0], None, part.edges[1]), strict=True):
        if first == end:
            continue
        pixel = before + first * width
        x, ldx = _row(e, node.x, pixel), e.stride(node.x)
        if edge is not None:
            kept, low = edge
            x, ldx = kept.plus((first - low) * width * node.x.type.itemsize * last(node.x)), last(node.x)
        _dot(
            e, node, Rows(x, made.plus((first - rows.start) * line), pixel), (end - first) * width, ldx, last(node.out)
        )


def _row(e: Emit, value: Value, row: int) -> Ref:
    """The address of a row of a value."""
    return e.address(value, value.type.itemsize * row * e.stride(value))
