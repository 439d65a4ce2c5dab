"""Operators of users for tests: one to register, networks that have some, what to ask of a plan."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import helper

import fastgraph as fg
from fastgraph.ops.registry import USERS
from fastgraph.plan.program import HostStep, Step, UserKernel
from fastgraph.runtime.executable import Executable
from tests.nets import Net

F32, I64 = np.dtype(np.float32), np.dtype(np.int64)
DOMAIN = "my.domain"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """No test sees the operators of another."""
    before = dict(USERS)
    USERS.clear()
    yield
    USERS.clear()
    USERS.update(before)


def same(types: list[Any], attrs: dict[str, Any]) -> list[Any]:
    return [types[0]]


def squash(x, y):
    for i in range(x.size):
        y.flat[i] = x.flat[i] / (1.0 + abs(x.flat[i]))


def register(name: str = "Squash", kernel: Any = squash, infer: Any = same, **more: Any) -> None:
    fg.register_custom_op(DOMAIN, name, infer=infer, kernel=kernel, **more)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def squashed(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.abs(x))


def between(shape: Any = (2, 5, 3)) -> Net:
    """Squash between steps that have kernels."""
    net = Net()
    y = net("Squash", net("Neg", net.input("x", shape)), domain=DOMAIN)
    net.output(net("Relu", y))
    return net


def single(
    name: str, *shapes: Any, outputs: int = 1, dtype: Any = F32, constants: Any = (), kinds: Any = (), **attrs: Any
) -> Net:
    net = Net()
    kinds = kinds or [F32] * len(shapes)
    inputs = [
        net.input(f"x{i}", s, k) if s is not None else "" for i, (s, k) in enumerate(zip(shapes, kinds, strict=True))
    ]
    made = net(name, *inputs, *map(net.const, constants), domain=DOMAIN, outputs=outputs, **attrs)
    net.output(*([made] if outputs == 1 else made), dtype=dtype)
    return net


def is_native(plan: Executable) -> bool:
    steps = plan.program.steps
    return any(isinstance(s, Step) and isinstance(s.kernel, UserKernel) for s in steps) and not any(
        isinstance(s, HostStep) for s in steps
    )


def with_domain(net: Net) -> bytes:
    """The file of a net in whose bodies alone there are such nodes."""
    model = net.model()
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return model.SerializeToString()
