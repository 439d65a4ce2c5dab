"""Einsums are products of matrices: native, and what onnxruntime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.harness import each_tier
from tests.nets import F32, Net, assert_close, by_onnxruntime, feeds_for, numpy_steps

EXTENTS = dict(zip("bqkhdcwijlmn", (2, 5, 7, 3, 8, 4, 6, 5, 6, 3, 2, 4), strict=True))
OF_LETTERS = (
    "bchw,wk->bchk", "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", "ij,jk", "ij,jk->ki", "ij,ij->i", "ij,ij->", "i,j->ij",
    "i,i->", "ij->ji", "ij->", "ij->j", "bij,kj->bik", "bhq,bhk->bhqk", "bcd,cd->bd", "bc,cd,dw->bw", "bid,bjd,d->bij",
    "bqd,hdk->bhqk", "nchw,nkw->nckh", "b,bcd->bcd", "bcd->cb", "ij,kl->ijkl", "bc,dw->b",
)  # fmt: skip
OF_SHAPES: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    ("...ij,...jk->...ik", ((2, 3, 4, 5), (2, 3, 5, 6))), ("...ij,...jk->...ik", ((1, 3, 4, 5), (2, 1, 5, 6))),
    ("b...d,...d->b...", ((2, 3, 4, 8), (3, 4, 8))), ("...d,d->...", ((2, 3, 8), (8,))), ("...i->...", ((2, 3, 4),)),
    ("bij,bjk->bik", ((2, 4, 1), (1, 5, 6))), ("ij,ij->i", ((4, 1), (1, 5))), ("i j , j k -> i k", ((2, 3), (3, 4))),
)  # fmt: skip
CASES = (
    *((eq, tuple(tuple(EXTENTS[c] for c in t) for t in eq.split("->")[0].split(","))) for eq in OF_LETTERS),
    *OF_SHAPES,
)


def written(equation: str, shapes: Any, dtype: Any = F32) -> Net:
    net = Net()
    inputs = [net.input(f"x{i}", shape, dtype) for i, shape in enumerate(shapes)]
    net.output(net("Einsum", *inputs, equation=equation), dtype=dtype)
    return net


@each_tier
@pytest.mark.parametrize("equation, shapes", CASES)
def test_terms(tier: Any, equation: str, shapes: Any) -> None:
    net = written(equation, shapes)
    model = net.agrees(1e-5, isa=tier.name)
    assert not numpy_steps(model)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64"])
def test_element_types(dtype: str) -> None:
    net = written("bqhd,bkhd->bhqk", ((2, 5, 3, 8), (2, 7, 3, 8)), dtype)
    model = net.load()
    feeds = {name: np.rint(x.astype(F32) * 2).astype(dtype) for name, x in feeds_for(model).items()}
    assert_close(list(model.run(feeds).values()), by_onnxruntime(net.bytes(), feeds), 1e-6)
    assert not numpy_steps(model)


@pytest.mark.parametrize("equation, shapes", [("ii->i", ((4, 4),)), ("ij,jj->i", ((3, 4), (4, 4))),
                                              ("ij,jk->ik", ((0, 3), (3, 4)))])  # fmt: skip
def test_what_is_no_product(equation: str, shapes: Any) -> None:
    written(equation, shapes).agrees(1e-5)


def test_attention_that_is_written_so() -> None:
    net = Net()
    q, k, v = (net.input(name, (2, t, 3, 8)) for name, t in (("q", 6), ("k", 9), ("v", 9)))
    scores = net("Mul", net("Einsum", q, k, equation="bqhd,bkhd->bhqk"), net.const(F32.type(0.3)))
    net.output(net("Einsum", net("Softmax", scores, axis=-1), v, equation="bhqk,bkhd->bqhd"))
    model = net.agrees(1e-5)
    assert [step.node.op for step in model.plan.program.steps] == ["attention"]
