"""`fastgraph.tflite.install`: packages that import LiteRT's modules get fastgraph's, until `uninstall`."""

from __future__ import annotations

import subprocess
import sys

CHECK = """
import importlib.util, sys
from fastgraph import tflite
{before}
tflite.install()
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


def checked(before: str = "", after: str = "") -> None:
    subprocess.run([sys.executable, "-c", CHECK.format(before=before, after=after)], check=True)


def test_nothing_was_imported_before() -> None:
    checked()


def test_litert_was_imported_before() -> None:
    import pytest

    pytest.importorskip("ai_edge_litert.interpreter")
    checked("import ai_edge_litert.interpreter as own; first = own.Interpreter", "and real is first")
