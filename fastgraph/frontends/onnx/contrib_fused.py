"""Float layers that onnxruntime's optimizer joins with what stands around them: activations, biases, residuals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call, as_is
from .contrib import contrib
from .rules import canonical
from .signatures import signature
from .spatial import convolution, pool

_CONV = "auto_pad=NOTSET dilations:ints? group=1 kernel_shape:ints? pads:ints? strides:ints?"
_FUSED = f"X W B? Z? -> Y | activation:str? activation_params:floats? {_CONV}"
_POOL = "auto_pad=NOTSET ceil_mode=0 dilations:ints? kernel_shape:ints! pads:ints? strides:ints?"
_PRODUCT = "A B -> Y | alpha=1.0 transA=0 transB=0"

_ACTIVATIONS = "Relu Tanh Sigmoid Softplus Softsign LeakyRelu Elu Celu ThresholdedRelu HardSigmoid Selu".split()

contrib("Gelu: X -> Y")(as_is("gelu"))
contrib("QuickGelu: X -> Y | alpha=1.702")(as_is("swish"))


def _parameters(name: str | None) -> dict[str, Any]:
    """The parameters of an activation, in order, and what they are where the file does not say."""
    known = signature(name) if name in _ACTIVATIONS else None
    return {} if known is None else {key: default for key, (_, default) in known.attrs.items()}


def _activated(c: Call, y: Value, name: str | None, given: dict[str, Any]) -> Value:
    """The activation of that name of `y`, with the parameters that are given."""
    if not name:
        return y
    if name not in _ACTIVATIONS:
        c.fail(f"expected activation as one of {sorted(_ACTIVATIONS)}, found {name!r}")
    found = _parameters(name)
    return c(canonical(name), y, **found | {key: n for key, n in given.items() if key in found and n is not None})


@contrib(f"FusedConv: {_FUSED}", f"NhwcFusedConv: {_FUSED}")
def fused_conv(c: Call, x: Value, w: Value, bias: Value | None, adds: Value | None, **attrs: Any) -> Value:
    """activation(conv(X, W, B) + Z)."""
    y = convolution(c, attrs, "conv", [x, w, bias], 1, "Nhwc" in c.op)
    y = y if adds is None else y + adds
    name, params = attrs["activation"], attrs["activation_params"] or ()
    wanted = 2 if name == "Clip" else len(_parameters(name))
    if len(params) != wanted:
        c.fail(f"expected {wanted} activation_params for {name!r}, found {len(params)}")
    if name == "Clip":
        return c.clip(y, *params)
    return _activated(c, y, name, dict(zip(_parameters(name), params, strict=True)))


@contrib(f"NhwcConv: X W B? -> Y | {_CONV}")
def nhwc_conv(c: Call, x: Value, w: Value, bias: Value | None, **attrs: Any) -> Value:
    """The channels of the weights are last, too: onnxruntime writes it so, whatever its documentation says."""
    w = c.to_first(w) if w.data is None else c.const(np.moveaxis(w.data, -1, 1))
    return convolution(c, attrs, "conv", [x, w, bias], 1, last=True)


contrib(f"NhwcMaxPool: x -> y | {_POOL}")(
    lambda c, x, **attrs: pool(c, {**attrs, "channels_last": 1}, "max_pool", x, 1)
)


@contrib(
    "FusedGemm: A B C? -> Y | activation:str? activation_alpha:float? activation_beta:float? activation_gamma:float?"
    " alpha=1.0 beta=1.0 transA=0 transB=0"
)
def fused_gemm(c: Call, *inputs: Value | None, activation: str | None, **attrs: Any) -> Value:
    given = {key: attrs.pop(f"activation_{key}") for key in ("alpha", "beta", "gamma")}
    (y,) = as_is("gemm")(c, *inputs, **attrs)
    return _activated(c, y, activation, given)


@contrib(f"FusedMatMul: {_PRODUCT} transBatchA=0 transBatchB=0", f"TransposeMatMul: {_PRODUCT}")
def fused_matmul(c: Call, *inputs: Value, alpha: float, **attrs: int) -> Value:
    """alpha A' B'. `trans`: of the last two axes; `transBatch`: the first axis stands before the last one or two."""
    a, b = (_turned(c, i, attrs[f"trans{x}"], attrs.get(f"transBatch{x}", 0)) for i, x in enumerate("AB"))
    return a @ b if alpha == 1 else a @ b * alpha


def _turned(c: Call, index: int, swap: int, batch: int) -> Value:
    x = c.x(index)
    if not swap and not batch:
        return x
    rank = c.known_rank(x)
    if rank is None:
        if batch:
            c.unsupported(f"that turns the first axis of input {index}, whose number of axes the file leaves open")
        return c("einsum", x, equation="...ij->...ji")
    if rank < 2:
        return x
    order = [*range(1, rank - 1), 0, rank - 1] if batch and rank > 2 else [*range(rank)]
    if swap:
        order[-2:] = order[:-3:-1]
    return c.transpose(x, *order)


@contrib("FastGelu: X bias? -> Y")
def fast_gelu(c: Call, x: Value, bias: Value | None) -> Value:
    return c("gelu", x if bias is None else x + bias, approximate="tanh")


contrib("GemmFastGelu: X W bias? -> Y")(lambda c, x, w, bias: fast_gelu(c, x @ w, bias))
contrib("BiasGelu: A B -> C")(lambda c, x, bias: c("gelu", x + bias))
contrib("BiasAdd: X bias skip -> Y")(lambda c, x, bias, skip: x + bias + skip)


@contrib("BiasSplitGelu: X bias -> Y")
def bias_split_gelu(c: Call, x: Value, bias: Value) -> Value:
    """The first half along the last axis of X + bias, times gelu of the second."""
    left, right = c.several("split", 2, x + bias, axis=-1, num_outputs=2)
    return left * c("gelu", right)
