"""Einsums, normalizations, reductions and others: native in each form, and as onnxruntime has them."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from fastgraph.freedoms import without
from fastgraph.kernels.gemm.pick_dot import FEW_COLUMNS
from fastgraph.kernels.isa.tiers import usable
from tests.blocks import BLOCKS
from tests.kernels.harness import each_tier, widest_tier
from tests.nets import F32, Net, feeds_for, numpy_steps

EXTENTS = dict(zip("bqkhdcwijlmn", (2, 5, 7, 3, 8, 4, 6, 5, 6, 3, 2, 4), strict=True))
OF_LETTERS = (
    "bchw,wk->bchk", "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", "ij,jk", "ij,jk->ki", "ij,ij->i", "ij,ij->", "i,j->ij",
    "i,i->", "ij->ji", "ij->", "ij->j", "bij,kj->bik", "bhq,bhk->bhqk", "bcd,cd->bd", "bc,cd,dw->bw", "bid,bjd,d->bij",
    "bqd,hdk->bhqk", "nchw,nkw->nckh", "b,bcd->bcd", "bcd->cb", "ij,kl->ijkl", "bc,dw->b",
)  # fmt: skip
OF_SHAPES: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    ("...ij,...jk->...ik", ((2, 3, 4, 5), (2, 3, 5, 6))), ("...ij,...jk->...ik", ((1, 3, 4, 5), (2, 1, 5, 6))),
    ("b...d,...d->b...", ((2, 3, 4, 8), (3, 4, 8))), ("...d,d->...", ((2, 3, 8), (8,))), ("...i->...", ((2, 3, 4),)),
    ("bij,bjk->bik", ((2, 4, 1), (1, 5, 6))), ("ij,ij->i", ((4, 1), (1, 5))), ("i j , j k -> i k", ((2, 3), (3, 4))),
)  # fmt: skip
EINSUMS = (
    *((eq, tuple(tuple(EXTENTS[c] for c in t) for t in eq.split("->")[0].split(","))) for eq in OF_LETTERS),
    *OF_SHAPES,
)


def written(equation: str, shapes: Any, dtype: Any = F32) -> Net:
    net = Net()
    inputs = [net.input(f"x{i}", shape, dtype) for i, shape in enumerate(shapes)]
    net.output(net("Einsum", *inputs, equation=equation), dtype=dtype)
    return net


@widest_tier
@pytest.mark.parametrize("equation, shapes", EINSUMS)
def test_einsum(tier: Any, equation: str, shapes: Any) -> None:
    assert not numpy_steps(written(equation, shapes).agrees(1e-5, isa=tier.name))


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64"])
def test_einsum_of_element_types(dtype: str) -> None:
    net = written("bqhd,bkhd->bhqk", ((2, 5, 3, 8), (2, 7, 3, 8)), dtype)
    model = net.load()
    feeds = {name: np.rint(x.astype(F32) * 2).astype(dtype) for name, x in feeds_for(model).items()}
    assert not numpy_steps(net.agrees(1e-6, feeds))


OTHERS = ("ii->i", ((4, 4),)), ("ij,jj->i", ((3, 4), (4, 4))), ("ij,jk->ik", ((0, 3), (3, 4)))


@pytest.mark.parametrize("equation, shapes", OTHERS)
def test_einsum_that_is_no_product(equation: str, shapes: Any) -> None:
    written(equation, shapes).agrees(1e-5)


def test_attention_that_is_written_so() -> None:
    net = Net()
    q, k, v = (net.input(name, (2, t, 3, 8)) for name, t in (("q", 6), ("k", 9), ("v", 9)))
    scores = net("Mul", net("Einsum", q, k, equation="bqhd,bkhd->bhqk"), F32.type(0.3))
    net.output(net("Einsum", net("Softmax", scores, axis=-1), v, equation="bhqk,bkhd->bqhd"))
    model = net.agrees(1e-5)
    assert [step.node.op for step in model.plan.program.steps] == ["attention"]


def by_operator(net: Net) -> None:
    x = net.input("x", (2, 5, 24))
    net.output(net("Relu", net("LayerNormalization", x, net.weight(24), net.weight(24), axis=-1)))


def over_two_axes(net: Net) -> None:
    net.opset = 23
    net.output(net("RMSNormalization", net.input("x", (2, 5, 24)), net.weight(5, 24), axis=1, epsilon=0.1))


def without_parameters(net: Net) -> None:
    x = net.input("x", (3, 7))
    centered = net("Sub", x, net("ReduceMean", x, axes=[1]))
    variance = net("ReduceMean", net("Mul", centered, centered), axes=[1])
    y = net("Div", centered, net("Sqrt", net("Add", 0.5, variance)))
    net.output(net("Add", y, net.input("other", (3, 7))))


NORMS = (by_operator, over_two_axes, without_parameters, BLOCKS["layer_norm_by_hand"], BLOCKS["rms_norm_by_hand"])


@pytest.mark.parametrize("write", NORMS)
def test_normalizations_are_one_kernel(write: Callable[[Net], None]) -> None:
    net = Net()
    write(net)
    kernels = [step.kernel.name for step in net.agrees_on_threads(counts=(1, 2)).plan.program.steps]
    assert kernels.count("norm") == 1 and "reduce" not in kernels


def other_row(net: Net) -> None:
    """The root is of another value."""
    x, z = net.input("x", (3, 7)), net.input("z", (3, 7))
    root = net("Sqrt", net("Add", net("ReduceMean", net("Mul", z, z), axes=[1]), F32.type(0.5)))
    net.output(net("Div", x, root))


def other_axis(net: Net) -> None:
    x = net.input("x", (3, 7))
    root = net("Sqrt", net("Add", net("ReduceMean", net("Mul", x, x), axes=[0]), F32.type(0.5)))
    net.output(net("Div", x, root))


def upside_down(net: Net) -> None:
    x = net.input("x", (3, 7))
    root = net("Sqrt", net("Add", net("ReduceMean", net("Mul", x, x), axes=[1]), F32.type(0.5)))
    net.output(net("Div", root, x))


def scaled_twice(net: Net) -> None:
    """One of them is the scale, and a bias for each row is none."""
    x = net.input("x", (3, 7))
    y = net("LayerNormalization", x, np.ones(7, F32), axis=-1)
    y = net("Mul", net("Mul", y, net.weight(7)), net.weight(1, 7))
    net.output(net("Add", y, net.weight(3, 1)))


@pytest.mark.parametrize("write", [other_row, other_axis, upside_down, scaled_twice])
def test_what_only_looks_like_a_normalization(write: Callable[[Net], None]) -> None:
    net = Net()
    write(net)
    net.agrees(1e-5)


@pytest.mark.parametrize("axes", [[0, 2, 3], [1], [-1], [0, 1], [1, 3], [0, 1, 2, 3]])
def test_mean_variance_normalizations(axes: list[int]) -> None:
    net = Net()
    net.output(net("MeanVarianceNormalization", net.input("x", (3, 6, 5, 4)), axes=axes))
    model = net.agrees(1e-5)
    assert not numpy_steps(model)


OPS = "L1 L2 SumSquare LogSumExp LogSum Mean Sum Max Min Prod".split()
SIGNED = "L1", "L2", "SumSquare", "Max", "Min", "LogSumExp"
AXES = [0, 2], [1, 3], [0, 1, 3], [0, 3], [1], [], None


@pytest.mark.parametrize("perm", [None, (0, 2, 1, 3), (3, 1, 0, 2)], ids=str)
@pytest.mark.parametrize("op", OPS)
def test_reductions_along_any_axes(op: str, perm: Any) -> None:
    """Axes side by side may lie apart once a transpose is gone; along none each element is reduced alone."""
    x = np.random.default_rng(0).random((3, 4, 2, 5)).astype(F32) + np.float32(-0.5 if op in SIGNED else 0.3)
    for axes, keepdims, noop in product(AXES, (0, 1), (0, 1)):
        if axes and noop:
            continue
        net = Net(opset=18)
        turned = net.input("x", x.shape)
        turned = net("Transpose", turned, perm=perm) if perm else turned
        given = [] if axes is None else [net.const(np.array(axes, np.int64))]
        y = net(f"Reduce{op}", turned, *given, keepdims=keepdims, noop_with_empty_axes=noop)
        net.output(net("Add", y, 1.0))
        assert not numpy_steps(net.agrees(feeds={"x": x})), (axes, keepdims, noop)


@pytest.mark.parametrize("shape", [(1, 784, 72), (3, 196, 48), (2, 40000, 1)], ids=str)
@pytest.mark.parametrize("op", ["L1", "L2", "SumSquare", "Mean", "Sum", "Max", "Min"])
def test_reductions_of_large_tensors_by_parts(op: str, shape: tuple[int, ...]) -> None:
    """Threads share the parts, which shapes alone decide."""
    net = Net(opset=18)
    y = net(f"Reduce{op}", net.input("x", shape), [1], keepdims=0)
    net.output(net("Add", y, 1.0))
    model = net.agrees_on_threads(1e-4)
    assert [step.kernel.name for step in model.plan.program.steps].count("reduce") == 2


POINTS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "one dimension": ((4,), {}),
    "far dilation of one tap": ((4, 5), {"dilations": [40000, 1]}),
    "four dimensions": ((2, 3, 4, 5), {}),
}


@pytest.mark.parametrize("name", POINTS)
def test_a_convolution_of_single_pixels_is_dense_whatever_its_rank(name: str) -> None:
    net, (spatial, attrs) = Net(), POINTS[name]
    x = net.input("x", (2, 3, *spatial))
    net.output(net("Conv", x, net.weight(7, 3, *[1] * len(spatial)), net.weight(7), **attrs))
    model = net.agrees()
    assert not numpy_steps(model) and "dot" in {step.kernel.name for step in model.plan.program.steps}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("a", "b"), [((1, 70), (70, 50)), ((4, 3, 20), (4, 20, 9)), ((2, 3, 8, 5), (5, 7)), ((300, 40), (40, 1))]
)
def test_products_of_few_rows_pack_nothing(a: tuple[int, ...], b: tuple[int, ...], threads: int) -> None:
    """Or of one column, with what follows; others do."""
    net = Net()
    y = net("MatMul", net.input("a", a), net.input("b", b))
    net.output(net("Relu", net("Add", y, net.input("c", (*a[:-1], b[-1])))))
    names = {kernel.name for kernel in net.agrees(1e-5, threads=threads).plan.program.kernels()}
    few = b[-1] == 1 or int(np.prod(a[:-1])) // (int(np.prod(b[:-2])) if len(b) > 2 else 1) <= 8
    assert ("dot_few" in names, "pack_b" in names) == (few, not few)


@each_tier
@pytest.mark.parametrize(
    ("x", "n", "ending"),
    [
        ((1, 300), 1, ""),
        ((5, 7), 2, "Relu"),
        ((2, 40, 33), 4, "Tanh"),
        ((3, 9, 11), 3, "Add"),
        ((90, 40), 1, "Mul"),
        ((19, 70), 6, "Sigmoid"),
        ((2, 33, 50), 8, "Mul"),
        ((4, 30, 256), 12, "Relu"),
    ],
)
def test_layers_of_few_outputs(tier: Any, x: tuple[int, ...], n: int, ending: str) -> None:
    """Few numbers a row: sums along rows, with a bias and what follows, which may lie in the result's place."""
    net, n = Net(), min(n, FEW_COLUMNS[tier.registers])
    y = net("Add", net("MatMul", net.input("x", x), net.weight(x[-1], n)), net.weight(n))
    more = [net("Exp", net.input("more", (*x[:-1], n)))] if ending in ("Add", "Mul") else []
    net.output(net(ending, y, *more) if ending else y)
    with without("dot"):
        model = net.agrees_on_threads(counts=(1, 3), isa=tier.name)
    assert "dot_few" in {kernel.name for kernel in model.plan.program.kernels()}


@each_tier
def test_short_rows_of_few_outputs_are_tiles(tier: Any) -> None:
    """They leave little to sum along them; longer ones, of maps too, are sums."""
    for k, few in ((48, True), (4, False)):
        net = Net()
        x = net.input("x", (1, k, 13, 9))
        net.output(net("Sigmoid", net("Conv", x, net.weight(3, k, 1, 1), net.weight(3))))
        model = net.agrees_on_threads(counts=(1, 2), isa=tier.name)
        assert ("dot_few" in {kernel.name for kernel in model.plan.program.kernels()}) == few


@widest_tier
@pytest.mark.parametrize(
    ("a", "b"), [((64,), (64, 7)), ((5, 64), (64,)), ((9,), (9,)), ((8,), (3, 8, 7)), ((2, 3, 8), (8,))]
)
@pytest.mark.parametrize("known", [False, True])
def test_products_with_vectors(tier: Any, a: tuple[int, ...], b: tuple[int, ...], known: bool) -> None:
    """What is added to them is no reason to leave them to NumPy."""
    net = Net()
    y = net("MatMul", net.input("a", a), net.weight(*b) if known else net.input("b", b))
    net.output(net("Add", y, net.weight(*np.matmul(np.zeros(a), np.zeros(b)).shape)))
    assert not numpy_steps(net.agrees(1e-5, isa=tier.name))


SPREAD = [
    ((9, 5), (4, 1), (4, 5), 0, True),
    ((9, 5), (4, 1), (4, 3), 0, False),
    ((2, 9, 5), (2, 4, 1), (2, 4, 5), 1, True),
    ((2, 9, 5), (1, 4, 1), (2, 4, 5), 1, True),
    ((1, 9, 5, 3), (14, 1, 1), (1, 14, 5, 3), 1, True),
    ((2, 3, 9, 5), (2, 1, 4, 1), (2, 3, 4, 5), 2, False),
    ((2, 9), (4,), (2, 4), 1, True),
]
"""Shapes of data, of indices, and of what these are spread to; the axis, and whether rows are gathered."""


@widest_tier
@pytest.mark.parametrize(("data", "indices", "whole", "axis", "rows"), SPREAD)
@pytest.mark.parametrize("reduction", [None, "none", "add"])
def test_elements_at_expanded_indices_are_rows(
    tier: Any, data: tuple[int, ...], indices: tuple[int, ...], whole: tuple[int, ...], axis: int, rows: bool,
    reduction: str | None,
) -> None:  # fmt: skip
    """A gather, or a scatter where a reduction is given: of equal indices the last wins, or all are added in order."""
    net, rng = Net(opset=18), np.random.default_rng(3)
    x, at = net.input("x", data), net.input("at", indices, np.int64)
    spread = net("Expand", at, net.const(whole, np.int64))
    more = [] if reduction is None else [net.input("more", whole)]
    op, how = ("GatherElements", {}) if reduction is None else ("ScatterElements", {"reduction": reduction})
    net.output(net(op, x, spread, *more, axis=axis, **how))
    feeds = {name: rng.standard_normal(shape).astype(F32) for name, shape in (("x", data), ("more", whole))}
    feeds |= {"at": rng.integers(-data[axis], data[axis], indices)}
    model = net.agrees(1e-6, {name: feeds[name] for name in ("x", "at", *more)}, isa=tier.name)
    if reduction is None or data[:axis] == (1,) * axis:
        assert (" expand " in str(model.plan)) != rows


@pytest.mark.parametrize("isa", [tier.name for tier in usable()])
def test_the_sign_of_next_to_nothing(isa: str) -> None:
    """What is zero, or counts as zero within a run, has the sign 0: no number as small, nor a zero with a sign."""
    net = Net()
    signs = net("Sign", net.input("x", (1, 8)))
    net.output(signs, net("Reciprocal", signs))
    x = np.array([[0.0, -0.0, 1e-40, -1e-40, np.nan, np.inf, -3.0, 1e-30]], F32)
    found, turned = net.load(isa=isa).run({"x": x}).values()
    assert np.array_equal(found, F32.type([[0, 0, 0, 0, np.nan, 1, -1, 1]]), equal_nan=True)
    assert np.array_equal(turned, F32.type([[np.inf] * 4 + [np.nan, 1, -1, 1]]), equal_nan=True)
