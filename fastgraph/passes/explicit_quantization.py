"""Changes of quantization become operators of their own, `requantize`; operators that only move data keep the
quantization."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Graph, Node, Quantization, TensorType, Value
from ..ir.quantization import is_upright, to_real, to_stored, upright
from ..ops.evaluate import computes_reals, fold
from ..ops.registry import OPS, attr
from ..ops.shape import permutation
from ..rules.operands import BYTES, WHOLE
from ..rules.rule import has, rule
from ..rules.sweep import Sweep, sweep

INTEGERS = frozenset(map(np.dtype, ("int8", "uint8", "int16", "uint16", "int32")))

LINEAR = frozenset({"quantize_linear", "dequantize_linear", "dynamic_quantize_linear"})
"""ONNX's operators that change quantization."""

PLAIN_BYTES = frozenset({"max_pool", "matmul_integer", "conv_integer"})
"""Operators whose kernels take plain bytes as bytes of scale 1."""


def explicit_quantization(graph: Graph) -> bool:
    """Given ``y = reshape(x)`` of another scale; result ``y = requantize(reshape(x))``. ONNX's linear operators too."""
    if not any(node.op in LINEAR or node.op in PLAIN_BYTES or computes_reals(node) for node in graph.nodes):
        return False
    if has("dequantize_linear")(graph):
        sweep(graph, "block_weights")
    sweep(graph, "linear", *["scaled_products"] * has("matmul_integer conv_integer")(graph))
    _stored_once(graph)
    for phase in ("whole_products", "moved", "padded"):
        sweep(graph, phase)
    return True


def _stored_once(graph: Graph) -> None:
    """Given ``y = requantize(x); z = requantize(x)`` of one type; result ``y``, for the readers of both."""
    stores = [node for node in graph.nodes if node.op == "requantize" and node.out.type.quant is not None]
    if len({(node.x, node.out.type) for node in stores}) == len(stores):
        return
    first: dict[tuple[Value, TensorType], Value] = {}

    def as_first(g: Sweep, node: Node) -> bool:
        if node.op != "requantize" or node.out.type.quant is None:
            return False
        value = first.setdefault((node.x, node.out.type), node.out)
        return value is not node.out and g.becomes(value)

    as_first.quantized = True  # type: ignore[attr-defined]
    sweep(graph, as_first)


def linear_quant(node: Node, scale: Any, zero: Any) -> Quantization | None:
    """The quantization of a quantize_linear or dequantize_linear node, where a `Quantization` expresses it. Only
    constants may have scales below 0."""
    if scale is None or node.attrs.get("block_size", 0) or node.attrs.get("format", "") or scale.dtype.kind != "f":
        return None
    # Any scale may be divided by; a quantization has positive ones.
    fits = scale != 0 if node.op == "dequantize_linear" and node.x.data is not None else scale > 0
    if not (np.isfinite(scale).all() and fits.all()):
        return None
    scales = tuple(float(s) for s in scale.ravel())
    zeros = (0,) * len(scales) if zero is None else tuple(int(z) for z in zero.ravel())
    if len(scales) == 1:
        return Quantization(scales, zeros[:1])
    rank = len(node.x.type.shape or ())
    axis = int(node.attrs.get("axis", 1)) % rank if rank else 0
    return Quantization(scales, zeros, axis) if len(scales) == len(zeros) else None


@rule("linear", "quantize_linear dequantize_linear")
def linear(g: Sweep, node: Node) -> bool:
    """quantize_linear and dequantize_linear with constant parameters, as changes of quantization.

    Given ``y = dequantize_linear(quantize_linear(x, s, z), s, z)``; result ``y = requantize(requantize(x))``.
    """
    if len(node.outputs) != 1:
        return False
    zero = node.const(2)
    if (node.has(2) and zero is None) or node.attrs.get("precision") is not None:
        return False
    quant = linear_quant(node, node.const(1), zero)
    out = node.out.type
    dtype = out.dtype if node.op == "quantize_linear" else node.x.type.dtype
    if quant is None or dtype not in INTEGERS or not out.concrete:
        return _folded(g, node)
    if quant.axis is not None and node.x.data is None:
        return False  # only weights have scales along an axis: what moves activations does not move their scales
    stored = TensorType(dtype, out.shape, quant)
    if node.op == "quantize_linear":
        value = g("requantize", node.x, type=_signed(stored))
        if dtype == np.uint16:
            value = g("requantize", value, type=stored)
        return g.becomes(g("reinterpret", value, type=out))
    before = g.made_by(node.x, "reinterpret")
    if before is not None and same_numbers(before.x.type, stored):
        twin = g.made_by(before.x, "requantize")
        x = twin.x if twin is not None and same_numbers(twin.x.type, _signed(stored)) else before.x
    elif (data := node.x.data) is not None:
        data, quant = (data, quant) if is_upright(quant) else upright(data, quant)
        x = Value.constant(node.x.name, data, quant)
    else:
        x = g("reinterpret", node.x, type=stored)
    return g.becomes(g("requantize", x, type=out))


def _signed(type_: TensorType) -> TensorType:
    """The int16 type of the same reals as a uint16 type, which kernels don't store."""
    if type_.dtype != np.uint16 or type_.quant is None:
        return type_
    scale, zeros, axis = type_.quant
    return TensorType(np.dtype(np.int16), type_.shape, Quantization(scale, tuple(z - (1 << 15) for z in zeros), axis))


def _folded(g: Sweep, node: Node) -> bool:
    """Replace constants that are stored in blocks, or in floats of few bits, by their reals."""
    found = fold(node) if node.op == "dequantize_linear" and node.x.data is not None else None
    return found is not None and g.becomes(Value.constant(node.out.name, found[0]))


@rule("linear", lambda op: op.moves, "resize")
def moves_stored(g: Sweep, node: Node) -> bool:
    """Moves and maxima of stored numbers that were reinterpreted. Given ``y = reshape(reinterpret(x))``, x quantized;
    result ``y = reinterpret(reshape(x))``."""
    if not node.inputs or node.inputs[0] is None or not _picks(node) or node.op == "max_pool" and len(node.outputs) > 1:
        return False
    before = g.made_by(node.x, "reinterpret")
    if before is not None:
        x = before.x
    elif node.op == "max_pool" and node.x.type.dtype in BYTES:
        x = g("reinterpret", node.x, type=TensorType(node.x.type.dtype, node.x.type.shape, WHOLE))
    else:
        return False
    kind = x.type
    if kind.quant is None or kind.quant.axis is not None:
        return False
    inputs = [x, *node.inputs[1:]]
    if node.op == "concat":
        makers = [g.made_by(v, "reinterpret") for v in node.inputs]
        if not all(m is not None and same_numbers(m.x.type, kind) for m in makers):
            return False
        inputs = [m.x for m in makers if m is not None]
    elif node.op == "pad" and node.attrs.get("mode", "constant") == "constant":
        fill = node.const(2)
        if node.has(2) and fill is None:
            return False
        number = np.zeros((), kind.dtype) if fill is None else fill
        inputs[2:3] = [Value.constant(f"{node.out.name}.fill", number, kind.quant)]
    kinds = [TensorType(kind.dtype, v.type.shape, kind.quant) for v in node.outputs]
    return _between(g, node, inputs, kinds, "reinterpret")


def _between(g: Sweep, node: Node, inputs: list[Value | None], kinds: list[TensorType], change: str) -> bool:
    """Write the node with results of other types, each followed by an operator that restores the original type."""
    results = g.several(node.op, kinds, *inputs, **node.attrs)
    return g.becomes(*(g(change, new, type=old.type) for old, new in zip(node.outputs, results, strict=True)))


@rule("moved", "transpose reshape")
def moved_constant(g: Sweep, node: Node) -> bool:
    """Given ``transpose(requantize(const))``; result ``requantize(transposed const)``, so that layers get their weights
    as stored."""
    before = g.made_by(node.x, "requantize")
    if before is None or before.x.data is None or not node.out.type.concrete:
        return False
    stored, dims = before.x, node.out.type.dims
    if node.op == "transpose":
        turned = g.transpose(stored, *permutation(node))
    else:
        quant = _reshaped(stored, dims)
        if quant is None or node.const(1) is None:
            return False
        turned = Value.constant(node.out.name, stored.array.reshape(dims), quant)
    return g.becomes(g("requantize", turned, type=node.out.type))


def _reshaped(stored: Value, dims: tuple[int, ...]) -> Quantization | None:
    """The quantization of a reshaped constant; None where its scales no longer belong to one axis."""
    quant, old = stored.type.quant, stored.type.dims
    if quant is None or not stored.type.size:
        return None
    if quant.axis is None or len(quant.scale) == 1:
        return Quantization(quant.scale, quant.zero_point)
    which = np.arange(len(quant.scale)).reshape([-1 if i == quant.axis else 1 for i in range(len(old))])
    places = np.broadcast_to(which, old).reshape(dims)
    for axis in range(len(dims)):
        first = places[tuple(slice(None) if i == axis else slice(1) for i in range(len(dims)))]
        if (places == first).all():
            kept = first.ravel().tolist()
            return Quantization(tuple(quant.scale[i] for i in kept), tuple(quant.zero_point[i] for i in kept), axis)
    return None


@rule("whole_products", "gemm")
def stored_gemm(g: Sweep, node: Node) -> bool:
    """Given ``y = gemm(x, requantize(w), requantize(b))`` of constants of few bits; result ``y = dense(x,
    requantize(w.T), requantize(b))``."""
    a, b, c = node.x, node.y, node.input(2)
    before = g.made_by(b, "requantize")
    if before is None or before.x.data is None or not node.out.type.concrete:
        return False
    if (attr(node, "alpha"), attr(node, "beta")) != (1.0, 1.0) or a.data is not None:
        return False
    adds = g.made_by(c, "requantize")
    known = c is None or c.data is not None or adds is not None and adds.x.data is not None
    if not known or c is not None and c.type.shape != node.out.type.dims[-1:]:
        return False
    weights = before.x if attr(node, "trans_b") else g.transpose(before.x, 1, 0)
    real = g("requantize", weights, type=b.type.with_shape(weights.type.shape))
    return g.becomes(g("dense", g.transpose(a, 1, 0) if attr(node, "trans_a") else a, real, c, type=node.out.type))


@rule("moved integers_moved", lambda op: op.moves, "resize", quantized=True)
def moved(g: Sweep, node: Node) -> bool:
    """A move between two quantizations becomes a move, then a change. For concat the operands are changed first; so is
    that of a pad whose fill its quantization can't represent."""
    if not _picks(node) or len(node.outputs) != 1 and node.op != "split":
        return False
    if node.op == "concat" or node.op == "pad" and not fills_with(node, node.x.type):
        return _joined(g, node)
    kind = node.x.type
    if kind.quant is not None and kind.quant.axis is not None:
        return False
    if all(same_numbers(v.type, kind) for v in node.outputs):
        return False
    kinds = [TensorType(kind.dtype, v.type.shape, kind.quant) for v in node.outputs]
    return _between(g, node, node.inputs, kinds, "requantize")


def _picks(node: Node) -> bool:
    """Whether the node gives elements of its operand, and nothing else but a pad's fill."""
    if node.op != "resize":
        return OPS[node.op].moves
    crops = node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    return node.attrs.get("mode", "nearest") == "nearest" and not crops


def same_numbers(one: TensorType, other: TensorType) -> bool:
    """Whether two types map stored numbers to the same reals."""
    return (one.dtype, one.quant) == (other.dtype, other.quant)


def _joined(g: Sweep, node: Node) -> bool:
    """Given ``y = concat(a, b)`` of other scales; result ``y = concat(requantize(a), requantize(b))``."""
    kind = node.out.type
    count = len(node.inputs) if node.op == "concat" else 1
    if all(same_numbers(v.type, kind) for v in node.operands[:count]):
        return False
    inputs: list[Value | None] = []
    for value in node.operands[:count]:
        if not same_numbers(value.type, kind):
            value = g.requantize(value, TensorType(kind.dtype, value.type.shape, kind.quant))
        inputs.append(value)
    return g.again(node, [*inputs, *node.inputs[count:]])


def fills_with(node: Node, kind: TensorType) -> bool:
    """Whether the fill of a pad is a number that `kind` can represent."""
    value = node.input(2)
    if kind.quant is None or node.attrs.get("mode", "constant") != "constant":
        return True
    if value is None or same_numbers(value.type, kind):
        return kind.quant.axis is None
    if kind.quant.axis is not None or value.data is None:
        return False
    return bool(np.float32(to_real(_fill(value, kind), kind.quant)) == np.float32(_real(value)))


def _real(value: Value) -> np.ndarray:
    """The real that a constant of one element stands for."""
    real = value.array if value.type.quant is None else to_real(value.array, value.type.quant)
    return np.asarray(real, np.float64).reshape(())


def _fill(value: Value | None, kind: TensorType) -> np.ndarray:
    return to_stored(np.zeros(()) if value is None else _real(value), kind.element, kind.quantization)


@rule("padded", "pad", quantized=True)
def padded(g: Sweep, node: Node) -> bool:
    """The fill of a pad as a stored number of the padded value; an absent one is the zero point and not 0."""
    kind = node.x.type
    if node.attrs.get("mode", "constant") != "constant":
        return False
    if kind.quant is None or kind.quant.axis is not None or not same_numbers(kind, node.out.type):
        return False
    value = node.input(2)
    if value is not None and (value.data is None or same_numbers(value.type, kind)):
        return False
    fill = Value.constant(f"{node.out.name}.fill", _fill(value, kind), kind.quant)
    return g.again(node, [*node.inputs[:2], fill, *node.inputs[3:]])
