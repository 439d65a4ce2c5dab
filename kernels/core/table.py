"""One row per kernel: its name, where its generator is, and what its argument record holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from .record import Record

FAMILIES = ("core", "gemm", "amx", "window", "pointwise", "move")


@dataclass(frozen=True)
class Row:
    """`module:function` (a module of a family, as "gemm.conv") makes the kernel for a tier and compile-time parameters.

    `args`: its record; `params`: names of the compile-time parameters; `product`: whether it does the multiply-adds
    that its step's operator is defined by.
    """

    name: str
    module: str
    function: str
    params: tuple[str, ...]
    args: Record
    product: bool = False

    def make(self) -> Callable[..., Any]:
        """The generator, imported on demand: only here does llvmlite.ir come in."""
        made: Callable[..., Any] = getattr(import_module(f"..{self.module}", __package__), self.function)
        return made


@cache
def rows() -> dict[str, Row]:
    """Every row by its kernel's name: the ROWS of the families' `rows.py`."""
    found: dict[str, Row] = {}
    for family in FAMILIES:
        for row in import_module(f"..{family}.rows", __package__).ROWS:
            if row.name in found:
                other = found[row.name].module
                raise ValueError(f"two kernels are called {row.name!r}: in {other} and {row.module}")
            found[row.name] = row
    return found


def row(name: str) -> Row:
    """The row of the kernel called `name`; KeyError, with the names there are, when there is none."""
    try:
        return rows()[name]
    except KeyError:
        raise KeyError(f"no kernel is called {name!r}; the table has {', '.join(sorted(rows()))}") from None
