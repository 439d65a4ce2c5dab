"""Constants of every form that files have them in: as they are stored, and as the graph holds them."""

import tracemalloc

import numpy as np
import pytest

from fastgraph.errors import ModelError, UnsupportedError
from fastgraph.frontends.circle import read
from fastgraph.limits import Limits, spending
from tests.circle.write import TYPES, Model
from tests.tables import entries


def constant(data=None, schema="tflite", shape=(), **fields):
    """The constant that a model gives which holds just that, as the reader has it."""
    m = Model(schema)
    if data is not None:
        m.buffers.append({"data": np.frombuffer(bytes(data), np.uint8)})
        fields["buffer"] = 1
    index = m.tensor(shape, **{"name": "c", **fields})
    (value,) = read(m.bytes([index])).outputs
    assert value.data is not None
    return value


def typed(kind, data, shape, schema="tflite", **fields):
    return constant(data, schema, shape, type=kind, **fields).data


def test_constants_are_views_of_the_file():
    m = Model()
    m.const(np.arange(1000, dtype=np.float32), name="w")
    data = m.bytes([0])
    graph = read(data)
    array = graph.outputs[0].data
    assert np.shares_memory(array, np.frombuffer(data, np.uint8)) and not array.flags.writeable
    assert array.tolist() == list(range(1000))


def test_a_constant_that_is_not_aligned_is_copied():
    m = Model()
    m.const(np.arange(64, dtype=np.float64))
    data = m.bytes([0])
    place = data.index(np.arange(64, dtype=np.float64).tobytes())
    for shift in range(1, 8):  # behind the FlatBuffer, at offsets that no alignment fits
        m.buffers[1] = {"offset": 2, "size": 512}
        behind = len(m.bytes([0])) + shift
        m.buffers[1] = {"offset": behind, "size": 512}
        moved = m.bytes([0])
        moved += bytes(behind - len(moved)) + data[place : place + 512]
        graph = read(moved)
        array = graph.outputs[0].data
        assert array.flags.aligned and array.tolist() == list(range(64))


@pytest.mark.parametrize("dtype", [name for name in TYPES if name not in ("object", "resource")])
def test_element_types(dtype):
    array = np.array([[1, 0, 1], [0, 1, 1]]).astype(dtype)
    found = typed(TYPES[dtype], array.tobytes(), (2, 3))
    assert found.dtype == dtype and np.array_equal(found, array)


def test_packed_integers():
    assert typed("INT4", [0x21, 0xF8, 0x07], (5,)).tolist() == [1, 2, -8, -1, 7]
    assert typed("UINT4", [0x21, 0xF8, 0x07], (5,)).tolist() == [1, 2, 8, 15, 7]
    assert typed("UINT4", [0x21, 0xF8, 0x07], (5,), "circle").tolist() == [1, 2, 8, 15, 7]
    assert typed("INT2", [0b11_10_01_00, 0b01], (5,)).tolist() == [0, 1, -2, -1, 1]
    assert typed("INT4", [0x21], (1, 2)).dtype == np.int8


def test_bfloat16_is_held_in_float32():
    wanted = np.array([1.0, -2.5, 3.140625], np.float32)
    found = typed("BFLOAT16", (wanted.view(np.uint32) >> 16).astype(np.uint16).tobytes(), (3,))
    assert found.dtype == np.float32 and found.tolist() == wanted.tolist()


def test_bytes_that_are_no_booleans():
    assert typed("BOOL", [0, 1, 2, 255], (4,)).tolist() == [False, True, True, True]


def test_strings():
    m = Model()
    m.const(np.array([["a", ""], ["häus", "b"]], object))
    graph = read(m.bytes([0]))
    array = graph.outputs[0].data
    assert array.tolist() == [["a", ""], ["häus", "b"]]
    for words in ([2, 12, 13], [1, 12, 500], [1, 12, 4], [1, 0, 4], []):
        with pytest.raises(ModelError, match="strings"):
            typed("STRING", np.asarray(words, np.int32).tobytes() + b"x", (1,))


def test_ggml_blocks():
    scale, low = np.float16(0.5), np.float16(-3)
    nibbles = np.arange(32) % 16
    packed = (nibbles[:16] | nibbles[16:] << 4).astype(np.uint8).tobytes()
    bytes32 = np.arange(-16, 16, dtype=np.int8)
    assert typed("GGML_Q4_0", scale.tobytes() + packed, (1, 32), "circle").tolist() == [((nibbles - 8) / 2).tolist()]
    found = typed("GGML_Q4_1", scale.tobytes() + low.tobytes() + packed, (32,), "circle")
    assert found.tolist() == (nibbles / 2 - 3).tolist()
    for kind, head in (("GGML_Q8_0", scale.tobytes()), ("GGML_Q8_1", scale.tobytes() * 2)):
        assert typed(kind, head + bytes32.tobytes(), (32,), "circle").tolist() == (bytes32 / 2).tolist()
    with pytest.raises(ModelError, match="blocks of 32"):
        typed("GGML_Q8_0", scale.tobytes() + bytes32.tobytes(), (16, 2), "circle")


def blocked(values, block, zero_points=0, **fields):
    """Two rows of four numbers in blocks, as float32."""
    m = Model()
    m.const(np.int8([[1, 2, 3, 4], [5, 6, 7, 8]]))
    s = m.const(np.asarray(values, np.float16))
    m.const(np.asarray([[0, 1], [2, 3]], np.int8))
    details = {"scales": s, "zero_points": zero_points, "block_size": block, **fields}
    m.now["tensors"][0]["quantization"] = {"details": ("BlockwiseQuantization", details)}
    graph = read(m.bytes([0]))
    return graph.outputs[0].data


def test_blocks_with_scales_in_a_tensor():
    assert blocked([[1, 10], [0.5, 2]], 2).tolist() == [[1, 2, 30, 40], [2.5, 3, 14, 16]]
    assert blocked([[1, 10], [0.5, 2]], 2, zero_points=2).tolist() == [[1, 2, 20, 30], [1.5, 2, 8, 10]]
    assert blocked([1, 2], 4).dtype == np.float32
    for scales, block in (([1, 2], 2), ([1, 2], 0), ([1, 2], -4), ([1, 2], 3)):
        with pytest.raises(ModelError, match="for each block"):
            blocked(scales, block)
    with pytest.raises(ModelError, match="expected constant floats as scales"):
        blocked([1, 2], 4, scales=0)
    with pytest.raises(UnsupportedError, match="several dimensions"):
        blocked([1, 2], 4, block_shape=[2, 2])


def csr(segments, indices, kind="Int32Vector"):
    vectors = {"array_segments": (kind, {"values": segments}), "array_indices": (kind, {"values": indices})}
    return {"format": "SPARSE_CSR", **vectors}


def dense(size):
    return {"format": "DENSE", "dense_size": size}


SPARSE = np.array([[0, 5, 0, 0], [0, 0, 0, 0], [7, 0, 0, 9]], np.float32)


@pytest.mark.parametrize("kind", ["Int32Vector", "Uint16Vector", "Uint8Vector"])
def test_sparse_rows(kind):
    sparsity = {"traversal_order": [0, 1], "dim_metadata": [dense(3), csr([0, 1, 1, 3], [1, 0, 3], kind)]}
    found = typed("FLOAT32", np.float32([5, 7, 9]).tobytes(), (3, 4), sparsity=sparsity)
    assert np.array_equal(found, SPARSE)


def test_sparse_columns():
    sparsity = {"traversal_order": [1, 0], "dim_metadata": [dense(4), csr([0, 1, 2, 2, 3], [2, 0, 2])]}
    found = typed("FLOAT32", np.float32([7, 5, 9]).tobytes(), (3, 4), sparsity=sparsity)
    assert np.array_equal(found, SPARSE)


def test_sparse_blocks():
    """1 x 2 blocks: the first of row 0 and the second of row 2 are stored."""
    levels = [dense(3), csr([0, 1, 1, 2], [0, 1]), dense(2)]
    sparsity = {"traversal_order": [0, 1, 2], "block_map": [1], "dim_metadata": levels}
    found = typed("INT8", np.int8([1, 2, 3, 4]).tobytes(), (3, 4), sparsity=sparsity)
    assert found.tolist() == [[1, 2, 0, 0], [0, 0, 0, 0], [0, 0, 3, 4]]
    levels = [dense(1), csr([0, 1], [1]), dense(2), dense(2)]
    tiles = {"traversal_order": [0, 1, 3, 2], "block_map": [0, 1], "dim_metadata": levels}
    found = typed("INT8", np.int8([1, 2, 3, 4]).tobytes(), (2, 4), sparsity=tiles)
    assert found.tolist() == [[0, 0, 1, 3], [0, 0, 2, 4]]


def test_sparse_zeros_are_zero_points():
    sparsity = {"traversal_order": [0, 1], "dim_metadata": [dense(1), csr([0, 1], [2])]}
    quantization = {"scale": np.float32([0.5]), "zero_point": [-3]}
    assert typed("INT8", [7], (1, 4), sparsity=sparsity, quantization=quantization).tolist() == [[-3, -3, 7, -3]]


SENSELESS = """
[0, 0] | dense(3), dense(4) | traversal_order
[0, 1] | dense(3), | a level for each
[0, 1] | dense(3), dense(5) | a dense level of 4
[0, 1] | dense(3), csr([0, 1, 1, 3], [1, 0, 4]) | indices from 0 to 3
[0, 1] | dense(3), csr([0, 2, 1, 3], [1, 0, 3]) | segments in order
[0, 1] | dense(3), csr([0, 3], [1, 0, 3]) | segments
[0, 1] | dense(3), {"format": "SPARSE_CSR"} | array_segments
[0, 1, 2], "block_map": [2] | dense(3), dense(4), dense(2) | blocks
[0, 1, 2], "block_map": [1] | dense(3), dense(1), dense(3) | divide
"""


@pytest.mark.parametrize("order,levels,message", entries(SENSELESS))
def test_sparsity_that_makes_no_sense(order, levels, message):
    sparsity = eval(f'{{"traversal_order": {order}, "dim_metadata": [{levels}]}}')
    with pytest.raises(ModelError, match=f"tensor 0 'c': sparsity: .*{message}"):
        typed("FLOAT32", np.float32([5, 7, 9]).tobytes(), (3, 4), sparsity=sparsity)


def test_a_sparse_constant_out_of_proportion_is_not_made():
    sparsity = {"traversal_order": [0], "dim_metadata": [csr([0, 1], [2])]}
    with pytest.raises(ModelError, match="in proportion|damaged"):
        typed("FLOAT32", np.float32([5]).tobytes(), (1 << 30, 16), sparsity=sparsity)


MISFITS = """
FLOAT32 | (3,) | expected a buffer of 12 bytes for 3 elements of FLOAT32, found 8
INT4 | (3,) | expected a buffer of 2 bytes for 3 elements of INT4, found 8
FLOAT32 | (1 << 30, 1 << 30) | some memory can hold
FLOAT32 | (-2,) | extents from 0 on
FLOAT32 | (1,) * 65 | at most 64 dimensions
"""


@pytest.mark.parametrize("kind,shape,message", entries(MISFITS))
def test_constants_that_do_not_fit(kind, shape, message):
    with pytest.raises(ModelError, match=message):
        constant(bytes(8), type=kind, shape=eval(shape))


def test_types_that_are_not_there():
    for schema, kind in (("tflite", "FLOAT8_E5M2"), ("circle", "MXFP4")):
        with pytest.raises(UnsupportedError, match=f"tensors of type {kind}"):
            typed(kind, bytes(8), (8,), schema)
    with pytest.raises(UnsupportedError, match="HUFFMAN"):
        typed("INT8", bytes(8), (8,), "circle", compression_type="HUFFMAN")
    with pytest.raises(UnsupportedError, match="files of their own"):
        typed("INT8", bytes(8), (8,), external_buffer=3)


def test_buffers_behind_the_flatbuffer():
    m = Model()
    m.const(np.zeros(4, np.float32))
    m.buffers[1] = {"offset": 1 << 20, "size": 16}
    flat = len(m.bytes([0]))
    m.buffers[1] = {"offset": flat + 8, "size": 16}
    data = m.bytes([0]) + bytes(8) + np.arange(4, dtype=np.float32).tobytes()
    graph = read(data)
    assert graph.outputs[0].data.tolist() == [0, 1, 2, 3]
    with pytest.raises(ModelError, match="part behind the FlatBuffer is missing"):
        read(data[:-1])


def test_buffer_index():
    with pytest.raises(ModelError, match="tensor 0 'c': expected a buffer from 0 to 1, found 9"):
        m = Model()
        m.const(np.zeros(4, np.float32), name="c")
        m.now["tensors"][0]["buffer"] = 9
        read(m.bytes([0]))


def test_a_constant_resource():
    with pytest.raises(ModelError, match="found a constant of type RESOURCE"):
        typed("RESOURCE", bytes(8), (1,))


def test_a_file_is_held_once():
    """Constants of 32 MB and 16 MB, the second as 4-bit integers that become 8-bit ones."""
    m = Model()
    m.const(np.zeros(8 << 20, np.float32))
    m.const(np.zeros(8 << 20, np.int8))
    m.now["tensors"][1].update(type="INT4", shape=[16 << 20])
    data = m.bytes([0, 1])
    tracemalloc.start()
    graph = read(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert graph.outputs[0].data is not None and peak < 20 << 20


def test_sparse_constants_count_together():
    """Each small enough for the file; a hundred of them are not."""
    sparsity = {"traversal_order": [0], "dim_metadata": [csr([0, 1], [2])]}
    m = Model()
    y = m.input((1 << 16,))
    for _ in range(100):
        w = m.const(np.ones(1, np.float32), sparsity=sparsity)
        m.now["tensors"][w]["shape"] = [1 << 16]
        (y,) = m.op("ADD", [y, w], [(1 << 16,)])
    data = m.bytes([y])
    assert 64 * len(data) < 100 * (4 << 16)
    with pytest.raises(ModelError, match="sparsity: constants of .* of a file that stores"), spending(Limits(1 << 20)):
        read(data)
    assert len(read(data).nodes) == 100
