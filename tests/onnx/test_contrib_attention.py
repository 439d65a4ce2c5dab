"""onnxruntime's attention operators against onnxruntime; the parts are kernels' work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.nets import F32, I64, Net, by_onnxruntime
from tests.onnx.contrib import MS, S8, U8, agree, compare, hosts, numbers

I32 = np.dtype(np.int32)
B, S, N, D, P = 2, 5, 4, 16, 3
WIDTH = N * D

MASKS: dict[str, Any] = {
    "": None,
    "lengths": lambda past: np.array([past + S, past + 2]),
    "ends and begins": lambda past: np.array([past + S, past + 4, 0, 2]),
    "keys": lambda past: np.array([[1] * (past + S), [0, 0] + [1] * (past + S - 2)]),
    "queries": lambda past: np.tril(np.ones((B, S, past + S), int), past),
}


def masked(net: Net, feeds: dict[str, Any], mask: str, past: int) -> str:
    if not mask:
        return ""
    feeds["mask"] = MASKS[mask](past).astype(I32)
    return net.input("mask", feeds["mask"].shape, I32)


def fed(net: Net, feeds: dict[str, Any], name: str, *shape: int) -> str:
    feeds[name] = numbers(net.rng, shape, F32)
    return net.input(name, shape)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("past", [0, P])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("bias", [False, True])
def test_attention(mask: str, past: int, causal: int, bias: bool) -> None:
    if past and bias:
        pytest.skip("onnxruntime takes no bias beside a past")
    net, feeds = Net(), dict[str, Any]()
    inputs = [fed(net, feeds, "x", B, S, 24), net.weight(24, 3 * WIDTH), net.weight(3 * WIDTH)]
    inputs.append(masked(net, feeds, mask, past))
    inputs.append(fed(net, feeds, "past", 2, B, N, past, D) if past else "")
    inputs.append(fed(net, feeds, "bias", 1, N, S, past + S) if bias else "")
    net.output(*net("Attention", *inputs, domain=MS, num_heads=N, unidirectional=causal, outputs=2))
    settled(net, feeds)


def settled(net: Net, feeds: dict[str, Any], rtol: float = 1e-5) -> None:
    """As `agree`, where NumPy may compare a few whole numbers.

    A query that sees masked keys only has scores of -10000 and a little, of which f32 keeps three digits.
    """
    rtol = 1e-3 if "mask" in feeds else rtol
    model = net.load()
    for want, have in zip(by_onnxruntime(net.bytes(), feeds), model.run(feeds).values(), strict=True):
        compare(have, want, 1, rtol)
    assert set(hosts(model)) <= {"less", "greater_or_equal", "less_or_equal", "add", "sub", "mul", "tensor_scatter"}


def test_attention_of_values_that_are_wider() -> None:
    net, feeds = Net(), dict[str, Any]()
    inputs = [fed(net, feeds, "x", B, S, 24), net.weight(24, 2 * WIDTH + 48), net.weight(2 * WIDTH + 48)]
    net.output(net("Attention", *inputs, domain=MS, num_heads=N, qkv_hidden_sizes=[WIDTH, WIDTH, 48], scale=0.3))
    agree(net, feeds)


@pytest.mark.parametrize("dtype, stored", [(U8, U8), (U8, S8)], ids=str)
@pytest.mark.parametrize("mask", ["", "lengths", "keys"])
@pytest.mark.parametrize("past", [0, P])
@pytest.mark.parametrize("channels", [False, True])
def test_quantized_attention(dtype: Any, stored: Any, mask: str, past: int, channels: bool) -> None:
    if channels and stored == U8:
        pytest.skip("onnxruntime wants one scale for unsigned weights")
    net, feeds = Net(), dict[str, Any]()
    feeds["x"] = numbers(net.rng, (B, S, 24), dtype)
    scales = net.rng.uniform(0.002, 0.01, 3 * WIDTH if channels else ()).astype(F32)
    zero = net.const(np.full(scales.shape, 128 if stored == U8 else 0, stored))
    inputs = [net.input("x", (B, S, 24), dtype), net.const(numbers(net.rng, (24, 3 * WIDTH), stored))]
    inputs += [net.weight(3 * WIDTH), net.const(np.float32(0.01)), net.const(scales), masked(net, feeds, mask, past)]
    inputs += [net.const(np.array(7, dtype)), zero, fed(net, feeds, "past", 2, B, N, past, D) if past else ""]
    net.output(*net("QAttention", *inputs, domain=MS, num_heads=N, outputs=2))
    settled(net, feeds, 1e-4)


@pytest.mark.parametrize("mask", ["", "lengths", "keys", "queries"])
@pytest.mark.parametrize("past", [0, P])
@pytest.mark.parametrize("causal, bias, added", [(0, True, False), (1, False, True)])
def test_multi_head_attention(mask: str, past: int, causal: int, bias: bool, added: bool) -> None:
    net, feeds = Net(), dict[str, Any]()
    inputs = [fed(net, feeds, name, B, S, WIDTH) for name in "qkv"] + [net.weight(3 * WIDTH) if bias else ""]
    inputs += [masked(net, feeds, mask, past), fed(net, feeds, "added", 1, N, S, past + S) if added else ""]
    inputs += [fed(net, feeds, name, B, N, past, D) for name in ("pk", "pv")] if past else []
    found = net("MultiHeadAttention", *inputs, domain=MS, num_heads=N, unidirectional=causal, outputs=3)
    net.output(*found)
    settled(net, feeds)


def test_multi_head_attention_across_sequences() -> None:
    net, feeds = Net(), dict[str, Any]()
    q = fed(net, feeds, "q", B, S, WIDTH)
    by_head = [fed(net, feeds, name, B, N, 7, D) for name in "kv"]
    flat = [fed(net, feeds, name, B, 7, WIDTH) for name in ("fk", "fv")]
    net.output(net("MultiHeadAttention", q, *by_head, domain=MS, num_heads=N, scale=0.2))
    net.output(net("MultiHeadAttention", q, *flat, domain=MS, num_heads=N))
    agree(net, feeds)


def test_a_bias_that_is_a_view_of_a_constant_or_fed() -> None:
    net, feeds = Net(), dict[str, Any]()
    qkv = [fed(net, feeds, name, B, S, WIDTH) for name in "qkv"]
    view = net("Reshape", net.weight(3, WIDTH), net.const([-1]))
    for bias in (view, fed(net, feeds, "bias", 3 * WIDTH)):
        net.output(net("MultiHeadAttention", *qkv, bias, domain=MS, num_heads=N))
    agree(net, feeds)


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("mask, added", [(False, False), (True, True)])
@pytest.mark.parametrize(
    "queries, keys, past", [(1, 6, 0), (2, 6, 0), (4, 6, 3), (1, 2, 3), (1, 1, 3), (6, 4, 0), (4, 4, 3), (3, 3, 0)]
)
def test_queries_in_order_over_other_keys(
    queries: int, keys: int, past: int, mask: bool, added: bool, opened: bool
) -> None:
    """Each query sees the keys up to its own, and the last one all."""
    net, feeds = Net(), dict[str, Any]()

    def given(name: str, axis: int, dtype: Any, *shape: int) -> str:
        feeds[name] = numbers(net.rng, shape, dtype)
        return net.input(name, [f"{name}{i}" if opened and i == axis else d for i, d in enumerate(shape)], dtype)

    inputs = [given("q", 1, F32, B, queries, WIDTH)]
    if past:
        inputs += [given(name, 1, F32, B, keys, WIDTH) for name in "kv"]
    else:
        inputs += [given(name, 2, F32, B, N, keys, D) for name in "kv"]
    inputs += ["", given("mask", 1, I32, B, past + keys) if mask else ""]
    if mask:
        feeds["mask"] = (np.arange(past + keys) < [[past + keys], [2]]).astype(I32)
    inputs += [given("added", 2, F32, B, N, queries, past + keys) if added else ""]
    inputs += [given(name, 2, F32, B, N, past, D) for name in ("pk", "pv")] if past else []
    found = net("MultiHeadAttention", *inputs, domain=MS, num_heads=N, unidirectional=1, outputs=3)
    net.output(*found[: 3 if past else 1])
    agree(net, feeds)
    model = net.load()
    model.run(feeds)
    (node,) = (node for node in model.plan.compiled.graph.nodes if node.op == "attention")
    assert bool(node.attrs["is_causal"]) == (queries >= keys and not (opened and mask))


def test_packed_operands_by_their_documentation() -> None:
    """onnxruntime reads them on GPUs only: against operands of their own."""
    net, feeds = Net(), dict[str, Any]()
    q, k, v = (fed(net, feeds, name, B, S, WIDTH) for name in "qkv")
    shape = net.const(np.array([B, S, N, 1, D], I64))
    parts = [net("Reshape", x, shape) for x in (q, k, v)]
    net.output(net("MultiHeadAttention", q, k, v, domain=MS, num_heads=N))
    net.output(net("MultiHeadAttention", net("Concat", *parts, axis=3), domain=MS, num_heads=N))
    net.output(net("MultiHeadAttention", q, net("Concat", *parts[1:], axis=3), domain=MS, num_heads=N))
    first, *others = net.load().run(feeds).values()
    for other in others:
        np.testing.assert_allclose(other, first, atol=1e-6)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("one", [False, True])
@pytest.mark.parametrize("form", ["flat", "flat, heads told", "by head", "partly"])
def test_rotary_embedding(interleaved: int, one: bool, form: str) -> None:
    net, feeds = Net(), dict[str, Any]()
    x = fed(net, feeds, "x", *((B, N, S, D) if form == "by head" else (B, S, WIDTH)))
    feeds["at"] = np.array([2]) if one else np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]])
    turned = D // 2 if form == "partly" else D
    attrs = {"partly": {"num_heads": N, "rotary_embedding_dim": turned}, "flat, heads told": {"num_heads": N}}.get(
        form, {}
    )
    tables = [net.weight(16, turned // 2) for _ in range(2)]
    y = net(
        "RotaryEmbedding",
        x,
        net.input("at", feeds["at"].shape, I64),
        *tables,
        domain=MS,
        interleaved=interleaved,
        **attrs,
    )
    net.output(y)
    settled(net, feeds)


GROUPS = pytest.mark.parametrize("kv", [1, 2, 4])


def group_query(
    net: Net, feeds: dict[str, Any], kv: int, s: int, past: int, totals: list[int], **attrs: Any
) -> list[str]:
    inputs = [fed(net, feeds, "q", B, s, WIDTH), fed(net, feeds, "k", B, s, kv * D), fed(net, feeds, "v", B, s, kv * D)]
    inputs += [fed(net, feeds, name, B, kv, past, D) for name in ("pk", "pv")] if past else ["", ""]
    feeds["lengths"] = np.array(totals, I32) - 1
    inputs += [net.input("lengths", (B,), I32), net.const(np.array(max(totals), I32))]
    if attrs.get("do_rotary"):
        inputs += [net.weight(32, D // 2), net.weight(32, D // 2)]
    return net("GroupQueryAttention", *inputs, domain=MS, num_heads=N, kv_num_heads=kv, outputs=3, **attrs)


def same_keys(net: Net, feeds: dict[str, Any], totals: list[int], s: int) -> None:
    """As onnxruntime; of caches as far as they are filled, of results those of words that are none of the padding."""
    model = net.load()
    (y, *caches), (y_want, *caches_want) = model.run(feeds).values(), by_onnxruntime(net.bytes(), feeds)
    first = s == max(totals)
    for i, total in enumerate(totals):
        compare(y[i, : total if first else s], y_want[i, : total if first else s], 0, 1e-5)
        for have, want in zip(caches, caches_want, strict=True):
            assert have.shape == want.shape
            compare(have[i, :, :total], want[i, :, :total], 0, 1e-5)


@GROUPS
@pytest.mark.parametrize("totals", [[5, 5], [5, 3]])
@pytest.mark.parametrize("attrs", [{}, {"local_window_size": 2}, {"softcap": 3.0}, {"do_rotary": 1}, {"scale": 0.1},
                                   {"do_rotary": 1, "rotary_interleaved": 1}])  # fmt: skip
def test_group_query_attention_of_a_prompt(kv: int, totals: list[int], attrs: dict[str, Any]) -> None:
    net, feeds = Net(), dict[str, Any]()
    net.output(*group_query(net, feeds, kv, S, 0, totals, **attrs))
    same_keys(net, feeds, totals, S)


@GROUPS
@pytest.mark.parametrize("past, totals", [(6, [7, 7]), (6, [7, 4]), (9, [7, 7]), (9, [3, 9])])
@pytest.mark.parametrize("attrs", [{}, {"local_window_size": 3}, {"softcap": 3.0}, {"do_rotary": 1},
                                   {"do_rotary": 1, "rotary_interleaved": 1}])  # fmt: skip
def test_group_query_attention_of_a_word(kv: int, past: int, totals: list[int], attrs: dict[str, Any]) -> None:
    net, feeds = Net(), dict[str, Any]()
    net.output(*group_query(net, feeds, kv, 1, past, totals, **attrs))
    same_keys(net, feeds, totals, 1)


def test_group_query_attention_of_packed_operands() -> None:
    net, feeds = Net(), dict[str, Any]()
    feeds["lengths"] = np.array([S - 1, S - 1], I32)
    inputs = [fed(net, feeds, "qkv", B, S, (N + 4) * D), "", "", "", "", net.input("lengths", (B,), I32)]
    inputs += [net.const(np.array(S, I32)), net.weight(32, D // 2), net.weight(32, D // 2)]
    net.output(*net("GroupQueryAttention", *inputs, domain=MS, num_heads=N, kv_num_heads=2, do_rotary=1, outputs=3))
    same_keys(net, feeds, [S, S], S)


@pytest.mark.parametrize("op, attrs, error", [
    ("Attention", {"num_heads": 0}, "num_heads from 1 on"),
    ("Attention", {"num_heads": 4, "qkv_hidden_sizes": [32, 32]}, "qkv_hidden_sizes of three numbers"),
    ("Attention", {"num_heads": 4, "do_rotary": 1}, "do_rotary, which onnxruntime has on GPUs only"),
])  # fmt: skip
def test_what_is_malformed_or_not_there_is_named(op: str, attrs: dict[str, Any], error: str) -> None:
    net = Net()
    net.output(net(op, net.input("x", (B, S, 24)), net.weight(24, 3 * WIDTH), domain=MS, **attrs))
    with pytest.raises(fg.FastgraphError, match=error):
        net.load()


@pytest.mark.parametrize("op, count", [("Attention", B + 1), ("Attention", 3 * B + 2), ("MultiHeadAttention", 1)])
def test_a_mask_of_ends_has_the_length_of_the_batch(op: str, count: int) -> None:
    """Else sequences without an end would have no keys."""
    net = Net()
    x, mask = net.input("x", (B, S, WIDTH)), net.const(np.ones(count, np.int32))
    ours = [x, net.weight(WIDTH, 3 * WIDTH), ""] if op == "Attention" else [x, x, x, ""]
    net.output(net(op, *ours, mask, domain=MS, num_heads=4))
    with pytest.raises(fg.ModelError, match=f"{op}.*expected a mask of {B} ends.*found {count} numbers"):
        net.load()


def test_keys_without_values_are_no_packed_operands() -> None:
    net = Net()
    packed, k = net.input("x", (B, S, 3 * WIDTH)), net.input("k", (B, S, WIDTH))
    counts = net.const(np.full(B, S - 1, np.int32)), net.const(np.int32(S))
    net.output(net("GroupQueryAttention", packed, k, "", "", "", *counts, domain=MS, num_heads=4, kv_num_heads=4))
    with pytest.raises(fg.ModelError, match="expected key and value together"):
        net.load()
