"""Attention from files: as an operator, and as products and a softmax; native, and as onnxruntime has it."""

from collections.abc import Callable

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.freedoms import without
from tests.blocks import BLOCKS, heads
from tests.mil.test_mil_rules import model as core_ml
from tests.nets import F32, I64, Net, assert_close, by_onnxruntime, feeds_for, numpy_steps
from tests.ops.test_node_cases import array, cases
from tests.plan.computed import ENDS


def operators(model: fg.Model) -> list[str]:
    return [step.node.op for step in model.plan.program.steps]


# -- the operator


NAMES = sorted(
    case.name for kind in ("Attention", "RotaryEmbedding") for case in cases()[kind] if "bf16" not in case.name
)


@pytest.mark.parametrize("name", NAMES)
def test_cases_of_onnx_run_native(name):
    case = next(case for kind in ("Attention", "RotaryEmbedding") for case in cases()[kind] if case.name == name)
    model = fg.load(case.model.SerializeToString(), threads=1)
    for inputs, outputs in case.data_sets:
        feeds = zip((value.name for value in case.model.graph.input), map(array, inputs), strict=True)
        found = model.run({key: x for key, x in feeds if x is not None})
        half = any(y.dtype == np.float16 for y in found.values())
        assert_close(list(found.values()), list(map(array, outputs)), 2e-3 if half else 1e-5)
    assert not numpy_steps(model)


# -- as other operators


def scores(net: Net, q: str, k: str) -> str:
    return net("MatMul", q, net("Transpose", k, perm=[0, 1, 3, 2]))


def joined(net: Net, y: str, *shape: int) -> str:
    return net("Reshape", net("Transpose", y, perm=[0, 2, 1, 3]), np.array(shape, I64))


def of_rows(net: Net) -> None:
    """Images by rows by heads."""
    q, k, v = (heads(net, net.input(n, (2, t, 24)), 2, t, 3, 8) for n, t in (("q", 5), ("k", 7), ("v", 7)))
    weights = net("Softmax", net("Mul", scores(net, q, k), F32.type(0.3)), axis=-1)
    net.output(joined(net, net("MatMul", weights, v), 2, 5, 24))


def of_heads(net: Net) -> None:
    q, k, v = (net.input(n, (2, 3, t, 8)) for n, t in (("q", 40), ("k", 300), ("v", 300)))
    masks = net.input("mask", (2, 1, 1, 300)), net.weight(3, 40, 300), net.input("row", (40, 1))
    x = net("Div", scores(net, q, k), F32.type(2))
    for mask in masks:
        x = net("Add", mask, x)
    net.output(net("MatMul", net("Softmax", x, axis=3), v))


def of_one_head(net: Net) -> None:
    """Products of rank 3, and keys that lie by features."""
    q, k, v = (net.input(n, (4, 6, 10)) for n in "qkv")
    x = net("Add", net("MatMul", q, net("Transpose", k, perm=[0, 2, 1])), net.weight(1, 6, 6))
    net.output(net("MatMul", net("Softmax", x, axis=-1), v))


def of_a_scale_below_0(net: Net) -> None:
    q, k, v = (net.input(n, (1, 2, 5, 8)) for n in "qkv")
    x = net("Mul", scores(net, q, k), F32.type(-0.3))
    net.output(net("MatMul", net("Softmax", x, axis=-1), v))


def of_shared_keys(net: Net) -> None:
    """One head of keys and values for all."""
    q, k, v = net.input("q", (2, 3, 5, 8)), net.input("k", (2, 1, 9, 8)), net.input("v", (2, 1, 9, 4))
    net.output(net("MatMul", net("Softmax", scores(net, q, k), axis=-1), v))


def of_windows(net: Net) -> None:
    """A mask for each window of an image, where windows are images themselves."""
    q, k, v = (net.input(n, (6, 2, 4, 8)) for n in "qkv")
    x = net("Reshape", scores(net, q, k), [2, 3, 2, 4, 4])
    x = net("Add", x, net.weight(1, 3, 1, 4, 4))
    x = net("Reshape", x, [6, 2, 4, 4])
    net.output(net("MatMul", net("Softmax", x, axis=-1), v))


def of_relative_positions(net: Net) -> None:
    """Masks by rows and by columns of keys, added while these are axes of their own (Li et al. 2022, MViTv2)."""
    q, k, v = (net.input(n, (2, 3, t, 8)) for n, t in (("q", 12), ("k", 20), ("v", 20)))
    x = net("Reshape", scores(net, q, k), [2, 3, 3, 4, 4, 5])
    for name, shape in (("rows", (4, 1)), ("columns", (1, 5))):
        x = net("Add", x, net.input(name, (2, 3, 3, 4, *shape)))
    x = net("Add", net("Reshape", x, [2, 3, 12, 20]), net.weight(12, 20))
    net.output(net("MatMul", net("Softmax", x, axis=-1), v))


def of_windows_behind_heads(net: Net) -> None:
    """Windows by rows by heads, turned such that windows follow heads."""
    shape = net.const(np.array([2, 3, 5, 4, 8], I64))
    q, k, v = (net("Transpose", net("Reshape", net.input(n, (2, 15, 32)), shape), perm=[0, 3, 1, 2, 4]) for n in "qkv")
    x = net("Mul", net("MatMul", q, net("Transpose", k, perm=[0, 1, 2, 4, 3])), F32.type(0.3))
    y = net("Transpose", net("MatMul", net("Softmax", x, axis=-1), v), perm=[0, 2, 3, 1, 4])
    net.output(net("Reshape", y, [2, 15, 32]))


def scaled_by_heads(net: Net) -> None:
    """As cosines of queries and keys are, before a mask."""
    q, k, v = (net.input(n, (2, 3, 4, 8)) for n in "qkv")
    x = net("Add", net("Mul", scores(net, q, k), net.weight(3, 1, 1)), net.weight(3, 4, 4))
    net.output(net("MatMul", net("Softmax", x, axis=-1), v))


def divided_by_heads(net: Net) -> None:
    q, k, v = (heads(net, net.input(n, (2, 5, 24)), 2, 5, 3, 8) for n in "qkv")
    x = net("Div", scores(net, q, k), net.weight(1, 3, 1, 1))
    net.output(joined(net, net("MatMul", net("Softmax", x, axis=-1), v), 2, 5, 24))


FOUND = (
    scaled_by_heads, divided_by_heads,
    of_rows, of_heads, of_one_head, of_a_scale_below_0, of_shared_keys, of_relative_positions, of_windows_behind_heads,
    BLOCKS["attention"], BLOCKS["attention_of_groups"], BLOCKS["attention_of_maps"],
)  # fmt: skip


@pytest.mark.parametrize("write", FOUND)
def test_products_and_a_softmax(write: Callable[[Net], None]) -> None:
    net = Net()
    write(net)
    for tier in ENDS:
        found = operators(net.agrees_on_threads(counts=(1, 2), isa=tier.name))
        assert found.count("attention") == 1 and not {"softmax", "matmul", "transpose"} & set(found)
    net.agrees(1e-5, isa="numpy")


def also_read(net: Net) -> None:
    q, k, v = (net.input(n, (1, 2, 4, 8)) for n in "qkv")
    weights = net("Softmax", scores(net, q, k), axis=-1)
    net.output(weights, net("MatMul", weights, v))


def over_queries(net: Net) -> None:
    q, k, v = (net.input(n, (1, 2, 4, 8)) for n in "qkv")
    net.output(net("MatMul", net("Softmax", scores(net, q, k), axis=-2), v))


def scaled_with_mask(net: Net) -> None:
    q, k, v = (net.input(n, (1, 2, 4, 8)) for n in "qkv")
    x = net("Mul", net("Add", scores(net, q, k), net.weight(4, 4)), 0.5)
    net.output(net("MatMul", net("Softmax", x, axis=-1), v))


def values_of_all(net: Net) -> None:
    """One matrix of values for all heads, but keys of each."""
    q, k, v = (net.input(n, (1, h, 4, 8)) for n, h in (("q", 2), ("k", 2), ("v", 1)))
    net.output(net("MatMul", net("Softmax", scores(net, q, k), axis=-1), v))


def of_five_axes(net: Net) -> None:
    """A mask for each of three axes of heads."""
    q, k, v = (net.input(n, (2, 3, 2, 4, 8)) for n in "qkv")
    x = net("MatMul", q, net("Transpose", k, perm=[0, 1, 2, 4, 3]))
    x = net("Add", x, net.weight(2, 1, 2, 4, 4))
    net.output(net("MatMul", net("Softmax", x, axis=-1), v))


def of_windows_with_a_mask(net: Net) -> None:
    """That follow heads."""
    q, k, v = (net.input(n, (2, 3, 2, 4, 8)) for n in "qkv")
    q, k, v = (net("Transpose", y, perm=[0, 2, 1, 3, 4]) for y in (q, k, v))
    x = net("Add", net("MatMul", q, net("Transpose", k, perm=[0, 1, 2, 4, 3])), net.weight(3, 4, 4))
    net.output(net("MatMul", net("Softmax", x, axis=-1), v))


def of_heads_that_are_windows(net: Net) -> None:
    """Windows behind heads in queries and keys, heads behind windows in values."""
    q, k, v = net.input("q", (2, 2, 1, 4, 8)), net.input("k", (2, 2, 1, 4, 8)), net.input("v", (1, 2, 2, 4, 8))
    x = net("MatMul", q, net("Transpose", k, perm=[0, 1, 2, 4, 3]))
    x = net("Reshape", x, [1, 2, 2, 4, 4])
    net.output(net("MatMul", net("Softmax", x, axis=-1), net("Transpose", v, perm=[0, 2, 1, 3, 4])))


def of_known_positions(net: Net) -> None:
    """Masks by rows and by columns that are constants, which would be large ones if they were expanded."""
    q, k, v = (net.input(n, (2, 3, t, 8)) for n, t in (("q", 12), ("k", 20), ("v", 20)))
    x = net("Reshape", scores(net, q, k), [2, 3, 3, 4, 4, 5])
    x = net("Add", net("Add", x, net.weight(3, 1, 4, 1)), net.weight(3, 4, 1, 5))
    x = net("Reshape", x, [2, 3, 12, 20])
    net.output(net("MatMul", net("Softmax", x, axis=-1), v))


def of_images_first(net: Net) -> None:
    """Rows by images by heads, as PyTorch's own attention has them."""
    shape = net.const(np.array([5, 6, 8], I64))
    q, k, v = (net("Transpose", net("Reshape", net.input(n, (5, 2, 24)), shape), perm=[1, 0, 2]) for n in "qkv")
    weights = net("Softmax", net("MatMul", q, net("Transpose", k, perm=[0, 2, 1])), axis=-1)
    y = net("Transpose", net("MatMul", weights, v), perm=[1, 0, 2])
    net.output(net("Reshape", y, [5, 2, 24]))


OTHERS = (
    of_five_axes,
    of_windows_with_a_mask,
    of_heads_that_are_windows,
    of_known_positions,
    of_images_first,
    also_read,
    over_queries,
    scaled_with_mask,
    values_of_all,
    of_windows,
)


@pytest.mark.parametrize("write", OTHERS)
def test_what_only_looks_like_it(write: Callable[[Net], None]) -> None:
    """Or has masks in an order of its own: as it was, or attention with the same results."""
    net = Net()
    write(net)
    assert write in (of_windows, of_images_first) or "softmax" in operators(net.agrees(1e-5))


@pytest.mark.parametrize("kept", [True, False])
def test_queries_that_see_nothing(kept):
    """Are NaN as softmax has it, zeros where the file says so."""
    net = Net()
    q, k, v, mask = (*(net.input(n, (1, 2, 8, 8)) for n in "qkv"), net.input("mask", (8, 8)))
    weights = net("Softmax", net("Add", scores(net, q, k), mask), axis=-1)
    if not kept:
        weights = net("Where", net("IsNaN", weights), F32.type(0), weights)
    net.output(net("MatMul", weights, v))
    model = net.load()
    feeds = feeds_for(model)
    feeds["mask"][:] = np.where(np.arange(64).reshape(8, 8) % 5 == 0, -np.inf, feeds["mask"])
    feeds["mask"][3] = -np.inf
    feeds["mask"][4, 4] = np.nan
    assert "attention" in operators(net.agrees(1e-5, feeds))
    assert np.isnan(by_onnxruntime(net.bytes(), feeds)[0]).any() == kept


def test_open_shapes():
    net = Net()
    x = net.input("x", ("n", "t", 16))
    shape, back = (net.const(np.array(v, I64)) for v in ([0, 0, 2, 8], [0, 0, 16]))
    q, k, v = (
        net("Transpose", net("Reshape", net("MatMul", x, net.weight(16, 16)), shape), perm=[0, 2, 1, 3]) for _ in "qkv"
    )
    y = net("Transpose", net("MatMul", net("Softmax", scores(net, q, k), axis=-1), v), perm=[0, 2, 1, 3])
    net.output(net("Reshape", y, back))
    model, rng = net.load(), np.random.default_rng(0)
    for n, t in ((1, 1), (2, 5), (1, 300), (3, 33), (2, 5)):
        feeds = {"x": rng.standard_normal((n, t, 16)).astype(F32)}
        assert_close(list(model.run(feeds).values()), by_onnxruntime(net.bytes(), feeds), 1e-5)
        assert "attention" in operators(model)


@pytest.mark.parametrize("flags", [False, True])
def test_scaled_dot_products_of_core_ml(flags):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 6, 8)).astype(F32)
    seen = np.tril(np.ones((6, 6), bool)) if flags else np.ones((6, 6), bool)
    mask = {"attn_mask": seen} if flags else {}
    kind = "scaled_dot_product_attention"
    found = fg.load(core_ml(kind, {"x": x.shape}, x.shape, "CoreML8", query="x", key="x", value="x", **mask), threads=1)
    scores = np.exp(x @ x.swapaxes(2, 3) / F32.type(8**0.5)) * seen
    assert_close([found(x)], [scores / scores.sum(-1, keepdims=True) @ x], 1e-5)
    assert operators(found) == ["attention"]


def test_the_same_without_the_rule():
    net = Net()
    of_heads(net)
    model = net.load()
    feeds = feeds_for(model)
    with without("attention"):
        other = net.load()
    assert "softmax" in operators(other)
    assert_close(list(model.run(feeds).values()), list(other.run(feeds).values()), 1e-5)
