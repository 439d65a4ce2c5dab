"""Nodes that make no sense are refused by inference, with the operator and what was expected in the message."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.errors import FastgraphError, ModelError, UnsupportedError
from fastgraph.ir import UNKNOWN, Graph, Node, TensorType, Value
from fastgraph.ops import OPS
from fastgraph.ops.evaluate import evaluate, fold, infer_node
from fastgraph.ops.registry import REQUIRED

F32, F16 = np.dtype(np.float32), np.float16


def tensor(*shape: Any, dtype: Any = F32) -> Value:
    return Value("x", TensorType(np.dtype(dtype), shape))


def const(*numbers: Any, dtype: Any = np.int64) -> Value:
    return Value.constant("c", np.array(numbers, dtype))


WRONG = [
    ("conv", [tensor(1, 8, 8, 3), tensor(4, 3, 3, 2)], {}, "channels"),
    ("conv", [tensor(1, 8, 8, 3), tensor(4, 3, 3)], {}, "same rank"),
    ("conv", [tensor(1, 2, 2, 3), tensor(4, 3, 3, 3)], {}, "exceeds"),
    ("conv", [tensor(1, 8, 8, 3), tensor(4, 3, 3, 3)], {"strides": (0, 1)}, "strides"),
    ("conv", [tensor(1, 8, 8, 3), tensor(4, 3, 3, 3)], {"pads": (1, 1)}, "pads"),
    ("conv", [tensor(1, 8, 8, 4), tensor(5, 3, 3, 2)], {"groups": 2}, "groups"),
    ("conv", [tensor(1, 8, 8, 3), tensor(4, 3, 3, 3), tensor(5)], {}, "bias"),
    ("conv", [tensor(1, 8, 8, 3)], {}, "2 to 3 inputs"),
    ("conv_transpose", [tensor(1, 2, 3), tensor(4, 3, 3)], {"pads": (9, 9)}, "negative extent"),
    ("bit_shift", [const(1), const(1)], {"direction": "bogus"}, "direction must be one of LEFT, RIGHT"),
    ("max_pool", [tensor(1, 4, 4, 3)], {}, "kernel_shape is missing"),
    ("max_pool", [tensor(1, 4, 3)], {"kernel_shape": (2, 2)}, "rank 4"),
    ("average_pool", [tensor(1, 4, 4, 3)], {"kernel_shape": (2, 2), "auto_pad": "SAME"}, "auto_pad"),
    ("matmul", [tensor(2, 3), tensor(4, 5)], {}, "3 columns, 4 rows"),
    ("gemm", [tensor(2, 3), tensor(3, 5), tensor(4)], {}, "does not broadcast"),
    ("add", [tensor(2, 3), tensor(2, 4)], {}, "do not broadcast"),
    ("add", [tensor(2), tensor(2, dtype=np.int64)], {}, "one element type"),
    ("add", [tensor(2), None], {}, "input 1 is required"),
    ("concat", [tensor(2, 3), tensor(3, 3)], {"axis": 1}, "disagree"),
    ("concat", [tensor(2, 3)], {"axis": 2}, "axis 2"),
    ("softmax", [tensor(2, 3)], {"axis": 2}, "axis 2"),
    ("reshape", [tensor(2, 3), const(4, -1)], {}, "6 elements"),
    ("reshape", [tensor(2, 3), const(-1, -1)], {}, "at most one -1"),
    ("reshape", [tensor(2, 3), const(5)], {}, "cannot reshape"),
    ("transpose", [tensor(2, 3)], {"perm": (0, 0)}, "does not permute"),
    ("squeeze", [tensor(2, 3), const(0)], {}, "more than one"),
    ("slice", [tensor(4), const(0), const(1), const(0), const(0)], {}, "steps"),
    ("split", [tensor(4), const(1, 2)], {}, "add up"),
    ("pad", [tensor(4), const(1)], {}, "pads must have 2"),
    ("pad", [tensor(4), const(-5, 0)], {}, "crop more"),
    ("gather", [tensor(4), const(4)], {}, "outside extent 4"),
    ("top_k", [tensor(4), const(5)], {}, "k 5"),
    ("resize", [tensor(1, 4), None, const(1, dtype=F32)], {}, "2 numbers"),
    ("resize", [tensor(4), None, const(2, dtype=F32)], {"mode": "area"}, "mode"),
    ("resize", [tensor(1, 4), const(1, dtype=F32), const(2, dtype=F32)],
     {"coordinate_transformation_mode": "tf_crop_and_resize"}, "roi"),
    ("tile", [tensor(2**20, 2**20), const(2**20, 1)], {}, "elements"),
    ("expand", [tensor(1), const(2**50)], {}, "elements"),
    ("constant_of_shape", [const(-1)], {}, "negative extent"),
    ("batch_normalization", [tensor(1, 4, 3), *[tensor(2)] * 4], {}, "one entry per channel"),
    ("einsum", [tensor(2, 3), tensor(4, 5)], {"equation": "ij,jk->ik"}, "disagree"),
    ("prelu", [tensor(2, 1), tensor(2, 3)], {}, "slope must broadcast"),
    ("prelu", [tensor(3), tensor(2, 3)], {}, "slope must broadcast"),
    ("clip", [tensor(2, 3), tensor(3)], {}, "min must be one number"),
    ("where", [tensor(2, dtype=bool), tensor(3), tensor(3)], {}, "do not broadcast"),
    ("quantize_linear", [tensor(2, 1, 4), tensor(3)], {}, "scale must have shape"),
    ("dequantize_linear", [tensor(2, 3, dtype=np.int8), tensor(3), const(0, 0, dtype=np.int8)], {}, "must have shape"),
    ("average_pool", [tensor(1, 4, 4, 3)], {"kernel_shape": (2, 2), "pads": (0, 2, 0, 0)}, "pads must be less"),
    ("range", [const(0), const(5), const(0)], {}, "delta"),
    ("lstm", [tensor(5, 1, 3), tensor(1, 7, 3), tensor(1, 8, 2)], {}, r"W must have shape \[1, 8, 3\]"),
    ("layer_normalization", [tensor(2, 16), tensor(2)], {}, "does not broadcast"),
    ("layer_normalization", [tensor(2, 8), tensor(5, 2, 8)], {}, "does not broadcast"),
    ("layer_normalization", [tensor(2, 8), tensor(8, dtype=F16)], {}, "one element type"),
    ("rms_normalization", [tensor(2, 8), tensor(7)], {}, "does not broadcast"),
    ("instance_normalization", [tensor(1, 4, 3), tensor(3), tensor(2)], {}, "one entry per channel"),
    ("conv", [tensor(1, 8, 8, 3), tensor(4, 3, 3, 3)], {"kernel_shape": (5, 5)}, "weight must have shape"),
    ("conv", [tensor(1, 8, 8, 3), tensor(4, 3, 3, 3)], {"pads": (-1, 0, 0, 0)}, "pads"),
    ("conv", [tensor(1, 8, 8, 3, dtype=np.int32), tensor(4, 3, 3, 3, dtype=np.int32)], {},
     r"x \(input 0\) must be float of rank 3 or more, found int32"),
    ("affine_grid", [tensor(1, 2, 3), tensor(1, 4, dtype=np.int64)], {},
     r"size \(input 1\) must be int or uint of rank 1, found int64\[1,4\]"),
    ("unsqueeze", [tensor(2), tensor(1, 1, dtype=np.int64)], {}, r"axes \(input 1\) must be .* of rank 0 to 1"),
    ("sum", [tensor(2), tensor(2), tensor(2, dtype=bool)], {}, r"operands \(input 2\) must be int or uint or float"),
    ("resize", [tensor(1, 4), None, const(1)], {}, r"scales \(input 2\) must be float of rank 1, found int64"),
    ("conv", [tensor(1, 8, 8, 3)], {}, "expected 2 to 3 inputs, found 1"),
    ("conv_integer", [tensor(1, 8, 1, dtype=np.uint8), tensor(4, 3, 1, dtype=np.uint8), None,
                      tensor(3, dtype=np.uint8)], {}, "zero_point must have shape"),
    ("conv_transpose", [tensor(1, 4, 3), tensor(4, 3, 3)], {"output_padding": (1,)}, "output_padding"),
    ("matmul_integer", [tensor(2, 3, dtype=np.int8), tensor(3, 4, dtype=np.int8), None, tensor(3, dtype=np.int8)], {},
     "zero_point must have shape"),
    ("einsum", [tensor(2, 3)], {"equation": "ij->ik"}, "letters of the operands"),
    ("lstm", [tensor(5, 1, 3), tensor(1, 8, 3), tensor(1, 8, 2)], {"hidden_size": 3}, "hidden_size"),
    ("gru", [tensor(5, 1, 3), tensor(1, 6, 3), tensor(1, 6, 2), None, const(6)], {}, "sequence_lens"),
    ("rnn", [tensor(5, 1, 3), tensor(1, 2, 3), tensor(1, 2, 2), tensor(1, 5)], {}, "B must have shape"),
    ("top_k", [tensor(4), const(-1)], {}, "k -1"),
    ("top_k", [tensor(4), const(1, 1)], {}, r"k \(input 1\) must be int or uint of one element, found int64\[2\]"),
    ("roi_align", [tensor(1, 1, 4, 4), tensor(1, 4), const(-1)], {}, "batch_indices"),
    ("roi_align", [tensor(1, 1, 4, 4), tensor(1, 4), const(0)], {"output_height": -1}, "output_height"),
    ("max_unpool", [tensor(1, 1, 1, 1), const(-1).data.reshape(1, 1, 1, 1)], {"kernel_shape": (2, 2)}, "indices"),
    ("gather_nd", [tensor(4), const(4)], {}, "indices"),
    ("scatter_elements", [tensor(2, 3), const(0, 1), tensor(2)], {}, "rank 2"),
    ("tensor_scatter", [tensor(1, 1, 4, 2), tensor(1, 1, 5, 2)], {}, "does not fit a cache"),
    ("one_hot", [tensor(3), const(-2), tensor(2)], {}, "depth"),
    ("compress", [tensor(3), tensor(4, dtype=bool)], {"axis": 0}, "exceeds axis 0"),
    ("reverse_sequence", [tensor(4, 2), const(5, 1)], {}, "sequence_lens"),
    ("center_crop_pad", [tensor(4, 2), const(1, 1)], {"axes": (0, 0)}, "twice"),
    ("pad", [tensor(3), const(-(2**62), 2**62)], {}, "crop more"),
    ("pad", [tensor(3), const(0, 3)], {"mode": "reflect"}, "can't pad"),
    ("split", [tensor(5)], {}, "does not divide"),
    ("split", [tensor(5), const(2, 3)], {"num_outputs": 2}, "both split and num_outputs"),
    ("range", [const(0.0, dtype=F32), const(np.inf, dtype=F32), const(1.0, dtype=F32)], {}, "finite"),
    ("reshape", [tensor(2), tensor(0, dtype=np.int64)], {}, "cannot reshape"),
    ("tile", [tensor(2, 3), const(2)], {}, "repeats"),
    ("depth_to_space", [tensor(1, 2, 2, 4)], {"blocksize": 2, "mode": "XYZ"}, "mode"),
    ("grid_sample", [tensor(1, 1, 4, 4), tensor(1, 2, 2, 3)], {}, "grid must have shape"),
    ("deform_conv", [tensor(1, 1, 3, 3), tensor(1, 1, 2, 2), tensor(1, 8, 3, 3)], {}, "offset must have shape"),
    ("col2im", [tensor(1, 4, 5), const(4, 4), const(2, 2)], {}, "disagree"),
    ("attention", [tensor(1, 2, 3, 4), tensor(1, 2, 5, 6), tensor(1, 2, 5, 4)], {}, "disagree"),
    ("attention", [tensor(1, 2, 3, 4), tensor(1, 2, 5, 4), tensor(1, 2, 5, 4), tensor(7, 5)], {}, "the mask"),
    ("rotary_embedding", [tensor(1, 1, 2, 4), tensor(2, 3), tensor(2, 3), tensor(1, 2, dtype=np.int64)], {},
     "cos_cache"),
    ("dequantize_linear", [tensor(2, 3, dtype=np.int8), tensor(2)], {}, "scale must have shape"),
    ("quantize_linear", [tensor(4, 6), tensor(4, 2)], {"block_size": 2}, "scale must have shape"),
    ("dft", [tensor(1, 5, 1), const(0)], {}, "dft_length"),
    ("softmax_cross_entropy_loss", [tensor(2, 3), const(0, 3)], {}, "the target must be classes"),
    ("random_normal", [], {"shape": (2,), "scale": -1.0}, "distribution"),
    ("reduce_sum", [tensor(2, 3)], {"keepdims": 7}, "keepdims must be 0 or 1"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "attrs", "says"), WRONG, ids=[f"{b[0]}-{b[3]}" for b in WRONG])
def test_senseless_nodes_are_refused(op: str, inputs: list[Any], attrs: dict[str, Any], says: str) -> None:
    values = [Value.constant("c", v) if isinstance(v, np.ndarray) else v for v in inputs]
    outputs = [Value("y")] if op != "split" else [Value("a"), Value("b")]
    with pytest.raises(ModelError, match=rf"^node n: {op}: .*{says}"):
        infer_node(Node(op, values, outputs, attrs, "n"))


def test_missing_operator_and_feed() -> None:
    with pytest.raises(UnsupportedError, match="no_such"):
        infer_node(Node("no_such", [], [Value("y")]))
    with pytest.raises(ModelError, match="input x is not fed"):
        evaluate(Graph("g", [tensor(1)], []), {})


def test_bits_of_widened_types_are_not_cast() -> None:
    with pytest.raises(UnsupportedError, match="int4"):
        infer_node(Node("bit_cast", [tensor(2, dtype=np.int8)], [Value("y")], {"to": np.uint8, "from_format": "int4"}))


def test_arrays_that_do_not_fit_are_told() -> None:
    x = Value("x")
    graph = Graph("g", [x], [], [Node("gather", [x, const(9)], [Value("y")], {}, "n")])
    with pytest.raises(ModelError, match="node n: gather: index 9 is outside extent 3"):
        evaluate(graph, {"x": np.zeros(3)})


junk = st.one_of(st.none(), st.integers(-3, 3), st.just("text"), st.tuples(st.integers(-2, 3), st.integers(-2, 3)))
extent = st.one_of(st.none(), st.just("n"), st.integers(0, 5))
types = st.one_of(
    st.just(UNKNOWN),
    st.builds(
        lambda shape, kind: TensorType(np.dtype(kind), None if shape is None else tuple(shape)),
        st.one_of(st.none(), st.lists(extent, max_size=5)),
        st.sampled_from(["float32", "int64", "object", "bool", "uint8"]),
    ),
)
constants = st.lists(st.integers(-3, 5), max_size=4).map(lambda v: Value.constant("c", np.array(v, np.int64)))
body = Graph("body", [Value("i")], [Value.constant("o", np.zeros(1))])


@pytest.mark.parametrize("op", sorted(set(OPS) - {"dense", "fused"}))
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_inference_raises_nothing_but_model_errors(op: str, data: Any) -> None:
    inputs = data.draw(st.lists(st.one_of(types.map(lambda t: Value("x", t)), constants, st.none()), max_size=6))
    attrs = {
        name: body if name in ("body", "then_branch", "else_branch") else data.draw(junk)
        for name, default in OPS[op].attrs.items()
        if default is REQUIRED or data.draw(st.integers(0, 3)) == 0
    }
    outputs = [Value(f"y{i}") for i in range(data.draw(st.integers(1, 3)))]
    try:
        infer_node(Node(op, inputs, outputs, attrs))
    except FastgraphError:
        return
    for value in outputs:
        assert value.type.shape is None or all(d is None or isinstance(d, int | str) for d in value.type.shape)


def test_what_is_folded() -> None:
    def node(op: str, *inputs: Value, **attrs: Any) -> Node:
        made = Node(op, list(inputs), [Value("y")], attrs)
        infer_node(made)
        return made

    assert fold(node("add", const(1, 2), const(3, 4)))[0].tolist() == [4, 6]  # type: ignore[index]
    assert fold(node("shape", tensor(3, 5)))[0].tolist() == [3, 5]  # type: ignore[index]
    assert fold(node("shape", tensor(3, "n"))) is None
    assert fold(node("relu", tensor(3))) is None
    assert fold(node("constant_of_shape", const(1 << 14, 1 << 14))) is None
    assert fold(node("random_normal_like", const(1.0, dtype=F32))) is None
    branch = Graph("b", [], [Value("r")])
    branch.nodes = [Node("random_uniform", [], [branch.outputs[0]], {"shape": (2,)})]
    assert fold(node("if", const(True, dtype=bool), then_branch=branch, else_branch=branch)) is None


FED = [w for w in WRONG if any(isinstance(v, np.ndarray) or v is not None and v.data is not None for v in w[1])]
FED = [w for w in FED if w[0] != "tile"]  # whose operand no memory holds


@pytest.mark.parametrize(("op", "inputs", "attrs", "says"), FED, ids=[f"{w[0]}-{w[3]}" for w in FED])
def test_a_run_checks_what_is_fed(op: str, inputs: list[Any], attrs: dict[str, Any], says: str) -> None:
    """The same nodes, of which inference knows neither shapes nor data."""
    arrays, values = {}, []
    for i, v in enumerate(inputs):
        data = v if isinstance(v, np.ndarray) or v is None else v.data
        if v is not None:
            arrays[f"v{i}"] = np.zeros(v.type.dims, v.type.dtype) if data is None else data
        values.append(None if v is None else Value(f"v{i}"))
    outputs = [Value("y")] if op != "split" else [Value("a"), Value("b")]
    node = Node(op, list(values), outputs, attrs, "n")
    with pytest.raises(ModelError, match=rf"^node n: {op}: .*{says}"):
        infer_node(node)
        evaluate(Graph("g", [v for v in values if v is not None], outputs, [node]), arrays)


def test_a_branch_that_is_never_taken_may_be_nonsense() -> None:
    x, flag = tensor(5), Value("flag", TensorType(np.dtype(bool), ()))
    good, bad = Value("g"), Value("b")
    then = Graph("t", [], [good], [Node("relu", [x], [good])])
    other = Graph("e", [], [bad], [Node("reshape", [x, const(3)], [bad])])
    node = Node("if", [flag], [Value("y")], {"then_branch": then, "else_branch": other}, "n")
    infer_node(node)
    assert node.out.type == TensorType(F32, (5,))
    with pytest.raises(ModelError, match="cannot reshape"):
        infer_node(Node("if", [Value.constant("f", np.array(False))], [Value("y")], node.attrs, "n"))
