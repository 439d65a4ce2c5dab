"""How work grows with a model: Python calls, counted, as time depends on the machine."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import fastgraph as fg


def calls(work: Callable[[], object]) -> int:
    """How many calls of Python functions `work` makes in this thread."""
    count = 0

    def note(frame: FrameType, event: str, what: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def check_linear(make: Callable[[int], bytes], n: int, most: float = 2.3) -> fg.Model:
    """AssertionError unless a model of twice the size loads with at most `most` times the calls. The larger model."""
    small, large = make(n), make(2 * n)
    fg.load(small, threads=1)
    model = fg.load(large, threads=1)
    one, two = (calls(lambda data=data: fg.load(data, threads=1)) for data in (small, large))
    assert two <= most * one, f"{one} calls for {n}, {two} for {2 * n}"
    return model
