"""Circle's own operators and weight formats, against plain formulas."""

from typing import Any

import numpy as np
import pytest

from fastgraph.errors import ModelError, UnsupportedError
from tests.circle.write import Model, litert, ours

F32 = np.float32


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(31)


def run(m: Model, outs: list[int], *feeds: Any) -> np.ndarray:
    ((found,),) = ours(m.bytes(outs), [list(feeds)])
    return found


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 5, 7)])
@pytest.mark.parametrize("wide", [True, False])
def test_instance_norm(shape: tuple[int, ...], wide: bool, rng: np.random.Generator) -> None:
    """Channels are last in images and second in sequences; one number may serve all channels."""
    x = rng.standard_normal(shape).astype(F32)
    axes, channels = ((1, 2), shape[3]) if len(shape) == 4 else ((2,), shape[1])
    gamma, beta = (rng.standard_normal(channels if wide else 1).astype(F32) for _ in range(2))
    m = Model("circle")
    inputs = [m.input(shape), m.const(gamma), m.const(beta)]
    found = run(m, m.op("INSTANCE_NORM", inputs, [shape], epsilon=1e-3, fused_activation_function="RELU"), x)
    unit = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-3)
    scale, shift = (v if len(shape) == 4 else v[:, None] for v in (gamma, beta))
    np.testing.assert_allclose(found, np.maximum(unit * scale + shift, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("beta", [True, False])
def test_rms_norm(beta: bool, rng: np.random.Generator) -> None:
    x, gamma, shift = (rng.standard_normal(s).astype(F32) for s in ((2, 3, 6), 6, 6))
    m = Model("circle")
    inputs = [m.input(x.shape), m.const(gamma), *([m.const(shift)] if beta else [])]
    found = run(m, m.op("RMS_NORM", inputs, [x.shape], epsilon=1e-5), x)
    wanted = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * gamma + (shift if beta else 0)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_rope(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 2, 3, 8)).astype(F32)
    sine, cosine = (rng.standard_normal((1, 1, 1, 8)).astype(F32) for _ in range(2))
    m = Model("circle")
    found = run(m, m.op("ROPE", [m.input(x.shape), m.const(sine), m.const(cosine)], [x.shape], mode="GPT_NEOX"), x)
    a, b, s, c = x[..., :4], x[..., 4:], sine[0, 0, 0], cosine[0, 0, 0]
    wanted = np.concatenate([a * c[:4] - b * s[:4], a * s[4:] + b * c[4:]], -1)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_rope_of_another_mode_is_refused() -> None:
    m = Model("circle")
    inputs = [m.input((1, 1, 1, 4)), m.const(np.ones((1, 1, 1, 4), F32)), m.const(np.ones((1, 1, 1, 4), F32))]
    outs = m.op("ROPE", inputs, [(1, 1, 1, 4)], mode="GPT_J")
    with pytest.raises(UnsupportedError, match="GPT_J"):
        run(m, outs, np.zeros((1, 1, 1, 4), F32))


def coded(rng: np.random.Generator, clusters: list[tuple[int, int]], hidden: int) -> tuple[Any, ...]:
    """(scales, packed bits, clusters, the weights that they stand for)."""
    scales, words, rows = [], [], []
    for bits, outputs in clusters:
        for _ in range(outputs):
            signs, alphas = rng.choice([-1.0, 1.0], (bits, hidden)), rng.uniform(0.1, 2, bits)
            rows.append((signs * alphas[:, None]).sum(0))
            scales += list(alphas)
            words += [[sum(1 << i for i in range(32) if s[at + i] > 0) for at in range(0, hidden, 32)] for s in signs]
    packed = np.array(words, np.uint32).view(np.int32)
    return np.array(scales, F32), packed, np.array(clusters, np.int32), np.array(rows)


CLUSTERS = [(1, 3), (3, 2), (2, 4)]


@pytest.mark.parametrize("bias", [True, False])
def test_bcq_fully_connected(bias: bool, rng: np.random.Generator) -> None:
    scales, packed, clusters, weights = coded(rng, CLUSTERS, 64)
    x, shift = rng.standard_normal((64, 2)).astype(F32), rng.standard_normal(9).astype(F32)
    m = Model("circle")
    inputs = [m.input(x.shape), m.const(scales), m.const(packed), m.const(shift) if bias else None, m.const(clusters)]
    outs = m.op("BCQ_FULLY_CONNECTED", inputs, [(9, 2)], weights_hidden_size=64, fused_activation_function="RELU6")
    wanted = np.clip(weights @ x + (shift[:, None] if bias else 0), 0, 6)
    np.testing.assert_allclose(run(m, outs, x), wanted, rtol=1e-4, atol=1e-4)


def test_bcq_gather(rng: np.random.Generator) -> None:
    scales, packed, clusters, weights = coded(rng, CLUSTERS, 32)
    m = Model("circle")
    inputs = [m.const(scales), m.const(packed), m.input((3,), np.int32), m.const(clusters)]
    outs = m.op("BCQ_GATHER", inputs, [(3, 32)], input_hidden_size=32, axis=0)
    np.testing.assert_allclose(run(m, outs, np.array([8, 0, 4], np.int32)), weights[[8, 0, 4]], rtol=1e-6)


def test_bcq_clusters_that_do_not_fit_are_refused(rng: np.random.Generator) -> None:
    scales, packed, clusters, _ = coded(rng, CLUSTERS, 32)
    m = Model("circle")
    inputs = [m.const(scales), m.const(packed), m.input((3,), np.int32), m.const(clusters + 1)]
    outs = m.op("BCQ_GATHER", inputs, [(3, 32)], input_hidden_size=32, axis=0)
    with pytest.raises(ModelError, match="rows of bits"):
        run(m, outs, np.zeros(3, np.int32))


def test_shuffled_float_weights(rng: np.random.Generator) -> None:
    w, x = rng.standard_normal((32, 5)).astype(F32), rng.standard_normal((2, 5)).astype(F32)
    m = Model("circle")
    stored = np.ascontiguousarray(w.reshape(2, 16, 5).swapaxes(1, 2)).reshape(w.shape)
    inputs = [m.input(x.shape), m.const(stored), None]
    outs = m.op("FULLY_CONNECTED", inputs, [(2, 32)], weights_format="SHUFFLED16x1FLOAT32")
    np.testing.assert_allclose(run(m, outs, x), x @ w.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 4])
def test_shuffled_bytes(batch: int, rng: np.random.Generator) -> None:
    """As LiteRT has it: blocks of 4 rows and 16 columns, each byte with its highest bit flipped."""
    pytest.importorskip("ai_edge_litert")
    w, x = rng.integers(0, 256, (8, 32)).astype(np.uint8), rng.integers(0, 256, (batch, 32)).astype(np.uint8)
    stored = np.ascontiguousarray(w.reshape(2, 4, 2, 16).swapaxes(1, 2)).reshape(w.shape) ^ 0x80
    m = Model()
    q = (1 / 128, 128)
    inputs = [m.input(x.shape, np.uint8, q), m.const(stored, quant=q)]
    inputs.append(m.const(rng.integers(-999, 999, 8).astype(np.int32), quant=(1 / 128**2, 0)))
    made = [((batch, 8), np.int16, (1 / 4096, 0)), ((batch, 32), np.uint8, q)]
    outs = m.op("FULLY_CONNECTED", inputs, made, weights_format="SHUFFLED4x16INT8", version=2)
    data = m.bytes(outs[:1])
    (found,), (wanted,) = ours(data, [[x]])[0], litert(data, [[x]], reference=False)[0]
    assert np.abs(found.astype(int) - wanted).max() <= 1
