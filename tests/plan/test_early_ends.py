"""Loops whose body may end them: native, and what the rounds gave as onnxruntime has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import fastgraph as fg
from fastgraph.compile import planned
from fastgraph.frontends.onnx import read
from fastgraph.kernels.isa.tiers import usable
from fastgraph.tools.host import on_host
from tests.nets import F32, Net, assert_close, by_onnxruntime
from tests.plan.computed import ENDS


def _info(name: str, kind: Any, shape: list[int] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def decoding(most: int, begin: bool = True) -> Net:
    """At most so many rounds of ``s = tanh(s @ w + x)``, each of which gives arg_max(s), s > 0 and a sum, until
    ``end`` or a state grows beyond a limit that is fed.
    """
    net = Net()
    x, end = net.input("x", (2, 5)), net.input("end", (), np.int64)
    limit = net.input("limit", ())
    body = Net(prefix="b_")
    body.inputs = [_info("b_i", TensorProto.INT64, []), _info("b_c", TensorProto.BOOL, []),
                   _info("b_s", TensorProto.FLOAT, [2, 5])]  # fmt: skip
    s = body("Tanh", body("Add", body("MatMul", "b_s", net.weight(5, 5)), x))
    low = body("Less", body("ReduceMax", s, keepdims=0), limit)
    go = body("And", low, body("Less", "b_i", end))
    gives = [
        (body("ArgMax", s, axis=1), TensorProto.INT64), (body("Greater", s, body.const(F32.type(0))), TensorProto.BOOL),
        (body("ReduceSum", s, keepdims=0), TensorProto.FLOAT),
    ]  # fmt: skip
    body.outputs = [_info(go, TensorProto.BOOL, None), _info(s, TensorProto.FLOAT, None)]
    body.outputs += [_info(name, kind, None) for name, kind in gives]
    last, *rest = net("Loop", net.const(np.int64(most)), net.const(np.array(begin)), x, outputs=4, body=body.graph())
    net.output(last)
    net.outputs += [_info(name, kind, None) for name, (_, kind) in zip(rest, gives, strict=True)]
    net.output(net("Relu", rest[2]))
    return net


@pytest.mark.parametrize("most, begin", [(1, True), (7, True), (7, False)])
def test_what_the_rounds_that_were_gave(most: int, begin: bool) -> None:
    net = decoding(most, begin)
    x = np.random.default_rng(0).standard_normal((2, 5)).astype(F32)
    for tier in ENDS:
        for threads in (1, 2):
            model = net.load(isa=tier.name, threads=threads)
            for end, limit in ((0, 9), (3, 9), (99, 9), (99, -2), (2, 9)):
                feeds = {"x": x, "end": np.array(end), "limit": np.array(limit, F32)}
                wanted = by_onnxruntime(net.bytes(), feeds)
                assert len(wanted[3]) == (min(most, end + 1 if limit == 9 else 1) if begin else 0)
                if begin:  # onnxruntime has no shape for what no round gave
                    assert_close(list(model.run(feeds).values()), wanted, 1e-5, tier.name)
                else:
                    assert [y.shape for y in model.run(feeds).values()] == [(2, 5), (0, 2, 1), (0, 2, 5), (0,), (0,)]


def test_only_the_length_hangs_on_data() -> None:
    plan = planned(read(decoding(7).bytes()), {}, usable()[-1], 1)
    assert {node.op for node in on_host(plan)} <= {"slice", "relu", "fused"}


@pytest.mark.parametrize("most", [0, 1 << 40])
def test_rounds_that_there_is_no_room_for(most: int) -> None:
    """Or none at all: as before."""
    net = decoding(most)
    feeds = {"x": np.ones((2, 5), F32), "end": np.array(2), "limit": np.array(9, F32)}
    found = list(net.load().run(feeds).values())
    assert len(found[3]) == (3 if most else 0)
    if most:
        assert_close(found, by_onnxruntime(net.bytes(), feeds), 1e-5)


def test_each_step_beside_its_reference() -> None:
    feeds = {"x": np.ones((2, 5), F32), "end": np.array(2), "limit": np.array(9, F32)}
    assert fg.verify(decoding(7).load(), feeds).ok
