"""dot_few against float64 NumPy: every tier, any shape, guarded memory, all kinds of extras; and who takes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.gemm.pick_dot import few_block
from fastgraph.kernels.gemm.rows import ROWS
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.pointwise.chain import eval_chain
from fastgraph.kernels.pointwise.rows import NO_EPILOGUE
from tests.kernels.harness import each_tier, run
from tests.kernels.test_dot import CHAINS, noise
from tests.kernels.walking import Constants, ended
from tests.nets import F32, Net, assert_close, by_onnxruntime

FEW = next(row for row in ROWS if row.name == "dot_few")


def arguments(a: np.ndarray, b: np.ndarray, block: int) -> dict[str, Any]:
    """The slots for A [batch, m, k] and B [batch or 1, k, n]."""
    (batch, m, k), n = a.shape, b.shape[2]
    return {
        "a": a, "b": b, "c": np.full((batch, m, n), 7, F32), "m": m, "n": n, "k": k, "batch": batch, "a_stride": m * k,
        "b_stride": k * n if len(b) > 1 else 0, "c_stride": m * n, "block": block,
    }  # fmt: skip


@each_tier
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_any_shape(tier: Any, data: Any) -> None:
    kinds = data.draw(st.sampled_from(sorted(CHAINS)))
    m, k = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 40))
    n = data.draw(st.one_of(st.just(1), st.integers(1, 6 * tier.lanes)))
    batch, threads = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    shared, block = data.draw(st.booleans()), data.draw(st.integers(1, 3)) * tier.lanes
    a, b = noise(batch, m, k), noise(1 if shared else batch, k, n)
    shapes = {"full": (batch, m, n), "channel": (1, 1, n), "scalar": (1, 1, 1), "image": (batch, 1, n)}
    operands, constants = [noise(*shapes[kind]) for kind in kinds], Constants(tier)
    ending = ended(constants, CHAINS[kinds], operands)
    found = run(FEW, {}, FEW.args.filled(**arguments(a, b, block), **ending), tier, threads)[2]
    sums = np.matmul(a.astype(np.float64), b.astype(np.float64))
    expected = eval_chain(CHAINS[kinds], [sums, *(o.astype(np.float64) for o in operands)])
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5 * k**0.5)


@each_tier
@pytest.mark.parametrize("n", [1, 100])
def test_same_bits_for_any_threads(tier: Any, n: int) -> None:
    a, b = noise(2, 5, 37), noise(2, 37, n)
    slots = [FEW.args.filled(**arguments(a, b, few_block(tier, n, 1, t)), **NO_EPILOGUE) for t in (1, 2, 3)]
    assert len({run(FEW, {}, s, tier, t)[2].tobytes() for t, s in enumerate(slots, 1)}) == 1


@given(st.sampled_from(tiers.TIERS), st.integers(1, 5000), st.integers(1, 40), st.integers(1, 64))
def test_blocks_are_whole_vectors(tier: Any, n: int, batch: int, threads: int) -> None:
    block = few_block(tier, n, batch, threads)
    assert block > 0 and block % tier.lanes == 0


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("a", "b"), [((1, 70), (70, 50)), ((4, 3, 20), (4, 20, 9)), ((2, 3, 8, 5), (5, 7)), ((300, 40), (40, 1))]
)
def test_network(a: tuple[int, ...], b: tuple[int, ...], threads: int) -> None:
    """Products of few rows or one column, with what follows, pack nothing; others do."""
    net = Net()
    y = net("MatMul", net.input("a", a), net.input("b", b))
    net.output(net("Relu", net("Add", y, net.input("c", (*a[:-1], b[-1])))))
    model = net.load(threads=threads)
    feeds = {name: noise(*shape) for name, shape in (("a", a), ("b", b), ("c", (*a[:-1], b[-1])))}
    assert_close(list(model.run(feeds).values()), by_onnxruntime(net.bytes(), feeds), 1e-5)
    names = {kernel.name for kernel in model.plan.program.kernels()}
    few = b[-1] == 1 or int(np.prod(a[:-1])) // (int(np.prod(b[:-2])) if len(b) > 2 else 1) <= 8
    assert ("dot_few" in names, "pack_b" in names) == (few, not few)
