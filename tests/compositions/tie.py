"""Which constants of a composition are the same one, or have the same numbers."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from .composition import Const

Held = dict[str, Const]
SAME, ALIKE, VIEWS = 0.35, 0.15, 0.08
"""How often a constant that could be another one is; has its numbers; how often one that could not is a view."""

FIXED = frozenset({"zero", "half", "one", "causal"})
"""Kinds whose numbers stand for themselves."""


class Ties:
    """An own source of choice: a network is the same otherwise. `outer`: constants that lie around a body."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"ties {seed}")
        self.outer: list[Const] = []
        self.same = SAME
        self.asked: list[str] = []
        self.replayed: list[str] = []

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def name(self, fresh: Const, held: Held) -> str:
        """What the constant is called that is taken for a fresh one: one that is held, or a new one."""
        name = self.replayed.pop(0) if self.replayed else ""
        if name not in held or held[name].shape != fresh.shape:
            name = self._chosen(fresh, held)
        self.asked.append(name)
        return name

    def _chosen(self, fresh: Const, held: Held) -> str:
        fit = [name for name, const in held.items() if (const.shape, const.kind) == (fresh.shape, fresh.kind)]
        if fit and self.chance(self.same):
            return self.random.choice(fit)
        name = f"w{len(held)}"
        held[name] = self._alike(fresh, held)
        return name

    def _alike(self, fresh: Const, held: Held) -> Const:
        known = [*held.values(), *self.outer]
        fit = [const for const in known if (const.shape, const.kind) == (fresh.shape, fresh.kind)]
        if fit and self.chance(ALIKE + self.same * bool(self.outer)):
            const, halves = self.random.choice(fit), {"first": "second", "second": "first"}
            others = [const] if fresh.kind in FIXED else [const, replace(const, times=const.times / 2)]
            if const.view in halves:
                others.append(replace(const, view=halves[const.view]))
            return self.random.choice(others)
        numbers = fresh.kind not in FIXED
        turned = [c for c in known if c.shape == fresh.shape[::-1] and not c.view and c.kind not in FIXED]
        if turned and numbers and len(fresh.shape) == 2 and self.chance(self.same):
            return replace(self.random.choice(turned), shape=fresh.shape, view="turned")
        if fresh.shape and numbers and self.chance(VIEWS):
            return replace(fresh, view=self.random.choice(["first", "second", "flat"]))
        return fresh

    @contextmanager
    def tight(self) -> Iterator[None]:
        """Whatever can be the same is, nearly always."""
        self.same, before = 0.9, self.same
        try:
            yield
        finally:
            self.same = before
