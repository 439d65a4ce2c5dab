"""Random numbers. Semantics: .../ops/defs/iOS15/random.py.

Core ML's generators are not published: with a seed from 0 on, numbers are the same at every run, but not Core ML's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import TensorType, Value
from ..core.common import FLOAT32, ints, scalar
from .call import Call, rule


def _seed(c: Call) -> int | None:
    """The seed as a number that generators take; None without one."""
    seed = int(c.known("seed", -1))
    return None if seed < 0 else seed


def _filled(c: Call, number: float) -> Value:
    """A tensor of the asked shape."""
    return c.add("expand", [c.const(FLOAT32.type(number)), c.int64(c.x("shape"))], type=TensorType(FLOAT32))


def _drawn(c: Call, op: str, like: Value, **attrs: Any) -> None:
    c.finish(op, [like], dtype=FLOAT32, seed=_seed(c), **attrs)


@rule("random_uniform")
def _uniform(c: Call) -> None:
    _drawn(c, "random_uniform_like", _filled(c, 0), low=float(c.known("low", 0.0)), high=float(c.known("high", 1.0)))


@rule("random_normal")
def _normal(c: Call) -> None:
    _drawn(c, "random_normal_like", _filled(c, 0),
           mean=float(c.known("mean", 0.0)), scale=float(c.known("stddev", 1.0)))  # fmt: skip


@rule("random_bernoulli")
def _bernoulli(c: Call) -> None:
    _drawn(c, "bernoulli", _filled(c, float(c.known("prob", 0.5))))


@rule("random_categorical")
def _categorical(c: Call) -> None:
    """Classes by the logits, or the probabilities, of the last axis; numbers of x's type."""
    x, count = c.x(), int(c.known("size", 1))
    rank = c.rank(x)
    if count < 1 or rank < 1:
        c.fail(f"expected a size from 1 on and logits along an axis, found {count} and {x.type}")
    logits = x if c.text("mode", "logits", "probs", default="logits") == "logits" else c.add("log", [x])
    classes = c.add("shape", [x], start=rank - 1, end=rank)
    rows = c.add("reshape", [logits, c.add("concat", [ints(c, [-1]), classes], axis=0)])
    drawn = c.add("multinomial", [rows], dtype=np.dtype(np.int64), sample_size=count, seed=_seed(c))
    lead = c.add("shape", [x], start=0, end=rank - 1)
    shape = c.add("concat", [lead, ints(c, [count])], axis=0)
    c.finish("cast", [c.add("reshape", [drawn, shape])], to=scalar(c, 0, x).type.dtype)
