"""What a model file may cost to load and plan, and a count of what it did cost.

A file may come from anyone: a few bytes of it can ask for any amount of memory or time. Costs in proportion to the
bytes that a file stores are free; what goes beyond is counted against `Limits`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from .errors import ModelError

GROWTH = 64
"""Bytes of constants per stored byte that are free: bits that become floats take 32 times their bytes."""


class Limits:
    """What loading a file and making a plan may cost at most.

    `constants`: bytes of the constants that are made of what is stored (decoded, unpacked, computed, packed for
    kernels), beyond 64 times the stored bytes. `work`: elements touched and multiply-adds to compute constants before
    the run, beyond 64 for each stored byte. `nodes`: operators, their operands, and the nodes that they become, once
    each use of a function, block or sub-graph has its own copy; where functions and sub-graphs are copied, a twentieth
    of that, and 4 for each stored byte.

    Constants that would cost too much to compute before the run are computed in each run. All else is a ModelError.
    """

    def __init__(self, constants: int = 1 << 29, work: int = 1 << 32, nodes: int = 1_000_000) -> None:
        self.constants, self.work, self.nodes = constants, work, nodes
        for name, value in vars(self).items():
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"Limits({name}={value!r}): expected a number from 0 on")


class Budget:
    """What a load or a plan has cost so far. `stored`: bytes of the files that it reads; `beside`: of those that lie
    beside the model's own, sizes and times by path. `plan`: what is planned.
    """

    def __init__(self, limits: Limits, stored: int = 0, plan: str = "") -> None:
        self.limits = limits
        self.stored = stored
        self.plan = plan
        self.held = 0
        self.work = 0
        self.nodes = 0
        self.beside: dict[str, tuple[int, int]] = {}
        self._files: set[object] = set()

    def store(self, file: object, nbytes: int) -> None:
        """Count the bytes of a file that is read, once."""
        if file not in self._files:
            self._files.add(file)
            self.stored += nbytes

    def hold(self, nbytes: int, where: str) -> None:
        """Count bytes of a constant that was made, or is about to be. ModelError when there are too many."""
        self.held += nbytes
        if self.held > self._bytes():
            where = f"{self.plan}: {where}" if self.plan else where
            raise ModelError(
                f"{where}: constants of {self.held} bytes are made of a file that stores {self.stored}, the limit "
                f"is {self._bytes()}: it is damaged, or was made to exhaust memory; if it can be trusted, load it "
                f"with limits=fastgraph.Limits(constants={2 * self.held})"
            )

    def affords(self, work: int, nbytes: int) -> bool:
        """Whether a constant is computed before the run, which is optional; counts its work if so.

        `nbytes`: memory while it is computed. Half of all bytes are reserved for constants that can't wait.
        """
        if self.work + work > self.limits.work + GROWTH * self.stored or self.held + nbytes > self._bytes() // 2:
            return False
        self.work += work
        return True

    def release(self, nbytes: int) -> None:
        """Subtract the bytes of a constant that was freed."""
        self.held -= nbytes

    def count(self, nodes: int, where: str) -> None:
        """Count nodes and operands. ModelError when there are more than any model has: the file repeats itself."""
        self.nodes += nodes
        if self.nodes > self.limits.nodes:
            raise ModelError(
                f"{where}: more operators and operands than any model has ({self.limits.nodes}), once each use of a "
                "function, block or sub-graph has its own copy: the file is damaged, or was made to exhaust memory; "
                f"if it can be trusted, load it with limits=fastgraph.Limits(nodes={10 * self.limits.nodes})"
            )

    def expand(self, nodes: int, where: str) -> None:
        """Check how many nodes and operands there will be when each use of a function or sub-graph has its own copy,
        before copying. ModelError for more than a twentieth of the limit, and 4 for each stored byte.
        """
        most = min(self.limits.nodes, self.limits.nodes // 20 + 4 * self.stored)
        if nodes > most:
            more = f"limits=fastgraph.Limits(nodes={20 * nodes})"
            raise ModelError(
                f"{where}: more operators and operands than any model has ({nodes} of {self.stored} stored bytes, the "
                f"limit is {most}), once each use of a function or sub-graph has its own copy: the file is damaged, or "
                f"was made to exhaust memory; if it can be trusted, load it with {more}"
            )

    def _bytes(self) -> int:
        return self.limits.constants + GROWTH * self.stored


Part = TypeVar("Part", bound=Hashable)


def expanded(root: Part, uses: Callable[[Part], tuple[int, Sequence[Part]]]) -> int:
    """The size of `root` with all that it uses, counting each use. `uses`: the size of a part itself, and the parts
    that it uses; each part is asked for once. Recursive uses count once.
    """
    total: dict[Part, int] = {}
    found: dict[Part, tuple[int, Sequence[Part]]] = {}
    waiting = [root]
    while waiting:
        part = waiting[-1]
        if part in found:
            waiting.pop()
            own, parts = found[part]
            total.setdefault(part, own + sum(total.get(each, 0) for each in parts))
        else:
            found[part] = uses(part)
            waiting += [each for each in dict.fromkeys(found[part][1]) if each not in found]
    return total[root]


_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


def current() -> Budget:
    """The budget of the current load or plan; a fresh one outside of any."""
    return _current.get() or Budget(Limits())


@contextmanager
def spending(limits: Limits, stored: int = 0, plan: str = "") -> Iterator[Budget]:
    """A fresh budget, which is `current()` within."""
    token = _current.set(Budget(limits, stored, plan))
    try:
        yield current()
    finally:
        _current.reset(token)
