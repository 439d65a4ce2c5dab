"""Settings of the whole suite; the summary counts what this CPU could not run."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

SLOW_TO_DRAW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
settings.register_profile("default", deadline=None, derandomize=True, database=None, suppress_health_check=SLOW_TO_DRAW)
PHASES = (Phase.generate, Phase.shrink)
settings.register_profile("explore", settings.get_profile("default"), derandomize=False, phases=PHASES)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

os.environ.setdefault("FASTGRAPH_PLAN_CACHE", "0")
"""Tests that keep programs from load to load say so."""
os.environ.setdefault("FASTGRAPH_CHECK", "1")
"""What steps do to memory is verified in every plan that a test makes, in other processes too."""


@pytest.fixture(autouse=True, scope="session")
def small_models_use_their_threads() -> None:
    """Tests of threads are worth something only if small models run on them too."""
    from fastgraph.runtime import pool

    pool.WORTH_WAKING = 0


@pytest.fixture(autouse=True, scope="session")
def tiles_are_emulated() -> Iterator[None]:
    """Where tests/emulated says that this CPU has them."""
    with ExitStack() as stack:
        if "EMULATE_TILES" in os.environ:
            from tests import amx_trap

            amx_trap.EMULATES = True
            stack.enter_context(amx_trap.tiles())
            amx_trap.EMULATES = False
        yield


@pytest.fixture(autouse=True, scope="session")
def tables_are_as_wide_as_they_get() -> None:
    """pytest-xdist tells its workers the width of a terminal."""
    os.environ.pop("COLUMNS", None)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory, and nothing remembered of what could not be kept or was said.

    The order in which kernels are compiled follows from them alone, not from this process's number too.
    """
    from fastgraph.objects import cache, store

    ordered = cache._ordered
    monkeypatch.setenv("FASTGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "_unsaved", {})
    monkeypatch.setattr(store, "_warned", [])
    monkeypatch.setattr(cache, "_ordered", lambda kernels, _: ordered(kernels, 0))
    return tmp_path / "cache"


TIER = "ISA tier "
"""Tests of a tier that this CPU lacks are skipped with a reason that begins so; the tier's name follows."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The generic tier belongs to the slow part: it shares all but its width with the others."""
    for item in items:
        if {"kernels", "plan"} & set(item.path.parts) and "generic" in item.name:
            item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line: how many tests were skipped for want of which ISA tier."""
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", ())]
    skipped = Counter(reason.partition(TIER)[2].split()[0] for reason in reasons if TIER in reason)
    said = ", ".join(f"{count} of {tier}" for tier, count in sorted(skipped.items())) or "none"
    terminalreporter.write_line(f"tests skipped because this CPU lacks their ISA tier: {said}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="rewrite the golden files instead of comparing with them")
