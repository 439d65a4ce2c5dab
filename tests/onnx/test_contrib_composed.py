"""Operators beyond ai.onnx that onnxruntime's CPU kernels lack, against what they are composed of; and refusals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.nets import F32, Net
from tests.onnx import contrib
from tests.onnx.contrib import MS, S8, U8, Operand, agree, const, fed, given, known, net_of, numbers
from tests.onnx.test_contrib import SCALES, linear, weights
from tests.tables import entries

BYTES = pytest.mark.parametrize("dtype", [U8, S8], ids=str)


def operands(net: Net, *made: Operand) -> list[str]:
    return [operand(net, {}) for operand in made]


def convolutions(net: Net) -> None:
    x, b = net.input("x", (1, 7, 6, 4)), net.weight(8)
    for last in (net.weight(8, 3, 2, 4), net.input("w", (8, 3, 2, 4))):
        w = net("Transpose", last, perm=[0, 3, 1, 2])
        y = net("NhwcConv", x, last, b, domain=MS, pads=[1, 0, 1, 0], kernel_shape=[3, 2])
        z = net("NhwcFusedConv", x, w, b, y, domain=MS, pads=[1, 0, 1, 0], activation="Relu")
        expected = net("Conv", net("Transpose", x, perm=[0, 3, 1, 2]), w, b, pads=[1, 0, 1, 0])
        expected = net("Transpose", expected, perm=[0, 2, 3, 1])
        net.output(y, expected, z, net("Relu", net("Add", expected, expected)))


def biases(net: Net) -> None:
    x, skip, b, w = net.input("x", (2, 5, 16)), net.input("skip", (2, 5, 16)), net.weight(16), net.weight(16, 16)
    both = net("Add", x, b)
    left, right = net("Split", both, axis=-1, outputs=2)
    net.output(net("BiasAdd", x, b, skip, domain=MS), net("Add", both, skip))
    net.output(net("BiasSplitGelu", x, b, domain=MS), net("Mul", left, net("Gelu", right, domain=MS)))
    net.output(net("GemmFastGelu", x, w, b, domain=MS), net("FastGelu", net("MatMul", x, w), b, domain=MS))


def group_norm(last: int, silu: int) -> Callable[[Net], None]:
    def build(net: Net) -> None:
        x = net.input("x", (2, 5, 6, 8) if last else (2, 8, 5, 6))
        gamma, beta, bias = (net.weight(8) for _ in range(3))
        attrs = {"domain": MS, "groups": 4, "epsilon": 1e-3, "activation": silu, "channels_last": last}
        first = net("Transpose", x, perm=[0, 3, 1, 2]) if last else x
        unit = net("GroupNormalization", first, gamma, beta, num_groups=4, epsilon=1e-3)
        unit = net("Mul", unit, net("Sigmoid", unit)) if silu else unit
        unit = net("Transpose", unit, perm=[0, 2, 3, 1]) if last else unit
        net.output(net("GroupNorm", x, gamma, beta, **attrs), unit)
        if last:
            skip = net.input("skip", (2, 8))
            z, total = net("SkipGroupNorm", x, gamma, beta, skip, bias, outputs=2, **attrs)
            wide = net("Add", net("Add", x, net("Unsqueeze", skip, [1, 2])), bias)
            net.output(z, net("GroupNorm", wide, gamma, beta, **attrs), total, wide)

    return build


def reduce_mean(net: Net) -> None:
    x = net.input("x", (2, 6, 5), U8)
    takes, gives = operands(net, *linear(U8, 0)), operands(net, *linear(U8, 1))
    y = net("QLinearReduceMean", x, *takes, *gives, domain=MS, axes=[1, -1], keepdims=0)
    mean = net("ReduceMean", net("DequantizeLinear", x, *takes), [1, -1], keepdims=0)
    net.output(y, net("QuantizeLinear", mean, *gives), dtype=U8)


@pytest.mark.parametrize(
    "build", [convolutions, biases, reduce_mean, *(group_norm(last, silu) for last in (0, 1) for silu in (0, 1))]
)
def test_by_their_documentation(build: Callable[[Net], None]) -> None:
    """Outputs in pairs: what is documented, and the same of other operators."""
    net = Net(opset=21)
    build(net)
    model = net.load()
    found = list(model.run({s.name: numbers(net.rng, s.shape, s.dtype) for s in model.inputs}).values())
    for have, want in zip(found[::2], found[1::2], strict=True):
        np.testing.assert_allclose(have, want, atol=1e-5)


@BYTES
def test_zero_points_may_be_left_out(dtype: Any) -> None:
    """They are 0 then, and results are of the operand's type. onnxruntime ends the process over such files."""
    results = []
    for zero in ("", "given"):
        net = Net()
        x, scale, unit = net.input("x", (2, 8), dtype), net.const(np.float32(0.0213)), net.const(np.float32(1 / 255))
        zero = zero and net.const(np.array(0, dtype))
        y = net("QLinearSigmoid", x, scale, zero, unit, zero, domain=MS)
        net.output(net("QLinearAdd", y, unit, zero, x, scale, zero, scale, zero, domain=MS), dtype=dtype)
        results.append(net.load()(numbers(np.random.default_rng(0), (2, 8), dtype)))
    assert results[0].dtype == dtype and np.array_equal(*results)


@BYTES
def test_bytes_are_moved_as_what_they_stand_for(dtype: Any) -> None:
    """Between two layers, operators on plain bytes: nothing is turned, and nothing is left to NumPy."""
    net = Net()
    first, last, shares = (operands(net, *linear(dtype, at)) for at in (0, 2, 1))
    y = net("MaxPool", net.input("x", (1, 8, 8, 8), dtype), kernel_shape=[2, 2], strides=[2, 2])
    y = net("Pad", y, [0, 0, 1, 1, 0, 0, 1, 1], first[1])
    y = net("Concat", y, y, axis=1)
    left, right = net("Split", y, [12, 4], axis=1, outputs=2)
    y = net("Concat", right, net("Transpose", left, perm=[0, 1, 3, 2]), axis=1)
    y = net("QLinearConv", y, *first, *operands(net, *weights(S8, (8, 16, 3, 3), 8, False)), *last)
    y = net("Reshape", y, [1, -1])
    net.output(net("QLinearSoftmax", y, *last, *shares, domain=MS, opset=13), dtype=dtype)
    agree(net, {"x": numbers(net.rng, (1, 8, 8, 8), dtype)})


def test_parameters_that_are_fed() -> None:
    parameters = [known(np.array(117, U8)), *weights(S8, (8, 4, 3, 3), 8, False), *linear(U8, 1)]
    scale = given(np.array(SCALES[0], F32))
    agree(*net_of("QLinearConv", [fed(1, 4, 6, 6, dtype=U8), scale, *parameters], domain=""))


def test_matrices_without_an_inverse() -> None:
    net, x = Net(), np.zeros((2, 3, 4, 4), F32)
    net.output(net("Inverse", net.input("x", x.shape), domain=MS))
    x[0] = np.eye(4)
    y = net.load()(x)
    assert np.array_equal(y[0], x[0]) and np.isnan(y[1]).all()


IMAGE, CODES = [fed(1, 4, 7, 6), const(8, 4, 3, 3)], [known(np.float32(0.1))] * 7
NBITS = {"K": 64, "N": 10, "bits": 4, "block_size": 32}
PACKED = [fed(3, 64), known(np.zeros((10, 2, 16), U8)), known(np.ones(20, F32))]
THREE = [PACKED[0], known(np.zeros((10, 2, 24), U8)), PACKED[2]]
QKV = [fed(2, 5, 24), const(24, 192)]
LABELS = [given(np.float32([1]))]
REFUSED = """
FusedConv | IMAGE | activation="Clip" | expected 2 activation_params for 'Clip', found 0
FusedConv | IMAGE | activation="Swish" | expected activation as one of .* found 'Swish'
FusedConv | IMAGE | activation="Relu", activation_params=[1.0] | expected 0 activation_params
QLinearAdd | [fed(2, 4, dtype=U8), *CODES[:5]] | | its input 'C_scale'|expected inputs
QLinearAdd | [fed(2, 4, dtype=U8), *CODES[:6]] | axis=1 | expected attributes .*found 'axis'
QLinearSoftmax | [fed(2, 4, dtype=U8), *CODES[:4]] | | its attribute 'opset' .*is required and absent
QLinearConcat | [fed(2, 4, dtype=U8), *CODES[:3]] | axis=0 | a zero point for each operand, found 4 inputs
QGemm | [fed(2, 4, dtype=U8), *CODES] | | y_scale and y_zero_point together
MatMulNBits | PACKED | **dict(NBITS, block_size=24) | block_size of 16, 32
MatMulNBits | PACKED | **dict(NBITS, N=11) | expected B of shape
MatMulNBits | THREE | **dict(NBITS, bits=3, K=85, block_size=64) | with 3 bits
Attention | QKV | num_heads=0 | num_heads from 1 on
Attention | QKV | num_heads=4, qkv_hidden_sizes=[32, 32] | qkv_hidden_sizes of three numbers
Attention | QKV | num_heads=4, do_rotary=1 | do_rotary, which onnxruntime has on GPUs only
Attention | [fed(2, 5, 64), const(64, 192), absent, ends(3)] | num_heads=4 |
  Attention.*expected a mask of 2 ends.*found 3 numbers
Attention | [fed(2, 5, 64), const(64, 192), absent, ends(8)] | num_heads=4 |
  Attention.*expected a mask of 2 ends.*found 8 numbers
MultiHeadAttention | [fed(2, 5, 64)] * 3 + [absent, ends(1)] | num_heads=4 |
  MultiHeadAttention.*expected a mask of 2 ends.*found 1 numbers
GroupQueryAttention | [fed(2, 5, 192), fed(2, 5, 64), absent, absent, absent, known([4, 4], "i4"), known(5, "i4")] |
  num_heads=4, kv_num_heads=4 | expected key and value together
LabelEncoder | LABELS | domain=ML, keys_floats=[float("nan")], values_int64s=[1] | a key that is NaN
LabelEncoder | LABELS | domain=ML, keys_floats=[1.0], values_int64s=[1, 2] | a value for each key
LabelEncoder | LABELS | domain=ML, keys_floats=[1.0] | expected exactly one of values_floats.*found 0
LabelEncoder | LABELS | domain=ML, keys_floats=[1.0], keys_int64s=[1], values_int64s=[1] |
  expected exactly one of keys_floats.*found 2
Normalizer | [fed(2, 3)] | domain=ML, norm="L3" | expected norm as 'MAX', 'L1' or 'L2', found 'L3'
Scaler | [fed(2, 3)] | domain=ML, offset=[1.0] | expected numbers as scale, found none
Scaler | [fed(2, 3)] | domain=ML, scale=[1.0] | expected numbers as offset, found none
LinearRegressor | [fed(2, 3)] | domain=ML, targets=2 | coefficients for 2 results.*0 numbers
LinearRegressor | [fed(2, 3)] | domain=ML, targets=2, coefficients=[1.0, 2.0, 3.0] |
  coefficients for 2 results.*3 numbers
LinearRegressor | [fed(2, 1)] | domain=ML, coefficients=[1.0], post_transform="PROBIT" | post_transform 'PROBIT'
LinearClassifier | [fed(2, 3)] |
  domain=ML, outputs="yz", coefficients=[1.0, 2.0, 3.0], intercepts=[1.0], classlabels_ints=[0, 1] |
  2 labels and 1 intercepts
BeamSearch | [fed(2, 3)] | | com\\.microsoft\\.BeamSearch
Conv | [fed(2, 3)] | domain="com.microsoft.nchwc" | com\\.microsoft\\.nchwc\\.Conv
"""


def ends(count: int) -> Operand:
    """Of a mask: without an end a sequence would have no keys."""
    return known(np.ones(count, np.int32))


@pytest.mark.parametrize("op, made, attrs, error", entries(REFUSED))
def test_what_is_malformed_or_not_there_is_named(op: str, made: str, attrs: str, error: str) -> None:
    names = vars(contrib) | globals() | {"ML": "ai.onnx.ml"}
    net, _ = net_of(op, eval(made, names), **eval(f"dict({attrs})", names))
    with pytest.raises(fg.FastgraphError, match=error):
        net.load()
