"""Distributions made of a copy of the tree, with this interpreter's setuptools."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def copied(to: Path) -> Path:
    """A copy of what is installed, so that no build directory stays behind."""
    for name in ("fastgraph", "kernels", "schemas"):
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md"):
        shutil.copy(ROOT / name, to)
    return to


def built(kind: str, source: Path, out: Path, ready: str = "") -> Path:
    """The wheel, or editable one, of such a copy, which carries kernels of the tiers in `ready`.

    subprocess.CalledProcessError where that fails.
    """
    pytest.importorskip("setuptools", minversion="77")
    code = f"from setuptools.build_meta import build_{kind} as build; print(build({str(out)!r}))"
    env = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"} | {"FASTGRAPH_READY": ready}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=source, env=env, check=True, capture_output=True, text=True, timeout=600
    )
    return out / done.stdout.splitlines()[-1]
