"""Operators beyond ai.onnx against onnxruntime: a table of nodes, each a network of its own."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.nets import F32, I64, Net
from tests.onnx.contrib import MS, S8, U8, Operand, absent, agree, const, fed, given, known, net_of, numbers

ML = "ai.onnx.ml"
I32 = np.dtype(np.int32)
SCALES = (0.0213, 0.0307, 0.0497)
"""None near a simple multiple of another: results would be ties."""

Case = tuple[str, list[Operand], dict[str, Any]]


def linear(dtype: Any, at: int) -> list[Operand]:
    """A scale and a zero point."""
    zero = (117, 3, 99)[at] if dtype == U8 else (-5, 3, -128)[at]
    return [known(np.float32(SCALES[at])), known(np.array(zero, dtype))]


def weights(stored: Any, shape: tuple[int, ...], count: int, zeros: bool) -> list[Operand]:
    """Weights, and `count` scales and zero points."""
    rng = np.random.default_rng(7)
    around = rng.integers(-9, 9, count or ()) if zeros else np.zeros(count or (), int)
    scales = rng.uniform(0.002, 0.01, count or ()).astype(F32)
    return [const(*shape, dtype=stored), known(scales), known((around + (128 if stored == U8 else 0)).astype(stored))]


CONV = {"group": 2, "pads": [1, 1, 1, 1], "strides": [1, 2]}
ACTIVATIONS: list[tuple[str, dict[str, float]]] = [
    ("Relu", {}), ("LeakyRelu", {"alpha": 0.1}), ("Sigmoid", {}), ("HardSigmoid", {"alpha": 0.3, "beta": 0.6}),
    ("Tanh", {}), ("Elu", {"alpha": 0.7}), ("Softplus", {}), ("Softsign", {}), ("ThresholdedRelu", {"alpha": 0.2}),
    ("Celu", {"alpha": 0.5}), ("Selu", {"alpha": 1.6, "gamma": 1.1}),
]  # fmt: skip
OF_CONV: list[tuple[str, list[float]]] = [
    ("", []), ("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.7]),
    ("HardSigmoid", [0.3, 0.4]),
]  # fmt: skip
PRODUCTS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 5, 6), (2, 3, 6, 4), {"alpha": 0.25}),
    ((2, 3, 6, 5), (2, 3, 4, 6), {"transA": 1, "transB": 1}),
    ((5, 2, 3, 6), (2, 3, 6, 4), {"transBatchA": 1}),
    ((2, 5, 6), (6, 4), {}),
    ((6, 2, 3, 5), (4, 2, 3, 6), {"transBatchA": 1, "transA": 1, "transBatchB": 1, "transB": 1}),
    ((6, 5), (4, 6), {"transA": 1, "transB": 1, "alpha": -1.5}),
]
ROWS = (3, 5, 16)

REALS: list[Case] = [
    *[("FusedConv", [fed(1, 4, 7, 6), const(8, 2, 3, 3), const(8) if bias else absent, *adds],
       CONV | ({"activation": name} if name else {}) | ({"activation_params": parameters} if parameters else {}))
      for (name, parameters), bias, adds in product(OF_CONV, (True, False), ([], [fed(1, 8, 7, 3)]))],
    *[("FusedGemm", [fed(*((6, 5) if "transA" in attrs else (5, 6))),
                     const(*((7, 6) if "transB" in attrs else (6, 7))), const(7)],
       attrs | {"activation": name} | {f"activation_{key}": value for key, value in parameters.items()})
      for name, parameters in ACTIVATIONS
      for attrs in ({}, {"transA": 1, "alpha": 0.5}, {"transB": 1, "beta": 2.0})],
    *[("FusedMatMul", [fed(*a), (const if constant else fed)(*b)], attrs)
      for (a, b, attrs), constant in product(PRODUCTS, (False, True))],
    ("TransposeMatMul", [fed(6, 5), const(4, 6)], {"transA": 1, "transB": 1, "alpha": 2.0}),
    ("Gelu", [fed(*ROWS)], {}), ("BiasGelu", [fed(*ROWS), const(16)], {}),
    ("FastGelu", [fed(*ROWS)], {}), ("FastGelu", [fed(*ROWS), const(16)], {}),
    ("QuickGelu", [fed(*ROWS)], {}), ("QuickGelu", [fed(*ROWS)], {"alpha": 1.2}),
    ("SimplifiedLayerNormalization", [fed(*ROWS), const(16)], {"domain": "", "epsilon": 1e-3}),
    *[(f"Skip{kind}LayerNormalization", [fed(2, 5, 16), fed(*skip), const(16), *more],
       {"outputs": "y__s", "epsilon": 1e-5})
      for skip in ((2, 5, 16), (1, 5, 16), (5, 16))
      for kind, more in (("Simplified", []), ("Simplified", [const(16)]), ("", [const(16), const(16)]),
                         ("", [absent, const(16)]), ("", [const(16)]), ("", []))],
    *[("EmbedLayerNormalization",
       [fed(2, 5, dtype=I32, most=30), fed(2, 5, dtype=I32, most=2) if segments else absent, const(30, 16),
        const(9, 16), const(2, 16) if segments else absent, const(16), const(16),
        fed(2, 5, dtype=I32, most=2) if masked else absent, places], {"outputs": "abc"})
      for segments, masked, places in product(
          (False, True), (False, True), (absent, fed(2, 5, dtype=I32, most=9), fed(1, 5, dtype=I32, most=9)))],
    *[("QEmbedLayerNormalization",
       [fed(2, 5, dtype=I32, most=30), fed(2, 5, dtype=I32, most=2) if segments else absent,
        *(const(*s, dtype=U8) if s else absent for s in shapes), absent,
        *(known(np.float32(0.01 + i / 300)) if s else absent for i, s in enumerate(shapes)),
        *(known(np.array(120 + i, U8)) if s else absent for i, s in enumerate(shapes))], {"outputs": "ab"})
      for segments, shapes in ((False, [(30, 16), (9, 16), (), (16,), (16,)]),
                               (True, [(30, 16), (9, 16), (2, 16), (16,), (16,)]))],
    *[("MatMulBnb4",
       [fed(3, k), const(n * k // 2, dtype=U8), known(np.linspace(0.1, 1, -(-n * k // block), dtype=F32))],
       {"K": k, "N": n, "block_size": block, "quant_type": kind})
      for kind, (n, k, block) in product((0, 1), ((8, 64, 16), (5, 48, 64)))],
    *[("ConvInteger", [fed(1, n, 5, 6, dtype=U8), fed(4, n, 3, 3, dtype=U8), given(np.array(100, U8))],
       {"domain": "", "pads": [1, 1, 1, 1]}) for n in (3, 300)],
    ("MatMulInteger", [fed(2, 900, dtype=U8), known(np.full((900, 3), 127, S8))], {"domain": ""}),  # beyond f32
    *[("CDist", [fed(5, 8), fed(7, 8)], {"metric": metric}) for metric in ("euclidean", "sqeuclidean")],
]  # fmt: skip

NEAR_INTEGERS: list[Case] = [
    *[("DynamicQuantizeMatMul", [fed(3, 5, 24), w, scale, zero if zeros is not None else absent, *bias], {})
      for stored, count, (zeros, bias) in product(
          (S8, U8), (0, 1, 10), ((True, [const(10)]), (False, []), (None, [const(10)])))
      for w, scale, zero in [weights(stored, (24, 10), count, bool(zeros))]],
    *[("MatMulIntegerToFloat", [fed(3, 5, 24, dtype=dtype), w, linear(dtype, 0)[0], scale, linear(dtype, 0)[1], zero,
                                const(10) if bias else absent], {})
      for (dtype, stored), count, bias in product(((U8, U8), (U8, S8), (S8, S8)), (0, 10), (True, False))
      for w, scale, zero in [weights(stored, (24, 10), count, True)]],
]  # fmt: skip

IMAGE, POOLED = (2, 8, 5, 6), (2, 9, 8, 7)
FUNCTIONS: list[tuple[str, dict[str, Any]]] = [
    ("QLinearSigmoid", {}), ("QLinearLeakyRelu", {}), ("QLinearLeakyRelu", {"alpha": 0.3}),
    *[("QLinearSoftmax", {"opset": opset} | axis)
      for opset, axis in ((13, {}), (13, {"axis": 1}), (11, {"axis": 1}), (11, {"axis": 2}))],
]  # fmt: skip
POOLS: list[tuple[str, dict[str, Any]]] = [
    ("QLinearGlobalAveragePool", {}),
    ("QLinearAveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("QLinearAveragePool", {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1}),
    ("QLinearAveragePool", {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0], "ceil_mode": 1}),
    ("QLinearAveragePool", {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}),
]


def of_bytes(dtype: Any) -> list[Case]:
    """Operators on integers of 8 bits; those that give reals apart."""

    def x(*shape: int, at: int) -> list[Operand]:
        return [fed(*shape, dtype=dtype), *linear(dtype, at)]

    steps = [known(np.float32(1 / 256)), known(np.array(0 if dtype == U8 else -128, dtype))]
    least = [known(np.float32(0.1)), known(np.array(3, dtype))]
    kinds = [stored for stored in (U8, S8) if (dtype, stored) != (S8, U8)]
    return [
        *[(op, [*x(*IMAGE, at=0), kind(*other, dtype=dtype), *linear(dtype, 1), *linear(dtype, 2)], {})
          for op, kind, other in product(("QLinearAdd", "QLinearMul"), (fed, const), (IMAGE, (8, 1, 1), (1,), ()))],
        *[(op, [*x(*IMAGE, at=0), *steps], attrs) for op, attrs in FUNCTIONS],
        *[("QLinearConcat", [*linear(dtype, 2), *(p for i, shape in enumerate(shapes) for p in x(*shape, at=i))],
           {"axis": axis})
          for axis, shapes in ((1, [(2, 8, 6), (2, 3, 6), (2, 1, 6)]), (-1, [(2, 3, 1), (2, 3, 4), (2, 3, 2)]))],
        ("QLinearWhere", [given(np.random.default_rng(0).random((8, 1, 6)) > 0.5), *x(*IMAGE, at=0),
                          *x(2, 1, 5, 6, at=1), *linear(dtype, 2)], {}),
        *[(op, [*x(*POOLED, at=0), *linear(dtype, 1)], attrs | {"channels_last": last})
          for (op, attrs), last in product(POOLS, (0, 1))],
        *[("QLinearConv", [*x(*((1, 9, 9, 8) if last else (1, 8, 9, 9)), at=0),
                           *weights(stored, (16, 8 // group, 3, 3), count, zeros), *least,
                           *([known(np.arange(-800, 800, 100), I32)] if group < 8 else [])],
           {"domain": domain, "group": group, "pads": [1, 1, 1, 1], "strides": [2, 1]}
           | ({"channels_last": last} if domain else {}))
          for stored, count, zeros, (domain, last, group) in product(
              kinds, (0, 1, 16), (False, True), (("", 0, 1), ("", 0, 2), (MS, 0, 1), (MS, 1, 1), ("", 0, 8)))],
        *[("QLinearMatMul", [*x(3, 5, 24, at=0), *weights(stored, (24, 10), count, zeros), *least], {"domain": ""})
          for stored, count, zeros in product(kinds, (0, 10), (False, True))],
        *[("QLinearMatMul", [*x(*a, 5, 24, at=0), *x(*b, 24, 7, at=1), known(np.float32(0.41)), least[1]],
           {"domain": ""})
          for a, b in (((2,), (2,)), ((2, 3), (3,)), ((1, 3), (2, 3)), ((2, 1), (1, 3)), ((), (3,)))],
        *[("QGemm", [*x(*((24, 5) if "transA" in attrs else (5, 24)), at=0),
                     *weights(stored, (10, 24) if "transB" in attrs else (24, 10), count, True),
                     known(np.arange(-500, 500, 100), I32) if bias else absent, *(least if stores else [])], attrs)
          for stored, count, attrs, (bias, stores) in product(
              kinds, (0, 10), ({}, {"transB": 1, "alpha": 2.0}, {"transA": 1}),
              ((True, True), (True, False), (False, True)))],
        *[("MatMulInteger", [fed(2, 5, 24, dtype=dtype), const(24, 10, dtype=dtype), *zero], {"domain": ""})
          for zero in ([], [known(7, dtype)])],
        ("NhwcMaxPool", [fed(2, 9, 8, 5, dtype=dtype)],
         {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    ]  # fmt: skip


@pytest.mark.parametrize("op, operands, attrs", [*REALS, *of_bytes(U8), *of_bytes(S8)])
def test_no_step_is_left_to_numpy(op: str, operands: list[Operand], attrs: dict[str, Any]) -> None:
    agree(*net_of(op, operands, **attrs))


@pytest.mark.parametrize("shape", [(6, 4), (2, 3, 6, 4)])
def test_a_product_turns_an_operand_of_open_rank(shape: tuple[int, ...]) -> None:
    net = Net()
    a, b = net.input("a", [5, 4]), net.input("b", None)
    net.output(net("FusedMatMul", a, b, domain=MS, transB=1, alpha=0.5))
    agree(net, {"a": numbers(net.rng, (5, 4), F32), "b": numbers(net.rng, shape, F32)})


@pytest.mark.parametrize("op, operands, attrs", NEAR_INTEGERS)
def test_sums_of_integers(op: str, operands: list[Operand], attrs: dict[str, Any]) -> None:
    agree(*net_of(op, operands, **attrs), rtol=1e-4)


COLUMNS = [0.5, -1.25, 2.0, 0.75, -0.3, 1.5, -2.25, 0.1, 1.0, -0.6, 0.4, -1.1]
ANYWHERE: list[Case] = [
    *[("Trilu", [fed(2, 4, 5), *k], {"upper": upper}) for upper in (0, 1) for k in ([], [known(-1)], [known(2)])],
    *[("Pad", [fed(4, 5), known(np.array([1, 0, 2, 1]).reshape(shape)), *([known([0.5])] * (mode == "constant"))],
       {"mode": mode}) for mode, shape in product(("constant", "reflect", "edge"), ((4,), (1, 4)))],
    ("Unique", [given(np.array([3, 1, 3, 2, 2, 3, 0], F32))], {"outputs": "abc"}),
    *[("ExpandDims", [fed(4, 5), known(axis, I32)], {}) for axis in (0, 1, -1)],
    *[("Range", [given(np.full(shape, n, F32)) for n in ends], {})
      for shape, ends in product(((), (1,)), ((1, 9), (1, 9, 2.5), (9, 1, -1)))],
    ("GatherND", [fed(2, 4, 5), known([[0, 1], [1, 2]])], {}),
    *[("GridSample", [fed(1, 2, 5, 6), given(np.random.default_rng(0).uniform(-1.2, 1.2, (1, 3, 4, 2)).astype(F32))],
       {"mode": mode, "padding_mode": padding})
      for mode, padding in product(("bilinear", "nearest"), ("zeros", "border"))],
    ("Inverse", [given(np.random.default_rng(0).normal(size=(2, 3, 4, 4)).astype(F32) + 4 * np.eye(4, dtype=F32))], {}),
    ("SampleOp", [fed(2, 3)], {}),
    *[("ArrayFeatureExtractor", [given(np.arange(np.prod(shape)).reshape(shape).astype(dtype)),
                                 given(np.resize([3, 0, 3], at).astype(I64))], {"domain": ML})
      for dtype, shape, at in product(("f4", "f8", "i8", "i4"), ((4,), (3, 4), (2, 3, 4), (1, 4)), ((2,), (1, 3)))],
    *[("Scaler", [given(np.arange(12).reshape(3, 4).astype(dtype))],
       {"domain": ML, "offset": [0.5, 1.0, -2.0, 3.0][:count], "scale": [2.0, 0.1, -1.0, 0.3][:count]})
      for dtype, count in product(("f4", "f8", "i8", "i4"), (1, 4))],
    *[("Normalizer", [given(np.array(rows, F32))], {"domain": ML, "norm": norm})
      for rows, norm in product(([[1, -3, 2], [0, 0, 0], [-1, -2, 0], [-4, -5, -6]], [3, -4]), ("MAX", "L1", "L2"))],
    *[("LinearRegressor", [fed(5, 4)],
       {"domain": ML, "targets": targets, "coefficients": COLUMNS[: 4 * targets], "post_transform": way,
        **shift(targets)})
      for targets, way, shift in product(
          (1, 3), ("NONE", "LOGISTIC", "SOFTMAX"), (lambda n: {}, lambda n: {"intercepts": COLUMNS[:n]}))],
    *[("LinearClassifier", [fed(*shape)],
       {"domain": ML, "outputs": "yz", "coefficients": COLUMNS[: 4 * count], "intercepts": COLUMNS[-count:],
        "multi_class": 1, "post_transform": way, **labels(count)})
      for shape, count, way, labels in product(
          ((5, 4), (1, 4)), (2, 3), ("NONE", "LOGISTIC", "SOFTMAX"),
          (lambda n: {"classlabels_ints": [7, -1, 3][:n]}, lambda n: {"classlabels_strings": ["a", "b", "c"][:n]}))],
    *[("SVMRegressor", [fed(5, 4)],
       {"domain": ML, "coefficients": COLUMNS[:3], "rho": [0.25], "one_class": one, "kernel_type": kernel,
        "n_supports": 3, "kernel_params": [0.5, 1.0, 2.0], "support_vectors": COLUMNS[:12]})
      for one, kernel in product((0, 1), ("LINEAR", "RBF", "POLY", "SIGMOID"))],
    ("Imputer", [given(np.float32([[1, np.nan], [np.nan, 2]]))],
     {"domain": ML, "imputed_value_floats": [5.0, 7.0], "replaced_value_float": float("nan")}),
    ("Imputer", [given(np.array([[1, 3], [3, 2]]))],
     {"domain": ML, "imputed_value_int64s": [9], "replaced_value_int64": 3}),
    ("OneHotEncoder", [given(np.array([[1, 3], [5, 2]]))], {"domain": ML, "cats_int64s": [3, 1, 2]}),
    ("OneHotEncoder", [given(np.array([["a"], ["z"], ["b"]], object))], {"domain": ML, "cats_strings": ["b", "a"]}),
    ("FeatureVectorizer", [fed(3, 2), fed(3, 4)], {"domain": ML, "inputdimensions": [2, 4]}),
    *[("Binarizer", [given(np.float32([[0, 0.5, 0.500001, -1.5, np.inf, -np.inf, 1e30]]))],
       {"domain": ML, "threshold": threshold}) for threshold in (0.0, 0.5, -1.5, 1e30)],
]  # fmt: skip

LABELS: list[tuple[np.ndarray, dict[str, Any]]] = [
    (np.array([[2, 1], [5, -1]]), {"keys_int64s": [1, 2], "values_strings": ["a", "b"], "default_string": "z"}),
    (np.array(["b", "c"], object), {"keys_strings": ["a", "b"], "values_floats": [1.5, 2], "default_float": -3.0}),
    (np.float32([0.1, 2, 0.2]), {"keys_floats": [0.1, 2], "values_int64s": [7, 8]}),
    (np.array([3, 4]), {"keys_int64s": [3], "values_int64s": [4]}),
    (np.array(["a", "c"], object), {"keys_strings": ["a"], "values_strings": ["b"]}),
    (np.array([1, 2]), {"keys_int64s": [1, 2, 1], "values_int64s": [5, 6, 7]}),
    (np.float32([0, -0.0]), {"keys_floats": [-0.0, 0.0], "values_int64s": [5, 6]}),
    (np.array(["a"], object), {"keys_strings": ["a", "a"], "values_floats": [-0.0, 2.5]}),
]
ANYWHERE += [("LabelEncoder", [given(x)], {"domain": ML} | attrs) for x, attrs in LABELS]


@pytest.mark.parametrize("op, operands, attrs", ANYWHERE)
def test_results(op: str, operands: list[Operand], attrs: dict[str, Any]) -> None:
    agree(*net_of(op, operands, **attrs), numpy=None)
