"""Declarations of records (kernels/core/record.py): conditions on numbers, and ranges of bytes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from math import prod
from types import CodeType
from typing import Any, NamedTuple

from ...kernels.core.record import Slot
from ...kernels.core.table import row
from .call import Call, Misfit, Numbers, Reach, need, parts, short
from .walked import walked

FUNCTIONS: dict[str, Any] = {
    "ceil_div": parts,
    "short": short,
    "prod": prod,
    "bytes_of": lambda kind: int(kind.lstrip("bfiu")) // 8,
}
"""Functions that expressions may call; `bytes_of`: the size of an element type, as "f32" or "i8"."""


class _Declared(NamedTuple):
    """counts: slots that hold 0 or more; numbers: other conditions, by slot; ranges: of addresses, by slot."""

    counts: list[str]
    numbers: dict[str, CodeType]
    ranges: dict[str, dict[str, CodeType]]


def declared(c: Call) -> Iterator[Reach]:
    """The ranges of a call as its record declares them; Misfit where a number violates a condition."""
    slots, r = row(c.kernel).args, c.record()
    counts, numbers, ranges = _declared(c.kernel)
    c.record(" ".join(counts))
    for name, where in numbers.items():
        need(_value(where, r), f"{name} is {r[name]}, expected {slots[name].where}")  # type: ignore[attr-defined]
    for name, facts in ranges.items():
        slot = slots[name]
        assert isinstance(slot, Slot)
        if not _value(facts["when"], r):
            need(c.slots[name] == 0, f"{name} is {c.slots[name]}, expected 0, as it is none with {slot.when}")
        elif not slot.optional or c.slots[name] != 0:
            yield from _reached(c, name, slot.kind, {fact: _value(code, r) for fact, code in facts.items()})


def _reached(c: Call, name: str, kind: str, facts: dict[str, Any]) -> Iterator[Reach]:
    run, loops, start, here = facts["run"], facts["loops"], facts["start"], bool(facts["here"])
    if kind == "chain":
        yield from walked(c, facts["dims"], run, *loops, start=start, here=here)
        return
    reach = Reach(name, kind, run, loops, start, facts["over"], here)
    if kind == "work" and not reach.empty:
        end = Reach(name, kind, run, loops[1:], start).span()[1]
        need(end <= loops[0][1], f"{name} has {loops[0][1]} bytes for each, less than the {end} that are used")
    yield reach


def _value(code: CodeType, r: Numbers) -> Any:
    try:
        return eval(code, FUNCTIONS, r)  # type: ignore[arg-type]
    except ZeroDivisionError as error:
        raise Misfit(str(error)) from None


@cache
def _declared(kernel: str) -> _Declared:
    """The compiled declarations of a kernel's record."""
    record, counts = row(kernel).args, dict[str, None]()
    slots = {name: slot for name, slot in record.items() if isinstance(slot, Slot)}
    numbers = {name: _compiled(f"{name} {slot.where}") for name, slot in slots.items() if slot.kind == "number"}
    ranges = {}
    for name, slot in slots.items():
        if slot.kind != "number":
            run, loops = ast.parse(slot.run, mode="eval"), _pairs(slot.loops)
            ranges[name] = {fact: _compiled(getattr(slot, fact)) for fact in ("start", "over", "here", "when")}
            ranges[name] |= {"run": _compiled(run), "loops": _compiled(loops), "dims": _compiled(f"({slot.dims})")}
            for each in (run, *(pair.elts[0] for pair in loops.body.elts if isinstance(pair, ast.Tuple))):
                counts |= dict.fromkeys(_named(each))
    numeric = [name for name in counts if name in record and name not in ranges]
    return _Declared(numeric, numbers, ranges)


def _named(tree: ast.AST) -> Iterator[str]:
    """The names in an expression, without those of conditions."""
    if isinstance(tree, ast.Name):
        yield tree.id
    for child in (tree.body, tree.orelse) if isinstance(tree, ast.IfExp) else ast.iter_child_nodes(tree):
        yield from _named(child)


def _compiled(expression: str | ast.Expression) -> CodeType:
    return compile(expression, "a record", "eval")


def _pairs(loops: str) -> Any:
    """The expression of "count: stride, ..., **list" as a tuple of pairs."""
    tree: Any = ast.parse(f"{{{loops}}}", mode="eval")
    load = ast.Load()
    pairs: list[ast.expr] = [
        ast.Starred(value, load) if key is None else ast.Tuple([key, value], load)
        for key, value in zip(tree.body.keys, tree.body.values, strict=True)
    ]
    tree.body = ast.Tuple(pairs, load)
    return ast.fix_missing_locations(tree)
