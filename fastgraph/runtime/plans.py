"""The plans that a model keeps, one per key; the least recently used is dropped first. All arenas share one block of
memory, as only one plan runs at a time.
"""

from __future__ import annotations

import operator
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..errors import InputError
from ..freedoms import checked
from .allocate import Allocation, allocate
from .keys import Key
from .runnable import ConstantMemory, Runnable

if TYPE_CHECKING:

    class Plan(Protocol):
        """A plan without its arena, which can be in any block of `arena_bytes`.

        `objects`: bytes beside its constants, estimated.
        """

        @property
        def arena_bytes(self) -> int: ...

        @property
        def constants(self) -> ConstantMemory: ...

        @property
        def objects(self) -> int: ...

        def bound(self, block: Allocation | None = None) -> Runnable:
            """The plan in memory: with its arena in this block, or in one of its own."""


_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


class Plans:
    """How many plans a model whose input shapes are open may keep; None: any number.

    `count`: plans, one per set of input shapes, and of values that decide shapes. `bytes`: their memory, a number or
    text as "512MB" or "2GiB": the block that all arenas share, and for each plan that is not in use its own size (some
    10 KB, and 2 KB for each node) and the constants that the plan in use does not share; weights that several plans
    share count once. The plan in use is kept whatever its size. InputError for anything else.
    """

    __slots__ = ("count", "bytes")

    def __init__(self, count: int | None = None, bytes: int | str | None = None) -> None:
        self.count = _whole("count", count)
        self.bytes = _whole("bytes", bytes_of(bytes))

    def __repr__(self) -> str:
        return f"Plans(count={self.count}, bytes={self.bytes})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plans) and (self.count, self.bytes) == (other.count, other.bytes)

    def __hash__(self) -> int:
        return hash((self.count, self.bytes))

    @staticmethod
    def of(given: Plans | int | str | None) -> Plans:
        """The argument of `load` as Plans: a count, bytes as text (with the default count), both, or None."""
        if given is None:
            return USUAL
        if isinstance(given, Plans):
            return given
        return Plans(USUAL.count, given) if isinstance(given, str) else Plans(count=given)


def bytes_of(given: int | str | None) -> int | str | None:
    """Bytes from text as "512MB"; what is no such text stays as it is."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", given) if isinstance(given, str) else None
    if found is None or found[2].upper() not in _UNITS:
        return given
    return int(float(found[1]) * _UNITS[found[2].upper()])


def _whole(name: str, given: object) -> int | None:
    if given is None:
        return None
    try:
        number = 0 if isinstance(given, bool) else operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1:
        raise InputError(f'plans: {name}={given!r}: expected a number from 1 on, as in plans=8 or plans="512MB"')
    return number


USUAL = Plans(count=64, bytes="256MiB")


class Kept:
    """The plans kept, within limits, and the block of memory that their arenas share.

    An executable is bound to one block and keeps it alive. When the block is replaced by a larger or smaller one, plans
    are bound to the new one as they come into use, with their states.
    """

    def __init__(self, limits: Plans) -> None:
        self.limits = limits
        self._plans: OrderedDict[Key, Plan] = OrderedDict()
        self._bound: dict[Key, Runnable] = {}
        self._block: Allocation | None = None
        self._used: tuple[Key, Runnable] | None = None

    def twin(self) -> Kept:
        """A store of the same plans, with memory of its own."""
        found = Kept(self.limits)
        found._plans.update(self._plans)
        if found._plans:
            found._block = allocate(found._needed())
        return found

    @property
    def key(self) -> Key | None:
        """The key of the plan in use."""
        return None if self._used is None else self._used[0]

    @property
    def current(self) -> Runnable | None:
        """The plan in use."""
        return None if self._used is None else self._used[1]

    def use(self, key: Key, make: Callable[[Key], Plan]) -> Runnable:
        """Make this key's plan the one in use, planning if there is none. States keep their values."""
        before = self.current
        if self._used is not None and self._used[0] == key:
            self.find(key)
            return self._used[1]
        if self.find(key) is None:
            self._add(key, make(key), {key})
        chosen = self._executable(key)
        if before is None:
            chosen.reset_states()
        else:
            chosen.take_states(before)
        self._used = key, chosen
        if before is not None:
            before.forget()
        return chosen

    def prepare(self, key: Key, make: Callable[[Key], Plan]) -> None:
        """Keep a plan for this key as the most recently used. The plan in use stays in use, and in its memory."""
        if self.find(key) is None:
            self._add(key, make(key), {key} if self._used is None else {key, self._used[0]})

    def bind(self, keys: Iterable[Key]) -> None:
        """Make these plans ready to run."""
        for each in keys:
            self._executable(each)

    def find(self, key: Key) -> Plan | None:
        """The plan for this key, which becomes the most recently used."""
        found = self._plans.get(key)
        if found is not None:
            self._plans.move_to_end(key)
        return found

    def keys(self) -> list[Key]:
        """The keys of the plans kept, those used last at the end."""
        return list(self._plans)

    def __contains__(self, key: Key) -> bool:
        return key in self._plans

    @property
    def nbytes(self) -> int:
        """Bytes of the plans kept, as `Plans` counts them."""
        now = self.current
        left = now is not None and self._block is not None and now.arena.ctypes.data != self._block.address
        arenas = self.block_bytes + (now.arena.nbytes if now is not None and left else 0)
        return arenas + self._others(None if self._used is None else self._plans.get(self._used[0]))

    @property
    def block_bytes(self) -> int:
        """Bytes of the block that the arenas of all plans share."""
        return 0 if self._block is None else self._block.bytes.nbytes

    def written(self) -> list[np.ndarray]:
        """The memory that the plans write; no plan writes anywhere else."""
        block = [] if self._block is None else [self._block.bytes]
        bound = list(self._bound.values()) if checked() == "guard" else []
        return [*block, *(each.arena for each in (*bound, self.current) if each is not None)]

    def _executable(self, key: Key) -> Runnable:
        if key not in self._bound:
            self._bound[key] = self._plans[key].bound(self._block)
        return self._bound[key]

    def _add(self, key: Key, plan: Plan, stay: set[Key]) -> None:
        """Keep a plan as the most recently used; drop others, but those that must stay, until the limits hold.
        MemoryError when there is no block for it; then nothing has changed.
        """
        self._grow(plan)
        self._plans[key] = plan
        for oldest in [key for key in self._plans if key not in stay]:
            if self._fit(self._needed(), plan):
                break
            self._bound.pop(oldest, None)
            del self._plans[oldest]
        most, block = self._needed(), self.block_bytes
        if 2 * most < block or most < block and not self._fit(block, plan):
            with suppress(MemoryError):
                self._move(allocate(most))

    def _grow(self, plan: Plan) -> None:
        """Make the block large enough. It grows by at least half, as new memory is slow, unless limits leave less than
        twice as much.
        """
        needed = plan.arena_bytes
        if needed <= self.block_bytes:
            return
        wanted = max(needed, self.block_bytes * 3 // 2)
        if self.limits.bytes is not None:
            left = int(self.limits.bytes) - self._others(plan) - needed
            wanted = min(wanted, needed + max(left, 0) // 2)
        try:
            block = allocate(wanted)
        except MemoryError:
            block = allocate(needed)
        self._move(block)

    def _move(self, block: Allocation) -> None:
        self._block = block
        self._bound.clear()

    def _needed(self) -> int:
        """Bytes of the largest arena."""
        return max(plan.arena_bytes for plan in self._plans.values())

    def _fit(self, block: int, used: Plan) -> bool:
        """Whether the limits hold with a block of so many bytes and this plan in use."""
        count, most = self.limits.count, self.limits.bytes
        if count is not None and len(self._plans) > count:
            return False
        return most is None or block + self._others(used) <= int(most)

    def _others(self, used: Plan | None) -> int:
        """Bytes of the other plans, and of this one's constants that none of them shares."""
        seen = set() if used is None else {id(array) for array in used.constants.common}
        total = 0
        for plan in self._plans.values():
            total += plan.constants.own.nbytes + (0 if plan is used else plan.objects)
            for array in plan.constants.common:
                if id(array) not in seen:
                    seen.add(id(array))
                    total += array.nbytes
        return total
