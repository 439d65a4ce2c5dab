"""Rules of rarer operators: indices that are wrong at run time, open extents, integers that stay, bad parameters."""

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.errors import InputError, ModelError, UnsupportedError
from fastgraph.frontends import read
from fastgraph.plan.program import HostStep
from tests.mil.mil_write import Program
from tests.mil.test_mil_rules import NAMES, model, normal, run
from tests.tables import entries

X = np.arange(24, dtype=np.float32).reshape(4, 6)


# -- indices


def indexed(kind: str, shape: Any, made: Any, **params: Any) -> fg.Model:
    """A program that reads X at the indices that it is fed."""
    p = Program()
    p.input("x", (4, 6))
    p.input("i", shape, "INT32")
    p.output(p.op(kind, "y", ("FLOAT32", made), x="x", indices="i", **params))
    return fg.load(p.zip(), threads=1)


@pytest.mark.parametrize("validate", [False, True])
@pytest.mark.parametrize(
    "kind, shape, made, good, bad",
    [
        ("gather", (2,), (2, 6), [3, 0], [4, 0]),
        ("gather_nd", (2, 2), (2,), [[3, 5], [0, 0]], [[3, 6], [0, 0]]),
        ("gather_along_axis", (1, 6), (1, 6), [[0, 1, 2, 3, 0, 1]], [[0, 1, 2, 3, 4, 1]]),
    ],
)
def test_indices_out_of_range(kind: str, shape: Any, made: Any, good: Any, bad: Any, validate: bool) -> None:
    params = {} if kind == "gather_nd" else {"axis": np.int32(0)}
    found = indexed(kind, shape, made, validate_indices=np.bool_(validate), **params)
    assert found.run({"x": X, "i": np.int32(good)})["y"].shape == made
    with pytest.raises(InputError, match="out of range|outside|out of bounds|indices must be from"):
        found.run({"x": X, "i": np.int32(bad)})
    below = np.int32(good) - 4
    if validate:
        with pytest.raises(InputError, match="checked_indices takes (0 to|places of)"):
            found.run({"x": X, "i": below})


def test_indices_out_of_range_of_lists() -> None:
    p = Program()
    p.input("i", (1,), "INT32")
    place = p.op("squeeze", "place", ("INT32", ()), x="i")
    ls = _list(p, length=3)
    p.output(p.op("list_read", "y", ("FLOAT32", (2,)), ls=ls, index=place))
    found = fg.load(p.zip(), threads=1)
    assert np.array_equal(found.run({"i": np.int32([2])})["y"], [0, 0])
    for place_ in (3, -1):
        with pytest.raises(InputError, match="checked_indices takes 0 to 2"):
            found.run({"i": np.int32([place_])})


def _list(p: Program, length: int) -> str:
    kind = p.now.operations.add(type="const").outputs.add(name="unused").type
    del p.now.operations[-1]
    kind.listType.type.tensorType.dataType = 11
    kind.listType.type.tensorType.rank = 1
    kind.listType.type.tensorType.dimensions.add().constant.size = 2
    kind.listType.length.constant.size = length
    told = {"init_length": np.int32(length), "elem_shape": [np.int32(2)], "dynamic_length": np.bool_(False)}
    return p.op("make_list", "ls", kind, dtype=p.const("fp32"), **told)


# -- open extents


def test_open_images_are_resized() -> None:
    x, shape = normal(1, 2, 5, 7), (1, 2, None, None)
    for kind, factor in (("upsample_nearest_neighbor", 2.0), ("upsample_bilinear", 3.0)):
        told = {"scale_factor_height": np.float32(factor), "scale_factor_width": np.float32(1.5)}
        assert run(model(kind, {"x": shape}, shape, x="x", **told), x=x).shape == (1, 2, int(5 * factor), 10)
    told = {"shape": np.int32([3, 0]), "resized_dims": np.uint32(2), "interpolation_mode": "NEAREST_NEIGHBOR"}
    found = run(model("resize", {"x": shape}, (1, 2, 3, None), x="x", **told), x=x)
    np.testing.assert_array_equal(found, x[:, :, [0, 2, 4]])


def test_open_sequences() -> None:
    x, shape = normal(2, 9, 3), (2, None, 3)
    told = {"axis": np.int32(1), "size": np.int32(4), "stride": np.int32(2)}
    found = run(model("sliding_windows", {"x": shape}, (2, None, 4, 3), x="x", **told), x=x)
    np.testing.assert_array_equal(found, np.stack([x[:, i : i + 4] for i in (0, 2, 4)], 1))
    told = dict.fromkeys(("query", "key", "value"), "x")
    found = run(model("scaled_dot_product_attention", {"x": shape}, shape, "CoreML8", **told), x=x)
    scores = np.exp(x @ x.transpose(0, 2, 1) / np.sqrt(3))
    np.testing.assert_allclose(found, scores / scores.sum(-1, keepdims=True) @ x, rtol=1e-4, atol=1e-5)
    lstm = dict.fromkeys(("initial_h", "initial_c"), np.zeros((9, 2), "f4"))
    lstm |= {"weight_ih": normal(8, 3), "weight_hh": normal(8, 2)}
    assert run(model("lstm", {"x": (None, 9, 3)}, (1, 9, 2), x="x", **lstm), x=x).shape == (1, 9, 2)


# -- integers


def _quantized(p: Program, name: str, x: str, shape: Any, scale: float) -> str:
    how = {"scale": np.float32(scale), "zero_point": np.int8(0)}
    q = p.op("quantize", f"{name}_q", ("INT8", shape), input=x, output_dtype=p.const("int8"), **how)
    return p.op("dequantize", name, ("FLOAT32", shape), input=q, **how)


def test_a_quantized_convolution_runs_on_integers() -> None:
    w = np.random.default_rng(0).integers(-127, 128, (16, 16, 3, 3)).astype(np.int8)
    p = Program("CoreML8")
    p.input("x", (1, 16, 12, 12))
    x = _quantized(p, "xq", "x", (1, 16, 12, 12), 0.05)
    weight = p.op(
        "constexpr_blockwise_shift_scale", "w", ("FLOAT32", w.shape), data=w, scale=np.full((16, 1, 1, 1), 0.01, "f4")
    )
    y = p.op("conv", "c", ("FLOAT32", (1, 16, 10, 10)), x=x, weight=weight, pad_type=p.const("valid"))
    p.output(_quantized(p, "y", y, (1, 16, 10, 10), 0.5))
    found = fg.load(p.zip(), threads=1)
    steps = {step.node.op: step for step in found.plan.program.steps}
    conv = steps["conv"].node
    assert [v.type.dtype for v in (conv.x, conv.inputs[1], conv.out)] == [np.uint8, np.int8, np.uint8]
    assert not any(isinstance(step, HostStep) for step in steps.values())
    given = normal(1, 16, 12, 12)
    stored = np.clip(np.rint(given / np.float32(0.05)), -128, 127)
    window = np.lib.stride_tricks.sliding_window_view(stored, (3, 3), (2, 3))
    sums = np.einsum("nchwij,ocij->nohw", window, w.astype(float))
    want = np.clip(np.rint(sums * 0.05 * 0.01 / 0.5), -128, 127) * 0.5
    np.testing.assert_allclose(found.run({"x": given})["y"], want, atol=0.5001)
    assert np.mean(found.run({"x": given})["y"] == want) > 0.99


def test_integer_weights_stay_integers_in_the_graph() -> None:
    w = np.random.default_rng(0).integers(0, 255, (6, 5)).astype(np.uint8)
    graph = read(model("linear", {"x": (2, 5)}, (2, 6), x="x", weight=w.astype("f4")))
    assert not any(v.type.quant for node in graph.nodes for v in node.inputs if v is not None)
    p = Program("CoreML6")
    p.input("x", (2, 5))
    zero = np.arange(6, dtype=np.uint8)
    told = {"quantized_data": w, "zero_point": zero, "scale": np.float32(0.5), "axis": np.int32(0)}
    weight = p.op("constexpr_affine_dequantize", "w", ("FLOAT32", (6, 5)), **told)
    p.output(p.op("linear", "y", ("FLOAT32", (2, 6)), x="x", weight=weight))
    graph = read(p.zip())
    kept = [v for node in graph.nodes for v in node.inputs if v is not None and v.type.quant is not None]
    assert [v.type.dtype for v in kept] == [np.uint8]
    x = normal(2, 5)
    want = x @ (0.5 * (w.astype("f4") - zero[:, None])).T
    np.testing.assert_allclose(run(p.zip(), x=x), want, rtol=1e-5, atol=1e-4)


# -- what is wrong


BAD = """
resize_bilinear | (1, 2, 3, 3) | dict(target_size_height=i(0)) | sizes from 1
crop | (1, 2, 3, 3) | dict(crop_height=i([0, -1]), crop_width=i([0, 0])) | from 0 on
upsample_bilinear | (1, 2, 3, 3) | dict(scale_factor_height=f(-1)) | above 0
topk | (1, 2) | dict(k=i(3)) | k 3 must be
sliding_windows | (1, 9) | dict(axis=i(1), size=i(10)) | found 10
gather | (4, 5) | dict(indices=i([4]), axis=i(0)) | 4 is outside
rnn | (1, 1, 2) | dict(initial_h=f([[0, 0]]), weight_ih=np.zeros((3, 2), "f4"), weight_hh=np.zeros((2, 2), "f4")) |
  parts for 2 states
lstm | (1, 1, 2) | dict(weight_hh=f([1])) | weight_hh
quantize | (1, 2) | dict(input="x", scale=f([1, 2, 3]), axis=i(1), output_dtype="int8") | 2 places
constexpr_lut_to_dense | | dict(indices=np.uint8([1]), lut=np.zeros(3, "f4"), shape=np.uint32([4])) | palette
constexpr_lut_to_dense | | dict(indices=np.uint8([9]), lut=np.zeros((1, 4, 1), "f4")) | found 9
constexpr_sparse_to_dense | | dict(nonzero_data=np.zeros(3, "f4"), mask=np.uint8([1, 0])) | for each of 1
constexpr_blockwise_shift_scale | | dict(data=np.zeros((4, 4), "i1"), scale=np.ones((3, 1), "f4")) | blocks
non_maximum_suppression | (1, 4, 4) | dict(boxes="x", scores="x", max_boxes=i(-1), iou_threshold=f(0)) | max_boxes
"""


@pytest.mark.parametrize("kind, shape, params, match", entries(BAD))
def test_bad_parameters_are_named(kind: str, shape: str, params: str, match: str) -> None:
    given = {"x": eval(shape)} if shape else {}
    data = model(kind, given, (1,), "CoreML7", **{key: key for key in given}, **eval(params, NAMES))
    with pytest.raises((ModelError, UnsupportedError), match=match):
        read(data)


def test_an_einsum_of_one_operand() -> None:
    data = model("einsum", {"x": (1, 9)}, (), values=["x"], equation="ab->")
    assert run(data, x=np.ones((1, 9), "f4")) == 9
