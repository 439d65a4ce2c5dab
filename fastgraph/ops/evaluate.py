"""Runs graphs by the operators' references, and infers the types of a node's or graph's values.

The one place that knows how operators compute on quantized values: on the reals that they stand for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import deadline
from ..errors import ModelError, UnsupportedError
from ..ir import Graph, Node, TensorType, Value, captured
from ..ir.quantization import to_real, to_stored
from ..ir.weights import once
from ..limits import current
from ..room import need
from .reals import real_type
from .registry import OPS, USER, Layout, Op, Quant
from .work import nbytes, work_of

MISFIT = (ModelError, ValueError, IndexError, TypeError, KeyError, AttributeError, ArithmeticError)
"""Exceptions of inference and references for attributes or operands that make no sense."""


def op_of(node: Node) -> Op:
    """The operator of a node; UnsupportedError when there is none of that name."""
    op = OPS.get(node.op)
    if op is None:
        raise UnsupportedError(f"{_where(node)}there is no operator {node.op}")
    return op


def operands(node: Node) -> list[Value | None]:
    """The values whose arrays a node's reference takes: its inputs, then the values that its sub-graphs capture, in
    order."""
    return [*node.inputs, *(v for inner in node.graphs for v in captured(inner))]


def infer_node(node: Node) -> None:
    """Set the types of a node's outputs from those of its inputs. ModelError names the node."""
    current().count(1, f"node {node.name}")
    types = [None if v is None else v.type for v in node.inputs]
    if real := computes_reals(node):
        types = [real_type(t) if t is not None and t.quant is not None else t for t in types]
    try:
        results = op_of(node).infer(node, types)
    except ModelError as error:
        raise ModelError(f"{_where(node)}{error}") from error
    except MISFIT as error:
        raise ModelError(f"{_where(node)}{node.op}: attributes or input types do not fit: {error}") from error
    for value, result in zip(node.outputs, results, strict=True):
        declared = value.type
        if declared.quant is None and result.quant is None:
            value.type = result
            continue
        stored = real and declared.quant is not None
        value.type = TensorType(declared.dtype if stored else result.dtype, result.shape, declared.quant)


def infer_graph(graph: Graph) -> None:
    """Set the types of all values that a graph's nodes make, from its inputs' and constants' types."""
    for node in graph.nodes:
        infer_node(node)


def run_node(node: Node, inputs: list[Any]) -> list[Any]:
    """The node's outputs by its reference, for the arrays of `operands(node)`. ModelError on a misfit; RunTimeout when
    the deadline of this thread has passed.

    Operands that are quantized are taken as the reals that they stand for, in f64, and results that are quantized are
    rounded half to even and saturated; where the node has `ties`, as `to_stored` says.
    """
    deadline.check()
    reference = op_of(node).reference
    try:
        if not computes_reals(node):
            _check_memory(_types(node, inputs))
            return reference(node, inputs)
        reals = [_real(v, a) for v, a in zip(operands(node), inputs, strict=True)]
        _check_memory(_types(node, reals))
        results = zip(node.outputs, reference(node, reals), strict=True)
        return [_result(v, r, node.attrs.get("ties")) for v, r in results]
    except ModelError as error:
        raise ModelError(f"{_where(node)}{error}") from error
    except MISFIT as error:
        raise ModelError(f"{_where(node)}{node.op}: inputs do not fit: {error}") from error
    except MemoryError as error:
        raise ModelError(f"{_where(node)}{node.op}: not enough memory: {error}") from error


def _types(node: Node, arrays: list[Any]) -> list[TensorType]:
    """The results' types, by inference with all shapes and data known. ModelError when operands do not fit."""
    if all(v is None or v.data is not None for v in node.inputs) or node.graphs or _as_inferred(node, arrays):
        return [v.type for v in node.outputs]
    values = [None if v is None else _with_data(v, a) for v, a in zip(node.inputs, arrays, strict=False)]
    types = [None if v is None else v.type for v in values]
    return op_of(node).infer(node.with_(values), types)


def _as_inferred(node: Node, arrays: list[Any]) -> bool:
    """Whether inference knew the shapes of an elementwise node, whose operands fit by that."""
    if op_of(node).layout is not Layout.EACH or not all(v.type.concrete for v in node.outputs):
        return False
    pairs = [(v.type, a) for v, a in zip(node.inputs, arrays, strict=False) if v is not None]
    return all(isinstance(a, np.ndarray) and (t.shape, t.dtype) == (a.shape, a.dtype) for t, a in pairs)


def _with_data(value: Value, array: Any) -> Value:
    """The operand with its data. Reals are computed in f64, whatever element type inference sees."""
    if not isinstance(array, np.ndarray):
        return Value(value.name)
    known = real_type(value.type) if value.type.quant is not None else value.type
    kind = TensorType.of(array)
    real = array.dtype == np.float64 and known.dtype is not None
    return Value(value.name, TensorType(known.dtype, kind.shape) if real else kind, array)


def _check_memory(types: list[TensorType]) -> None:
    """MemoryError when results of these types need more memory than is free."""
    need(sum(t.nbytes for t in types if t.concrete))


def computes_reals(node: Node) -> bool:
    """Whether the node has quantized operands or results, and works on the reals that they stand for."""
    for v in (*node.inputs, *node.outputs):
        if v is not None and v.type.quant is not None:
            return op_of(node).quant is not Quant.STORED and not node.graphs
    return False


def _real(value: Value | None, array: Any) -> Any:
    if value is None or not isinstance(array, np.ndarray):
        return array
    if value.type.quant is not None:
        return to_real(array, value.type.quant)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _result(value: Value, array: Any, ties: float | None) -> Any:
    if not isinstance(array, np.ndarray):
        return array
    if value.type.quant is not None:
        return to_stored(array, value.type.element, value.type.quant, ties)
    return array.astype(value.type.dtype) if array.dtype == np.float64 and value.type.dtype is not None else array


def evaluate(graph: Graph, feeds: Mapping[str, Any], outer: Mapping[Value, Any] | None = None) -> list[Any]:
    """The graph's outputs, node by node. `feeds`: array by input name; `outer`: arrays of captured values.

    An array is let go after its last reader.
    """
    arrays: dict[Value, Any] = dict(outer or {})
    arrays.update((state.input, state.initial) for state in graph.states)
    for value in graph.inputs:
        if value.name not in feeds:
            raise ModelError(f"{graph.source or graph.name}: input {value.name} is not fed")
        arrays[value] = feeds[value.name]

    def array(value: Value | None) -> Any:
        if value is None:
            return None
        return value.data if value.data is not None else arrays[value]

    read = [operands(node) for node in graph.nodes]
    waiting: Counter[Value | None] = Counter(graph.outputs)
    for values in read:
        waiting.update(values)
    for node, values in zip(graph.nodes, read, strict=True):
        arrays.update(zip(node.outputs, run_node(node, [array(v) for v in values]), strict=True))
        waiting.subtract(values)
        for v in (*values, *node.outputs):
            if v is not None and not waiting[v]:
                arrays.pop(v, None)
    return [array(value) for value in graph.outputs]


def fold(node: Node) -> list[np.ndarray] | None:
    """The node's outputs when they are known before the run, else None.

    They are when the operator is pure and its inputs are constants, or it asks only for a known shape or type.
    What costs more than the budget (`limits.current`) has left, and values that are not tensors, are not folded.
    """
    if node.op not in _BY_TYPE and any(v is not None and v.data is None for v in node.inputs):
        return None
    if not pure(node) or USER in node.attrs and node.attrs[USER].native:
        return None  # numba's arithmetic is not that of NumPy's scalars: a user's kernel gives its own results
    first = node.inputs[0] if node.inputs else None
    if node.op in ("shape", "size") and first is not None and first.data is None and first.type.concrete:
        stand_in = np.broadcast_to(np.zeros((), np.int8), first.type.dims)
        return run_node(node, [stand_in])
    if node.op == "cast_like" and first is not None and first.data is not None:
        dtype = None if node.inputs[1] is None else node.inputs[1].type.dtype
        return None if dtype is None else run_node(node, [first.data, np.zeros(0, dtype)])
    values = operands(node)
    for value in values:
        if value is not None and value.data is None:
            return None
    budget = current()
    if not budget.affords(*work_of(node)):
        return None
    results = _folded(node, [None if v is None else v.data for v in values])
    if not all(isinstance(r, np.ndarray) for r in results):
        return None
    budget.held += sum(map(nbytes, results))
    return results


_BY_TYPE = ("shape", "size", "cast_like")
"""Operators whose results may follow from the types of operands that are not constant."""
SMALL = 1 << 14
"""Bytes up to which a constant is computed again for each plan: that costs less than looking it up."""


def _folded(node: Node, arrays: list[Any]) -> list[Any]:
    """The node's outputs; those of large constants are made once for all plans of a model."""
    if len(node.outputs) != 1 or all(a is None or nbytes(a) <= SMALL for a in arrays):
        return run_node(node, arrays)
    return [once(only_result, node, tuple(arrays))]


def only_result(node: Node, arrays: tuple[Any, ...]) -> Any:
    """The result of a node with one output by its reference, to be computed `once` for all plans."""
    return run_node(node, list(arrays))[0]


def pure(node: Node) -> bool:
    """Whether the node, and all nodes of its sub-graphs, always give the same for the same inputs, and end: a loop does
    when it has a trip count.
    """
    own = op_of(node).pure or node.op == "loop" and node.has(0)
    return own and (not node.graphs or all(pure(n) for inner in node.graphs for n in inner.nodes))


def _where(node: Node) -> str:
    return f"node {node.name}: " if node.name else ""
