"""Functions of two numbers: on all pairs of special numbers, and on numbers of every exponent."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.ops.evaluate import infer_graph
from fastgraph.runtime.model import Model
from tests.functions.numbers import errors, every_exponent, flushed
from tests.functions.test_functions import NUMPYS, TYPES, bounds, each_tier

SPECIAL = """0 1 2 3 4 0.5 1.5 2.5 0.75 7 10 0.333 100 127 128 150 1000 1e4 6e4 1e-3 1e-4 0.999 1.001 1e10 1e19 3e-20
  1e38 1e-37 88 1023 1024 1e100 1e300 1e-300 inf nan""".split()


def _fmod(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.fmod(x, y)


def _mod(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The remainder with the sign of y, exact in float64 but for one rounding."""
    rest = np.fmod(x, y)
    return np.where(rest == 0, np.copysign(0, y), np.where((rest < 0) != (y < 0), rest + y, rest))


PAIRS: dict[str, Callable[..., Any]] = {"mod": _mod, "prelu": lambda x, slope: np.where(x < 0, x * slope, x)}
PAIRS |= {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum}
PAIRS |= {"max": np.maximum, "copysign": np.copysign, "pow": np.power, "atan2": np.arctan2}
COMPARED = {"equal": np.equal, "less": np.less, "less_or_equal": np.less_equal}
COMPARED |= {"greater": np.greater, "greater_or_equal": np.greater_equal}
OPS = {**{name: (name, function) for name, function in (PAIRS | COMPARED).items()}, "fmod": ("mod", _fmod)}
EITHER_ZERO = frozenset({"min", "max", "prelu"})


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    info = np.finfo(dtype)
    whole = 2.0**info.nmant
    own = [info.max, info.tiny, info.smallest_subnormal, 1 + info.eps, 1 - info.epsneg]
    own += [whole, whole + 1, 2 * whole - 1, 2 * whole]
    with np.errstate(over="ignore"):
        x = np.array([*map(float, SPECIAL), *map(float, own)]).astype(dtype)
    x = np.r_[np.unique(x), -np.unique(x), np.zeros(1, dtype)]
    some, every = np.random.default_rng(0), every_exponent(dtype, 1, 1 if dtype != "float64" else 16, near=0)
    powers = some.uniform(-30, 30, len(every)).astype(dtype)
    return (np.r_[np.repeat(x, len(x)), every, every], np.r_[np.tile(x, len(x)), some.permutation(every), powers])


def by_mpmath(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x**y in exact arithmetic where all are finite numbers and x is positive, else z."""
    found = z.astype(object)
    with mp.workprec(140):
        for i in np.flatnonzero(np.isfinite(x) & np.isfinite(y) & (x > 0) & np.isfinite(z) & (z != 0)):
            found[i] = mp.power(mpf(float(x[i])), mpf(float(y[i])))
    return found


def truth(name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        found = np.asarray(OPS[name][1](x.astype(np.float64), y.astype(np.float64)))
    if name != "pow" or x.dtype != np.float64:
        return found
    return by_mpmath(x[::7], y[::7], found[::7])


@each_tier
@pytest.mark.parametrize("dtype", TYPES)
def test_pairs(dtype: str, tier: Any) -> None:
    x, y = pairs(dtype)
    inputs = [Value(name, TensorType.of(a)) for name, a in (("x", x), ("y", y))]
    nodes = [
        Node(op, list(inputs), [Value(name)], {"fmod": int(name == "fmod")} if op == "mod" else {}, name)
        for name, (op, _) in OPS.items()
    ]
    graph = Graph("pairs", list(inputs), [node.out for node in nodes], nodes)
    infer_graph(graph)
    found, wrong = Model(graph, tier, 1).run({"x": x, "y": y}), {}
    for name, z in found.items():
        trues = truth(name, x, y), truth(name, flushed(x), flushed(y))
        if z.dtype == bool:
            right = (z == trues[0]) | (z == trues[1])
        else:
            z = z[:: -(-len(z) // len(trues[0]))]
            bound = bounds()[OPS[name][0]][dtype] + NUMPYS * (tier.name == "numpy" and name in ("pow", "atan2"))
            right = errors(z, trues[0]) <= bound
            right |= np.minimum(errors(z, trues[1]), errors(flushed(z), trues[1])) <= bound
            if name in ("mod", "fmod"):  # a remainder that is denormal is 0, or then the divisor
                rest = np.abs(truth("fmod", x, y))
                right |= (rest < np.finfo(dtype).tiny) & (z == 0) & (dtype != "float16")
            zero = (z == 0) & (trues[0] == 0) & (name not in EITHER_ZERO)
            signs = [np.signbit(z) == np.signbit(t.astype(np.float64)) for t in trues]
            right &= ~zero | signs[0] | signs[1]
        bad = np.flatnonzero(~right)
        if len(bad):
            step = -(-len(x) // len(right))
            wrong[name] = [(x[::step][i], y[::step][i], z[i], trues[0][i]) for i in bad[:4]], len(bad)
    assert not wrong, wrong
