"""Small quantized networks, as converters write them: `TFLITE[name](m)` writes one into a `Model` and gives its
outputs, `QDQ[name](net)` writes one into a `Net`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.circle.write import Model
from tests.nets import F32, I64, Net

Quant = tuple[Any, Any] | tuple[Any, Any, int]

TFLITE: dict[str, Callable[[Model], list[int]]] = {}
QDQ: dict[str, Callable[[Net], None]] = {}

I8, U8 = np.dtype(np.int8), np.dtype(np.uint8)
X, Y, Z = (0.0213, 3), (0.0497, -7), (0.0307, -128)
"""Scales and zero points of activations. No scale is near a simple multiple of another: sums would be ties."""


def tflite(build: Callable[[Model], list[int]]) -> Callable[[Model], list[int]]:
    TFLITE[build.__name__] = build
    return build


def qdq(build: Callable[[Net], None]) -> Callable[[Net], None]:
    QDQ[build.__name__] = build
    return build


# -- TensorFlow Lite: values are integers, with a scale and a zero point of their own


def stored(m: Model, shape: tuple[int, ...], axis: int | None = 0) -> tuple[int, np.ndarray]:
    """int8 weights with a scale for each index of an axis, or one; and the scales."""
    rng = np.random.default_rng(len(m.buffers))
    scales = rng.uniform(0.002, 0.01, 1 if axis is None else shape[axis]).astype(F32)
    zeros = np.zeros(scales.size, np.int64)
    quant = (scales, zeros) if axis is None else (scales, zeros, axis)
    return m.const(rng.integers(-127, 128, shape).astype(np.int8), quant), scales


def bias(m: Model, count: int, units: np.ndarray) -> int:
    """int32, in units of the sums."""
    numbers = np.random.default_rng(len(m.buffers)).integers(-2000, 2000, count)
    return m.const(numbers.astype(np.int32), (units.astype(F32), np.zeros(units.size, np.int64), 0))


def window(stride: int) -> dict[str, Any]:
    """Options of a convolution."""
    return {"padding": "SAME", "stride_h": stride, "stride_w": stride, "dilation_h_factor": 1, "dilation_w_factor": 1}


def ints(m: Model, *values: Any) -> int:
    return m.const(np.array(values, np.int32))


def conv(m: Model, x: int, c: int, o: int, k: int, take: Quant, give: Quant, size: int = 6, **options: Any) -> int:
    w, scales = stored(m, (o, k, k, c))
    inputs = [x, w, bias(m, o, scales * take[0])]
    return m.op("CONV_2D", inputs, [((1, size, size, o), I8, give)], **window(1), **options)[0]


def dense(m: Model, x: int, rows: int, c: int, o: int, take: Quant, give: Quant, **options: Any) -> int:
    w, scales = stored(m, (o, c), None)
    return m.op("FULLY_CONNECTED", [x, w, bias(m, o, scales * take[0])], [((rows, o), I8, give)], **options)[0]


@tflite
def int8_conv_relu(m: Model) -> list[int]:
    """The clamp is an operator of its own: it goes into the store of the layer before it."""
    y = conv(m, m.input((1, 6, 6, 3), I8, X, "x"), 3, 8, 3, X, Y)
    clamped = m.op("RELU", [y], [((1, 6, 6, 8), I8, Y)])[0]
    return [conv(m, clamped, 8, 4, 1, Y, Z, fused_activation_function="RELU6")]


@tflite
def int8_depthwise(m: Model) -> list[int]:
    """Zeros are put around a map whose zero point is not 0."""
    x = m.input((1, 6, 6, 8), I8, X, "x")
    around = m.op("PAD", [x, ints(m, (0, 0), (1, 1), (1, 1), (0, 0))], [((1, 8, 8, 8), I8, X)])[0]
    w, scales = stored(m, (1, 3, 3, 8), 3)
    options = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "depth_multiplier": 1}
    inputs = [around, w, bias(m, 8, scales * X[0])]
    return m.op("DEPTHWISE_CONV_2D", inputs, [((1, 6, 6, 8), I8, Y)], fused_activation_function="RELU", **options)


@tflite
def int8_residual(m: Model) -> list[int]:
    x = m.input((1, 6, 6, 8), I8, X, "x")
    y = conv(m, conv(m, x, 8, 8, 3, X, Z, fused_activation_function="RELU"), 8, 8, 3, Z, Y)
    total = m.op("ADD", [y, x], [((1, 6, 6, 8), I8, Z)], fused_activation_function="RELU")[0]
    return [conv(m, total, 8, 4, 1, Z, Y)]


@tflite
def int8_concat(m: Model) -> list[int]:
    """Branches of three scales, joined in a fourth."""
    x = m.input((1, 6, 6, 8), I8, X, "x")
    pooled = m.op(
        "MAX_POOL_2D", [x], [((1, 6, 6, 8), I8, X)],
        padding="SAME", stride_h=1, stride_w=1, filter_height=3, filter_width=3,
    )[0]  # fmt: skip
    branches = [pooled, conv(m, x, 8, 8, 1, X, Y), conv(m, x, 8, 8, 3, X, Z)]
    other = [m.op("QUANTIZE", [b], [((1, 6, 6, 8), I8, (0.0611, 1))])[0] for b in branches]
    joined = m.op("CONCATENATION", other, [((1, 6, 6, 24), I8, (0.0611, 1))], axis=3)[0]
    return [conv(m, joined, 24, 4, 1, (0.0611, 1), Y)]


@tflite
def int8_classifier(m: Model) -> list[int]:
    """Mean, layer and softmax: signed bytes at the edge, one row of results."""
    x = m.input((1, 6, 6, 16), I8, X, "x")
    mean = m.op("MEAN", [x, ints(m, 1, 2)], [((1, 16), I8, X)], keep_dims=False)[0]
    logits = dense(m, mean, 1, 16, 10, X, Y)
    return m.op("SOFTMAX", [logits], [((1, 10), I8, (1 / 256, -128))], beta=1.0)


@tflite
def int16_mean(m: Model) -> list[int]:
    """Means of words, whose halves are rounded away from 0."""
    x = m.input((1, 6, 6, 3), np.dtype(np.int16), (0.002, 0), "x")
    window = {"stride_h": 2, "stride_w": 2, "filter_height": 3, "filter_width": 3}
    return m.op("AVERAGE_POOL_2D", [x], [((1, 3, 3, 3), np.dtype(np.int16), (0.002, 0))], padding="SAME", **window)


@tflite
def int8_row_at_the_edge(m: Model) -> list[int]:
    """A layer of one row reads the input's signed bytes, and writes the output's."""
    return [dense(m, m.input((1, 16), I8, X, "x"), 1, 16, 10, X, Y)]


@tflite
def int8_functions(m: Model) -> list[int]:
    """x * sigmoid(x), twice: one table each, of 256 numbers."""
    x, at, gate = m.input((1, 4, 4, 8), I8, X, "x"), X, (1 / 256, -128)
    for give in (Y, (0.0391, -100)):
        sigmoid = m.op("LOGISTIC", [x], [((1, 4, 4, 8), I8, gate)])[0]
        x = m.op("MUL", [x, sigmoid], [((1, 4, 4, 8), I8, give)])[0]
        x, at = conv(m, x, 8, 8, 1, give, at, 4), at
    return [x]


@tflite
def int8_dynamic_range(m: Model) -> list[int]:
    """Float activations, int8 weights: layers round what they read by its range at run time."""
    x = m.input((1, 6, 6, 3), name="x")
    w, _ = stored(m, (8, 3, 3, 3))
    b = m.const(np.linspace(-1, 1, 8, dtype=F32))
    y = m.op("CONV_2D", [x, w, b], [(1, 3, 3, 8)], fused_activation_function="RELU", **window(2))[0]
    flat = m.op("RESHAPE", [y, ints(m, 1, 72)], [(1, 72)], new_shape=[1, 72])[0]
    return m.op("FULLY_CONNECTED", [flat, stored(m, (10, 72), None)[0], None], [(1, 10)])


@tflite
def int8_blocks_as_batches(m: Model) -> list[int]:
    """A dilated convolution as TensorFlow wrote it, and a slice that drops an axis."""
    x = m.input((1, 6, 6, 4), I8, X, "x")
    block, around = ints(m, 2, 2), ints(m, (0, 0), (0, 0))
    parts = m.op("SPACE_TO_BATCH_ND", [x, block, around], [((4, 3, 3, 4), I8, X)])[0]
    w, scales = stored(m, (4, 3, 3, 4))
    y = m.op("CONV_2D", [parts, w, bias(m, 4, scales * X[0])], [((4, 3, 3, 4), I8, Y)], **window(1))[0]
    whole = m.op("BATCH_TO_SPACE_ND", [y, block, around], [((1, 6, 6, 4), I8, Y)])[0]
    begin, end, steps = (ints(m, *v) for v in ((0, 1, 0, 0), (1, 2, 6, 4), (1, 1, 2, 1)))
    return m.op("STRIDED_SLICE", [whole, begin, end, steps], [((1, 3, 4), I8, Y)], shrink_axis_mask=2)


@tflite
def filters_that_remember(m: Model) -> list[int]:
    """What new values are put behind is a variable."""
    x = m.input((1, 6), I8, X)
    (feature, scales), time = stored(m, (8, 6), None), np.random.default_rng(1).integers(-9000, 9000, (8, 4))
    times, state = m.const(time.astype(np.int16), (2.0**-12, 0)), (float(scales[0] * X[0]) * 16, 0)
    total = m.const(np.arange(1, 5, dtype=np.int32) * 2_000_000, (state[0] * 2.0**-12, 0))
    inputs = [x, feature, times, total, m.variable((1, 32), np.int16, state)]
    return m.op("SVDF", inputs, [((1, 4), I8, Z)], rank=2, fused_activation_function="RELU")


@tflite
def projected_lstm(m: Model) -> list[int]:
    """Gates that are normalized, an output that is rounded before its projection."""
    rng, (steps, features, units, width), state = np.random.default_rng(2), (3, 5, 6, 4), (1 / 128, -2)
    inputs: list[int | None] = [m.input((1, steps, features), I8, X)]
    inputs += [stored(m, (units, features), None)[0] for _ in range(4)]
    inputs += [stored(m, (units, width), None)[0] for _ in range(4)]
    inputs += [None] * 3
    inputs += [m.const(rng.integers(-9000, 9000, units).astype(np.int32), (2.0**-25, 0)) for _ in range(4)]
    inputs.append(m.const(rng.integers(-127, 128, (width, units)).astype(np.int8), (0.003, 0)))
    inputs.append(bias(m, width, np.array([0.003 / 120])))
    inputs += [m.variable((1, width), I8, state), m.variable((1, units), np.int16, (2.0**-11, 0))]
    inputs += [m.const(rng.integers(9000, 30000, units).astype(np.int16), (2.0**-15, 0)) for _ in range(4)]
    between = [m.tensor((1,), np.int16, (2.0**-12, 0)) for _ in range(4)] + [m.tensor((1,), I8, (1 / 120, 5))]
    return m.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [((1, steps, width), I8, state)], intermediates=between,
                fused_activation_function="TANH")  # fmt: skip


@tflite
def stored_weights_at_run_time(m: Model) -> list[int]:
    """A depthwise layer of bytes that are fed."""
    x, w = m.input((1, 4, 4, 2), np.uint8, (0.05, 120), "x"), m.input((1, 2, 2, 2), np.uint8, (0.02, 100), "w")
    shape = {"stride_w": 2, "stride_h": 2, "padding": "VALID", "depth_multiplier": 1}
    b = m.const(np.array([40, -7], np.int32), (0.001, 0))
    return m.op("DEPTHWISE_CONV_2D", [x, w, b], [((1, 2, 2, 2), np.uint8, (0.1, 128))], **shape)


@tflite
def grades(m: Model) -> list[int]:
    """Between which boundaries a number lies."""
    x = m.input((2, 5), name="x")
    return m.op("BUCKETIZE", [x], [((2, 5), np.int32)], boundaries=[-0.5, 0.0, 1.25])


@tflite
def trained_for_8_bits(m: Model) -> list[int]:
    """Floats that are as far from each other as they will be when quantized."""
    x = m.input((1, 4, 4, 3), name="x")
    return m.op("FAKE_QUANT", [x], [(1, 4, 4, 3)], min=-1.3, max=2.1, num_bits=8)


# -- ONNX: pairs of QuantizeLinear and DequantizeLinear around real operators


def pair(net: Net, x: str, scale: float, zero: int, dtype: Any = U8) -> str:
    """What is left of x after 8 bits."""
    return real(net, number(net, x, scale, zero, dtype), scale, zero, dtype)


def number(net: Net, x: str, scale: float, zero: int, dtype: Any = U8) -> str:
    return net("QuantizeLinear", x, F32.type(scale), net.const(zero, dtype))


def real(net: Net, x: str, scale: float, zero: int, dtype: Any = U8) -> str:
    return net("DequantizeLinear", x, F32.type(scale), net.const(zero, dtype))


def weights(net: Net, *shape: int, dtype: Any = I8, axis: int | None = 0) -> str:
    """The reals of stored weights, with a scale for each index of an axis, or one."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    data = net.const(net.rng.integers(low + 1, high + 1, shape), dtype)
    count = () if axis is None else (shape[axis],)
    scales = net.const(net.rng.uniform(0.002, 0.01, count).astype(F32))
    zeros = net.const(np.full(count, (low + high + 1) // 2), dtype)
    return net("DequantizeLinear", data, scales, zeros, **({} if axis is None else {"axis": axis}))


@qdq
def qdq_conv_relu(net: Net) -> None:
    """Floats in and out."""
    x = pair(net, net.input("x", (1, 3, 6, 6)), 0.0213, 120)
    y = net("Relu", net("Conv", x, weights(net, 8, 3, 3, 3), net.weight(8), pads=[1, 1, 1, 1]))
    net.output(pair(net, y, 0.0307, 0))


@qdq
def qdq_residual(net: Net) -> None:
    x = pair(net, net.input("x", (1, 8, 6, 6)), 0.0213, 120)
    y = pair(net, net("Conv", x, weights(net, 8, 8, 3, 3), pads=[1, 1, 1, 1]), 0.0497, 128)
    z = pair(net, net("Relu", pair(net, net("Add", y, x), 0.0391, 110)), 0.0391, 110)
    net.output(pair(net, net("Conv", z, weights(net, 4, 8, 1, 1)), 0.0497, 128))


@qdq
def qdq_moves(net: Net) -> None:
    """A transpose that changes the scale, a move of reals, a concat of two scales, a pad whose fill has no byte."""
    x = number(net, net.input("x", (1, 4, 6, 6)), 0.0213, 120)
    turned = number(net, net("Transpose", real(net, x, 0.0213, 120), perm=[0, 1, 3, 2]), 0.0497, 128)
    sliced = [net.const(np.array(v, I64)) for v in ([0], [3], [1])]
    part = net("Slice", real(net, x, 0.0213, 120), *sliced)
    joined = number(net, net("Concat", real(net, turned, 0.0497, 128), part, axis=1), 0.0307, 100)
    pads = net.const(np.array([0, 0, 1, 1, 0, 0, 1, 1], I64))
    around = net("Pad", real(net, joined, 0.0307, 100), pads, F32.type(-100))
    net.output(pair(net, net("MaxPool", around, kernel_shape=[2, 2]), 0.0307, 100))
    net.output(net("Exp", part))


@qdq
def qdq_weights(net: Net) -> None:
    """Weights of uint8, weights that are transposed, and weights that are only stored in bytes."""
    x = pair(net, net.input("x", (3, 16)), 0.0213, 120)
    y = pair(net, net("MatMul", x, weights(net, 16, 12, dtype=U8, axis=None)), 0.0497, 128)
    turned = net("Transpose", weights(net, 10, 12, axis=0), perm=[1, 0])
    z = net("MatMul", y, turned)
    net.output(net("MatMul", z, weights(net, 10, 5, axis=1)))


@qdq
def qdq_functions(net: Net) -> None:
    """A function of one byte, a sum with a clamp, a test for NaN, and elementwise work of two values."""
    x = pair(net, net.input("x", (2, 12)), 0.0291, 128)
    gate = pair(net, net("Sigmoid", x), 1 / 256, 0)
    y = pair(net, net("Mul", x, gate), 0.0203, 14)
    other = pair(net, net.input("y", (2, 12)), 0.0113, 7)
    other = pair(net, net("Where", net("IsNaN", other), F32.type(0), other), 0.0113, 7)
    total = pair(net, net("Relu", pair(net, net("Add", y, other), 0.0389, 90)), 0.0389, 90)
    net.output(pair(net, net("Sub", total, other), 0.0497, 128))


def factors(net: Net, x: str, w: np.ndarray, op: str, scales: np.ndarray, zero: int | None = None, **attrs: Any) -> str:
    """As onnxruntime's quantize_dynamic writes a product."""
    q, s, z = net("DynamicQuantizeLinear", x, outputs=3)
    kind = I8 if zero is None else U8
    points = [] if zero is None else [net.const(np.array(zero, kind))]
    product = net("Cast", net(op, q, net.const(w, kind), z, *points, **attrs), to=1)
    return net("Mul", product, net("Mul", s, scales.astype(F32)))


@qdq
def qdq_dynamic(net: Net) -> None:
    """A convolution and a product of matrices."""
    x = net.input("x", (1, 4, 6, 6))
    w = net.rng.integers(-127, 128, (8, 4, 3, 3))
    y = net("Relu", factors(net, x, w, "ConvInteger", np.array(0.004), pads=[1, 1, 1, 1]))
    y, w = net("Flatten", net("GlobalAveragePool", y)), net.rng.integers(-127, 128, (8, 10))
    net.output(factors(net, y, w, "MatMulInteger", net.rng.uniform(0.01, 0.02, 10)))


@qdq
def qdq_dynamic_groups(net: Net) -> None:
    """Groups of a batch, and a depthwise convolution, whose weights are u8."""
    x, one = net.input("x", (2, 8, 6, 6)), np.array(0.004)
    y = factors(net, x, net.rng.integers(0, 256, (8, 4, 3, 3)), "ConvInteger", one, 120, pads=[1, 1, 1, 1], group=2)
    y = net("Relu", net("Add", y, net.weight(1, 8, 1, 1)))
    y = factors(net, y, net.rng.integers(0, 256, (8, 1, 3, 3)), "ConvInteger", one, 131, pads=[1, 1, 1, 1], group=8)
    net.output(net("Relu", net("Add", y, net.weight(1, 8, 1, 1))))


@qdq
def qoperator_residual(net: Net) -> None:
    """As onnxruntime writes it in operators on integers; between them bytes are moved, and the greatest taken."""

    def linear(scale: float, zero: int) -> list[str]:
        return [net.const(np.float32(scale)), net.const(np.array(zero, U8))]

    def layer(x: str, take: list[str], give: list[str], c: int, o: int, k: int) -> str:
        w = [
            net.const(net.rng.integers(-127, 128, (o, c, k, k)), I8),
            net.const(net.rng.uniform(0.002, 0.01, o).astype(F32)),
        ]
        bias = net.const(net.rng.integers(-2000, 2000, o), np.int32)
        zeros = net.const(np.zeros(o), I8)
        return net("QLinearConv", x, *take, *w, zeros, *give, bias, pads=[k // 2] * 4)

    first, second, third = linear(0.0213, 120), linear(0.0497, 128), linear(0.0391, 110)
    x = net("QuantizeLinear", net.input("x", (1, 8, 6, 6)), *first)
    total = net("QLinearAdd", layer(x, first, second, 8, 8, 3), *second, x, *first, *third, domain="com.microsoft")
    pooled = net("MaxPool", total, kernel_shape=[2, 2], strides=[2, 2])
    y = net("Flatten", layer(pooled, third, second, 8, 4, 1))
    w = [net.const(net.rng.integers(-127, 128, (10, 36)), I8), *linear(0.004, 0)[:1], net.const(np.array(0), I8)]
    bias = net.const(net.rng.integers(-2000, 2000, 10), np.int32)
    y = net("QGemm", y, *second, *w, bias, *third, domain="com.microsoft", transB=1)
    net.output(net("DequantizeLinear", y, *third))


@qdq
def computed_scales(net: Net) -> None:
    """What no constant says the reals of: bytes of rows, products of them, images."""
    scale, zero = net("Exp", net.input("s", ())), net("Cast", net("Exp", net.input("z", ())), to=2)
    y = net("QuantizeLinear", net.input("x", (4, 6)), scale, zero)
    product = net("MatMulInteger", y, net("Transpose", y, perm=[1, 0]), zero, zero)
    linear = net("QLinearMatMul", y, scale, zero, net("Transpose", y, perm=[1, 0]), scale, zero, scale, zero)
    rows = net("DequantizeLinear", linear, scale, zero)
    image = net("Reshape", y, [1, 2, 3, 4])
    window = net("Reshape", net("Slice", y, *(np.array(v, I64) for v in ([0], [4], [1]))),
                 [2, 2, 2, 2])  # fmt: skip
    found = net("ConvInteger", image, window, zero, zero)
    stored = net("QLinearConv", image, scale, zero, window, scale, zero, scale, zero)
    net.output(rows, net("Cast", product, to=1), net("Cast", found, to=1), net("DequantizeLinear", stored, scale, zero))


@qdq
def qdq_whole_numbers(net: Net) -> None:
    """Rounding by range, and products of integers, that no layer takes in."""
    y, scale, zero = net("DynamicQuantizeLinear", net.input("x", (3, 16)), outputs=3)
    product = net("MatMulInteger", y, net.const(net.rng.integers(-127, 128, (16, 10)), I8), zero)
    net.output(net("Cast", product, to=1), scale)


@qdq
def blocks_of_bytes(net: Net) -> None:
    """A layer whose weights have a scale for each block of rows."""
    net.opset = 21
    w = net.const(net.rng.integers(-128, 128, (64, 16)), I8)
    scale, zero = net.const(net.rng.uniform(0.01, 0.02, (2, 16)).astype(F32)), net.const(np.ones((2, 16)), I8)
    real = net("DequantizeLinear", w, scale, zero, axis=0, block_size=32)
    net.output(net("Relu", net("Add", net("MatMul", net.input("x", (3, 64)), real), net.weight(16))))


@qdq
def bytes_of_one_row(net: Net) -> None:
    """A layer of one row whose weights alone are stored in bytes, so many that it reads them as they are."""
    w, scale = net.const(net.rng.integers(-128, 128, (256, 260)), I8), net.const(np.full(260, 0.01, F32))
    real = net("DequantizeLinear", w, scale, net.const(np.zeros(260), I8), axis=1)
    net.output(net("Add", net("MatMul", net.input("x", (1, 256)), real), net.weight(260)))
