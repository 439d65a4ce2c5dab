"""One row per kernel: its name, where its generator is, and what its argument record holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Row:
    """`module:function` makes the kernel for a tier and compile-time parameters.

    `args` names the int64 slots of its record in order; `params` the compile-time parameters.
    """

    name: str
    module: str
    function: str
    params: tuple[str, ...]
    args: tuple[str, ...]

    def make(self) -> Callable[..., Any]:
        """The generator, imported on demand: only here does numba come in."""
        return getattr(import_module(f".{self.module}", __package__), self.function)
