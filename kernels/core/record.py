"""Declared records: what the int64 slots of a kernel's argument record hold, by name."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any


class Slot(str):
    """The meaning of a slot, and what the verifier (`fastgraph/plan/reach`) holds a record against.

    kind: "number", or of an address what the kernel does there: "read", "write", "work" (memory that a call itself
    fills and reads) or "chain". The rest is text: Python expressions over names of the record's slots, the kernel's
    parameters, `tier`, `lanes` (f32 of a vector), `vector` (its bytes), `threads`, and names that families add. Numbers
    that `run` or the counts of `loops` use outside of conditions are 0 or more.
    """

    kind = "number"
    where = ""
    """The condition on a number: the rest of an expression that begins with its name, as "> 0"."""
    run = loops = ""
    """Bytes that are touched as one, at all combinations of the loops' offsets: "count: stride in bytes, ..."; `**f()`
    stands for those of a list.
    """
    dims = ""
    """Of a chain: extents of its operands' loops; `loops` then are those of a row, and `run` its bytes as f32."""
    start = over = "0"
    """Bytes from the address to the first run; bytes behind a run that are read or written, and do not count."""
    here = "0"
    """Whether elements are read only where the same ones are about to be written: both addresses may be equal."""
    when = "1"
    """Whether there is an address; else the slot holds 0."""
    optional = False
    """Whether 0 stands for nothing."""

    def __new__(cls, meaning: str, **facts: Any) -> Slot:
        slot = super().__new__(cls, meaning)
        if unknown := [name for name in facts if not hasattr(cls, name)]:
            raise TypeError(f"a slot has no {', '.join(unknown)}")
        slot.__dict__.update(facts)
        return slot


def number(meaning: str, where: str) -> Slot:
    """A number; `where` goes on behind its name, as "> 0" or "<= n"."""
    return Slot(meaning, where=where)


def flag(meaning: str) -> Slot:
    """0 or 1."""
    return number(meaning, "in (0, 1)")


def reads(meaning: str, run: str, loops: str = "", **facts: Any) -> Slot:
    """The address of `meaning`, which is read."""
    return Slot(f"address of {meaning}", kind="read", run=run, loops=loops, **facts)


def writes(meaning: str, run: str, loops: str = "", **facts: Any) -> Slot:
    """The address of `meaning`, which is written."""
    return Slot(f"address of {meaning}", kind="write", run=run, loops=loops, **facts)


def works(meaning: str, run: str, loops: str = "threads: scratch_bytes", **facts: Any) -> Slot:
    """The address of scratch memory: each thread has scratch_bytes of it, unless loops say."""
    return Slot(f"address of {meaning}", kind="work", run=run, loops=loops, **facts)


def chain(meaning: str, dims: str, run: str, loops: str = "", **facts: Any) -> Slot:
    """The address of a chain's table, which a kernel walks."""
    return Slot(f"address of {meaning}", kind="chain", dims=dims, run=run, loops=loops, **facts)


def strides(names: str, loops: str) -> dict[str, str]:
    """The slots `x_row` ... of the strides of each of several operands in each of several loops."""
    pairs = ((name, loop) for name in names.split() for loop in loops.split())
    return {f"{name}_{loop}": f"from {loop} to {loop} of {name}" for name, loop in pairs}


class Record(dict[str, str]):
    """The slots of a kernel's record in order: each name with its meaning and unit.

    `DOT = Record(a="address of A [batch, m, k]", lda="f32 from row to row of A", ...)`; `DOT + STORED` goes on with
    other slots. Within a kernel `r = fields(args, DOT)` reads them all, as `r.lda`; `DOT.at("lda")` is a slot's
    number; a caller fills them with `DOT.filled(a=..., lda=..., ...)`.
    """

    def __add__(self, other: Record) -> Record:
        """These slots, then the others. ValueError for a name that both have."""
        if twice := self.keys() & other.keys():
            raise ValueError(f"a record can't have two slots called {', '.join(sorted(twice))}")
        return Record({**self, **other})

    def __repr__(self) -> str:
        return f"Record({', '.join(self)})"

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def only(self, names: str) -> Record:
        """Those of these slots (words), for another record that says the same of them."""
        return Record({name: self[name] for name in names.split()})

    def but(self, names: str) -> Record:
        """All slots other than these (words)."""
        return Record({name: meaning for name, meaning in self.items() if name not in names.split()})

    def at(self, name: str) -> int:
        """The number of a slot."""
        return list(self).index(name)

    def filled(self, **values: Any) -> list[Any]:
        """The values in the order of the slots. TypeError, with the names, unless there is one for each."""
        if values.keys() != self.keys():
            raise TypeError(f"missing or unknown slots: {', '.join(sorted(values.keys() ^ self.keys()))}")
        return [values[name] for name in self]


def fields(args: Any, record: Record, *, first: int = 0, constant: bool = False) -> Any:
    """For kernel code, and what it calls: the record at address `args` as a named tuple of int64s; its slots begin
    `first` slots behind that.

    constant: nothing writes them while the kernel runs, so that loads may move out of loops.
    """
    from ..lang import I64, constant_memory

    slots = I64.at(args)
    found = [slots[I64(first + i)] for i in range(len(record))]
    return _named(record)(*(map(constant_memory, found) if constant else found))


fields.traced = True  # type: ignore[attr-defined]  # as lang.traced does, which imports the compiler


@cache
def _named(record: Record) -> Any:
    return namedtuple("Slots", list(record))
