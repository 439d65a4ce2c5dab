"""`fastgraph.tflite.install`: packages that import LiteRT's modules get fastgraph's, until `uninstall`."""

import subprocess
import sys
from pathlib import Path

from tests.processes import python

CHECK = """
import importlib.util, sys
from fastgraph import tflite
{before}
tflite.install()
import tflite_runtime.interpreter as one
from tflite_runtime.interpreter import Interpreter, load_delegate
from tflite_runtime import interpreter as two
import ai_edge_litert.interpreter
from ai_edge_litert.interpreter import Interpreter as Other
assert one.Interpreter is Interpreter is two.Interpreter is Other is tflite.Interpreter
assert ai_edge_litert.interpreter.Interpreter is tflite.Interpreter
assert importlib.util.find_spec("tflite_runtime") and importlib.util.find_spec("tflite_runtime.interpreter")
tflite.uninstall()
assert "tflite_runtime" not in sys.modules and "tflite_runtime.interpreter" not in sys.modules
try:
    from ai_edge_litert.interpreter import Interpreter as real
    assert real is not tflite.Interpreter {after}
except ImportError:
    pass
tflite.uninstall()
"""


BEFORE = """
import ai_edge_litert.interpreter as own
first = own.Interpreter
try:
    tflite.install()
    raise SystemExit("not refused")
except __import__("fastgraph").FastgraphError as error:
    assert "install(force=True)" in str(error)
assert own.Interpreter is first and "tflite_runtime" not in sys.modules
tflite.install(force=True)
"""


def checked(before: str = "", after: str = "") -> None:
    python("-c", CHECK.format(before=before, after=after))


def test_nothing_was_imported_before() -> None:
    checked()


def test_litert_was_imported_before() -> None:
    import pytest

    pytest.importorskip("ai_edge_litert.interpreter")
    checked(BEFORE, "and real is first")


def test_a_script_runs_with_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys, tflite_runtime.interpreter as t\nprint(t.Interpreter.__module__, sys.argv[1:])\n")
    command = [sys.executable, "-m", "fastgraph.tflite"]
    said = subprocess.run([*command, str(script), "a"], check=True, capture_output=True, text=True).stdout
    assert said == "fastgraph.tflite.interpreter ['a']\n"
    assert "script.py arguments" in subprocess.run(command, capture_output=True, text=True).stderr
