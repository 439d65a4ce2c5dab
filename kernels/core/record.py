"""Declared records: what the int64 slots of a kernel's argument record hold, by name."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any


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
