"""Activation functions and normalizations. Semantics: TFLite's kernels."""

from __future__ import annotations

import numpy as np

from .call import Call, Rule, rule
from .common import computed, one_to_one, real, same_dtype, scalar

CLAMPS = {"RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}


def _check(c: Call) -> None:
    same_dtype(c, c.x(), c.outputs[0])
    computed(c, *c.inputs, *c.outputs)


def _checked(c: Call) -> None:
    c.count(1)
    _check(c)


one_to_one({"RELU": "relu", "TANH": "tanh", "LOGISTIC": "sigmoid", "HARD_SWISH": "hard_swish"}, 1, _check)
one_to_one({"ELU": "elu"}, 1, _check, alpha=1.0)
one_to_one({"LOG_SOFTMAX": "log_softmax"}, 1, _check, axis=-1)
one_to_one({"PRELU": "prelu"}, 2, _check)


def _clamp(low: float, high: float) -> Rule:
    def translate(c: Call) -> None:
        _checked(c)
        c.write("clip", [c.x(), scalar(c, low), scalar(c, high)])

    return translate


for _name, (_low, _high) in CLAMPS.items():
    rule(_name)(_clamp(_low, _high))


@rule("LEAKY_RELU")
def _leaky_relu(c: Call) -> None:
    _checked(c)
    c.write("leaky_relu", alpha=c.options.alpha)


@rule("GELU")
def _gelu(c: Call) -> None:
    _checked(c)
    c.write("gelu", approximate="tanh" if c.options.approximate else "none")


@rule("SOFTMAX")
def _softmax(c: Call) -> None:
    """Along the last axis, of the input times beta. Bytes may become int16."""
    c.count(1)
    x, out = c.x(), c.outputs[0]
    computed(c, x, out)
    if x.type.quant is None or out.type.quant is None or out.type.dtype != np.int16:
        same_dtype(c, x, out)
    if c.options.beta != 1:
        x = c.add("mul", [x, scalar(c, c.options.beta)], type=real(c))
    c.write("softmax", [x], axis=-1)


@rule("L2_NORMALIZATION")
def _l2_normalization(c: Call) -> None:
    """x over its norm along the last axis; norms below 1e-6 count as that."""
    _checked(c)
    c.activate("lp_normalization", c.inputs, axis=-1, p=2, least=1e-6)


@rule("LOCAL_RESPONSE_NORMALIZATION")
def _local_response_normalization(c: Call) -> None:
    _checked(c)
    if c.options.radius < 0:
        c.fail(f"expected a radius of 0 or more, found {c.options.radius}")
    size = 2 * c.options.radius + 1
    c.write("lrn", size=size, alpha=c.options.alpha * size, beta=c.options.beta, bias=c.options.bias)
