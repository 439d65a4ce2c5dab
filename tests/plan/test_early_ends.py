"""Loops whose body may end them: native, and what the rounds gave as onnxruntime has it."""

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.compile import planned
from fastgraph.frontends.onnx import read
from fastgraph.kernels.isa.tiers import usable
from fastgraph.tools.numpy_operators import on_host
from tests.nets import F32, I64, Net, assert_close, by_onnxruntime
from tests.plan.computed import ENDS
from tests.plan.control_nets import BOOL, body


def decoding(most: int, begin: bool = True) -> Net:
    """At most so many rounds of ``s = tanh(s @ w + x)``, each of which gives arg_max(s), s > 0 and a sum, until
    ``end`` or a state grows beyond a limit that is fed.
    """
    net = Net()
    x, end = net.input("x", (2, 5)), net.input("end", (), np.int64)
    limit = net.input("limit", ())
    inner = body("b", True, ("s", (2, 5)))
    s = inner("Tanh", inner("Add", inner("MatMul", "s", net.weight(5, 5)), x))
    low = inner("Less", inner("ReduceMax", s, keepdims=0), limit)
    inner.output(inner("And", low, inner("Less", "bi", end)), dtype=BOOL)
    inner.output(s)
    inner.output(inner("ArgMax", s, axis=1), dtype=I64)
    inner.output(inner("Greater", s, 0.0), dtype=BOOL)
    inner.output(inner("ReduceSum", s, keepdims=0))
    last, at, signs, sums = net("Loop", np.int64(most), begin, x, outputs=4, body=inner.graph())
    net.output(last)
    net.output(at, dtype=I64)
    net.output(signs, dtype=BOOL)
    net.output(sums, net("Relu", sums))
    return net


def fed(end: int, limit: float, x: np.ndarray | None = None) -> dict[str, np.ndarray]:
    return {"x": np.ones((2, 5), F32) if x is None else x, "end": np.array(end), "limit": np.array(limit, F32)}


@pytest.mark.parametrize("most, begin", [(1, True), (7, True), (7, False)])
def test_what_the_rounds_that_were_gave(most: int, begin: bool) -> None:
    net = decoding(most, begin)
    x = np.random.default_rng(0).standard_normal((2, 5)).astype(F32)
    for tier in ENDS:
        for threads in (1, 2):
            model = net.load(isa=tier.name, threads=threads)
            for end, limit in ((0, 9), (3, 9), (99, 9), (99, -2), (2, 9)):
                feeds = fed(end, limit, x)
                wanted = by_onnxruntime(net.bytes(), feeds)
                assert len(wanted[3]) == (min(most, end + 1 if limit == 9 else 1) if begin else 0)
                if begin:  # onnxruntime has no shape for what no round gave
                    assert_close(list(model.run(feeds).values()), wanted, 1e-5, tier.name)
                else:
                    assert [y.shape for y in model.run(feeds).values()] == [(2, 5), (0, 2, 1), (0, 2, 5), (0,), (0,)]


def test_only_the_length_depends_on_data() -> None:
    plan = planned(read(decoding(7).bytes()), {}, usable()[-1], 1)
    assert {node.op for node in on_host(plan)} <= {"slice", "relu", "fused"}


@pytest.mark.parametrize("most", [0, 1 << 40])
def test_rounds_that_there_is_no_room_for(most: int) -> None:
    """Or none at all: as before."""
    net = decoding(most)
    feeds = fed(2, 9)
    found = list(net.load().run(feeds).values())
    assert len(found[3]) == (3 if most else 0)
    if most:
        assert_close(found, by_onnxruntime(net.bytes(), feeds), 1e-5)


def test_each_step_beside_its_reference() -> None:
    feeds = fed(2, 9)
    assert fg.verify(decoding(7).load(), feeds).ok
