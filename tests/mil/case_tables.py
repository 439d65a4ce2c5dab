"""What make_cases.py makes: each case is a program in coremltools' builder and the formula of what it gives. This file:
what goes element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """`build(mb, *inputs)` gives the outputs; `expect(*arrays)` their values. `name` begins with the operator's."""

    name: str
    opset: str
    inputs: dict[str, Array]
    build: Callable[..., Any]
    expect: Callable[..., Any]


FOUND: list[Case] = []
"""All cases, once the tables have been imported and called."""

_rng = np.random.default_rng(4)


def normal(*shape: int) -> Array:
    return _rng.standard_normal(shape).astype(np.float32)


def uniform(*shape: int, low: float = 0.1, high: float = 2.0) -> Array:
    return _rng.uniform(low, high, shape).astype(np.float32)


def whole(*shape: int, low: int = -9, high: int = 9, dtype: str = "i4") -> Array:
    return _rng.integers(low, high, shape).astype(dtype)


def add(
    name: str, inputs: dict[str, Array] | list[Array] | Array, build: Any, expect: Any, opset: str = "iOS15"
) -> None:  # fmt: skip
    """Note a case. Inputs without names are x, y and z."""
    if isinstance(inputs, np.ndarray):
        inputs = [inputs]
    named = inputs if isinstance(inputs, dict) else dict(zip("xyz", inputs, strict=False))
    FOUND.append(Case(name, opset, named, build, expect))


def single(name: str, inputs: Any, expect: Any, opset: str = "iOS15", **params: Any) -> None:
    """Note a case of one operator, that which the name begins with, whose inputs are parameters by their names."""

    def build(mb: Any, *given: Any) -> Any:
        names = inputs if isinstance(inputs, dict) else "xyz"
        return getattr(mb, name.split("/")[0])(**dict(zip(names, given, strict=False)), **params)

    add(name, inputs, build, expect, opset)


def by_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of tensors, for arrays."""
    return lambda *arrays: function(*(torch.from_numpy(a) for a in arrays)).numpy()


def unary() -> None:
    near = uniform(3, 5, low=-0.9, high=0.9)
    for name, function in {
        "acos": np.arccos, "asin": np.arcsin, "atan": np.arctan, "atanh": np.arctanh, "ceil": np.ceil, "cos": np.cos,
        "cosh": np.cosh, "exp": np.exp, "exp2": np.exp2, "floor": np.floor, "round": np.round, "sign": np.sign,
        "sin": np.sin, "sinh": np.sinh, "square": np.square, "tan": np.tan, "tanh": np.tanh, "abs": np.abs,
        "erf": np.vectorize(math.erf),
    }.items():  # fmt: skip
        single(name, near if name.startswith("a") else normal(3, 5) * 2, function)
    single("round/halves", np.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]), np.round)
    single("exp2/int", whole(7, low=0), np.exp2)
    for name in ("abs", "sign", "square"):
        f = getattr(np, name)
        single(f"{name}/int", whole(3, 4), f)
    positive = uniform(4, 3)
    single("sqrt", positive, np.sqrt)
    single("rsqrt", positive, lambda x: 1 / np.sqrt(x + 0.5), epsilon=0.5)
    single("rsqrt/default", positive, lambda x: 1 / np.sqrt(x + 1e-12))
    single("inverse", positive, lambda x: 1 / (x + 0.25), epsilon=0.25)
    single("inverse/default", positive, lambda x: 1 / (x + np.float32(1e-4)))
    single("log", positive, np.log)
    single("log/zero", np.float32([0, 1, 1e-30]), lambda x: np.log(x + np.float32(1e-45)))
    single("log/epsilon", positive, lambda x: np.log(x + 1), epsilon=1.0)
    single("clip", normal(4, 5), lambda x: np.clip(x, -0.5, 0.75), alpha=-0.5, beta=0.75)
    single("threshold", normal(4, 5), lambda x: np.maximum(x, -0.5), alpha=-0.5)
    single("threshold/int", whole(9), lambda x: np.maximum(x, 3), alpha=3)
    single("logical_not", whole(5) > 0, np.logical_not)
    single("cast/int", normal(9) * 5, lambda x: x.astype(np.int32), dtype="int32")
    single("cast/bool", np.float32([0, 0.5, -1, 0]), lambda x: x != 0, dtype="bool")
    single("cast/float", whole(6), lambda x: x.astype(np.float32), dtype="fp32")


def binary() -> None:
    x, y = uniform(2, 3, 4), uniform(3, 1) * np.float32([[1], [-1], [1]])
    for name, function in {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "real_div": np.divide, "maximum": np.maximum,
        "minimum": np.minimum, "mod": np.mod, "pow": np.power, "floor_div": lambda x, y: np.floor(x / y),
    }.items():  # fmt: skip
        single(name, [x, y], function)
    i, j = whole(4, 3), np.int32([2, -3, 4])
    for name, function in {"add": np.add, "mul": np.multiply, "sub": np.subtract, "floor_div": np.floor_divide,
                           "mod": np.mod, "maximum": np.maximum, "minimum": np.minimum}.items():  # fmt: skip
        single(f"{name}/int", [i, j], function)
    for name, function in {
        "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
        "greater": np.greater, "greater_equal": np.greater_equal,
    }.items():  # fmt: skip
        single(name, [np.float32([[1, 2], [3, 4]]), np.float32([2, 2])], function)
        single(f"{name}/int", [i, i[::-1].copy()], function)
    for name in ("logical_and", "logical_or", "logical_xor"):
        single(name, [whole(4, 3) > 0, whole(3) > 0], getattr(np, name))
    add("select", {"c": whole(2, 3) > 0, "a": normal(2, 3), "b": normal(2, 3)},
        lambda mb, c, a, b: mb.select(cond=c, a=a, b=b), np.where)  # fmt: skip


def activations() -> None:
    x, maps = normal(3, 4) * 2, normal(2, 3, 4, 5)
    for name, function in {
        "relu": F.relu, "relu6": F.relu6, "sigmoid": torch.sigmoid, "silu": F.silu, "softplus": F.softplus,
        "softsign": F.softsign,
    }.items():  # fmt: skip
        single(name, x, by_torch(function))
    single("elu", x, by_torch(lambda x: F.elu(x, 0.5)), alpha=0.5)
    single("leaky_relu", x, by_torch(lambda x: F.leaky_relu(x, 0.2)), alpha=0.2)
    single("clamped_relu", x, lambda x: np.minimum(1, np.where(x >= 0, x, 0.2 * x)), alpha=0.2, beta=1.0)
    single("linear_activation", x, lambda x: 2 * x - 1, alpha=2.0, beta=-1.0)
    single("scaled_tanh", x, lambda x: 1.7 * np.tanh(0.6 * x), alpha=1.7, beta=0.6)
    single("sigmoid_hard", x, lambda x: np.clip(0.3 * x + 0.4, 0, 1), alpha=0.3, beta=0.4)
    single("thresholded_relu", np.float32([-1, 0.5, 0.75, 2]), lambda x: np.where(x >= 0.75, x, 0), alpha=0.75)
    single("gelu/exact", x, by_torch(F.gelu), mode="EXACT")
    single("gelu/tanh", x, by_torch(lambda x: F.gelu(x, approximate="tanh")), mode="TANH_APPROXIMATION")
    single("gelu/sigmoid", x, lambda x: x / (1 + np.exp(-1.702 * x)), mode="SIGMOID_APPROXIMATION")
    alpha, beta = np.float32([0.1, 0.5, -0.2]), np.float32([1, 2, 0.5])
    single("prelu", maps, by_torch(lambda x: F.prelu(x, torch.from_numpy(alpha))), alpha=alpha)
    single("prelu/3d", normal(2, 3, 5), lambda x: np.where(x > 0, x, np.float32(0.3) * x), alpha=np.float32([0.3] * 3))
    a, b = alpha[:, None, None], beta[:, None, None]
    single("softplus_parametric", maps, lambda x: a * np.log1p(np.exp(x * b)), alpha=alpha, beta=beta)
    single("softmax", maps, by_torch(lambda x: torch.softmax(x, 1)), axis=1)
    single("softmax/last", maps, by_torch(lambda x: torch.softmax(x, -1)))
