"""Matrix products and friends: matmul, gemm, einsum, det. Semantics: ONNX."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import numpy as np

from ..ir import INT32, Dim, Node, Shape, TensorType
from . import check
from .inference import Types, broadcast, in_float32, join, same_type, shown
from .registry import REQUIRED, Quant, attr, define, fail
from .work import einsum, products


def matmul_shape(node: Node, a: Shape | None, b: Shape | None) -> Shape | None:
    """The shape of a @ b with NumPy's rules for vectors and stacks of matrices."""
    for shape in (a, b):
        if shape == ():
            fail(node, "inputs must have at least rank 1, found a scalar")
    if a is None or b is None:
        return None
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    inner = (left[-1], right[-2])
    if all(isinstance(d, int) for d in inner) and inner[0] != inner[1]:
        fail(node, f"cannot multiply {shown(a)} by {shown(b)}: {inner[0]} columns, {inner[1]} rows")
    batch = broadcast(node, [left[:-2], right[:-2]])
    assert batch is not None
    rows = () if len(a) == 1 else (left[-2],)
    columns = () if len(b) == 1 else (right[-1],)
    return (*batch, *rows, *columns)


@check.takes("a iuf, b")
def _infer_matmul(node: Node, types: Types) -> list[TensorType]:
    a, b = types
    return [TensorType(check.one_dtype(node, types), matmul_shape(node, a.shape, b.shape))]


def check_zero(node: Node, t: TensorType, zero: TensorType | None, what: str, axis: int) -> None:
    """ModelError unless a zero point is absent, or of t's element type and one number, one for each place along `axis`
    or, with t's rank, one for each vector across it."""
    check.one_dtype(node, [t, zero])
    if zero is None or zero.shape is None or zero.shape in ((), (1,)) or t.shape is None:
        return
    if len(zero.shape) == 1:
        check.shape(node, zero, what, t.shape[axis] if len(t.shape) > 1 else 1)
        return
    check.broadcasts(node, zero, what, tuple(1 if i == len(t.shape) - 3 - axis else d for i, d in enumerate(t.shape)))


@check.takes("a iu, b iu, a_zero_point?, b_zero_point?")
def _infer_matmul_integer(node: Node, types: Types) -> list[TensorType]:
    a, b, a_zero, b_zero = types
    check_zero(node, a, a_zero, "a_zero_point", -2)
    check_zero(node, b, b_zero, "b_zero_point", -1)
    return [TensorType(INT32, matmul_shape(node, types[0].shape, types[1].shape))]


def dense_shape(node: Node, x: TensorType, w: TensorType, b: TensorType | None) -> Shape | None:
    """The shape of x [..., K] times w [N, K] plus b [N]."""
    check.one_dtype(node, [x, w, b])
    check.operand(node, x, "x 1+")
    check.operand(node, w, "weight 2")
    n, k = w.shape or (None, None)
    if x.shape is not None:
        check.shape(node, w, "the weight", n, x.shape[-1])
    check.shape(node, b, "the bias", n)
    return None if x.shape is None else (*x.shape[:-1], n)


def _matmul(node: Node, inputs: list[Any]) -> list[Any]:
    return [in_float32(np.matmul, *inputs)]


GEMM = {"alpha": 1.0, "beta": 1.0, "trans_a": 0, "trans_b": 0}


@check.takes("a iuf 2, b 2, c?")
def _infer_gemm(node: Node, types: Types) -> list[TensorType]:
    a, b, c = types
    dtype = check.one_dtype(node, types)
    sa: Shape = a.shape or (None, None)
    sb: Shape = b.shape or (None, None)
    m, k = sa[::-1] if attr(node, "trans_a") else sa
    k2, n = sb[::-1] if attr(node, "trans_b") else sb
    if isinstance(k, int) and isinstance(k2, int) and k != k2:
        fail(node, f"inner extents disagree: A {shown(sa)}, B {shown(sb)}: {k} and {k2}")
    check.broadcasts(node, c, "C", (m, n))
    return [TensorType(dtype, (m, n))]


def _gemm(node: Node, inputs: list[Any]) -> list[Any]:
    def work(a: np.ndarray, b: np.ndarray, *c: np.ndarray) -> np.ndarray:
        y = (a.T if attr(node, "trans_a") else a) @ (b.T if attr(node, "trans_b") else b)
        y = y if attr(node, "alpha") == 1 else attr(node, "alpha") * y
        for term in c:
            y = y + (term if attr(node, "beta") == 1 else attr(node, "beta") * term)
        return y

    return [in_float32(work, *(v for v in inputs if v is not None))]


def terms_of(node: Node, count: int) -> tuple[list[str], str]:
    """The subscripts of each operand and of the result."""
    equation = attr(node, "equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != count:
        fail(node, f"equation {equation!r} has {len(terms)} operands, found {count} inputs")
    if not arrow:
        once = sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1)
        right = ("..." if "..." in left else "") + "".join(once)
    letters = right.replace("...", "", 1)
    if not all(re.fullmatch(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*", term) for term in (*terms, right)):
        fail(node, f"equation {equation!r} must be of letters and at most one ellipsis in a term")
    if len(set(letters)) != len(letters) or not set(letters) <= set(left):
        fail(node, f"the result {right!r} of equation {equation!r} must name letters of the operands, each once")
    return terms, right


@check.takes("operands+ iuf")
def _infer_einsum(node: Node, types: Types) -> list[TensorType]:
    terms, result = terms_of(node, len(types))
    extents: dict[str, Dim] = {}
    stacks: list[Shape | None] = []
    for term, t in zip(terms, types, strict=True):
        if t.shape is None:
            stacks.append(None if "..." in term else ())
            continue
        head, dots, tail = term.partition("...")
        extra = len(t.shape) - len(head) - len(tail)
        if extra < 0 or (extra and not dots):
            fail(node, f"subscripts {term!r} do not fit shape {shown(t.shape)}")
        ends = t.shape[len(t.shape) - len(tail) :]
        for letter, dim in [*zip(head, t.shape, strict=False), *zip(tail, ends, strict=True)]:
            old = extents.get(letter)
            extents[letter] = dim if old == 1 or letter not in extents else old if dim == 1 else join(node, old, dim)
        stacks.append(t.shape[len(head) : len(head) + extra])
    dtype = check.one_dtype(node, types)
    head, dots, tail = result.partition("...")
    stack = broadcast(node, stacks) if dots else ()
    if stack is None:
        return [TensorType(dtype, None)]
    shape = (*(extents.get(c) for c in head), *stack, *(extents.get(c) for c in tail))
    return [TensorType(dtype, shape)]


def _einsum(node: Node, inputs: list[Any]) -> list[Any]:
    equation = attr(node, "equation").replace(" ", "")
    return [in_float32(lambda *arrays: np.einsum(equation, *arrays, optimize=len(arrays) > 2), *inputs)]


@check.takes("x f 2+")
def _infer_det(node: Node, types: Types) -> list[TensorType]:
    shape = types[0].shape
    if shape is not None:
        join(node, shape[-1], shape[-2])
    return [TensorType(types[0].dtype, None if shape is None else shape[:-2])]


def _infer_inverse(node: Node, types: Types) -> list[TensorType]:
    _infer_det(node, types)
    return same_type(node, types)


def _inverse(x: np.ndarray) -> np.ndarray:
    """The inverse of each matrix; NaN for one that has none."""
    flat = x.reshape(-1, *x.shape[-2:])
    y = np.full_like(flat, np.nan)
    for i, matrix in enumerate(flat):
        with suppress(np.linalg.LinAlgError):
            y[i] = np.linalg.inv(matrix)
    return y.reshape(x.shape)


define("matmul", _infer_matmul, _matmul, weights=1, extras_at=2, quant=Quant.INTEGERS, sums=True, work=products(0, 1))
define("matmul_integer", _infer_matmul_integer, weights=1, work=products(0, 1))
define("gemm", _infer_gemm, _gemm, attrs=GEMM, sums=True, work=products(0, 1))
define("einsum", _infer_einsum, _einsum, attrs={"equation": REQUIRED}, work=einsum)
define("det", _infer_det, lambda node, inputs: [in_float32(np.linalg.det, inputs[0])], work=products(0, 0))
define(
    "inverse",
    _infer_inverse,
    lambda node, inputs: [in_float32(_inverse, inputs[0])],
    inputs=(1, 1),
    work=products(0, 0),
)
