"""One run of LoadGen: settings, and what its summary says."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from fastgraph.errors import FastgraphError

from .system import Arrays, Stream, issued

SCENARIOS = {
    "SingleStream": "90th percentile latency (ns)",
    "Offline": "Samples per second",
    "Server": "Completed samples per second",
}
"""Each scenario, and the line of its summary that is its result."""
FEWEST = {"SingleStream": 100, "Offline": 1, "Server": 1000}
"""Queries of a short run: with fewer LoadGen can't tell a percentile."""
AHEAD = 1.1
"""An Offline query is made for so much more than the throughput that was measured, so that it takes long enough."""


def loadgen() -> Any:
    """LoadGen's module. FastgraphError when it is not installed."""
    try:
        return import_module("mlperf_loadgen")
    except ImportError as error:
        raise FastgraphError(f"LoadGen ({error}): not installed: pip install 'fastgraph-runtime[mlperf]'") from None


def settings(
    scenario: str, folder: Path, typical: float, *, seconds: float | None, latency: float, qps: float, rules: str
) -> Any:
    """LoadGen's settings for a scenario. `typical`: seconds of a sample. `seconds`: how long at least, None for what
    MLPerf's rules for the benchmark `rules` say (ten minutes), with its percentiles, numbers of queries and seeds.
    `latency`: the bound of Server in seconds; `qps`: what it is asked for.
    """
    lg = loadgen()
    made = lg.TestSettings()
    if seconds is None:
        user = folder / "user.conf"
        user.write_text(f"*.{scenario}.target_qps = {AHEAD / typical if scenario == 'Offline' else qps}\n")
        made.FromConfig(str(user), rules, scenario)
    made.scenario, made.mode = getattr(lg.TestScenario, scenario), lg.TestMode.PerformanceOnly
    made.single_stream_expected_latency_ns = max(int(typical * 1e9), 1)
    made.offline_expected_qps = AHEAD / typical
    made.server_target_qps = qps
    if seconds is not None:
        made.min_duration_ms, made.min_query_count = int(1000 * seconds), FEWEST[scenario]
        made.server_target_latency_ns = int(latency * 1e9)
    return made


def run(made: Any, scenario: str, folder: Path, streams: Sequence[Stream], data: Sequence[Arrays]) -> dict[str, Any]:
    """Run LoadGen, which writes its logs into the folder; its summary, as `summary` reads it."""
    lg = loadgen()
    logs, output = lg.LogSettings(), lg.LogOutputSettings()
    output.outdir, output.copy_summary_to_stdout = str(folder), False
    logs.log_output, logs.enable_trace = output, False

    def complete(query: Any) -> None:
        lg.QuerySamplesComplete([lg.QuerySampleResponse(query.id, 0, 0)])

    with issued(streams, data, complete, waits=scenario == "SingleStream") as issue:
        system = lg.ConstructSUT(issue, lambda: None)
        library = lg.ConstructQSL(len(data), len(data), lambda _: None, lambda _: None)
        try:
            lg.StartTestWithLogSettings(system, library, made, logs, str(folder / "audit.config"))
        finally:
            lg.DestroyQSL(library)
            lg.DestroySUT(system)
    return summary(scenario, (folder / "mlperf_log_summary.txt").read_text())


def summary(scenario: str, text: str) -> dict[str, Any]:
    """`valid`, `result` (the figure of the scenario), `metric` (what it is), `reasons` for which a run is not valid,
    and all `lines` "name : value".
    """
    pairs = [line.split(":", 1) for line in text.splitlines() if ":" in line]
    lines = {name.strip(): value.strip() for name, value in pairs}
    metric = SCENARIOS[scenario]
    found = next((value for name, value in lines.items() if _plain(name) == _plain(metric)), None)
    return {
        "valid": lines.get("Result is") == "VALID",
        "metric": metric,
        "result": None if found is None else float(found),
        "reasons": [line.strip(" *") for line in text.splitlines() if line.startswith(" *")],
        "lines": lines,
    }


def _plain(name: str) -> str:
    """A name without the digits that versions of LoadGen write differently: 90.0th, 90.00 percentile."""
    return "".join(c for c in name.replace("th", "") if c.isalpha() or c == " ").replace("  ", " ").strip()
