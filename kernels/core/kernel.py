"""Name one compiled kernel: a row of the table and its compile-time parameters."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any


def canonical(value: Any) -> str:
    """The one spelling of a parameter: None, bool, int, float, str or tuples of these; else TypeError."""
    if type(value) is tuple:
        return f"({','.join(map(canonical, value))})"
    if value is None or type(value) in (bool, int, float, str):
        return repr(value)
    kind = type(value).__name__
    raise TypeError(f"kernel parameter {value!r} is a {kind}: use None, bool, int, float, str or tuple")


@dataclass(frozen=True, eq=False)
class Kernel:
    """One kernel to compile: `name` is a row of the table, `params` its compile-time (name, value) pairs.

    Two kernels are equal when they are spelled the same. Python's own equality won't do: it holds 1 == 1.0 ==
    True, and in a chain an int names a value where a float is a constant.
    """

    name: str
    params: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        params = tuple(sorted(self.params))
        text = f"{self.name}({','.join(f'{key}={canonical(value)}' for key, value in params)})"
        object.__setattr__(self, "params", params)
        object.__setattr__(self, "_text", text)

    @classmethod
    def of(cls, name: str, **params: Any) -> Kernel:
        """Kernel.of("dot", rows=14, vectors=2)."""
        return cls(name, tuple(params.items()))

    def __str__(self) -> str:
        return self._text  # type: ignore[attr-defined, no-any-return]

    def __hash__(self) -> int:
        return hash(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kernel) and str(self) == str(other)

    @property
    def symbol(self) -> str:
        """The C symbol of its object; the same for every tier."""
        return f"fg_{self.name}_{sha256(str(self).encode()).hexdigest()[:16]}"
