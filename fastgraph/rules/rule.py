"""Rules by phase and operator: a file of rules is imported for graphs that have an operator which one of them sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..ir import Graph, Node
from ..ops.registry import OPS, Op
from .catalog import CATALOG

if TYPE_CHECKING:
    from .sweep import Sweep

Rule = Callable[["Sweep", Node], bool]
Sees = str | Callable[[Op], bool]

ANY = "*"
"""Stands for operators that a fact tells, in the catalog."""


def rule(phases: str, *sees: Sees, quantized: bool = False) -> Callable[[Rule], Rule]:
    """Register a rule for some phases, and for operators: by name, or all of which a fact is true; without either for
    all. Phases and names are words in one text.

    quantized: whether it sees nodes with quantized operands or results, too. After a change here run `python -m
    docs.catalog`, which writes the catalog.
    """

    def enter(function: Rule) -> Rule:
        words = [word for each in sees if isinstance(each, str) for word in each.split()]
        function.phases, function.quantized = tuple(phases.split()), quantized  # type: ignore[attr-defined]
        function.sees = (*words, *(each for each in sees if callable(each)))  # type: ignore[attr-defined]
        return function

    return enter


def rules_of(phase: str, ops: Set[str]) -> list[Rule]:
    """The rules of a phase that see one of these operators, in the order of the catalog."""
    return [_imported(name) for name, seen in CATALOG[phase].items() if seen == ANY or not ops.isdisjoint(seen.split())]


def _imported(name: str) -> Any:
    module, _, function = name.rpartition(".")
    return getattr(import_module(f"fastgraph.{module}"), function)


def sees(rule: Rule, op: str) -> bool:
    """Whether a rule is for nodes of this operator; a function that is no rule of a phase is for all."""
    return _among(op, getattr(rule, "sees", ()))


@cache
def _among(op: str, which: tuple[Sees, ...]) -> bool:
    return not which or any(each == op if isinstance(each, str) else each(OPS[op]) for each in which)


Watcher = Callable[[Rule, Node], None]
_watchers: list[Watcher] = []


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Call watcher(rule, node) for each rule that is applied within, or that changes what the node reads or its
    attributes.
    """
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def applies(rule: Rule, state: Sweep, node: Node) -> bool:
    """Whether the rule writes something in the place of the node."""
    if not _watchers:
        return rule(state, node)
    before = node.inputs, node.attrs
    done = rule(state, node)
    if done or node.inputs is not before[0] or node.attrs is not before[1]:
        for watcher in _watchers:
            watcher(rule, node)
    return done


def has(*which: str) -> Callable[[Graph], bool]:
    """Whether a graph has an operator of each of these lists."""

    def all_of(graph: Graph) -> bool:
        ops = {node.op for node in graph.nodes}
        return not any(ops.isdisjoint(names.split()) for names in which)

    return all_of


def later(name: str, when: Callable[[Graph], bool]) -> Callable[[Graph], bool]:
    """The pass `file.name` of passes, which is imported for a graph that it can change."""
    return lambda graph: when(graph) and bool(_imported(f"passes.{name}")(graph))
