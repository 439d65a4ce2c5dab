"""One form for each thing: no identities, reshapes and transposes in their simplest form, products as dense layers."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ..ir import Graph, Node, Quantization, Value
from ..ir.build import constant
from ..ir.weights import once
from ..ops.evaluate import computes_reals
from ..ops.registry import OPS, Layout
from ..ops.shape import permutation
from ..ops.window import resolve_pads, window_attrs
from ..rules.operands import only_moves_ones
from ..rules.rule import rule
from ..rules.sweep import Sweep, sweep


def canonicalize(graph: Graph) -> bool:
    """Given ``y = flatten(identity(x))``; result ``y = reshape(x, const [n, m])``. Returns whether a rule applied; they
    are below."""
    return any([_same_types(graph), sweep(graph, "canonical")])


def _same_types(graph: Graph) -> bool:
    """Casts for powers and halves whose operands have several types, or whose kernels compute in another. f16 then
    stays in the graph only where something reads it."""
    read = {v.type.dtype for node in graph.nodes for v in (*node.inputs, *node.outputs) if v is not None}
    if np.dtype(np.float16) not in read:
        return sweep(graph, "exponents")
    from .decompositions.element_types import halves

    return sweep(graph, "exponents", halves())


@rule("canonical", lambda op: op.layout is Layout.AXES, quantized=True)
def spatial_axes(g: Sweep, node: Node) -> bool:
    """The spatial axes of a channels-last value as numbers, once its rank is known; there may be none."""
    if node.attrs.get("axes") == "spatial" and node.x.type.concrete:
        axes = np.arange(1, len(node.x.type.dims) - 1, dtype=np.int64)
        node.inputs = [node.x, constant(node.out, axes, "axes")]
        node.attrs = {key: value for key, value in node.attrs.items() if key != "axes"} | {"noop_with_empty_axes": 1}
    return False


@rule("canonical", "strided_slice", quantized=True)
def strided_slice(g: Sweep, node: Node) -> bool:
    """Python's slices, with dropped and new axes, as a slice and a reshape."""
    from ..ops.blocks import index_of

    parts = [node.const(i) for i in (1, 2, 3)]
    if any(p is None for p in parts) or not node.x.type.concrete or not node.out.type.concrete or not _one_quant(node):
        return False
    index = index_of(node, *([int(n) for n in p.ravel()] for p in parts if p is not None))
    dims, given = node.x.type.dims, [i for i in index if i is not None]
    place = given.index(Ellipsis) if Ellipsis in given else len(given)
    left = len(dims) - len(given) + (Ellipsis in given)
    cuts = [*given[:place], *[slice(None)] * left, *given[place + 1 :]]
    taken = [range(d)[c if isinstance(c, slice) else slice(c % d, c % d + 1)] for c, d in zip(cuts, dims, strict=True)]
    taken = [r or range(0) for r in taken]  # one that is empty may begin at -1, which is the last place to a slice
    ends = [r.stop if r.stop >= 0 else np.iinfo(np.int64).min for r in taken]
    y = g.slice(node.x, range(len(dims)), [r.start for r in taken], ends, [r.step for r in taken])
    return g.becomes(y)


@rule(
    "canonical", "identity cast expand tile slice pad resize dropout clip scatter_elements scatter_nd", quantized=True
)
def identity(g: Sweep, node: Node) -> bool:
    """Drop nodes that change nothing."""
    if not node.inputs or node.inputs[0] is None or len(node.outputs) != 1:
        return False
    x, out = node.x, node.out
    if x.type.quant != out.type.quant:
        return False
    same = x.type.concrete and x.type.dims == out.type.shape and x.type.dtype == out.type.dtype
    match node.op:
        case "identity":
            gone = True
        case "cast" | "expand" | "tile" | "slice":
            gone = same and (node.op != "slice" or _forward(node)) and not node.attrs.get("format")
        case "clip":
            gone = not node.has(1) and not node.has(2)
        case "pad":
            pads = node.const(1)
            gone = same and pads is not None and not np.any(pads)
        case "resize":
            from ..ops.resize import keeps_shape

            gone = same and keeps_shape(node, x.type.dims, out.type.dims)
        case "scatter_elements" | "scatter_nd":
            gone = same and node.operands[2].type.shape is not None and 0 in node.operands[2].type.shape
        case "dropout":
            training = node.const(2)
            gone = not node.has(2) or (training is not None and not np.any(training))
        case _:
            gone = False
    if gone:
        g.replace(out, x)
    return gone


def _forward(node: Node) -> bool:
    steps = node.const(4)
    return not node.has(4) or (steps is not None and bool(np.all(steps > 0)))


@rule("canonical", "concat sum mean min max", quantized=True)
def one_input(g: Sweep, node: Node) -> bool:
    """Concat, sum, mean, min, max of a single input are that input."""
    return len(node.inputs) == 1 and _one_quant(node) and g.becomes(node.x)


def _one_quant(node: Node) -> bool:
    """Whether a node's result has the quantization of its first input."""
    return node.x.type.quant == node.out.type.quant


@rule("canonical", "sum mean min max")
def variadic(g: Sweep, node: Node) -> bool:
    """sum, mean, min, max of several inputs become binary steps, in order."""
    step = {"sum": "add", "mean": "add", "min": "min", "max": "max"}[node.op]
    if len(node.inputs) < 2 or not node.out.type.concrete:
        return False
    if node.op in ("min", "max") and len(node.inputs) == 2:
        return False
    total = reduce(lambda x, y: g(step, x, y), node.inputs[1:], node.x)
    return g.becomes(total * (1 / len(node.inputs)) if node.op == "mean" else total)


@rule("canonical sinking", "transpose", quantized=True)
def transpose(g: Sweep, node: Node) -> bool:
    """Compose transposes; one that moves no data is a reshape, or nothing."""
    if not node.x.type.concrete or not _one_quant(node):
        return False
    perm = permutation(node)
    if g.made_by(node.x, "transpose") or node.x.data is not None or only_moves_ones(node.x.type.dims, perm):
        return g.becomes(g.transpose(node.x, *perm))
    node.attrs = {"perm": perm}
    return False


@rule("canonical reshapes", lambda op: op.layout is Layout.ORDER, quantized=True)
def reshape(g: Sweep, node: Node) -> bool:
    """Every reshape has a constant shape and no reshape before it; one that changes nothing is dropped."""
    if not node.x.type.concrete or not node.out.type.concrete or not _one_quant(node):
        return False
    if node.x.type.quant is not None and node.x.type.quant.axis is not None:
        return False
    x, dims = node.x, node.out.type.dims
    shape = node.const(1)
    simple = node.op == "reshape" and node.attrs.get("allowzero") and shape is not None and np.array_equal(shape, dims)
    if simple and x.data is None and x.type.shape != dims and not g.made_by(x, "reshape"):
        return False
    return g.becomes(g.shape(x, *dims))


@rule("canonical", lambda op: op.step is not None, quantized=True)
def after_reshape(g: Sweep, node: Node) -> bool:
    """Given ``f(reshape(u), reshape(v), number)`` of an elementwise f, u and v of one shape; result ``reshape(f(u, v,
    number))``, so that f can be fused into the nodes before."""
    found: Node | None = None
    for value in node.inputs:
        if value is None or (value.data is not None and value.data.size == 1):
            continue
        before = g.made_by(value, "reshape")
        if before is None or value.type.shape != node.out.type.shape:
            return False
        if found is not None and before.x.type.shape != found.x.type.shape:
            return False
        found = before
    if found is None or not node.out.type.concrete:
        return False
    inputs = [v if v is None else g.maker[v].x if v.data is None else _number(v) for v in node.inputs]
    return g.becomes(g(node.op, *inputs, type=node.out.type.with_shape(found.x.type.shape), **node.attrs))


@rule("canonical", lambda op: op.step is not None)
def spread_operand(g: Sweep, node: Node) -> bool:
    """Given ``f(x, expand(y))`` of an elementwise f that repeats y as far itself; result ``f(x, y)``."""
    if len(node.inputs) < 2 or not node.out.type.concrete:
        return False
    before = [g.made_by(value, "expand") for value in node.inputs]
    if not any(before):
        return False
    inputs = [m.x if m is not None and m.x.type.concrete else v for m, v in zip(before, node.inputs, strict=True)]
    shapes = [value.type.shape for value in inputs if value is not None]
    if inputs == node.inputs or any(shape is None for shape in shapes):
        return False
    if np.broadcast_shapes(*shapes) != node.out.type.dims:  # type: ignore[arg-type]
        return False
    return g.becomes(g(node.op, *inputs, type=node.out.type, **node.attrs))


def _number(value: Value) -> Value:
    """A constant of one element as a scalar."""
    quant = value.type.quant
    scalar = None if quant is None else Quantization(quant.scale, quant.zero_point)
    return constant(value, value.array.reshape(()), quant=scalar)


@rule("canonical", "gemm", quantized=True)
def gemm(g: Sweep, node: Node) -> bool:
    """alpha * A' B' + beta * C as matmul, mul and add, with constants folded."""
    if not node.out.type.concrete:
        return False
    a, b, c = node.x, node.y, node.input(2)
    alpha, beta = node.attrs.get("alpha", 1.0), node.attrs.get("beta", 1.0)
    if computes_reals(node) and (alpha, beta) != (1.0, 1.0):
        return False
    a = g.transpose(a, 1, 0) if node.attrs.get("trans_a") else a
    if b.data is not None and alpha != 1.0:
        b, alpha = constant(b, times(b.data, alpha)), 1.0
    flipped = bool(node.attrs.get("trans_b"))
    columns = b.type.dims[0 if flipped else 1]
    if b.data is not None and c is not None and c.data is not None and c.data.shape == (columns,):
        if computes_reals(node):
            return g.becomes(g("dense", a, b if flipped else g.transpose(b, 1, 0), c, type=node.out.type))
    elif computes_reals(node) and c is not None:
        return False
    y = _dense(g, node, a, b, flipped)
    if y is None:
        y = g("matmul", a, g.transpose(b, 1, 0) if flipped else b, type=node.out.type)
    y = _scaled(y, alpha)
    return g.becomes(y if c is None or beta == 0 else y + _scaled(c, beta))


def _scaled(value: Value, factor: float) -> Value:
    if factor == 1.0:
        return value
    return value * factor if value.data is None else constant(value, times(value.data, factor))


def times(data: np.ndarray, factor: float) -> np.ndarray:
    """The array times a number of its own type."""
    return once(_times, data, factor)


def _times(data: np.ndarray, factor: float) -> np.ndarray:
    return data * np.asarray(factor, data.dtype)


@rule("canonical", "matmul", quantized=True)
def matmul(g: Sweep, node: Node) -> bool:
    """A product with a constant matrix is a dense layer: x [..., K] with w [O, K]. A vector is a matrix first."""
    a, b = node.x, node.y
    if not node.out.type.concrete or len(node.inputs) != 2:
        return False
    if 1 in (len(a.type.dims), len(b.type.dims)):
        return _of_vectors(g, node)
    y = _dense(g, node, a, b)
    return y is not None and g.becomes(y)


def _of_vectors(g: Sweep, node: Node) -> bool:
    """A product whose first operand is a vector, as a matrix of one row, or the second, as one of one column."""
    a, b = node.inputs
    if a is None or b is None or any(v.type.quant is not None or not v.type.size for v in (a, b)):
        return False
    a = g.shape(a, 1, a.type.size) if len(a.type.dims) == 1 else a
    b = g.shape(b, b.type.size, 1) if len(b.type.dims) == 1 else b
    return g.becomes(a @ b)


def _dense(g: Sweep, node: Node, a: Value, b: Value, flipped: bool = False) -> Value | None:
    """The product of two values as a dense layer, if it can be one. `flipped`: of the second's transpose."""
    if b.data is None or b.data.ndim != 2 or a.data is not None or len(a.type.dims) < 2:
        return None
    if a.type.dtype != np.float32 and a.type.quant is None:
        return None
    return g("dense", a, b if flipped else g.transpose(b, 1, 0), None, type=node.out.type)


@rule("canonical", "batch_normalization")
def batch_norm(g: Sweep, node: Node) -> bool:
    """Inference batch normalization with constant statistics is x * scale + shift per channel (channels last)."""
    if node.attrs.get("training_mode") or len(node.outputs) != 1:
        return False
    scale, bias, mean, var = (node.const(i) for i in range(1, 5))
    if scale is None or bias is None or mean is None or var is None or not node.x.type.concrete:
        return False
    dtype = node.out.type.dtype
    factor = scale.astype(np.float64) / np.sqrt(var.astype(np.float64) + node.attrs.get("epsilon", 1e-5))
    shift = bias - mean * factor
    return g.becomes(node.x * factor.astype(dtype) + shift.astype(dtype))


@rule("canonical", lambda op: op.layout is Layout.WINDOW, quantized=True)
def explicit_window(g: Sweep, node: Node) -> bool:
    """Strides, dilations and pads are full tuples of numbers once the image's size is known."""
    op = OPS[node.op]
    if not node.x.type.concrete:
        return False
    kernel = node.attrs.get("kernel_shape")
    if kernel is None:
        weights = None if op.weights is None else node.inputs[op.weights]
        if weights is None or not weights.type.concrete:
            return False
        kernel = weights.type.dims[1:-1]
    spatial = node.x.type.dims[1:-1]
    a = window_attrs(node, len(kernel), kernel)
    begin, end = resolve_pads(spatial, kernel, a["strides"], a["dilations"], a["auto_pad"], a["pads"])
    known = {**a, "auto_pad": "NOTSET", "pads": (*begin, *end)}
    if not known.items() <= node.attrs.items():
        node.attrs = {**node.attrs, **known}
    return False
