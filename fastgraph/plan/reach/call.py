"""A kernel call as its rule sees it, and the ranges that a rule gives: bytes relative to each address slot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...families import register
from ...kernels.isa.tiers import Tier
from ..program import Ref, Step, record_of

SIZES = {"f64": 8, "i64": 8, "u64": 8, "f32": 4, "i32": 4, "u32": 4}
SIZES |= {"f16": 2, "bf16": 2, "i16": 2, "u16": 2, "s8": 1, "u8": 1, "bool": 1}
"""Bytes of element types, by the kernels' names."""

MOST = 1 << 48
"""The limit of counts and strides: sums of products of a few stay far from the limits of an address."""

MOST_PLACES = 1 << 26
"""Rows of maps and their taps are no more."""

Loop = tuple[int, int] | np.ndarray
"""(count, stride in bytes), or the byte offsets themselves."""


class Misfit(Exception):
    """A record that its kernel can't take; the caller adds the step."""


@dataclass(frozen=True)
class Reach:
    """Runs of `run` bytes, `start` bytes and all combinations of the loops' offsets from the address in `slot`.

    kind: "read"; "write"; "work", memory that the call itself fills and reads. over: bytes that are touched behind a
    run without meaning. here: a read at the very place that is about to be written, so that both may be one.
    """

    slot: str
    kind: str
    run: int
    loops: tuple[Loop, ...] = ()
    start: int = 0
    over: int = 0
    here: bool = False

    @property
    def empty(self) -> bool:
        return self.run <= 0 or any(count(loop) <= 0 for loop in self.loops)

    def span(self) -> tuple[int, int]:
        """First byte and end, without `over`, from the slot's address on; not of an empty one."""
        ends = [extremes(loop) for loop in self.loops]
        return self.start + sum(low for low, _ in ends), self.start + sum(high for _, high in ends) + self.run


def count(loop: Loop) -> int:
    """The number of a loop's offsets."""
    return len(loop) if isinstance(loop, np.ndarray) else loop[0]


def extremes(loop: Loop) -> tuple[int, int]:
    """The least and the greatest offset of a loop that isn't empty."""
    if isinstance(loop, np.ndarray):
        return int(loop.min()), int(loop.max())
    far = (loop[0] - 1) * loop[1]
    return min(0, far), max(0, far)


def offsets(values: Any) -> Loop:
    """A loop over these byte offsets, without duplicates."""
    return np.unique(np.asarray(values, np.int64))


def grid(n: int, step: int, m: int, each: int) -> np.ndarray:
    """The sums of `n` multiples of a step and `m` of another, [n, m]. Misfit where these are too many to be walked."""
    need(max(n, 1) * max(m, 1) <= MOST_PLACES, f"there are {n} times {m} places")
    return np.arange(n)[:, None] * step + np.arange(m) * each


def read(slot: str, run: int, *loops: Loop, start: int = 0, over: int = 0, here: bool = False) -> Reach:
    return Reach(slot, "read", run, loops, start, over, here)


def write(slot: str, run: int, *loops: Loop, start: int = 0) -> Reach:
    return Reach(slot, "write", run, loops, start)


def work(slot: str, run: int, *loops: Loop, start: int = 0) -> Reach:
    return Reach(slot, "work", run, loops, start)


class Numbers:
    """The numbers in slots, by name: Misfit for an address, or a number that is too large. Of a call also its kernel's
    parameters, and the functions of KNOWN."""

    def __init__(self, slots: dict[str, Any], call: Call | None = None) -> None:
        self._slots, self._call = slots, call

    def __getitem__(self, name: str) -> Any:
        if name not in self._slots and self._call:
            params = self._call.params
            return params[name] if name in params else KNOWN[name](self._call)
        value = self._slots[name]
        if not isinstance(value, int) or not -MOST < value < MOST:
            raise Misfit(f"{name} is {value}, expected a number")
        return int(value)

    def __getattr__(self, name: str) -> int:
        number: int = self[name]
        return number


@dataclass
class Call:
    """A step's kernel parameters and record, by name. `lanes`: f32 in a vector of the tier; threads: that may share."""

    step: Step
    tier: Tier
    threads: int
    constants: Sequence[np.ndarray]
    slots: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kernel = self.step.kernel.name
        self.params = dict(self.step.kernel.params)
        self.lanes = self.tier.lanes
        self.vector = 4 * self.tier.lanes
        names, args = list(record_of(self.step.kernel)), self.step.args
        need(len(args) >= len(names), f"the record of {len(args)} slots ends before {names[len(args) :][:1]}")
        need(len(args) <= len(names), f"the record has {len(args) - len(names)} slots too many")
        self.slots.update(zip(names, args, strict=True))

    def record(self, counts: str = "") -> Numbers:
        """The numbers of the record; `counts` (names) are 0 or more."""
        found = Numbers(self.slots, self)
        for name in counts.split():
            need(found[name] >= 0, f"{name} is {found[name]}, expected 0 or more")
        return found

    def table(self, name: str, count: int, dtype: type = np.int64) -> np.ndarray:
        """The first `count` elements of a constant that decides what is reached."""
        data, nbytes = self.constant(name), count * np.dtype(dtype).itemsize
        if nbytes > data.size:
            raise Misfit(f"{name} is {nbytes} bytes of the last {data.size} of a constant")
        return data[:nbytes].view(dtype)

    def constant(self, name: str) -> np.ndarray:
        """The bytes of a constant that decides what is reached, to its end."""
        ref = self.slots[name]
        if not isinstance(ref, Ref) or not isinstance(ref.base, int) or not 0 <= ref.base < len(self.constants):
            raise Misfit(f"{name} is {ref}, expected a constant")
        data = self.constants[ref.base].reshape(-1).view(np.uint8)
        if not 0 <= ref.offset <= data.size:
            raise Misfit(f"{name} begins at byte {ref.offset} of a constant of {data.size}")
        return data[ref.offset :]

    def each(self, count: int, *names: str) -> list[tuple[int, ...]]:
        """The numbers of slots that are repeated `count` times; the first of them, a count itself, is 0 or more."""
        r = self.record(" ".join(f"{names[0]}{k}" for k in range(count)))
        return [tuple(getattr(r, f"{name}{k}") for name in names) for k in range(count)]


KNOWN: dict[str, Callable[[Call], Any]] = {
    "tier": lambda c: c.tier,
    "lanes": lambda c: c.lanes,
    "vector": lambda c: c.vector,
    "threads": lambda c: c.threads,
    "each": lambda c: c.each,
    "table": lambda c: c.table,
    "at": lambda c: lambda name, count: [offsets(c.table(name, count))],
}
"""Names that expressions in declared records may use beside slots and parameters; families add to it. at: a loop over
the offsets of a table."""

Rule = Callable[[Call], Iterable[Reach] | None]
RULES: dict[str, Rule] = {}
"""By kernel: the ranges that its record doesn't declare."""


def reaches(*kernels: str) -> Callable[[Rule], Rule]:
    """Register the decorated function as the rule of these kernels."""
    return register(RULES, *kernels)


def need(condition: bool, what: str) -> None:
    """Misfit unless the condition holds."""
    if not condition:
        raise Misfit(what)


def short(n: int, width: int) -> int:
    """The least number to add to n for a multiple of `width`."""
    return -n % width


def parts(n: int, width: int) -> int:
    """The number of pieces of up to `width` in n."""
    return -(-n // width)
