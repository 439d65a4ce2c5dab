"""Sub-graphs: calls, branches, loops, composites. Semantics: tflite/kernels/{if, while, call_once,
stablehlo_composite, stablehlo_case}.cc.

Formats hand sub-graphs their inputs; canonical branches read what is around them, and a canonical loop's body also
tells whether to go on. Resources and variables that a sub-graph touches are handed in and out of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import ModelError
from ...ir import BOOL, INT64, Graph, Node, TensorType, Value
from ...limits import current
from ...ops.work import work_of
from ..core.common import FARTHEST, truth
from .call import Call
from .reader import BIGGEST


def spliced(c: Call, graph: Graph, args: Sequence[Value | None], nodes: list[Node] | None = None) -> list[Value]:
    """Write the graph's nodes with `args` for its inputs, here or at the end of `nodes`; its outputs."""
    if len(args) != len(graph.inputs):
        c.fail(f"expected {len(graph.inputs)} arguments for sub-graph {graph.name}, found {len(args)}")
    given = [arg for arg in args if arg is not None]
    if len(given) < len(args):
        c.fail(f"sub-graph {graph.name} needs all of its inputs, one is left out (-1)")
    graph.replace(dict(zip(graph.inputs, given, strict=True)))
    write = c.write_node if nodes is None else nodes.append
    for node in graph.nodes:
        write(node)
    return list(graph.outputs)


def call(c: Call, *args: Value | None, index: int) -> None:
    """Write sub-graph `index` in place of the operator. So a composite's decomposition says what it means."""
    keys = c.touched(index, args=args)
    graph = c.subgraph(index, args, keys)
    results = spliced(c, graph, [*args, *map(c.scope.present, keys)])
    count = len(results) - len(keys)
    if count != len(c.outputs):
        c.fail(f"expected a sub-graph with {len(c.outputs)} outputs, found {count}")
    for value, out in zip(results, c.outputs, strict=False):
        c.add("identity", [value], [out])
    _keep(c, keys, results[count:])


def _keep(c: Call, keys: Sequence[str], values: Sequence[Value]) -> None:
    """The values are what resources hold from here on."""
    for key, value in zip(keys, values, strict=True):
        c.scope.assign(key, value)


def choose(c: Call, flags: Sequence[Value], args: Sequence[Value | None], indices: Sequence[int]) -> None:
    """Write an `if` of sub-graphs that take `args`: the first whose flag is true; one more than there are flags."""
    keys = c.touched(*indices, args=args)
    before = [*args, *map(c.scope.present, keys)]
    choices = []
    for index in indices:
        graph = c.subgraph(index, args, keys)
        nodes: list[Node] = []
        outputs = spliced(c, graph, before, nodes)
        if len(outputs) != len(c.outputs) + len(keys):
            c.fail(f"expected branches with {len(c.outputs)} outputs, found {len(outputs) - len(keys)}")
        choices.append(Graph(graph.name, [], outputs, nodes, graph.source))
    after = [c.fresh(v.type.with_shape(None)) for v in before[len(args) :] if v is not None]
    other = choices.pop()
    for flag, choice in reversed(list(zip(flags, choices, strict=True))[1:]):
        made = [c.fresh(v.type.with_shape(None)) for v in other.outputs]
        node = Node("if", [flag], list(made), {"then_branch": choice, "else_branch": other}, c.name)
        other = Graph(other.name, [], made, [node], other.source)
    c.add("if", [flags[0]], [*c.outputs, *after], then_branch=choices[0], else_branch=other)
    _keep(c, keys, after)


def branch(c: Call, condition: Value, *args: Value | None, then: int, other: int) -> None:
    choose(c, [truth(c, condition, known=False)], args, (then, other))


def case(c: Call, number: Value, *args: Value | None, indices: tuple[int, ...]) -> None:
    """Branch number i; the last one for every other number."""
    if not indices:
        c.fail("expected branches, found none")
    if len(indices) == 1:
        call(c, *args, index=indices[0])
        return
    dtype = number.type.dtype or np.dtype(np.int32)
    flags = [c.equal(number, c.const(dtype.type(i))) for i in range(len(indices) - 1)]
    choose(c, flags, args, indices)


def loop(c: Call, *args: Value | None, test: int, body: int) -> None:
    """A loop whose body ends with the condition, which is also asked once before."""
    keys, count = c.touched(test, body, args=args), len(args)
    if len(c.outputs) != count:
        c.fail(f"expected as many outputs as inputs, found {len(c.outputs)} and {count}")
    start = [*args, *map(c.scope.present, keys)]
    first, begun = _asked(c, test, start, keys, None)
    graph = c.subgraph(body, args, keys)
    if len(graph.inputs) != count + len(keys) or len(graph.outputs) != count + len(keys):
        c.fail(
            f"expected a body with {count} inputs and outputs, "
            f"found {len(graph.inputs) - len(keys)} and {len(graph.outputs) - len(keys)}"
        )
    turn, alive = c.fresh(TensorType(INT64, ())), c.fresh(TensorType(BOOL))
    again, after = _asked(c, test, graph.outputs, keys, graph.nodes)
    rounds = Graph(graph.name, [turn, alive, *graph.inputs], [again, *after], graph.nodes, graph.source)
    ends = [c.fresh(v.type.with_shape(None)) for v in begun[count:]]
    c.add("loop", [c.const(np.int64(FARTHEST)), first, *begun], [*c.outputs, *ends], body=rounds)
    _keep(c, keys, ends)


def _asked(
    c: Call, index: int, values: Sequence[Value | None], keys: Sequence[str], nodes: list[Node] | None
) -> tuple[Value, list[Value]]:
    """Write the condition's sub-graph for `values` (arguments, then resources); (the answer, the values after it)."""
    count = len(values) - len(keys)
    graph = c.subgraph(index, c.inputs, keys)
    answer, *after = spliced(c, graph, values, nodes)
    if len(after) != len(keys):
        c.fail(f"expected a condition with one output, found {1 + len(after) - len(keys)}")
    return truth(c, answer, known=False), [*(v for v in values[:count] if v is not None), *after]


def call_once(c: Call) -> None:
    """Runs while the file is read: the values that it assigns are the initial ones of resources."""
    from ...ops.evaluate import evaluate

    index = c.options.init_subgraph_index
    keys = c.touched(index)
    graph = c.subgraph(index, (), keys)
    if len(graph.inputs) != len(keys):
        c.fail(f"expected an initial sub-graph without inputs, found {len(graph.inputs) - len(keys)}")
    _check_initial(c, graph)
    # A resource that it reads before it is written is zeros: TFLite refuses to read it at all.
    feeds = {
        v.name: np.zeros([d if isinstance(d, int) else 0 for d in v.type.shape or ()], v.type.dtype or np.float32)
        for v in graph.inputs
    }
    try:
        arrays = evaluate(graph, feeds)
    except ModelError as error:
        c.fail(f"its sub-graph does not run: {error}")
    results = list(zip(graph.outputs, arrays, strict=True))[len(arrays) - len(keys) :]
    for key, (value, array) in zip(keys, results, strict=True):
        c.initialize(key, np.asarray(array), value.type.quant)


def _check_initial(c: Call, graph: Graph) -> None:
    """A sub-graph that runs while a model loads must end soon, in memory of a size that is known before."""
    for node in graph.nodes:
        if node.graphs:
            c.unsupported("whose sub-graph calls others by a condition")
        for value in node.outputs:
            kind = value.type
            if kind.dtype is not None and (not kind.concrete or kind.nbytes > BIGGEST):
                c.unsupported(f"whose sub-graph makes {value}, of open shape or more than {BIGGEST} bytes")
            current().hold(kind.nbytes if kind.dtype is not None else 0, c.where)
        if not current().affords(work_of(node)[0], 0):
            c.unsupported(f"whose sub-graph computes more than Limits(work={current().limits.work})")
