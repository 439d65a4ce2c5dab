"""The table of kernels: for each its name, generator, compile-time parameters and record.

The set of kernels is closed: every parameter has an enumerated set of values, none of which is a size of a network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, wraps
from importlib import import_module
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

from ..isa.tiers import PAIRS, Tier
from .kernel import Kernel
from .record import Record

FAMILIES = ("core", "gemm", "pointwise", "move", "window", "amx", "recurrent", "attention")
"""In this order a kernel is looked for: tables of those behind the one that has it are not imported."""


def everywhere(tier: Tier, params: Mapping[str, Any]) -> bool:
    """For kernels that all tiers have with all combinations of parameters."""
    return True


def nothing_more(params: Mapping[str, Any]) -> tuple[str, ...]:
    """For kernels that need no CPU flags beyond their tier's."""
    return ()


def rounds(params: Mapping[str, Any]) -> tuple[str, ...]:
    """For kernels of bf16 in vectors; where they have parameters, those that name it or are `narrow`."""
    said = params.get("narrow") or any(str(value).endswith("bf16") for value in params.values())
    return PAIRS if said or not params else ()


def has_rounds(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Whether a tier may have such kernels: bf16 is for CPUs that multiply it."""
    return tier.masks or not rounds(params)


def of_reals(params: Mapping[str, Any]) -> str:
    """The unit of kernels that multiply f32."""
    return "f32"


def of_pairs(params: Mapping[str, Any]) -> str:
    """The unit of kernels that multiply pairs of bf16, or f32 where their parameter `element` says so."""
    return "pairs" if params.get("element", "bf16") == "bf16" else "f32"


def of_bytes(params: Mapping[str, Any]) -> str:
    """The unit of kernels that multiply 8-bit integers."""
    return "bytes"


class Row(NamedTuple):
    """A kernel: `module:function` (a module of a family, as "gemm.conv") generates it for a tier and compile-time
    parameters.

    `args`: its record; `params`: the values of each compile-time parameter; `exists`: whether a tier has the kernel
    with these parameters; `product`: whether it does the multiply-adds of its step's operator; `needs`: CPU flags that
    it uses beyond the tier's; `unit`: what multiplies, one of tools.peaks.MachinePeaks.peaks.
    """

    name: str
    module: str
    function: str
    args: Record
    params: Mapping[str, tuple[Any, ...]] = MappingProxyType({})
    exists: Callable[[Tier, Mapping[str, Any]], bool] = everywhere
    product: bool = False
    needs: Callable[[Mapping[str, Any]], tuple[str, ...]] = nothing_more
    unit: Callable[[Mapping[str, Any]], str] = of_reals

    @property
    def family(self) -> str:
        """The family that its module is of."""
        return self.module.partition(".")[0]

    def make(self) -> Callable[..., Any]:
        """The generator of functions for `build`, which say what they need; importing it imports the compiler."""
        generate: Callable[..., Any] = getattr(import_module(f"..{self.module}", __package__), self.function)

        @wraps(generate)
        def made(tier: Tier, **params: Any) -> Any:
            function = generate(tier, **params)
            function.needs = self.needs(params)
            return function

        return made

    def kernel(self, tier: Tier, params: Mapping[str, Any]) -> Kernel:
        """The kernel with these parameters. TypeError unless the tier has it, which is a defect of the caller."""
        if params.keys() != self.params.keys():
            raise TypeError(f"{self.name} has the parameters {list(self.params)}, found {sorted(params)}")
        for name, value in params.items():
            values = self.params[name]
            if not any(value == v and type(value) is type(v) for v in values):
                raise TypeError(f"{self.name}: {name}={value!r} is none of {', '.join(map(repr, values))}")
        if not self.exists(tier, params):
            raise TypeError(f"{self.name}: tier {tier.name} has no kernel with {dict(params)}")
        return Kernel(self.name, tuple(params.items()))

    def kernels(self, tier: Tier) -> list[Kernel]:
        """All kernels of the row that a tier has."""
        combinations = (dict(zip(self.params, values, strict=True)) for values in product(*self.params.values()))
        return [self.kernel(tier, params) for params in combinations if self.exists(tier, params)]


@cache
def rows() -> dict[str, Row]:
    """Every row by its kernel's name, from ROWS in the families' `rows.py`."""
    found: dict[str, Row] = {}
    for family in FAMILIES:
        for row in import_module(f"..{family}.rows", __package__).ROWS:
            if row.name in found:
                other = found[row.name].module
                raise ValueError(f"two kernels are called {row.name!r}: in {other} and {row.module}")
            found[row.name] = row
    return found


@cache
def _rows_of(family: str) -> dict[str, Row]:
    return {row.name: row for row in import_module(f"..{family}.rows", __package__).ROWS}


def row(name: str) -> Row:
    """The row of the kernel called `name`; KeyError, with the names there are, when there is none."""
    for family in FAMILIES:
        if name in _rows_of(family):
            return _rows_of(family)[name]
    raise KeyError(f"no kernel is called {name!r}; the table has {', '.join(sorted(rows()))}")


def kernels_of(tier: Tier) -> list[Kernel]:
    """Every kernel that a program for this tier can want, row by row."""
    return [kernel for row in rows().values() for kernel in row.kernels(tier)]
