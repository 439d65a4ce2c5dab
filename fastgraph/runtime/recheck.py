"""Checks the memory accesses of stored plans, as plans are checked when they are made: their file may be damaged.

A stored plan knows no values, only buffers: so a step may reach any byte of a buffer, but none beyond it, and none that
nobody has written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..errors import PlanError
from ..ir import Graph, Node, TensorType, Value
from ..kernels.core.kernel import Kernel
from ..kernels.core.table import row
from ..kernels.isa.tiers import Tier
from ..plan.lower.build import lifetimes, loops
from ..plan.program import ERROR, AnyStep, Jump, Program, Ref, Scratch, Step, Table
from ..plan.reach.records import verify_records
from ..plan.storage import Storage
from ..plan.verify import verify
from ..saved.container import Container
from ..saved.flat import Flat, View


def recheck(flat: Flat, kernels: Sequence[Kernel], tier: Tier, threads: int, file: Container) -> None:
    """Return None when all steps of a plan keep to their memory, with at most `threads` threads; else ModelError.
    `kernels`: of the image of code. All checksums are compared, too.
    """
    file.check()
    with file.reading("a plan"):
        read = _Reader(flat, [row(kernel.name).kernel(tier, dict(kernel.params)) for kernel in kernels])
        program = read.program()
        inputs = [read.value(program, view) for _, view in flat.inputs]
        states = [read.value(program, view) for view, _ in flat.states]
        made = [at for _, at in flat.outputs if isinstance(at, View)] + [extent for _, _, extent in flat.cuts]
        outputs = [read.value(program, at) for at in made]
        try:
            verify_records(program, tier, threads, [*inputs, *states], outputs, states)
            alive = lifetimes(program, Graph("", [*inputs, *states], outputs))
            places: dict[Any, int] = dict(zip(read.buffers, flat.buffers[:, 0].tolist(), strict=True))
            verify(list(alive.values()), [places[owner] for owner in alive], flat.size, loops(program))
        except PlanError as error:
            raise file.damaged(f"a plan can't be run: {error}") from None


class _Reader:
    """A plan's words as the arguments that they were made from; its buffers as scratch memory of all steps.

    Raises ValueError or LookupError for words that are none.
    """

    def __init__(self, flat: Flat, kernels: Sequence[Kernel]) -> None:
        self.flat = flat
        self.buffers = [Scratch(f"buffer {i}", size) for i, size in enumerate(flat.buffers[:, 1].tolist())]
        self.kernels = [kernels[number] for number in flat.kernels]
        tables = [Table(()) for _ in flat.tables]
        self._owners: list[Any] = [ERROR.base, *self.buffers, *range(len(flat.constants)), *self.kernels, *tables]
        self._bases: dict[int, int] = dict(flat.addresses.tolist())
        self._words: list[int] = flat.words.tolist()
        starts = [*flat.steps[:, 1].tolist(), *flat.tables.tolist(), len(self._words)]
        if starts[0] or starts != sorted(starts):
            raise ValueError(starts)
        blocks = list(pairwise(starts))
        self._records = blocks[: len(flat.steps)]
        for table, block in zip(tables, blocks[len(flat.steps) :], strict=True):
            table.words = tuple(self._args(block))

    def program(self) -> Program:
        """All steps. Those of a part stand for the body of a node: jumps stay there."""
        program = Program()
        program.constants = self.flat.constants
        for number, part in enumerate(self.flat.parts):
            node, steps = Node("identity", [], [], name=str(number)), range(part.first, part.first + part.steps)
            program.bodies[node] = steps
            program.steps += self._steps(node, steps)
        return program

    def value(self, program: Program, view: View) -> Value:
        """A value that lies where the view says."""
        dtype = np.dtype(view.dtype)
        value = Value(f"buffer {view.buffer}", TensorType(dtype, view.dims))
        if 0 not in view.dims:
            root: Any = self.buffers[view.buffer]
            row = view.strides[-2] if len(view.dims) > 1 else dtype.itemsize
            program.storage[value] = Storage(root, view.offset, row // dtype.itemsize)
        return value

    def _steps(self, node: Node, steps: range) -> Iterator[AnyStep]:
        failed = False
        for i in steps:
            kernel, args = int(self.flat.steps[i, 0]), self._args(self._records[i])
            if kernel >= 0:
                yield Step(self.kernels[kernel], tuple(args), node, part=int(self.flat.steps[i, 3]))
            else:
                yield self._jump(node, args, failed)
            failed = ERROR in args

    def _jump(self, node: Node, args: Sequence[Any], failed: bool) -> Jump:
        """A jump; `failed`: the step before it says that the run has failed, so that it leads to its end."""
        cell, wanted, by = args
        if cell != 0 and not (isinstance(cell, Ref) and 0 <= cell.offset < self._size(cell)):
            raise ValueError(cell)
        jump = Jump(node, cell or None, wanted == 1, failed and cell == 0)
        jump.by = by
        return jump

    def _size(self, ref: Ref) -> int:
        if isinstance(ref.base, Scratch):
            return ref.base.nbytes
        return self.flat.constants[ref.base].nbytes if isinstance(ref.base, int) and ref.base >= 0 else 0

    def _args(self, block: tuple[int, int]) -> list[Any]:
        return [self._arg(self._words[i], self._bases.get(i)) for i in range(*block)]

    def _arg(self, word: int, base: int | None) -> Any:
        if base is None:
            return word
        owner = self._owners[base]
        if not isinstance(owner, Kernel | Table):
            return Ref(owner, word)
        if word:
            raise ValueError(word)
        return owner
