"""bench/sweep.py: its layers are networks that all engines read alike, and its figures are those of its lines."""

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from bench.sweep import KINDS, Layer, drawn, measured, summary
from tests.nets import by_onnxruntime, feeds_for

PRECISIONS = [
    (kind, p) for kind, (_, _, has_int8) in KINDS.items() for p in (("f32", "int8") if has_int8 else ("f32",))
]


def small(kind: str, precision: str) -> Layer:
    """The cheapest of twenty layers."""
    return min((drawn(seed, kind, precision) for seed in range(20)), key=lambda layer: layer.macs)


@pytest.mark.parametrize(("kind", "precision"), PRECISIONS)
def test_layers_are_the_same_for_all(kind: str, precision: str) -> None:
    layer = small(kind, precision)
    assert layer.kind == f"{kind} {precision}"
    source = layer.build()
    model = fg.load(source, isa="numpy")
    feeds = feeds_for(model)
    # a step of 8 bits, 0.03, may come out the other way
    allowed = 0.07 if precision == "int8" else 1e-4
    for found, wanted in zip(model.run(feeds).values(), by_onnxruntime(source, feeds), strict=True):
        assert np.abs(found - wanted).max() <= allowed * max(1, np.abs(wanted).max())


def row(ratio: float | None, noisy: bool = False, shared: bool = False) -> dict[str, Any]:
    return {"seed": 7, "kind": "dense f32", "layer": f"of {ratio}", "ms": 1.0, "gmacs": 2.0, "ratio": ratio,
            "fastest": "openvino", "disagrees": False, "wrong": [], "noisy": noisy, "shared": shared}  # fmt: skip


def test_means_are_geometric_and_the_worst_first() -> None:
    text = summary([row(0.5), row(2.0), row(None), row(9.0, noisy=True), row(9.0, shared=True)])
    assert "2 layers, 0 of them measured on a shared core; 2 noisy or shared left out" in text
    assert "  1.00   2.00   1      2  all" in text and "of 9.0" not in text
    assert text.index("of 2.0") < text.index("of 0.5")


def test_where_most_layers_were_of_a_shared_core_these_count() -> None:
    text = summary([row(0.5), row(2.0, shared=True), row(2.0, shared=True), row(9.0, noisy=True)])
    assert "3 layers, 2 of them measured on a shared core; 1 noisy or shared left out" in text
    assert "  1.26   2.00   2      3  all" in text


@pytest.mark.parametrize(
    ("agreeing", "ratio", "wrong"),
    [((True, True), 0.9, []), ((True, False), 0.5, ["openvino"]), ((False, False), 0.9, [])],
)
def test_an_engine_that_differs_where_another_agrees_does_not_count(
    monkeypatch: pytest.MonkeyPatch, agreeing: tuple[bool, bool], ratio: float, wrong: list[str]
) -> None:
    rows = zip(("onnxruntime", "openvino"), (0.5, 0.9), agreeing, strict=True)
    peers = [{"name": name, "ratio": ratio, "agrees": agrees} for name, ratio, agrees in rows]
    engines = [{"name": "fastgraph", "p50_ms": 1.0}, *peers]
    found = {"engines": engines, "isa": "avx2", "disturbance": {"noisy": False, "kept": "rounds"}}
    monkeypatch.setattr("bench.sweep.compare", lambda *_, **__: found)
    line = measured(small("pool", "f32"), 1, 0.1)
    assert line["ratio"] == ratio and line["wrong"] == wrong and line["disagrees"] == (agreeing == (False, False))
