"""Charts as SVG, in the colors of `page.STYLE`: they follow the scheme of the page, and what a mark stands for is said
when the pointer rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .page import COLORS, safe
from .text import shorten

LEFT, RIGHT, TOP, BOTTOM = 64, 16, 12, 40
"""Margins of a chart, in pixels."""
LETTER = 6.2
"""Width of a letter."""


class Axis(NamedTuple):
    """`low` to `high` in what is measured, drawn from pixel `first` to `last`; `log`: by logarithms."""

    low: float
    high: float
    first: float
    last: float
    log: bool = False

    def at(self, value: float) -> float:
        """The pixel of a value, within the axis."""
        low, high, value = map(math.log10, (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        share = (value - low) / ((high - low) or 1)
        return self.first + min(max(share, 0.0), 1.0) * (self.last - self.first)

    def ticks(self, most: int = 7) -> list[float]:
        """Round values along the axis."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            factors = (1, 2, 5) if len(powers) <= 3 else (1,)
            found = [factor * 10.0**power for power in powers for factor in factors]
        else:
            step = _round((self.high - self.low) / most)
            first = math.ceil(self.low / step)
            found = [step * n for n in range(first, first + most + 2)]
        slack = 1e-9 * abs(self.high)
        return [value for value in found if self.low - slack <= value <= self.high + slack]


def _round(step: float) -> float:
    """The least of 1, 2, 5 times a power of ten that is not less than `step`."""
    power = 10.0 ** math.floor(math.log10(step)) if step > 0 else 1.0
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))


def number(value: float) -> str:
    """A short form of a number on an axis."""
    if value and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:.4g}"


def svg(width: float, height: float, body: str, label: str) -> str:
    """A picture that scrolls where it does not fit."""
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return f'<div class="wide"><svg {size} role="img" aria-label="{safe(label)}">{body}</svg></div>'


def words(x: float, y: float, said: object, anchor: str = "start", kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{safe(said)}</text>'


def box(x: float, y: float, width: float, height: float, color: str, title: str = "", more: str = "") -> str:
    shape = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{max(height, 0.5):.1f}"'
    return f'<rect {shape} fill="{color}"{more}><title>{safe(title)}</title></rect>'


def path(points: Sequence[tuple[float, float]], color: str, more: str = "") -> str:
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{line}" fill="none" stroke="{color}" stroke-width="1.6"{more}/>'


def color(number: int) -> str:
    return f"var(--c{number % COLORS})"


def frame(x: Axis, y: Axis, across: str, up: str, unit: Callable[[float], str] = number) -> str:
    """Grid, numbers and titles of two axes."""
    parts = []
    for value in x.ticks():
        at = x.at(value)
        parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{y.first:.1f}" y2="{y.last:.1f}"/>')
        parts.append(words(at, y.first + 15, number(value), "middle", "soft"))
    for value in y.ticks(5):
        at = y.at(value)
        parts.append(f'<line class="grid" x1="{x.first:.1f}" x2="{x.last:.1f}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(words(x.first - 6, at + 4, unit(value), "end", "soft"))
    parts.append(words((x.first + x.last) / 2, y.first + 32, across, "middle", "soft"))
    middle = (y.first + y.last) / 2
    turned = f'transform="rotate(-90 12 {middle:.1f})"'
    parts.append(f'<text class="soft" x="12" y="{middle:.1f}" text-anchor="middle" {turned}>{safe(up)}</text>')
    return "".join(parts)


def legend(names: Sequence[str], x: float, y: float) -> str:
    """A line for each series, from a place on down."""
    return "".join(
        box(x, y + 16 * n - 9, 10, 10, color(n)) + words(x + 15, y + 16 * n, shorten(name, 34))
        for n, name in enumerate(names)
    )


def distributions(series: Sequence[tuple[str, Sequence[float]]], across: str) -> str:
    """The share of values up to each, a line for each series: empirical distribution functions."""
    width, height, kept = 860, 280.0, [(name, sorted(values)) for name, values in series if len(values)]
    if not kept:
        return ""
    low = min(values[0] for _, values in kept)
    high = max(values[min(int(0.995 * len(values)), len(values) - 1)] for _, values in kept)
    log = low > 0 and high > 8 * low
    high = max(high, low * 1.02 + 1e-12)
    margin = 1.0 if log else 0.03 * (high - low)
    x = Axis(low / 1.1 if log else low - margin, high * 1.1 if log else high + margin, LEFT, width - RIGHT - 230, log)
    y = Axis(0, 1, height - BOTTOM, TOP)
    parts = [frame(x, y, across, "share of calls", lambda share: f"{share:.0%}")]
    for n, (_, values) in enumerate(kept):
        count = len(values)
        chosen = sorted({round(i * (count - 1) / 400) for i in range(401)})
        points = [(x.at(values[0]), y.at(0))]
        for i in chosen:
            points += [(x.at(values[i]), points[-1][1]), (x.at(values[i]), y.at((i + 1) / count))]
        parts.append(path(points, color(n)))
        middle = values[count // 2]
        parts.append(f'<circle cx="{x.at(middle):.1f}" cy="{y.at(0.5):.1f}" r="3.5" fill="{color(n)}"/>')
    said = [f"{name}: {number(values[len(values) // 2])}" for name, values in kept]
    parts.append(words(width - 236, TOP + 12, "median", kind="soft"))
    parts.append(legend(said, width - 236, TOP + 30))
    return svg(width, height, "".join(parts), "distribution of latencies")


def bars(rows: Sequence[tuple[str, float, str, str]], colors: Sequence[str] = ()) -> str:
    """A bar for each (label, value, what stands behind it, title), as wide as the page."""
    most = max((value for _, value, *_ in rows), default=0) or 1
    lines = []
    for n, (label, value, said, title) in enumerate(rows):
        style = f"width:{100 * max(value, 0) / most:.2f}%;background:{colors[n] if n < len(colors) else color(0)}"
        bar = f'<b title="{safe(title or label)}"><i style="{style}"></i></b>'
        lines.append(f'<span title="{safe(label)}">{safe(label)}</span>{bar}<em>{safe(said)}</em>')
    return f'<div class="bars">{"".join(lines)}</div>'


class Dot(NamedTuple):
    """A mark at x, y of so many pixels."""

    x: float
    y: float
    radius: float
    color: str
    title: str


Named = tuple[str, float]


def roofline(dots: Sequence[Dot], peaks: Sequence[Named], rates: Sequence[Named]) -> str:
    """Dots of (operations per byte, operations per second) below peaks of operations and rates of bytes per second,
    each with its name; the first of both are one solid line.
    """
    if not dots:
        return ""
    width, height = 860.0, 340.0
    peak = peaks[0][1]
    knees = [peak / rate for _, rate in rates]
    wide = [dot.x for dot in dots] + knees
    low, high = min(wide) / 3, max(wide) * 3
    tops = [dot.y for dot in dots] + [value for _, value in peaks]
    x = Axis(low, high, LEFT, width - RIGHT, True)
    y = Axis(min(min(dot.y for dot in dots) / 2, max(tops) / 100), 2 * max(tops), height - BOTTOM, TOP, True)
    parts = [frame(x, y, "multiply-adds per byte", "GMAC/s")]
    for n, (name, rate) in enumerate(rates):
        start = max(low, y.low / rate)
        rise = [(x.at(start), y.at(start * rate)), (x.at(peak / rate), y.at(peak))]
        parts.append(path([*rise, (x.at(high), y.at(peak))], "var(--soft)", ' stroke-dasharray="5 3"' if n else ""))
        if not any(rate < 1.3 * other and other < 1.3 * rate for _, other in rates[:n]):  # words would lie on words
            parts.append(_along(rise[0], rise[1], name))
    for name, value in peaks:
        line = [(x.at(value / max(rate for _, rate in rates)), y.at(value)), (x.last, y.at(value))]
        parts.append(path(line, "var(--soft)"))
        parts.append(words(x.last, y.at(value) - 5, f"{name}, {number(value)} GMAC/s", "end", "soft"))
    for dot in sorted(dots, key=lambda dot: -dot.radius):
        place = f'cx="{x.at(dot.x):.1f}" cy="{y.at(dot.y):.1f}" r="{dot.radius:.1f}"'
        parts.append(f'<circle {place} fill="{dot.color}" fill-opacity=".7"><title>{safe(dot.title)}</title></circle>')
    return svg(width, height, "".join(parts), "roofline")


def _along(start: tuple[float, float], end: tuple[float, float], said: str) -> str:
    """Words on a line, a little after its start."""
    (x, y), angle = start, math.degrees(math.atan2(end[1] - start[1], end[0] - start[0]))
    turned = f'transform="translate({x:.1f} {y:.1f}) rotate({angle:.1f})"'
    return f'<text class="soft" x="10" y="-4" {turned}>{safe(said)}</text>'
