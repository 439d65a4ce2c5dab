"""A plan in memory of its own: feed it, run it, fetch its results, again and again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FastgraphError, ModelError, UnknownNameError
from ..freedoms import checked, free, threshold
from ..ir import TensorType
from ..named import NamedTuple
from ..room import LARGE, need
from .feeds import without_overlap

if TYPE_CHECKING:
    from .direct import Direct
    from .reuse import Reuse


LEAST = 1 << 16
"""Bytes of results from which on their memory is used again."""
READ, MADE = 1 << 19, 1 << 18
"""Bytes of a feed and of a result from which on it is not copied. A smaller feed is copied in the order of its bytes,
which brings it into a core's cache sooner than a first step does that reads it in another order.
"""


class ConstantMemory(NamedTuple):
    """Memory of a plan's constants: `own`, a block with those of this plan only; `common`, the others, which may be
    shared with other plans of the model; and the addresses of all.
    """

    own: np.ndarray
    common: list[np.ndarray]
    addresses: list[int]


class Place(NamedTuple):
    """Where an array lies: `view` of the arena, in a buffer of `size` bytes."""

    buffer: Hashable
    size: int
    view: np.ndarray

    def whole(self, least: int) -> bool:
        """Whether it is all of its buffer, and so large that it pays to have it elsewhere."""
        return self.size == self.view.nbytes >= threshold("direct_least", least) and self.view.flags.c_contiguous


def address(array: np.ndarray) -> int:
    """The address of its first byte."""
    return int(array.__array_interface__["data"][0])


def pays(inputs: Mapping[str, Place], outputs: Mapping[str, Place]) -> bool:
    """Whether some of these are large enough to be outside of the arena, as in direct.py; guard pages are in it."""
    large = [p for p in inputs.values() if p.whole(READ)] + [p for p in outputs.values() if p.whole(MADE)]
    return bool(large) and free("direct") and checked() != "guard"


def takes(array: Any, result: np.ndarray) -> bool:
    """Whether it is an array that a result can be written to as it is."""
    return (
        type(array) is np.ndarray
        and array.shape == result.shape
        and array.dtype == result.dtype
        and array.flags.writeable
    )


def owns(array: np.ndarray, block: Any) -> bool:
    """Whether it owns its memory, or is a view of an array that does, other than the owner of a plan's block: then it
    is the caller's, as that is larger than any input and result.
    """
    base = array.base
    return base is None or base is not block and type(base) is np.ndarray and base.base is None


Extents = Sequence[tuple[int, np.ndarray]]
"""Axes whose extents a run finds, each with the memory of the number."""


def cut(array: np.ndarray, extents: Extents) -> np.ndarray:
    """What of an array is real."""
    for axis, extent in extents:
        array = array[(slice(None),) * axis + (slice(int(extent)),)]
    return array


class Feed(NamedTuple):
    """An input that has memory: what an array must be to be copied there as it is."""

    name: str
    dims: tuple[int, ...]
    dtype: np.dtype
    view: np.ndarray


def in_turn(runs: Sequence[Callable[[], Any]]) -> Callable[[], object]:
    """One call of all of these, in order."""
    if len(runs) == 1:
        return runs[0]

    def execute() -> None:
        for run in runs:
            run()

    return execute


class Runnable:
    """A plan's inputs, outputs and states in memory, and the calls that run it.

    `execute()` runs it on the current content of its inputs, `execute_timed()` within this thread's deadline:
    RunTimeout when it passes. A run that is stopped or fails leaves states as they were. `arena`: the bytes that a run
    writes. `states`: the memory and the first value of each state; the caller has to set it. `values`: of inputs that
    decide shapes, those that the plan is for, None where it is for any; `decided`: memory outside the arena of these
    inputs; whoever writes there needs another plan. `cheap`: whether a run of references takes less time than planning
    did. `work`: a run's, in what planning takes, of a plan for many lengths. `large`: whether memory of results is
    worth using again. `threads`: how many run it. `direct`: what may lie outside of the arena. `title`: what
    messages call the model.
    """

    large: bool
    threads = 1
    execute: Callable[[], object]
    execute_timed: Callable[[], object]
    cheap = False
    work = 0.0
    direct: Direct | None = None

    def __init__(self, title: str, arena: np.ndarray, values: Mapping[str, np.ndarray | None]) -> None:
        self.title, self.arena, self.values = title, arena, values
        self.arena_bytes = arena.nbytes
        self.states: list[tuple[np.ndarray, np.ndarray]] = []
        self.decided: dict[str, np.ndarray] = {}

    def arrange(
        self,
        feeds: Sequence[Feed],
        outputs: Sequence[tuple[str, np.ndarray]] | None,
        result_bytes: int,
        plain: bool = True,
    ) -> None:
        """Set the inputs that have memory, and the outputs if all have. `plain`: whether feeds of exactly these types
        may be copied in unchecked.
        """
        self._feeds, self._outputs, self._result_bytes = list(feeds), outputs, result_bytes
        self._exact = [(name, v.dtype, v.shape, v.tobytes()) for name, v in self.values.items() if v is not None]
        # the bytes of one input alone are read before they are written, but for vectors
        self._in_turn = len(feeds) + len(self.values) > 1 or any(len(feed.dims) < 2 for feed in feeds)
        self._quick = len(feeds) + len(self._exact) if plain and len(self._exact) == len(self.values) else -1
        self._small = outputs if result_bytes < LARGE else None
        self.large = outputs is None or result_bytes >= LEAST

    # -- states

    def reset_states(self) -> None:
        """Give all states their first values."""
        for state, initial in self.states:
            state[...] = initial

    def take_states(self, other: Runnable) -> None:
        """Give all states the values they have in another plan of the model. In a shared block they have the same
        offsets: arenas begin with them.
        """
        for (state, _), (now, _) in zip(self.states, other.states, strict=True):
            state[...] = now

    # -- feeding and fetching

    def feed(self, feeds: Mapping[str, Any], out: Any = None) -> bool:
        """Copy the feeds in if they have exactly the right types and shapes and don't overlap the inputs; else return
        False.

        The bounds of arrays are compared that may not be the caller's.
        """
        if type(feeds) is not dict or len(feeds) != self._quick:
            return False
        for name, dims, dtype, _ in self._feeds:
            array = feeds.get(name)
            if type(array) is not np.ndarray or array.shape != dims or array.dtype != dtype:
                return False
        for name, dtype, dims, content in self._exact:
            array = feeds.get(name)
            if type(array) is not np.ndarray or array.shape != dims or array.dtype != dtype:
                return False
            if array.tobytes() != content:
                return False
        if self._in_turn:
            owner = self.arena.base
            for array in feeds.values():
                if not owns(array, owner):
                    feeds = without_overlap(feeds, self.written())
                    break
        self.take(feeds, out)
        return True

    def take(self, arrays: Mapping[str, Any], out: Any = None) -> None:
        """Copy checked arrays in, or let the next run have them where they lie, until `let_go`; and arrays for results,
        as a caller gave them, unchecked.
        """
        if self.direct is None:
            self.fill(arrays)
            return
        if self._small is None:
            self._find_room()
        self.direct.take(arrays, self._feeds, self.written(), out if type(out) is dict else {})
        for name, view in self.decided.items():
            view[...] = arrays[name]

    def let_go(self) -> None:
        """After `take`, and what followed: runs have their own memory again."""
        if self.direct is not None:
            self.direct.end()

    def written(self) -> list[np.ndarray]:
        """The memory that a run writes."""
        return [self.arena, *self.decided.values()]

    def clear(self) -> None:
        """Zero all inputs, but those whose values the plan is for."""
        for _, _, _, view in self._feeds:
            view[...] = 0
        for name, view in self.decided.items():
            value = self.values[name]
            view[...] = 0 if value is None else value

    def fill(self, arrays: Mapping[str, Any]) -> None:
        """Copy checked arrays in."""
        for name, _, _, view in self._feeds:
            view[...] = arrays[name]
        for name, view in self.decided.items():
            view[...] = arrays[name]

    def fed(self) -> dict[str, Any]:
        """Copies of the inputs' content, as `fill` takes it. InputError when an input was never fed."""
        found = {name: view.copy() for name, _, _, view in self._feeds}
        return found | {name: view.copy() for name, view in self.decided.items()}

    def results(self, reuse: Reuse | None = None, out: Any = None) -> dict[str, np.ndarray]:
        """Copies of the outputs, by name: in the caller's `out`, by name and unchecked, where these take them as they
        are, or in memory of earlier ones where that may be used again.
        """
        outputs, made = self.made(), dict[str, np.ndarray]()
        if self.direct is not None and self.direct.made:
            made, reuse = self.direct.made, self.direct.reuse
        else:
            if self._small is None:
                self._find_room()
            if reuse is not None:
                reuse.begin()
        if type(out) is dict and out:
            made = made | self._written_to(out, outputs, made)
        if reuse is None:
            return {name: made[name] if name in made else view.copy() for name, view in outputs}
        return {name: made[name] if name in made else reuse.copy(view) for name, view in outputs}

    def made(self) -> Sequence[tuple[str, np.ndarray]]:
        """The outputs as the last run has made them, in its memory."""
        assert self._outputs is not None
        return self._outputs

    def _written_to(
        self, out: Mapping[str, Any], outputs: Sequence[tuple[str, np.ndarray]], made: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Arrays of the caller's that now hold results. None lies where a run writes: others may not be read yet."""
        found: dict[str, np.ndarray] = {}
        for name, view in outputs:
            if name not in out or name in made or not takes(out[name], view):
                continue
            array = out[name]
            if owns(array, self.arena.base) or not any(np.may_share_memory(array, each) for each in self.written()):
                array[...] = view
                found[name] = array
        return found

    def forget(self) -> None:
        """Let go of what was fed and is no array."""

    def _find_room(self) -> None:
        try:
            need(self._result_bytes)
        except MemoryError as error:
            raise ModelError(f"{self.title}: no memory for its outputs: {error}") from error

    def view(self, name: str, inputs: bool) -> np.ndarray:
        """The memory of an input or an output. UnknownNameError, with the names there are; FastgraphError if its shape
        depends on data.
        """
        if inputs:
            found = {feed: view for feed, _, _, view in self._feeds} | self.decided
        elif self._outputs is None:
            raise FastgraphError(f"output {name!r}: results whose shapes depend on data have no fixed memory: use run")
        else:
            found = dict(self._outputs)
        if not isinstance(name, str) or name not in found:
            kind = "input" if inputs else "output"
            raise UnknownNameError(f"no {kind} is called {name!r}: the {kind}s are {', '.join(found) or 'none'}")
        return found[name]

    def output_types(self) -> list[TensorType]:
        """Types of the results, in order; not concrete where they depend on data."""
        raise NotImplementedError
