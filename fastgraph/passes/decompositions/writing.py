"""Writing steps by what they do: their types follow from their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...ir import Node, Value
from ...ir.build import constant
from ...ops.evaluate import fold, infer_node
from ...rules.moves import cast, shaped, turn
from ...rules.operands import known, operand, real
from ...rules.sweep import Sweep

__all__ = ["CASTS", "Steps", "known", "operand", "real"]

CASTS = {"saturate": 1, "round_mode": "up", "format": ""}


class Steps(NamedTuple):
    """Writes steps in a sweep for the node at hand."""

    state: Sweep
    node: Node

    def __call__(self, op: str, *operands: Value | float, **attrs: Any) -> Value:
        """The result of an operator, a constant where it is known. Numbers are of the element type of the first operand
        that is a value.
        """
        like = next(v for v in operands if isinstance(v, Value))
        inputs = [v if isinstance(v, Value) else self.number(v, like) for v in operands]
        step = Node(op, list(inputs), [Value(f"{self.node.out.name}.{op}")], attrs, self.node.name)
        infer_node(step)
        known = None if op == "expand" else fold(step)
        if known is not None:
            return constant(self.node.out, known[0], op)
        self.state.write(step)
        return step.out

    def number(self, number: float, like: Value) -> Value:
        """A constant of the element type of `like`."""
        return constant(self.node.out, np.array(number, like.type.dtype), "number")

    def ints(self, *numbers: int) -> Value:
        """A vector of int64."""
        return constant(self.node.out, np.array(numbers, np.int64), "numbers")

    def shape(self, x: Value, *dims: int) -> Value:
        return shaped(self.state, self.node, x, dims)

    def turn(self, x: Value, *perm: int) -> Value:
        return turn(self.state, self.node, x, perm)

    def cast(self, x: Value, dtype: Any) -> Value:
        return cast(self.state, self.node, x, np.dtype(dtype))

    def rounded(self, x: Value, kind: str, **attrs: Any) -> Value:
        """x as numbers of a format of few bits, held as they are."""
        assert x.type.dtype is not None
        return self("cast", x, to=x.type.dtype.name, **{**CASTS, **attrs, "format": kind})

    def where(self, condition: Value, yes: Value | float, no: Value | float) -> Value:
        """One of the two, of which at least one is a value."""
        like = yes if isinstance(yes, Value) else no
        assert isinstance(like, Value)
        yes, no = (v if isinstance(v, Value) else self.number(v, like) for v in (yes, no))
        return self("where", condition, yes, no)

    def reduce(self, op: str, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
        if not axes:
            return x
        return self(op, x, self.ints(*axes), keepdims=int(keep), noop_with_empty_axes=0)

    def cut(self, x: Value, axis: int, start: int, end: int, step: int = 1) -> Value:
        """Elements start, start + step, ... below `end` along an axis."""
        return self("slice", x, *(self.ints(n) for n in (start, end, axis, step)))

    def spread(self, x: Value, *dims: int) -> Value:
        """x broadcast to an extent."""
        return x if x.type.dims == dims else self("expand", x, self.ints(*dims))

    def becomes(self, *results: Value) -> bool:
        """The results stand for the node's. True, for the rule to give."""
        for old, new in zip(self.node.outputs, results, strict=False):
            if new.type.shape != old.type.shape:
                new = self.shape(new, *old.type.dims)
            self.state.replace(old, new)
        return True
