"""What a plan is made for: the shapes of all inputs, and the values of those that decide shapes."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

Shapes = tuple[tuple[int, ...], ...]
"""Those of all inputs, in order."""

Contents = tuple[tuple[str, bytes], ...]
"""What inputs hold, by name."""


class Key(NamedTuple):
    """`values`: of the inputs that decide shapes, or () where they are left to the run, and NumPy does what follows."""

    shapes: Shapes
    values: Contents = ()


PRICE = 4
"""Runs that pay for a plan."""
MOST = 16 * PRICE


class Deciders:
    """The inputs that decide shapes where all have certain shapes, and whether a plan for their values pays.

    A value that comes with one run only, as a counter's, is not worth a plan where NumPy is faster than planning
    (`cheap`). So plans are made of credit, which runs give whose values came before, lately.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.cheap = False
        self._credit = MOST
        self._left: OrderedDict[Contents, None] = OrderedDict()

    def pays(self, values: Contents, kept: bool) -> bool:
        """Whether to run these values by a plan of their own, `kept` or new."""
        if kept or values in self._left:
            self._credit = min(self._credit + 1, MOST)
        if kept or not self.cheap or self._credit >= PRICE:
            return True
        self._left[values] = None
        self._left.move_to_end(values)
        if len(self._left) > MOST:
            self._left.popitem(last=False)
        return False

    def made(self, values: Contents, cheap: bool) -> None:
        """A plan was made for these values; `cheap`: NumPy takes less for a run than that took."""
        self.cheap = cheap
        self._credit = max(self._credit - PRICE, 0)
        self._left.pop(values, None)
