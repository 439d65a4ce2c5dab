"""A comparison for people: text, a page of HTML, and a picture of the layers' signal to noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..text import shorten, table
from .layers import Layer
from .pairing import Figures

if TYPE_CHECKING:
    from .compare import Comparison

FULL = 60.0
"""dB of a full bar."""
BAR = 20
"""Its characters."""
HEAD = ("", "largest |b - a|", "/ largest |a|", "SNR dB", "cosine", "argmax")


def text(found: Comparison, whole: bool = False) -> str:
    """Pairs, figures of the outputs, the first layer that differs; `whole`: with a line for each layer."""
    draws = f"{found.runs} draw" + ("s" if found.runs > 1 else "")
    lines = [shorten(f"a: {found.a}", 100), shorten(f"b: {found.b}", 100), f"{draws}; allowed: {found.limits}", ""]
    rows = [("", "a", "b", "paired by", "layout")]
    rows += [("input", _short(p.a), _short(p.b), p.by, p.layout) for p in found.inputs]
    rows += [("output", _short(p.a), _short(p.b), p.by, p.layout) for p in found.outputs]
    lines += [*table(rows), ""]
    figures: list[tuple[str, ...]] = [("output", *HEAD[1:], "")]
    figures += [(_short(p.a), *_cells(p.figures), "" if p.ok else "DIFFERS") for p in found.outputs if p.figures]
    lines += table(figures, right=(1, 2, 3, 4, 5))
    lines += [f"output {name!r} of A has no partner: --map A=B" for name in found.unpaired]
    lines += [shorten(note, 160) for note in found.notes]
    if whole and found.layers:
        lines += ["", *table(layer_rows(found.layers), right=(1, 2))]
    lines += ["", *told(found), "They agree." if found.ok else "They differ."]
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
    rows: list[tuple[str, ...]] = [("layer of a", "largest |b - a|", "SNR dB", "", "layer of b")]
    for layer in layers:
        length = round(BAR * min(max(layer.figures.snr, 0.0), FULL) / FULL)
        cells = f"{layer.figures.absolute:.3g}", _snr(layer.figures), "█" * length + "·" * (BAR - length)
        rows.append((shorten(layer.op_a, 44), *cells, shorten(layer.op_b, 44) + ("" if layer.ok else "  DIFFERS")))
    return rows


def told(found: Comparison) -> list[str]:
    """The first layer that differs, and those before it; where the signal falls most."""
    if not found.layers:
        return []
    lines = [f"{len(found.layers)} layers of A have partners, {sum(layer.ok for layer in found.layers)} agree"]
    if found.first is not None:
        layer = found.layers[found.first]
        gap = f"SNR {_snr(layer.figures)} dB, largest |b - a| {layer.figures.absolute:.3g}"
        lines.append(f"first that differs: {layer.op_a} ({layer.a!r}): {gap}")
        lines.append(f"    its partner: {layer.op_b} ({layer.b!r}){', ' + layer.layout if layer.layout else ''}")
        lines += [f"    with what has no value of its own in both: {', '.join(layer.within)}"] if layer.within else []
        last = [found.layers[number] for number in layer.before]
        agreed = ", ".join(f"{each.op_a} | {each.op_b}" for each in last) or "the inputs"
        lines.append(f"    last that agree: {agreed}")
    falls = [(min(found.layers[i].figures.snr for i in each.before) - each.figures.snr, each) for each in found.layers
             if each.before and math.isfinite(each.figures.snr)]  # fmt: skip
    finite = [(fall, each) for fall, each in falls if math.isfinite(fall)]
    if finite and max(finite, key=lambda each: each[0])[0] > 1:
        fall, each = max(finite, key=lambda each: each[0])
        lines.append(f"largest loss: {fall:.1f} dB in {each.op_a}")
    return [shorten(line, 200) for line in lines]


# -- pictures


def picture(layers: Sequence[Layer], form: str) -> bytes | None:
    """The layers' SNR drawn by matplotlib, as "png" or "svg"; None where that is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(9, max(2.0, 0.22 * len(layers) + 1)), layout="constrained")
    axes: Any = figure.subplots()
    heights = [min(max(layer.figures.snr, 0.0), 2 * FULL) for layer in layers]
    axes.barh(range(len(layers)), heights, color=["#3b6ea5" if layer.ok else "#c0392b" for layer in layers])
    axes.set_yticks(range(len(layers)), [shorten(layer.op_a, 44).replace("$", r"\$") for layer in layers], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("signal to noise, dB")
    out = BytesIO()
    figure.savefig(out, format=form)
    return out.getvalue()


def png(found: Comparison) -> bytes:
    """The picture of the layers. InputError where there are none, or no matplotlib."""
    if not found.layers:
        raise InputError("--png: no layers were compared, both have to be files with a graph")
    drawn = picture(found.layers, "png")
    if drawn is None:
        raise InputError("--png needs matplotlib: pip install matplotlib; --layers and --html draw with characters")
    return drawn


def html(found: Comparison) -> str:
    """A page that needs nothing beside it: figures, layers, and their picture, or where matplotlib is missing bars of
    characters.
    """
    page = StringIO()
    page.write("<!doctype html><meta charset=utf-8><title>fastgraph compare</title><style>body{font:15px sans-serif;")
    page.write("margin:2em}table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:left;border-bottom:1px ")
    page.write("solid #ddd}svg{max-width:100%;height:auto}td{white-space:pre}</style>")
    page.write(f"<h1>{'They agree' if found.ok else 'They differ'}</h1>")
    page.write(f"<p>a: {escape(found.a)}<br>b: {escape(found.b)}<br>")
    page.write(f"{found.runs} draws; allowed: {escape(str(found.limits))}</p>")
    rows: list[tuple[str, ...]] = [("output of a", "output of b", "paired by", "layout", *HEAD[1:], "")]
    for p in found.outputs:
        if p.figures is not None:
            rows.append((p.a, p.b, p.by, p.layout, *_cells(p.figures), "" if p.ok else "DIFFERS"))
    page.write(_table(rows))
    for line in [*(f"{name}: no partner" for name in found.unpaired), *found.notes, *told(found)]:
        page.write(f"<p>{escape(line)}</p>")
    if found.layers:
        drawn = picture(found.layers, "svg")
        page.write("" if drawn is None else drawn[drawn.index(b"<svg") :].decode())
        page.write(_table(layer_rows(found.layers)))
    return page.getvalue()


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = ["".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in row) for kind, row in
                   [("th", rows[0]), *(("td", row) for row in rows[1:])]]  # fmt: skip
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in body) + "</table>"
