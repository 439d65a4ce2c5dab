"""Arithmetic on every element type is native, and what the references say: to the bit for single operations."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastgraph.freedoms import without
from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.kernels.isa.tiers import choose
from fastgraph.kernels.pointwise.exact_names import FLOATS
from fastgraph.ops.evaluate import infer_graph
from fastgraph.ops.narrow import INTEGERS
from fastgraph.runtime.model import Model
from tests.element_types import REAL, SHAPES, WHOLE, agrees, numbers, one
from tests.kernels.harness import each_tier, widest_tier
from tests.nets import Net, by_onnxruntime, numpy_steps
from tests.random_nets import examples

BINARY: tuple[tuple[str, dict[str, Any]], ...] = (
    *((op, {}) for op in ("add", "sub", "mul", "div", "floor_div", "min", "max", "equal", "less", "less_or_equal",
                          "greater", "greater_or_equal")),
    ("mod", {"fmod": 0}), ("mod", {"fmod": 1}),
)  # fmt: skip
OF_WHOLE: tuple[tuple[str, dict[str, Any]], ...] = (
    *((op, {}) for op in ("bitwise_and", "bitwise_or", "bitwise_xor", "pow")),
    ("bit_shift", {"direction": "LEFT"}), ("bit_shift", {"direction": "RIGHT"}),
)  # fmt: skip
UNARY = ("neg", "abs", "sign", "relu")
UNARY_OF_REAL: tuple[tuple[str, dict[str, Any]], ...] = (
    *((op, {}) for op in ("floor", "ceil", "round", "sqrt", "reciprocal", "is_nan", "is_inf")),
    ("is_inf", {"detect_negative": 0}), ("is_inf", {"detect_positive": 0}),
)  # fmt: skip
RTOL = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-13}
seeds = st.integers(0, 2**32 - 1)


@widest_tier
@pytest.mark.parametrize("dtype", [*WHOLE, *REAL])
def test_operations_of_two(tier: Any, dtype: str) -> None:
    rng = np.random.default_rng(1)
    own = OF_WHOLE if dtype in WHOLE else ()
    for number, (op, attrs) in enumerate((*BINARY, *own)):
        for shapes in (SHAPES[number % len(SHAPES)], SHAPES[0]):
            arrays = [numbers(rng, dtype, shape) for shape in shapes]
            agrees(one(op, arrays, attrs=attrs), arrays, tier)


@each_tier
@examples(100)
@given(st.sampled_from([*WHOLE, *REAL]), st.sampled_from((*BINARY, *OF_WHOLE)), st.sampled_from(SHAPES), seeds)
def test_random_operations_of_two(tier: Any, dtype: str, op: Any, shapes: Any, seed: int) -> None:
    if dtype in REAL and op in OF_WHOLE:
        return
    rng = np.random.default_rng(seed)
    arrays = [numbers(rng, dtype, shape) for shape in shapes]
    agrees(one(op[0], arrays, attrs=op[1]), arrays, tier, threads=1 + seed % 3)


@widest_tier
@pytest.mark.parametrize("dtype", [*WHOLE, *REAL])
def test_operations_of_one_and_of_three(tier: Any, dtype: str) -> None:
    rng = np.random.default_rng(2)
    x, y = (numbers(rng, dtype, (3, 5, 37)) for _ in range(2))
    for op, attrs in (*((op, {}) for op in UNARY), *(UNARY_OF_REAL if dtype in REAL else [("bitwise_not", {})])):
        agrees(one(op, [x], attrs=attrs), [x], tier)
    for shape in ((3, 5, 37), (5, 1), ()):
        chosen = numbers(rng, "bool", shape)
        agrees(one("where", [chosen, x, y]), [chosen, x, y], tier)
    low, high = (numbers(rng, dtype, ()) for _ in range(2))
    agrees(one("clip", [x, low, high]), [x, low, high], tier)
    agrees(one("prelu", [x, y[0, 0]]), [x, y[0, 0]], tier)


@pytest.mark.parametrize("dtype", [*WHOLE, "float32"])
@pytest.mark.parametrize("op", ["min", "max"])
def test_no_kernel_of_two_takes_three(op: str, dtype: str) -> None:
    """A draw found it: the third operand was left out where the rule that pairs them had been taken away."""
    arrays = [numbers(np.random.default_rng(i), dtype, (3, 37)) for i in range(3)]
    with without("variadic"):
        found = next(iter(Model(one(op, arrays), choose(), 1).run({f"x{i}": x for i, x in enumerate(arrays)}).values()))
    np.testing.assert_array_equal(found, getattr(np, f"{op}imum")(getattr(np, f"{op}imum")(*arrays[:2]), arrays[2]))


@widest_tier
@pytest.mark.parametrize("op", ["and", "or", "xor", "equal", "not"])
def test_bools(tier: Any, op: str) -> None:
    rng = np.random.default_rng(3)
    arrays = [numbers(rng, "bool", shape) for shape in ((5, 37), (37,))[: 1 if op == "not" else 2]]
    agrees(one(op, arrays), arrays, tier)


@widest_tier
@pytest.mark.parametrize("source", [*WHOLE, *REAL, "bool"])
def test_casts_between_all_types(tier: Any, source: str) -> None:
    """Floats that an integer can't hold are left out: what becomes of them is not said."""
    rng = np.random.default_rng(4)
    for target in (*WHOLE, *REAL, "bool"):
        x = numbers(rng, source, (3, 137))
        if source in REAL and target in WHOLE:
            ends = np.iinfo(target)
            x = np.clip(np.nan_to_num(x), max(ends.min, -60000), min(ends.max, 60000)).astype(source)
        agrees(one("cast", [x], attrs={"to": target}), [x], tier)


@widest_tier
@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS])
def test_casts_to_formats_of_few_bits(tier: Any, kind: str) -> None:
    rng = np.random.default_rng(5)
    target = "float32" if kind in FLOATS else "uint8" if kind[0] == "u" else "int8"
    for source in ("float16", "float32", "int8", "uint8"):
        x = numbers(rng, source, (999,))
        if source in REAL:
            x = np.concatenate([x, (rng.standard_normal(999) * np.exp2(rng.uniform(-20, 12, 999))).astype(source)])
        if source in REAL and kind in INTEGERS:
            x = np.clip(np.nan_to_num(x), -1000, 1000)
        for saturate in (0, 1):
            agrees(one("cast", [x], attrs={"to": target, "format": kind, "saturate": saturate}), [x], tier)


@widest_tier
@pytest.mark.parametrize("dtype", [*WHOLE, *REAL])
def test_reductions(tier: Any, dtype: str) -> None:
    rng = np.random.default_rng(6)
    names = ["sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square"]
    for name in (*names, *(("log_sum", "log_sum_exp") if dtype in REAL else ())):
        for shape in ((3, 5, 37), (4, 1, 9), (200,)):
            x = numbers(rng, dtype, shape) if dtype in WHOLE else rng.uniform(0.1, 2, shape).astype(dtype)
            for axes in ([0], [len(shape) - 1], [0, len(shape) - 1], list(range(len(shape)))):
                graph = one(f"reduce_{name}", [x], [np.unique(axes)], {"keepdims": len(axes) % 2})
                agrees(graph, [x], tier, RTOL.get(dtype, 0.0), threads=2)


@widest_tier
@pytest.mark.parametrize("dtype", [*WHOLE, *REAL])
def test_places_of_extremes_and_running_sums(tier: Any, dtype: str) -> None:
    rng = np.random.default_rng(7)
    x = numbers(rng, dtype, (3, 5, 37))
    for axis in range(3):
        for last in (0, 1):
            for op in ("arg_max", "arg_min"):
                agrees(one(op, [x], attrs={"axis": axis, "keepdims": 0, "select_last_index": last}), [x], tier)
            small = x if dtype in WHOLE else rng.uniform(-1.5, 1.5, x.shape).astype(dtype)
            for op in ("cum_sum", "cum_prod"):
                attrs = {"exclusive": last, "reverse": axis % 2}
                agrees(one(op, [small], [np.array(axis)], attrs), [small], tier)
                at = np.array(axis - 3 * last, np.int32)
                agrees(one(op, [small, at], attrs=attrs), [small, at], tier)


@widest_tier
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
def test_scattered_bools(tier: Any, reduction: str) -> None:
    """Rows are met more than once. Of bools a sum is or, a product is and."""
    rng = np.random.default_rng(11)
    x, updates, rows = rng.random((5, 37)) < 0.5, rng.random((9, 37)) < 0.5, rng.integers(-5, 5, (9, 37))
    places = rng.permutation(np.repeat(np.arange(5), 2))[:9, None]
    slices = {"offset_dims": (1,), "collapsed_dims": (0,), "start_map": (0,), "index_vector_dim": 1}
    for op, at, attrs in (("scatter_elements", rows, {"axis": 0}), ("scatter_nd", places, {}),
                          ("scatter_slices", places, slices)):  # fmt: skip
        agrees(one(op, [x, at, updates], attrs={**attrs, "reduction": reduction}), [x, at, updates], tier)


PRODUCTS = (
    ((5, 7), (7, 9)), ((37, 33), (33, 70)), ((2, 5, 7), (2, 7, 9)), ((2, 5, 7), (7, 9)), ((5, 7), (2, 7, 9)),
    ((7,), (7, 9)), ((5, 7), (7,)),
)  # fmt: skip


@widest_tier
@pytest.mark.parametrize("dtype", [*WHOLE, *REAL])
def test_products(tier: Any, dtype: str) -> None:
    rng = np.random.default_rng(8)
    for shapes in PRODUCTS:
        pair = [numbers(rng, dtype, s) if dtype in WHOLE else rng.standard_normal(s).astype(dtype) for s in shapes]
        agrees(one("matmul", pair), pair, tier, RTOL.get(dtype, 0.0), threads=2)


@widest_tier
@pytest.mark.parametrize("dtype", REAL)
def test_functions(tier: Any, dtype: str) -> None:
    rng = np.random.default_rng(9)
    ends = {"asin": 1, "acos": 1, "atan": 50, "sinh": 8, "cosh": 8, "asinh": 500, "atanh": 0.99, "expm1": 8, "exp": 9}
    for op, end in ends.items():
        x = rng.uniform(-end, end, 400) * np.where(np.arange(400) % 4, 1, 1e-6)
        x = np.concatenate([x, [0.0, np.nan]]).astype(dtype)
        agrees(one(op, [x]), [x], tier, RTOL[dtype])
    for op, least in {"acosh": 1.0, "log1p": -0.9, "log": 1e-3}.items():
        x = np.concatenate([rng.uniform(least, 99, 300), [np.inf, np.nan, 1.0]]).astype(dtype)
        agrees(one(op, [x]), [x], tier, RTOL[dtype])
    x = rng.standard_normal((3, 37)).astype(dtype)
    for op in ("softmax", "log_softmax"):
        for axis in (0, 1):
            agrees(one(op, [x], attrs={"axis": axis}), [x], tier, RTOL[dtype])


def test_a_cast_to_bfloat16_rounds() -> None:
    """float32 held as float32 is another number; the cast was dropped as one that changes nothing."""
    x = np.array([1.001, 3.14159, 1e-3], np.float32)
    graph = one("cast", [x], attrs={"to": "float32", "format": "bfloat16"})
    agrees(graph, [x], choose(None))


def test_nothing_traps() -> None:
    """The least number divided by -1, and everything by 0, in every whole type and place of a vector."""
    for dtype in WHOLE:
        ends = np.iinfo(dtype)
        x = np.full(150, ends.min, dtype)
        for divisor in (-1 if ends.min else 1, 0):
            y = np.full(150, divisor, dtype)
            for op in ("div", "floor_div", "mod"):
                agrees(one(op, [x, y]), [x, y], choose(None))


@examples(60)
@given(seeds)
def test_random_graphs_of_mixed_types(seed: int) -> None:
    graph, arrays = _mixed(np.random.default_rng(seed))
    agrees(graph, arrays, choose(None), threads=1 + seed % 2)


def _mixed(rng: np.random.Generator) -> tuple[Graph, list[np.ndarray]]:
    """A graph of elementwise nodes, casts, reductions and moves on whole numbers and bools."""
    shape = (4, 6, int(rng.integers(1, 40)))
    arrays = [numbers(rng, str(rng.choice(WHOLE)), shape) for _ in range(2)]
    inputs = [Value(f"x{i}", TensorType.of(a)) for i, a in enumerate(arrays)]
    values, nodes = list(inputs), []

    def add(op: str, *operands: Value, **attrs: Any) -> Value:
        y = Value(f"v{len(nodes)}")
        nodes.append(Node(op, list(operands), [y], attrs, y.name))
        infer_graph(Graph("g", inputs, [y], nodes[-1:]))
        return y

    for _ in range(int(rng.integers(3, 12))):
        x, other = (values[rng.integers(len(values))] for _ in range(2))
        if x.type.dtype == np.bool_:
            x = add("cast", x, to=str(rng.choice(WHOLE)))
        match int(rng.integers(6)):
            case 0:
                y = add("cast", x, to=str(rng.choice(WHOLE)))
            case 1:
                axes = Value.constant(f"a{len(nodes)}", np.array([int(rng.integers(3))]))
                y = add(f"reduce_{rng.choice(['sum', 'max', 'min', 'mean', 'prod'])}", x, axes, keepdims=1)
            case 2:
                y = add("transpose", x, perm=(1, 0, 2)) if x.type.dims[0] == x.type.dims[1] else add("neg", x)
            case 3:
                same = add("cast", other, to=str(x.type.dtype)) if other.type.dtype != x.type.dtype else other
                y = add("where", add("less", x, same), x, same)
            case _:
                same = add("cast", other, to=str(x.type.dtype)) if other.type.dtype != x.type.dtype else other
                op, attrs = (*BINARY, *OF_WHOLE)[rng.integers(len(BINARY) + len(OF_WHOLE))]
                y = add(op, x, same, **attrs)
        values.append(y)
    graph = Graph("g", inputs, values[-1:], nodes)
    infer_graph(graph)
    return graph, arrays


@widest_tier
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
@pytest.mark.parametrize("attrs", [
    {"mode": "linear"}, {"mode": "linear", "antialias": 1}, {"mode": "cubic"},
], ids=lambda attrs: "+".join(attrs))  # fmt: skip
def test_pixels_are_resized(tier: Any, dtype: str, attrs: dict[str, Any]) -> None:
    """Sums that are all but whole may be truncated to either side."""
    net = Net(18)
    ends = np.iinfo(dtype)
    x = np.random.default_rng(3).integers(ends.min, ends.max, (2, 3, 7, 9), dtype, endpoint=True)
    net.input("x", x.shape, dtype)
    net.output(net("Resize", "x", "", "", [2, 3, 5, 14], **attrs), dtype=dtype)
    model = net.load(isa=tier.name)
    assert not numpy_steps(model)
    off = model(x).astype(int) - net.load(isa="numpy")(x).astype(int)
    assert np.abs(off).max() <= 1 and np.abs(off).mean() < 0.05


def test_halves_are_rounded_where_the_graph_gives_them() -> None:
    """From one operator to the next they stay f32, as in other engines; casts of the file's own round."""
    net = Net(20)
    x = net.input("x", (1, 4, 6, 6), np.float16)
    y = net("Relu", net("Conv", x, np.ones((4, 4, 3, 3), np.float16), pads=[1] * 4))
    y = net("Mul", net("Concat", y, y, axis=1), np.float16(0.1))
    net.output(net("Cast", net("IsInf", y), to=1), dtype=np.float32)
    net.output(net("Conv", y, np.ones((2, 8, 1, 1), np.float16)), dtype=np.float16)
    model = net.load()
    assert not numpy_steps(model)
    casts = [node.out.type.dtype for node in model.plan.graph.nodes if node.op == "cast"]
    assert casts.count(np.dtype(np.float32)) == 2 and casts.count(np.dtype(np.float16)) == 2
    fed = {"x": np.random.default_rng(0).standard_normal((1, 4, 6, 6)).astype(np.float16)}
    for a, b in zip(model.run(fed).values(), by_onnxruntime(net.bytes(), fed), strict=True):
        np.testing.assert_allclose(a, b, 2e-3, 2e-3)
