"""Kernels take longer to compile than networks to run: what is bought of them, and what runs without.

A plan whose kernels cost too much is run by the operators' references, node by node, in the very memory that the plan
gives each value. That tells as much of passes and of plans as kernels do, but nothing of kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import fastgraph as fg
from fastgraph.plan.freedoms import without
from fastgraph.plan.program import HostStep
from fastgraph.runtime import cache
from fastgraph.runtime.executable import Executable

Calls = tuple[Callable[[], object], Callable[[], object]]
"""A run without a limit of time, and one with."""


@dataclass
class Purse:
    """Kernels that may be compiled: so many for each network, saved up."""

    each: float = float("inf")
    held: float = 0.0
    bought: int = 0
    native: int = 0
    dry: int = 0

    def next(self) -> None:
        self.held = min(self.held + self.each, max(20 * self.each, 12))

    def pays(self, plan: Executable) -> bool:
        place = cache._toolchain_directory()
        missing = [kernel for kernel in plan.program.kernels() if not cache._entry(place, kernel, plan.tier).exists()]
        if self.each != float("inf"):
            if len(missing) > self.held:
                return False
            self.held -= len(missing)
        self.bought += len(missing)
        return True


class Banded(Exception):
    """The plan has bands, which no reference computes."""


@contextmanager
def paying(purse: Purse) -> Iterator[None]:
    """Plans made within are native where the purse pays, and run by references elsewhere."""
    native = Executable._bind

    def bind(plan: Executable, threads: int) -> Calls:
        paid = purse.pays(plan)
        purse.native += paid
        purse.dry += not paid
        return native(plan, threads) if paid else _by_references(plan)

    with patch.object(Executable, "_bind", bind):
        yield


def _by_references(plan: Executable) -> Calls:
    if any(at.root not in plan.program.offsets for at in plan.program.storage.values()):
        raise Banded
    steps = [plan._host(HostStep(node)) for node in plan.graph.nodes]
    plan.dry = True  # type: ignore[attr-defined]

    def execute() -> None:
        for step in steps:
            step()

    return execute, execute


def load(source: bytes, **options: Any) -> fg.Model:
    """A model on one thread, unless told otherwise."""
    options = {"threads": 1, **options}
    try:
        return fg.load(source, **options)
    except Banded:
        with without("bands"):
            return fg.load(source, **options)


def is_dry(model: fg.Model) -> bool:
    """Whether its plan is run by references."""
    return hasattr(model.plan, "dry")
