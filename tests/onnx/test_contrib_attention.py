"""onnxruntime's attention operators against onnxruntime; the parts are kernels' work."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.nets import F32, I64, Net, by_onnxruntime
from tests.onnx.contrib import (
    MS,
    S8,
    U8,
    Operand,
    absent,
    agree,
    compare,
    const,
    fed,
    given,
    hosts,
    known,
    net_of,
    numbers,
)

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


def mask_of(kind: str, past: int) -> Operand:
    return given(MASKS[kind](past).astype(I32)) if kind else absent


def of_past(past: int, *shapes: tuple[int, ...]) -> list[Operand]:
    return [fed(*shape) if past else absent for shape in shapes]


def attention(mask: str, past: int, bias: bool) -> list[Operand]:
    operands = [fed(B, S, 24), const(24, 3 * WIDTH), const(3 * WIDTH), mask_of(mask, past)]
    return [*operands, *of_past(past, (2, B, N, past, D)), fed(1, N, S, past + S) if bias else absent]


def quantized(dtype: Any, stored: Any, mask: str, past: int, channels: bool) -> list[Operand]:
    scales = np.linspace(0.002, 0.01, 3 * WIDTH, dtype=F32) if channels else np.float32(0.005)
    zero = known(np.full(scales.shape, 128 if stored == U8 else 0, stored))
    operands = [
        fed(B, S, 24, dtype=dtype),
        const(24, 3 * WIDTH, dtype=stored),
        const(3 * WIDTH),
        known(np.float32(0.01)),
    ]
    operands += [known(scales), mask_of(mask, past), known(np.array(7, dtype)), zero]
    return [*operands, *of_past(past, (2, B, N, past, D))]


def multi_head(mask: str, past: int, bias: bool, added: bool) -> list[Operand]:
    operands = [*(fed(B, S, WIDTH) for _ in range(3)), const(3 * WIDTH) if bias else absent, mask_of(mask, past)]
    return [*operands, fed(1, N, S, past + S) if added else absent, *of_past(past, *[(B, N, past, D)] * 2)]


def rotary(interleaved: int, at: Any, form: str, of: Any = const) -> tuple[str, list[Operand], dict[str, Any]]:
    turned = D // 2 if form == "partly" else D
    attrs = {"partly": {"num_heads": N, "rotary_embedding_dim": turned}, "flat, heads told": {"num_heads": N}}
    x = fed(*((B, N, S, D) if form == "by head" else (B, S, WIDTH)))
    operands = [x, given(np.array(at)), of(16, turned // 2), of(16, turned // 2)]
    return "RotaryEmbedding", operands, {"interleaved": interleaved, **attrs.get(form, {})}


CASES = [  # onnxruntime takes no bias beside a past, and one scale for unsigned weights
    *[("Attention", attention(mask, past, bias), {"num_heads": N, "unidirectional": causal, "outputs": "ab"})
      for mask, (past, bias), causal in product(MASKS, ((0, False), (0, True), (P, False)), (0, 1))],
    *[("QAttention", quantized(U8, stored, mask, past, channels), {"num_heads": N, "outputs": "ab"})
      for (stored, channels), mask, past in product(
          ((U8, False), (S8, False), (S8, True)), ("", "lengths", "keys"), (0, P))],
    *[("MultiHeadAttention", multi_head(mask, past, bias=not causal, added=bool(causal)),
       {"num_heads": N, "unidirectional": causal, "outputs": "abc"})
      for mask, past, causal in product(("", "lengths", "keys", "queries"), (0, P), (0, 1))],
    ("Attention", [fed(B, S, 24), const(24, 2 * WIDTH + 48), const(2 * WIDTH + 48)],
     {"num_heads": N, "qkv_hidden_sizes": [WIDTH, WIDTH, 48], "scale": 0.3}),
    ("MultiHeadAttention", [fed(B, S, WIDTH), fed(B, N, 7, D), fed(B, N, 7, D)], {"num_heads": N, "scale": 0.2}),
    *[("MultiHeadAttention", [fed(B, S, WIDTH), fed(B, N, 7, D), fed(B, N, 7, D), of(3 * WIDTH)], {"num_heads": N})
      for of in (const, fed)],
    ("MultiHeadAttention", [fed(B, S, WIDTH), fed(B, 7, WIDTH), fed(B, 7, WIDTH)], {"num_heads": N}),
    *[("MultiHeadAttention", [fed(B, S, WIDTH), fed(B, 7, WIDTH), fed(B, 7, width), of(2 * WIDTH + width)],
       {"num_heads": N}) for width, of in product((2 * N, 2 * WIDTH), (const, fed))],
    *[rotary(*case) for case in product(
        (0, 1), ([2], [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]]), ("flat", "flat, heads told", "by head", "partly"))],
    rotary(0, [2], "flat", fed),
]  # fmt: skip


@pytest.mark.parametrize("op, operands, attrs", CASES)
def test_attention(op: str, operands: list[Operand], attrs: dict[str, Any]) -> None:
    """NumPy may compare a few whole numbers.

    A query that sees masked keys only has scores of -10000 and a little, of which f32 keeps three digits.
    """
    net, feeds = net_of(op, operands, **attrs)
    rtol = 1e-3 if any(feed.dtype == I32 for feed in feeds.values()) else 1e-4 if op == "QAttention" else 1e-5
    model = net.load()
    for want, have in zip(by_onnxruntime(net.bytes(), feeds), model.run(feeds).values(), strict=True):
        compare(have, want, 1, rtol)
    assert set(hosts(model)) <= {"less", "greater_or_equal", "less_or_equal", "add", "sub", "mul", "tensor_scatter"}


def named(net: Net, feeds: dict[str, Any], name: str, *shape: int) -> str:
    feeds[name] = numbers(net.rng, shape, F32)
    return net.input(name, shape)


def test_a_bias_that_is_a_view_of_a_constant_or_fed() -> None:
    net, feeds = Net(), dict[str, Any]()
    qkv = [named(net, feeds, name, B, S, WIDTH) for name in "qkv"]
    view = net("Reshape", net.weight(3, WIDTH), [-1])
    for bias in (view, named(net, feeds, "bias", 3 * WIDTH)):
        net.output(net("MultiHeadAttention", *qkv, bias, domain=MS, num_heads=N))
    agree(net, feeds)


@pytest.mark.parametrize("short", [1, WIDTH - 1])
def test_a_bias_of_another_length_is_refused(short: int) -> None:
    """One number would be left for the values, and be added to all of them."""
    net, feeds = Net(), dict[str, Any]()
    qkv = [named(net, feeds, name, B, S, WIDTH) for name in "qkv"]
    net.output(net("MultiHeadAttention", *qkv, net.weight(2 * WIDTH + short), domain=MS, num_heads=N))
    with pytest.raises(fg.ModelError, match=f"expected a bias of {3 * WIDTH} numbers, found {2 * WIDTH + short}"):
        net.load()


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "queries, keys, past", [(1, 6, 0), (2, 6, 0), (4, 6, 3), (1, 2, 3), (1, 1, 3), (6, 4, 0), (4, 4, 3), (3, 3, 0)]
)
def test_queries_in_order_over_other_keys(queries: int, keys: int, past: int, masked: bool, opened: bool) -> None:
    """Each query sees the keys up to its own, and the last one all."""
    one, two = (1, 2) if opened else (-1, -1)
    operands = [fed(B, queries, WIDTH, opened=one)]
    operands += [fed(B, keys, WIDTH, opened=one) if past else fed(B, N, keys, D, opened=two)] * 2 + [absent] * 3
    if masked:
        operands[4] = given((np.arange(past + keys) < [[past + keys], [2]]).astype(I32), one)
        operands[5] = fed(B, N, queries, past + keys, opened=two)
    operands += [fed(B, N, past, D, opened=two)] * 2 if past else []
    outputs = "ypq" if past else "y"
    net, feeds = net_of("MultiHeadAttention", operands, outputs, num_heads=N, unidirectional=1)
    agree(net, feeds)
    model = net.load()
    model.run(feeds)
    (node,) = (node for node in model.plan.compiled.graph.nodes if node.op == "attention")
    assert bool(node.attrs["is_causal"]) == (queries >= keys and not (opened and masked))


def test_packed_operands_by_their_documentation() -> None:
    """onnxruntime reads them on GPUs only: against operands of their own."""
    net, feeds = Net(), dict[str, Any]()
    q, k, v = (named(net, feeds, name, B, S, WIDTH) for name in "qkv")
    shape = net.const(np.array([B, S, N, 1, D], I64))
    parts = [net("Reshape", x, shape) for x in (q, k, v)]
    net.output(net("MultiHeadAttention", q, k, v, domain=MS, num_heads=N))
    net.output(net("MultiHeadAttention", net("Concat", *parts, axis=3), domain=MS, num_heads=N))
    net.output(net("MultiHeadAttention", q, net("Concat", *parts[1:], axis=3), domain=MS, num_heads=N))
    first, *others = net.load().run(feeds).values()
    for other in others:
        np.testing.assert_allclose(other, first, atol=1e-6)


ROTARY = [{"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1}]
SINKS = [{"smooth_softmax": 1}, {"sink": True, "local_window_size": 2}, {"sink": True, "do_rotary": 1}]
PROMPTS = [
    (kv, S, 0, totals, attrs)
    for kv in (1, 2, 4)
    for totals in ([5, 5], [5, 3])
    for attrs in [{}, {"local_window_size": 2}, {"softcap": 3.0}, {"scale": 0.1}, *ROTARY, *SINKS]
]
WORDS = [
    (kv, 1, past, totals, attrs)
    for kv in (1, 2, 4)
    for past, totals in [(6, [7, 7]), (6, [7, 4]), (9, [7, 7]), (9, [3, 9])]
    for attrs in [{}, {"local_window_size": 3}, {"softcap": 3.0}, *ROTARY, *SINKS]
]


@pytest.mark.parametrize("packed", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kv, s, past, totals, attrs", [*PROMPTS, *WORDS])
def test_group_query_attention(
    kv: int, s: int, past: int, totals: list[int], attrs: dict[str, Any], packed: bool
) -> None:
    """As onnxruntime; of caches as far as they are filled, of results those of words that are none of the padding."""
    qkv = [fed(B, s, (N + 2 * kv) * D), absent, absent] if packed else [fed(B, s, n * D) for n in (N, kv, kv)]
    counts = [given(np.array(totals, I32) - 1), known(max(totals), I32)]
    tables = [const(32, D // 2) if attrs.get("do_rotary") else absent] * 2
    sink = [absent, absent, const(N)] if attrs.get("sink") else []
    attrs = {name: value for name, value in attrs.items() if name != "sink"}
    operands = [*qkv, *of_past(past, *[(B, kv, past, D)] * 2), *counts, *tables, *sink]
    net, feeds = net_of("GroupQueryAttention", operands, num_heads=N, kv_num_heads=kv, outputs="abc", **attrs)
    (y, *caches), (y_want, *wanted) = net.load().run(feeds).values(), by_onnxruntime(net.bytes(), feeds)
    for i, total in enumerate(totals):
        words = total if s == max(totals) else s
        compare(y[i, :words], y_want[i, :words], 0, 1e-5)
        for have, want in zip(caches, wanted, strict=True):
            assert have.shape == want.shape
            compare(have[i, :, :total], want[i, :, :total], 0, 1e-5)
