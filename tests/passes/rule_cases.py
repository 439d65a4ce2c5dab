"""Graphs of single operators that rules write as others, with what they are fed."""

from typing import Any

import numpy as np

from fastgraph.ir import Graph
from tests.element_types import one

F32, F64, I8, U8, BOOL = np.float32, np.float64, np.int8, np.uint8, np.bool_
RNG = np.random.default_rng(0)
Feeds = list[np.ndarray]
CASES: list[tuple[str, Graph, Feeds]] = []
EACH: set[str] = set()
"""Cases of single numbers, which are right for the largest ones, too."""


def _case(op: str, arrays: Feeds, *constants: Any, each: bool = False, **attrs: Any) -> None:
    name = f"{op} {arrays[0].dtype} {len(CASES)}"
    CASES.append((name, one(op, arrays, constants, attrs), arrays))
    EACH.update([name] if each else ())


def _x(*shape: int, dtype: Any = F32) -> np.ndarray:
    whole = np.dtype(dtype).kind in "iub"
    return (RNG.integers(0, 5, shape) if whole else RNG.standard_normal(shape) * 2).astype(dtype)


for _op, _attrs in {
    "sigmoid": {}, "tanh": {}, "softplus": {}, "softsign": {}, "mish": {}, "hard_swish": {}, "hard_sigmoid": {},
    "swish": {"alpha": 1.5}, "leaky_relu": {"alpha": 0.1}, "thresholded_relu": {"alpha": 0.5}, "elu": {"alpha": 1.5},
    "celu": {"alpha": 0.7}, "selu": {}, "gelu": {"approximate": "none"},
}.items():  # fmt: skip
    _case(_op, [_x(8, 9, dtype=F64)], each=True, **_attrs)
_case("gelu", [_x(8, 9, dtype=F64)], each=True, approximate="tanh")
for _op in "tan asin acos atan sinh cosh asinh acosh atanh expm1 log1p".split():
    for _kind in (F32, F64):
        _case(_op, [_x(8, 9, dtype=_kind)], each=True)
_case("celu", [_x(8, 9)], each=True, alpha=-0.7)
_case("pow", [_x(8, 9, dtype=F64)], np.array(2.0), each=True)
for _n in (3, 4, -2, -3, -4):
    _case("pow", [_x(8, 9)], np.array(_n, F32), each=True)
_case("shrink", [_x(8, 9)], each=True, lambd=0.7, bias=0.2)
_case("bucketize", [_x(8, 9)], each=True, boundaries=(-1.0, 0.0, 2.5))
_case("fake_quant", [_x(8, 9)], each=True, min=-1.0, max=3.0)
_case("swiglu", [_x(8, 9), _x(8, 9)])
for _op in "softmax log_softmax".split():
    _case(_op, [_x(8, 9, dtype=F64)], axis=1)
REDUCTIONS = "reduce_mean reduce_sum reduce_max reduce_min reduce_prod reduce_l1 reduce_l2 reduce_sum_square " \
             "reduce_log_sum reduce_log_sum_exp"  # fmt: skip
for _op in REDUCTIONS.split():
    for _kind in (F32, F64, np.int32, np.int16, I8):
        if _op.startswith("reduce_log") and np.dtype(_kind).kind == "i":
            continue
        _case(_op, [np.abs(_x(3, 4, 5, dtype=_kind))], np.array([0, 2]))
        _case(_op, [np.abs(_x(3, 4, 5, dtype=_kind))], np.array([1]), keepdims=0)
for _op in ("arg_max", "arg_min"):
    _case(_op, [_x(3, 4, dtype=I8)], axis=1, select_last_index=1)
    _case(_op, [_x(3, 4, dtype=np.int16)], axis=1)
for _op in ("cum_sum", "cum_prod"):
    _case(_op, [_x(3, 4, dtype=I8)], np.array(1))
    _case(_op, [_x(3, 4), np.array(1)])
_case("matmul", [_x(3, 4, dtype=I8), _x(4, 5, dtype=I8)])
_case("batch_to_space", [_x(4, 3, 3, 2)], np.array([2, 2]), np.array([[0, 1], [1, 0]]))
_case("space_to_batch", [_x(1, 5, 4, 2)], np.array([2, 2]), np.array([[0, 1], [2, 0]]))
_case("affine_grid", [_x(2, 2, 3)], np.array([2, 1, 4, 5]))
_case("resize", [_x(1, 4, 4, 2, dtype=U8)], np.ones(0, F32), np.ones(0, F32), np.array([1, 7, 6, 2]), mode="linear")
for _op, _places, _shape in (("scatter_elements", np.array([[0, 2], [1, 1]]), (2, 2)),
                             ("scatter_nd", np.array([[0, 2], [1, 1]]), (2,))):  # fmt: skip
    for _how in ("add", "mul"):
        _case(_op, [_x(3, 4, dtype=BOOL), _places, _x(*_shape, dtype=BOOL)], reduction=_how)
for _kind in ("float8e4m3fn", "int4", "uint2"):
    _case("cast", [_x(8, 9, dtype=F64)], to="float32" if _kind[0] == "f" else "uint8" if _kind[0] == "u" else "int8",
          format=_kind)  # fmt: skip
_case("rms_normalization", [_x(3, 4, 5), _x(4, 5)], axis=1)
_case("rms_normalization", [_x(3, 4, 5, dtype=F64)], np.ones(5), axis=-1)
_case("layer_normalization", [_x(3, 4, 5, dtype=F64)], np.ones(5), np.ones(5), axis=-1)
_case("lp_normalization", [_x(3, 4)], axis=1, p=1)
_case("lp_normalization", [_x(3, 4)], axis=0, p=2)
_case("max_pool", [_x(1, 5, 5, 2, dtype=F64)], kernel_shape=(2, 2))
_case("average_pool", [_x(1, 5, 5, 2, dtype=F64)], kernel_shape=(2, 2), pads=(1, 0, 0, 1))
_case("lp_pool", [_x(1, 5, 5, 2, dtype=F64)], kernel_shape=(2, 2), p=2)
_case("attention", [_x(1, 2, 3, 4), _x(1, 2, 5, 4), _x(1, 2, 5, 4)], np.tri(3, 5, dtype=bool))
