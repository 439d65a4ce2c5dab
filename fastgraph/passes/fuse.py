"""Fuse constants, padding and elementwise work into the operators before them.

Afterwards, elementwise work stands in `chain` attributes (see `kernels.pointwise.chain`): value 0 is the operator's own
result, values 1.. are the node's inputs from `extras_at` on. A chain on its own is a `fused` node, whose values are its
inputs.
"""

from __future__ import annotations

from itertools import islice
from math import prod
from typing import Any

import numpy as np

from ..freedoms import free
from ..ir import FLOAT32, Graph, Node, Value
from ..ir.build import constant
from ..ir.weights import once
from ..ops.chain import Chain, extra_kind, is_f32
from ..ops.registry import OPS, Quant, step_of
from ..ops.shape import permutation
from ..rules.rule import rule
from ..rules.sweep import Sweep, sweep

LONGEST, WIDEST = 32, 16
"""Most steps and operands of a chain: it is one kernel, and has to compile in time and fit the registers."""
SHORT, MOST_SPREAD = 8, 1 << 14
"""Elements of a row, and numbers, up to which a constant for each row becomes one for each element."""
FEW = 4
"""Most channels of an image that are read as slices of a volume."""


def fuse(graph: Graph) -> bool:
    """Given ``y = relu(add(mul(conv(x, w), s), t))``; result ``y = conv(x, w * s, t) {chain=((relu, 0),)}``."""
    changed = any([sweep(graph, phase) for phase in ("pads", "factors")])
    if sweep(graph, "branches"):
        changed = True
        sweep(graph, "factors")
    rare = {"small_maps": _exceeds_map, "shuffles": _takes_apart, "planes": _pools, "channel_slices": of_few_channels}
    phases = ("chains", "last_chains", *(phase for phase, suits in rare.items() if any(map(suits, graph.nodes))))
    return any([sweep(graph, phase) for phase in phases]) or changed


def _takes_apart(node: Node) -> bool:
    """Whether a transpose moves parts of channels beside parts of pixels."""
    return node.op == "transpose" and node.x.type.concrete and len(node.x.type.dims) > 5


def _exceeds_map(node: Node) -> bool:
    """Whether a convolution's window is larger than its map."""
    if node.op != "conv" or node.inputs[1] is None or not (node.x.type.concrete and node.inputs[1].type.concrete):
        return False
    axes = zip(node.x.type.dims[1:-1], node.inputs[1].type.dims[1:-1], node.attrs["dilations"], strict=True)
    return any(size <= (k - 1) * d for size, k, d in axes)


def _pools(node: Node) -> bool:
    return node.op in ("max_pool", "average_pool")


def of_few_channels(node: Node) -> bool:
    """Whether a convolution of images may read its channels as slices of a volume."""
    return node.op == "conv" and node.x.type.concrete and len(node.x.type.dims) == 4 and 1 < node.x.type.dims[-1] <= FEW


# -- constants into weights


@rule("pads", "conv", quantized=True)
def fold_pad(g: Sweep, node: Node) -> bool:
    """A constant zero pad of the image before a convolution, or before its transpose, is the convolution's own."""
    maker = g.sole_maker(node.inputs[0])
    turned = maker if maker is not None and maker.op == "transpose" else None
    pad = g.sole_maker(turned.x) if turned is not None else maker
    if pad is None or pad.op != "pad" or pad.attrs.get("mode", "constant") != "constant":
        return False
    pads, value = pad.const(1), pad.const(2)
    if pads is None or pad.has(3) or (pad.has(2) and (value is None or np.any(value != _zero(pad)))):
        return False
    both = pads.reshape(2, -1)
    both = both[:, permutation(turned)] if turned is not None else both
    if np.any(both < 0) or np.any(both[:, [0, -1]]):
        return False
    inner = tuple(int(p) for p in (both[:, 1:-1].ravel() + np.array(node.attrs["pads"])))
    g.drop(pad)
    x = pad.x
    if turned is not None:
        g.drop(turned)
        x = g("transpose", x, perm=permutation(turned))
    return g.again(node, [x, *node.inputs[1:]], pads=inner)


def _zero(pad: Node) -> int:
    """The stored number for 0.0 of the padded value."""
    return 0 if pad.x.type.quant is None else pad.x.type.quant.zero_point[0]


@rule("factors", "mul add sub div")
def fold_affine(g: Sweep, node: Node) -> bool:
    """A constant factor or addend per channel becomes part of the weights or the bias of the layer before it."""
    x, c = _and_constant(node)
    layer = g.sole_maker(x)
    operands = _with_affine(g, node, layer, c)
    if layer is None or operands is None:
        return False
    g.drop(layer)
    return g.again(layer, operands)


@rule("factors", "mul add sub div")
def fold_past_relu(g: Sweep, node: Node) -> bool:
    """A constant number behind a ReLU does so too: relu(x) * s = relu(x * s) of s > 0, relu(x) + t = max(x + t, t)."""
    x, c = _and_constant(node)
    relu = g.sole_maker(x)
    if relu is None or relu.op != "relu" or c is None or c.data is None or c.data.size != 1 or not is_f32(node):
        return False
    scales, number = node.op in ("mul", "div"), float(c.data.item())
    layer = g.sole_maker(relu.x) if (0 if scales else -np.inf) < number < np.inf else None
    operands = _with_affine(g, node, layer, c)
    if layer is None or operands is None:
        return False
    g.drop(relu)
    g.drop(layer)
    y = g(layer.op, *operands, type=layer.out.type, **layer.attrs)
    least = g.held(np.array(-number if node.op == "sub" else number, FLOAT32))
    return g.becomes(g("relu", y) if scales else g("max", y, least))


def _and_constant(node: Node) -> tuple[Value | None, Value | None]:
    """The operands of a node, the second one the constant where there is one that may be it."""
    x, c, *more = [*node.inputs, None]
    if x is not None and x.data is not None and node.op in ("mul", "add"):
        x, c = c, x
    return (x, c) if len(more) == 1 else (None, None)


def _with_affine(g: Sweep, node: Node, layer: Node | None, c: Value | None) -> list[Value | None] | None:
    """The operands of the layer whose result is that of the node, an affine step behind it with a constant; None where
    there is none.
    """
    if c is None or c.data is None or layer is None or not _adds_bias(layer):
        return None
    per_channel = _per_channel(c.data, layer.out)
    w, b = layer.inputs[1], layer.input(2)
    if per_channel is None or w is None or w.data is None or (b is not None and b.data is None):
        return None
    if node.out.type != layer.out.type or "chain" in layer.attrs:
        return None
    scales = node.op in ("mul", "div")
    if (scales and w.type.quant is not None) or (b is not None and b.type.quant is not None):
        return None
    bias = np.zeros(w.data.shape[0], node.out.type.dtype) if b is None or b.data is None else b.data
    if scales:
        factor = per_channel if node.op == "mul" else 1 / per_channel.astype(np.float64)
        if not np.isfinite(factor).all():
            return None  # infinite weights would make NaN of a sum
        w = constant(w, once(_scaled, w.data, factor))
        bias = (bias * factor).astype(bias.dtype)
    else:
        bias = bias + per_channel if node.op == "add" else bias - per_channel
    return [layer.x, w, g.held(bias)]


def _scaled(weights: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Weights [n, k...] times a factor for each n, in their own type."""
    column = factor.reshape(-1, *[1] * (weights.ndim - 1))
    return (weights * column).astype(weights.dtype)


def _adds_bias(node: Node) -> bool:
    """Whether it is a layer in f32, or of quantized weights, that can take a bias."""
    op = OPS[node.op]
    return op.quant is Quant.INTEGERS and op.bias is not None


def _per_channel(data: np.ndarray, out: Value) -> np.ndarray | None:
    """`data` as one number per channel of a channels-last value; None where it isn't that."""
    channels = out.type.dims[-1]
    if data.size == 1:
        return np.broadcast_to(data.ravel(), (channels,))
    if data.ndim <= len(out.type.dims) and data.size == channels == data.shape[-1]:
        return data.ravel()
    return None


# -- squares into their sums


@rule("factors", "reduce_mean reduce_sum")
def squares(g: Sweep, node: Node) -> bool:
    """A sum of squares becomes one operator; a mean of squares, that over their number."""
    product = g.sole_maker(node.x)
    if product is None or product.op != "mul" or product.inputs != [product.x] * 2 or not is_f32(product):
        return False
    if not node.out.type.concrete or not node.x.type.size or "chain" in node.attrs:
        return False
    g.drop(product)
    y = g("reduce_sum_square", product.x, *node.inputs[1:], type=node.out.type, **node.attrs)
    return g.becomes(y / (node.x.type.size // node.out.type.size) if node.op == "reduce_mean" else y)


# -- chains


@rule("chains", lambda op: op.step is not None)
def as_chain(g: Sweep, node: Node) -> bool:
    """An elementwise f32 node absorbs the chains before it, or ends the operator that gives its input."""
    step = step_of(node) if is_f32(node) else None
    if step is None:
        return False
    inputs: list[Value | None] = []
    chain = _chain_of(step, inputs)
    joined = node.with_(inputs, op="fused", attrs={"chain": chain})
    while (before := _chain_before(g, joined, node)) is not None:
        g.drop(before)
        joined = _take_chain(joined, before.out, before)
    joined = _into_maker(g, joined, node) or joined
    formula = node.op == "mul" and not {"erf", "tanh"}.isdisjoint(name for name, *_ in joined.attrs["chain"])
    if formula and free("activations"):
        from .activations import named  # few graphs have these

        joined = named(joined)
    g.write(joined)
    return True


@rule("last_chains", "fused")
def for_each_element(g: Sweep, node: Node) -> bool:
    """A constant with a number per short row is expanded to one per element, so that rows need no loop of their own."""
    dims = node.out.type.dims if node.out.type.concrete else ()
    given = [v for v in node.inputs if v is not None and v.data is None]
    if not dims or not 1 < dims[-1] <= SHORT or any(v.type.shape != dims for v in given):
        return False
    inputs: list[Value | None] = []
    for value in node.inputs:
        data = None if value is None else value.data
        if value is None or data is None or data.shape[-1:] != (1,) or not 1 < data.size <= MOST_SPREAD:
            inputs.append(value)
        else:
            inputs.append(constant(value, np.repeat(data, dims[-1], axis=-1), "spread"))
    return inputs != node.inputs and g.again(node, inputs)


def _chain_before(g: Sweep, node: Node, at_hand: Node) -> Node | None:
    """A chain that gives an input of the fused node, has its shape and no other reader."""
    for value in node.inputs:
        before = None if value is None else g.sole_maker(value, own=int(value in at_hand.inputs))
        if before is not None and before.op == "fused" and before.out.type.shape == node.out.type.shape:
            if fits(before, before.inputs, node):
                return before
    return None


def fits(before: Node, operands: list[Value | None], node: Node) -> bool:
    """Whether the chain of a fused node can follow that of `before`, which has these operands."""
    steps = len(before.attrs.get("chain", ())) + len(node.attrs["chain"])
    return steps <= LONGEST and len({*operands, *node.inputs} - {before.out}) <= WIDEST


def _chain_of(step: tuple[Any, ...], inputs: list[Value | None]) -> Chain:
    """The chain of one step over Values and numbers. Scalar constants become numbers, other values `inputs`.

    A scalar of higher rank than all other operands stays a value, since it determines the result's rank.
    """
    operands: list[Any] = []
    rank = max((len(v.type.dims) for v in step[1:] if isinstance(v, Value) and v.data is None), default=-1)
    for operand in step[1:]:
        if isinstance(operand, Value):
            if operand.data is not None and operand.data.size == 1 and operand.data.ndim <= rank:
                operand = float(operand.data.item())
            else:
                if operand not in inputs:
                    inputs.append(operand)
                operand = inputs.index(operand)
        operands.append(operand)
    return ((step[0], *operands),)


def _take_chain(node: Node, value: Value, before: Node) -> Node:
    """`node` (fused) with the chain of `before` (fused), which makes its input `value`, put in front."""
    inputs: list[Value | None] = list(dict.fromkeys([*before.inputs, *(v for v in node.inputs if v is not value)]))
    head = _renumber(before.attrs["chain"], [inputs.index(v) for v in before.inputs], len(inputs))
    at = len(inputs) + len(head) - 1
    places = [at if v is value else inputs.index(v) for v in node.inputs]
    tail = _renumber(node.attrs["chain"], places, len(inputs) + len(head))
    return node.with_(inputs, attrs={"chain": head + tail})


def _renumber(chain: Chain, places: list[int], first: int) -> Chain:
    """`chain` with its inputs at `places` and its step results numbered from `first`."""
    count = len(places)
    if first == count and places == list(range(count)):
        return chain

    def move(operand: Any) -> Any:
        if isinstance(operand, float):
            return operand
        return places[operand] if operand < count else operand - count + first

    return tuple((step[0], *map(move, step[1:])) for step in chain)


def _into_maker(g: Sweep, node: Node, at_hand: Node) -> Node | None:
    """The product or pool that gives an input of a fused node, with the node's chain at its end; None if none can take
    it.

    Of several candidates the last one is taken, since the others' results must exist before it runs.
    """
    makers = [g.sole_maker(v, own=int(v in at_hand.inputs)) for v in node.inputs]
    ready = {m for m in makers if m is not None and OPS[m.op].extras_at}
    for maker in islice((m for m in reversed(g.nodes) if m in ready), len(ready)):
        value = maker.out
        others = [v for v in node.inputs if v is not None and v is not value]
        if value.type != node.out.type or len(maker.outputs) > 1 or not all(_can_address(maker, v) for v in others):
            continue
        if not fits(maker, maker.inputs[OPS[maker.op].extras_at :], node):
            continue
        g.drop(maker)
        return _end_with(maker, value, node)
    return None


def _can_address(maker: Node, extra: Value) -> bool:
    """Whether the kernel of `maker` can address the operand: a product counts matrices, not images."""
    kind = extra_kind(extra, maker.out)
    if maker.op == "matmul" and kind == "image":
        matrices = maker.inputs[1].type.dims[:-2]  # type: ignore[union-attr]
        return prod(matrices) in (1, extra.type.dims[0])
    return kind is not None and not maker.op.startswith("reduce")


def _end_with(maker: Node, value: Value, node: Node) -> Node:
    at = OPS[maker.op].extras_at or 0
    base = (maker.inputs + [None] * at)[:at]
    own = maker.inputs[at:]
    extras = list(dict.fromkeys([*own, *(v for v in node.inputs if v is not value)]))
    before: Chain = maker.attrs.get("chain", ())
    head = _renumber(before, [0, *(1 + extras.index(v) for v in own)], 1 + len(extras))
    result = len(extras) + len(head) if head else 0
    places = [result if v is value else 1 + extras.index(v) for v in node.inputs]
    tail = _renumber(node.attrs["chain"], places, 1 + len(extras) + len(head))
    return maker.with_(base + extras, node.outputs, attrs={**maker.attrs, "chain": head + tail})
