"""LSTMs with all that they may have, of random sizes, against LiteRT: NumPy computes nothing of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.plan.program import HostStep
from tests.circle.test_recurrent import LSTM, SEQUENCE, Draw, float_lstm, int8_lstm
from tests.circle.write import Model, litert

pytest.importorskip("ai_edge_litert")


def native(data: bytes, runs: list[list[np.ndarray]], threads: int = 1) -> list[list[np.ndarray]]:
    """The outputs of each run."""
    model = fg.load(data, threads=threads)
    assert model.plan is not None and model.plan.tail is None
    assert not [step.node.op for step in model.plan.program.steps if isinstance(step, HostStep)]
    names = [v.name for v in model.inputs]
    return [list(model.run(dict(zip(names, feeds, strict=True))).values()) for feeds in runs]


def agree(data: bytes, runs: list[list[np.ndarray]], most: float, threads: int = 1) -> None:
    for found, wanted in zip(native(data, runs, threads), litert(data, runs), strict=True):
        for a, b in zip(found, wanted, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            assert np.abs(a.astype(np.float64) - b.astype(np.float64)).max() <= most


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
    agree(data, [[rng.standard_normal(shape).astype(np.float32)] for _ in range(3)], 1e-5, threads=1 + seed % 2)


@pytest.mark.parametrize("seed", range(6))
def test_int8_weights(seed: int) -> None:
    """LiteRT rounds what it multiplies by them; without norms, which make much of little."""
    rng = np.random.default_rng(seed)
    op, parts = drawn(rng)
    data, shape = float_lstm(op, np.int8, **parts | {"norm": 0, "narrow": parts["narrow"] or 3})
    agree(data, [[rng.standard_normal(shape).astype(np.float32)] for _ in range(3)], 0.03)


@pytest.mark.parametrize("seed", range(10))
def test_int8(seed: int) -> None:
    """Within two steps: LiteRT's gates are of 16 bits. Its peepholes look at too few cells beside a projection."""
    rng = np.random.default_rng(seed)
    op, parts = drawn(rng)
    data, shape = int8_lstm(op, **parts | ({"peephole": 0} if parts["narrow"] else {}))
    agree(data, [[rng.integers(-100, 100, shape).astype(np.int8)] for _ in range(3)], 2)


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
    outs = m.op("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, shapes, merge_outputs=bool(merge), time_major=bool(first),
                fused_activation_function="TANH")  # fmt: skip
    rng = np.random.default_rng(5)
    sizes = [features, more][: 1 + (aux != "none")]
    runs = [[rng.standard_normal((*lead, n)).astype(np.float32) for n in sizes] for _ in range(3)]
    agree(m.bytes(outs), runs, 1e-5 if kind == np.float32 else 0.05)
