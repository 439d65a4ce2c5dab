"""Functions of one number against exact arithmetic, on all numbers: within the bounds that docs/numerics.md gives."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import fastgraph as fg
from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.kernels.isa.tiers import choose
from fastgraph.ops import activation, elementwise
from fastgraph.ops.evaluate import infer_graph
from fastgraph.plan.program import HostStep
from fastgraph.runtime.model import Model
from tests.functions import exact
from tests.functions.exact import FUNCTIONS
from tests.functions.numbers import LOST, errors, every_exponent, every_half, flushed
from tests.kernels.harness import tier_params

TYPES = ("float16", "float32", "float64")
NUMPYS = 16
"""By how many units NumPy's own functions may err more."""
OTHERS = frozenset({"not", "bitwise_not"})
"""Functions of one operand that are none of reals."""
NO_SIGN = frozenset("relu elu celu selu sin tan sign thresholded_relu shrink".split())
"""Functions that need not give -0 at -0."""
TIERS = [*tier_params(("generic", "avx2", "avx512"), slow=("generic",)), choose("numpy")]
each_tier = pytest.mark.parametrize("tier", TIERS, ids=lambda tier: tier.name)


@cache
def bounds() -> dict[str, dict[str, float]]:
    """The table of docs/numerics.md: by function and element type, and "least", the number whose unit counts."""
    text = (Path(__file__).parents[2] / "docs" / "numerics.md").read_text("utf-8")
    rows = re.findall(r"^\|(.*)\|$", text.partition("<!-- bounds -->")[2].partition("<!-- /bounds -->")[0], re.M)[2:]
    found = {}
    for names, *numbers, least in (row.split("|") for row in rows):
        over, _, under = (least.strip() or "0").partition("/")
        told = dict(zip(TYPES, map(float, numbers), strict=True)) | {"least": float(over) / float(under or 1)}
        found |= dict.fromkeys(names.split(), told)
    return found


def graph_of(x: np.ndarray) -> Graph:
    """All functions of x."""
    value, nodes = Value("x", TensorType.of(x)), []
    for name, function in FUNCTIONS.items():
        op = "gelu" if name == "gelu_tanh" else name
        nodes.append(Node(op, [value], [Value(name)], dict(function.attrs), name))
    graph = Graph("functions", [value], [node.out for node in nodes], nodes)
    infer_graph(graph)
    return graph


@cache
def truths(dtype: str, dense: bool) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Numbers, the functions of them, and those of what a run has for them."""
    if dtype == "float16":
        x = every_half()
    elif dtype == "float32":
        x = every_exponent(dtype, 60 if dense else 8)
    else:
        x = every_exponent(dtype, 2, 16) if dense else every_exponent(dtype, 1, 128, near=1)
    changed = np.flatnonzero(flushed(x) != x)
    trues = {name: exact.true(name, x) for name in FUNCTIONS}
    zeros = {name: true.copy() for name, true in trues.items()}
    for name in FUNCTIONS:
        zeros[name][changed] = exact.true(name, flushed(x)[changed])
    return x, trues, zeros


def check(x: np.ndarray, found: Any, trues: Any, zeros: Any, tier: Any) -> None:
    """All functions within their bounds."""
    wrong = {}
    for name in FUNCTIONS:
        told = bounds()[name]
        bound = told[x.dtype.name] + NUMPYS * (tier.name == "numpy")
        far = np.minimum(*(errors(found[name], true[name], told["least"]) for true in (trues, zeros)))
        bad = np.flatnonzero(~(far <= bound))
        if len(bad):
            k = bad[np.argmax(far[bad])]
            wrong[name] = f"{len(bad)} of {len(x)}: {x[k]!r} gives {found[name][k]!r}, not {trues[name][k]}: {far[k]}"
        zero = np.flatnonzero(x == 0)
        if (
            name not in NO_SIGN
            and not (np.signbit(found[name][zero]) == np.signbit(trues[name][zero].astype(float))).all()
        ):
            wrong[name] = "the sign of a zero"
    assert not wrong, wrong


def compute(x: np.ndarray, tier: Any) -> dict[str, np.ndarray]:
    model = Model(graph_of(x), tier, 1)
    steps = model.plan.program.steps
    assert tier.name == "numpy" or not [step.node.op for step in steps if isinstance(step, HostStep)]
    return model.run({"x": x})


@each_tier
@pytest.mark.parametrize("dtype", TYPES)
def test_functions(dtype: str, tier: Any) -> None:
    x, trues, zeros = truths(dtype, False)
    check(x, compute(x, tier), trues, zeros, tier)


@pytest.mark.slow
@each_tier
@pytest.mark.parametrize("dtype", TYPES[1:])
def test_functions_of_many_numbers(dtype: str, tier: Any) -> None:
    x, trues, zeros = truths(dtype, True)
    check(x, compute(x, tier), trues, zeros, tier)


def test_every_function_has_a_truth_and_a_bound() -> None:
    known = {*elementwise.UNARY, *elementwise.RARE, *activation.FUNCTIONS, "gelu", "shrink"} - OTHERS
    assert known | {"gelu_tanh"} == set(FUNCTIONS)
    from tests.functions.test_pairs import PAIRS

    assert set(bounds()) == set(FUNCTIONS) | set(PAIRS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64_is_exact_enough(name: str) -> None:
    """What functions of float32 are held against differs from exact arithmetic by less than 2**-13 of a unit."""
    x = every_exponent("float32", 1, 16, near=0)
    x = x[np.isfinite(x) & (x != 0)]
    with np.errstate(all="ignore"):
        wide = exact.true(name, x)
    exactly = exact.by_mpmath(name, x, wide)
    info, worst = np.finfo(np.float32), 0.0
    for w, t in zip(wide, exactly, strict=True):
        if not (np.isnan(w) and exact.mp.isnan(t)) and not abs(t) > float(info.max) and w != t:
            unit = float(info.eps) * max(abs(float(t)), 2.0**-118, bounds()[name]["least"])
            worst = max(worst, abs(float(w - t)) / unit)
    assert worst < 2.0**-13


MOST = float(ml_dtypes.finfo(ml_dtypes.bfloat16).max) * (1 + 2.0**-9)
"""From here on bfloat16 is infinite."""
BFLOAT = "Exp Log Erf Tanh Sigmoid Sin Cos Sinh Cosh Asinh Acosh Atanh Atan Sqrt".split()


def test_bfloat16() -> None:
    """All of them: computed in float32, and rounded once."""
    x = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    kind = TensorProto.BFLOAT16
    nodes = [helper.make_node(op, ["x"], [op]) for op in BFLOAT]
    infos = [helper.make_tensor_value_info(op, kind, x.shape) for op in ("x", *BFLOAT)]
    graph, imports = helper.make_graph(nodes, "g", infos[:1], infos[1:]), [helper.make_opsetid("", 22)]
    model = helper.make_model(graph, ir_version=10, opset_imports=imports)
    found = fg.load(model.SerializeToString(), threads=1).run({"x": x})
    single = x.astype(np.float32)
    for op in BFLOAT:
        name = {"Sigmoid": "sigmoid"}.get(op, op.lower())
        y = np.asarray(found[op], ml_dtypes.bfloat16).astype(np.float64)
        near = [errors_of_bfloat16(y, exact.true(name, each)) for each in (single, flushed(single))]
        bad = np.flatnonzero(~(np.fmin(*near) <= 0.51))
        assert not len(bad), (op, [(x[i], y[i]) for i in bad[:5]])


def errors_of_bfloat16(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    """In its units in the last place."""
    with np.errstate(all="ignore"):
        unit = 2.0 ** (np.frexp(np.clip(np.abs(true), 2.0**-126, 3e38))[1] - 8)
        same = (found == true) | (np.isnan(found) & np.isnan(true)) | (np.abs(found - true) < LOST["float32"])
        beyond = (np.abs(true) > MOST) & (found == np.copysign(np.inf, true))
        return np.where(same | beyond, 0.0, np.abs(found - true) / unit)
