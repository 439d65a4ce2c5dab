"""Random numbers. Semantics: tflite/kernels/{random_ops, rng_util}.cc and its kernel of StableHLO's bit generator.

With a seed, each run goes on where the last one ended, as in TensorFlow: how many blocks were drawn is a variable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import TensorType, Value
from ..core.common import INT64
from .call import Call
from .resources import random_key


def drawn(c: Call, *inputs: Value, seeds: tuple[int, int], **attrs: Any) -> None:
    """Write an operator that also takes how many blocks were drawn before and gives how many were after it."""
    after = c.fresh(TensorType(INT64, ()))
    if seeds == (0, 0):
        c.add(c.canonical, [*inputs, c.const(np.int64(0))], [c.outputs[0], after], seeds=None, **attrs)
        return
    key = random_key(c.name)
    c.initialize(key, np.array(0, np.int64))
    before = c.scope.present(key, TensorType(INT64, ()))
    c.add(c.canonical, [*inputs, before], [c.outputs[0], after], seeds=seeds, **attrs)
    c.scope.assign(key, after)


def multinomial(c: Call, x: Value, count: Value, seeds: tuple[int, int]) -> None:
    drawn(c, x, count, seeds=seeds, dtype=c.outputs[0].type.dtype or INT64)


def tensorflow(c: Call, shape: Value, seeds: tuple[int, int]) -> None:
    """TensorFlow's own. Within sub-graphs they are not followed from run to run, and draw afresh."""
    drawn(c, shape, seeds=(0, 0) if c.scope.index else seeds)


def bits(c: Call, state: Value, algorithm: str) -> None:
    """(next state, bits) of a state that the model keeps itself."""
    out = c.outputs[1].type
    if out.dtype is None or out.dtype.kind not in "iu" or not out.concrete:
        c.fail(f"expected bits of an integer type and a known shape, found {out}")
    c.write("random_bits", [state], algorithm=algorithm, dtype=out.dtype, shape=out.dims)
