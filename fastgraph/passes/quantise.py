"""Integer arithmetic where operands and results are quantised.

After it, activations of 8 bits are uint8 (int8 at the graph's edges only) and weights int8, which is what kernels for
integers take; clamps stand in `chain`s, and functions of one value of 8 bits are tables.
"""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Node, Quantization, TensorType, Value, subgraphs
from ..ops.evaluate import computes_reals, fold, run_node
from ..ops.reals import STORED
from ..ops.registry import EXTRAS_AT
from .dynamic_layer import DYNAMIC, dynamic_layer
from .edges import reads_signed, writes_signed
from .fuse import LONGEST
from .requantise import MOVES, fills_with, moved, padded, requantized, same_numbers
from .rewrite import Sweep, also_quantised, constant, sweep
from .steps import ELEMENTWISE

LAYERS = frozenset({"conv", "conv_transpose", "dense", "matmul"})
"""Operators whose second operand is weights, when it is constant."""

INTEGER = LAYERS | MOVES | frozenset(ELEMENTWISE) | {"average_pool", "reduce_mean", "reduce_sum", "softmax", "resize"}
"""Operators that are done on integers when all around them is quantised."""

CLAMPS = frozenset({"relu", "clip"})
"""Steps that can be done before rounding or after it, with the same result."""

BYTES = (np.dtype(np.int8), np.dtype(np.uint8))


def quantise(graph: Graph) -> None:
    """Given ``y = requantize(relu(conv(requantize(x), w)))``; result ``y = conv(x, w) {chain=((relu, 0),)}``."""
    if not any(computes_reals(node) for node in graph.nodes):
        return
    sweep(graph, moves_integers, on_integers, absorb)
    sweep(graph, requantized_twice, moved)
    sweep(graph, padded)
    unsigned(graph)
    sweep(graph, requantized_twice, clamp, tabulate)
    sweep(graph, as_chain)
    sweep(graph, dynamic_layer)
    sweep(graph, writes_signed, reads_signed)
    sweep(graph, real_constants)


def _integers(state: Sweep, value: Value | None) -> Value | None:
    """The quantised value whose reals `value` holds, if there is one."""
    if value is None or value.type.quant is not None:
        return value
    before = state.maker.get(value)
    return before.x if before is not None and before.op == "requantize" and before.x.type.quant is not None else None


def moves_integers(state: Sweep, node: Node) -> bool:
    """What only moves data moves integers, and their reals are made after it.

    Given ``y = transpose(requantize(x))``; result ``y = requantize(transpose(x))``.
    """
    if node.op not in MOVES or node.op == "concat" or len(node.outputs) != 1:
        return False
    x = _integers(state, node.x)
    if x is None or x.type.quant is None or x.type.quant.axis is not None or node.out.type.dtype != np.float32:
        return False
    if node.op == "pad" and not fills_with(node, x.type):
        return False
    stored = TensorType(x.type.dtype, node.out.type.shape, x.type.quant)
    value = state.add(node.op, [x, *node.inputs[1:]], stored, node, **node.attrs)
    state.replace(node.out, state.add("requantize", [value], node.out.type, node))
    return True


@also_quantised
def on_integers(state: Sweep, node: Node) -> bool:
    """A layer reads the integers of quantised operands, and not their reals.

    Given ``y = conv(requantize(x), requantize(const))``; result ``y = conv(x, const)``, f32 as before.
    """
    if node.op not in LAYERS or len(node.outputs) != 1:
        return False
    found = [_integers(state, v) for v in node.inputs]
    fixed = [v is not None and v.data is not None and v.type.quant is None for v in node.inputs]
    if found[0] is None or found[1] is None or found == node.inputs:
        return False
    if any(f is None and v is not None and not is_fixed
           for f, v, is_fixed in zip(found, node.inputs, fixed, strict=True)):  # fmt: skip
        return False
    inputs = [f if f is not None else v for f, v in zip(found, node.inputs, strict=True)]
    state.write(Node(node.op, inputs, node.outputs, node.attrs, node.name))
    return True


@also_quantised
def absorb(state: Sweep, node: Node) -> bool:
    """An operator on quantised operands gives the quantised result at once, and so do the clamps after it.

    Given ``y = requantize(add(requantize(a), requantize(b)))``; result ``y = add(a, b)``.
    """
    if node.op != "requantize" or node.x.type.quant is not None or node.out.type.quant is None:
        return False
    nodes: list[Node] = []
    value = node.x
    while True:
        maker = state.sole_maker(value)
        if maker is None or len(maker.outputs) != 1 or maker.op not in INTEGER or "chain" in maker.attrs:
            return False
        nodes.append(maker)
        if maker.op not in CLAMPS or _integers(state, maker.x) is not None:
            break
        value = maker.x
    first = nodes[-1]
    inputs = [_integers(state, v) or (v if v is not None and v.data is not None else None) for v in first.inputs]
    if any(a is None and b is not None for a, b in zip(inputs, first.inputs, strict=True)):
        return False
    if first.op in LAYERS and (inputs[1] is None or inputs[1].type.quant is None):
        return False
    if not any(v is not None and v.type.quant is not None and v.data is None for v in inputs):
        return False
    for maker in nodes:
        state.drop(maker)
    for i, maker in enumerate(reversed(nodes)):
        own = inputs if i == 0 else [value, *maker.inputs[1:]]
        value = Value(f"{maker.out.name}.stored", node.out.type)
        state.write(Node(maker.op, own, [value], maker.attrs, maker.name))
    state.replace(node.out, value)
    return True


@also_quantised
def requantized_twice(state: Sweep, node: Node) -> bool:
    """requantize(requantize(x)) through reals is one change, and none when nothing changes."""
    if node.op != "requantize":
        return False
    x = node.x
    before = state.maker.get(x)
    if before is not None and before.op == "requantize" and x.type.quant is None and x.type.dtype == np.float32:
        x = before.x
    if same_numbers(x.type, node.out.type):
        state.replace(node.out, x)
        return True
    if x is not node.x:
        state.replace(node.out, requantized(state, x, node.out.type, node))
        return True
    return False


# -- bytes without sign


def unsigned(graph: Graph) -> None:
    """Every activation of int8 becomes uint8 with a zero point greater by 128; weights of uint8 become int8.

    Inputs and results of the graph, and of operators that look at stored numbers, stay what they are.
    """
    state = Sweep(graph)
    now: dict[Value, Value] = {}

    def read(value: Value | None, node: Node) -> Value | None:
        if value is None or value not in now and not _signed_activation(value):
            return value
        if value not in now:
            now[value] = requantized(state, value, _shifted(value.type, 128, np.uint8), node)
        return now[value]

    for node in graph.nodes:
        if node.op in STORED or any(True for _ in subgraphs(node)):
            state.keep(node)
            continue
        inputs: list[Value | None] = []
        for i, value in enumerate(node.inputs):
            inputs.append(_weights(value) if i == 1 and node.op in LAYERS else read(value, node))
        outputs = [Value(v.name, _shifted(v.type, 128, np.uint8)) if _signed_activation(v) else v for v in node.outputs]
        state.write(Node(node.op, inputs, outputs, node.attrs, node.name))
        for old, new in zip(node.outputs, outputs, strict=True):
            if old is not new:
                now[old] = new
                state.write(Node("requantize", [new], [old], {}, node.name))
    graph.nodes = state.written()
    graph.prune()


def _signed_activation(value: Value) -> bool:
    quant = value.type.quant
    return value.type.dtype == np.int8 and quant is not None and quant.axis is None and value.type.concrete


def _weights(value: Value | None) -> Value | None:
    """Weights of uint8 as int8, which mean the same."""
    if value is None or value.data is None or value.type.quant is None or value.type.dtype != np.uint8:
        return value
    type_ = _shifted(value.type, -128, np.int8)
    return constant(value, (value.data ^ np.uint8(128)).view(np.int8), "int8", type_.quant)


def _shifted(type_: TensorType, by: int, dtype: type) -> TensorType:
    assert type_.quant is not None
    zeros = tuple(z + by for z in type_.quant.zero_point)
    return TensorType(np.dtype(dtype), type_.shape, Quantization(type_.quant.scale, zeros, type_.quant.axis))


# -- clamps and tables


@also_quantised
def clamp(state: Sweep, node: Node) -> bool:
    """A clamp of the stored result is a clamp of the sum that it is made of.

    Given ``y = relu(conv(x, w))``, both uint8 of one scale; result ``y = conv(x, w) {chain=((relu, 0),)}``.
    """
    step = ELEMENTWISE[node.op](node) if node.op in CLAMPS else None
    if step is None or not same_numbers(node.x.type, node.out.type) or node.out.type.quant is None:
        return False
    maker = state.sole_maker(node.x)
    if maker is None or len(maker.outputs) != 1 or not computes_reals(maker):
        return False
    if maker.op in EXTRAS_AT and maker.op != "fused":
        if len(maker.attrs.get("chain", ())) >= LONGEST:
            return False
        at = len(maker.inputs) - EXTRAS_AT[maker.op]
        chain = maker.attrs.get("chain", ())
        last = 0 if not chain else max(at, 0) + len(chain)
        chain = (*chain, (step[0], last, *step[2:]))
        state.drop(maker)
        state.write(Node(maker.op, maker.inputs, node.outputs, {**maker.attrs, "chain": chain}, maker.name))
        return True
    if maker.op in ELEMENTWISE and len(maker.inputs) == 2:
        first = ELEMENTWISE[maker.op](maker)
        if first is None or any(v is None for v in maker.inputs):
            return False
        state.drop(maker)
        places = {v: i for i, v in enumerate(dict.fromkeys(maker.inputs))}
        head = tuple(places[o] if isinstance(o, Value) else o for o in first)
        chain = (head, (step[0], len(places), *step[2:]))
        state.write(Node("fused", list(places), node.outputs, {"chain": chain}, node.name))
        return True
    return False


@also_quantised
def tabulate(state: Sweep, node: Node) -> bool:
    """An elementwise function of one value of 8 bits is a table of 256 results.

    Given ``y = mul(x, sigmoid(x))``, all uint8; result ``y = table(x)``. A table is indexed by the byte that is stored.
    """
    if node.op not in ELEMENTWISE and not (node.op == "requantize" and state.made_by(node.x, "table")):
        return False
    if len(node.outputs) != 1 or node.out.type.dtype not in BYTES:
        return False
    if node.out.type.quant is None or node.out.type.quant.axis is not None:
        return False
    roots = [_function(state, v) for v in node.inputs if v is not None and v.data is None]
    numbers = all(v.data.size == 1 for v in node.inputs if v is not None and v.data is not None)
    if not roots or not numbers or any(r is None or r[0] is not roots[0][0] for r in roots):  # type: ignore[index]
        return False
    x = roots[0][0]  # type: ignore[index]
    if x.type.shape != node.out.type.shape:
        return False
    state.replace(node.out, state.add("table", [x], node.out.type, node, values=_results(state, node)))
    return True


def _function(state: Sweep, value: Value, further: bool = True) -> tuple[Value, np.ndarray] | None:
    """(x, the 256 stored numbers of `value` for those of x) when `value` is a function of a value of 8 bits.

    `further`: look through a change of quantisation, but through no second one, of which there may be very many.
    """
    maker = state.maker.get(value)
    if maker is not None and maker.op == "table":
        return maker.x, maker.attrs["values"]
    quant = value.type.quant
    if value.type.dtype not in BYTES or quant is None or quant.axis is not None:
        return None
    if further and maker is not None and maker.op == "requantize" and maker.x.type.dtype in BYTES:
        before = _function(state, maker.x, False)
        if before is not None:
            return before[0], run_node(Node("requantize", [_line(maker.x)], [_line(value)]), [before[1]])[0]
    assert value.type.dtype is not None
    return value, np.arange(256).astype(np.uint8).view(value.type.dtype)


def _line(value: Value) -> Value:
    """A value of 256 elements of the same kind."""
    return Value(value.name, value.type.with_shape((256,)))


def _results(state: Sweep, node: Node) -> np.ndarray:
    """What an elementwise node stores for each number that the value it is a function of can have."""
    arrays, inputs = [], []
    for value in node.inputs:
        if value is None or value.data is not None:
            inputs.append(value)
            arrays.append(None if value is None else value.data)
            continue
        function = _function(state, value)
        assert function is not None
        inputs.append(_line(value))
        arrays.append(function[1])
    result: np.ndarray = run_node(Node(node.op, inputs, [_line(node.out)], node.attrs, node.name), arrays)[0]
    return result.reshape(256)


@also_quantised
def as_chain(state: Sweep, node: Node) -> bool:
    """What is left of elementwise work is a chain of one step, on reals."""
    if node.op not in ELEMENTWISE or any(v is None for v in node.inputs[:2]):
        return False
    step = ELEMENTWISE[node.op](node)
    if step is None or not computes_reals(node):
        return False
    places = {v: i for i, v in enumerate(dict.fromkeys(o for o in step[1:] if isinstance(o, Value)))}
    chain = (tuple(places[o] if isinstance(o, Value) else o for o in step),)
    state.write(Node("fused", list(places), node.outputs, {"chain": chain}, node.name))
    return True


@also_quantised
def real_constants(state: Sweep, node: Node) -> bool:
    """A quantised constant beside f32 values only is f32 too: weights that are only stored in few bits."""
    if node.op == "requantize" and node.x.data is not None:
        found = fold(node)
        if found is None:
            return False
        state.replace(node.out, Value.constant(node.out.name, found[0], node.out.type.quant))
        return True
    if node.op in DYNAMIC.values() or not computes_reals(node) or any(
        v is not None and v.data is None and v.type.quant is not None for v in (*node.inputs, *node.outputs)
    ):
        return False
    inputs: list[Value | None] = []
    for value in node.inputs:
        stored = value is not None and value.type.quant is not None
        inputs.append(requantized(state, value, _f32(value), node) if stored else value)  # type: ignore[arg-type]
    state.write(Node(node.op, inputs, node.outputs, node.attrs, node.name))
    return True


def _f32(value: Value) -> TensorType:
    return TensorType(np.dtype(np.float32), value.type.shape)
