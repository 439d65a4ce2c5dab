"""A model in a screen of text, and for a notebook."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..errors import FastgraphError
from ..ir import TensorType
from ..page import STYLE, details, html_table
from ..plan.describe import steps
from ..text import bytes_text, counted, shorten, table, units
from .arena_svg import arena_svg

if TYPE_CHECKING:
    from .executable import Executable
    from .model import Model, TensorSpec

TOP = 10
"""Operators that are listed."""
PORTS = 8
"""Inputs that are listed, and outputs."""


def facts(model: Model) -> list[tuple[str, str]]:
    """The facts about a model, by title, in lines of about 100 characters."""
    found = [("model", f"{shorten(model.signature.name or 'without a name', 60)}, {_source(model)}")]
    found += _ports("input", model.inputs) + _ports("output", model.outputs)
    found.append(("runs on", f"{units(model.tier.name, model.precision)}, {counted(model.threads, 'thread')}"))
    plan = known_plan(model)
    if plan is not None:
        found += _planned(plan)
    elif model.planned:
        found.append(("arena", bytes_text(model.arena_bytes)))
    else:
        found += _unplanned(model)
    return found


def text(model: Model) -> str:
    """The facts as a table, with where to find more."""
    more = "model.plan prints every step" if model.planned else "a run makes a plan, or resize, or load(..., shapes=)"
    lines = table([(title, " ".join(said.split())) for title, said in facts(model)])
    return "\n".join([*lines, f"{more}; print(model.graph) shows every node"])


def html(model: Model) -> str:
    """The facts as a table; steps and a picture of the arena, to be opened. It needs nothing beside it."""
    parts = [html_table([("", ""), *facts(model)], head=False)]
    plan = known_plan(model)
    if plan is not None:
        head = ("", "op", "result", "type", "offset", "kernel")
        rows = [
            (str(n), r["op"], shorten(r["result"], 60), r["type"], "" if r["offset"] is None else str(r["offset"]),
             shorten(r["params"] or "numpy", 90))
            for n, r in enumerate(steps(plan.program))
        ]  # fmt: skip
        parts.append(details(counted(len(rows), "step"), html_table([head, *rows], right=(0, 4))))
        parts.append(details("arena: which value lies where, step by step", arena_svg(plan.program, plan.graph)))
    return f'<div class="fastgraph"><style>{STYLE}</style>{"".join(parts)}</div>'


def known_plan(model: Model) -> Executable | None:
    """The plan in use; None where there is none, or it can't be made anew to be looked at."""
    try:
        return model.plan if model.planned else None
    except (FastgraphError, ImportError, OSError):
        return None


def operators(counts: Counter[str]) -> str:
    """Names with how many there are, the most frequent first."""
    said = [f"{count} {name}" for name, count in counts.most_common(TOP)]
    rest = sum(counts.values()) - sum(count for _, count in counts.most_common(TOP))
    return ", ".join(said) + (f", {rest} others" if rest else "")


def _planned(plan: Executable) -> list[tuple[str, str]]:
    program, arena = plan.program, plan.program.arena
    constants = sum(array.nbytes for array in program.constants)
    found = [
        ("arena", f"{bytes_text(arena.size)} ({arena.size / max(arena.bound, 1):.2f} of its lower bound)"),
        ("constants", bytes_text(constants)),
        ("steps", f"{len(program.steps)}, by {counted(len(program.kernels()), 'kernel')}"),
        ("operators", operators(Counter(step.node.op for step in program.steps))),
    ]
    if plan.tail is not None:
        how = "planned when these are known" if plan.plans_tail else "computed with NumPy"
        found.append(
            ("tail", f"{counted(len(plan.tail.nodes), 'node')} at the end, whose shapes depend on data, {how}")
        )
    return found


def _unplanned(model: Model) -> list[tuple[str, str]]:
    why = "the file leaves input shapes open"
    if model.unplanned:
        why = f"there is none for the input shapes that the file names: {model.unplanned}"
    found = [("plan", f"no plan yet, as {why}")]
    try:
        nodes = model.graph.nodes
    except FastgraphError:
        return found
    counts = Counter(node.op for node in nodes)
    return [*found, ("nodes", str(len(nodes))), ("operators", operators(counts))]


def _source(model: Model) -> str:
    return shorten(model.signature.source or "from memory", 90)


def _ports(kind: str, specs: list[TensorSpec]) -> list[tuple[str, str]]:
    types = (shorten(str(TensorType(s.dtype, s.shape, s.quantization)), 90) for s in specs)
    shown = [(kind, f"{shorten(s.name, 60)}: {text}") for s, text in zip(specs[:PORTS], types, strict=False)]
    rest = len(specs) - PORTS
    return shown + ([("", f"and {rest} more {kind}s")] if rest > 0 else [])
