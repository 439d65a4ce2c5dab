"""Transposed convolutions without overlap are products that are stored where they belong in y; with it, convolutions
that compute outputs a stride apart."""

from typing import Any

import pytest

import fastgraph as fg
from fastgraph.freedoms import thresholds, without
from fastgraph.kernels.isa.tiers import usable
from fastgraph.plan.program import Step
from tests.amx_trap import AMX, loads_amx, tiles
from tests.kernels.test_amx_real import needs_bf16
from tests.nets import Net, assert_close, by_onnxruntime, feeds_for


def network(x: tuple[int, ...], weights: tuple[int, ...], end: str = "", **attrs: Any) -> bytes:
    """A transposed convolution and what its result is for."""
    net = Net()
    bias = net.weight(weights[1] * attrs.get("group", 1), scale=0.5)
    y = net("ConvTranspose", net.input("x", x), net.weight(*weights), bias, **attrs)
    if end == "Concat":
        y = net("Concat", net("Relu", y), net.input("skip", (x[0], 5, *(2 * n for n in x[2:]))), axis=1)
    elif end == "Add":
        y = net("Add", y, net.input("skip", (x[0], weights[1], *(2 * n for n in x[2:]))))
    elif end:
        y = net(end, y)
    net.output(y)
    return net.bytes()


def kernels(model: fg.Model) -> set[str]:
    return {step.kernel.name for step in model.plan.program.steps if isinstance(step, Step)}


SQUARE: dict[str, Any] = {"strides": [2, 2]}
APART: dict[str, bytes] = {
    "plain": network((2, 7, 5, 9), (7, 9, 2, 2), **SQUARE),
    "relu": network((1, 24, 6, 13), (24, 40, 2, 2), "Relu", **SQUARE),
    "hard swish": network((1, 8, 3, 4), (8, 8, 2, 2), "HardSwish", **SQUARE),
    "beside others": network((2, 16, 4, 7), (16, 12, 2, 2), "Concat", **SQUARE),
    "a row": network((3, 6, 11), (6, 7, 3), strides=[3]),
    "of a row's height": network((2, 6, 3, 5), (6, 7, 1, 4), strides=[1, 4]),
    "of a column": network((2, 6, 3, 5), (6, 7, 3, 1), strides=[3, 1]),
    "planes": network((2, 4, 3, 2, 5), (4, 3, 1, 2, 2), strides=[1, 2, 2]),
}
AROUND: dict[str, Any] = {"pads": [1, 1, 1, 1], **SQUARE}
PHASED: dict[str, bytes] = {
    "overlap": network((1, 8, 5, 5), (8, 8, 3, 3), **SQUARE),
    "images": network((3, 16, 5, 9), (16, 24, 4, 4), "Relu", **AROUND),
    "images of one row": network((2, 16, 1, 5), (16, 16, 2, 3), strides=[2, 1], pads=[0, 1, 0, 1]),
    "a part": network((2, 16, 3, 7), (16, 12, 4, 4), "Concat", **AROUND),
    "odd": network((1, 32, 6, 5), (32, 16, 3, 3), output_padding=[1, 0], **AROUND),
    "oblong": network((1, 16, 4, 5), (16, 16, 3, 7), strides=[1, 3], pads=[1, 0, 0, 2]),
    "groups": network((1, 32, 4, 5), (32, 16, 4, 4), group=2, **AROUND),
    "a long row": network((1, 16, 3000), (16, 16, 8), strides=[4], pads=[2, 2]),
    "a long row as two": network((1, 64, 1, 4000), (64, 16, 2, 4), strides=[2, 2]),
    "many weights": network((1, 512, 2, 2), (512, 160, 2, 2), **SQUARE),
}
SUMMED: dict[str, bytes] = {
    "gaps": network((1, 8, 5, 5), (8, 8, 1, 1), **SQUARE),
    "cut": network((1, 8, 5, 5), (8, 8, 2, 2), pads=[1, 0, 0, 1], **SQUARE),
    "images of an odd height": network((2, 16, 5, 5), (16, 16, 3, 3), **SQUARE),
    "dilated": network((1, 8, 1, 1), (8, 8, 2, 2), dilations=[2, 2], **SQUARE),
    "two planes": network((1, 4, 2, 2, 2), (4, 4, 2, 2, 2), strides=[2, 2, 2]),
    "an addend": network((1, 8, 5, 5), (8, 8, 2, 2), "Add", **SQUARE),
    "a function": network((1, 8, 5, 5), (8, 8, 2, 2), "Tanh", **SQUARE),
}


@pytest.mark.parametrize("isa", [tier.name for tier in usable()])
@pytest.mark.parametrize("name", [*APART, *PHASED, *SUMMED])
def test_transposed_convolutions(name: str, isa: str) -> None:
    source = {**APART, **PHASED, **SUMMED}[name]
    one, two = (fg.load(source, threads=n, isa=isa) for n in (1, 2))
    with without("disjoint", "phases"):
        summed = fg.load(source, threads=1, isa=isa)
    assert "col2im" in kernels(summed)
    assert ("col2im" in kernels(one)) == (name in SUMMED)
    assert ("conv" in kernels(one)) == (name in PHASED)
    feeds = feeds_for(one)
    expected = by_onnxruntime(source, feeds)
    found = [list(model.run(feeds).values()) for model in (one, two, summed)]
    for arrays in found:
        assert_close(arrays, expected, 1e-5)
    assert all(x.tobytes() == y.tobytes() for x, y in zip(found[0], found[1], strict=True))


@loads_amx
@needs_bf16
@pytest.mark.parametrize("precision, error", [("float32", 1e-5), ("bfloat16", 2.0**-5)])
@pytest.mark.parametrize("name", [*APART, *PHASED])
def test_on_tiles(name: str, precision: str, error: float) -> None:
    """On tiles, in three parts or rounded."""
    source = {**APART, **PHASED}[name]
    with thresholds(tiles_least=1):
        models = [fg.load(source, threads=n, isa=AMX.name, precision=precision) for n in (1, 2, 5)]
    assert kernels(models[0]) & {"amx_real", "dot", "conv", "col2im"} == {"amx_real"}
    feeds = feeds_for(models[0])
    with tiles():
        found = [list(model.run(feeds).values()) for model in models]
    assert_close(found[0], by_onnxruntime(source, feeds), error)
    assert all(x.tobytes() == y.tobytes() for other in found[1:] for x, y in zip(found[0], other, strict=True))
