"""Writing nodes as the mathematics that they compute: `keep * last + (1 - keep) * x`, `g.sum(x, axes)`.

Types follow from the operands, what is computed from constants alone is a constant, and Python's numbers are constants
of the element type of the value beside them. Operators between values write to the builder that is at work: within
`with builder:`, the innermost of this thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..limits import current
from .graph import Node, Value
from .quantization import Quantization
from .types import UNKNOWN, TensorType

Operand = Any  # a value, an array, a number of Python or NumPy, or None for an absent one

_work = threading.local()


def constant(like: Value, data: Any, suffix: str = "folded", quant: Quantization | None = None) -> Value:
    """A constant named after the value it comes from."""
    array = np.asarray(data)
    if array.base is None:
        current().hold(array.nbytes, like.name)
    return Value.constant(f"{like.name}.{suffix}", array, quant)


def builder() -> Builder:
    """The innermost builder at work in this thread."""
    at_work = getattr(_work, "builders", None)
    if not at_work:
        raise TypeError("operators between values of a graph are for rules, which a builder is at work for")
    return at_work[-1]  # type: ignore[no-any-return]


def _unary(op: str) -> Callable[..., Value]:
    def write(self: Builder, x: Value) -> Value:
        return self(op, x)

    return write


def _reduction(op: str) -> Callable[..., Value]:
    def write(self: Builder, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
        return self.reduce(op, x, axes, keep)

    return write


class Builder:
    """Writes nodes. A subclass says how: where they go (`append`), what their results and constants are called
    (`result`, `held`), how their types are inferred (`infer`), and what is known before the run (`fold`: a node's
    results, or None).
    """

    trusts = True
    """Whether given types are not inferred again."""

    def append(self, node: Node) -> None:
        raise NotImplementedError

    def result(self, op: str, type: TensorType) -> Value:
        raise NotImplementedError

    def held(self, data: np.ndarray) -> Value:
        raise NotImplementedError

    def infer(self, node: Node) -> None:
        raise NotImplementedError

    def fold(self, node: Node) -> list[np.ndarray] | None:
        return None

    def __enter__(self) -> Any:
        if not hasattr(_work, "builders"):
            _work.builders = []
        _work.builders.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _work.builders.pop()

    def __call__(self, op: str, *operands: Operand, type: TensorType | None = None, **attrs: Any) -> Value:
        """The result of an operator. `type`: where it is known already, or can't be inferred."""
        out = self.result(op, type or UNKNOWN)
        made = self._node(op, operands, [out], attrs)
        if type is None or not self.trusts:
            self.infer(made)
            known = None if op == "expand" else self.fold(made)
            if known is not None:
                return self.held(known[0])
        self.append(made)
        return out

    def several(self, op: str, results: int | Sequence[TensorType], /, *operands: Operand, **attrs: Any) -> list[Value]:
        """The results of an operator that has more than one: so many, or of these types."""
        kinds = [UNKNOWN] * results if isinstance(results, int) else results
        outs = [self.result(f"{op}{i}" if len(kinds) > 1 else op, kind) for i, kind in enumerate(kinds)]
        made = self._node(op, operands, outs, attrs)
        if isinstance(results, int):
            self.infer(made)
        self.append(made)
        return outs

    def _node(self, op: str, operands: Sequence[Operand], outs: list[Value], attrs: dict[str, Any]) -> Node:
        inputs = list(operands)
        for i, operand in enumerate(inputs):
            if operand is not None and not isinstance(operand, Value):
                inputs[i] = self.number(operand, next((v for v in operands if isinstance(v, Value)), None))
        return Node(op, inputs, outs, attrs, self.label)

    label = ""
    """Names of nodes."""

    # -- constants

    def number(self, number: Any, like: Value | None = None) -> Value:
        """A constant: an array as it is, a number of the element type that `like` has, or stands for."""
        if isinstance(number, np.ndarray):
            return self.held(number)
        dtype = None if like is None else np.dtype(np.float32) if like.type.quant is not None else like.type.dtype
        if dtype is None and isinstance(number, float):
            raise TypeError(f"{number} beside {like}, whose element type is not known")
        return self.held(np.array(number, dtype))

    def vector(self, *numbers: int) -> Value:
        """A vector of int64."""
        return self.held(np.array(numbers, np.int64))

    # -- functions of each element

    abs, neg, sqrt, exp, log = (_unary(op) for op in ("abs", "neg", "sqrt", "exp", "log"))
    floor, reciprocal, sigmoid, tanh = (_unary(op) for op in ("floor", "reciprocal", "sigmoid", "tanh"))

    def max(self, x: Value, y: Operand) -> Value:
        return self("max", x, y)

    def min(self, x: Value, y: Operand) -> Value:
        return self("min", x, y)

    def clip(self, x: Value, low: Operand, high: Operand) -> Value:
        return self("clip", x, low, high)

    def equal(self, x: Value, y: Operand) -> Value:
        return self("equal", x, y)

    def choose(self, condition: Operand, yes: Operand, no: Operand) -> Value:
        """`yes` where the condition holds, else `no`; at least one of them is a value."""
        like = next(v for v in (yes, no) if isinstance(v, Value))
        yes, no = (v if isinstance(v, Value) else self.number(v, like) for v in (yes, no))
        return self("where", condition, yes, no)

    def cast(self, x: Value, dtype: Any) -> Value:
        """x in another element type; itself where it has it."""
        dtype = np.dtype(dtype)
        return x if x.type.dtype == dtype else self("cast", x, to=dtype.name)

    # -- reductions: all axes stay, with an extent of 1, where they are kept

    def reduce(self, op: str, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
        if not axes:
            return x
        return self(op, x, self.vector(*axes), keepdims=int(keep), noop_with_empty_axes=0)

    sum, mean, prod = (_reduction(f"reduce_{op}") for op in ("sum", "mean", "prod"))
    largest, smallest = _reduction("reduce_max"), _reduction("reduce_min")

    # -- shapes and places

    def shape(self, x: Value, *dims: int) -> Value:
        """x with other extents, its elements in the same order."""
        return x if x.type.shape == dims else self("reshape", x, self.vector(*dims), allowzero=1)

    def transpose(self, x: Value, *perm: int) -> Value:
        """x with its axes in another order."""
        return x if perm == tuple(range(len(perm))) else self("transpose", x, perm=perm)

    def broadcast(self, x: Value, *dims: int) -> Value:
        """x broadcast to an extent."""
        return x if x.type.dims == dims else self("expand", x, self.vector(*dims))

    def cut(self, x: Value, axis: int, start: int, end: int, step: int = 1) -> Value:
        """Elements start, start + step, ... below `end` along an axis."""
        return self.slice(x, [axis], [start], [end], [step])

    def slice(
        self, x: Value, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int], steps: Sequence[int] = ()
    ) -> Value:
        """Elements start, start + step, ... below the end, along each of some axes."""
        whole = x.type.shape is not None and [*ends] == [x.type.shape[a] for a in axes] and not any(starts)
        if whole and all(step == 1 or n == 1 for step, n in zip(steps, ends, strict=False)):
            return x
        lists = [starts, ends, axes, *([steps] if any(step != 1 for step in steps) else [])]
        return self("slice", x, *(self.vector(*numbers) for numbers in lists))

    def pad(self, x: Value, before: Sequence[int], after: Sequence[int], fill: Any = 0) -> Value:
        """x with zeros, or `fill`, around it; negative amounts crop."""
        if not any(before) and not any(after):
            return x
        return self("pad", x, self.vector(*before, *after), *([fill] if fill else []), mode="constant")

    def join(self, values: Sequence[Value], axis: int) -> Value:
        """Values one behind the other along an axis."""
        return values[0] if len(values) == 1 else self("concat", *values, axis=axis)

    def pick(self, x: Value, places: Operand, axis: int = 0) -> Value:
        """The elements of x at places (int64) along an axis."""
        return self("gather", x, places, axis=axis)


class Rewriter(Builder):
    """Writes nodes in the place of `node`, after whose first result theirs are named."""

    node: Node

    @property
    def label(self) -> str:  # type: ignore[override]
        return self.node.name

    def result(self, op: str, type: TensorType) -> Value:
        return Value(f"{self.node.out.name}.{op}", type)


def _operator(op: str, turned: bool = False) -> Callable[[Value, Any], Any]:
    def write(x: Value, y: Any) -> Any:
        if not isinstance(y, Value | np.ndarray | float | int | np.generic):
            return NotImplemented
        g = builder()
        return g(op, g.number(y, x), x) if turned else g(op, x, y)

    return write


_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow", "mod": "mod", "matmul": "matmul",
    "and": "and", "or": "or", "lt": "less", "le": "less_or_equal", "gt": "greater", "ge": "greater_or_equal",
}  # fmt: skip
for _name, _op in _OPERATORS.items():
    setattr(Value, f"__{_name}__", _operator(_op))
for _name in ("add", "sub", "mul", "truediv"):
    setattr(Value, f"__r{_name}__", _operator(_OPERATORS[_name], turned=True))
for _name, _op in {"neg": "neg", "abs": "abs", "invert": "not"}.items():
    setattr(Value, f"__{_name}__", lambda x, op=_op: builder()(op, x))
Value.__array_ufunc__ = None  # type: ignore[attr-defined]  # an array beside a value leaves the operator to it
