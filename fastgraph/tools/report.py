"""A page about networks and what was measured of them. It needs nothing beside it, and follows light and dark schemes.

Charts are SVG of our own (`svg.py`): matplotlib's would have one scheme's colors and no titles under the pointer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .. import disturbance
from ..page import COLORS, cards, details, html_table, page, safe
from ..runtime.arena_svg import arena_svg
from ..runtime.executable import Executable
from ..svg import Dot, bars, color, distributions, roofline
from ..text import bytes_text, counted, shorten
from .environment import facts
from .graph_svg import graph_svg
from .peaks import MachinePeaks, machine_peaks
from .profile import HEAD, by_operator, figures, shared, total

MOST_BARS = 40
"""Steps that have a bar, those that take longest."""


class Measured(NamedTuple):
    """A network: its name, its plan (None: not known), rows of its profile, and the result of a bench, if there is."""

    name: str
    plan: Executable | None
    rows: Sequence[dict[str, Any]]
    result: Mapping[str, Any] | None = None


def report(found: Sequence[Measured], machine: Mapping[str, Any], version: str) -> str:
    """The page: of each network what engines took, where the time went, memory and graph; and the environment."""
    title = found[0].name if len(found) == 1 else f"{len(found)} networks"
    body = [f"<h1>{safe(title)}</h1>", f'<p class="soft">fastgraph {safe(version)}, {safe(machine.get("cpu", ""))}</p>']
    if len(found) > 1:
        body.append(_overview(found))
    for each in found:
        body.append(f"<h1>{safe(each.name)}</h1>" if len(found) > 1 else "")
        body += _network(each)
    rows = [("", ""), ("fastgraph", version), *facts(machine)]
    body += ["<h2>Environment</h2>", html_table(rows, head=False)]
    return page(f"fastgraph: {title}", "\n".join(body))


def _overview(found: Sequence[Measured]) -> str:
    """A line for each network: fastgraph's time, and ratios to the engines."""
    names = list(dict.fromkeys(row["name"] for each in found for row in _engines(each)[1:]))
    rows = [["network", "fastgraph p50 ms", *(f"/ {name}" for name in names)]]
    for each in found:
        engines = {row["name"]: row for row in _engines(each)}
        own = engines.get("fastgraph", {})
        ratios = [f"{engines[name]['ratio']:.3f}" if "ratio" in engines.get(name, {}) else "" for name in names]
        rows.append([each.name, f"{own['p50_ms']:.4f}" if own else "", *ratios])
    return html_table(rows, right=range(1, len(names) + 2))


def _engines(each: Measured) -> list[dict[str, Any]]:
    return [row for row in (each.result or {}).get("engines", []) if "unavailable" not in row]


def _network(each: Measured) -> list[str]:
    plan, rows = each.plan, each.rows
    parts = [cards(_headline(each))]
    if each.result is not None:
        parts += _compared(each.result)
    if plan is None:
        return parts
    if rows:
        parts += _time(plan, rows)
    parts += ["<h2>Arena</h2>", '<p class="soft">Which value lies where, from which step to which.</p>']
    parts.append(arena_svg(plan.program, plan.graph))
    parts += ["<h2>Graph</h2>", '<p class="soft">A line for each node as the plan has it; the darker, the longer.</p>']
    count = len(plan.graph.nodes)
    parts.append(details(counted(count, "node"), graph_svg(plan, rows), opened=count <= 60))
    return parts


def _headline(each: Measured) -> list[tuple[str, str]]:
    """The figures at the top."""
    found: list[tuple[str, str]] = []
    for row in _engines(each):
        if "ratio" in row:
            found.append((f"{row['ratio']:.2f}", f"of {row['name']}'s time"))
        else:
            found.append((f"{row['p50_ms']:.4g} ms", f"{row['name']}, median"))
    whole = total(each.rows)
    if each.rows:
        found.append((f"{whole['us'] * 1e-3:.4g} ms", f"in {counted(whole['steps'], 'step')}"))
    if whole["gmacs"] is not None:
        found.append((f"{whole['gmacs']:.1f}", "GMAC/s"))
    if whole["share"] is not None:
        found.append((f"{whole['share']:.0%}", "of the machine's limit"))
    if each.plan is not None:
        found.append((bytes_text(each.plan.arena_bytes), "arena"))
        constants = sum(array.nbytes for array in each.plan.program.constants)
        found.append((bytes_text(constants), "constants"))
    return found


# -- engines

_COLUMNS = (
    ("p50 ms", "p50_ms", ".4f"), ("p90 ms", "p90_ms", ".4f"), ("p99 ms", "p99_ms", ".4f"), ("min ms", "min_ms", ".4f"),
    ("load ms", "load_ms", ".1f"), ("first ms", "first_ms", ".2f"), ("per second", "per_second", ".1f"),
    ("ratio", "ratio", ".3f"),
)  # fmt: skip


def _compared(result: Mapping[str, Any]) -> list[str]:
    engines = [row for row in result["engines"] if "unavailable" not in row]
    columns = [each for each in _COLUMNS if any(row.get(each[1]) is not None for row in engines)]
    spread = any(row.get("ratio_interval") for row in engines)
    rows = [["engine", "version", "calls", *(title for title, *_ in columns), *["95 %"] * spread, "difference"]]
    for row in engines:
        cells = ["" if row.get(key) is None else format(row[key], form) for _, key, form in columns]
        low_high = row.get("ratio_interval")
        between = [f"{low_high[0]:.3f} to {low_high[1]:.3f}" if low_high else ""] * spread
        gap = "" if "difference" not in row else f"{row['difference']:.1e}"
        gap += "" if row.get("agrees", True) else " DISAGREES"
        rows.append([row["name"], row["version"], str(row["calls"]), *cells, *between, gap])
    parts = ["<h2>Engines</h2>", html_table(rows, right=range(2, len(rows[0])))]
    parts.append("<p class=\"soft\">ratio: fastgraph's time / the engine's, below 1 fastgraph is faster. ")
    threads = counted(result["threads"], "thread")
    parts.append(
        f"{safe(result['isa'])}, {threads}, {counted(result['rounds'], 'round')} in turns, on the same inputs.</p>"
    )
    parts += [
        f"<p>{safe(row['name'])}: {safe(row['unavailable'])}</p>" for row in result["engines"] if "unavailable" in row
    ]
    if said := disturbance.text(result["disturbance"]):
        noisy = "NOISY, figures mean little: " if result["disturbance"]["noisy"] else ""
        parts.append(f'<p class="{"bad" if noisy else "soft"}">{safe(noisy + said)}</p>')
    series = [(row["name"], samples(row)) for row in engines]
    if drawn := distributions([each for each in series if len(each[1]) > 1], "ms of a call"):
        parts += ["<h3>Latencies</h3>", drawn]
    return parts


def samples(row: Mapping[str, Any]) -> list[float]:
    """Milliseconds of an engine's calls, of as much as is kept: all, percentiles, or the medians of rounds."""
    if row.get("samples_ns"):
        return [1e-6 * ns for burst in row["samples_ns"] for ns in burst]
    return list(row.get("quantiles_ms") or row.get("medians_ms") or [])


# -- time


def _time(plan: Executable, rows: Sequence[dict[str, Any]]) -> list[str]:
    groups = sorted(by_operator(rows), key=lambda row: -row["us"])
    shades = {row["op"]: color(n) for n, row in enumerate(groups)}
    whole = total(rows)["us"] or 1.0
    parts = [
        "<h2>Time by operator</h2>",
        bars([_bar(row["op"], row, whole) for row in groups], colors=list(shades.values())),
    ]
    if said := shared(rows):
        parts.append(f'<p class="soft">{safe(said)}</p>')
    slowest = sorted(rows, key=lambda row: -row["us"])[:MOST_BARS]
    parts.append(f'<h2>Time by step</h2><p class="soft">{_of(len(slowest), len(rows))}</p>')
    labels = [f"{_number(row)}{shorten(row['result'] or row['node'], 34)}" for row in slowest]
    colors = [shades[row["op"] or row["kernel"]] for row in slowest]
    parts.append(bars([_bar(label, row, whole) for label, row in zip(labels, slowest, strict=True)], colors=colors))
    parts.append(details(f"all {counted(len(rows), 'step')}", html_table(*_table(rows, whole))))
    can = machine_peaks(plan.tier, plan.threads)
    if can is not None:
        parts += _roof(rows, can, shades, whole)
    return parts


def _number(row: Mapping[str, Any]) -> str:
    return "" if row["step"] is None else f"{row['step']} "


def _of(shown: int, there: int) -> str:
    return f"The {shown} slowest of {there}." if shown < there else "The slowest first."


def _bar(label: str, row: Mapping[str, Any], whole: float) -> tuple[str, float, str, str]:
    said = f"{row['us']:.1f} us, {row['us'] / whole:.1%}"
    said += "" if row["share"] is None else f", limit {row['share']:.0%}"
    title = f"{row.get('node', label)}: {row['op']} {row.get('type', '')} {row.get('kernel', '')}"
    return label, row["us"], said, title


def _table(rows: Sequence[dict[str, Any]], whole: float) -> tuple[list[tuple[str, ...]], Sequence[int]]:
    head = ("step", "op", "result", "type", *HEAD, "bound by", "kernel")
    cells = [
        (
            _number(row), row["op"], shorten(row["result"], 60), row["type"], *figures(row, {"us": whole}),
            row["bound"] or "", shorten(row["kernel"], 80),
        )
        for row in rows
    ]  # fmt: skip
    return [head, *cells], (0, 4, 5, 6, 7, 8)


def _roof(rows: Sequence[dict[str, Any]], can: MachinePeaks, shades: Mapping[str, str], whole: float) -> list[str]:
    """The roofline: each step that multiplies below what the machine can do."""
    dots = [
        Dot(row["macs"] / row["bytes"], row["gmacs"], 3 + 16 * (row["us"] / whole) ** 0.5, shades[row["op"]], _dot(row))
        for row in rows
        if row["gmacs"] and row["bytes"]
    ]
    rates = [(f"memory, {can.memory * 1e-9:.0f} GB/s", can.memory * 1e-9)]
    rates += [(f"{bytes_text(size)}, {rate * 1e-9:.0f} GB/s", rate * 1e-9) for size, rate in can.rates[:-1:2]]
    used = {row["unit"] for row in rows if row["macs"]} | {"f32"}
    peaks = [(unit, peak * 1e-9) for unit, peak in can.peaks.items() if unit in used]
    if not dots:
        return []
    said = "A dot for each step that multiplies, as large as its time; lines: this machine's peak, and what it moves "
    said += f"within working sets of a size: from memory {can.memory * 1e-9:.0f} GB/s. Measured with this page."
    named = ", ".join(f'<span style="color:{shade}">{safe(op)}</span>' for op, shade in list(shades.items())[:COLORS])
    return ["<h2>Roofline</h2>", f'<p class="soft">{said}</p><p>{named}</p>', roofline(dots, peaks, rates)]


def _dot(row: Mapping[str, Any]) -> str:
    return f"{_number(row)}{row['op']} {row['result']}: {row['gmacs']:.1f} GMAC/s, {row['us']:.1f} us, {row['kernel']}"
