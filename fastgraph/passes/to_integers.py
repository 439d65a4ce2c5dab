"""Integer arithmetic where operands and results are quantized.

After it, activations of 8 bits are uint8 (int8 at the graph's edges only) and weights int8, which is what kernels for
integers take; clamps stand in `chain`s, and functions of one value of 8 bits are tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..ir import Graph, Node, TensorType, Value
from ..ops.evaluate import computes_reals, fold
from ..ops.registry import OPS, Quant, step_of
from ..rules.rule import has, rule
from ..rules.sweep import Sweep, sweep
from .explicit_quantization import fills_with, same_numbers
from .fuse import LONGEST
from .quantized.signs import unsigned
from .words import CLAMPS, reals_of_words


def to_integers(graph: Graph) -> bool:
    """Given ``y = requantize(relu(conv(requantize(x), w)))``; result ``y = conv(x, w) {chain=((relu, 0),)}``."""
    words = any(v.type.dtype == np.int16 for node in graph.nodes for v in node.outputs)
    if words:
        reals_of_words(graph)
    for phase in ("integers", "integers_moved", "padded"):
        sweep(graph, phase)
    unsigned(graph)
    sweep(graph, "clamps", "tables")
    sweep(graph, "integer_chains")
    if has("dynamic_round")(graph):
        sweep(graph, "dynamic_layers")
    sweep(graph, "signs")
    if words or any(node.op == "requantize" and node.x.data is not None for node in graph.nodes):
        sweep(graph, "coded_layers")
    sweep(graph, "real_constants")
    return True


def is_layer(node: Node) -> bool:
    """Whether there are kernels that multiply by constant integer weights."""
    op = OPS[node.op]
    return op.quant is Quant.INTEGERS and op.weights is not None


def _integers(g: Sweep, value: Value | None) -> Value | None:
    """The quantized value whose reals `value` is, if there is one."""
    if value is None or value.type.quant is not None:
        return value
    before = g.made_by(value, "requantize")
    return before.x if before is not None and before.x.type.quant is not None else None


@rule("integers", lambda op: op.moves)
def moves_integers(g: Sweep, node: Node) -> bool:
    """Operators that only move data move stored numbers.

    Given ``y = transpose(requantize(x))``; result ``y = requantize(transpose(x))``.
    """
    if node.op == "concat" or len(node.outputs) != 1:
        return False
    x = _integers(g, node.x)
    if x is None or x.type.quant is None or x.type.quant.axis is not None or node.out.type.dtype != np.float32:
        return False
    if node.op == "pad" and not fills_with(node, x.type):
        return False
    stored = TensorType(x.type.dtype, node.out.type.shape, x.type.quant)
    return g.becomes(g("requantize", g(node.op, x, *node.inputs[1:], type=stored, **node.attrs), type=node.out.type))


@rule("integers", "where")
def never_nan(g: Sweep, node: Node) -> bool:
    """Given ``y = where(is_nan(requantize(x)), a, b)``, x stored in integers; result ``y = b``."""
    condition, _, other = node.operands
    test = g.made_by(condition, "is_nan")
    if test is None or other.type.shape != node.out.type.shape:
        return False
    return _integers(g, test.x) is not None and g.becomes(other)


@rule("integers", lambda op: op.weights is not None, quantized=True)
def on_integers(g: Sweep, node: Node) -> bool:
    """A layer reads the stored numbers of quantized operands.

    Given ``y = conv(requantize(x), requantize(const))``; result ``y = conv(x, const)``, f32 as before.
    """
    if not is_layer(node) or len(node.outputs) != 1:
        return False
    found = [_integers(g, v) for v in node.inputs]
    fixed = [v is not None and v.data is not None and v.type.quant is None for v in node.inputs]
    if found[0] is None or found[1] is None or found == node.inputs:
        return False
    if any(
        f is None and v is not None and not is_fixed for f, v, is_fixed in zip(found, node.inputs, fixed, strict=True)
    ):
        return False
    return g.again(node, [f if f is not None else v for f, v in zip(found, node.inputs, strict=True)])


@rule("integers", "requantize", quantized=True)
def absorb(g: Sweep, node: Node) -> bool:
    """An operator on quantized operands writes the quantized result, with the clamps after it, before a reshape.

    Given ``y = requantize(add(requantize(a), requantize(b)))``; result ``y = add(a, b)``.
    """
    if node.x.type.quant is not None or node.out.type.quant is None:
        return False
    reshape = g.sole_maker(node.x)
    reshape = reshape if reshape is not None and reshape.op == "reshape" and node.out.type.quant.axis is None else None
    value = node.x if reshape is None else reshape.x
    kind = node.out.type if reshape is None else node.out.type.with_shape(value.type.shape)
    nodes = _with_clamps(g, value)
    inputs = _stored_operands(g, nodes[0]) if nodes else None
    if inputs is None:
        return False
    for maker in (*nodes, *([reshape] if reshape else [])):
        g.drop(maker)
    for i, maker in enumerate(nodes):
        own = [value, *maker.inputs[1:]] if i else inputs
        value = g(maker.op, *own, type=kind, **maker.attrs)
    return g.becomes(value)


def _with_clamps(g: Sweep, value: Value) -> list[Node]:
    """The operator on integers that a value is made by, and the clamps behind it; nothing where others read what lies
    between, or where there is none.
    """
    nodes: list[Node] = []
    while True:
        maker = g.sole_maker(value)
        if maker is None or len(maker.outputs) != 1 or "chain" in maker.attrs:
            return []
        if OPS[maker.op].quant is not Quant.INTEGERS:
            return []
        nodes.insert(0, maker)
        if maker.op not in CLAMPS or _integers(g, maker.x) is not None:
            return nodes
        value = maker.x


def _stored_operands(g: Sweep, node: Node) -> list[Value | None] | None:
    """The operands as the stored numbers that they stand for, or as constants; None where one is neither, where all are
    constants, or where a layer's weights are not quantized.
    """
    found = [_integers(g, v) or (v if v is not None and v.data is not None else None) for v in node.inputs]
    if any(a is None and b is not None for a, b in zip(found, node.inputs, strict=True)):
        return None
    if is_layer(node) and (found[1] is None or found[1].type.quant is None):
        return None
    return found if any(v is not None and v.type.quant is not None and v.data is None for v in found) else None


@rule("integers_moved clamps", "requantize", quantized=True)
def requantized_twice(g: Sweep, node: Node) -> bool:
    """requantize(requantize(x)) through reals is one change, and none when nothing changes."""
    x = node.x
    before = g.made_by(x, "requantize")
    if before is not None and x.type.quant is None and x.type.dtype == np.float32:
        x = before.x
    if same_numbers(x.type, node.out.type):
        return g.becomes(x)
    return x is not node.x and g.becomes(g.requantize(x, node.out.type))


@rule("clamps", *CLAMPS, quantized=True)
def clamp(g: Sweep, node: Node) -> bool:
    """A clamp of a stored result becomes a clamp of the sums.

    Given ``y = relu(conv(x, w))``, both uint8 of one scale; result ``y = conv(x, w) {chain=((relu, 0),)}``.
    """
    step = step_of(node)
    if step is None or not same_numbers(node.x.type, node.out.type) or node.out.type.quant is None:
        return False
    maker = g.sole_maker(node.x)
    if maker is None or len(maker.outputs) != 1 or not computes_reals(maker):
        return False
    if extras_at := OPS[maker.op].extras_at:
        chain = maker.attrs.get("chain", ())
        if len(chain) >= LONGEST:
            return False
        at = len(maker.inputs) - extras_at
        last = 0 if not chain else max(at, 0) + len(chain)
        g.drop(maker)
        return g.again(maker, chain=(*chain, (step[0], last, *step[2:])))
    first = step_of(maker) if len(maker.inputs) == 2 else None
    if first is not None and not any(v is None for v in maker.inputs):
        g.drop(maker)
        return _fused(g, node, maker.inputs, first, step)
    return False


def _fused(
    g: Sweep, node: Node, inputs: Iterable[Value | None], first: tuple[Any, ...], *then: tuple[Any, ...]
) -> bool:
    """A chain of one step on these inputs and numbers, with another step on its result if given."""
    places = {v: i for i, v in enumerate(dict.fromkeys(inputs))}
    head = tuple(places[o] if isinstance(o, Value) else o for o in first)
    chain = (head, *((step[0], len(places), *step[2:]) for step in then))
    return g.becomes(g("fused", *places, type=node.out.type, chain=chain))


@rule("integer_chains", lambda op: op.step is not None, quantized=True)
def as_chain(g: Sweep, node: Node) -> bool:
    """Remaining elementwise nodes become chains of one step, on reals."""
    step = None if any(v is None for v in node.inputs[:2]) else step_of(node)
    if step is None or not computes_reals(node):
        return False
    return _fused(g, node, (o for o in step[1:] if isinstance(o, Value)), step)


@rule("real_constants", quantized=True)
def real_constants(g: Sweep, node: Node) -> bool:
    """A quantized constant all of whose readers compute in f32 becomes f32."""
    if node.op == "requantize" and node.x.data is not None:
        found = fold(node)
        return found is not None and g.becomes(Value.constant(node.out.name, found[0], node.out.type.quant))
    if (
        node.op in ("dynamic_conv", "dynamic_dense")
        or node.attrs.get("dynamic")
        or not computes_reals(node)
        or any(v is not None and v.data is None and v.type.quant is not None for v in (*node.inputs, *node.outputs))
    ):
        return False
    return g.again(node, [v and g.reals(v) for v in node.inputs])
