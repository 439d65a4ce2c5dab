"""Few rows times a turned matrix: its rows are read where they lie, and it is not turned."""

import numpy as np
import pytest

import fastgraph as fg
from fastgraph import freedoms
from fastgraph.kernels.isa.tiers import Tier
from tests.kernels.harness import each_tier
from tests.nets import F32, Net, assert_close, by_onnxruntime

Perm = tuple[int, ...]


def product(a: tuple[int, ...], b: tuple[int, ...], perm: Perm) -> Net:
    net = Net()
    y = net("MatMul", net.input("a", a), net("Transpose", net.input("b", b), perm=list(perm)))
    net.output(net("Mul", y, 0.25))
    return net


def steps(model: fg.Model) -> list[tuple[str, tuple[int, ...]]]:
    """Operators of a plan's steps, and the shapes that they read."""
    return [(step.node.op, step.node.x.type.dims) for step in model.plan.program.steps]


CASES = {
    "a row": ((1, 70), (33, 70), (1, 0), True),
    "heads": ((1, 12, 1, 64), (1, 12, 40, 64), (0, 1, 3, 2), True),
    "heads behind rows": ((2, 3, 1, 20), (2, 17, 3, 20), (0, 2, 3, 1), True),
    "some rows": ((5, 48), (65, 48), (1, 0), True),
    "some rows of several": ((3, 8, 17), (3, 21, 17), (0, 2, 1), True),
    "one number a row, whose turning moves nothing": ((2, 3, 1), (2, 11, 1), (0, 2, 1), False),
    "many rows": ((9, 48), (65, 48), (1, 0), False),
    "few columns": ((1, 48), (8, 48), (1, 0), False),
    "columns follow": ((2, 1, 20), (20, 2, 30), (1, 0, 2), False),
    "one matrix for all": ((2, 3, 1, 20), (30, 20), (1, 0), False),
}


@each_tier
@pytest.mark.parametrize("name", CASES)
def test_large_operand_is_not_turned(tier: Tier, name: str) -> None:
    a, b, perm, applies = CASES[name]
    net = product(a, b, perm)
    feeds = {"a": net.rng.standard_normal(a).astype(F32), "b": net.rng.standard_normal(b).astype(F32)}
    models = [net.load(isa=tier.name, threads=threads) for threads in (1, 2, 3)]
    one, *others = [list(model.run(feeds).values()) for model in models]
    assert_close(one, by_onnxruntime(net.bytes(), feeds), 1e-5)
    for other in others:
        np.testing.assert_array_equal(one, other)
    with freedoms.without("transposed_matmul"):
        turned = net.load(isa=tier.name)
    assert_close(list(turned.run(feeds).values()), one, 1e-5)
    assert (steps(models[0]) != steps(turned)) == applies
    large = [(op, dims) for op, dims in steps(models[0]) if op == "transpose" and dims == b]
    assert not applies or len(large) == (name == "heads behind rows")  # whose rows are brought together, not turned


def test_what_is_no_number_stays_in_its_column() -> None:
    net = product((1, 40), (30, 40), (1, 0))
    a, b = np.ones((1, 40), F32), np.ones((30, 40), F32)
    b[7, 3], b[11, 5] = np.nan, np.inf
    (y,) = net.load().run({"a": a, "b": b}).values()
    assert np.isnan(y[0, 7]) and np.isposinf(y[0, 11])
    assert (np.delete(y[0], [7, 11]) == 10).all()
