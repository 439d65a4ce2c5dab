"""Regular expressions that are matched in time linear in the text, whatever the pattern: an automaton's states are
followed all at once (K. Thompson, 1968), with no way back.
"""

from __future__ import annotations

from functools import lru_cache

from .regex_syntax import PERL, Tree, parse

MOST_STATES = 20_000
KEPT = 1 << 18
"""States in the steps of an automaton that are remembered."""


@lru_cache(256)
def automaton(pattern: str) -> Automaton:
    """The automaton of a pattern. ValueError says why there is none, UnsupportedError what of RE2's is missing."""
    return Automaton(parse(pattern))


class Automaton:
    """`matches(text)`: whether the pattern is all of a text. `states`: how much work each character is at most."""

    def __init__(self, tree: Tree) -> None:
        self._steps: list[tuple] = [("match",)]
        self._emitted = 0
        self._start = frozenset([self._emit(tree, 0)])
        self._known: dict[tuple, frozenset[int]] = {}
        self._kept = 0

    @property
    def states(self) -> int:
        return len(self._steps)

    def _emit(self, tree: Tree, then: int) -> int:
        """Write the steps of a tree, which go on at `then`; the first of them."""
        self._emitted += 1
        if self._emitted > MOST_STATES:
            raise ValueError(f"it takes more than {MOST_STATES} states: repeat less")
        kind = tree[0]
        if kind in ("test", "at"):
            return self._add(*tree, then)
        if kind == "cat":
            for part in reversed(tree[1]):
                then = self._emit(part, then)
            return then
        if kind == "or":
            return self._add("split", *[self._emit(part, then) for part in tree[1]])
        _, body, least, most = tree
        if most is None:
            loop = self._add("split", then)
            self._steps[loop] = ("split", self._emit(body, loop), then)
            then = loop
        for _ in range(0 if most is None else most - least):
            then = self._add("split", self._emit(body, then), then)
        for _ in range(least):
            then = self._emit(body, then)
        return then

    def _add(self, *step: object) -> int:
        self._steps.append(step)
        return len(self._steps) - 1

    def matches(self, text: str) -> bool:
        """Whether the pattern is all of the text."""
        states, before = self._start, ""
        for char in text:
            states = self._remembered(states, before, char)
            if not states:
                return False
            before = char
        return 0 in self._reached(states, before, "")

    def _remembered(self, states: frozenset[int], before: str, char: str) -> frozenset[int]:
        key = states, before, char
        found = self._known.get(key)
        if found is None:
            if self._kept > KEPT:
                self._known, self._kept = {}, 0
            steps = [self._steps[i] for i in self._reached(states, before, char)]
            found = self._known[key] = frozenset(s[2] for s in steps if s[0] == "test" and s[1](char))
            self._kept += len(found) + 16
        return found

    def _reached(self, states: frozenset[int], before: str, after: str) -> set[int]:
        """The states that are reached without a character, between two of them ("": the text's ends)."""
        found: set[int] = set()
        waiting = list(states)
        while waiting:
            i = waiting.pop()
            if i in found:
                continue
            found.add(i)
            kind, *rest = self._steps[i]
            if kind == "split":
                waiting += rest
            elif kind == "at" and _is_at(rest[0], before, after):
                waiting.append(rest[1])
        return found


def _is_at(place: str, before: str, after: str) -> bool:
    word = PERL["w"]
    edge = (before != "" and word(before)) != (after != "" and word(after))
    return {
        "begin": not before, "end": not after, "edge": edge, "no edge": not edge,
        "line begins": before in ("", "\n"), "line ends": after in ("", "\n"),
    }[place]  # fmt: skip
