"""Bursts on a core that a neighbor shared: which rounds count is a matter of series of probes alone."""

import csv
import io
from collections.abc import Sequence
from itertools import chain, repeat
from math import inf
from typing import Any

import numpy as np
import pytest

from fastgraph import disturbance
from fastgraph.disturbance import Usage, kept, of_shared_core, report
from fastgraph.tools import bench, neighbor, profile
from fastgraph.tools.bench import comparison, figures
from fastgraph.tools.engines import Engine

PROBE = neighbor.probe
Q, S = 30e-6, 40e-6
"""Seconds of a probe on a quiet core, and on a shared one."""


def rounds(*engines: Sequence[float], lost: Sequence[int] = ()) -> list[list[Usage]]:
    """Rounds of bursts with these probes, by engine; in some of them other programs had the CPU."""
    return [
        [Usage(0.02, 0.01 if i in lost else 0.02, 0, 0, 0, 0, probe=probe) for probe in probes]
        for i, probes in enumerate(zip(*engines, strict=True))
    ]


@pytest.mark.parametrize(
    "found, name, expected",
    [
        (rounds([Q, Q, Q], [Q, Q * 1.1, Q]), "rounds", [[0, 1, 2]] * 2),
        (rounds([Q, S, Q, S], [Q, Q, Q, S]), "rounds", [[0, 2]] * 2),
        (rounds([Q, S, Q, S], [S, Q, S, Q]), "bursts", [[0, 2], [1, 3]]),
        (rounds([Q, S, Q, S], [S, Q, S, S]), "all", [[0, 1, 2, 3]] * 2),
        (rounds([S, S, S], [S, S, S]), "all", [[0, 1, 2]] * 2),
        (rounds([Q, Q, S, Q], [Q, Q, Q, Q], lost=[0]), "rounds", [[1, 3]] * 2),
        (rounds([Q, S, Q, S], [Q, Q, Q, Q], lost=[0]), "all", [[1, 2, 3]] * 2),
        (rounds([Q, S, Q], [Q, S, Q], lost=[0, 1]), "all", [[0, 1, 2]] * 2),
        (rounds([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], lost=[1]), "rounds", [[0, 2]] * 2),  # not probed
    ],
)
def test_which_rounds_count(found: list[list[Usage]], name: str, expected: list[list[int]]) -> None:
    """Quiet rounds, else each engine's quiet bursts, else those that no program disturbed, else all; two are enough."""
    assert kept(found, 2, Q) == expected and report(found, 2, Q)["kept"] == name


def test_the_report_says_what_does_not_count_and_why() -> None:
    found = report(rounds([Q, S, Q, S, Q], [Q, Q, Q, S, Q], lost=[0, 3]), 2, Q)
    assert (found["rounds"], found["disturbed"], found["shared"], found["quiet_bursts"]) == (5, 2, 1, [3, 4])
    said = disturbance.text(found | {"watched": True})
    assert "2 of 5 rounds were disturbed" in said and "lower, in 1 of 5 rounds, which do not count" in said
    assert not of_shared_core(found)
    bursts = report(rounds([Q, S, Q, S], [S, Q, S, Q]), 2, Q)
    assert "are of different rounds" in disturbance.text(bursts) and not of_shared_core(bursts)
    shared = report(rounds([S, S, Q]), 2, Q)
    assert "these are figures of a shared core" in disturbance.text(shared) and of_shared_core(shared)
    assert not shared["noisy"]
    assert not of_shared_core(report(rounds([S, S]), 2)), "no probe is known"


@pytest.mark.parametrize(
    "probes, least",
    [([], inf), ([3.0], 3.0), ([3.0, 2.0], 3.0), ([3.0, 1.0, 2.0, 9.0], 3.0), ([*[9.0] * 300, *[3.0] * 9], 3.0),
     ([1.0] * 2 + [9.0] * 90, 9.0), ([1.0] * 15 + [3.0] * 985, 3.0)],
)  # fmt: skip
def test_luck_is_not_the_least(probes: list[float], least: float) -> None:
    assert neighbor.least_of(probes) == least


def test_runs_between_probes() -> None:
    assert neighbor.quiet([Q, Q, S, Q, Q, 1.05 * Q], Q) == [0, 3, 4]


class Core:
    """A core with probes of a script, whose engines take 4 and 2 when it is quiet, 6 and 5 when it is shared."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, states: Sequence[float]) -> None:
        self.states, self.state, self.bursts = chain(states, repeat(states[-1])), Q, 0
        none = Usage(0, 0, 0, 0, 0, 0)
        monkeypatch.setattr(disturbance, "now", lambda: none)
        monkeypatch.setattr(disturbance, "shares", lambda _: {})
        monkeypatch.setattr(neighbor, "probe", lambda *_: self.state)
        monkeypatch.setattr(neighbor, "least", lambda: Q)
        monkeypatch.setattr(bench.rounds, "_length", lambda _: 1)
        monkeypatch.setattr(bench.rounds, "_burst", self.burst)

    def burst(self, engine: Engine, calls: int, parts: int) -> tuple[np.ndarray, list[float]]:
        self.state = next(self.states)
        return np.array([{"a": (4.0, 6.0), "b": (2.0, 5.0)}[engine.name][self.state > Q]]), []


ENGINES = [Engine(name, "", lambda: None, list) for name in "ab"]


def test_a_ratio_is_of_one_state_of_the_core(monkeypatch: Any) -> None:
    """Bursts are a, b, b, a, a, b ...; a state that a burst ends in, the next begins in."""
    Core(monkeypatch, [*[Q] * 8, *[S] * 8, *[Q] * 4])
    found = bench.measure(ENGINES, 0, 7)
    assert found.paired and found.ratio(0, 1)[0] == 2 and len(found.times[0]) >= 5
    assert found.disturbance["shared"] == found.disturbance["rounds"] - 7

    Core(monkeypatch, [Q, S, Q, Q] * 9 + [Q, S, S, S] + [Q, Q, Q, S] * 30)  # first a is quiet, then b
    found = bench.measure(ENGINES, 0, 30)
    assert not found.paired and found.ratio(0, 1) == (pytest.approx(2), pytest.approx((2, 2)))
    assert found.disturbance["kept"] == "bursts" and {x[0] for x in found.times[0]} == {4.0}

    Core(monkeypatch, [S])
    found = bench.measure(ENGINES, 0, 3)
    assert found.disturbance["rounds"] == 10 and of_shared_core(found.disturbance), "twice as many as it needs"
    assert found.ratio(0, 1)[0] == 1.2


def test_ratios_of_pairs_and_of_all() -> None:
    one, other = ([np.array([x]) for x in each] for each in ([1.0, 2.0, 4.0] * 3, [2.0, 4.0, 8.0] * 3))
    assert figures.ratio(one, other, True) == (0.5, (0.5, 0.5))
    found, interval = figures.ratio(one, other[:7], False)
    assert interval and interval[0] < found < interval[1] and found == pytest.approx(0.5)


def test_sheets_have_each_engines_rounds() -> None:
    engines = [{"name": "fastgraph", "rounds": 6}, {"name": "b", "rounds": 7}]
    found = {"rounds": 6, "engines": engines, "disturbance": report(rounds([Q, S] * 9, [S, Q] * 9), 5, Q)}
    rows = list(csv.DictReader(io.StringIO(bench.sheet([found]))))
    assert [(row["rounds"], row["all_rounds"], row["shared"], row["kept"]) for row in rows] == [
        ("6", "18", "18", "bursts"), ("7", "18", "18", "bursts"),
    ]  # fmt: skip


def test_profiles_leave_runs_out(monkeypatch: Any) -> None:
    probes = chain([Q, S, S, Q, Q, Q, S], repeat(Q))
    monkeypatch.setattr(neighbor, "probe", lambda: next(probes))
    monkeypatch.setattr(neighbor, "least", lambda: Q)
    numbers = iter(range(99))
    median, counts = profile.medians(lambda: [next(numbers)], 6)
    assert median == [7] and counts == {"runs": 5, "runs_made": 10, "runs_shared": 5}
    assert "in 5 of 10 runs, which do not count" in profile.shared([{"us": 1.0}, counts])
    monkeypatch.setattr(profile, "PATIENCE", 0)
    monkeypatch.setattr(neighbor, "probe", lambda: S)
    _, counts = profile.medians(lambda: [next(numbers)], 6)
    assert counts == {"runs": 12, "runs_made": 12, "runs_shared": 12}
    assert "these are times of a shared core" in profile.shared([counts]) and not profile.shared([{"us": 1.0}])


def test_a_probe_takes_time(monkeypatch: Any) -> None:
    assert neighbor.of_burst([PROBE(), PROBE()]) > 0 and neighbor.least() < inf


def test_without_a_compiler_nothing_is_probed(monkeypatch: Any) -> None:
    monkeypatch.setattr(neighbor, "_reader", lambda: None)
    assert PROBE() == 0.0


def test_figures_of_a_shared_core_are_no_reason_to_refuse() -> None:
    comparison.refuse({"model": "a", "threads": 1, "disturbance": report(rounds([S] * 9), 5, Q)})
