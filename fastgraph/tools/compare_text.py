"""The result of `compare` as text, and as a page of HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..page import html_table, page, safe
from ..svg import bars, color
from ..text import counted, shorten, table
from .compare_layers import Layer
from .pairing import Figures

if TYPE_CHECKING:
    from .compare import Comparison

FULL = 60.0
"""dB of a full bar."""
BAR = 20
"""Its characters."""
HEAD = ("", "largest |b - a|", "/ largest |a|", "SNR dB", "cosine", "argmax")


def text(found: Comparison, whole: bool = False, width: int | None = None) -> str:
    """Pairs, figures of the outputs, the first layer that differs; `whole`: with a line for each layer. Tables have
    that width, where columns can be shortened, or left out, to it.
    """
    lines = [
        shorten(f"a: {found.a}", 100),
        shorten(f"b: {found.b}", 100),
        f"{counted(found.runs, 'run')}; allowed: {found.limits}",
        "",
    ]
    rows = [("", "a", "b", "paired by", "layout")]
    rows += [("input", _short(p.a), _short(p.b), p.by, p.layout) for p in found.inputs]
    rows += [("output", _short(p.a), _short(p.b), p.by, p.layout) for p in found.outputs]
    lines += [*table(rows, (), width, {1: 12, 2: 12}, drop=(3,)), ""]
    figures: list[tuple[str, ...]] = [("output", *HEAD[1:], "")]
    figures += [(_short(p.a), *_cells(p.figures), "" if p.ok else "DIFFERS") for p in found.outputs if p.figures]
    lines += table(figures, (1, 2, 3, 4, 5), width, {0: 12}, drop=(4, 1, 5))
    lines += [f"output {name!r} of A has no partner: --map A=B" for name in found.unpaired]
    lines += [shorten(note, 160) for note in found.notes]
    if whole and found.layers:
        lines += ["", *table(layer_rows(found.layers), (1, 2), width, {0: 20, 4: 20}, drop=(3, 1, 4))]
    lines += ["", *first_difference(found), "They agree." if found.ok else "They differ."]
    return "\n".join(lines)


def _short(name: str) -> str:
    return shorten(name, 36)


def _cells(figures: Figures) -> tuple[str, ...]:
    argmax = "" if figures.argmax is None else f"{figures.argmax:.0%}"
    return f"{figures.absolute:.3g}", f"{figures.relative:.1e}", _snr(figures), f"{figures.cosine:.6f}", argmax


def _snr(figures: Figures) -> str:
    return "equal" if figures.snr == math.inf else f"{figures.snr:.1f}"


def layer_rows(layers: Sequence[Layer]) -> list[tuple[str, ...]]:
    """The table of layers, with a bar of FULL dB."""
    rows: list[tuple[str, ...]] = [("layer of a", "largest |b - a|", "SNR dB", "", "layer of b", "")]
    for layer in layers:
        length = round(BAR * min(max(layer.figures.snr, 0.0), FULL) / FULL)
        cells = f"{layer.figures.absolute:.3g}", _snr(layer.figures), "█" * length + "·" * (BAR - length)
        rows.append((shorten(layer.op_a, 44), *cells, shorten(layer.op_b, 44), "" if layer.ok else "DIFFERS"))
    return rows


def first_difference(found: Comparison) -> list[str]:
    """The first layer that differs, and those before it; where the signal falls most."""
    if not found.layers:
        return []
    lines = [f"layers of A with partners: {len(found.layers)}; that agree: {sum(layer.ok for layer in found.layers)}"]
    if found.first is not None:
        layer = found.layers[found.first]
        gap = f"SNR {_snr(layer.figures)} dB, largest |b - a| {layer.figures.absolute:.3g}"
        lines.append(f"first that differs: {layer.op_a} ({layer.a!r}): {gap}")
        lines.append(f"    its partner: {layer.op_b} ({layer.b!r}){', ' + layer.layout if layer.layout else ''}")
        lines += [f"    with what has no value of its own in both: {', '.join(layer.within)}"] if layer.within else []
        last = [found.layers[number] for number in layer.before]
        agreed = ", ".join(f"{each.op_a} | {each.op_b}" for each in last) or "the inputs"
        lines.append(f"    last that agree: {agreed}")
    later = (each for each in found.layers if each.before and math.isfinite(each.figures.snr))
    falls = ((min(found.layers[i].figures.snr for i in each.before) - each.figures.snr, each) for each in later)
    finite = [(fall, each) for fall, each in falls if math.isfinite(fall)]
    if finite and max(finite, key=lambda each: each[0])[0] > 1:
        fall, each = max(finite, key=lambda each: each[0])
        lines.append(f"largest loss: {fall:.1f} dB in {each.op_a}")
    return [shorten(line, 200) for line in lines]


def html(found: Comparison) -> str:
    """A page that needs nothing beside it: figures, and the layers with bars of their signal to noise."""
    facts = [("a", found.a), ("b", found.b), (counted(found.runs, "run"), f"allowed: {found.limits}")]
    parts = [f"<h1>{'They agree' if found.ok else 'They differ'}</h1>", html_table([("", ""), *facts], head=False)]
    rows: list[tuple[str, ...]] = [("output of a", "output of b", "paired by", "layout", *HEAD[1:], "")]
    for p in found.outputs:
        if p.figures is not None:
            rows.append((p.a, p.b, p.by, p.layout, *_cells(p.figures), "" if p.ok else "DIFFERS"))
    parts.append(html_table(rows, right=range(4, 9)))
    said = [*(f"{name}: no partner" for name in found.unpaired), *found.notes, *first_difference(found)]
    parts += [f"<p>{safe(line)}</p>" for line in said]
    if found.layers:
        parts += ["<h2>Signal to noise of layers, dB</h2>", _bars(found.layers)]
    return page("fastgraph compare", "\n".join(parts))


def _bars(layers: Sequence[Layer]) -> str:
    """Bars of the layers' errors, at most twice FULL dB long; red where a layer differs."""
    rows = [
        (layer.op_a, min(max(layer.figures.snr, 0.0), 2 * FULL), f"{_snr(layer.figures)}, {layer.op_b}",
         f"{layer.a} | {layer.b}: largest |b - a| {layer.figures.absolute:.3g}")
        for layer in layers
    ]  # fmt: skip
    return bars(rows, [color(0) if layer.ok else "#c0392b" for layer in layers])
