"""Runs that read large feeds where the caller has them, and make large results in the memory that is handed out, or in
arrays that the caller gives for them.

Addresses in records are words; a run writes those of such buffers anew, and lets them point into the arena afterwards.
What a plan holds an input in, and no result, is only read (plan/storage.py), so that the caller's array stays as it is.
Only floats are read there, or made in a caller's array: another thread may change them, and numbers that are places
would be checked before. Kernels write nothing beyond an array (plan/reach/), but may read there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from mmap import PAGESIZE
from typing import TYPE_CHECKING, Any

import numpy as np

from ..room import SLACK
from .runnable import MADE, READ, Place, address, takes

if TYPE_CHECKING:
    from .reuse import Reuse


Where = Callable[[set[Any]], dict[Any, np.ndarray]]


class Direct:
    """The buffers of a plan that may be elsewhere: `made`, results of this run by name, in memory of their own.

    `reads`: the inputs that are read where they lie; `reuse`: where memory of results comes from. Arrays that words
    point at are held until the words don't.
    """

    reuse: Reuse

    def __init__(
        self, words: np.ndarray, where: Where, inputs: Mapping[str, Place], outputs: Mapping[str, Place],
        kept: Iterable[Hashable],
    ) -> None:  # fmt: skip
        """`where`: the numbers of the words that are addresses in buffers, for each; `kept`: buffers that stay in the
        arena.
        """
        self.made: dict[str, np.ndarray] = {}
        self._words, self._held, self._bounds = words.data, list[Any](), list[tuple[int, int]]()
        results, fed = (Counter(place.buffer for place in ports.values()) for ports in (outputs, inputs))
        alone = {buffer for buffer, n in (results + fed).items() if n == 1}.difference(kept)
        self._results = [(name, p) for name, p in outputs.items() if p.buffer in alone and p.whole(MADE)]
        self.reads = {
            name: p for name, p in inputs.items() if p.buffer in alone and p.whole(READ) and p.view.dtype.kind == "f"
        }
        usual = {place.buffer: address(place.view) for place in (*self.reads.values(), *dict(self._results).values())}
        self._usual = {
            buffer: (usual[buffer], [(i, int(words[i]) - usual[buffer]) for i in at.tolist()])
            for buffer, at in where(set(usual)).items()
        }

    def __bool__(self) -> bool:
        return bool(self._usual)

    def take(
        self, arrays: Mapping[str, Any], feeds: Iterable[tuple[Any, ...]], written: list[np.ndarray],
        out: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Let the next run have these checked feeds, and memory for its results: the caller's `out`, by name, where
        they may be made there. `written`: what a run writes, always the same memory.
        """
        # Of a run of some 50 us this is a large part: an array's address alone takes 1 us, 3 where caches are cold.
        if self.away():
            self.end()
        if not self._bounds:
            self._bounds = [(first, first + each.nbytes) for each in written for first in [address(each)]]
        read = list[tuple[int, int]]()
        for name, _, _, view in feeds:
            array, place = arrays[name], self.reads.get(name)
            first = 0 if place is None else _reachable(array, self._bounds)
            if place is not None and first:
                self._move(place, array, first)
                read.append((first, first + array.nbytes))
            else:
                view[...] = array
        if self._results:
            self._make(out, [*self._bounds, *read])

    def _make(self, out: Mapping[str, Any], taken: list[tuple[int, int]]) -> None:
        """Memory for results: the caller's, where it lies apart from what is `taken`, or new one."""
        self.reuse.begin()
        for name, whole in self._results:
            first = _writable(out[name], whole.view, taken) if name in out else 0
            self.made[name] = made = out[name] if first else self.reuse.room(whole.view)
            self._move(whole, made, first or address(made))
            if first:
                taken.append((first, first + made.nbytes))

    def _move(self, place: Place, array: np.ndarray, first: int) -> None:
        """Let the words of a buffer point at an array, whose address is `first`."""
        self._held.append(array)
        words = self._words
        for i, offset in self._usual[place.buffer][1]:
            words[i] = offset + first

    def away(self) -> bool:
        """Whether words point elsewhere: after a run, too, if the handler of a signal raised before its `end`."""
        return bool(self._held)

    def end(self) -> None:
        """Let all words point into the arena again."""
        words = self._words
        for first, pairs in self._usual.values():
            for i, offset in pairs:
                words[i] = offset + first
        self._held, self.made = [], {}


def _writable(array: Any, like: np.ndarray, apart: list[tuple[int, int]]) -> int:
    """The address of a caller's array that kernels may make a result in; 0 of all others, which it is copied to."""
    return _reachable(array, apart) if like.dtype.kind == "f" and takes(array, like) else 0


def _reachable(array: Any, apart: list[tuple[int, int]]) -> int:
    """The address of an array that kernels may reach: it is dense, what they read beyond its end is of its last page,
    and it lies apart from these ranges. 0 of all others.
    """
    if type(array) is not np.ndarray:
        return 0
    flags = array.flags
    if not flags.c_contiguous or not flags.aligned:
        return 0
    first = address(array)
    end = first + array.nbytes
    if (end - 1) // PAGESIZE != (end - 1 + SLACK) // PAGESIZE:
        return 0
    for low, high in apart:
        if first < high and low < end:
            return 0
    return first
