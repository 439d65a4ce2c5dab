"""Name one compiled kernel: a row of the table and its compile-time parameters."""

from __future__ import annotations

from typing import Any


def canonical(value: Any) -> str:
    """The one spelling of a parameter: None, bool, int, float, str or tuples of these; else TypeError."""
    if type(value) is tuple:
        return f"({','.join(map(canonical, value))})"
    if value is None or type(value) in (bool, int, float, str):
        return repr(value)
    kind = type(value).__name__
    raise TypeError(f"kernel parameter {value!r} is a {kind}: use None, bool, int, float, str or tuple")


class Kernel:
    """One kernel to compile: `name` is a row of the table, `params` its compile-time (name, value) pairs.

    Two kernels are equal when they are spelled the same. Python's own equality won't do: it holds 1 == 1.0 ==
    True, and in a chain an int names a value where a float is a constant.
    """

    def __init__(self, name: str, params: tuple[tuple[str, Any], ...] = ()) -> None:
        self.name, self.params = name, tuple(sorted(params))
        self._text = f"{name}({','.join(f'{key}={canonical(value)}' for key, value in self.params)})"

    @classmethod
    def of(cls, name: str, **params: Any) -> Kernel:
        """Kernel.of("dot", rows=14, vectors=2)."""
        return cls(name, tuple(params.items()))

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kernel) and self._text == other._text

    @property
    def symbol(self) -> str:
        """The C symbol of its object; the same for every tier."""
        from hashlib import sha256  # running a saved program does not import it

        return f"fg_{self.name}_{sha256(str(self).encode()).hexdigest()[:16]}"
