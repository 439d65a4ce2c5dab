"""A picture of the arena: which buffer lies where, and from which step to which."""

from __future__ import annotations

from ..ir import Graph
from ..plan.lower.build import lifetimes
from ..plan.program import Program
from ..svg import BOTTOM, LEFT, LETTER, RIGHT, TOP, Axis, box, color, frame, svg, words
from ..text import bytes_text, shorten


def arena_svg(program: Program, graph: Graph) -> str:
    """Rectangles, steps across and bytes up."""
    arena, width, height = program.arena, 860, 320.0
    if not arena.size:
        return "<p>The arena is empty.</p>"
    unit, name = (1 << 20, "MiB") if arena.size >= 1 << 20 else (1 << 10, "KiB")
    x = Axis(0, max(len(program.steps), 1), LEFT, width - RIGHT)
    y = Axis(0, arena.size / unit, height - BOTTOM, TOP)
    parts = [frame(x, y, "step", f"offset, {name}")]
    for n, (b, at) in enumerate(zip(lifetimes(program, graph).values(), arena.offsets, strict=True)):
        left, right = x.at(b.first), x.at(b.last + 1)
        top, bottom = y.at((at + b.size) / unit), y.at(at / unit)
        title = f"{b.name}: {bytes_text(b.size)} at {at}, steps {b.first} to {b.last}"
        parts.append(box(left, top, right - left, bottom - top, color(n), title, ' stroke="var(--paper)"'))
        letters = int((right - left - 6) / LETTER)
        if letters >= 6 and bottom - top >= 12:
            parts.append(words(left + 3, (top + bottom) / 2 + 4, shorten(b.name, letters), kind="over"))
    return svg(width, height, "".join(parts), "arena over time")
