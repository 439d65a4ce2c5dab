"""The summary counts what this CPU could not run."""

from __future__ import annotations

from collections import Counter
from typing import Any

TIER = "ISA tier "
"""Tests of a tier that this CPU lacks are skipped with a reason that begins so; the tier's name follows."""


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line: how many tests were skipped for want of which ISA tier."""
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", ())]
    skipped = Counter(reason.partition(TIER)[2].split()[0] for reason in reasons if TIER in reason)
    said = ", ".join(f"{count} of {tier}" for tier, count in sorted(skipped.items())) or "none"
    terminalreporter.write_line(f"tests skipped because this CPU lacks their ISA tier: {said}")
