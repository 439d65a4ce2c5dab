"""Check the memory accesses of a program's steps. Shares no code with the lowerings, so that no fault is made twice.

The bytes that each step reads and writes follow from its kernel and record (`reach/`, a rule per kernel). They must lie
within the values of the step's node, its constants and its scratch memory; bytes that are read must have been written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...errors import PlanError
from ...ir import Node, Value, read_by
from ...kernels.core.kernel import Kernel
from ...kernels.core.slots import groups
from ...kernels.isa.tiers import Tier
from ...kernels.pointwise.rows import WALK
from ...room import SLACK
from ..program import Arg, HostStep, Jump, Program, Ref, Scratch, Step, Table, parts_of
from ..storage import Storage, last, row_count
from . import Call, Misfit, Reach, reaches_of
from .regions import Region, fill, holds, meet, region

Base = Value | Scratch | int
Written = bool | np.ndarray
"""The bytes of a buffer that have been written: all (True), none (False), or a mask."""


def verify_records(
    program: Program, tier: Tier, threads: int, inputs: Sequence[Value], outputs: Sequence[Value],
    kept: Iterable[Value] = (),
) -> None:  # fmt: skip
    """Return None when all steps keep to their memory, with at most `threads` threads; else PlanError.

    inputs: values that exist before the first step; steps may write only those among them that are `kept`.
    """
    check = _Check(program, tier, threads, {program.storage[v].root for v in kept if v in program.storage})
    for value in inputs:
        if value in program.storage:
            root = program.storage[value].root
            check.given.add(root)
            check.written[root] = True
    arriving: dict[int, list[dict[Base, Written]]] = {}
    begins = {rows.start for rows in groups(parts_of(program.steps))}
    for number, step in enumerate(program.steps):
        if number in begins:
            check.others.clear()
        check.meet(arriving.pop(number, []))
        try:
            if isinstance(step, Jump):
                check.jump(step, number, arriving)
            elif isinstance(step, HostStep):
                check.host(step.node)
            else:
                check.step(step)
        except Misfit as misfit:
            kernel = step.kernel if isinstance(step, Step) else "numpy"
            raise PlanError(f"step {number}, {kernel} of {step.node}: {misfit}") from None
    check.meet(arriving.pop(len(program.steps), []))
    for value in outputs:
        try:
            check.read(value)
        except Misfit as misfit:
            raise PlanError(f"output {misfit}") from None


@dataclass
class _Check:
    program: Program
    tier: Tier
    threads: int
    kept: set[Value]
    given: set[Value] = field(default_factory=set)
    written: dict[Base, Written] = field(default_factory=dict)
    reached: bool = True
    others: dict[tuple[Base, int], list[tuple[bool, Region]]] = field(default_factory=dict)
    _at: Node | None = None
    _known: dict[bool, dict[Value, list[tuple[Region, Value]]]] = field(default_factory=dict)

    def jump(self, step: Jump, number: int, arriving: dict[int, list[dict[Base, Written]]]) -> None:
        """Note the bytes written before a jump, for its target. At a jump back, all of those must have been written
        before the first round."""
        if step.fails or not self.reached:
            self.reached = False
            return
        if not any(
            steps.start <= min(number, number + step.by) and max(number, number + step.by) <= steps.stop
            for steps in self.program.bodies.values()
        ):
            raise Misfit(f"a jump to step {number + step.by} leaves the steps of its node")
        if step.cell is not None and not isinstance(step.cell.base, int):
            self._check_written("the condition", step.cell.base, Region(step.cell.offset, (), 1))
        if step.by > 0:
            now = {base: done if isinstance(done, bool) else done.copy() for base, done in self.written.items()}
            arriving.setdefault(number + step.by, []).append(now)
        if step.cell is None:
            self.reached = False

    def meet(self, others: list[dict[Base, Written]]) -> None:
        """From here on only bytes that are written on all paths to this step count as written."""
        for other in others:
            if not self.reached:
                self.written, self.reached = other, True
                continue
            both = self.written.keys() & other.keys()
            self.written = {base: _both(self.written[base], other[base]) for base in both}

    def host(self, node: Node) -> None:
        for value in read_by(node):
            self.read(value)
        for value in node.outputs:
            if value in self.program.storage:
                self._make(self.program.storage[value].root, self._value_region(value))

    def read(self, value: Value) -> None:
        """Misfit unless the value has been written, or has no storage."""
        if value in self.program.storage and value.data is None:
            self._check_written(str(value), self.program.storage[value].root, self._value_region(value))

    def step(self, step: Step) -> None:
        call = Call(step, self.tier, 1 if step.part else self.threads, self.program.constants)
        reached = reaches_of(call)
        known = {reach.slot for reach in reached}
        for name, arg in call.slots.items():
            if isinstance(arg, Ref) and name not in known:
                raise Misfit(f"{name} holds an address, expected a number")
            if isinstance(arg, Kernel | Table) and name not in WALK:
                raise Misfit(f"{name} holds {arg}, expected a number or an address of memory")
        if all(reach.empty for reach in reached if reach.kind == "write"):
            return
        real = [(reach, self._place(step.node, reach, call.slots[reach.slot])) for reach in reached if not reach.empty]
        self._check_disjoint(real)
        if step.part:
            self._check_apart(step.part, real)
        for reach, (base, found) in real:
            if reach.kind == "read":
                self._check_written(reach.slot, base, found)
        for reach, (base, found) in real:
            if reach.kind != "read":
                self._make(base, found)

    def _place(self, node: Node, reach: Reach, arg: Arg) -> tuple[Base, Region]:
        """The buffer and the region of a reach; Misfit where it leaves the step's own values."""
        slot, writes = reach.slot, reach.kind != "read"
        if not isinstance(arg, Ref):
            raise Misfit(f"{slot} is {arg}, expected an address")
        base, size = arg.base, self._size(arg.base)
        low, end = (arg.offset + at for at in reach.span())
        does = f"{slot} {'writes' if writes else 'reads'} bytes {low}..{end}"
        if low < 0 or end > size or end + reach.over > size + SLACK:
            more = f" and {reach.over} more" if reach.over else ""
            raise Misfit(f"{does}{more} of {_name(base)}, which has {size}")
        if reach.kind == "work" and not isinstance(base, Scratch):
            raise Misfit(f"{slot} is {_name(base)}, expected scratch memory")
        if writes and (isinstance(base, int) and base >= 0 or base in self.given and base not in self.kept):
            raise Misfit(f"{does} of {_name(base)}, which is {'an input' if isinstance(base, Value) else 'constant'}")
        found = region(reach, arg.offset, distinct=reach.kind == "write")
        if isinstance(base, Value) and not self._owned(node, base, writes, found):
            places = self._places(node, writes).get(base, [])
            owners = ", ".join(f"{v.name} ({own})" for own, v in places) or "none"
            raise Misfit(f"{does}, {found}, of the buffer of {_name(base)}, where its node's values are {owners}")
        return base, found

    def _owned(self, node: Node, root: Value, writes: bool, found: Region) -> bool:
        """Whether the region lies in one of the node's values: most likely in the one that begins next before it."""
        places = self._places(node, writes).get(root, [])
        after = bisect_right(places, found.start, key=lambda place: place[0].start)
        return any(holds(own, found) for own, _ in reversed(places[:after]))

    def _places(self, node: Node, writes: bool) -> dict[Value, list[tuple[Region, Value]]]:
        """The ranges of the node's results, and unless `writes` of its operands, by buffer and sorted."""
        if self._at is not node:
            self._at, self._known = node, {}
        if writes not in self._known:
            found: dict[Value, list[tuple[Region, Value]]] = {}
            for value in dict.fromkeys([*node.outputs, *(() if writes else read_by(node))]):
                if value in self.program.storage:
                    found.setdefault(self.program.storage[value].root, []).append((self._value_region(value), value))
            for places in found.values():
                places.sort(key=lambda place: place[0].start)
            self._known[writes] = found
        return self._known[writes]

    def _value_region(self, value: Value) -> Region:
        """The region of a value in its root's buffer."""
        at: Storage = self.program.storage[value]
        size = value.type.itemsize
        if at.stride == last(value) or value.type.size == last(value):
            return Region(at.offset, (), value.type.nbytes)
        return Region(at.offset, ((row_count(value), size * at.stride),), size * last(value))

    def _size(self, base: Base) -> int:
        if not isinstance(base, int):
            return base.nbytes if isinstance(base, Scratch) else base.type.nbytes
        return self.program.constants[base].nbytes if base >= 0 else 8

    def _check_disjoint(self, reached: list[tuple[Reach, tuple[Base, Region]]]) -> None:
        """Misfit when a step reads what it writes at another position: threads do not run in lockstep."""
        for write, (target, place) in reached:
            for read, (source, other) in reached:
                if write.kind != "write" or read is write or source is not target or read.kind == "work":
                    continue
                if read.kind == "read" and read.here and other == place:
                    continue
                if meet(place, other):
                    raise Misfit(f"{write.slot} writes {place}, of which {read.slot} is a part: {other}")

    def _check_apart(self, part: int, reached: list[tuple[Reach, tuple[Base, Region]]]) -> None:
        """Misfit when a step reaches what another of the parts that are done at once writes, or the other way round."""
        for reach, (base, place) in reached:
            if isinstance(base, int):
                continue
            writes = reach.kind != "read"
            for (buffer, number), places in self.others.items():
                if buffer is not base or number == part:
                    continue
                for wrote, other in places:
                    if (writes or wrote) and meet(place, other):
                        raise Misfit(f"{reach.slot} reaches {place} of {_name(base)}, as part {number} does: {other}")
            self.others.setdefault((base, part), []).append((writes, place))

    def _check_written(self, what: str, base: Base, place: Region) -> None:
        """Misfit unless all bytes have been written."""
        if isinstance(base, int):
            return
        now = self.written.get(base, False)
        if now is True or place.size == 0:
            return
        if now is False or not fill(now, place, None):
            raise Misfit(f"{what} reads {place} of {_name(base)}, some of which nobody has written")

    def _make(self, base: Base, place: Region) -> None:
        now = self.written.get(base, False)
        if isinstance(base, int) or now is True:
            return
        if place.start == 0 and not place.loops and place.run >= self._size(base):
            self.written[base] = True
            return
        mask = np.zeros(self._size(base), bool) if now is False else now
        fill(mask, place, True)
        self.written[base] = True if np.all(mask) else mask


def _both(one: Written, other: Written) -> Written:
    if isinstance(one, bool):
        return other if one else one
    return one if other is True else one & other


def _name(base: Base) -> str:
    if isinstance(base, int):
        return f"constant {base}" if base >= 0 else "the error cell"
    return f"{base.name!r}"
