"""Functions that several threads call at the same time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def at_once(function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
    """The results of calls with arguments that lie at the same place of each sequence, in a thread each."""
    with ThreadPoolExecutor(len(arguments[0])) as pool:
        return list(pool.map(function, *arguments))
