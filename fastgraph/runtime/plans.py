"""The plans that a model keeps: one per set of input shapes, the least recently used goes first."""

from __future__ import annotations

import operator
import re
from collections import OrderedDict

from ..errors import InputError
from .executable import Executable

Shapes = tuple[tuple[int, ...], ...]
"""Those of all inputs, in order."""

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


class Plans:
    """How much a model whose input shapes are open may keep of what it planned; None: any number.

    `count`: plans, one for each set of input shapes. `bytes`: their memory, a number or text as "512MB" or "2GiB": all
    arenas, and the constants of those that are not in use which the one in use does not have; weights that several
    plans share count once. The plan in use is kept whatever it takes. InputError for anything else.
    """

    __slots__ = ("count", "bytes")

    def __init__(self, count: int | None = None, bytes: int | str | None = None) -> None:
        self.count = _whole("count", count)
        self.bytes = _whole("bytes", _bytes(bytes))

    def __repr__(self) -> str:
        return f"Plans(count={self.count}, bytes={self.bytes})"

    @staticmethod
    def of(given: Plans | int | str | None) -> Plans:
        """What `load` is given: a count, bytes as text, both as Plans, or None for what is usual."""
        if given is None:
            return USUAL
        if isinstance(given, Plans):
            return given
        return Plans(bytes=given) if isinstance(given, str) else Plans(count=given)


def _bytes(given: int | str | None) -> int | str | None:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", given) if isinstance(given, str) else None
    if found is None or found[2].upper() not in _UNITS:
        return given
    return int(float(found[1]) * _UNITS[found[2].upper()])


def _whole(name: str, given: object) -> int | None:
    if given is None:
        return None
    try:
        number = 0 if isinstance(given, bool) else operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1:
        raise InputError(f'plans: {name}={given!r}: expected a number from 1 on, as in plans=8 or plans="512MB"')
    return number


USUAL = Plans(count=64, bytes="256MiB")


class Kept:
    """The plans that are kept, within limits. `current`: the one in use, of any shapes."""

    def __init__(self, limits: Plans) -> None:
        self.limits = limits
        self.current: Executable | None = None
        self._plans: OrderedDict[Shapes, Executable] = OrderedDict()

    def find(self, shapes: Shapes) -> Executable | None:
        """The plan for these shapes, which is now the last used."""
        found = self._plans.get(shapes)
        if found is not None:
            self._plans.move_to_end(shapes)
        return found

    def __contains__(self, shapes: Shapes) -> bool:
        return shapes in self._plans

    def add(self, shapes: Shapes, plan: Executable) -> None:
        """Keep a plan as the last used; let go of others until the limits hold."""
        self._plans[shapes] = plan
        self._plans.move_to_end(shapes)
        for oldest in [key for key, kept in self._plans.items() if kept is not self.current]:
            if oldest == shapes or self._fit():
                break
            del self._plans[oldest]

    def _fit(self) -> bool:
        count, most = self.limits.count, self.limits.bytes
        return (count is None or len(self._plans) <= count) and (most is None or self.nbytes <= int(most))

    @property
    def nbytes(self) -> int:
        """Bytes of the plans kept, as `Plans` counts them."""
        plans, now = list(self._plans.values()), self.current
        seen = set() if now is None else {id(array) for array in now.memory.common}
        total = 0
        for plan in plans:
            total += plan.memory.nbytes
            for array in plan.memory.common:
                if id(array) not in seen:
                    seen.add(id(array))
                    total += array.nbytes
        return total
