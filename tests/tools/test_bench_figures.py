"""Statistics, energy, environment and forms of output of `fastgraph bench`."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastgraph.tools import environment
from fastgraph.tools.bench import energy, figures
from fastgraph.tools.bench.text import digits, sheet, text


def test_latencies() -> None:
    bursts = [np.arange(1, 101) * 1e-3, np.array([0.201])]
    found = figures.latency(bursts)
    assert found["calls"] == 101 and found["min_ms"] == 1.0 and found["mean_ms"] == pytest.approx((5050 + 201) / 101)
    assert [found[f"p{p}_ms"] for p in (50, 90, 95, 99)] == pytest.approx([51, 91, 96, 100])
    assert found["medians_ms"] == [50.5, 201.0]
    assert len(found["quantiles_ms"]) == 101 and found["quantiles_ms"][-1] == 201.0


@pytest.mark.parametrize("n, low, high", [(6, 1, 6), (8, 1, 8), (9, 2, 8), (20, 6, 15), (50, 18, 33), (100, 40, 61)])
def test_the_interval_of_a_median(n: int, low: int, high: int) -> None:
    """The ranks that tables of the sign test give."""
    values = np.random.default_rng(0).permutation(np.arange(1.0, n + 1))
    assert figures.median_interval(values) == (low, high)
    assert figures.median_interval(values[:5]) is None


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    found = [figures.median_interval(rng.exponential(size=30)) for _ in range(2000)]
    held = np.mean([low <= np.log(2) <= high for low, high in found])  # type: ignore[misc]
    assert 0.95 <= held < 0.985


@pytest.mark.parametrize("shift, ties", [(0.0, False), (0.05, False), (0.3, False), (0.05, True), (0.0, True)])
def test_changes_are_judged_as_scipy_does(shift: float, ties: bool) -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(2)
    old, new = np.exp(rng.normal(0, 0.1, 20)), np.exp(rng.normal(shift, 0.1, 15))
    if ties:
        old, new = np.round(old, 1), np.round(new, 1)
    found = figures.change(old, new)
    assert found["p"] == pytest.approx(stats.mannwhitneyu(old, new, method="asymptotic").pvalue)
    low, high = found["interval"]
    assert low <= found["change"] <= high
    assert ties or (low > 1 or high < 1) == (found["p"] < 0.05)
    twice = figures.change(old, 2 * new)
    assert [twice["change"], *twice["interval"]] == pytest.approx([2 * found["change"], 2 * low, 2 * high])


def test_equal_samples_do_not_differ() -> None:
    assert figures.change([1.0] * 9, [1.0] * 9) == {"change": 1.0, "interval": [1.0, 1.0], "p": 1.0}


def test_neighbors_count_as_one() -> None:
    assert figures.blocks([1.0, 3.0, 2.0]).tolist() == [1.0, 3.0, 2.0]
    assert figures.blocks(list(range(100))).tolist() == [5 * i + 2 for i in range(20)]


def counters(folder: Path, **packages: tuple[str, str]) -> None:
    for name, (what, joules) in packages.items():
        place = folder / name.replace("_", ":")
        place.mkdir(exist_ok=True)
        for file, written in (("name", what), ("energy_uj", joules), ("max_energy_range_uj", "1000000")):
            (place / file).write_text(f"{written}\n")


def test_energy_is_read_from_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "POWERCAP", tmp_path)
    assert energy.packages() == [] and energy.joules([], (), ()) is None
    kinds = {"intel-rapl_0": ("package-0", "999000"), "intel-rapl_1": ("package-1", "5")}
    counters(tmp_path, **kinds, **{"intel-rapl_0_0": ("core", "7"), "intel-rapl_2": ("package-2", "not readable")})
    folders = energy.packages()
    assert [folder.name for folder in folders] == ["intel-rapl:0", "intel-rapl:1"]
    before = energy.reading(folders)
    counters(tmp_path, **{"intel-rapl_0": ("package-0", "1000"), "intel-rapl_1": ("package-1", "10")})
    assert energy.joules(folders, before, energy.reading(folders)) == pytest.approx(2005e-6)


def test_frequencies_are_read_where_there_are_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "SYSTEM", tmp_path)
    bare = environment.machine()
    assert bare["governor"] is None and bare["turbo"] is None and bare["mhz"]["max"] is None
    assert bare["versions"]["numpy"] == np.__version__
    folder = tmp_path / "cpu0" / "cpufreq"
    folder.mkdir(parents=True)
    (tmp_path / "cpufreq").mkdir()
    (tmp_path / "cpufreq" / "boost").write_text("1\n")
    for name, written in (("scaling_governor", "powersave\n"), ("scaling_cur_freq", "2400000\n")):
        (folder / name).write_text(written)
    found = environment.machine()
    assert found["governor"] == "powersave" and found["turbo"] is True and found["mhz"]["now"] == 2400.0


def test_what_people_read_of_a_machine() -> None:
    found = {
        "cpu": "a CPU", "tiers": ["generic", "avx2"], "cpus": 2, "governor": None, "turbo": False,
        "mhz": {"now": 2445.4, "min": 400.0, "max": 3500.0}, "hypervisor": True, "memory_bytes": 3 << 29,
        "system": "Linux", "python": "3.11.7", "versions": {"numpy": "2.0", "numba": "0.6"},
    }  # fmt: skip
    assert environment.facts(found) == [
        ("processor", "a CPU"), ("CPUs", "2"), ("tiers", "generic, avx2"),
        ("frequency", "2,445 MHz, of 400 to 3,500 MHz"), ("turbo", "off"), ("virtual machine", "yes"),
        ("memory", "1.50 GiB"), ("system", "Linux"), ("Python", "3.11.7"), ("packages", "numpy 2.0, numba 0.6"),
    ]  # fmt: skip
    assert environment.facts({"mhz": {"now": None, "min": None, "max": 1.0}, "turbo": None}) == []
    here = dict(environment.facts(environment.machine()))
    assert not any(mark in text for text in here.values() for mark in ("None", "{", "[", "True", "False"))


def test_variables_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTGRAPH_CHECK", "1")
    monkeypatch.setattr("sys.argv", ["fastgraph", "bench", "a b.onnx"])
    found = environment.invocation()
    assert found["variables"]["FASTGRAPH_CHECK"] == "1" and found["command"] == "fastgraph bench 'a b.onnx'"


def result() -> dict[str, Any]:
    own = {
        "name": "fastgraph", "version": "1", "load_ms": 2.0, "first_ms": 1.5, "joules": None, "cpu_share": 1.0,
        "lost_share": 0.0, **figures.latency([np.full(4, 1.25e-3)] * 3),
    }  # fmt: skip
    peer = own | {
        "name": "onnxruntime", "ratio": 0.5, "ratio_interval": (0.4, 0.6), "joules": 0.002,
        "difference": 1e-7, "agrees": True,
    }  # fmt: skip
    away = {"name": "litert", "unavailable": "reads .tflite files only"}
    quiet = {"disturbed": 0, "watched": True, "noisy": False, "rounds": 5, "shared": 2, "kept": "rounds"}
    known = {
        "model": "net.onnx",
        "isa": "avx2",
        "precision": "float32",
        "threads": 1,
        "cpu": 1,
        "rounds": 3,
        "disturbance": quiet,
    }
    return known | {"engines": [own, peer, away]}


def test_the_table_is_as_wide_as_the_terminal() -> None:
    for width in range(60, 160):
        lines = text(result(), width).splitlines()
        assert max(map(len, lines)) <= width
        for what in ("p50 ms", "p99 ms", "ratio", "difference"):
            assert what in lines[1]
    for what in ("version", "calls", "95 %", "mJ", "first ms", "0.400-0.600"):
        assert what in text(result(), 200)
    plain = result()
    plain["engines"] = plain["engines"][:1]
    for what in ("95 %", "mJ", "ratio"):  # columns that nobody has a figure for
        assert what not in text(plain, 200)


def test_csv_has_a_line_for_each_engine() -> None:
    own, peer, away = csv.DictReader(io.StringIO(sheet([result()])))
    assert (own["rounds"], own["all_rounds"], own["disturbed"], own["shared"]) == ("3", "5", "0", "2")
    assert own["model"] == "net.onnx" and own["p50_ms"] == "1.25" and own["ratio"] == own["joules"] == ""
    assert (peer["ratio"], peer["ratio_low"], peer["ratio_high"]) == ("0.5", "0.4", "0.6")
    assert away["unavailable"] == "reads .tflite files only" and away["p50_ms"] == ""


@pytest.mark.parametrize(
    "number, said",
    [(1234.5, "1,234"), (25.9, "25.90"), (0.0024123, "0.002412"), (9.9999, "10.000"), (0.0, "0"), (1e-9, "0.000000")],
)
def test_digits(number: float, said: str) -> None:
    assert digits(number) == said
