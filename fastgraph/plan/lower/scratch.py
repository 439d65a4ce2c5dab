"""Scratch that the steps of one part share. Parts run at the same time, so that for the arena's planner all their
memory is alive from the first to the last of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from ..program import Ref, Scratch, Step, Table


def use_again(steps: Sequence[Step]) -> None:
    """Let the scratch of each part's steps lie over that of earlier steps of the part, once nothing reads that any
    more. It comes after lowering: no step may be copied from these any more.
    """
    users: dict[Scratch, set[int]] = {}
    for step in steps:
        for scratch in _scratch(step):
            users.setdefault(scratch, set()).add(step.part)
    for part in {step.part for step in steps} - {0}:
        own = {scratch for scratch, parts in users.items() if parts == {part}}
        _use_again([step for step in steps if step.part == part], own)


def _use_again(steps: Sequence[Step], own: Set[Scratch]) -> None:
    """As `use_again`, of one part; own: what no other steps touch."""
    last = {scratch: i for i, step in enumerate(steps) for scratch in _scratch(step)}
    places, free = dict[Scratch, Scratch](), list[Scratch]()
    for i, step in enumerate(steps):
        touched = dict.fromkeys(scratch for scratch in _scratch(step) if scratch in own)
        for scratch in touched:
            if scratch not in places:
                place = places[scratch] = free.pop() if free else scratch
                place.nbytes = max(place.nbytes, scratch.nbytes)
        free += [places[scratch] for scratch in touched if last[scratch] == i]
        if any(places[scratch] is not scratch for scratch in touched):
            step.args = tuple([_placed(word, places) for word in step.args])


def _scratch(step: Step) -> list[Scratch]:
    bases = [word.base for word in step.words() if type(word) is Ref]
    return [base for base in bases if isinstance(base, Scratch)]


def _placed(word: Any, places: Mapping[Any, Scratch]) -> Any:
    if type(word) is Table:
        return Table(tuple([_placed(each, places) for each in word.words]))
    return word._replace(base=places.get(word.base, word.base)) if type(word) is Ref else word
