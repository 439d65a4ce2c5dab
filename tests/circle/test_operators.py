"""Operators and options that neither test_element_types nor a model file covers, against LiteRT's reference kernels."""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

import fastgraph
from fastgraph.kernels.isa.tiers import usable
from fastgraph.kernels.move.coordinates import nearest_indices
from fastgraph.kernels.move.resize_tables import Axis, resize_table
from tests.circle import write
from tests.circle.write import Const, Fed, Model, build, litert, ours
from tests.kernels.moving import weighted
from tests.tables import rows

pytest.importorskip("ai_edge_litert.interpreter")

RNG = np.random.default_rng(7)
F, I32, L, B = np.float32, np.int32, np.int64, np.bool_
S8, U8, S16 = np.int8, np.uint8, np.int16


class Case(NamedTuple):
    """An operator with its inputs (a bare array is fed), element types of its outputs, options and version."""

    op: str
    note: str
    inputs: list[Any]
    outputs: list[Any]
    options: dict[str, Any]
    version: int


def real(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(F)


def whole(low: int, high: int, *shape: int, dtype: Any = I32) -> np.ndarray:
    return RNG.integers(low, high, shape).astype(dtype)


def flags(*shape: int) -> np.ndarray:
    return whole(0, 2, *shape, dtype=B)


def spectrum() -> np.ndarray:
    return (real(3) + 1j * real(3)).astype(np.complex64)


def w(*shape: int) -> Const:
    return Const(real(*shape))


def w8(scales: Any, *shape: int, axis: int = 0, zero: int = 0) -> Const:
    """Weights of int8 with one scale, or one for each channel."""
    quant = (scales, [0] * len(scales), axis) if isinstance(scales, list) else (scales, zero)
    return Const(whole(-127, 128, *shape, dtype=S8), quant)


def bias(scale: float, count: int, dtype: Any = I32) -> Const:
    quant = (scale, 0) if scale != 1 else ([1.0] * count, [0] * count, 0)
    return Const(whole(-900, 900, count, dtype=dtype), quant)


def q(*shape: int, dtype: Any = S8, scale: float = 0.05, zero: int = -3) -> Fed:
    """A quantized tensor of any values."""
    limits = np.iinfo(dtype)
    return Fed(whole(limits.min, limits.max + 1, *shape, dtype=dtype), (scale, 0 if dtype == S16 else zero))


def held(item: Fed) -> Const:
    return Const(item.array, item.quant)


def out(scale: float, zero: int, dtype: Any = S8) -> list[Any]:
    return [(dtype, (scale, zero))]


X4, PLUS = real(2, 5, 6, 3), np.abs(real(3, 4)) + F(0.1)
POOL = {"stride_w": 2, "stride_h": 1, "filter_width": 3, "filter_height": 2}
STEP = {"stride_w": 2, "stride_h": 1, "dilation_h_factor": 2, "dilation_w_factor": 1}
ONE, TWO = {"stride_w": 1, "stride_h": 1}, {"stride_w": 2, "stride_h": 2}
EACH = [0.01, 0.02, 0.005, 0.03]
CASES = """
SQRT/RSQRT/LOG | PLUS,
LOGICAL_AND/LOGICAL_OR | flags(3, 4), flags(4) | [B]
LOGICAL_NOT | flags(5), | [B]
POW | PLUS, PLUS[:1]
PRELU | X4, w(1, 1, 3)
GELU tanh | real(3, 4), | | {"approximate": True}
LOCAL_RESPONSE_NORMALIZATION one channel | real(1, 2, 2, 1), | | {"radius": 1, "bias": 1.0, "alpha": 0.5, "beta": 0.7}
BITCAST wider | whole(-9, 9, 3, 2), | [L]
REAL/IMAG/COMPLEX_ABS | spectrum(),
MAX_POOL_2D/AVERAGE_POOL_2D/L2_POOL_2D same | X4, | | POOL | {"padding": "SAME", "fused_activation_function": "RELU"}
MAX_POOL_2D/AVERAGE_POOL_2D/L2_POOL_2D valid | X4, | | POOL | {"padding": "VALID", "fused_activation_function": "RELU"}
CONV_2D same | X4, w(4, 3, 2, 3), w(4) | | STEP | {"padding": "SAME"}
CONV_2D valid | X4, w(4, 3, 2, 3), w(4) | | STEP | {"padding": "VALID"}
CONV_2D groups | real(1, 4, 4, 6), w(6, 3, 3, 2), w(6) | | ONE
DEPTHWISE_CONV_2D | X4, w(1, 3, 2, 6), w(6) | | STEP | {"stride_w": 1, "depth_multiplier": 2,
  "fused_activation_function": "RELU6"}
TRANSPOSE_CONV | vec(2, 9, 6, 2), w(2, 3, 3, 3), real(2, 5, 3, 3) | | TWO | {"padding": "SAME"}
TRANSPOSE_CONV valid | vec(2, 11, 7, 2), w(2, 3, 3, 3), real(2, 5, 3, 3) | | TWO | {"padding": "VALID"}
CONV_3D | real(1, 4, 5, 4, 2), w(2, 3, 2, 2, 3), w(3) | | {"stride_w": 1, "stride_h": 2, "stride_d": 1}
CONV_3D_TRANSPOSE | vec(1, 5, 6, 5, 3), w(2, 2, 2, 3, 2), real(1, 3, 3, 3, 2) | | TWO | {"stride_d": 2}
FULLY_CONNECTED | real(2, 3, 4), w(5, 4), w(5) | | {"keep_num_dims": True} | | 5
FULLY_CONNECTED no rows | real(2, 0, 4), w(5, 4), w(5) | | {"keep_num_dims": True} | | 5
FULLY_CONNECTED flat | real(2, 3, 4), w(5, 12), None
FULLY_CONNECTED fed weights | real(3, 4), real(5, 4), None
FULLY_CONNECTED hybrid | real(3, 4), w8(0.02, 5, 4), w(5)
FULLY_CONNECTED hybrid asymmetric | real(3, 4), w8(0.02, 5, 4), None | | {"asymmetric_quantize_inputs": True}
CONV_2D hybrid | X4, w8([0.1, 0.2, 0.3, 0.4], 4, 3, 2, 3), w(4) | | ONE
CONV_2D hybrid of one channel | X4, w8([0.1], 1, 3, 2, 3), w(1) | | ONE
CONV_2D hybrid of equal scales | X4, w8([0.1, 0.1], 2, 3, 2, 3), w(2) | | ONE
CONV_2D hybrid in groups | real(2, 4, 5, 4), w8([0.1, 0.2], 2, 3, 2, 2), w(2) | | ONE
DEPTHWISE_CONV_2D hybrid | X4, w8([0.1, 0.2, 0.3], 1, 3, 2, 3, axis=3), w(3) | | ONE | {"depth_multiplier": 1} | 6
TRANSPOSE_CONV hybrid by channel | vec(2, 4, 10, 2), w8([0.1, 0.2], 2, 3, 2, 4), real(2, 4, 5, 4), w(2) | |
  {"stride_h": 1, "stride_w": 2} | | 3
TRANSPOSE_CONV hybrid with one scale | vec(2, 4, 10, 2), w8(0.1, 2, 3, 2, 4), real(2, 4, 5, 4), w(2) | |
  {"stride_h": 1, "stride_w": 2} | | 3
BATCH_MATMUL | real(2, 3, 4), real(2, 5, 4) | | {"adj_y": True}
BATCH_MATMUL x | real(2, 4, 3), real(4, 5) | | {"adj_x": True}
RESIZE_BILINEAR/RESIZE_NEAREST_NEIGHBOR | real(1, 4, 5, 2), vec(7, 3) | | | | 3
RESIZE_BILINEAR/RESIZE_NEAREST_NEIGHBOR corners | real(1, 4, 5, 2), vec(7, 3) | | {"align_corners": True} | | 3
RESIZE_BILINEAR/RESIZE_NEAREST_NEIGHBOR centers | real(1, 4, 5, 2), vec(7, 3) | | {"half_pixel_centers": True} | | 3
RESIZE_NEAREST_NEIGHBOR ties | real(1, 2, 4, 1), vec(82, 94)
REDUCE_ANY/REDUCE_ALL | flags(2, 3), vec(1) | [B]
MEAN int32, an axis twice | whole(-9, 9, 3, 4), vec(1, 1) | [I32]
BUCKETIZE | real(3, 4), | [I32] | {"boundaries": [-0.5, 0.0, 1.0]}
CUMSUM | real(3, 4), at(1) | | {"exclusive": True, "reverse": True}
SEGMENT_SUM | real(5, 2), vec(0, 0, 1, 1, 2)
NON_MAX_SUPPRESSION_V4 | np.sort(real(9, 4)), np.abs(real(9)), at(5), at(0.3, F), at(0.1, F) | [I32, I32]
NON_MAX_SUPPRESSION_V5 | np.sort(real(9, 4)), np.abs(real(9)), at(5), at(0.6, F), at(0.1, F), at(0.4, F) | [I32, F, I32]
BROADCAST_ARGS | vec(3, 1), vec(2, 1, 4) | [I32]
RANGE | at(2), at(11), at(3) | [I32]
RANGE floats | at(2, F), at(-1, F), at(-0.7, F)
SPACE_TO_BATCH_ND | real(2, 4, 5, 2), vec(2, 3), Const(np.array([[1, 1], [0, 1]], I32))
BATCH_TO_SPACE_ND | real(12, 2, 2, 2), vec(2, 3), Const(np.array([[1, 0], [0, 1]], I32))
REVERSE_SEQUENCE last | real(3, 2, 4), vec(1, 4, 2) | | {"seq_dim": 2, "batch_dim": 0}
ONE_HOT | vec(0, 3, -1, 2), at(3), at(5, F), at(-1, F) | | {"axis": 0}
SELECT | flags(3), real(3, 4), real(3, 4)
SLICE fed places | real(3, 4), Fed(np.array([1, 0], I32)), Fed(np.array([2, -1], I32))
SLICE of known size at fed places | real(3, 4), Fed(np.array([1, 0], I32)), vec(2, 3)
PADV2 fed amounts | real(2, 3), Fed(np.array([[1, 0], [2, 1]], I32)), at(4, F)
MIRROR_PAD | real(3, 4), Const(np.array([[1, 2], [2, 3]], I32)) | | {"mode": "SYMMETRIC"}
SPLIT_V | real(6, 2), vec(1, -1, 2), at(0) | [F, F, F] | {"num_splits": 3}
GATHER batches | real(2, 3, 4), Const(np.array([[1, 0], [3, 3]], I32)) | | {"axis": 2, "batch_dims": 1}
SPARSE_TO_DENSE one value | vec(1, 3), vec(5), at(2, F), at(-1, F)
DILATE | real(2, 3), vec(2, 3), at(0.5, F)
REDUCE_WINDOW | real(5, 6), at(0, F), *(vec(*n, dtype=L) for n in ((2, 3), (1, 2), (2, 1))) | |
  {"reduce_function": "ADD"}
ADD/SUB/MUL relu | q(3, 4), q(1, 4, scale=0.02, zero=9) | out(0.06, 5) | {"fused_activation_function": "RELU"}
ADD/SUB/MUL relu6 | q(3, 4), q(1, 4, scale=0.02, zero=9) | out(0.06, 5) | {"fused_activation_function": "RELU6"}
TANH int16 by a table | q(3, 9, dtype=S16, scale=4 / 32768), | out(1 / 32768, 0, S16) | | | 3
RSQRT bytes | Fed(whole(-100, 127, 3, 4, dtype=S8), (0.01, -128)), | out(0.02, -128) | | | 2
CONV_2D bytes | q(1, 5, 6, 3), w8(EACH, 4, 3, 2, 3), bias(1, 4) | out(0.3, 4) | ONE |
  {"fused_activation_function": "RELU"} | 3
CONV_2D uint8 | q(1, 5, 6, 3, dtype=U8, zero=130), held(q(4, 3, 2, 3, dtype=U8, scale=0.01, zero=110)), bias(5e-4, 4) |
  out(0.3, 4, U8) | ONE
CONV_2D int16 | q(1, 5, 6, 3, dtype=S16, scale=1e-3), w8(EACH, 4, 3, 2, 3), bias(1, 4, L) | out(1e-2, 0, S16) |
  ONE | | 4
DEPTHWISE_CONV_2D bytes | q(1, 5, 6, 2), w8(EACH, 1, 3, 2, 4, axis=3), bias(1, 4) | out(0.1, 4) | ONE |
  {"depth_multiplier": 2} | 3
FULLY_CONNECTED bytes | q(3, 8), w8(0.01, 4, 8, zero=7), bias(5e-4, 4) | out(0.1, 4) | | | 4
FULLY_CONNECTED uint8 | q(3, 8, dtype=U8, zero=99), held(q(4, 8, dtype=U8, scale=0.01, zero=140)), None |
  out(0.1, 120, U8)
FULLY_CONNECTED int16 | q(3, 8, dtype=S16, scale=1e-3), w8(0.01, 4, 8), bias(1e-5, 4, L) | out(1e-3, 0, S16) | | | 7
CONCATENATION two scales | q(2, 3, dtype=U8, zero=9), q(2, 2, dtype=U8, scale=0.02, zero=70) | out(0.05, 9, U8) |
  {"axis": 1}
DEQUANTIZE halves | Const(real(3, 9).astype(np.float16)), | | | | 3
"""
"""Operators and note, inputs, outputs (one of float32), options, more of them, version."""
CUTS = """
| (0, 1, -1), (2, 4, -5), (1, 2, -1) | {}
| (1, 1, 1), (2, 2, 2), (1, 1, 2) | {"begin_mask": 5, "end_mask": 3}
| (-1, 1, 2), (0, 3, 9), (1, 1, 1) | {"shrink_axis_mask": 5}
| (-1, 1, 2), (0, 3, 9), (1, 1, 1) | {"shrink_axis_mask": 5, "begin_mask": 6, "end_mask": 4}
| (1, 0, 1), (3, 0, 3), (1, 1, 1) | {"new_axis_mask": 2, "end_mask": 4}
| (1, 0, -3), (2, 0, -1), (1, 1, 1) | {"ellipsis_mask": 2, "shrink_axis_mask": 1}
| (0, 2, 1), (1, 3, 2), (1, 1, 1) | {"new_axis_mask": 1, "shrink_axis_mask": 6}
| (0, 9, 1), (-1, 2, 99), (1, -1, 1) | {}
"""
"""Of STRIDED_SLICE: starts, ends and steps, and masks."""


NAMES = vars(write) | globals()


def cases() -> Iterator[Case]:
    for title, inputs, outputs, options, more, version in rows(CASES, NAMES, 6):
        ops, _, note = title.partition(" ")
        for op in ops.split("/"):
            yield Case(op, note, list(inputs), outputs or [F], (options or {}) | (more or {}), version or 1)
    for i, (_, parts, masks) in enumerate(rows(CUTS, NAMES, 3)):
        for kind in (Const, Fed):
            given = [kind(np.array(part, I32)) for part in parts]
            yield Case("STRIDED_SLICE", f"{kind.__name__} {i}", [real(3, 4, 5), *given], [F], masks, 1)


def _model(case: Case) -> tuple[bytes, list[np.ndarray]]:
    inputs = [Fed(x) if isinstance(x, np.ndarray) else x for x in case.inputs]
    outputs = [((), *o) if isinstance(o, tuple) else ((), o) for o in case.outputs]
    return build(case.op, inputs, outputs, case.version, case.options)


ALL = list(cases())
ONLY_DEFAULT = {"ELU", "SEGMENT_SUM", "SUM"}
"""Operators that LiteRT's table of reference kernels lacks; and the one whose sums of int8 overflow there."""


@pytest.mark.parametrize("case", ALL, ids=lambda c: f"{c.op} {c.note}".strip())
def test_an_operator_gives_what_litert_gives(case: Case) -> None:
    data, fed = _model(case)
    ((wanted,), (found,)) = (litert(data, [fed], case.op not in ONLY_DEFAULT), ours(data, [fed]))
    for y, expected, kind in zip(found, wanted, case.outputs, strict=True):
        assert y.dtype == expected.dtype and y.shape == expected.shape
        if isinstance(kind, tuple):
            assert np.abs(y.astype(int) - expected.astype(int)).max() <= (2 if "table" in case.note else 1)
            continue
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=2e-6 * (np.abs(expected).max(initial=0) + 0.1))


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=lambda c: f"{c.op} {c.note}".strip())
def test_the_kernels_give_what_the_references_give(case: Case) -> None:
    data, fed = _model(case)
    model = fastgraph.load(data)
    found = model.run(dict(zip((spec.name for spec in model.inputs), fed, strict=True)))
    for y, expected, kind in zip(found.values(), ours(data, [fed])[0], case.outputs, strict=True):
        assert y.dtype == expected.dtype and y.shape == expected.shape
        if isinstance(kind, tuple):
            assert np.abs(y.astype(int) - expected.astype(int)).max() <= 1
        else:
            np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("x", "slope"), [((1, 4, 4, 1), (1, 1, 3)), ((3,), (2, 3))])
def test_a_slope_wider_than_the_input_is_refused(x: tuple[int, ...], slope: tuple[int, ...]) -> None:
    data, fed = build("PRELU", [Fed(real(*x)), w(*slope)], [()], 1, {})
    with pytest.raises(RuntimeError, match="HaveSameShapes"):
        litert(data, [fed])
    with pytest.raises(fastgraph.ModelError, match="slope must broadcast"):
        fastgraph.load(data)


@pytest.mark.parametrize("op", ["RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"])
@pytest.mark.parametrize(("corners", "centers"), [(False, False), (True, False), (False, True)])
def test_the_pixels_of_many_sizes_are_litert_s(op: str, corners: bool, centers: bool) -> None:
    """Ties between two fall to the same side in all of them."""
    mode = "tf_align_corners" if corners else "tf_half_pixel" if centers else "tf_asymmetric"
    rounding = "floor" if mode == "tf_asymmetric" else "round_prefer_ceil"
    for n_in in (1, 2, 3, 7, 14, 28, 61, 96, 130):
        model = Model()
        inputs, told = [model.input((1, 1, n_in, 1)), model.input((2,), np.int32)], {"align_corners": corners}
        made = model.op(op, inputs, [(1, 1, 1, 1)], half_pixel_centers=centers, **told)
        x, counts = np.arange(n_in, dtype=F), (*range(1, 131, 7), 2, 13, 49)
        runs = [[x.reshape(1, 1, -1, 1), np.array([1, n], np.int32)] for n in counts]
        for n, (wanted,) in zip(counts, litert(model.bytes(made), runs, False), strict=True):
            if op == "RESIZE_NEAREST_NEIGHBOR":
                np.testing.assert_array_equal(nearest_indices(n_in, n, mode, rounding), wanted.ravel())
            else:
                np.testing.assert_array_equal(
                    weighted(x, 0, resize_table(Axis(n_in, n), "linear", mode)), wanted.ravel()
                )


@pytest.mark.parametrize("isa", ["numpy", *(tier.name for tier in usable())])
def test_places_between_words_have_ten_bits(isa: str) -> None:
    """LiteRT rounds in / out to 10 bits for int16 (only for these: its delegate does bytes), a map's width away."""
    options = ({}, {"align_corners": True}, {"half_pixel_centers": True})
    for told, (small, large) in product(options, ((7, 200), (13, 50), (33, 9), (1, 3), (5, 1))):
        model, shape = Model(), (1, 2, large, 2)
        x, size = model.input((1, 2, small, 2), np.int16, (1e-3, 0)), model.const(np.array(shape[1:3], I32))
        data = model.bytes(model.op("RESIZE_BILINEAR", [x, size], [(shape, np.int16, (1e-3, 0))], **told))
        fed = np.random.default_rng(small).integers(-32768, 32768, (1, 2, small, 2), np.int16)
        ((wanted,),) = litert(data, [[fed]])
        assert np.abs(fastgraph.load(data, isa=isa, threads=1)(fed).astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("isa", ["numpy", *(tier.name for tier in usable())])
@pytest.mark.parametrize("scale", [1e-3, 4e-4])
def test_a_slope_in_bytes_beside_words(isa: str, scale: float) -> None:
    """LiteRT reads the slopes of int16 as int8, whatever they are stored as."""
    model, shape = Model(), (1, 2, 9, 5)
    x, slope = model.input(shape, np.int16, (1e-3, 0)), np.arange(-120, 121, 60, np.int8).reshape(1, 1, 5)
    data = model.bytes(model.op("PRELU", [x, model.const(slope, quant=(0.01, 0))], [(shape, np.int16, (scale, 0))]))
    fed = np.random.default_rng(0).integers(-9000, 9000, shape, np.int16)
    ((wanted,),) = litert(data, [[fed]])
    assert np.abs(fastgraph.load(data, isa=isa, threads=1)(fed).astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("isa", ["numpy", None])
def test_slices_backwards_from_before_the_first(isa: str | None) -> None:
    parts = [Const(np.array(part, I32)) for part in ((-6, 0), (-5, 3), (-2, 1))]
    data, fed = build("STRIDED_SLICE", [Fed(real(2, 4)), *parts], [((0, 3), F)], 1, {})
    assert fastgraph.load(data, isa=isa)(*fed).shape == (0, 3) == litert(data, [fed])[0][0].shape
