"""Layers with constant weights (convolutions, dense layers, products by a matrix): geometry, weights, scales."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np

from ..freedoms import free
from ..ir import FLOAT32, Node, Value
from ..ir.quantization import reals
from ..ir.weights import once
from ..kernels.gemm.pack import Arrangement, arranged
from ..kernels.gemm.pack_int8 import part_again
from ..kernels.gemm.pick_conv import Geometry, Triple, merge_factor, split_row, widened
from ..kernels.gemm.pick_int8 import AGAIN, SMALL, Sums
from ..kernels.isa.tiers import TOGETHER, Tier, multiplies_small
from ..kernels.window.pick import Window
from ..ops.chain import Chain, extra_kind, is_f32
from ..ops.conv import is_dense, is_depthwise
from ..ops.registry import OPS
from ..ops.window import is_near
from .quantized import (
    LARGE,
    TINY,
    bounds,
    clamps_only,
    f32_bits,
    fits_int32,
    holds_bias,
    multipliers,
    per_tensor,
    real_bounds,
    scales,
    stored_bias,
    zero_point,
)
from .storage import last, row_count


class Reals(NamedTuple):
    """Constants in f32: weights [n, k..., c] and bias [n]."""

    weights: np.ndarray
    bias: np.ndarray | None


class Integers(NamedTuple):
    """Constants of a quantized layer: s8 weights [n, k..., c], zero points of weights int64 [n], bias in units of the
    sums int64 [n], f32 multipliers [n]; `out` and `stored`: the form of the results (one of rows.STORES) and its slots
    (rows.STORED), where a sum follows also those of that (amx/rows.py, SUMMED).

    ranged: x is rounded by its range at run time; the bias is f32, multipliers are the weights' scales.
    """

    weights: np.ndarray
    zeros: np.ndarray
    bias: np.ndarray
    multipliers: np.ndarray
    out: str = "words"
    stored: Mapping[str, Any] = {}
    ranged: bool = False

    def rowsum(self, tier: Tier, narrow: bool = False) -> bool:
        """Whether the kernel needs the sums of x's rows, as weights have zero points that packing can't subtract: it
        can where it widens weights, on tiers without `byte_dot`, unless they stay narrow.
        """
        return (tier.byte_dot or narrow) and bool(np.any(self.zeros))

    def sums(self, tier: Tier, together: int = TOGETHER) -> tuple[Sums, float]:
        """The layer as the kernels of a tier compute it that sum products of so many words in 16 bits, if weights are
        small; and the part of a panel's words that are summed again then.
        """
        again = 1.0
        if multiplies_small(tier) and self.weights.size and free("together"):
            again = self._again(tier, together) if self._greatest() > SMALL // together else 0.0
        small = again <= AGAIN
        return Sums(self.out, self.rowsum(tier), small), again if small else 0.0

    def _again(self, tier: Tier, together: int) -> float:
        return part_again(self.weights.reshape(len(self.weights), -1), self.zeros, together, tier.lanes)

    def _greatest(self) -> int:
        """The greatest weight less its zero point."""
        rows = self.weights.reshape(len(self.weights), -1)
        return int(max((rows.max(1) - self.zeros).max(), (self.zeros - rows.min(1)).max()))

    def arranged(self, how: Arrangement) -> Integers:
        """The layer in an arrangement: groups merged, several pixels of a row at once."""
        zeros, bias, multipliers = (np.tile(v, how.together) for v in (self.zeros, self.bias, self.multipliers))
        weights = arranged(self.weights, how, self.zeros)
        return self._replace(weights=weights, zeros=zeros, bias=bias, multipliers=multipliers)


Numbers = TypeVar("Numbers", bound=Reals | Integers)


class Layer(NamedTuple, Generic[Numbers]):
    """form: "dense", "depthwise" or "conv". window: of a dense layer, rows are pixels of one row of a map. inputs:
    channels of x; operands: how those of the chain are spread; zero: the stored number for 0.0 in x, which is s8 where
    `signed`; ldx, ldy: elements from pixel to pixel of x and of the result; narrow: whether x, of reals, may be bf16
    where the layer's kernel reads it; finite: whether all weights are, so that sums may leave out padding.
    """

    numbers: Numbers
    form: str
    window: Window
    groups: int
    inputs: int
    operands: tuple[str, ...]
    zero: int = 0
    signed: bool = False
    ldx: int = 0
    ldy: int = 0
    narrow: bool = False
    finite: bool = True

    @property
    def pixels(self) -> int:
        return self.window.images * prod(self.window.out)

    @property
    def n(self) -> int:
        """Output channels."""
        return self.window.channels

    def of_rows(self, count: int, ldx: int, ldy: int) -> Layer[Numbers]:
        """The part of a dense layer that computes `count` rows of its result."""
        row = (1, 1, count // self.window.images)
        return self._replace(window=self.window._replace(size=row, out=row), ldx=ldx, ldy=ldy)

    def of_channels(self, channels: range) -> Layer[Numbers]:
        """The part of a depthwise layer of reals, as many channels out as in, that computes some of them."""
        weights, bias = cast("Reals", self.numbers)
        cut, count = slice(channels.start, channels.stop), len(channels)
        numbers = cast("Numbers", Reals(weights[cut], None if bias is None else bias[cut]))
        window = self.window._replace(channels=count)
        return self._replace(numbers=numbers, window=window, groups=count, inputs=count)

    def merged(self, tier: Tier, part: int = 1) -> tuple[Geometry, Arrangement]:
        """The layer as a convolution with fewer groups, merged until their output channels fill a vector, or that part
        of one.
        """
        how = Arrangement(self.groups, merge_factor(tier.lanes // part, self.groups, self.n // self.groups))
        c = self.numbers.weights.shape[-1] * how.factor
        item = 4 if isinstance(self.numbers, Reals) else 1
        zeros = not self.zero and self.finite
        return geometry(self.window, how.merged, c, self.ldx, item)._replace(zeros=zeros), how


def geometry(w: Window, groups: int, c: int, ldx: int, item: int) -> Geometry:
    """A window as a convolution of `c` channels of each group; ldx: elements of `item` bytes from pixel to pixel."""
    (d, h, width), n = w.size, w.channels // groups
    strides = (d * h * width * ldx, h * width * ldx, width * ldx, ldx)
    return Geometry(w.images, groups, c, n, w.size, w.kernel, w.out, strides, w.strides, w.dilations, w.pads, item)


def by_tap(weights: np.ndarray) -> np.ndarray:
    """[k..., c, n] from weights [n, k..., c]."""
    return np.moveaxis(weights, 0, -1)


class RowPart(NamedTuple):
    """A part of each row of outputs: its convolution, the arrangement of its weights, and its offsets in x and in the
    result, in elements."""

    g: Geometry
    how: Arrangement
    x: int = 0
    y: int = 0

    @property
    def outputs(self) -> int:
        return self.g.images * prod(self.g.out) * self.how.together


def together(g: Geometry, how: Arrangement, count: int) -> Iterator[RowPart]:
    """A convolution as one of `count` outputs of a row at a time (as so many times the channels), and one of the
    outputs left over."""
    if count == 1:
        yield RowPart(g, how)
        return
    first, rest, further = split_row(g, count)
    yield RowPart(widened(first, count), how._replace(together=count, stride=g.strides[2]))
    if rest.out[2]:
        yield RowPart(rest, how, further * g.x_strides[3], first.out[2] * g.n)


def real_layer(node: Node) -> Layer[Reals] | None:
    """The layer of a node that is f32 throughout and not empty; None for others, or where no kernel takes it."""
    form, numbers = form_of(node), parameters(node)
    if form is None or numbers is None or (form != "dense" and len(node.x.type.dims) > 5):
        return None
    return _layer(node, form, numbers)


def parameters(node: Node) -> Reals | None:
    """The constants of a node that is f32 throughout and not empty; None for others, or where they are computed."""
    w, b = node.inputs[1], node.input(2)
    if w is None or w.data is None or (b is not None and b.data is None):
        return None
    full = is_f32(node) and node.out.type.size > 0 and node.x.type.size > 0
    return Reals(w.data, b.data if b is not None else None) if full else None


def integer_layer(node: Node) -> Layer[Integers] | None:
    """The layer of a node with quantized weights; None where no kernel takes it."""
    w = node.inputs[1]
    if w is None or w.data is None or w.type.quant is None:
        return None
    form = form_of(node)
    most = {"dense": np.inf, "conv": 5, "depthwise": 4, None: 0}[form]
    numbers = integers(node, int(node.op == "matmul")) if form and len(node.x.type.dims) <= most else None
    return _layer(node, form, numbers) if form and numbers else None


def chained_layer(node: Node) -> Layer[Integers] | None:
    """The layer of a node that multiplies u8 by s8 weights, and whose f32 result has a chain that does more than clamp;
    None for others, for convolutions of each channel alone, and where a sum may overflow int32.
    """
    found, form = _constants(node, int(node.op == "matmul")), form_of(node)
    if not free("reals_of_bytes"):
        return None
    if found is None or form not in ("dense", "conv") or len(node.x.type.dims) > (np.inf if form == "dense" else 5):
        return None
    values = (node.out, *extra_values(node))
    others = [v for v in values if not v.type.concrete or v.type.dtype != FLOAT32 or v.type.quant]
    if clamps_only(node) or others or not per_tensor(node.x, np.uint8) or not _filled(node):
        return None
    w, b, zeros = found
    if b is not None and b.type.dtype not in (np.int32, np.float32):
        return None
    n = len(zeros)
    weights = np.moveaxis(w.array, int(node.op == "matmul"), 0)
    bias = np.zeros(n) if b is None or b.data is None else reals(b.data, b.type.quant).reshape(-1)
    fits = fits_int32(weights.reshape(n, -1), np.zeros(n, np.int64), zeros)
    multipliers = scales(w, n).astype(np.float32)
    return (
        _layer(node, form, Integers(weights, zeros, bias.astype(np.float32), multipliers, ranged=True))
        if fits
        else None
    )


def ranged_layer(node: Node) -> Layer[Integers] | None:
    """The layer of a node that rounds x by its range: s8 weights and bias are constant, all else is f32. The pass that
    writes these nodes has checked that no sum overflows int32."""
    found, form = _constants(node), form_of(node)
    others = [v for v in (node.x, node.out, *node.inputs[2:]) if v is not None]
    if found is None or form is None or any(not v.type.concrete or v.type.dtype != FLOAT32 for v in others):
        return None
    w, b, zeros = found
    if not _filled(node) or (node.attrs["per"] == "row" and zeros.any()):
        return None
    n = len(zeros)
    bias = np.zeros(n, np.float32) if b is None or b.data is None else b.data
    multipliers = scales(w, n).astype(np.float32)
    return _layer(node, form, Integers(w.array, zeros, bias, multipliers, ranged=True))


def _layer(node: Node, form: str, numbers: Numbers) -> Layer[Numbers]:
    operands, x = chain_of(node)[1], node.x
    if form == "dense":
        images = node.out.type.dims[0] if "image" in operands else 1
        row = (1, 1, row_count(node.out) // images)
        where = Window(images, last(node.out), row, (1, 1, 1), row)
    else:
        where = window(node)
    groups = 1 if form == "dense" else node.attrs["groups"]
    signed = x.type.dtype == np.int8
    finite = form != "conv" or isinstance(numbers, Integers) or all_finite(numbers.weights)
    return Layer(numbers, form, where, groups, last(x), operands, zero_point(x), signed, finite=finite)


def all_finite(weights: np.ndarray) -> bool:
    """Whether all are finite: a tile of several rows of a map reads padding by the taps of any of these, and which they
    are goes by the number of threads. It is found once for a model's plans.
    """
    return bool(once(_finite, weights))


def _finite(weights: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.array(np.isfinite(weights.sum()) or np.isfinite(weights).all())


def form_of(node: Node) -> str | None:
    """The form in which kernels compute a node with weights: "dense", "depthwise" or "conv"."""
    w = node.inputs[1]
    if w is None or not w.type.concrete or not node.x.type.concrete:
        return None
    if node.op not in ("conv", "dynamic_conv"):
        return "dense" if node.op != "matmul" or len(w.type.dims) == 2 else None
    if is_dense(node):
        return "dense"
    return None if not is_near(node) else "depthwise" if is_depthwise(node) else "conv"


def three(values: Sequence[int], fill: int = 1) -> Triple:
    """Three spatial numbers, from up to three."""
    full = (fill,) * (3 - len(values)) + tuple(int(v) for v in values)
    return full[0], full[1], full[2]


def window(node: Node) -> Window:
    """The window of a convolution or a pool in three dimensions, leading ones added."""
    a, x, out = node.attrs, node.x.type.dims, node.out.type.dims
    kernel = a["kernel_shape"] if "pool" in node.op else node.y.type.dims[1:-1]
    rank = len(x) - 2
    size, taps, outer, strides = map(three, (x[1:-1], kernel, out[1:-1], a["strides"]))
    pads, ends = three(a["pads"][:rank], 0), three(a["pads"][rank:], 0)
    return Window(x[0], out[-1], size, taps, outer, strides, three(a.get("dilations", (1,) * rank)), pads, ends)


def out_kind(value: Value) -> str | None:
    """The one of gemm.rows.STORES in which kernels store the result; None where they can't."""
    if value.type.quant is None:
        return "words" if value.type.dtype == np.float32 and value.type.concrete else None
    return "words" if per_tensor(value, np.int32) else "bytes" if per_tensor(value, np.uint8, np.int8) else None


def stored_as(node: Node) -> dict[str, int]:
    """The slots of rows.STORED for a node's result."""
    if node.out.type.dtype == np.int32:
        return {"zero_point": 0, "low": 0, "high": 0, "form": 1}
    if out_kind(node.out) == "words":
        low, high = map(f32_bits, real_bounds(node))
        return {"zero_point": 0, "low": low, "high": high, "form": 0}
    form = 128 if node.out.type.dtype == np.int8 else 0
    low, high = bounds(node)
    return {"zero_point": zero_point(node.out) + form, "low": low + form, "high": high + form, "form": form}


def integers(node: Node, channel_axis: int = 0) -> Integers | None:
    """The constants of a layer whose weights have their output channels along an axis; None where no kernel takes it.

    x must be u8 (for a dense layer of one row also s8), the weights constant s8 with scales per tensor or output
    channel, the bias constant; the chain may only clamp, and no sum may overflow int32, for bytes not even when it is
    multiplied, unless the sums are the result.
    """
    found, kind = _constants(node, channel_axis), out_kind(node.out)
    if found is None or kind is None or not _read_by_kernels(node) or not clamps_only(node) or extra_values(node):
        return None
    w, b, zeros = found
    if not _filled(node) or (b is not None and b.type.dtype not in (np.int32, np.float32)):
        return None
    if not holds_bias(node.x, w, b, node.out):
        return None
    n = len(zeros)
    weights, bias = np.moveaxis(w.array, channel_axis, 0), stored_bias(node.x, w, b, n)
    factors = multipliers(node.x, w, node.out, n)
    layer = Integers(weights, zeros, bias, factors, kind, stored_as(node))
    if node.out.type.dtype == np.int32:
        return layer if _sums_themselves(node, layer) else None
    if kind == "words" and not ((layer.multipliers >= TINY) & (layer.multipliers < LARGE)).all():
        return None
    if kind == "bytes" and not within_int32(layer):
        return None
    return layer if fits_int32(weights.reshape(n, -1), layer.bias, layer.zeros) else None


def within_int32(numbers: Integers) -> bool:
    """Whether no sum of products, in wrapping i32, is 2**31 or more when it is multiplied."""
    weight = 128 + np.abs(numbers.zeros).max(initial=0)
    most = np.abs(numbers.bias).max(initial=0) + numbers.weights[0].size * 255.0 * weight
    return bool(min(most, 2.0**31) * numbers.multipliers.max(initial=0) < 2.0**31 - 128)


def _constants(node: Node, axis: int = 0) -> tuple[Value, Value | None, np.ndarray] | None:
    """s8 weights with a scale for each place along the axis of output channels, or one; the bias; the weights' zero
    points int64 [n].
    """
    w, bias = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 and node.op != "matmul" else None
    if w is None or w.data is None or w.type.quant is None or w.type.dtype != np.int8:
        return None
    if bias is not None and bias.data is None:
        return None
    q, n = w.type.quant, w.data.shape[axis]
    if len(q.scale) not in (1, n) or len(q.zero_point) not in (1, n):
        return None
    if max(len(q.scale), len(q.zero_point)) > 1 and (q.axis is None or (q.axis - axis) % w.data.ndim):
        return None
    return w, bias, np.broadcast_to(np.array(q.zero_point, np.int64), (n,))


def _filled(node: Node) -> bool:
    return node.x.type.size > 0 and node.out.type.size > 0


def _sums_themselves(node: Node, layer: Integers) -> bool:
    """Whether the int32 result is the layer's sums themselves, which wrap as the operator's do."""
    zero = node.out.type.quantization.zero_point[0]
    return bool((layer.multipliers == 1).all()) and not (node.attrs.get("chain") or zero)


def _read_by_kernels(node: Node) -> bool:
    row = node.op == "dense" and node.out.type.concrete and row_count(node.out) == 1
    return per_tensor(node.x, np.uint8, np.int8) if row else per_tensor(node.x, np.uint8)


def extra_values(node: Node) -> list[Value]:
    """The operands of a node's chain."""
    start = OPS[node.op].extras_at
    return [] if start is None else [v for v in node.inputs[start:] if v is not None]


def chain_of(node: Node) -> tuple[Chain, tuple[str, ...]]:
    """A node's chain, and how each of its operands broadcasts to the output: a kernel's `chain` and `extras`."""
    kinds = [extra_kind(v, node.out) for v in extra_values(node)]
    assert all(kinds)
    return node.attrs.get("chain", ()), tuple(str(kind) for kind in kinds)
