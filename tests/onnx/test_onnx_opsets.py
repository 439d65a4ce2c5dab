"""Older operator sets mean the same in their newest form: against onnxruntime, by hand where it refuses."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node as node

from tests.onnx.onnx_models import graph_of, info, load, one, ops, run

X = np.random.default_rng(1).normal(size=(2, 3, 4, 5)).astype(np.float32)
ROW = np.array([1.0, -2.0, 3.0], np.float32)
STATS = {"s": ROW, "b": ROW + 1, "m": ROW - 1, "v": ROW**2}
W = np.random.default_rng(2).normal(size=(6, 3, 3, 2)).astype(np.float32)


def ort(model, *arrays):
    model.ir_version = 8
    for output in model.graph.output:
        output.ClearField("type")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)})


NONE = np.zeros(0, np.float32)
PEERS = [  # what operator sets changed, and spatial operators, as they may be of no known rank
    *[("ReduceSum", n, {}, {"axes": [1, -1], "keepdims": k}) for n in (7, 11) for k in (0, 1)],
    *[("ReduceMean", n, {}, {"axes": [2]}) for n in (7, 11, 13, 17)],
    ("ReduceMax", 12, {}, {}),
    ("ReduceL2", 17, {}, {"axes": [0]}),
    *[(op, n, {}, {"axis": a} if a is not None else {})
      for op in ("Softmax", "LogSoftmax", "Hardmax") for n in (7, 11, 12, 13) for a in (None, 0, 1, 2, 3)],
    ("Softmax", 11, {}, {"axis": -2}),
    ("Clip", 7, {}, {"min": -0.5}),
    ("Clip", 10, {}, {"max": 0.5, "min": 0.0}),
    ("Slice", 9, {}, {"starts": [1, -3], "ends": [3, 2**31 - 1], "axes": [1, 3]}),
    ("Slice", 7, {}, {"starts": [0, 1], "ends": [1, 3]}),
    ("Pad", 7, {}, {"pads": [0, 1, 2, 0, 1, 0, 0, 3], "value": 1.5}),
    ("Pad", 10, {}, {"pads": [0, 0, 1, 1, 0, 0, 2, 2], "mode": "reflect"}),
    ("Unsqueeze", 7, {}, {"axes": [0, 3]}),
    ("TopK", 9, {}, {"k": 2, "axis": 1}),
    ("TopK", 10, {"k": np.array([2])}, {"axis": 1}),
    ("Upsample", 7, {}, {"scales": [1.0, 1.0, 2.0, 3.0], "mode": "nearest"}),
    ("Upsample", 9, {"s": np.array([1, 1, 2, 2], np.float32)}, {"mode": "linear"}),
    ("Resize", 10, {"s": np.array([1, 1, 2, 2], np.float32)}, {}),
    ("Resize", 10, {"s": np.array([1, 1, 0.6, 0.6], np.float32)}, {}),
    ("Resize", 10, {"s": np.array([1, 1, 2, 3], np.float32)}, {"mode": "linear"}),
    ("Resize", 11, {"r": NONE, "s": np.array([1, 1, 2, 2], np.float32)}, {"mode": "linear"}),
    *[("BatchNormalization", n, STATS, {"epsilon": 1e-3}) for n in (7, 9, 14, 15)],
    ("Dropout", 7, {}, {"ratio": 0.9}),
    ("Dropout", 12, {"r": np.float32(0.9)}, {}),
    ("Cast", 7, {}, {"to": TensorProto.INT32}),
    ("GlobalMaxPool", 7, {}, {}),
    ("GlobalLpPool", 7, {}, {"p": 1}),
    ("GlobalLpPool", 7, {}, {"p": 3}),
    ("AveragePool", 11, {}, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    ("MaxPool", 12, {}, {"kernel_shape": [2, 2], "dilations": [2, 1]}),
    ("Conv", 11, {"w": W[:, :1], "b": np.arange(6, dtype=np.float32)}, {"group": 3, "dilations": [1, 2]}),
    ("ConvTranspose", 11, {"w": W[:3], "b": np.ones(9, np.float32)}, {"group": 3, "pads": [1, 0, 0, 1]}),
    ("ConvTranspose", 11, {"w": W[:3]}, {"output_shape": [9, 11], "strides": [2, 2]}),
    ("InstanceNormalization", 7, {"s": ROW, "b": ROW}, {}),
    ("LRN", 13, {}, {"size": 5, "bias": 2.0}),
    *[("GroupNormalization", 18, {"s": ROW[:n], "b": ROW[:n] + 1}, {"num_groups": n}) for n in (1, 3)],
    ("Scatter", 9, {"i": np.array([1, 0]).reshape(1, 1, 2, 1), "u": ROW[:2].reshape(1, 1, 2, 1)}, {}),
    ("GridSample", 16, {"g": np.random.default_rng(3).uniform(-1, 1, (2, 2, 2, 2)).astype(np.float32)},
     {"mode": "bilinear"}),
    ("DFT", 17, {}, {"axis": 2}),
    *[("Split", n, {}, {"split": [1, 2], "axis": 1}) for n in (2, 11)],
    ("Split", 13, {"s": np.array([1, 2])}, {"axis": 1}),
    *[("Split", n, {}, {"axis": 2} | ({"num_outputs": 2} if n == 18 else {})) for n in (2, 13, 18)],
]  # fmt: skip


@pytest.mark.parametrize("op, opset, constants, attrs", PEERS, ids=lambda v: str(v)[:24])
@pytest.mark.parametrize("shape", [[2, 3, 4, 5], None], ids=["shaped", "shapeless"])
def test_same_as_onnxruntime(op, opset, constants, attrs, shape):
    x = X[..., :1] if op == "DFT" else X
    inputs = [info("x", None if shape is None else list(x.shape))]
    model = one(op, inputs, opset, constants, {"TopK": 2, "Split": 2}.get(op, 1), **attrs)
    for ours, theirs in zip(run(model, x), ort(model, x), strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)


def check(model, expected, *arrays, exact=False):
    (result,) = run(model, *arrays)
    assert result.shape == expected.shape and result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, 0 if exact else 1e-5, 0 if exact else 1e-6)


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("shape", [[2, 3, 4, 5], None], ids=["shaped", "shapeless"])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("op, f", [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide)])
def test_broadcast_from_an_axis(opset, shape, constant, op, f):
    b = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    inputs = [info("x", shape)] if constant else [info("x", shape), info("b")]
    model = one(op, inputs, opset, {"b": b} if constant else {}, broadcast=1, axis=1)
    check(model, f(X, b[:, :, None]), *([X] if constant else [X, b]))


def test_upgrades_of_opset_1():
    check(one("Add", ["x"], 6, {"b": X[0, 0]}, broadcast=1), X + X[0, 0], X)
    check(one("Reshape", ["x"], 1, shape=[6, -1]), X.reshape(6, 20), X)
    check(one("Concat", ["x", "z"], 1), np.concatenate([X, X], 1), X, X)
    check(one("Clip", ["x"], 1, max=0.5, consumed_inputs=[0]), np.minimum(X, 0.5), X)
    check(one("Cast", ["x"], 1, to="INT32"), X.astype(np.int32), X)
    padded = np.pad(X, [(0, 0), (0, 0), (1, 0), (1, 0)])
    check(one("Pad", ["x"], 1, paddings=[0, 0, 1, 1, 0, 0, 0, 0]), padded, X)
    check(one("Relu", ["x"], 1, consumed_inputs=[0]), np.maximum(X, 0), X)
    check(one("Squeeze", ["x"], 1, axes=[0]), X[0], X[:1])
    check(one("Tile", ["x"], 1, {"t": np.float32(2), "a": np.float32(1)}), np.tile(X, (1, 2, 1, 1)), X)
    check(one("PRelu", ["x"], 1, {"s": ROW}), np.where(X < 0, X * ROW[:, None, None], X), X)
    check(one("PRelu", ["x"], 6, {"s": ROW[:1]}), np.where(X < 0, X * ROW[0], X), X)
    check(one("Dropout", ["x"], 1, is_test=1, ratio=0.9), X, X, exact=True)
    check(one("Dropout", ["x"], 6, ratio=0.9), X, X, exact=True)
    check(one("GlobalLpPool", ["x"], 1, p=2.0), np.sqrt((X**2).sum((2, 3), keepdims=True)), X)
    up = one("Upsample", ["x"], 1, height_scale=2.0, width_scale=3.0, mode="nearest")
    check(up, X.repeat(2, 2).repeat(3, 3), X)
    selu = np.where(X > 0, X, np.float32(1.6732) * (np.exp(X) - 1)) * np.float32(1.0507)
    check(one("Selu", ["x"], 1), selu, X)
    gemm = one("Gemm", ["x"], 6, {"b": W[0, 0], "c": W[0, 0, 0]}, broadcast=1, alpha=2.0)
    check(gemm, 2 * X[0, 0, :, :3] @ W[0, 0] + W[0, 0, 0], X[0, 0, :, :3])


def test_split_of_which_one_part_is_not_used():
    model = one("Split", ["x"], 13, {}, 3, axis=1)
    model.graph.node[0].output[2] = ""
    del model.graph.output[2]
    a, b = run(model, X)
    assert np.array_equal(a, X[:, :1]) and np.array_equal(b, X[:, 1:2])


def test_batch_normalization_of_old_forms():
    scale, b, mean, var = (v[:, None, None] for v in STATS.values())
    plain = (X - mean) / np.sqrt(var + np.float32(1e-5)) * scale + b
    check(one("BatchNormalization", ["x"], 1, STATS, is_test=1, consumed_inputs=[0]), plain, X)
    check(one("BatchNormalization", ["x"], 6, STATS, is_test=0), plain, X)
    full = {k: np.broadcast_to(v[:, None, None], X.shape[1:]) for k, v in STATS.items()}
    check(one("BatchNormalization", ["x"], 7, full, spatial=0), plain, X)


@pytest.mark.parametrize("opset", [7, 13])
def test_batch_normalization_of_more_outputs_trains(opset):
    y, *kept, saved_mean, saved_scale = run(one("BatchNormalization", ["x"], opset, STATS, 5, momentum=0.75), X)
    scale, b, mean, var = (v[:, None, None] for v in STATS.values())
    axes = (0, 2, 3)
    of_batch = X.mean(axes), X.var(axes)
    expected = (X - of_batch[0][:, None, None]) / np.sqrt(of_batch[1][:, None, None] + 1e-5) * scale + b
    np.testing.assert_allclose(y, expected, 1e-5, 1e-5)
    for found, old, new in zip(kept, (mean, var), of_batch, strict=True):
        np.testing.assert_allclose(found, old.ravel() * 0.75 + new * 0.25, 1e-5)
    np.testing.assert_allclose(saved_mean, of_batch[0], 1e-5)
    np.testing.assert_allclose(saved_scale, 1 / np.sqrt(of_batch[1] + 1e-5), 1e-5)  # as onnxruntime has it


def test_scan_of_opset_8_runs_every_member_of_the_batch():
    body = graph_of(
        [node("Add", ["s", "v"], ["t"]), node("Identity", ["t"], ["u"])], [info("s", [2]), info("v", [2])], ["t", "u"]
    )
    model = one("Scan", ["", info("s0", [3, 2]), info("xs", [3, 4, 2])], 8, {}, 2, body=body, num_scan_inputs=1)
    start, steps = np.ones((3, 2), np.float32), np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    final, stacked = run(model, start, steps)
    assert np.array_equal(stacked, 1 + np.cumsum(steps, 1)) and np.array_equal(final, stacked[:, -1])


def test_softmax_needs_no_reshape_where_it_means_the_same():
    flat = one("Softmax", [info("x", ["n", 10])], 11)
    assert ops(load(flat)) == ["softmax"]
    assert ops(load(one("Softmax", ["x"], 11, axis=-1))) == ["softmax"]


@pytest.mark.parametrize("op, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_defaults(op, gates, direction):
    d, hidden = 1 + (direction == "bidirectional"), 5
    rng = np.random.default_rng(0)
    w = rng.normal(size=(d, gates * hidden, 3)).astype(np.float32)
    r = rng.normal(size=(d, gates * hidden, hidden)).astype(np.float32)
    x = rng.normal(size=(4, 2, 3)).astype(np.float32)
    model = one(op, [info("x", [4, 2, 3])], 7, {"w": w, "r": r}, 2, hidden_size=hidden, direction=direction)
    for ours, theirs in zip(run(model, x), ort(model, x), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)
    model.graph.node[0].ClearField("attribute")
    model.graph.node[0].attribute.append(helper.make_attribute("direction", direction))
    node = load(model).nodes[0]
    assert node.attrs["hidden_size"] == hidden
    assert len(node.attrs["activations"]) == d * {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
