"""Which rewriting rules, lowerings and kernels random networks reach: counted from outside, at no cost elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest.mock import patch

import fastgraph as fg
from fastgraph.ir import Node
from fastgraph.kernels.core.table import row, rows
from fastgraph.kernels.isa.tiers import has, usable
from fastgraph.passes import layout
from fastgraph.plan.lower import LOWERINGS, Emit
from fastgraph.plan.program import HostStep
from fastgraph.rules.catalog import CATALOG
from fastgraph.rules.rule import Rule
from fastgraph.rules.rule import watching as watched

SINKING: tuple[dict[Any, layout.Rule], ...] = (layout.RULES, layout.BY_LAYOUT)
"""The rules that `sink` calls, by operators and by layouts."""

NATIVE = frozenset({"execute", "call", "team", "parts"})
"""Kernels that run others."""


@cache
def _runs(name: str) -> bool:
    """Whether this CPU runs the kernel, with some of its parameters."""
    return any(has(row(name).needs(dict(kernel.params))) for kernel in row(name).kernels(usable()[-1]))


def name_of(rule: Any) -> str:
    """Of a rule or the like: its file and its name."""
    return f"{rule.__module__.rpartition('.')[2]}.{rule.__name__}"


@cache
def rules() -> tuple[str, ...]:
    """The names of all rewriting rules."""
    return tuple(sorted({name.partition(".")[2] for name in known_rules()}))


WITHIN = frozenset({"layout.moved", "layout.joined"})
"""Rules that are made for one sweep."""


@cache
def known_rules() -> frozenset[str]:
    """All rules: those of the catalog, those made for one sweep, and those of an operator that `sink` calls."""
    rules = [name for phase, rules in CATALOG.items() if phase != "reference" for name in rules]
    entered = {".".join(name.split(".")[-2:]) for name in rules}
    return frozenset(entered | WITHIN | {name_of(rule) for table in SINKING for rule in table.values()})


@dataclass
class Coverage:
    """How often each was used."""

    rules: Counter[str] = field(default_factory=Counter)
    lowerings: Counter[str] = field(default_factory=Counter)
    kernels: Counter[str] = field(default_factory=Counter)
    host: Counter[str] = field(default_factory=Counter)

    def planned(self, model: fg.Model) -> None:
        self.kernels.update(kernel.name for kernel in model.plan.kernels())
        self.host.update(step.node.op for step in model.plan.program.steps if isinstance(step, HostStep))

    def merge(self, other: Coverage) -> None:
        for name in vars(self):
            getattr(self, name).update(getattr(other, name))

    def missing(self) -> set[str]:
        """Rules, lowerings and kernels of this CPU that nothing reached."""
        lowerings = {lowering_name(op, entry.emit) for op, entries in LOWERINGS.items() for entry in entries}
        return {
            *(f"rule {name}" for name in known_rules() - set(self.rules)),
            *(f"lowering {name}" for name in lowerings - set(self.lowerings)),
            *(f"kernel {name}" for name in set(filter(_runs, rows())) - set(self.kernels) - NATIVE),
        }

    def table(self) -> str:
        lines = []
        for title, counts in vars(self).items():
            lines.append(f"{title}:")
            lines += [f"  {count:7d}  {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1])]
        return "\n".join([*lines, "reached by none:", *(f"  {name}" for name in sorted(self.missing()))])


def lowering_name(op: str, emit: Callable[..., Any]) -> str:
    return f"{name_of(emit)}({op})"


@contextmanager
def watching(coverage: Coverage) -> Iterator[None]:
    """Count within."""

    def count(rule: Rule, node: Node) -> None:
        coverage.rules[name_of(rule)] += 1

    sunk = [{op: _counted_call(rule, name_of(rule), coverage.rules) for op, rule in table.items()} for table in SINKING]
    lowered = {
        op: [entry._replace(emit=_counted_call(entry.emit, lowering_name(op, entry.emit), coverage.lowerings))
             for entry in entries]
        for op, entries in LOWERINGS.items()
    }  # fmt: skip
    emit = _counted_kernel(coverage.kernels)
    with watched(count), patch.dict(SINKING[0], sunk[0]), patch.dict(SINKING[1], sunk[1]), \
         patch.dict(LOWERINGS.found, lowered), patch.object(Emit, "kernel", emit):  # fmt: skip
        yield


def _counted_kernel(counts: Counter[str]) -> Callable[..., None]:
    """Those of steps of all plans, whether or not they are run."""
    really = Emit.kernel

    def kernel(self: Emit, name: str, *args: Any, **options: Any) -> None:
        counts[name] += 1
        really(self, name, *args, **options)

    return kernel


def _counted_call(function: Callable[..., Any], name: str, counts: Counter[str]) -> Callable[..., Any]:
    def inner(*args: Any) -> Any:
        found = function(*args)
        if found is not False:
            counts[name] += 1
        return found

    inner.__module__, inner.__name__ = function.__module__, function.__name__
    return inner
