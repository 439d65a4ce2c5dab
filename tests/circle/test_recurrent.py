"""Recurrent layers against LiteRT: three runs in a row, whose variable tensors live on. LSTMs have all that they may
have, in random sizes, and NumPy computes nothing of them.
"""

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.kernels.isa.tiers import usable
from tests.circle.write import Model, litert, ours
from tests.nets import numpy_steps

pytest.importorskip("ai_edge_litert")

LSTM, SEQUENCE = "LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"
TIERS = [tier.name for tier in usable()]


class Draw:
    """Constants of a model from one generator: floats, or bytes with a scale."""

    def __init__(self, model: Model, seed: int, kind: Any = np.float32) -> None:
        self.model, self.rng, self.kind = model, np.random.default_rng(seed), kind
        self.scales: dict[int, float] = {}

    def floats(self, *shape: int) -> np.ndarray:
        return (self.rng.standard_normal(shape) * 0.4).astype(np.float32)

    def const(self, *shape: int, plus: float = 0) -> int:
        return self.model.const(self.floats(*shape) + np.float32(plus))

    def stored(self, values: np.ndarray, scale: float, dtype: Any) -> int:
        index = self.model.const(np.rint(values / scale).astype(dtype), quant=(scale, 0))
        self.scales[index] = scale
        return index

    def weights(self, *shape: int) -> int:
        values = self.floats(*shape)
        if self.kind == np.float32:
            return self.model.const(values)
        return self.stored(values, float(np.abs(values).max()) / 127, np.int8)

    def wide(self, *shape: int, plus: float = 0) -> int:
        values = self.floats(*shape) + plus
        return self.stored(values, float(np.abs(values).max()) / 32767, np.int16)


def agree(data: bytes, runs: list[list[np.ndarray]], most: float, seed: int | None = None) -> None:
    """What references give is what LiteRT gives, or with a seed what kernels do; `most`: the greatest difference."""
    mine = native(data, runs, seed) if seed is not None else ours(data, runs)
    for found, wanted in zip(mine, litert(data, runs), strict=True):
        for a, b in zip(found, wanted, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            scale = 1 if seed is not None or b.dtype.kind != "f" else max(1.0, float(np.abs(b).max()))
            assert np.abs(a.astype(np.float64) - b.astype(np.float64)).max() <= most * scale


SIZES = (5, 2, 4, 6)
"""Steps, batch, features, units."""
PARTS = {"narrow": 0, "cifg": 0, "peephole": 0, "norm": 0, "time_major": 0, "sizes": SIZES}
"""What an LSTM may have; `narrow`: the width of its projection."""


def float_lstm(op: str, kind: Any, **parts: Any) -> tuple[bytes, tuple[int, ...]]:
    """A layer, and its input's shape. Other parts are options."""
    narrow, cifg, peephole, norm, time_major, (steps, batch, features, units) = (
        parts.pop(k, v) for k, v in PARTS.items()
    )
    m, width = Model(), narrow or units
    d = Draw(m, 1, kind)
    shape = (batch, features) if op == LSTM else (steps, batch, features) if time_major else (batch, steps, features)
    there = [g > 0 or not cifg for g in range(4)]
    inputs: list[int | None] = [m.input(shape)]
    inputs += [d.weights(units, features) if t else None for t in there]
    inputs += [d.weights(units, width) if t else None for t in there]
    inputs += [d.weights(units) if peephole and t else None for t in (there[0], True, True)]
    inputs += [d.const(units) if t else None for t in there]
    inputs += [d.weights(narrow, units), d.const(narrow)] if narrow else [None, None]
    inputs += [m.variable((batch, width)), m.variable((batch, units))]
    inputs += [d.const(units, plus=1) if t else None for t in there] if norm else []
    options: dict[str, Any] = {"fused_activation_function": "TANH", **parts}
    if op != LSTM:
        options["time_major"] = bool(time_major)
    (y,) = m.op(op, inputs, [(*shape[:-1], width)], **options)
    return m.bytes([y]), shape


def int8_lstm(op: str, **parts: Any) -> tuple[bytes, tuple[int, ...]]:
    narrow, cifg, peephole, norm, _, (steps, batch, features, units) = (parts.get(k, v) for k, v in PARTS.items())
    m, width = Model(), narrow or units
    d = Draw(m, 1, np.int8)
    shape = (batch, features) if op == LSTM else (batch, steps, features)
    x_scale, out, hidden = 0.02, (1 / 128, -2), (1 / 120, 5)
    there = [g > 0 or not cifg for g in range(4)]
    weights = [d.weights(units, features) if t else None for t in there]
    norms = [d.wide(units, plus=1) if norm and t else None for t in there]
    inputs: list[int | None] = [m.input(shape, np.int8, (x_scale, 3)), *weights]
    inputs += [d.weights(units, width) if t else None for t in there]
    inputs += [d.wide(units) if peephole and t else None for t in (there[0], True, True)]
    for w, n in zip(weights, norms, strict=True):
        scale = d.scales[n] * 2**-10 if n is not None else x_scale * d.scales[w] if w is not None else 0
        inputs.append(None if w is None else d.stored(d.floats(units), scale, np.int32))
    if narrow:
        projection = d.weights(narrow, units)
        inputs += [projection, d.stored(d.floats(narrow), d.scales[projection] * hidden[0], np.int32)]
    else:
        inputs += [None, None]
    inputs += [m.variable((batch, width), np.int8, out), m.variable((batch, units), np.int16, (2**-11, 0)), *norms]
    between = [m.tensor((1,), np.int16, (2**-12, 0)) for _ in range(4)]
    between.append(m.tensor((1,), np.int8, hidden if narrow else out))
    told = {"intermediates": between, "fused_activation_function": "TANH"}
    return m.bytes(m.op(op, inputs, [((*shape[:-1], width), np.int8, out)], **told)), shape


def native(data: bytes, runs: list[list[np.ndarray]], seed: int) -> list[list[np.ndarray]]:
    """The outputs of each run, of one tier or another."""
    model = fg.load(data, threads=1 + seed % 2, isa=TIERS[-1 - seed % len(TIERS)])  # type: ignore[arg-type]
    assert not numpy_steps(model)
    names = [v.name for v in model.inputs]
    return [list(model.run(dict(zip(names, feeds, strict=True))).values()) for feeds in runs]


def drawn(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """An operator and its parts. Of normalized gates more than a few units: near numbers of two differ wildly.
    No projection is wider than the units: LiteRT writes such ones past the end of its memory.
    """
    norm = int(rng.integers(2))
    sizes = (rng.integers(1, 7), rng.integers(1, 4), rng.integers(1, 10), rng.integers(5 if norm else 1, 24))
    parts: dict[str, Any] = {"norm": norm, "sizes": tuple(map(int, sizes))}
    parts |= {name: int(rng.integers(2)) for name in ("cifg", "peephole")}
    parts["narrow"] = int(rng.integers(1, parts["sizes"][3] + 1)) if rng.random() < 0.7 or not norm else 0
    return (LSTM, SEQUENCE)[int(rng.random() < 0.8)], parts


@pytest.mark.parametrize("seed", range(16))
def test_floats(seed: int) -> None:
    rng = np.random.default_rng(seed)
    op, parts = drawn(rng)
    if op == SEQUENCE:
        parts["time_major"] = int(rng.integers(2))
    parts |= {name: float(rng.choice([0, 0.25])) for name in ("cell_clip", "proj_clip")}
    data, shape = float_lstm(op, np.float32, **parts)
    agree(data, [[rng.standard_normal(shape).astype(np.float32)] for _ in range(3)], 1e-5, seed)


@pytest.mark.parametrize("seed", range(6))
def test_int8_weights(seed: int) -> None:
    """LiteRT rounds what it multiplies by them; without norms, which make much of little."""
    rng = np.random.default_rng(seed)
    op, parts = drawn(rng)
    data, shape = float_lstm(op, np.int8, **parts | {"norm": 0, "narrow": parts["narrow"] or 3})
    agree(data, [[rng.standard_normal(shape).astype(np.float32)] for _ in range(3)], 0.03, seed)


@pytest.mark.parametrize("seed", range(10))
def test_int8(seed: int) -> None:
    """Within two steps: LiteRT's gates are of 16 bits. Its peepholes look at too few cells beside a projection."""
    rng = np.random.default_rng(seed)
    op, parts = drawn(rng)
    data, shape = int8_lstm(op, **parts | ({"peephole": 0} if parts["narrow"] else {}))
    agree(data, [[rng.integers(-100, 100, shape).astype(np.int8)] for _ in range(3)], 2, seed)


@pytest.mark.parametrize("merge", [0, 1])
@pytest.mark.parametrize("aux", ["none", "own", "beside"])
@pytest.mark.parametrize("kind", [np.float32, np.int8])
def test_both_directions(kind: Any, aux: str, merge: int) -> None:
    """With projections. Time comes first for an input of its own, and where LiteRT merges outputs: it mixes rows up
    otherwise.
    """
    steps, batch, features, units, more, width = 4, 2, 3, 5, 3 if aux == "own" else 2, 4
    first = aux == "own" or merge
    m = Model()
    d = Draw(m, 4, kind)
    lead = (steps, batch) if first else (batch, steps)
    inputs: list[int | None] = [m.input((*lead, features))]
    for _ in range(2):
        inputs += [d.weights(units, features) for _ in range(4)] + [d.weights(units, width) for _ in range(4)]
        inputs += [None] * 3 + [d.const(units) for _ in range(4)] + [d.weights(width, units), d.const(width)]
    for _ in range(2):
        inputs += [m.variable((batch, width)), m.variable((batch, units))]
    inputs.append(m.input((*lead, more)) if aux != "none" else None)
    inputs += [d.weights(units, more) if aux == "beside" else None for _ in range(8)]
    shapes: list[Any] = [(*lead, 2 * width)] if merge else [(*lead, width)] * 2
    told = {"merge_outputs": bool(merge), "time_major": bool(first), "fused_activation_function": "TANH"}
    outs = m.op("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, shapes, **told)
    rng = np.random.default_rng(5)
    sizes = [features, more][: 1 + (aux != "none")]
    runs = [[rng.standard_normal((*lead, n)).astype(np.float32) for n in sizes] for _ in range(3)]
    agree(m.bytes(outs), runs, 1e-5 if kind == np.float32 else 0.05, 0)


@pytest.mark.parametrize(
    "made",
    [float_lstm(SEQUENCE, np.float32), float_lstm(SEQUENCE, np.int8), int8_lstm(SEQUENCE)],
    ids=["f32", "hybrid", "int8"],
)
def test_verify_knows_what_may_be_rounded_otherwise(made: tuple[bytes, tuple[int, ...]]) -> None:
    report = fg.verify(fg.load(made[0], threads=1))
    assert report.ok, str(report)


@pytest.mark.parametrize("kind", [np.float32, np.uint8])
def test_basic_lstm(kind: Any) -> None:
    m, batch, features, units = Model(), 2, 3, 4
    d = Draw(m, 3)
    if kind == np.float32:
        x, h = m.input((batch, features)), m.variable((batch, units))
        w, bias, state = d.const(4 * units, features + units), d.const(4 * units), m.variable((batch, units))
        outputs: list[Any] = [(batch, units), (batch, units), (batch, features + units), (batch, 4 * units)]
    else:
        q, s = (1 / 128, 128), (1 / 2048, 0)
        x, h = m.input((batch, features), np.uint8, q), m.tensor((batch, units), np.uint8, q)
        m.now["inputs"].append(h)
        stored = m.const(d.rng.integers(60, 200, (4 * units, features + units)).astype(np.uint8), quant=(0.01, 130))
        w, bias = stored, d.stored(d.floats(4 * units), 0.01 / 128, np.int32)
        state = m.tensor((batch, units), np.int16, s)
        m.now["inputs"].append(state)
        outputs = [((batch, units), np.uint8, q), ((batch, units), np.int16, s)]
        outputs += [((batch, features + units), np.uint8, q), ((batch, 4 * units), np.int16, (2**-12, 0))]
    options = {"kernel_type": "BASIC", "fused_activation_function": "TANH"}
    outs = m.op("LSTM", [x, h, w, bias, state], outputs, version=2, **options)
    rng = np.random.default_rng(2)
    if kind == np.float32:
        runs = [[rng.standard_normal((batch, features)).astype(np.float32)] for _ in range(3)]
        agree(m.bytes(outs[:1]), runs, 1e-6)
        return
    fed = [rng.integers(0, 256, (batch, n)).astype(np.uint8) for n in (features, units)]
    fed.append(rng.integers(-3000, 3000, (batch, units)).astype(np.int16))
    (found,), (wanted,) = ours(m.bytes(outs[:2]), [fed]), litert(m.bytes(outs[:2]), [fed])
    assert np.abs(found[0].astype(int) - wanted[0]).max() <= 1
    assert np.abs(found[1].astype(int) - wanted[1]).max() <= 4  # of 32767: LiteRT rounds the gates to 16 bits


@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6", "TANH"])
@pytest.mark.parametrize("op", ["RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "time major"])
def test_rnn(op: str, activation: str) -> None:
    steps, batch, features, units = 4, 2, 3, 5
    m = Model()
    d = Draw(m, 6)
    shape: tuple[int, ...] = (batch, features) if op == "RNN" else (batch, steps, features)
    shape = (steps, batch, features) if op == "time major" else shape
    inputs = [m.input(shape), d.const(units, features), d.const(units, units), d.const(units)]
    inputs.append(m.variable((batch, units)))
    time: dict[str, Any] = {} if op == "RNN" else {"time_major": op == "time major"}
    time["fused_activation_function"] = activation
    y = m.op("RNN" if op == "RNN" else "UNIDIRECTIONAL_SEQUENCE_RNN", inputs, [(*shape[:-1], units)], **time)
    rng = np.random.default_rng(7)
    agree(m.bytes(y), [[rng.standard_normal(shape).astype(np.float32)] for _ in range(3)], 1e-6)


@pytest.mark.parametrize("aux", ["none", "own", "beside"])
def test_bidirectional_rnn(aux: str) -> None:
    """Time comes first for `own`: else LiteRT feeds the first input to both directions."""
    steps, batch, features, units, more, late = 4, 2, 3, 5, 3, aux != "own"
    lead = (batch, steps) if late else (steps, batch)
    m = Model()
    d = Draw(m, 8)
    inputs: list[int | None] = [m.input((*lead, features))]
    for _ in range(2):
        inputs += [d.const(units, features), d.const(units, units), d.const(units), m.variable((batch, units))]
    inputs.append(m.input((*lead, more)) if aux != "none" else None)
    inputs += [d.const(units, more) if aux == "beside" else None for _ in range(2)]
    told = {"time_major": not late, "merge_outputs": False, "fused_activation_function": "TANH"}
    outs = m.op("BIDIRECTIONAL_SEQUENCE_RNN", inputs, [(*lead, units)] * 2, **told)
    rng = np.random.default_rng(9)
    sizes = [features, more][: 1 + (aux != "none")]
    agree(m.bytes(outs), [[rng.standard_normal((*lead, n)).astype(np.float32) for n in sizes] for _ in range(3)], 1e-6)


@pytest.mark.parametrize("kind", ["float", "hybrid", "int8"])
@pytest.mark.parametrize("rank", [1, 2])
def test_svdf(kind: str, rank: int) -> None:
    batch, features, units, memory = 2, 5, 3, 4
    filters = units * rank
    m = Model()
    d = Draw(m, 10, np.float32 if kind == "float" else np.int8)
    out: list[Any] = [(batch, units)]
    if kind == "int8":
        x = m.input((batch, features), np.int8, (0.02, 4))
        time = d.wide(filters, memory)
        state = m.variable((batch, filters * memory), np.int16, (2**-12, 0))
        bias = d.stored(d.floats(units), d.scales[time] * 2**-12, np.int32)
        out = [((batch, units), np.int8, (0.02, -128))]
    else:
        x, time = m.input((batch, features)), d.weights(filters, memory)
        state, bias = m.variable((batch, filters * memory)), d.const(units)
    inputs = [x, d.weights(filters, features), time, bias, state]
    (y,) = m.op("SVDF", inputs, out, rank=rank, fused_activation_function="RELU", version=4)
    rng = np.random.default_rng(11)
    runs = [[rng.standard_normal((batch, features)).astype(np.float32)] for _ in range(6)]
    if kind == "int8":
        runs = [[(x * 40).astype(np.int8)] for (x,) in runs]
    agree(m.bytes([y]), runs, {"float": 1e-6, "hybrid": 0.03, "int8": 1}[kind])


def _gru(x: Any, h: Any, w: Any, r: Any, b: Any, c: Any, late: bool) -> Any:
    """One step; rows of w, r, b, c by update, reset and candidate gate. `late`: reset after the product."""
    n = h.shape[1]
    z, reset = (1 / (1 + np.exp(-(x @ w.T + b + h @ r.T + c)[:, i * n : (i + 1) * n])) for i in range(2))
    inner = reset * (h @ r[2 * n :].T + c[2 * n :]) if late else (reset * h) @ r[2 * n :].T + c[2 * n :]
    return (1 - z) * np.tanh(x @ w[2 * n :].T + b[2 * n :] + inner) + z * h


@pytest.mark.parametrize("steps", [False, True])
def test_circle_gru(steps: bool) -> None:
    time, batch, features, units = 4, 2, 3, 5
    rng = np.random.default_rng(12)
    w, r = (rng.standard_normal((3 * units, n)).astype(np.float32) for n in (features, units))
    b, c = (rng.standard_normal(3 * units).astype(np.float32) for _ in range(2))
    h = rng.standard_normal((batch, units)).astype(np.float32)
    x = rng.standard_normal((time, batch, features)).astype(np.float32)
    m = Model("circle")
    inputs = [m.input(x.shape), m.const(w), m.const(b), m.const(r), m.const(c), m.const(h)]
    shape = (time, batch, units) if steps else (batch, units)
    (y,) = m.op("GRU", inputs, [shape], return_sequences=steps, time_major=True)
    ((found,),) = ours(m.bytes([y]), [[x]])
    wanted = []
    for row in x.astype(np.float64):
        h = _gru(row, h, w, r, b, c, late=True)
        wanted.append(h)
    np.testing.assert_allclose(found, np.array(wanted) if steps else h, rtol=1e-5, atol=1e-5)


def test_sequence_gru() -> None:
    time, batch, features, units = 4, 2, 3, 5
    rng = np.random.default_rng(13)
    gates, candidate = (rng.standard_normal((n * units, features + units)).astype(np.float32) for n in (2, 1))
    gate_bias, bias = (rng.standard_normal(n * units).astype(np.float32) for n in (2, 1))
    h = rng.standard_normal((batch, units)).astype(np.float32)
    x = rng.standard_normal((time, batch, features)).astype(np.float32)
    m = Model()
    inputs = [m.input(x.shape), m.const(h), *(m.const(v) for v in (gates, gate_bias, candidate, bias))]
    outs = m.op("UNIDIRECTIONAL_SEQUENCE_GRU", inputs, [(time, batch, units), (batch, units)], custom=b"")
    ((found, last),) = ours(m.bytes(outs), [[x]])
    rows = np.concatenate([gates[units:], gates[:units], candidate])
    b = np.concatenate([gate_bias[units:], gate_bias[:units], bias])
    wanted = []
    for row in x.astype(np.float64):
        h = _gru(row, h, rows[:, :features], rows[:, features:], b, np.zeros_like(b), late=False)
        wanted.append(h)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(last, h, rtol=1e-5, atol=1e-5)
