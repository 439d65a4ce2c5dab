"""Rounds that other programs disturbed: thrown away by `fastgraph bench`, refused when too few are left."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastgraph import disturbance
from fastgraph.cli import main
from fastgraph.demo import MODEL
from fastgraph.disturbance import Usage, disturbed, report
from fastgraph.tools import bench, engines
from fastgraph.tools.bench import comparison, rounds
from fastgraph.tools.engines import Engine

DIGITS = str(MODEL)
QUIET = Usage(wall=0.02, cpu=0.02, queued=0.0, stolen=0.0, forced=0, willing=0)
BUSY = Usage(wall=0.04, cpu=0.02, queued=0.02, stolen=0.0, forced=5, willing=0)
Script = Callable[[Iterator[Usage]], None]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """What each burst used, one after the other; what follows the last is up to the iterator."""

    def use(bursts: Iterator[Usage]) -> None:
        none = Usage(0, 0, 0, 0, 0, 0)
        moments = chain.from_iterable((none, burst) for burst in bursts)
        monkeypatch.setattr(disturbance, "now", lambda: next(moments))
        monkeypatch.setattr(disturbance, "WATCHED", True)

    return use


@pytest.mark.parametrize(
    "used, found",
    [
        (QUIET, False),
        (Usage(0.02, 0.0199, 0.0001, 0, 3, 0), False),  # a timer, a kernel thread
        (Usage(0.02, 0.0197, 0.0003, 0, 1, 0), True),
        (Usage(0.02, 0.0197, 0.0, 0, 1, 0), True),  # of a system that does not count what is queued
        (Usage(0.02, 0.005, 0.0, 0, 0, 9), False),  # it waited of its own will
        (Usage(0.02, 0.005, 0.001, 0, 1, 9), True),
        (Usage(0.02, 0.039, 0.0001, 0, 2, 40), False),  # two threads
        (Usage(0.02, 0.025, 0.015, 0, 4, 0, cpus=2), True),  # two threads, and another program on one of their CPUs
        (Usage(0.02, 0.0399, 0.018, 0, 9, 9, cpus=2), False),  # three threads, which have both CPUs
        (Usage(0.02, 0.0199, 0.015, 0, 9, 9), False),  # two, which have one
        (Usage(0.02, 0.015, 0.015, 0, 9, 9), True),  # two, and another program
        (Usage(0.02, 0.02, 0.0, 0.01, 0, 0), True),
    ],
)
def test_what_disturbs(used: Usage, found: bool) -> None:
    assert disturbed([used]) == disturbed([QUIET, used]) == found


def engine(calls: list[str], name: str) -> Engine:
    return Engine(name, "", lambda: calls.append(name), lambda: [])


def test_a_disturbed_round_is_thrown_away_for_all_engines(script: Script) -> None:
    script(chain([QUIET, BUSY], repeat(QUIET)))
    found = bench.measure([engine([], "a"), engine([], "b")], seconds=0, rounds=7)
    assert [len(bursts) for bursts in found.times] == [7, 7]
    assert found.disturbance["rounds"] == 8 and found.disturbance["disturbed"] == 1
    assert found.disturbance["reasons"] == {"queued": 1, "stolen": 0} and not found.disturbance["noisy"]
    assert [shares["lost_share"] > 0 for shares in found.shares] == [False, True]


def test_usage_is_the_engines_own(script: Script) -> None:
    """Also where the order has turned."""
    script(chain([QUIET, QUIET], repeat(BUSY)))
    calls: list[str] = []
    first, second = rounds._round([engine(calls, "a"), engine(calls, "b")], [1, 3], 1).usage
    assert calls == ["b"] * 4 + ["a"] * 2 and first == second == QUIET
    script(iter([BUSY, QUIET]))
    assert rounds._round([engine(calls, "a"), engine(calls, "b")], [1, 3], 1).usage == (QUIET, BUSY)


@pytest.mark.parametrize("rounds, tried, needed", [(1, 10, 1), (3, 10, 3), (20, 40, 5)])
def test_too_few_are_all_kept_and_marked(script: Script, rounds: int, tried: int, needed: int) -> None:
    script(chain([QUIET] * (needed - 1), repeat(BUSY)))
    found = bench.measure([engine([], "a")], seconds=0, rounds=rounds)
    assert len(found.times[0]) == found.disturbance["rounds"] == tried and found.disturbance["noisy"]


@pytest.mark.parametrize(
    "clean, tried, elapsed, more",
    [(0, 0, 9.0, True), (4, 4, 9.0, True), (9, 9, 2.9, True), (9, 9, 3.1, False), (4, 9, 3.1, True),
     (5, 9, 3.1, False), (4, 99, 6.1, False), (4, 4, 6.1, True)],
)  # fmt: skip
def test_it_waits_for_quiet_rounds_twice_as_long(clean: int, tried: int, elapsed: float, more: bool) -> None:
    assert rounds._goes_on(clean, tried, elapsed, 3.0, None) == more


def test_a_busy_machine_is_refused(capsys: Any, script: Script, tmp_path: Path) -> None:
    script(repeat(BUSY))
    file = tmp_path / "bench.json"
    assert main(["bench", DIGITS, "--runs", "3", "--json", str(file)]) == 3
    out, err = capsys.readouterr()
    assert "not measurable here: 10 of 10 rounds" in err and "--allow-noise" in err and "CPU time was 50%" in err
    assert "p50" not in out and "not measurable here" in json.loads(file.read_text())["failed"][DIGITS]


def test_engines_that_did_not_run_are_named_first() -> None:
    rows = [{"name": "fastgraph"}, {"name": "litert", "unavailable": "not installed"}]
    with pytest.raises(bench.NotMeasurable, match=r"^a: litert: not installed\. not measurable here"):
        bench.refuse({"model": "a", "threads": 1, "engines": rows, "disturbance": report([[BUSY]], 1)})


def test_threads_that_disturb_one_another_are_told_from_programs(monkeypatch: Any) -> None:
    monkeypatch.setattr(comparison, "default_threads", lambda: 2)
    for threads, advice in ((1, "Close other programs"), (1000, "1000 threads share 2 CPUs: take fewer")):
        with pytest.raises(bench.NotMeasurable, match=f"{advice}, or add --allow-noise"):
            bench.refuse({"model": "a", "threads": threads, "disturbance": report([[BUSY]], 1)})


def test_noise_is_marked_where_it_is_allowed(capsys: Any, script: Script, tmp_path: Path) -> None:
    script(repeat(BUSY))
    file = tmp_path / "bench.json"
    assert main(["bench", DIGITS, "--runs", "3", "--allow-noise", "--json", str(file)]) == 0
    assert "NOISY, figures mean little: 10 of 10 rounds" in capsys.readouterr().out
    (found,) = json.loads(file.read_text())["models"]
    assert found["rounds"] == found["disturbance"]["disturbed"] == 10 and found["disturbance"]["noisy"]
    assert found["engines"][0]["cpu_share"] == pytest.approx(0.5)


def test_disagreement_is_said_on_a_busy_machine_too(capsys: Any, script: Script, monkeypatch: Any) -> None:
    script(repeat(BUSY))
    wrong = Engine("onnxruntime", "0", lambda: None, lambda: [np.full((1, 10), 0.1, np.float32)])
    monkeypatch.setitem(engines.PEERS, "onnxruntime", lambda *_: wrong)
    assert main(["bench", DIGITS, "--against", "onnxruntime", "--runs", "1"]) == 1
    out = capsys.readouterr().out
    assert "DISAGREES" in out and "NOISY" in out


def test_a_quiet_machine_needs_no_words(capsys: Any, script: Script) -> None:
    script(repeat(QUIET))
    assert main(["bench", DIGITS, "--runs", "2"]) == 0
    assert "disturb" not in capsys.readouterr().out


def test_a_system_that_does_not_count_says_so(monkeypatch: Any) -> None:
    monkeypatch.setattr(disturbance, "WATCHED", False)
    before = disturbance.now()
    used = disturbance.now() - before
    found = report([[used]], 1)
    assert not disturbed([used]) and not found["watched"] and not found["noisy"]
    assert "does not tell" in disturbance.text(found)


def test_waiting_is_counted_where_it_can_be(monkeypatch: Any, tmp_path: Path) -> None:
    for task, seconds in (("1", 2), ("2", 3)):
        (tmp_path / task).mkdir()
        (tmp_path / task / "schedstat").write_text(f"9000000000 {seconds}000000000 7\n")
    (tmp_path / "3").mkdir()  # one that has ended
    monkeypatch.setattr(disturbance, "TASKS", tmp_path)
    assert disturbance.now().queued == 5.0
    monkeypatch.setattr(disturbance, "TASKS", tmp_path / "none")
    monkeypatch.setattr(disturbance, "STAT", tmp_path / "none")
    assert disturbance.now().queued == disturbance.now().stolen == 0.0


@pytest.mark.skipif(not disturbance.WATCHED, reason="this system does not count CPU time precisely")
def test_time_of_its_own_children_is_not_lost() -> None:
    """OpenVINO starts one while it loads."""
    before = disturbance.now()
    subprocess.run([sys.executable, "-c", "sum(range(3 * 10**6))"], check=True)
    used = disturbance.now() - before
    assert used.cpu > 0.01 and used.cpus == disturbance.cpus()


def test_the_digits_are_timed_by_quiet_passes(capsys: Any, script: Script) -> None:
    script(chain([BUSY] * 6, repeat(QUIET)))
    assert main(["digits", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["disturbance"]["disturbed"] == 6
    script(chain([BUSY] * 7, repeat(QUIET)))
    assert main(["digits"]) == 0
    assert "the latency means little: 7 of 9 rounds" in capsys.readouterr().out


def test_threads_of_one_engine_are_at_rest_before_the_next(monkeypatch: Any) -> None:
    """onnxruntime's spin for longer than a burst takes."""
    spins, slept, calls = [0], [0], list[str]()

    def of_others() -> float:
        return sum(spins)

    def sleep(seconds: float) -> None:
        slept[0] += 1
        if slept[0] % 3:
            spins.append(1)  # twice it still runs

    monkeypatch.setattr(rounds, "of_others", of_others)
    monkeypatch.setattr(rounds, "sleep", sleep)
    pool = Engine("pool", "", lambda: (calls.append(f"pool after {slept[0]}"), spins.append(1)), lambda: [])
    alone = Engine("alone", "", lambda: calls.append(f"alone after {slept[0]}"), lambda: [])
    rounds._round([pool, alone], [1, 1], 0)
    assert calls == ["pool after 0"] * 2 + ["alone after 3"] * 2 and slept == [3]
    monkeypatch.setattr(rounds, "SPINS", 0)
    rounds._round([pool, alone], [1, 1], 0)
    assert slept == [3], "it ends where threads never come to rest"


@pytest.mark.slow
@pytest.mark.skipif(not disturbance.QUEUES, reason="this system does not count how long threads are queued")
def test_another_program_on_the_same_cpu_is_noticed() -> None:
    """However many other tests share it too: the more, the more is lost."""
    with bench.pinned(1):
        loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
        try:
            assert main(["bench", DIGITS, "--seconds", "1"]) == 3
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
