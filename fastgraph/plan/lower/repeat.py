"""Lowering the same node for other rows: the steps that its lowering wrote for as many rows are copied."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from ..program import Ref, Scratch, Step, Table
from .emit import Emit


def copy_or_emit(e: Emit, kind: Hashable, refs: tuple[Ref, ...], emit: Callable[[], None]) -> None:
    """Copy the steps that `emit` wrote for an earlier piece of this kind, with other addresses; where there are none,
    or more than these addresses differs, let it write them.

    refs: the addresses that depend on which rows of e.node these are: of x, of the result, of other operands.
    """
    steps, key = e.program.steps, (e.node, kind)
    before, old = e.written.get(key, (None, refs))
    copies = None if before is None else _moved(e, before, old, refs)
    if copies is not None:
        steps += copies
        return
    first = len(steps)
    emit()
    made = [step for step in steps[first:] if isinstance(step, Step) and refs[1] in step.args]
    if before is None and len(made) == len(steps) - first:
        e.written[key] = made, refs


def _moved(e: Emit, steps: list[Step], old: tuple[Ref, ...], new: tuple[Ref, ...]) -> list[Step] | None:
    """Copies of steps, at other addresses and with scratch of their own; None where these are not all that moves."""
    moves = dict(zip(old, new, strict=True))
    if any(moves[a] != b for a, b in zip(old, new, strict=True)):
        return None
    shared = {ref.base for ref in (*old, *e.rounded.values())}
    try:
        words = [tuple([_word(word, moves, shared) for word in step.args]) for step in steps]
    except LookupError:
        return None
    return [Step(s.kernel, args, s.node, s.share, e.part) for s, args in zip(steps, words, strict=True)]


def _word(word: Any, moves: Mapping[Any, Ref], shared: set[Any]) -> Any:
    if type(word) is Table:
        return Table(tuple([_word(each, moves, shared) for each in word.words]))
    if type(word) is not Ref:
        return word
    if word in moves:
        return moves[word]
    if isinstance(word.base, int):
        return word
    if not isinstance(word.base, Scratch) or word.base in shared:
        raise LookupError
    return word._replace(base=Scratch(word.base.name, word.base.nbytes))
