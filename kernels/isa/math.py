"""Vector operations, by name: how many operands each takes, and the function that writes it on a kernel's values
(`vector_ops.py`). Parameters such as clip's bounds are operands too, usually constants. This module imports no
compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class VectorOp(NamedTuple):
    """An operation on f32 vectors."""

    name: str
    arity: int

    @property
    def emit(self) -> Callable[..., Any]:
        """The function that writes it."""
        from .vector_ops import WRITTEN

        return WRITTEN[self.name]

    @property
    def emit_approximate(self) -> Callable[..., Any]:
        """The function that writes it for results that are rounded to bf16; the same where there is none for them."""
        from .vector_ops import APPROXIMATE

        return APPROXIMATE.get(self.name, self.emit)


_ARITY = {
    "add": 2, "sub": 2, "mul": 2, "fma": 3, "div": 2, "min": 2, "max": 2, "abs": 1, "neg": 1, "floor": 1, "ceil": 1,
    "round": 1, "sqrt": 1, "rsqrt": 1, "reciprocal": 1, "square": 1, "sign": 1,
    "pow": 2, "exp": 1, "log": 1, "tanh": 1, "erf": 1, "sin": 1, "cos": 1,
    "equal": 2, "less": 2, "less_or_equal": 2, "greater": 2, "greater_or_equal": 2, "not_equal": 2,
    "and": 2, "or": 2, "xor": 2, "is_nan": 1, "is_inf": 1, "not": 1, "where": 3,
    "sigmoid": 1, "swish": 2, "relu": 1, "clip": 3, "leaky_relu": 2, "prelu": 2, "elu": 2, "selu": 3, "celu": 2,
    "thresholded_relu": 2, "hard_sigmoid": 3, "hard_swish": 1, "mish": 1, "softplus": 1, "softsign": 1, "gelu": 1,
    "gelu_tanh": 1,
}  # fmt: skip
OPS = {name: VectorOp(name, arity) for name, arity in _ARITY.items()}
