"""Every way in which a TensorProto holds its elements, against onnx.numpy_helper."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node as node

from fastgraph.errors import ModelError
from fastgraph.frontends.onnx.elements import ELEMENTS, FIELDS
from tests.onnx.onnx_models import load, model_of

KINDS = {name: code for name, code in TensorProto.DataType.items() if name != "UNDEFINED"}
SHAPES = [(), (1,), (5,), (2, 3), (3, 0, 2), (7, 3, 5)]


def _codes(kind: str, count: int) -> np.ndarray:
    """Random values of the type as the onnx package has it."""
    rng = np.random.default_rng(count)
    dtype = helper.tensor_dtype_to_np_dtype(KINDS[kind])
    element = ELEMENTS[KINDS[kind]]
    if kind == "STRING":
        return np.array([f"s{i} \u00e9" for i in range(count)], object)
    if kind == "BOOL":
        return rng.integers(0, 2, count).astype(bool)
    if kind.startswith("COMPLEX"):
        return (rng.normal(size=count) + 1j * rng.normal(size=count)).astype(dtype)
    if element.bits < 8:
        codes = rng.integers(0, 1 << element.bits, count).astype(np.uint8)
        if kind in ("INT4", "INT2"):
            return (codes.astype(np.int8) - (1 << (element.bits - 1))).astype(dtype)
        return codes.astype(dtype) if kind in ("UINT4", "UINT2") else codes.view(dtype)
    return rng.integers(0, 256, count * dtype.itemsize).astype(np.uint8).view(dtype)


def _wide(array: np.ndarray, kind: str) -> np.ndarray:
    element = ELEMENTS[KINDS[kind]]
    return array.astype(element.dtype) if element.format else array


def _const(tensor: TensorProto) -> np.ndarray:
    tensor.name = "c"
    model = model_of([node("Identity", ["c"], ["y"])], [], ["y"])
    model.graph.initializer.append(tensor)
    return load(model).outputs[0].data


def _same(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    if ours.dtype.kind in "fc":
        kind = f"u{ours.dtype.itemsize // (2 if ours.dtype.kind == 'c' else 1)}"
        real = ours.dtype.type(0).real.dtype
        a, b = (np.ascontiguousarray(ours).reshape(-1).view(real), np.ascontiguousarray(theirs).reshape(-1).view(real))
        assert np.array_equal(np.isnan(a), np.isnan(b))
        assert np.array_equal(a[~np.isnan(a)].view(kind), b[~np.isnan(b)].view(kind))
    else:
        assert np.array_equal(ours, theirs)


ENCODINGS = [(kind, how) for kind in KINDS for how in ("raw", "typed") if (kind, how) != ("STRING", "raw")]


@pytest.mark.parametrize("kind, encoding", ENCODINGS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_encoding(kind, encoding, shape):
    values = _codes(kind, int(np.prod(shape))).reshape(shape)
    if encoding == "raw":
        tensor = numpy_helper.from_array(values)
        assert tensor.HasField("raw_data")
    else:
        tensor = _typed(kind, values)
        assert not tensor.HasField("raw_data")
    _same(_const(tensor), _wide(numpy_helper.to_array(tensor), kind))


def _typed(kind: str, values: np.ndarray) -> TensorProto:
    """The elements in the field that ONNX names for the type, written by hand from its definition."""
    tensor = TensorProto(data_type=KINDS[kind], dims=values.shape)
    element = ELEMENTS[KINDS[kind]]
    flat = values.reshape(-1)
    field = getattr(tensor, FIELDS.get(element.name, "int32_data"))
    if kind == "STRING":
        field.extend(s.encode() for s in flat)
    elif kind.startswith("COMPLEX"):
        field.extend(float(part) for z in flat for part in (z.real, z.imag))
    elif element.bits in (2, 4):
        per_byte = 8 // element.bits
        codes = [int(c) & ((1 << element.bits) - 1) for c in flat.view(np.uint8)]
        codes += [0] * (-len(codes) % per_byte)
        for i in range(0, len(codes), per_byte):
            field.append(sum(c << (element.bits * j) for j, c in enumerate(codes[i : i + per_byte])))
    elif kind == "FLOAT16" or element.bits == 16 and element.format:
        field.extend(int(c) for c in flat.view(np.uint16))
    elif element.format or kind == "BOOL":
        field.extend(int(c) for c in flat.view(np.uint8))
    else:
        field.extend(flat.tolist())
    return tensor


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("FLOAT8") or kind == "BFLOAT16"])
def test_every_code_of_small_floats(kind):
    bits = ELEMENTS[KINDS[kind]].bits
    values = np.arange(1 << bits, dtype=f"u{bits // 8}").view(helper.tensor_dtype_to_np_dtype(KINDS[kind]))
    _same(_const(numpy_helper.from_array(values)), values.astype(np.float32))


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE", "INT64", "FLOAT16"])
@pytest.mark.parametrize("raw", [True, False])
def test_large_tensors_that_bypass_the_parser(kind, raw):
    dtype = helper.tensor_dtype_to_np_dtype(KINDS[kind])
    values = np.random.default_rng(0).normal(size=(50, 70)).astype(dtype)
    tensor = numpy_helper.from_array(values) if raw else _typed(kind, values)
    _same(_const(tensor), values)


def test_large_tensor_whose_field_does_not_suit_its_type():
    tensor = TensorProto(data_type=TensorProto.INT64, dims=[2000], float_data=[1.0] * 2000)
    with pytest.raises(ModelError, match="expected 2000 items of int64_data"):
        _const(tensor)


@pytest.mark.parametrize("indices", ["linear", "coordinates"])
def test_sparse_initializer(indices):
    dense = np.zeros((3, 4), np.float32)
    dense[[0, 1, 2], [3, 0, 2]] = [1, 2, 3]
    where = np.array([3, 4, 10]) if indices == "linear" else np.array([[0, 3], [1, 0], [2, 2]])
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([1, 2, 3], np.float32), "c"), numpy_helper.from_array(where), [3, 4]
    )
    model = model_of([node("Identity", ["c"], ["y"])], [], ["y"])
    model.graph.sparse_initializer.append(sparse)
    _same(load(model).outputs[0].data, dense)


def test_constant_node_forms():
    forms = {
        "value_float": (1.5, np.array(1.5, np.float32)),
        "value_floats": ([1.5, 2], np.array([1.5, 2], np.float32)),
        "value_int": (3, np.array(3)),
        "value_ints": ([3, 4], np.array([3, 4])),
        "value_string": ("a", np.array("a", object)),
        "value_strings": (["a", "b"], np.array(["a", "b"], object)),
        "value": (numpy_helper.from_array(np.eye(2, dtype=np.int8)), np.eye(2, dtype=np.int8)),
    }
    for name, (given, expected) in forms.items():
        graph = load(model_of([node("Constant", [], ["y"], **{name: given})], [], ["y"]))
        assert not graph.nodes and graph.outputs[0].name == "y"
        _same(graph.outputs[0].data, expected)


def test_tensor_without_data_is_refused():
    with pytest.raises(ModelError, match="expected 6 items of float_data .* found 0"):
        _const(TensorProto(data_type=1, dims=[2, 3]))


def test_onnx_version_has_no_type_that_the_table_lacks():
    assert set(KINDS.values()) <= set(ELEMENTS)
    assert onnx.defs.onnx_opset_version() <= 28
