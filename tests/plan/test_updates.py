"""Updates written over their operand where nothing reads that later: the same as in a copy of it."""

import random
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.errors import InputError
from fastgraph.freedoms import without
from fastgraph.ir import Graph, Node, State, TensorType, Value
from fastgraph.kernels.isa import tiers
from fastgraph.ops.blocks import MASKS
from fastgraph.ops.evaluate import evaluate, infer_graph
from fastgraph.plan.program import HostStep, Step
from fastgraph.runtime.executable import compile_graph
from fastgraph.runtime.model import Model
from tests.circle.test_lists import running_sum
from tests.dirt import dirty, soil
from tests.nets import F32, I64, Net, assert_close, by_onnxruntime
from tests.plan.control_nets import BOOL, body

ROWS, WIDTH = 5, 6
SHAPE = (ROWS, WIDTH)
REDUCTIONS = ("none", "add", "mul", "min", "max")
SMALL = ("none", "add", "min", "max")
"""Reductions that many rounds of keep numbers small."""


def kernels_of(model: Any, op: str) -> list[str]:
    """The kernels of all steps whose node is of this operator."""
    program = getattr(model, "plan", model).program
    return [step.kernel.name for step in program.steps if isinstance(step, Step) and step.node.op == op]


# -- one after another


def drawn(seed: int) -> tuple[Graph, dict[str, np.ndarray]]:
    """A random graph of all kinds of updates, whose operands are also read before and after, as results and twice."""
    pick, rng = random.Random(seed), np.random.default_rng(seed)
    dtype = np.dtype(pick.choice((np.float32, np.int64, np.int8)))
    x = Value("x", TensorType(dtype, SHAPE))
    row, places = Value("row", TensorType(dtype, (1, WIDTH))), Value("places", TensorType(np.dtype(np.int64), (2, 1)))
    graph = Graph("updates", [x, row, places])
    whole: list[Value] = [x]

    def add(op: str, *inputs: Value, **attrs: Any) -> Value:
        made = Value(f"v{len(graph.nodes)}", TensorType(None, None))
        graph.nodes.append(Node(op, list(inputs), [made], attrs))
        return made

    def const(data: Any, kind: Any = np.int64) -> Value:
        return Value.constant(f"c{rng.integers(1 << 60)}", np.array(data, kind))

    def part(rows: int, columns: int = WIDTH) -> Value:
        """Some rows, which may lie in a value that is then written over."""
        source, start = pick.choice(whole[-3:]), pick.randint(0, ROWS - rows)
        return add("slice", source, const([start, 0]), const([start + rows, columns]), const([0, 1]))

    whole.append(add("add", x, x))  # inputs are never written over
    for _ in range(pick.randint(2, 7)):
        old, kind = pick.choice(whole[-2:]), pick.randrange(8)
        if kind == 0:
            update = add("reshape", part(2), const([2, WIDTH]))
            index = pick.choice((places, const([[4], [1]])))
            whole.append(add("scatter_nd", old, index, update, reduction=pick.choice(REDUCTIONS)))
        elif kind == 1:
            index = const(rng.permuted(np.tile(np.arange(ROWS), (WIDTH, 1)), axis=1).T)
            whole.append(add("scatter_elements", old, index, pick.choice(whole), axis=0,
                             reduction=pick.choice(REDUCTIONS)))  # fmt: skip
        elif kind == 2:
            whole.append(add("dynamic_update_slice", old, part(2, 3), const([pick.randint(0, 3), 2])))
        elif kind == 3:
            at = pick.randrange(ROWS)
            whole.append(add("slice_update", old, pick.choice((row, part(1))), const([at, 0]), const([at + 1, WIDTH]),
                             const([1, 1]), **dict.fromkeys(MASKS, 0)))  # fmt: skip
        elif kind == 4:
            lifted = add("reshape", part(1), const([1, 1, WIDTH]))
            cache = add("reshape", old, const([1, ROWS, WIDTH]))
            made = add("tensor_scatter", cache, lifted, const([pick.randrange(ROWS)]))
            whole.append(add("reshape", made, const(SHAPE)))
        elif kind == 5:
            whole.append(add("scatter_slices", old, places, add("reshape", part(2), const([2, WIDTH])),
                             offset_dims=(1,), collapsed_dims=(0,), start_map=(0,), index_vector_dim=1,
                             reduction=pick.choice(REDUCTIONS)))  # fmt: skip
        else:
            whole.append(add("add", old, pick.choice(whole)))
    graph.outputs = [whole[-1], *pick.sample(whole[1:-1], min(pick.randint(0, 2), len(whole) - 2))]
    infer_graph(graph)
    numbers = rng.integers(-3, 4, SHAPE), rng.integers(-3, 4, (1, WIDTH)), rng.permutation(ROWS)[:2].reshape(2, 1)
    kinds = dtype, dtype, np.int64
    return graph, {v.name: n.astype(k) for v, n, k in zip(graph.inputs, numbers, kinds, strict=True)}


@pytest.mark.parametrize("seed", range(120))
def test_random_updates(seed: int) -> None:
    for freedoms in ((), ("in_place",), ("views",)):
        for threads in (1, 2):
            graph, feeds = drawn(seed)
            wanted = evaluate(graph, feeds)
            with without(*freedoms):
                plan = compile_graph(graph, {}, tiers.usable()[-1], threads)
            assert not any(isinstance(step, HostStep) for step in plan.program.steps)
            soil(plan)
            plan.fill(feeds)
            for _ in range(2):
                plan.execute()
                for found, want in zip(plan.results().values(), wanted, strict=True):
                    np.testing.assert_array_equal(found, want)


def test_a_line_of_updates_copies_nothing() -> None:
    """Three updates are written over what was made before, where the last, a result of the graph, lies."""
    net = Net(opset=18)
    x, index, update = net("Relu", net.input("x", SHAPE)), net.input("i", (1, 1), I64), net.input("u", (1, WIDTH))
    for _ in range(3):
        x = net("ScatterND", x, index, update, reduction="add")
    net.output(x)
    model = fg.load(net.bytes(), threads=1)
    assert kernels_of(model, "scatter_nd") == ["scatter_reduce"] * 3


# -- in loops


def _updated(pick: random.Random, net: Net, old: str, values: list[str], turn: str) -> str:
    """A value of SHAPE with rows or elements of another one in it, at places of the round."""
    kind = pick.randrange(4)
    at = net("Reshape", net("Mod", turn, ROWS), [1, 1])
    reduction = {"reduction": pick.choice(SMALL)} if pick.random() < 0.4 else {}
    if kind < 2:
        source = net("Gather", pick.choice(values), net("Reshape", at, [1]), axis=0)
        row = net("Tanh", source) if kind or reduction else source
        return str(net("ScatterND", old, at, row, **reduction))
    rows = net("Slice", pick.choice(values), *([n] for n in (1, 2, 0)))
    rows = net("Tanh", rows) if reduction or kind == 3 else rows
    if kind == 2:
        index = net.const(np.array([[pick.randrange(ROWS) for _ in range(WIDTH)]]))
        return str(net("ScatterElements", old, index, rows, axis=0, **reduction))
    rows = net("Concat", rows, rows, axis=0)
    twice = net("Concat", at, at, axis=0)  # the same place more than once
    return str(net("ScatterND", old, twice, rows, reduction=pick.choice(SMALL[1:])))


def _loop(pick: random.Random, net: Net, values: list[str], name: str, depth: int) -> list[str]:
    count = pick.randint(1, 3)
    own = [f"{name}s{i}" for i in range(count)]
    inner = body(name, True, *((value, SHAPE) for value in own))
    inner.opset = net.opset
    made = [*own]
    for k in range(pick.randint(2, 5)):
        old, kind = pick.choice(made[-3:]), pick.random()
        around = [*made[-4:], *own, *values]
        if depth < 2 and kind < 0.2:
            made += _loop(pick, inner, made[-3:], f"{name}{k}", depth + 1)
        elif kind < 0.75:
            made.append(_updated(pick, inner, old, around, f"{name}i"))
        elif kind < 0.85:
            flat = inner("Reshape", old, [ROWS * WIDTH])
            made.append(inner("Reshape", inner("Neg", flat), SHAPE))
        else:
            made.append(inner("Mul", inner("Add", old, pick.choice(around)), 0.5))
    inner.output(inner("Identity", f"{name}go"), dtype=BOOL)
    fresh = made[count:]
    results = [pick.choice(fresh) for _ in range(count)]
    each = pick.choice(made) if pick.random() < 0.4 else None
    results = [inner("Identity", v) if v in results[:i] else v for i, v in enumerate(results)]
    inner.output(*results, *([inner("Identity", each)] if each else []))
    rounds = net.const(np.array(pick.randint(1, 4))) if each else "most"
    first = [pick.choice(values) for _ in own]
    names = net("Loop", rounds, "", *first, outputs=count + bool(each), body=inner.graph())
    return list(names[:count]) if count + bool(each) > 1 else [names]


@pytest.mark.parametrize("seed", range(100))
def test_random_loops(seed: int) -> None:
    """As onnxruntime computes them, and to the bit as where no value is written over another one."""
    pick = random.Random(seed)
    net = Net(opset=18, seed=seed)
    values = [net.input("x", SHAPE), net.input("y", SHAPE)]
    net.input("most", (), I64)
    values.append(net("Relu", values[0]))
    for k in range(2):
        values += _loop(pick, net, values[-4:], f"l{k}", 0)
    net.output(*dict.fromkeys([values[-1], net("Neg", pick.choice(values))]))
    source = net.bytes()
    models = [dirty(fg.load(source, threads=threads)) for threads in (1, 2)]
    for freedoms in (("in_place",), ("reuse", "views")):
        with without(*freedoms):
            models.append(fg.load(source, threads=1))
    rng = np.random.default_rng(seed)
    for most in (0, 1, 3, 7):
        fed = {"x": rng.standard_normal(SHAPE).astype(F32), "y": rng.standard_normal(SHAPE).astype(F32),
               "most": np.array(most)}  # fmt: skip
        if not any(spec.name == "most" for spec in models[0].inputs):
            del fed["most"]
        first, *others = [list(model.run(fed).values()) for model in models]
        assert_close(first, by_onnxruntime(source, fed), what=f"{seed} {most}")
        for other in others:
            for a, b in zip(first, other, strict=True):
                np.testing.assert_array_equal(a, b)


def test_a_round_of_a_list_copies_one_row() -> None:
    assert "copy" not in kernels_of(fg.load(running_sum(5), threads=1), "scatter_nd")


def _rounds(updates: int = 1, before: bool = False, after: bool = False, depth: int = 1, overlap: bool = False) -> Net:
    """A loop, in others, that writes a row of what it carries per round; what reads that besides, and when."""

    def grown(net: Net, old: str, level: int) -> str:
        inner = body(f"b{level}", True, (f"s{level}", SHAPE))
        inner.opset = net.opset
        at = inner("Reshape", f"b{level}i", [1, 1])
        new = grown(inner, f"s{level}", level + 1) if level + 1 < depth else f"s{level}"
        source = f"s{level}" if before or overlap else "rows"
        zero, one = (inner.const(np.array([n])) for n in (0, 1))
        row = inner("Slice", source, zero, one) if overlap else inner("Gather", source, one)
        for _ in range(updates):
            new = inner("ScatterND", new, at, row if overlap else inner("Tanh", row))
        new = inner("Mul", new, inner("Abs", f"s{level}")) if after else new
        inner.output(inner("Identity", f"b{level}go"), dtype=BOOL)
        inner.output(new)
        return str(net("Loop", "most", "", old, body=inner.graph()))

    net = Net(opset=18)
    net.input("most", (), I64)
    x = net.input("x", SHAPE)
    net.input("rows", SHAPE)
    net.output(net("Neg", grown(net, x, 0)))
    return net


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "kind, copies",
    [({}, 0), ({"updates": 2}, 0), ({"before": True}, 0), ({"after": True}, 1), ({"depth": 3}, 0),
     ({"overlap": True}, 1), ({"updates": 2, "after": True}, 1)],
    ids=str,
)  # fmt: skip
def test_rounds(kind: dict[str, Any], copies: int, threads: int) -> None:
    """Where nothing reads the old value after the update, or beside it, no step copies it."""
    source = _rounds(**kind).bytes()
    model = dirty(fg.load(source, threads=threads))
    assert kernels_of(model, "scatter_nd").count("copy") == copies
    carried = [step.node for step in model.plan.program.steps if isinstance(step, Step) and step.node.op == "carry"]
    assert copies or len(carried) == 1  # what is fed, before the first round
    rng = np.random.default_rng(0)
    for most in (0, 1, ROWS):
        fed = {"most": np.array(most), "x": rng.standard_normal(SHAPE).astype(F32),
               "rows": rng.standard_normal(SHAPE).astype(F32)}  # fmt: skip
        fed = {spec.name: fed[spec.name] for spec in model.inputs}
        assert_close(list(model.run(fed).values()), by_onnxruntime(source, fed), rtol=1e-6)


# -- caches


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("updates", [1, 2])
def test_a_cache_that_is_a_state_stays_as_it_was_when_a_run_fails(updates: int, threads: int) -> None:
    """What is kept from run to run is copied once, and written over at the end of a run only."""
    cache, row = Value("cache", TensorType(F32, SHAPE)), Value("row", TensorType(F32, (1, WIDTH)))
    at, y = Value("at", TensorType(I64, (2,))), Value("y", TensorType(F32, (ROWS, ROWS)))
    graph = Graph("cache", [row, at], [y])
    new = cache
    for k in range(updates):
        old, new = new, Value(f"new{k}", cache.type)
        graph.nodes.append(Node("dynamic_update_slice", [old, row, at], [new], {"checked": 1}))
    turned = Value("turned", TensorType(F32, (WIDTH, ROWS)))
    graph.nodes += [Node("transpose", [new], [turned], {"perm": (1, 0)}), Node("matmul", [new, turned], [y])]
    graph.states = [State(cache, new, np.ones(SHAPE, F32))]
    model = Model(graph, tiers.usable()[-1], threads)
    assert kernels_of(model, "dynamic_update_slice").count("copy") == 1
    wanted, rng = np.ones(SHAPE, F32), np.random.default_rng(0)
    for place in (0, 4, 7, 2, -1, 4):
        fed = {"row": rng.standard_normal((1, WIDTH)).astype(F32), "at": np.array([place, 0])}
        if not 0 <= place < ROWS:
            with pytest.raises(InputError):
                model.run(fed)
            continue
        wanted[place] = fed["row"]
        np.testing.assert_allclose(model.run(fed)["y"], wanted @ wanted.T, rtol=1e-4, atol=1e-5)
