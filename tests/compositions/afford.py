"""Kernels take longer to compile than networks to run: what is bought of them, and what runs without.

A plan whose kernels cost too much is run by the operators' references, node by node, in the very memory that the plan
gives each value. That tells as much of passes and of plans as kernels do, but nothing of kernels.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import fastgraph as fg
from fastgraph import compile as compiling
from fastgraph.compile import Compiled
from fastgraph.freedoms import without
from fastgraph.ir.types import BFLOAT16
from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.isa.tiers import Tier
from fastgraph.objects import store
from fastgraph.plan.program import Program
from fastgraph.runtime import executable
from fastgraph.runtime.bind import Bound, host_run
from fastgraph.runtime.memory import Memory


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

    def pays(self, program: Program, tier: Tier) -> bool:
        place = store.folder()
        missing = [kernel for kernel in program.kernels() if not store.entry(place, kernel, tier).exists()]
        if self.each != float("inf"):
            if len(missing) > self.held:
                return False
            self.held -= len(missing)
        self.bought += len(missing)
        return True


NATIVE = ("bands", "narrow")
"""Freedoms of plans that no reference computes."""


class Banded(Exception):
    """The plan has bands, or values in bfloat16."""


@contextmanager
def paying(purse: Purse) -> Iterator[None]:
    """Plans made within are native where the purse pays, and run by references elsewhere."""
    really, native = compiling.linked, executable.bind

    def linked(program: Program, tier: Tier, known: dict[Kernel, int] | None = None) -> dict[Kernel, int]:
        paid = purse.pays(program, tier)
        purse.native += paid
        purse.dry += not paid
        return really(program, tier, known) if paid else {}

    def bind(plan: Compiled, memory: Memory, threads: int) -> Bound:
        return _by_references(plan, memory) if _dry(plan) else native(plan, memory, threads)

    with patch.object(compiling, "linked", linked), patch.object(executable, "bind", bind):
        yield


def _dry(plan: Compiled) -> bool:
    """Whether its kernels were not paid for."""
    return not plan.addresses and bool(plan.program.kernels())


def _by_references(plan: Compiled, memory: Memory) -> Bound:
    storage, offsets = plan.program.storage, plan.program.offsets
    made = [v for node in plan.graph.nodes for v in node.outputs if v in storage]
    if any(storage[v].root not in offsets or v.type.dtype == BFLOAT16 for v in made):
        raise Banded
    steps = [host_run(plan, memory, node) for node in plan.graph.nodes]

    def execute() -> None:
        for step in steps:
            step()

    return Bound(execute, execute, [])


def load(source: bytes, **options: Any) -> fg.Model:
    """A model on one thread, unless told otherwise."""
    options = {"threads": 1, **options}
    try:
        return fg.load(source, **options)
    except Banded:
        with without(*NATIVE):
            return fg.load(source, **options)


def is_dry(model: fg.Model) -> bool:
    """Whether its plan is run by references."""
    return _dry(model.plan.compiled)
