"""Operators and options that neither test_element_types nor a model file covers, against LiteRT's reference kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import fastgraph
from fastgraph.kernels.move.coordinates import nearest_indices
from fastgraph.kernels.move.resize_tables import Axis, resize_table
from tests.circle.write import Const, Fed, Model, at, build, litert, ours, vec
from tests.kernels.moving import weighted

pytest.importorskip("ai_edge_litert.interpreter")

RNG = np.random.default_rng(7)
F, I32, L, B = np.float32, np.int32, np.int64, np.bool_


@dataclass
class Case:
    """An operator with its inputs (a bare array is fed), element types of its outputs, and options."""

    op: str
    inputs: list[Any]
    outputs: list[Any] = field(default_factory=lambda: [F])
    options: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    version: int = 1


def real(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(F)


def whole(low: int, high: int, *shape: int, dtype: Any = I32) -> np.ndarray:
    return RNG.integers(low, high, shape).astype(dtype)


X4, PLUS = real(2, 5, 6, 3), np.abs(real(3, 4)) + F(0.1)
UNARY = [Case(op, [PLUS]) for op in ("SQRT", "RSQRT", "LOG")]
BINARY = [Case(op, [whole(0, 2, 3, 4, dtype=B), whole(0, 2, 4, dtype=B)], [B]) for op in ("LOGICAL_AND", "LOGICAL_OR")]
BINARY += [
    Case("POW", [PLUS, PLUS[:1]]),
    Case("LOGICAL_NOT", [whole(0, 2, 5, dtype=B)], [B]),
    Case("PRELU", [X4, Const(real(1, 1, 3))]),
    Case("GELU", [real(3, 4)], options={"approximate": True}, note="tanh"),
    Case("LOCAL_RESPONSE_NORMALIZATION", [real(1, 2, 2, 1)],
         options={"radius": 1, "bias": 1.0, "alpha": 0.5, "beta": 0.7}, note="one channel"),
    Case("BITCAST", [whole(-9, 9, 3, 2)], [L], note="wider"),
    Case("REAL", [(real(3) + 1j * real(3)).astype(np.complex64)]),
    Case("IMAG", [(real(3) + 1j * real(3)).astype(np.complex64)]),
    Case("COMPLEX_ABS", [(real(3) + 1j * real(3)).astype(np.complex64)]),
]  # fmt: skip

POOL = {"stride_w": 2, "stride_h": 1, "filter_width": 3, "filter_height": 2}
WINDOWS = [Case(op, [X4], options={**POOL, "padding": p, "fused_activation_function": "RELU"}, note=p)
           for op in ("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D") for p in ("SAME", "VALID")]  # fmt: skip
STEP = {"stride_w": 2, "stride_h": 1, "dilation_h_factor": 2, "dilation_w_factor": 1}
WINDOWS += [Case("CONV_2D", [X4, Const(real(4, 3, 2, 3)), Const(real(4))], options={**STEP, "padding": p}, note=p)
            for p in ("SAME", "VALID")]  # fmt: skip
WINDOWS += [
    Case("CONV_2D", [real(1, 4, 4, 6), Const(real(6, 3, 3, 2)), Const(real(6))],
         options={"stride_w": 1, "stride_h": 1}, note="groups"),
    Case("DEPTHWISE_CONV_2D", [X4, Const(real(1, 3, 2, 6)), Const(real(6))],
         options={**STEP, "stride_w": 1, "depth_multiplier": 2, "fused_activation_function": "RELU6"}),
    Case("TRANSPOSE_CONV", [vec(2, 9, 6, 2), Const(real(2, 3, 3, 3)), real(2, 5, 3, 3)],
         options={"stride_w": 2, "stride_h": 2, "padding": "SAME"}),
    Case("TRANSPOSE_CONV", [vec(2, 11, 7, 2), Const(real(2, 3, 3, 3)), real(2, 5, 3, 3)],
         options={"stride_w": 2, "stride_h": 2, "padding": "VALID"}, note="valid"),
    Case("CONV_3D", [real(1, 4, 5, 4, 2), Const(real(2, 3, 2, 2, 3)), Const(real(3))],
         options={"stride_w": 1, "stride_h": 2, "stride_d": 1, "padding": "SAME"}),
    Case("CONV_3D_TRANSPOSE", [vec(1, 5, 6, 5, 3), Const(real(2, 2, 2, 3, 2)), real(1, 3, 3, 3, 2)],
         options={"stride_w": 2, "stride_h": 2, "stride_d": 2, "padding": "SAME"}),
    Case("FULLY_CONNECTED", [real(2, 3, 4), Const(real(5, 4)), Const(real(5))],
         options={"keep_num_dims": True}, version=5),
    Case("FULLY_CONNECTED", [real(2, 3, 4), Const(real(5, 12)), None], note="flat"),
    Case("FULLY_CONNECTED", [real(3, 4), real(5, 4), None], note="fed weights"),
    Case("FULLY_CONNECTED", [real(3, 4), Const(whole(-99, 99, 5, 4, dtype=np.int8), (0.02, 0)), Const(real(5))],
         note="hybrid"),
    Case("FULLY_CONNECTED", [real(3, 4), Const(whole(-99, 99, 5, 4, dtype=np.int8), (0.02, 0)), None],
         options={"asymmetric_quantize_inputs": True}, note="hybrid asymmetric"),
    Case("CONV_2D", [X4, Const(whole(-99, 99, 4, 3, 2, 3, dtype=np.int8), ([0.1, 0.2, 0.3, 0.4], [0] * 4, 0)),
                     Const(real(4))], options={"stride_w": 1, "stride_h": 1}, note="hybrid"),
    Case("CONV_2D", [X4, Const(whole(-99, 99, 1, 3, 2, 3, dtype=np.int8), ([0.1], [0], 0)), Const(real(1))],
         options={"stride_w": 1, "stride_h": 1}, note="hybrid of one channel"),
    Case("DEPTHWISE_CONV_2D", [X4, Const(whole(-99, 99, 1, 3, 2, 3, dtype=np.int8), ([0.1, 0.2, 0.3], [0] * 3, 3)),
                               Const(real(3))], options={"stride_w": 1, "stride_h": 1, "depth_multiplier": 1},
         note="hybrid", version=6),
    Case("CONV_2D", [X4, Const(whole(-99, 99, 2, 3, 2, 3, dtype=np.int8), ([0.1, 0.1], [0] * 2, 0)), Const(real(2))],
         options={"stride_w": 1, "stride_h": 1}, note="hybrid of equal scales"),
    Case("CONV_2D", [real(2, 4, 5, 4), Const(whole(-99, 99, 2, 3, 2, 2, dtype=np.int8), ([0.1, 0.2], [0] * 2, 0)),
                     Const(real(2))], options={"stride_w": 1, "stride_h": 1}, note="hybrid in groups"),
    *(Case("TRANSPOSE_CONV", [Const(np.array([2, 4, 10, 2], I32)), Const(whole(-99, 99, 2, 3, 2, 4, dtype=np.int8), q),
                              real(2, 4, 5, 4), Const(real(2))],
           options={"padding": "SAME", "stride_h": 1, "stride_w": 2}, note=f"hybrid {note}", version=3)
      for note, q in (("by channel", ([0.1, 0.2], [0] * 2, 0)), ("with one scale", (0.1, 0)))),
    Case("BATCH_MATMUL", [real(2, 3, 4), real(2, 5, 4)], options={"adj_y": True}),
    Case("BATCH_MATMUL", [real(2, 4, 3), real(4, 5)], options={"adj_x": True}, note="x"),
]  # fmt: skip
WINDOWS += [Case(op, [real(1, 4, 5, 2), vec(7, 3)], options={"align_corners": a, "half_pixel_centers": h},
                 note=f"{a}{h}", version=3) for op in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
            for a, h in ((False, False), (True, False), (False, True))]  # fmt: skip
WINDOWS += [Case("RESIZE_NEAREST_NEIGHBOR", [real(1, 2, 4, 1), vec(82, 94)], note="ties")]

AXES = [Case(f"REDUCE_{k}", [whole(0, 2, 2, 3, dtype=B), vec(1)], [B], {"keep_dims": False}) for k in ("ANY", "ALL")]
AXES += [
    Case("MEAN", [whole(-9, 9, 3, 4), vec(1, 1)], [I32], note="int32, an axis twice"),
    Case("BUCKETIZE", [real(3, 4)], [I32], {"boundaries": [-0.5, 0.0, 1.0]}),
    Case("CUMSUM", [real(3, 4), at(1)], options={"exclusive": True, "reverse": True}),
    Case("SEGMENT_SUM", [real(5, 2), vec(0, 0, 1, 1, 2)]),
    Case("NON_MAX_SUPPRESSION_V4", [np.sort(real(9, 4)), np.abs(real(9)), at(5), at(0.3, F), at(0.1, F)], [I32, I32]),
    Case("NON_MAX_SUPPRESSION_V5", [np.sort(real(9, 4)), np.abs(real(9)), at(5), at(0.6, F), at(0.1, F), at(0.4, F)],
         [I32, F, I32]),
]  # fmt: skip
SHAPES = [
    Case("RESHAPE", [real(2, 6)], options={"new_shape": [3, -1]}, note="option"),
    Case("SQUEEZE", [real(1, 3, 1, 2)], options={"squeeze_dims": [-2]}),
    Case("BROADCAST_TO", [real(3, 1), vec(2, 3, 4)], version=2),
    Case("BROADCAST_ARGS", [vec(3, 1), vec(2, 1, 4)], [I32]),
    Case("RANGE", [at(2), at(11), at(3)], [I32]),
    Case("RANGE", [at(2, F), at(-1, F), at(-0.7, F)], note="floats"),
    Case("SPACE_TO_BATCH_ND", [real(2, 4, 5, 2), vec(2, 3), Const(np.array([[1, 1], [0, 1]], I32))]),
    Case("BATCH_TO_SPACE_ND", [real(12, 2, 2, 2), vec(2, 3), Const(np.array([[1, 0], [0, 1]], I32))]),
    Case("REVERSE_SEQUENCE", [real(3, 2, 4), vec(1, 4, 2)], options={"seq_dim": 2, "batch_dim": 0}, note="last"),
    Case("ONE_HOT", [Const(np.array([0, 3, -1, 2], I32)), at(3), at(5, F), at(-1, F)], options={"axis": 0}),
    Case("SELECT", [whole(0, 2, 3, dtype=B), real(3, 4), real(3, 4)]),
    Case("SLICE", [real(3, 4), Fed(np.array([1, 0], I32)), Fed(np.array([2, -1], I32))], note="fed places"),
    Case("SLICE", [real(3, 4), Fed(np.array([1, 0], I32)), vec(2, 3)], note="of known size at fed places"),
    Case("PADV2", [real(2, 3), Fed(np.array([[1, 0], [2, 1]], I32)), at(4, F)], note="fed amounts"),
    Case("MIRROR_PAD", [real(3, 4), Const(np.array([[1, 2], [2, 3]], I32))], options={"mode": "SYMMETRIC"}, note="s"),
    Case("PACK", [real(2, 3), real(2, 3)], options={"axis": -1, "values_count": 2}),
    Case("SPLIT_V", [real(6, 2), vec(1, -1, 2), at(0)], [F, F, F], {"num_splits": 3}),
    Case("GATHER", [real(2, 3, 4), Const(np.array([[1, 0], [3, 3]], I32))],
         options={"axis": 2, "batch_dims": 1}, note="batches"),
    Case("SPARSE_TO_DENSE", [vec(1, 3), vec(5), at(2, F), at(-1, F)], note="one value"),
    Case("DILATE", [real(2, 3), vec(2, 3), at(0.5, F)]),
    Case("REDUCE_WINDOW", [real(5, 6), at(0, F), vec(2, 3, dtype=L), vec(1, 2, dtype=L), vec(2, 1, dtype=L)],
         options={"reduce_function": "ADD"}),
]  # fmt: skip
CUTS = [
    ({}, (0, 1, -1), (2, 4, -5), (1, 2, -1)),
    ({"begin_mask": 5, "end_mask": 3}, (1, 1, 1), (2, 2, 2), (1, 1, 2)),
    ({"shrink_axis_mask": 5}, (-1, 1, 2), (0, 3, 9), (1, 1, 1)),
    ({"new_axis_mask": 2, "end_mask": 4}, (1, 0, 1), (3, 0, 3), (1, 1, 1)),
    ({"ellipsis_mask": 2, "shrink_axis_mask": 1}, (1, 0, -3), (2, 0, -1), (1, 1, 1)),
    ({"new_axis_mask": 1, "shrink_axis_mask": 6}, (0, 2, 1), (1, 3, 2), (1, 1, 1)),
    ({}, (0, 9, 1), (-1, 2, 99), (1, -1, 1)),
]
SHAPES += [Case("STRIDED_SLICE", [real(3, 4, 5), *(vec(*p) for p in parts)], options=masks, note=str(i))
           for i, (masks, *parts) in enumerate(CUTS)]  # fmt: skip
SHAPES += [Case("STRIDED_SLICE", [real(3, 4, 5), *(Fed(np.array(p, I32)) for p in parts)], options=masks,
                note=f"fed {i}") for i, (masks, *parts) in enumerate(CUTS)]  # fmt: skip


S8, U8, S16 = np.int8, np.uint8, np.int16


def q(*shape: int, dtype: Any = S8, scale: float = 0.05, zero: int = -3) -> Fed:
    """A quantized tensor of any values."""
    limits = np.iinfo(dtype)
    return Fed(whole(limits.min, limits.max + 1, *shape, dtype=dtype), (scale, 0 if dtype == S16 else zero))


def held(item: Fed) -> Const:
    return Const(item.array, item.quant)


OUT, OUT_U8 = (S8, (0.06, 5)), (U8, (0.06, 130))
ONE = {"stride_w": 1, "stride_h": 1}
EACH = ([0.01, 0.02, 0.005, 0.03], [0] * 4)
QUANTIZED = [Case(op, [q(3, 4), q(1, 4, scale=0.02, zero=9)], [OUT], {"fused_activation_function": act}, act)
             for op in ("ADD", "SUB", "MUL") for act in ("NONE", "RELU", "RELU6")]  # fmt: skip
QUANTIZED += [Case(op, [q(3, 4, dtype=U8, zero=120), q(1, 4, dtype=U8, scale=0.02, zero=9)], [OUT_U8], note="uint8")
              for op in ("ADD", "SUB", "MUL")]  # fmt: skip
QUANTIZED += [Case(op, [q(3, 4, dtype=S16, scale=1e-3), q(1, 4, dtype=S16, scale=2e-3)], [(S16, (3e-3, 0))],
                   note="int16") for op in ("ADD", "SUB", "MUL")]  # fmt: skip
QUANTIZED += [Case(op, [q(3, 9, scale=0.03)], [OUT], version=2) for op in ("LEAKY_RELU", "GELU", "ABS")]
QUANTIZED += [Case(op, [q(3, 9, scale=0.03)], [OUT]) for op in ("HARD_SWISH", "ELU")]
QUANTIZED += [
    Case("TANH", [q(3, 9, dtype=S16, scale=4 / 32768)], [(S16, (1 / 32768, 0))], version=3,
         note="int16 by a table"),
    Case("PRELU", [q(1, 3, 4, 2), held(q(1, 1, 2, scale=0.01))], [OUT]),
    Case("RSQRT", [Fed(whole(-100, 127, 3, 4, dtype=S8), (0.01, -128))], [(S8, (0.02, -128))], version=2),
    Case("SQUARED_DIFFERENCE", [q(3, 4, scale=0.01), q(3, 4, scale=0.02)], [(S8, (0.1, -128))], version=2),
    Case("CONV_2D", [q(1, 5, 6, 3), Const(whole(-127, 128, 4, 3, 2, 3, dtype=S8), (*EACH, 0)),
                     Const(whole(-900, 900, 4), ([1.0] * 4, [0] * 4, 0))], [(S8, (0.3, 4))],
         {**ONE, "fused_activation_function": "RELU"}, version=3),
    Case("CONV_2D", [q(1, 5, 6, 3, dtype=U8, zero=130), held(q(4, 3, 2, 3, dtype=U8, scale=0.01, zero=110)),
                     Const(whole(-900, 900, 4), (5e-4, 0))], [(U8, (0.3, 4))], ONE, "uint8"),
    Case("CONV_2D", [q(1, 5, 6, 3, dtype=S16, scale=1e-3), Const(whole(-127, 128, 4, 3, 2, 3, dtype=S8), (*EACH, 0)),
                     Const(whole(-900, 900, 4, dtype=L), ([1.0] * 4, [0] * 4, 0))], [(S16, (1e-2, 0))], ONE, "int16",
         version=4),
    Case("DEPTHWISE_CONV_2D", [q(1, 5, 6, 2), Const(whole(-127, 128, 1, 3, 2, 4, dtype=S8), (*EACH, 3)),
                               Const(whole(-900, 900, 4), ([1.0] * 4, [0] * 4, 0))], [(S8, (0.1, 4))],
         {**ONE, "depth_multiplier": 2}, version=3),
    Case("TRANSPOSE_CONV", [vec(1, 7, 7, 4), Const(whole(-127, 128, 4, 3, 3, 2, dtype=S8), (*EACH, 0)), q(1, 3, 3, 2)],
         [(S8, (0.1, 4))], {"stride_w": 2, "stride_h": 2, "padding": "VALID"}, version=2),
    Case("FULLY_CONNECTED", [q(3, 8), Const(whole(-127, 128, 4, 8, dtype=S8), (0.01, 7)), Const(whole(-900, 900, 4),
                             (5e-4, 0))], [(S8, (0.1, 4))], version=4),
    Case("FULLY_CONNECTED", [q(3, 8, dtype=U8, zero=99), held(q(4, 8, dtype=U8, scale=0.01, zero=140)), None],
         [(U8, (0.1, 120))], note="uint8"),
    Case("FULLY_CONNECTED", [q(3, 8, dtype=S16, scale=1e-3), Const(whole(-127, 128, 4, 8, dtype=S8), (0.01, 0)),
                             Const(whole(-900, 900, 4, dtype=L), (1e-5, 0))], [(S16, (1e-3, 0))], note="int16",
         version=7),
    Case("BATCH_MATMUL", [q(2, 3, 4), q(2, 4, 5)], [(S8, (0.5, 4))], version=2),
    Case("AVERAGE_POOL_2D", [q(1, 5, 6, 3)], [(S8, (0.05, -3))], {**POOL, "padding": "SAME"}, version=2),
    Case("MAX_POOL_2D", [q(1, 5, 6, 3)], [(S8, (0.05, -3))], {**POOL, "padding": "SAME"}, version=2),
    Case("MEAN", [q(2, 3, 4), vec(1)], [(S8, (0.03, -3))], version=2),
    Case("SUM", [q(2, 3, 4), vec(1)], [(S8, (0.13, -3))], version=2),
    Case("RESIZE_BILINEAR", [q(1, 3, 4, 2), vec(5, 7)], [(S8, (0.05, -3))], {"half_pixel_centers": True}, version=3),
    Case("CONCATENATION", [q(2, 3, dtype=U8, zero=9), q(2, 2, dtype=U8, scale=0.02, zero=70)], [(U8, (0.05, 9))],
         {"axis": 1}, "two scales"),
    Case("QUANTIZE", [q(3, 9)], [(U8, (0.02, 99))], note="requantize", version=2),
    Case("DEQUANTIZE", [Const(real(3, 9).astype(np.float16))], version=3, note="halves"),
]  # fmt: skip


def _model(case: Case) -> tuple[bytes, list[np.ndarray]]:
    inputs = [Fed(x) if isinstance(x, np.ndarray) else x for x in case.inputs]
    outputs = [((), *o) if isinstance(o, tuple) else ((), o) for o in case.outputs]
    return build(case.op, inputs, outputs, case.version, case.options)


ALL = [*UNARY, *BINARY, *WINDOWS, *AXES, *SHAPES, *QUANTIZED]
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
    data, fed = _model(Case("PRELU", [real(*x), Const(real(*slope))]))
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
        made = model.op(op, [model.input((1, 1, n_in, 1)), model.input((2,), np.int32)], [(1, 1, 1, 1)],
                        align_corners=corners, half_pixel_centers=centers)  # fmt: skip
        x, counts = np.arange(n_in, dtype=F), (*range(1, 131, 7), 2, 13, 49)
        runs = [[x.reshape(1, 1, -1, 1), np.array([1, n], np.int32)] for n in counts]
        for n, (wanted,) in zip(counts, litert(model.bytes(made), runs, False), strict=True):
            if op == "RESIZE_NEAREST_NEIGHBOR":
                np.testing.assert_array_equal(nearest_indices(n_in, n, mode, rounding), wanted.ravel())
            else:
                np.testing.assert_array_equal(
                    weighted(x, 0, resize_table(Axis(n_in, n), "linear", mode)), wanted.ravel()
                )
