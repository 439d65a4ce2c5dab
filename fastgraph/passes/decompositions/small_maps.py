"""Convolutions of maps that are smaller than their windows, without the taps that lie in padding."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from ...ir import Node
from ...ops.registry import OPS
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .phases import Phase, convolved

LEAST = 0.25
"""The share of the products that taps in padding must have for columns to be computed apart."""
WORTH = 1 << 22
"""How many multiply-adds these must be: some 70 us."""
SAVED = 20
"""How many of them each weight must save that parts have twice: as many as are done while it is read from memory."""
MOST = 5
"""The most parts of a row: each is a step."""


class Axis(NamedTuple):
    """A window along one axis."""

    size: int
    kernel: int
    stride: int
    dilation: int
    pad: int

    def seen(self, output: int) -> list[int]:
        """The taps of an output that lie in the map."""
        first = output * self.stride - self.pad
        return [k for k in range(self.kernel) if 0 <= first + k * self.dilation < self.size]

    def part(self, outputs: range) -> Phase | None:
        """Some outputs, by the taps from the first to the last that lie in the map for any; None where none does."""
        seen = sorted({k for o in outputs for k in self.seen(o)})
        if not seen:
            return None
        low = outputs[0] * self.stride - self.pad + seen[0] * self.dilation
        high = outputs[-1] * self.stride - self.pad + seen[-1] * self.dilation + 1
        start, end = max(low, 0), min(high, self.size)
        return Phase(slice(seen[0], seen[-1] + 1), self.dilation, (start - low, high - end), start, end)


@rule("small_maps", "conv", quantized=True)
def small_map(g: Sweep, node: Node) -> bool:
    """Given ``y = conv(x, w) {pads=(24, 24), dilations=(24,)}``, x: f32[1,14,8], w: f32[8,3,8]; result
    ``y = conv(x, slice(w)) {pads=(0, 0)}``. Where that leaves many dilated taps in padding, outputs that see other taps
    are convolutions of their own: ``y = concat(conv(slice(x), w0), conv(slice(x), w1))``.
    """
    w, out, a = node.inputs[1], node.out.type, node.attrs
    if w is None or w.data is None or not out.concrete or not out.size:
        return False
    sizes, kernel, counts = node.x.type.dims[1:-1], w.type.dims[1:-1], out.dims[1:-1]
    axes = list(map(Axis, sizes, kernel, a["strides"], a["dilations"], a["pads"]))
    outer = [axis.part(range(count)) for axis, count in zip(axes[:-1], counts[:-1], strict=True)]
    products = out.size * w.type.size // w.type.dims[0]
    each = w.type.size // kernel[-1]
    # Taps that follow one another are few, and other kernels (Winograd, tiles) make less of them than parts save.
    apart = len(axes) > 1 and max(a["dilations"]) > 1 and _is_per_channel(node)
    runs = _runs(axes[-1], counts[-1], products, each) if apart else [range(counts[-1])]
    found = [[p for p in (*outer, axes[-1].part(run)) if p is not None] for run in runs]
    if any(len(part) < len(axes) for part in found):
        return False
    if len(runs) == 1 and [p.taps for p in found[0]] == [slice(0, k) for k in kernel]:
        return False
    rows = [convolved(g, node, part, [*counts[:-1], len(run)]) for part, run in zip(found, runs, strict=True)]
    return g.becomes(g.join(rows, len(axes)))


def _runs(axis: Axis, count: int, products: int, weights: int) -> list[range]:
    """Outputs that see the same taps; all of them where it does not pay to compute them apart. weights: of a tap."""
    taps = list(map(axis.seen, range(count)))
    runs = [list(run) for _, run in groupby(range(count), lambda o: taps[o])]
    read = len({k for seen in taps for k in seen})
    share = 1 - sum(map(len, taps)) / (count * max(read, 1))
    twice = weights * (sum(len(taps[run[0]]) for run in runs) - read)
    pays = share >= LEAST and share * products >= max(WORTH, SAVED * twice) and len(runs) <= MOST and all(taps)
    return [range(run[0], run[-1] + 1) for run in runs] if pays else [range(count)]


def _is_per_channel(node: Node) -> bool:
    """Whether what the chain reads is a number, or one for each channel."""
    extras = node.inputs[OPS[node.op].extras_at :]
    return all(v is None or v.type.concrete and v.type.size == (v.type.dims or (1,))[-1] for v in extras)
