"""Inputs whose values decide shapes: plans are made for these, and nothing is left to the host."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import fastgraph as fg
from fastgraph.freedoms import thresholds
from fastgraph.ir import is_open
from fastgraph.runtime import keys, lengths
from fastgraph.tools.numpy_operators import on_host
from tests.circle.write import Model as Circle
from tests.circle.write import litert
from tests.nets import F32, I64, Net, assert_close, by_onnxruntime, session
from tests.threads import at_once

X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(F32)

Nodes = tuple[Callable[[Net, str], Any], dict[str, list[Any]]]
"""What a net computes of x, and what is fed beside that, run by run."""


def native(model: fg.Model) -> bool:
    """Whether NumPy computes nothing, but for results without elements."""
    plan = model.plan.compiled
    return plan.tail is None and all(node.out.type.size == 0 for node in on_host(plan))


def agree(net: Net, runs: Iterator[dict[str, Any]] | list[dict[str, Any]], **options: Any) -> fg.Model:
    """The net run by run, each twice, as onnxruntime does it."""
    source = net.bytes()
    model, other = fg.load(source, threads=1, **options), session(source)
    for feeds in runs:
        expected = other.run(None, feeds)
        for _ in range(2):
            assert_close(
                list(model.run(feeds).values()), expected, what=str({k: v for k, v in feeds.items() if k != "x"})
            )
        assert native(model), str(model)
    return model


def ints(*values: Any) -> list[np.ndarray]:
    return [np.array(v, I64) for v in values]


def reals(*values: Any) -> list[np.ndarray]:
    return [np.array(v, F32) for v in values]


OPERATORS: dict[str, Nodes] = {
    "Reshape": (lambda n, x: n("Reshape", x, "a"), {"a": ints([4, 6], [-1, 3], [0, 12], [24, 1])}),
    "Expand": (lambda n, x: n("Expand", n("ReduceMax", x, axes=[1]), "a"), {"a": ints([2, 5, 4], [1, 3, 1])}),
    "Tile": (lambda n, x: n("Tile", x, "a"), {"a": ints([1, 2, 1], [3, 1, 2], [1, 1, 1])}),
    "Squeeze": (lambda n, x: n("Squeeze", n("Unsqueeze", x, [0, 2]), "a"), {"a": ints([0], [2], [-3])}),
    "Unsqueeze": (lambda n, x: n("Unsqueeze", x, "a"), {"a": ints([0, 4], [2, 1], [-1, 1])}),
    "ReduceSum": (lambda n, x: n("ReduceSum", x, "a"), {"a": ints([0, 1], [2, 1], [-1, 1])}),
    "ReduceSum, fewer axes": (lambda n, x: n("ReduceSum", x, "a", keepdims=0), {"a": ints([0], [2], [-1])}),
    "Slice": (
        lambda n, x: n("Slice", x, "a", "b", "c", "d"),
        {"a": ints([0, 1], [1, -1]), "b": ints([2, 4], [9, -9]), "c": ints([1, 2], [0, -1]),
         "d": ints([1, 2], [1, -1])},
    ),
    "Pad": (lambda n, x: n("Pad", x, "a"), {"a": ints([0, 0, 0, 0, 0, 0], [1, 0, 2, 0, 3, -1])}),
    "Split": (lambda n, x: n("Split", x, "a", axis=2, outputs=2), {"a": ints([1, 3], [2, 2], [4, 0])}),
    "TopK": (lambda n, x: n("TopK", x, "a", outputs=2, axis=2)[0], {"a": ints([1], [3], [4])}),
    "Range": (
        lambda n, x: n("Mul", n("Range", "a", "b", "c"), n("ReduceMax", x, keepdims=0)),
        {"a": reals(0, 1.5), "b": reals(4, -2), "c": reals(1, -0.5)},
    ),
    "ConstantOfShape": (
        lambda n, x: n("Add", n("ConstantOfShape", "a"), n("ReduceMax", x, keepdims=0)), {"a": ints([2, 3], [1, 7])},
    ),
    "OneHot": (
        lambda n, x: n("OneHot", n("Cast", n("Abs", x), to=TensorProto.INT64), "a", [0.0, 1.0]),
        {"a": ints(2, 5, [3])},
    ),
    "Resize by sizes": (
        lambda n, x: n("Resize", n("Unsqueeze", x, [0]), "", "", "a", mode="linear"),
        {"a": ints([1, 2, 6, 8], [1, 2, 2, 2])},
    ),
    "Resize by scales": (
        lambda n, x: n("Resize", n("Unsqueeze", x, [0]), "", "a", mode="nearest"),
        {"a": reals([1, 1, 2, 2], [1, 1, 1.5, 0.5])},
    ),
}  # fmt: skip


def net_of(nodes: Nodes, opened: bool = False, opset: int = 17) -> Net:
    net = Net(opset)
    x = net.input("x", ("n", 3, "w") if opened else X.shape)
    for name, values in nodes[1].items():
        shapes = {v.shape for v in values}
        net.input(name, values[0].shape if len(shapes) == 1 else None, values[0].dtype)
    made = nodes[0](net, net("Mul", x, 2.0))
    net.output(*(net("Neg", y) for y in (made if isinstance(made, list) else [made])))
    return net


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("op", OPERATORS)
def test_operators(op: str, opened: bool) -> None:
    """Each value after each other, and those of before again. A rank that is open is not that of few numbers."""
    nodes = OPERATORS[op]
    if op == "OneHot":
        nodes = nodes[0], {"a": nodes[1]["a"][:2]}
    feeds = [dict(zip(nodes[1], v, strict=True)) for v in product(*nodes[1].values())]
    valid = []
    for each in feeds:
        try:
            by_onnxruntime(net_of(nodes).bytes(), {"x": X, **each})
            valid.append(each)
        except Exception:
            continue
    assert len(valid) > 1
    agree(net_of(nodes, opened), [{"x": X, **each} for each in (*valid, *valid)])


def test_computed_of_shapes_and_inputs() -> None:
    """The way from an input to a shape: whole numbers, joined with those of shapes, and of branches."""
    net = Net()
    x, rows, more = net.input("x", ("n", 3, 4)), net.input("rows", (), I64), net.input("more", (), bool)
    extent = net("Slice", net("Shape", x), [0], [1])
    twice = net("Where", more, [2], [1])
    target = net("Concat", net("Mul", extent, twice), net("Reshape", rows, [-1]), [-1], axis=0)
    y = net("Reshape", net("Concat", x, x, axis=0), target)
    net.output(net("Relu", y))
    runs = [{"x": np.resize(X, (n, 3, 4)), "rows": np.array(r), "more": np.array(m)}
            for n, r, m in [(2, 6, True), (2, 3, False), (4, 2, False), (2, 6, True), (4, 4, True)]]  # fmt: skip
    model = agree(net, runs)
    assert model._keys.decide == {"rows", "more"}


def test_only_what_decides_shapes_is_asked_for() -> None:
    """Numbers that are read only, shapes that depend on data, and an operand that is known by shapes, make no plans."""
    net = Net()
    x, n, where = net.input("x", ("n", 4)), net.input("n", (1,), I64), net.input("where", (), I64)
    large = net.input("ids", ("n", 4), I64)
    y = net("Reshape", net("Add", x, net("Cast", n, to=1)), net("Shape", x))
    net.output(net("Gather", y, where, axis=0))
    longest = net("ReduceMax", large, keepdims=0)
    net.output(net("Range", 0, longest, 1), dtype=I64)
    model = net.load()
    assert not model._keys.decide
    for value in range(3):
        found = model.run({"x": X[0], "n": np.array([value]), "where": np.array(value), "ids": np.full((3, 4), value)})
        assert [v.shape for v in found.values()] == [(4,), (value,)]
    assert len(model._plans._plans) == 1


def branches(x: str, count: int) -> dict[str, Any]:
    """Branches that repeat x so often, or not."""

    def graph(name: str, times: int) -> Any:
        out = helper.make_tensor_value_info(f"{name}.y", TensorProto.FLOAT, None)
        times_ = helper.make_node("Constant", [], [f"{name}.n"], value_ints=[times, 1])
        return helper.make_graph([times_, helper.make_node("Tile", [x, f"{name}.n"], [out.name])], name, [], [out])

    return {"then_branch": graph("t", count), "else_branch": graph("e", 1)}


def test_a_condition_decides_where_branches_differ() -> None:
    """If branches give one shape, both are in one plan."""
    for count, decides in ((3, True), (1, False)):
        net = Net()
        x, p = net.input("x", (3, 4)), net.input("p", (), bool)
        net.output(net("Relu", net("If", p, **branches(net("Neg", x), count))))
        runs = [{"x": X[0], "p": np.array(v)} for v in (True, False, True)]
        model = agree(net, runs)
        assert bool(model.plan.compiled.values) == decides


def test_a_trip_count_decides_how_much_is_stacked() -> None:
    body = Net(prefix="b")
    inputs = [helper.make_tensor_value_info(n, k, s) for n, k, s in (
        ("i", TensorProto.INT64, []), ("go", TensorProto.BOOL, []), ("s", TensorProto.FLOAT, [4]))]  # fmt: skip
    body.inputs = inputs
    after = body("Mul", "s", 1.5)
    body.output(body("Identity", "go"), dtype=bool)
    body.output(after, body("Relu", after))
    net = Net()
    x, n = net.input("x", (4,)), net.input("n", (), I64)
    last, history = net("Loop", n, True, x, body=body.graph(), outputs=2)
    net.output(last, net("Neg", history))
    model = agree(net, [{"x": X[0, 0], "n": np.array(k)} for k in (3, 1, 5, 3)])
    assert set(model.plan.compiled.values) == {"n"}


def triangle(net: Net, n: str) -> str:
    """0 + 1 + ... + n - 1, by a loop."""
    body = Net(prefix="b")
    body.inputs = [helper.make_tensor_value_info(name, kind, []) for name, kind in (
        ("i", TensorProto.INT64), ("go", TensorProto.BOOL), ("s", TensorProto.INT64))]  # fmt: skip
    body.output(body("Identity", "go"), dtype=bool)
    body.output(body("Add", "s", "i"), dtype=I64)
    total = net("Loop", n, True, 0, body=body.graph())
    return net("Concat", net("Unsqueeze", total, [0]), [1], axis=0)


def test_loops_that_compute_shapes() -> None:
    """Of shapes, and of values that are fed."""
    for fed in (False, True):
        net = Net()
        x = net.input("x", ("n", 4))
        first = net("Slice", net("Shape", x), [0], [1])
        rows = net.input("rows", (), I64) if fed else net("Squeeze", first)
        net.output(net("Relu", net("Tile", x, triangle(net, rows))))
        runs = [{"x": np.resize(X, (n, 4)), **({"rows": np.array(n + 1)} if fed else {})} for n in (2, 3, 4, 2)]
        agree(net, runs)


def test_a_loop_of_many_rounds_is_left_to_the_run() -> None:
    """Planning does not take as long as it likes."""
    net = Net()
    x, n = net.input("x", (1, 4)), net.input("n", (), I64)
    columns = net("Slice", triangle(net, n), [0], [1])
    net.output(net("Relu", net("Slice", x, [0], columns, [1])))
    model = agree(net, [{"x": X[:1, 0], "n": np.array(rounds)} for rounds in (2, 3, 2)])
    with pytest.raises(fg.RunTimeout):
        model.run({"x": X[:1, 0], "n": np.array(1 << 40)}, timeout=0.5)


def test_a_body_reads_what_decides() -> None:
    """The branch that is taken is known, too, where a switch is fed."""

    def graph(op: str) -> Any:
        out = helper.make_tensor_value_info(f"{op}.y", TensorProto.FLOAT, None)
        nodes = [
            helper.make_node("Reshape", ["x", "shape"], [f"{op}.x"]),
            helper.make_node(op, [f"{op}.x"], [out.name]),
        ]
        return helper.make_graph(nodes, op, [], [out])

    net = Net()
    x, shape, p = net.input("x", (3, 4)), net.input("shape", (2,), I64), net.input("p", (), bool)
    net.output(net("Neg", net("If", p, then_branch=graph("Relu"), else_branch=graph("Abs"))))
    runs = [{x: X[0], shape: np.array(s), p: np.array(v)} for s, v in product(([4, 3], [2, 6]), (True, False))]
    model = agree(net, runs)
    assert set(model.plan.compiled.values) == {"shape", "p"}


def reshaped() -> Net:
    net = Net()
    x, shape = net.input("x", (2, 6)), net.input("shape", (2,), I64)
    net.output(net("Relu", net("Reshape", net("Neg", x), shape)), net("Identity", shape))
    net.outputs[-1].type.tensor_type.elem_type = TensorProto.INT64
    return net


def test_in_place() -> None:
    """The value that lies there when the run begins counts; other inputs keep what they hold."""
    model = reshaped().load()
    x, y = X.reshape(2, 12)[:, :6], model.outputs[0].name
    shape, run = model.input("shape"), model.execute
    model.input("x")[...] = x
    for value in ([3, 4], [4, 3], [3, 4], [12, -1]):
        shape[...] = value
        run()
        np.testing.assert_array_equal(model.output(y), np.maximum(-x, 0).reshape(value))
        assert model.output(model.outputs[1].name).tolist() == value
        assert model.input("shape") is shape and native(model)
    shape[...] = [5, 5]
    with pytest.raises(fg.InputError, match=r"shape': \[5, 5\]"):
        run()
    model.run({"x": 2 * x, "shape": np.array([6, 2])})
    assert shape.tolist() == [6, 2]
    np.testing.assert_array_equal(model.input("x"), 2 * x)
    model.execute()
    np.testing.assert_array_equal(model.output(y), np.maximum(-2 * x, 0).reshape(6, 2))


def test_run_reads_the_caller_s_array_each_time() -> None:
    model, x, shape = reshaped().load(), X.reshape(2, 12)[:, :6], np.array([3, 4])
    feeds = {"x": x, "shape": shape}
    first = next(iter(model.run(feeds).values()))
    shape[...] = 2, 6
    assert next(iter(model.run(feeds).values())).shape == (2, 6) and first.shape == (3, 4)
    assert next(iter(model.run({"x": x, "shape": [6, 2]}).values())).shape == (6, 2)
    assert model(x, [1, 12])[0].shape == (1, 12)


def test_ahead_of_the_run() -> None:
    """`prepare` and `resize` take arrays as values."""
    model = reshaped().load()
    model.prepare([{"shape": np.array([3, 4])}, {"shape": np.array([4, 3])}])
    kept = list(model._plans._plans)
    model.resize({"shape": np.array([4, 3])})
    assert model.input("shape").tolist() == [4, 3] and not model.input("x").any()
    assert model.output(model.outputs[0].name).shape == (4, 3)
    model.run({"x": X.reshape(2, 12)[:, :6], "shape": np.array([3, 4])})
    assert sorted(model._plans._plans) == sorted(kept)
    model.resize({"shape": (2,)})
    assert model.input("shape").tolist() == [0, 0]
    for bad in ({"shape": np.array([5, 5])}, {"shape": np.array([[2, 6]])}, {"shape": np.array(["a", "b"])}):
        with pytest.raises(fg.InputError, match="shape"):
            model.resize(bad)
    net = Net()
    x, a, b = net.input("x", (4,)), net.input("a", (1,), I64), net.input("b", (1,), I64)
    net.output(net("Slice", x, a, b))
    with pytest.raises(fg.InputError, match="no value for b"):
        net.load().resize({"a": np.array([1])})


BAD: list[tuple[str, dict[str, Any]]] = [
    ("Reshape", {"a": [5, 5]}), ("Reshape", {"a": [-1, -1]}), ("Reshape", {"a": [-2, 12]}),
    ("Reshape", {"a": [2**62, 2**62]}), ("Expand", {"a": [2, -5, 4]}), ("Expand", {"a": [1, 10**9, 10**9]}),
    ("Tile", {"a": [1, -1, 1]}), ("Tile", {"a": [10**6, 10**6, 10**6]}), ("Squeeze", {"a": [1]}),
    ("Squeeze", {"a": [9]}), ("Unsqueeze", {"a": [0, 9]}), ("Unsqueeze", {"a": [0, 0]}), ("ReduceSum", {"a": [3, 0]}),
    ("ReduceSum", {"a": [0, 0]}), ("Slice", {"a": [0, 1], "b": [2, 4], "c": [1, 3], "d": [1, 1]}),
    ("Slice", {"a": [0, 1], "b": [2, 4], "c": [1, 2], "d": [1, 0]}), ("Pad", {"a": [-2, 0, 0, -1, 0, 0]}),
    ("Pad", {"a": [10**9, 10**9, 0, 0, 0, 0]}), ("Split", {"a": [1, 1]}), ("Split", {"a": [-1, 5]}),
    ("TopK", {"a": [5]}), ("TopK", {"a": [-1]}), ("Range", {"a": 0.0, "b": 4.0, "c": 0.0}),
    ("Range", {"a": 0.0, "b": np.nan, "c": 1.0}), ("Range", {"a": 0.0, "b": 1e30, "c": 1e-3}),
    ("Range", {"a": 0.0, "b": 1e13, "c": 1.0}), ("ConstantOfShape", {"a": [-1, 2]}),
    ("ConstantOfShape", {"a": [2**40, 2**40]}), ("ConstantOfShape", {"a": [2**21, 2**21]}),
    ("Resize by sizes", {"a": [1, 2, -6, 8]}), ("Resize by sizes", {"a": [1, 2, 2**40, 8]}),
    ("Resize by scales", {"a": [1, 1, 0, 2]}), ("Resize by scales", {"a": [1, 1, np.inf, 2]}),
    ("Resize by scales", {"a": [1, 1, -1, 2]}), ("Resize by scales", {"a": [1, 1, np.nan, 2]}),
    ("Resize by scales", {"a": [1, 1, 1e20, 2]}),
]  # fmt: skip


@pytest.mark.parametrize("op, values", BAD)
def test_values_that_make_no_sense(op: str, values: dict[str, Any]) -> None:
    """The error names inputs and the values; the model can be run again, and keeps no plan for them."""
    nodes = OPERATORS[op]
    net, good = net_of(nodes), {"x": X, **{name: v[0] for name, v in nodes[1].items()}}
    model = net.load()
    expected = list(model.run(good).values())
    kept = list(model._plans._plans)
    feeds = {"x": X, **{name: np.array(v, nodes[1][name][0].dtype) for name, v in values.items()}}
    with pytest.raises(fg.InputError, match="'a': "):
        model.run(feeds)
    assert list(model._plans._plans) == kept
    assert_close(list(model.run(good).values()), expected, 0)


def counted(**options: Any) -> tuple[fg.Model, Callable[[int], None]]:
    """A step of a decoder whose cache is read up to a position, and a run of it that is checked."""
    net = Net()
    x, position, cache = net.input("x", (1, 8)), net.input("position", (1,), I64), net.weight(300, 8)
    part = net("Slice", cache, [0], position, [0])
    weights = net("Softmax", net("MatMul", x, net("Transpose", part, perm=[1, 0])), axis=-1)
    net.output(net("MatMul", weights, part))
    model, other = net.load(**options), session(net.bytes())

    def run(n: int) -> None:
        feeds = {"x": X.reshape(3, 8)[:1], "position": np.array([n])}
        assert_close(list(model.run(feeds).values()), other.run(None, feeds), what=str(n))

    return model, run


def test_a_counter_has_a_plan_for_many_numbers() -> None:
    """A number that decides shapes is like an extent of an input: one plan is for many."""
    model, run = counted()
    for n in [*range(1, 64), 250, 251]:
        run(n)
    assert is_open(model._plans.key.opens) and sum(is_open(key.opens) for key in model._plans.keys()) == 3
    for _ in range(lengths.PRICE + 1):
        run(250)
    assert model._plans.key.values == (("position", np.array([250]).tobytes()),)


@thresholds(native_work=-1)
def test_a_counter_makes_few_plans() -> None:
    """What never comes again is left to a plan for any value after some plans, and what comes again has one soon."""
    model, run = counted()
    for n in range(1, 200):
        run(n)
    first = len(model._plans._plans)
    assert first <= keys.PLANS + 1 and native(model), "a slice has the bound of its axis"
    assert model.plan.compiled.values == {"position": None}
    for _ in range(keys.PRICE + 1):
        run(250)
    assert model.plan.compiled.values == {"position": 250} and len(model._plans._plans) == first + 1
    run(2)
    assert model.plan.compiled.values == {"position": 2}, "plans of before are used"
    deciders = next(iter(model._keys._deciders.values()))
    assert len(deciders._credit._left) <= keys.MOST


def test_values_in_turn_all_have_plans_in_the_end() -> None:
    model, run = counted()
    for _ in range(6):
        for n in range(1, 31):
            run(n)
    for n in range(1, 31):
        run(n)
        assert native(model), n


def test_plans_for_values_keep_to_the_limits() -> None:
    model, run = counted(plans=3)
    for n in [*range(1, 9), *range(1, 9), *[3] * (keys.PRICE + 2)]:
        run(n)
        assert len(model._plans._plans) <= 3
    assert native(model)


def test_plans_pay_where_numpy_takes_longer() -> None:
    with thresholds(planning_work=0):
        model, run = counted(plans=4)
        for n in range(1, 40):
            run(n)
            assert native(model)


def test_new_shapes_have_plans_for_their_values() -> None:
    """Credit is of one set of shapes."""
    net = Net()
    x, n = net.input("x", ("n", 2)), net.input("k", (1,), I64)
    net.output(net("Relu", net("Tile", x, net("Concat", n, [1], axis=0))))
    model = net.load(plans=4)
    for rows in range(1, 60):
        model.run({"x": np.ones((rows, 2), F32), "k": np.array([2])})
        assert native(model)


def test_threads_share_a_model() -> None:
    model, x = reshaped().load(threads=2), X.reshape(2, 12)[:, :6]
    wrong = []

    def run(rows: int) -> None:
        for _ in range(50):
            found = next(iter(model.run({"x": x * rows, "shape": np.array([rows, -1])}).values()))
            if not np.array_equal(found, np.maximum(-x * rows, 0).reshape(rows, -1)):
                wrong.append(rows)

    at_once(run, (1, 2, 3, 4))
    assert not wrong


def test_verify_takes_the_plan_for_the_values() -> None:
    model = reshaped().load()
    report = fg.verify(model, {"x": X.reshape(2, 12)[:, :6], "shape": np.array([3, 4])})
    assert report.ok
    assert native(model)


# -- TensorFlow Lite


def circle(op: str, shape: tuple[int, ...], out: Any, *operands: tuple[Any, Any], **options: Any) -> bytes:
    """x times 2, then an operator with operands that are fed, and what is computed of its result."""
    m = Circle()
    x = m.input(shape, name="x")
    fed = [m.input(s, t, name=f"a{i}") for i, (s, t) in enumerate(operands)]
    (y,) = m.op("MUL", [x, m.const(np.array(2, F32))], [shape])
    opened = {"shape_signature": [-1] * len(out)}
    (z,) = m.op(op, [y, *fed], [m.tensor(out, F32, **opened)], **options)
    return m.bytes(m.op("NEG", [z], [m.tensor(out, F32, **opened)]))


I32 = np.int32
TFLITE: dict[str, tuple[bytes, list[list[Any]]]] = {
    "RESHAPE": (circle("RESHAPE", (2, 3, 4), (1, 1), ((2,), I32)), [[[4, 6]], [[3, -1]], [[24, 1]]]),
    "SLICE": (
        circle("SLICE", (2, 3, 4), (1, 1, 1), ((3,), I32), ((3,), I32)),
        [[[0, 1, 0], [2, 2, -1]], [[1, 0, 2], [1, 3, 1]], [[0, 0, 0], [-1, -1, -1]]],
    ),
    "STRIDED_SLICE": (
        circle("STRIDED_SLICE", (2, 3, 4), (1, 1), *(((3,), I32),) * 3, shrink_axis_mask=1, end_mask=2),
        [[[0, 1, 0], [1, 2, 4], [1, 1, 2]], [[1, 0, 1], [2, 0, 3], [1, 2, 1]]],
    ),
    "PAD": (
        circle("PAD", (2, 3, 4), (1, 1, 1), ((3, 2), I32)), [[[[0, 1], [0, 0], [2, 0]]], [[[1, 1], [2, 0], [0, 3]]]],
    ),
    "TILE": (circle("TILE", (2, 3, 4), (1, 1, 1), ((3,), I32)), [[[2, 1, 1]], [[1, 3, 2]]]),
    "EXPAND_DIMS": (circle("EXPAND_DIMS", (2, 3, 4), (1, 1, 1, 1), ((), I32)), [[0], [-1], [2]]),
    "BROADCAST_TO": (circle("BROADCAST_TO", (1, 3, 1), (1, 1, 1), ((3,), I32), version=2), [[[2, 3, 4]], [[1, 3, 5]]]),
    "SUM": (circle("SUM", (2, 3, 4), (1, 1, 1), ((1,), I32), keep_dims=True), [[[1]], [[-1]], [[0]]]),
    "RESIZE_BILINEAR": (circle("RESIZE_BILINEAR", (1, 3, 4, 2), (1, 1, 1, 2), ((2,), I32)), [[[6, 8]], [[2, 2]]]),
    "RESIZE_NEAREST_NEIGHBOR": (
        circle("RESIZE_NEAREST_NEIGHBOR", (1, 3, 4, 2), (1, 1, 1, 2), ((2,), I32)), [[[6, 8]], [[2, 2]]],
    ),
    "SPACE_TO_BATCH_ND": (
        circle("SPACE_TO_BATCH_ND", (1, 4, 4, 2), (1, 1, 1, 2), ((2,), I32), ((2, 2), I32)),
        [[[2, 2], [[0, 0], [0, 0]]], [[2, 3], [[1, 1], [0, 2]]]],
    ),
    "BATCH_TO_SPACE_ND": (
        circle("BATCH_TO_SPACE_ND", (4, 2, 2, 1), (1, 1, 1, 1), ((2,), I32), ((2, 2), I32)),
        [[[2, 2], [[0, 0], [0, 0]]], [[2, 2], [[1, 0], [0, 1]]]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("op", TFLITE)
def test_tflite(op: str) -> None:
    pytest.importorskip("ai_edge_litert")
    source, values = TFLITE[op]
    model = fg.load(source, threads=1)
    x = np.random.default_rng(1).standard_normal(model.inputs[0].shape).astype(F32)  # type: ignore[arg-type]
    runs = [[x, *(np.array(v, I32) for v in each)] for each in (*values, *values)]
    for feeds in runs:
        expected = litert(source, [feeds])[0]  # afresh: its reshape keeps the first shape
        found = model.run(dict(zip((s.name for s in model.inputs), feeds, strict=True)))
        assert_close(list(found.values()), expected, what=op)
        assert native(model), str(model)


def test_what_layers_compute_of_tokens_is_left_to_the_run() -> None:
    """A duration that a network predicts of few tokens: kernels run its layers, not references once a plan."""
    net = Net()
    tokens = net.input("tokens", (1, 6), I64)
    made = net("MatMul", net("Gather", net.weight(20, 8), tokens), net.weight(8, 8))
    count = net("Cast", net("Abs", net("ReduceSum", made, keepdims=0)), to=7)
    net.output(net("Range", 0, count, 1), dtype=I64)
    net.output(net("Relu", made))
    model, other = net.load(), session(net.bytes())
    for seed in range(3):
        feeds = {"tokens": np.random.default_rng(seed).integers(0, 20, (1, 6))}
        assert_close(list(model.run(feeds).values()), other.run(None, feeds), what=str(seed))
        assert "gather" in {step.node.op for step in model.plan.program.steps}
