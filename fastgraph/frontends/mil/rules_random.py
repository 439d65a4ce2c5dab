"""Random numbers. Semantics: .../ops/defs/iOS15/random.py.

Core ML's generators are not published: with a seed from 0 on, numbers are the same at every run, but not Core ML's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import FLOAT32, INT64, Value
from .call import Call
from .signatures import Formulas, formulas, rule


def _drawn(c: Call, op: str, shape: Value, number: float = 0, **attrs: Any) -> Value:
    """The result of an operator that draws for each element of a tensor of that shape, filled with a number."""
    return c(op, c("expand", np.array(number, np.float32), shape), dtype=FLOAT32, **attrs)


FORMULAS: Formulas = {
    "random_bernoulli: shape:Int64 prob:float=0.5 | seed:Seed?": (
        lambda c, shape, prob, seed: _drawn(c, "bernoulli", shape, prob, seed=seed)
    ),
    "random_normal: shape:Int64 | mean:float=0.0 scale<stddev:float=1.0 seed:Seed?": (
        lambda c, shape, **attrs: _drawn(c, "random_normal_like", shape, **attrs)
    ),
    "random_uniform: shape:Int64 | low:float=0.0 high:float=1.0 seed:Seed?": (
        lambda c, shape, **attrs: _drawn(c, "random_uniform_like", shape, **attrs)
    ),
}
formulas(FORMULAS)


@rule("random_categorical: x mode:Odds=logits size:int=1 seed:Seed?")
def categorical(c: Call, x: Value, mode: str, size: int, seed: int | None) -> Value:
    """Classes by the logits, or the probabilities, of the last axis; numbers of x's type."""
    rank = c.rank(x)
    if size < 1 or rank < 1:
        c.fail(f"expected a size from 1 on and logits along an axis, found {size} and {x.type}")
    logits = x if mode == "logits" else c.log(x)
    lead, classes = c("shape", x, start=0, end=rank - 1), c("shape", x, start=rank - 1, end=rank)
    rows = c("reshape", logits, c.join([c.vector(-1), classes], 0))
    drawn = c("multinomial", rows, dtype=INT64, sample_size=size, seed=seed)
    return c.cast(c("reshape", drawn, c.join([lead, c.vector(size)], 0)), x.type.dtype or FLOAT32)
