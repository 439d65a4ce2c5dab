"""Random numbers. Semantics: tflite/kernels/{random_ops, rng_util}.cc and its kernel of StableHLO's bit generator.

With a seed, each run goes on where the last one ended, as in TensorFlow: how many blocks were drawn is a variable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import TensorType, Value
from ..core.common import INT64
from .call import Call, custom, rule
from .common import vector
from .nodedef import attributes
from .resources import random_key


def _drawn(c: Call, op: str, inputs: list[Value], seeds: tuple[int, int], **attrs: Any) -> None:
    """Write `op`, which also takes how many blocks were drawn before and gives how many were after it."""
    if seeds == (0, 0):
        c.add(op, [*inputs, c.const(np.int64(0))], [c.outputs[0], c.fresh(TensorType(INT64, ()))], seeds=None, **attrs)
        return
    key = random_key(c.name)
    c.initialize(key, np.array(0, np.int64))
    before, after = c.read_resource(key, TensorType(INT64, ())), c.fresh(TensorType(INT64, ()))
    c.add(op, [*inputs, before], [c.outputs[0], after], seeds=seeds, **attrs)
    c.assign_resource(key, after)


@rule("RANDOM_UNIFORM")
def _uniform(c: Call) -> None:
    c.count(1)
    _drawn(c, "philox_uniform", [vector(c, 0)], (c.options.seed, c.options.seed2))


@rule("RANDOM_STANDARD_NORMAL")
def _normal(c: Call) -> None:
    c.count(1)
    _drawn(c, "philox_normal", [vector(c, 0)], (c.options.seed, c.options.seed2))


@rule("MULTINOMIAL")
def _multinomial(c: Call) -> None:
    c.count(2)
    seeds = (c.options.seed, c.options.seed2)
    _drawn(c, "philox_multinomial", [c.x(0), vector(c, 1)], seeds, dtype=c.outputs[0].type.dtype or INT64)


@custom("RandomUniform", "RandomStandardNormal", "FlexRandomUniform", "FlexRandomStandardNormal")
def _tensorflow(c: Call) -> None:
    """TensorFlow's own. Within sub-graphs they are not followed from run to run, and draw afresh."""
    c.count(1)
    told = attributes(c)
    seeds = (int(told.get("seed", 0)), int(told.get("seed2", 0)))
    op = "philox_uniform" if c.op.endswith("Uniform") else "philox_normal"
    if c.scope.index:
        counter = c.fresh(TensorType(INT64, ()))
        c.add(op, [vector(c, 0), c.const(np.int64(0))], [c.outputs[0], counter], seeds=None)
    else:
        _drawn(c, op, [vector(c, 0)], seeds)


@rule("STABLEHLO_RNG_BIT_GENERATOR")
def _bits(c: Call) -> None:
    """(next state, bits) of a state that the model keeps itself."""
    c.count(1, 2)
    out = c.outputs[1].type
    if out.dtype is None or out.dtype.kind not in "iu" or not out.concrete:
        c.fail(f"expected bits of an integer type and a known shape, found {out}")
    c.write("random_bits", algorithm=c.options.algorithm, dtype=out.dtype, shape=out.dims)
