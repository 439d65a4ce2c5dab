"""Packages run their own examples with onnxruntime and with fastgraph in its place, and find the same."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.porting.packages import EXAMPLES

SCRIPT = Path(__file__).with_name("packages.py")


def found(name: str, *before: str) -> Any:
    env = os.environ | {"ORT_DISABLE_TELEMETRY": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, *before, str(SCRIPT), name], capture_output=True, text=True, env=env, timeout=600
    )
    lines = done.stderr.splitlines()
    if done.returncode and not before and lines[-1].startswith("ModuleNotFoundError"):
        pytest.skip(f"{name} is not installed with all that it needs: {lines[-1]}")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def close(one: Any, other: Any) -> bool:
    """Whether numbers, in lists and dicts, differ by little, and all else is equal."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, float | int):
        return abs(one - other) <= 2e-3 * max(1, abs(one))
    return one == other


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_package_finds_the_same(name):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    real = found(name)
    ours = found(name, "-m", "fastgraph.onnxruntime")
    assert (real["engine"], ours["engine"]) == ("onnxruntime", "fastgraph.onnxruntime")
    assert real["found"]
    assert close(real["found"], ours["found"]), f"{real['found']}\n{ours['found']}"
