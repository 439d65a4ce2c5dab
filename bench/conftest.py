"""Figures of a run beside their goals, in one table at the end."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any

import pytest

from fastgraph.text import table

Goal = Callable[..., None]
ROWS: list[tuple[str, str, str, str]] = []


@pytest.fixture
def goal() -> Goal:
    """goal("execute, empty graph", 0.9, "us", 2.0): note a figure, and the most that it should be, if there is a goal.

    A goal that is missed is said, and does not fail: the machine may be another one. NaN stands for what other programs
    disturbed all the time.
    """

    def note(what: str, figure: float, unit: str, most: float | None = None) -> None:
        verdict = "" if most is None else "disturbed" if isnan(figure) else "met" if figure <= most else "MISSED"
        ROWS.append((what, f"{figure:.3f} {unit}", "" if most is None else f"<= {most:g}", verdict))

    return note


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if ROWS:
        terminalreporter.section("figures and goals")
        for line in table([("what", "figure", "goal", ""), *ROWS], right=(1,)):
            terminalreporter.write_line(line)
