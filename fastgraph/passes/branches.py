"""Sums of convolutions of one value, as networks are trained with several (RepVGG, MobileOne, RepViT), into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ir import FLOAT32, Node, Value
from ..ir.weights import once
from ..rules.rule import rule
from ..rules.sweep import Sweep


class Branch(NamedTuple):
    """A convolution of x, with weights [n, k..., c / groups], or a factor for each channel as one. `nodes`: what it
    was; `pads`: before and after each spatial axis.
    """

    x: Value
    weights: np.ndarray
    bias: np.ndarray
    groups: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    nodes: tuple[Node, ...]

    @property
    def kernel(self) -> tuple[int, ...]:
        return self.weights.shape[1:-1]


@rule("branches", "add")
def parallel_convolutions(g: Sweep, node: Node) -> bool:
    """A sum of convolutions of one value is the convolution by the sum of their weights, where the wider window has no
    more groups than the other one. A factor for each channel is a convolution, too, and so is the value itself beside
    one of each channel alone.

    Given ``y = add(conv(x, w, b), conv(x, v, c))``; result ``y = conv(x, w + v, b + c)``.
    """
    if len(node.inputs) != 2 or node.out.type.dtype != FLOAT32:
        return False
    a, b = node.inputs
    found = [each for each in (_branch(g, a), _branch(g, b)) if each is not None]
    if len(found) == 1:
        found += _itself(found[0], [a, b])
    if len(found) != 2:
        return False
    wide, other = sorted(found, key=lambda b: (b.kernel, -b.groups, len(b.nodes) == 1), reverse=True)
    first = _place(wide, other)
    if first is None or not wide.nodes or wide.nodes[0].op != "conv":
        return False
    for each in (*wide.nodes, *other.nodes):
        g.drop(each)
    x, c = wide.x, wide.x.type.dims[-1]
    summed = once(_summed, wide.weights, other.weights, wide.groups, other.groups, c, first)
    return g.again(wide.nodes[0], [x, g.held(summed), g.held(wide.bias + other.bias)])


def _branch(g: Sweep, value: Value | None) -> Branch | None:
    """The node that computes a value without other readers, as a convolution."""
    node = g.sole_maker(value)
    if node is None or len(node.outputs) != 1 or "chain" in node.attrs or node.out.type.quant is not None:
        return None
    return _convolution(node) if node.op == "conv" else _factor(g, node)


def _convolution(node: Node) -> Branch | None:
    x, w, b = (node.input(i) for i in range(3))
    if x is None or w is None or w.data is None or not w.data.dtype == x.type.dtype == FLOAT32 or not x.type.concrete:
        return None
    if b is not None and (b.data is None or b.data.dtype != FLOAT32):
        return None
    bias = np.zeros(w.data.shape[0], FLOAT32) if b is None or b.data is None else b.data
    a = node.attrs
    if a.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    return Branch(x, w.data, bias, a["groups"], a["strides"], a["dilations"], a["pads"], (node,))


def _factor(g: Sweep, node: Node) -> Branch | None:
    """x * s + t, or x * s, with a constant s and t of a number for each channel."""
    nodes: tuple[Node, ...] = (node,)
    shift = None
    if node.op == "add":
        before, shift = _with_constant(node)
        inner = g.sole_maker(before, own=1)
        if shift is None or inner is None:
            return None
        nodes = (node, inner)
    if nodes[-1].op != "mul" or len(node.out.type.dims) < 3:
        return None
    x, scale = _with_constant(nodes[-1])
    if x is None or scale is None or x.type.dtype != FLOAT32 or x.type != node.out.type:
        return None
    return _of_factors(x, scale, np.zeros(len(scale), FLOAT32) if shift is None else shift, nodes)


def _itself(beside: Branch, operands: Sequence[Value | None]) -> list[Branch]:
    """x beside a convolution of each channel of it alone."""
    c = beside.x.type.dims[-1]
    alone = beside.x in operands and beside.groups == c == len(beside.weights)
    return [_of_factors(beside.x, np.ones(c, FLOAT32), np.zeros(c, FLOAT32), ())] if alone else []


def _of_factors(x: Value, scale: np.ndarray, shift: np.ndarray, nodes: tuple[Node, ...]) -> Branch:
    c, axes = len(scale), len(x.type.dims) - 2
    weights = scale.reshape(c, *(1,) * axes, 1)
    return Branch(x, weights, shift, c, (1,) * axes, (1,) * axes, (0,) * (2 * axes), nodes)


def _with_constant(node: Node) -> tuple[Value | None, np.ndarray | None]:
    """The operand that is computed, and the constant one as f32 [channels]."""
    a, b = node.inputs
    if a is not None and a.data is not None:
        a, b = b, a
    if a is None or b is None or b.data is None or b.data.dtype != FLOAT32 or a.data is not None:
        return None, None
    c = a.type.dims[-1] if a.type.concrete and a.type.dims else 0
    return (a, b.data.reshape(-1)) if c and b.data.shape[-1:] == (c,) and b.data.size == c else (None, None)


def _place(wide: Branch, other: Branch) -> tuple[int, ...] | None:
    """The tap of the wide window where the first tap of the other one lies; None where they don't fit together."""
    if wide.x is not other.x or len(wide.weights) != len(other.weights) or wide.strides != other.strides:
        return None
    if other.groups % wide.groups:
        return None
    first = []
    for i, (n, k) in enumerate(zip(wide.kernel, other.kernel, strict=True)):
        apart = wide.pads[i] - other.pads[i]
        if apart % wide.dilations[i] or (k > 1 and wide.dilations[i] != other.dilations[i]):
            return None
        at = apart // wide.dilations[i]
        if not 0 <= at <= n - k:
            return None
        first.append(at)
    return tuple(first)


def _summed(
    wide: np.ndarray, other: np.ndarray, wide_groups: int, other_groups: int, c: int, first: tuple[int, ...]
) -> np.ndarray:
    """The weights of both, in the window and the groups of the wide one; the other ones begin at tap `first`."""
    total = wide.astype(np.float64)
    n, each, own = len(wide), c // wide_groups, c // other_groups
    taps = tuple(slice(at, at + k) for at, k in zip(first, other.shape[1:-1], strict=True))
    output = np.arange(n)
    start = output // (n // other_groups) * own - output // (n // wide_groups) * each
    for i in range(own):
        at: Any = (output, *taps, start + i)
        total[at] += other[..., i]
    return total.astype(np.float32)
