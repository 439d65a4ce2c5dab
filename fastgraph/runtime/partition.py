"""Splits a program into native runs and the host steps between them."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Node
from ..plan.lower.build import KEEP
from ..plan.program import ERROR, AnyStep, HostStep, Jump, Step

Part = HostStep | Jump | list[Step | Jump]
"""A host step; a jump between parts; or native steps with the jumps among them."""


def partition(steps: Sequence[AnyStep]) -> list[tuple[int, Part]]:
    """The parts in order, each with the number of its first step; a program without steps is one empty run.

    Jumps of control flow with host steps in its bodies are parts of their own, and their targets begin parts.
    """
    between = _between(steps)
    starts = {i + jump.by for i, jump in between.items()}
    parts: list[tuple[int, Part]] = []
    segment: list[Step | Jump] = []
    for i, step in enumerate(steps):
        if segment and (i in starts or _keeps(step, segment)):
            parts.append((i - len(segment), segment))
            segment = []
        if not isinstance(step, HostStep) and i not in between:
            segment.append(step)
            continue
        if segment:
            parts.append((i - len(segment), segment))
            segment = []
        parts.append((i, step if isinstance(step, HostStep) else between[i]))
    return [*parts, (len(steps) - len(segment), segment)] if segment or not parts else parts


def _keeps(step: AnyStep, segment: Sequence[Step | Jump]) -> bool:
    """Whether the part begins with the steps that keep states: these must not run when a lookup before them failed."""
    return step.node.op == KEEP and segment[-1].node.op != KEEP and bool(lookups_of(segment))


def _between(steps: Sequence[AnyStep]) -> dict[int, Jump]:
    """The jumps that have host steps between themselves and their targets."""
    jumps: dict[Node, dict[int, Jump]] = {}
    for i, step in enumerate(steps):
        if isinstance(step, Jump) and not step.fails:
            jumps.setdefault(step.node, {})[i] = step
    found: dict[int, Jump] = {}
    for own in jumps.values():
        ends = [*own, *(i + jump.by for i, jump in own.items())]
        if any(isinstance(step, HostStep) for step in steps[min(ends) : max(ends)]):
            found |= own
    return found


def lookups_of(steps: Sequence[AnyStep]) -> list[Node]:
    """The nodes of steps that may report an index out of range."""
    return [step.node for step in steps if isinstance(step, Step) and ERROR in step.args]
