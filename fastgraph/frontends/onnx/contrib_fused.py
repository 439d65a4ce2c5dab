"""Float layers that onnxruntime's optimizer joins with what stands around them: activations, biases, residuals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call
from .contrib import Attrs, contrib
from .spatial import convolution, pool

_CONV = "auto_pad=NOTSET dilations:ints? group=1 kernel_shape:ints? pads:ints? strides:ints?"
_PRODUCT = "A B -> Y | alpha=1.0 transA=0 transB=0"

_PARAMETERS: dict[str, dict[str, float]] = {
    "Relu": {}, "Tanh": {}, "Sigmoid": {}, "Softplus": {}, "Softsign": {},
    "LeakyRelu": {"alpha": 0.01}, "Elu": {"alpha": 1.0}, "Celu": {"alpha": 1.0}, "ThresholdedRelu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5}, "Selu": {"alpha": 1.67326319, "gamma": 1.05070102},
}  # fmt: skip
"""Activations and their parameters, with what they are where the file does not say."""

_NAMES = {"LeakyRelu": "leaky_relu", "ThresholdedRelu": "thresholded_relu", "HardSigmoid": "hard_sigmoid"}


def number(call: Call, value: float) -> Value:
    """A float32 constant."""
    return call.const(value, dtype=np.float32)


def activated(call: Call, y: Value, name: str | None, given: dict[str, float]) -> Value:
    """The activation of that name of `y`, with the parameters that are given."""
    if not name:
        return y
    if name not in _PARAMETERS:
        call.fail(f"expected activation as one of {sorted(_PARAMETERS)}, found {name!r}")
    found: Attrs = {key: given.get(key, default) for key, default in _PARAMETERS[name].items()}
    return call.add(_NAMES.get(name, name.lower()), [y], **found)


@contrib(f"FusedConv: X W B? Z? -> Y | activation:str? activation_params:floats? {_CONV}",
         f"NhwcFusedConv: X W B? Z? -> Y | activation:str? activation_params:floats? {_CONV}")  # fmt: skip
def fused_conv(call: Call, attrs: Attrs) -> Value:
    """activation(conv(X, W, B) + Z)."""
    y = convolution(call, attrs, "conv", [call.x(0), call.x(1), call.input(2)], 1, "Nhwc" in call.op)
    if call.input(3) is not None:
        y = call.add("add", [y, call.x(3)])
    name, params = attrs["activation"], attrs["activation_params"] or ()
    wanted = 2 if name == "Clip" else len(_PARAMETERS.get(name, ()))
    if len(params) != wanted:
        call.fail(f"expected {wanted} activation_params for {name!r}, found {len(params)}")
    if name == "Clip":
        return call.add("clip", [y, *(number(call, p) for p in params)])
    return activated(call, y, name, dict(zip(_PARAMETERS.get(name, ()), params, strict=True)))


@contrib(f"NhwcConv: X W B? -> Y | {_CONV}")
def nhwc_conv(call: Call, attrs: Attrs) -> Value:
    return convolution(call, attrs, "conv", call.inputs, 1, last=True)


_POOL = "auto_pad=NOTSET ceil_mode=0 dilations:ints? kernel_shape:ints! pads:ints? strides:ints?"


@contrib(f"NhwcMaxPool: x -> y | {_POOL}")
def nhwc_max_pool(call: Call, attrs: Attrs) -> Value:
    (y,) = pool(call, attrs | {"channels_last": 1}, "max_pool", call.x(0), 1)
    return y


@contrib(
    "FusedGemm: A B C? -> Y | activation:str? activation_alpha:float? activation_beta:float? activation_gamma:float?"
    " alpha=1.0 beta=1.0 transA=0 transB=0"
)
def fused_gemm(call: Call, attrs: Attrs) -> Value:
    flags: Any = {"trans_a": attrs["transA"], "trans_b": attrs["transB"]}
    y = call.add("gemm", call.inputs, alpha=attrs["alpha"], beta=attrs["beta"], **flags)
    return activated(call, y, attrs["activation"], _given(attrs))


def _given(attrs: Attrs) -> dict[str, float]:
    found = {key: attrs[f"activation_{key}"] for key in ("alpha", "beta", "gamma")}
    return {key: value for key, value in found.items() if value is not None}


@contrib(f"FusedMatMul: {_PRODUCT} transBatchA=0 transBatchB=0", f"TransposeMatMul: {_PRODUCT}")
def fused_matmul(call: Call, attrs: Attrs) -> Value:
    """alpha A' B'. `trans`: of the last two axes; `transBatch`: the first axis stands before the last one or two."""
    a, b = (_turned(call, i, attrs[f"trans{x}"], attrs.get(f"transBatch{x}", 0)) for i, x in enumerate("AB"))
    y = call.add("matmul", [a, b])
    return y if attrs["alpha"] == 1 else call.add("mul", [y, number(call, attrs["alpha"])])


def _turned(call: Call, index: int, swap: int, batch: int) -> Value:
    x = call.x(index)
    if not swap and not batch:
        return x
    rank = call.known_rank(x)
    if rank is None:
        call.unsupported(f"that transposes input {index}, whose number of axes the file leaves open")
    if rank < 2:
        return x
    order = [*range(1, rank - 1), 0, rank - 1] if batch and rank > 2 else [*range(rank)]
    if swap:
        order[-2:] = order[:-3:-1]
    return call.add("transpose", [x], perm=tuple(order))


@contrib("GemmFastGelu: X W bias? -> Y")
def gemm_fast_gelu(call: Call, attrs: Attrs) -> Value:
    y = call.add("matmul", [call.x(0), call.x(1)])
    return _gelu(call, y, call.input(2), "tanh")


def _gelu(call: Call, x: Value, bias: Value | None, approximate: str) -> Value:
    x = x if bias is None else call.add("add", [x, bias])
    return call.add("gelu", [x], approximate=approximate)


@contrib("Gelu: X -> Y", "BiasGelu: A B -> C")
def gelu(call: Call, attrs: Attrs) -> Value:
    return _gelu(call, call.x(0), call.input(1), "none")


@contrib("FastGelu: X bias? -> Y")
def fast_gelu(call: Call, attrs: Attrs) -> Value:
    return _gelu(call, call.x(0), call.input(1), "tanh")


@contrib("QuickGelu: X -> Y | alpha=1.702")
def quick_gelu(call: Call, attrs: Attrs) -> Value:
    return call.add("swish", [call.x(0)], alpha=attrs["alpha"])


@contrib("BiasAdd: X bias skip -> Y")
def bias_add(call: Call, attrs: Attrs) -> Value:
    return call.add("add", [call.add("add", [call.x(0), call.x(1)]), call.x(2)])


@contrib("BiasSplitGelu: X bias -> Y")
def bias_split_gelu(call: Call, attrs: Attrs) -> Value:
    """The first half along the last axis of X + bias, times gelu of the second."""
    x = call.add("add", [call.x(0), call.x(1)])
    left, right = call.add_many("split", [x], {"axis": -1, "num_outputs": 2}, 2)
    return call.add("mul", [left, call.add("gelu", [right], approximate="none")])
