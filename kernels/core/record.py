"""Declared records: what the int64 slots of a kernel's argument record hold, by name."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sized
from functools import cache
from typing import Any


class Slot(str):
    """The meaning of a slot, with facts that a verifier holds a record against.

    They are expressions as text: in names of the record's slots, the kernel's parameters, `lanes` (f32 of a vector),
    `vector` (its bytes), `threads`, and the names and functions that `fastgraph/plan/reach` adds.
    """

    kind = ""

    def __new__(cls, meaning: str, **facts: Any) -> Slot:
        slot = super().__new__(cls, meaning)
        slot.__dict__.update(facts)
        return slot


def count(meaning: str = "", where: str = "", least: int = 0, below: int | None = None) -> Slot:
    """A number from `least` to below `below`, for which `where` holds."""
    return Slot(meaning, kind="number", least=least, below=below, where=where)


def positive(meaning: str = "", where: str = "") -> Slot:
    """A number of at least 1."""
    return count(meaning, where, 1)


def number(meaning: str = "", where: str = "") -> Slot:
    """Any number for which `where` holds."""
    return Slot(meaning, kind="number", least=None, below=None, where=where)


def choice(meaning: str, among: Sized, where: str = "") -> Slot:
    """The place of one of `among`."""
    return count(meaning, where, below=len(among))


def flag(meaning: str = "") -> Slot:
    """0 or 1."""
    return count(meaning, below=2)


def reads(
    meaning: str, run: str, loops: str = "", *, start: str = "0", over: str = "0", here: str = "0",
    optional: bool = False, kind: str = "read",
) -> Slot:  # fmt: skip
    """The address of what is read: runs of `run` bytes, `start` bytes and all combinations of the loops' offsets behind
    it.

    loops: "count: stride in bytes, ..."; `**f(...)` has those of a list. over: bytes that are touched behind a run
    without meaning. here: a read at the very place that is about to be written, so that both may be one. optional: 0
    stands for nothing.
    """
    return Slot(meaning, kind=kind, run=run, loops=loops, start=start, over=over, here=here, optional=optional)


def writes(meaning: str, run: str, loops: str = "", start: str = "0", optional: bool = False) -> Slot:
    """The address of what is written, as of `reads`."""
    return reads(meaning, run, loops, start=start, optional=optional, kind="write")


def works(meaning: str, run: str, loops: str = "threads: scratch_bytes", start: str = "0") -> Slot:
    """The address of memory that a call itself fills and reads, as of `reads`: for each thread unless loops say."""
    return reads(meaning, run, loops, start=start, kind="work")


class Record(dict[str, str]):
    """The slots of a kernel's record in order: each name with its meaning and unit.

    `DOT = Record(a="address of A [batch, m, k]", lda="f32 from row to row of A", ...)`; `DOT + STORED` goes on with
    other slots. Within a kernel `r = reader(DOT)(args)` reads them all, as `r.lda`; `DOT.at("lda")` is a slot's
    number; a caller fills them with `DOT.filled(a=..., lda=..., ...)`.
    """

    def __add__(self, other: Record) -> Record:
        """These slots, then the others. ValueError for a name that both have."""
        if twice := self.keys() & other.keys():
            raise ValueError(f"a record can't have two slots called {', '.join(sorted(twice))}")
        return Record({**self, **other})

    def declared(self, **slots: str) -> Record:
        """These slots, some with other facts; they keep their meaning where none is given."""
        facts = {name: Slot(slot or self[name], **slot.__dict__) for name, slot in slots.items()}
        return Record({**self, **facts})

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def at(self, name: str) -> int:
        """The number of a slot."""
        return list(self).index(name)

    def filled(self, **values: Any) -> list[Any]:
        """The values in the order of the slots. TypeError, with the names, unless there is one for each."""
        if values.keys() != self.keys():
            raise TypeError(f"missing or unknown slots: {', '.join(sorted(values.keys() ^ self.keys()))}")
        return [values[name] for name in self]


def fields(args: Any, record: Record, first: int = 0, constant: bool = False) -> Any:
    """For traced code: a record's slots as a named tuple of int64s; they begin `first` slots behind `args`.

    constant: nothing writes them while the kernel runs, so that loads may move out of loops.
    """
    from ..lang import I64, constant_memory

    slots = I64.at(args)
    found = [slots[I64(first + i)] for i in range(len(record))]
    return _named(record)(*(map(constant_memory, found) if constant else found))


@cache
def _named(record: Record) -> Any:
    return namedtuple("Slots", list(record))


@cache
def reader(record: Record) -> Any:
    """For kernel code: read(args) loads the record at address `args` as a named tuple of int64s."""
    from ..lang import traced

    @traced
    def read(args: Any) -> Any:
        return fields(args, record)

    return read
