"""Names of values, each of one value."""

from __future__ import annotations


def unique(taken: dict[str, int], name: str) -> str:
    """`name`, with a number behind it when it is taken; it is from now on. `taken`: name -> the next number for it."""
    found = name
    while found in taken:
        found = f"{name}:{taken[name]}"
        taken[name] += 1
    taken[found] = 1
    return found
