"""What is known while one file is read: names that are taken, and all that is not supported."""

from __future__ import annotations

from collections import Counter

from ...errors import ModelError, UnsupportedError

DEPTH_LIMIT = 64
"""How deep graphs, functions and sub-graphs may lie in one another."""

MISFITS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, AssertionError)


class Reader:
    """One file on its way to a graph. `source` names it in messages, `unsupported` counts what it needs in vain."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.unsupported: Counter[str] = Counter()
        self._taken: dict[str, int] = {}

    def take(self, *names: str) -> None:
        """Let no value that comes after have one of these names."""
        self._taken.update(dict.fromkeys(names, 1))

    def unique(self, name: str) -> str:
        """`name`, with a number behind it when a value has it already."""
        return unique(self._taken, name)

    def refuse(self, where: str, advice: str) -> None:
        """One UnsupportedError that names all that is not supported, when there is any."""
        if self.unsupported:
            items = [what if n == 1 else f"{what} ({n} times)" for what, n in sorted(self.unsupported.items())]
            raise UnsupportedError(f"{where}: not supported: {'; '.join(items)}; {advice}")


def unique(taken: dict[str, int], name: str) -> str:
    """`name`, with a number behind it when it is taken; it is from now on. `taken`: name -> the next number for it."""
    found = name
    while found in taken:
        found = f"{name}:{taken[name]}"
        taken[name] += 1
    taken[found] = 1
    return found


def misfit(where: str, what: str, error: Exception) -> ModelError:
    """What one of MISFITS, raised by a rule, says of a file: it took `what` the file says for something else."""
    return ModelError(f"{where}: {what} that do not fit together ({type(error).__name__}: {error})")
