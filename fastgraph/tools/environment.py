"""Where and how something was measured: machine, versions, command."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..kernels.isa.tiers import usable
from ..room import physical_memory
from ..text import bytes_text

SYSTEM = Path("/sys/devices/system/cpu")
PACKAGES = ("numpy", "numba", "llvmlite", "onnxruntime", "openvino", "ai-edge-litert")


def machine() -> dict[str, Any]:
    """`cpu`, its name; its usable `tiers`; `cpus`, how many; `governor`, `turbo`, and `mhz` with the current, least and
    greatest frequency, where the system tells them, else None; `hypervisor`, whether there is one (None: not known);
    `memory_bytes`; `system`, `python`, and `versions` of the packages that count.
    """
    known = _cpuinfo()
    return {
        "cpu": known.get("model name") or platform.processor(),
        "tiers": [tier.name for tier in usable()],
        "cpus": os.cpu_count(),
        "governor": _read("cpu0/cpufreq/scaling_governor"),
        "turbo": _turbo(),
        "mhz": _mhz(known),
        "hypervisor": "hypervisor" in known["flags"].split() if "flags" in known else None,
        "memory_bytes": physical_memory(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": _versions(),
    }


def facts(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The facts of `machine`, for people, under their titles."""
    mhz = found.get("mhz") or {}
    known = {what: f"{mhz[what]:,.0f}" for what in ("now", "min", "max") if mhz.get(what) is not None}
    speed = [f"{known['now']} MHz"] if "now" in known else []
    speed += [f"{known['min']} to {known['max']} MHz"] if {"min", "max"} <= known.keys() else []
    rows = [
        ("processor", found.get("cpu")),
        ("CPUs", found.get("cpus")),
        ("tiers", ", ".join(found.get("tiers") or [])),
        ("frequency", ", of ".join(speed)),
        ("its governor", found.get("governor")),
        ("turbo", _yes_or_no(found.get("turbo"), "on", "off")),
        ("virtual machine", _yes_or_no(found.get("hypervisor"), "yes", "no")),
        ("memory", bytes_text(found["memory_bytes"]) if found.get("memory_bytes") else ""),
        ("system", found.get("system")),
        ("Python", found.get("python")),
        ("packages", ", ".join(f"{name} {text}" for name, text in (found.get("versions") or {}).items())),
    ]
    return [(title, str(text)) for title, text in rows if text]


def _yes_or_no(known: bool | None, yes: str, no: str) -> str:
    return "" if known is None else yes if known else no


def invocation() -> dict[str, Any]:
    """`date` (UTC), the `command` line, and the `variables` FASTGRAPH_* that are set."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["fastgraph", *sys.argv[1:]]),
        "variables": {name: text for name, text in sorted(os.environ.items()) if name.startswith("FASTGRAPH_")},
    }


def _cpuinfo() -> dict[str, str]:
    """What Linux says of the first CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return {}
    return {name.strip(): text.strip() for name, _, text in (line.partition(":") for line in lines)}


def _read(name: str) -> str | None:
    try:
        return (SYSTEM / name).read_text().strip()
    except OSError:
        return None


def _turbo() -> bool | None:
    off, boost = _read("intel_pstate/no_turbo"), _read("cpufreq/boost")
    return off == "0" if off is not None else boost == "1" if boost is not None else None


def _mhz(known: dict[str, str]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for what, name in (("now", "scaling_cur_freq"), ("min", "cpuinfo_min_freq"), ("max", "cpuinfo_max_freq")):
        khz = _read(f"cpu0/cpufreq/{name}")
        found[what] = int(khz) / 1e3 if khz and khz.isdecimal() else None
    if found["now"] is None:
        with suppress(ValueError, KeyError):
            found["now"] = float(known["cpu MHz"])
    return found


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
