"""The state of reading one file: names that are taken, and all that is not supported."""

from __future__ import annotations

from ...errors import ModelError, UnsupportedError

DEPTH_LIMIT = 64
"""How deep graphs, functions and sub-graphs may lie in one another."""

MISFITS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, AssertionError)


class Reader:
    """One file on its way to a graph. `source` names it in messages. `unsupported`: what it needs in vain, how
    often, and where at first.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.unsupported: dict[str, tuple[int, str]] = {}
        self._taken: dict[str, int] = {}

    def take(self, *names: str) -> None:
        """Reserve these names: no later value gets one of them."""
        self._taken.update(dict.fromkeys(names, 1))

    def unique(self, name: str) -> str:
        """`name`, with a number behind it when a value has it already."""
        return unique(self._taken, name)

    def lacks(self, what: object, where: str = "") -> None:
        """Note what is not supported, and the node that needs it."""
        count, first = self.unsupported.get(str(what), (0, where))
        self.unsupported[str(what)] = count + 1, first

    def refuse(self, where: str, advice: str) -> None:
        """One UnsupportedError that names all that is not supported, when there is any."""
        if self.unsupported:
            items = [what + _places(*places) for what, places in sorted(self.unsupported.items())]
            raise UnsupportedError(f"{where}: not supported: {'; '.join(items)}; {advice}")


def _places(count: int, first: str) -> str:
    """How often something is needed, and where at first."""
    said = [f"{count} times"] if count > 1 else []
    if first:
        said.append(f"first at {first}" if said else f"at {first}")
    return f" ({', '.join(said)})" if said else ""


def unique(taken: dict[str, int], name: str) -> str:
    """`name`, with a number behind it when it is taken; it is from now on. `taken`: name -> the next number for it."""
    found = name
    while found in taken:
        found = f"{name}:{taken[name]}"
        taken[name] += 1
    taken[found] = 1
    return found


def misfit(where: str, what: str, error: Exception) -> ModelError:
    """The error for a file whose `what` (operands, attributes) made a rule raise one of MISFITS."""
    return ModelError(f"{where}: {what} that do not fit together ({type(error).__name__}: {error})")
