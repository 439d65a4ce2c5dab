"""Custom operators and rare builtin ones: against LiteRT where it has them, else plain formulas."""

import math
from struct import pack
from typing import Any

import numpy as np
import pytest
from flatbuffers.flexbuffers import Builder, Dumps

from fastgraph.errors import ModelError, UnsupportedError
from tests.circle.write import Model, litert, ours

F32 = np.float32


def options(**entries: Any) -> bytes:
    return bytes(Dumps(entries))


def agree(data: bytes, feeds: list[Any], relative: float = 0.0, absolute: float = 0.0) -> list[np.ndarray]:
    pytest.importorskip("ai_edge_litert")
    (found,), (wanted,) = ours(data, [feeds]), litert(data, [feeds])
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=relative, atol=absolute)
    return found


def single(
    op: str, feeds: list[np.ndarray], shape: tuple[int, ...], dtype: Any = F32, constants: Any = (), **settings: Any
) -> bytes:
    """A model of one operator with one output: inputs first, then constants."""
    m = Model()
    inputs: list[int | None] = [m.input(x.shape, x.dtype) for x in feeds]
    inputs += [m.const(c) for c in constants]
    return m.bytes(m.op(op, inputs, [(shape, dtype)], **settings))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(21)


# detection


TOLD = {"max_detections": 10, "detections_per_class": 6, "nms_score_threshold": 0.3, "nms_iou_threshold": 0.4}
TOLD |= {"num_classes": 5, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}


def detector(regular: bool, quantized: bool = False, per_box: int = 1) -> tuple[bytes, int]:
    boxes, classes = 40, 5
    rng, m = np.random.default_rng(1), Model()
    kind, x_quant, s_quant = (np.uint8, (0.05, 128), (0.01, 20)) if quantized else (F32, None, None)
    anchors = np.concatenate([rng.uniform(0, 1, (boxes, 2)), rng.uniform(0.2, 0.5, (boxes, 2))], 1)
    inputs = [m.input((1, boxes, 4), kind, x_quant), m.input((1, boxes, classes + 1), kind, s_quant)]
    stored = np.rint(anchors / 0.005).astype(np.uint8)
    inputs.append(m.const(stored, quant=(0.005, 0)) if quantized else m.const(anchors.astype(F32)))
    told, rows = options(**TOLD, max_classes_per_detection=per_box, use_regular_nms=regular), 10 * per_box
    made = [(1, rows, 4), (1, rows), (1, rows), (1,)]
    return m.bytes(m.op("TFLite_Detection_PostProcess", inputs, made, custom=told)), boxes


@pytest.mark.parametrize("regular, per_box", [(False, 1), (True, 1), (False, 2)])
def test_detection(regular: bool, per_box: int, rng: np.random.Generator) -> None:
    """Behind the boxes that it finds LiteRT leaves what was there."""
    pytest.importorskip("ai_edge_litert")
    data, boxes = detector(regular, per_box=per_box)
    feeds = [rng.standard_normal((1, boxes, 4)).astype(F32), rng.uniform(0, 1, (1, boxes, 6)).astype(F32)]
    (found,), (wanted,) = ours(data, [feeds]), litert(data, [feeds])
    assert found[3][0] == wanted[3][0] > 2
    rows = int(wanted[3][0]) * per_box
    for a, b in zip(found[:3], wanted[:3], strict=True):
        np.testing.assert_allclose(a[:, :rows], b[:, :rows], rtol=1e-6, atol=1e-6)


def test_detection_from_uint8(rng: np.random.Generator) -> None:
    data, boxes = detector(True, quantized=True)
    scores = np.stack([rng.permutation(np.arange(6) * 40 + i % 40) for i in range(boxes)])[None].astype(np.uint8)
    agree(data, [rng.integers(0, 256, (1, boxes, 4)).astype(np.uint8), scores], 1e-5, 1e-5)


def test_detection_without_its_settings_says_which() -> None:
    m = Model()
    inputs = [m.input((1, 4, 4)), m.input((1, 4, 3)), m.input((4, 4))]
    told = options(num_classes=2)
    outs = m.op("TFLite_Detection_PostProcess", inputs, [(1, 1, 4), (1, 1), (1, 1), (1,)], custom=told)
    with pytest.raises(ModelError, match="max_detections.*num_classes"):
        ours(m.bytes(outs), [[np.zeros((1, 4, 4), F32), np.zeros((1, 4, 3), F32), np.zeros((4, 4), F32)]])


# audio


def test_fake_quant(rng: np.random.Generator) -> None:
    x = rng.uniform(-3, 3, (4, 33)).astype(F32)
    for settings in ({"num_bits": 8}, {"num_bits": 4}, {"num_bits": 16}):
        agree(single("FAKE_QUANT", [x], x.shape, min=-1.3, max=2.1, **settings), [x], 0, 1e-6)


# tables, hashes, text


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("width", [1, 3, 5, 12, 30])
def test_lsh_projection(width: int, dense: bool, rng: np.random.Generator) -> None:
    """Fingerprints of 8 to 124 bytes, by all of FarmHash's ways."""
    x = rng.integers(-99, 99, (6, width)).astype(np.int32)
    seeds, weights = rng.standard_normal((3, 4)).astype(F32), rng.standard_normal(6).astype(F32)
    m = Model()
    inputs = [m.const(seeds), m.input(x.shape, np.int32), m.const(weights)]
    outs = m.op("LSH_PROJECTION", inputs, [((12 if dense else 3,), np.int32)], type="DENSE" if dense else "SPARSE")
    agree(m.bytes(outs), [x])


def test_hashtable_lookup(rng: np.random.Generator) -> None:
    keys, values = np.array([-3, 5, 8], np.int32), rng.standard_normal((3, 4)).astype(F32)
    m = Model()
    inputs = [m.input((4,), np.int32), m.const(keys), m.const(values)]
    outs = m.op("HASHTABLE_LOOKUP", inputs, [(4, 4), ((4,), np.uint8)])
    agree(m.bytes(outs), [np.array([8, 0, -3, 8], np.int32)])


@pytest.mark.parametrize("combiner", ["SUM", "MEAN", "SQRTN"])
def test_embedding_lookup_sparse(combiner: str, rng: np.random.Generator) -> None:
    values = rng.standard_normal((6, 2, 3)).astype(F32)
    ids, weights = np.array([1, 5, 0, 2], np.int32), np.array([0.5, 2, 1, -3], F32)
    indices = np.array([[0, 0], [0, 2], [2, 0], [2, 1]], np.int32)
    constants = [indices, np.array([3, 4], np.int32), weights, values]
    data = single("EMBEDDING_LOOKUP_SPARSE", [ids], (3, 2, 3), F32, constants, combiner=combiner)
    agree(data, [ids], 1e-6, 1e-6)


@pytest.mark.parametrize("every", [True, False])
def test_skip_gram(every: bool) -> None:
    text = np.array(["The quick  brown fox jumps"], object)
    m = Model()
    x = m.input((1,), object)
    data = m.bytes(m.op("SKIP_GRAM", [x], [((1,), object)], ngram_size=3, max_skip_size=1, include_all_ngrams=every))
    ((found,),) = ours(data, [[text]])
    words = text[0].split()
    wanted = []
    for size in (1, 2, 3) if every else (3,):
        spans = [[i] for i in range(5)]
        for _ in range(size - 1):
            spans = [[*s, j] for s in spans for j in range(s[-1] + 1, min(5, s[-1] + 3))]
        wanted += [" ".join(words[i] for i in s) for s in spans]
    assert sorted(found) == sorted(wanted)


# TensorFlow's operators


def flex(name: str, **attrs: bytes) -> bytes:
    """Custom options as the Flex delegate has them: the name and a NodeDef with these encoded AttrValues."""

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    node = field(1, b"node") + field(2, name.encode())
    for key, value in attrs.items():
        node += field(5, field(1, key.encode()) + field(2, value))
    builder = Builder()
    with builder.Vector():
        builder.String(name)
        builder.String(node.decode()) if node.isascii() else builder.Blob(node)
    return bytes(builder.Finish())


def encoded(value: bool | str) -> bytes:
    """An AttrValue."""
    return b"\x28" + bytes([value]) if isinstance(value, bool) else b"\x12" + bytes([len(value)]) + value.encode()


@pytest.mark.parametrize("form", ["", "Flex"])
def test_tensorflow_operators(form: str, rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((2, 3, 4)).astype(F32), rng.standard_normal((2, 4, 3)).astype(F32)

    def run(op: str, feeds: list[np.ndarray], wanted: np.ndarray, constants: Any = (), **attrs: Any) -> None:
        told = flex(op, **{key: encoded(value) for key, value in attrs.items()}) if form else options(**attrs)
        data = single(form + op, feeds, wanted.shape, wanted.dtype, constants, custom=told)
        ((found,),) = ours(data, [feeds])
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)

    run("AddV2", [x, x[:1]], x + x[:1])
    run("BatchMatMulV2", [x, y], x @ y, adj_x=False, adj_y=False)
    run("BatchMatMulV2", [x, x], x.swapaxes(1, 2) @ x, adj_x=True, adj_y=False)
    run("MatMul", [x[0], x[1]], x[0] @ x[1].T, transpose_a=False, transpose_b=True)
    run("BroadcastTo", [x[:1]], np.broadcast_to(x[:1], x.shape), [np.array(x.shape, np.int32)])
    run("Einsum", [x, y], np.einsum("bij,bjk->ik", x, y), equation="bij,bjk->ik")
    run("All", [x > -1], (x > -1).all(axis=2, keepdims=True), [np.array([-1], np.int32)], keep_dims=True)
    run("Any", [x > 1], (x > 1).any(axis=(0, 2)), [np.array([0, 2], np.int32)], keep_dims=False)
    band = np.array([[j - i <= 1 and i - j <= 0 for j in range(4)] for i in range(3)])
    run("MatrixBandPart", [x], x * band, [np.array(0, np.int64), np.array(1, np.int64)])
    run("Relu", [x], np.maximum(x, 0))
    run("SquaredDifference", [x, x[:, :1]], (x - x[:, :1]) ** 2)


@pytest.mark.parametrize("op, function", [("Expm1", math.expm1), ("Log1p", math.log1p)])
def test_functions_exact_near_0(op: str, function: Any) -> None:
    x = np.array([1e-7, -3e-5, 0.2, 5], F32)
    ((found,),) = ours(single(op, [x], x.shape, custom=b""), [[x]])
    np.testing.assert_allclose(found, [function(v) for v in x], rtol=1e-6)


def pooled(x: np.ndarray, size: int, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Maxima of windows without padding, and their flat places in each image."""
    batch, height, width, depth = x.shape
    rows, columns = (height - size) // stride + 1, (width - size) // stride + 1
    y, places = np.zeros((batch, rows, columns, depth), F32), np.zeros((batch, rows, columns, depth), np.int64)
    for n, i, j, c in np.ndindex(y.shape):
        window = x[n, i * stride : i * stride + size, j * stride : j * stride + size, c]
        r, k = divmod(int(window.argmax()), window.shape[1])
        y[n, i, j, c], places[n, i, j, c] = window.max(), ((i * stride + r) * width + j * stride + k) * depth + c
    return y, places


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_max_pool_with_argmax(dtype: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 7, 6, 3)).astype(F32)
    y, places = pooled(x, 3, 2)
    m = Model()
    told = options(ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="VALID", include_batch_in_index=False)
    outs = m.op("MaxPoolWithArgmax", [m.input(x.shape)], [y.shape, (y.shape, dtype)], custom=told)
    ((found, where),) = ours(m.bytes(outs), [[x]])
    np.testing.assert_array_equal(found, y)
    np.testing.assert_array_equal(where, places.astype(dtype))
    told = options(ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="SAME", include_batch_in_index=True)
    m = Model()
    outs = m.op("MaxPoolWithArgmax", [m.input(x.shape)], [(2, 4, 3, 3), ((2, 4, 3, 3), dtype)], custom=told)
    ((found, where),) = ours(m.bytes(outs), [[x]])
    np.testing.assert_array_equal(found, x.reshape(-1)[where])


def test_mediapipe_s_pool_and_its_inverse(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 6, 6, 2)).astype(F32)
    told = pack("<6i", 1, 2, 2, 2, 2, 0)
    m = Model()
    y, places = m.op("MaxPoolingWithArgmax2D", [m.input(x.shape)], [(1, 3, 3, 2), (1, 3, 3, 2)], custom=told)
    outs = m.op("MaxUnpooling2D", [y, places], [x.shape], custom=told)
    ((maxima, back),) = ours(m.bytes([y, *outs]), [[x]])
    np.testing.assert_array_equal(maxima, pooled(x, 2, 2)[0])
    kept = np.isin(x, maxima)
    np.testing.assert_array_equal(back, np.where(kept, x, 0))


@pytest.mark.parametrize("padding", [1, 2])
def test_transposed_convolution_with_bias(padding: int, rng: np.random.Generator) -> None:
    x, w = rng.standard_normal((1, 3, 4, 2)).astype(F32), rng.standard_normal((3, 3, 2, 2)).astype(F32)
    bias = rng.standard_normal(3).astype(F32)
    full = np.zeros((1, 2 * 2 + 3, 2 * 3 + 2, 3))
    for i, j in np.ndindex(3, 4):
        full[0, 2 * i : 2 * i + 3, 2 * j : 2 * j + 2] += np.einsum("c,ohwc->hwo", x[0, i, j], w)
    taken = [max(0, k - (n - 1) % 2 - 1) if padding == 1 else 0 for n, k in ((3, 3), (4, 2))]
    starts = [t // 2 for t in taken]
    wanted = full[:, starts[0] : 7 - (taken[0] - starts[0]), starts[1] : 8 - (taken[1] - starts[1])] + bias
    data = single("Convolution2DTransposeBias", [x], wanted.shape, F32, [w, bias], custom=pack("<4i", padding, 2, 2, 0))
    ((found,),) = ours(data, [[x]])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_dense_image_warp(rng: np.random.Generator) -> None:
    x, flow = rng.standard_normal((2, 4, 5, 3)).astype(F32), (rng.standard_normal((2, 4, 5, 2)) * 3).astype(F32)
    ((found,),) = ours(single("DenseImageWarp", [x, flow], x.shape, custom=b""), [[x, flow]])
    for n, i, j in np.ndindex(2, 4, 5):
        q = np.array([i, j]) - flow[n, i, j]
        y, u = corner = np.clip(np.floor(q), 0, [2, 3]).astype(int)
        a, b = np.clip(q - corner, 0, 1)
        rows = [x[n, y + k, u] * (1 - b) + x[n, y + k, u + 1] * b for k in range(2)]
        np.testing.assert_allclose(found[n, i, j], rows[0] * (1 - a) + rows[1] * a, rtol=1e-4, atol=1e-5)


def test_an_unknown_custom_operator_is_named() -> None:
    with pytest.raises(UnsupportedError, match="FlexNoSuchThing"):
        ours(single("FlexNoSuchThing", [np.zeros(3, F32)], (3,), custom=b""), [[np.zeros(3, F32)]])
