"""fastgraph.onnxruntime in the place of onnxruntime, in processes of their own."""

import os
import sys
from pathlib import Path

import pytest

from tests.processes import python

BLOCK = """
import sys
from importlib import metadata
from importlib.machinery import PathFinder

class Hidden:
    "Where onnxruntime is not installed."
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "onnxruntime":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden)
spec, version = PathFinder.find_spec, metadata.Distribution.from_name
PathFinder.find_spec = classmethod(lambda cls, name, path=None, target=None:
    None if name == "onnxruntime" else spec(name, path, target))
MetadataFinder = next(f for f in sys.meta_path if f is PathFinder)
found = PathFinder.find_distributions
PathFinder.find_distributions = staticmethod(lambda context=None:
    () if getattr(context, "name", None) == "onnxruntime" else found(context))
"""


def run(code: str, *arguments: str) -> str:
    path = os.pathsep.join(filter(None, sys.path))
    return python(*(arguments or ("-c", code)), ORT_DISABLE_TELEMETRY="1", PYTHONPATH=path)


def test_all_ways_to_import_give_it():
    run("""
import fastgraph.onnxruntime as f
f.install()
f.install()
import onnxruntime, onnxruntime as rt
import onnxruntime.capi.onnxruntime_pybind11_state as C
from onnxruntime import InferenceSession, SessionOptions, GraphOptimizationLevel
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, NoSuchFile
from onnxruntime.capi.onnxruntime_inference_collection import InferenceSession as Again, OrtValue
from onnxruntime.capi._pybind_state import get_all_providers
from onnxruntime.capi import _pybind_state
import importlib.util
assert onnxruntime is rt is f and InferenceSession is Again is f.InferenceSession and OrtValue is f.OrtValue
assert C.InvalidArgument is InvalidArgument and _pybind_state.InvalidArgument is InvalidArgument
assert importlib.util.find_spec("onnxruntime") is not None
try:
    InferenceSession("/nowhere.onnx")
except NoSuchFile as error:
    assert "/nowhere.onnx" in str(error)
""")


def test_uninstalled_the_real_one_comes_back():
    run("""
import sys
import fastgraph.onnxruntime as f
f.uninstall()
f.install()
import onnxruntime
assert onnxruntime is f
path = list(f.__path__)
f.uninstall()
assert len(f.__path__) == 1 < len(path)
import onnxruntime
assert onnxruntime is not f and onnxruntime.__file__ != f.__file__
assert not any(getattr(m, "__name__", "").startswith("fastgraph") for n, m in sys.modules.items() if n.startswith("onnxruntime"))
from onnxruntime.capi import onnxruntime_pybind11_state
assert onnxruntime_pybind11_state.InferenceSession is not f.InferenceSession
""")  # noqa: E501


def test_it_is_refused_where_onnxruntime_is_in_use_unless_forced():
    run("""
import onnxruntime as real
import fastgraph, fastgraph.onnxruntime as f
try:
    f.install()
except fastgraph.FastgraphError as error:
    assert "imported already" in str(error) and real.__file__ in str(error) and "force=True" in str(error)
else:
    raise AssertionError
import onnxruntime
assert onnxruntime is real
f.install(force=True)
import onnxruntime
assert onnxruntime is f and real.InferenceSession is not f.InferenceSession
f.uninstall()
import onnxruntime
assert onnxruntime is real
""")


def test_parts_in_python_of_the_real_one_can_be_used():
    run("""
import fastgraph.onnxruntime as f
f.install()
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
from onnxruntime.quantization import calibrate
assert calibrate.onnxruntime is f
""")


def test_without_onnxruntime_its_version_is_known_to_packages():
    run(
        BLOCK
        + """
from importlib import metadata
try:
    metadata.version("onnxruntime")
except metadata.PackageNotFoundError:
    pass
else:
    raise AssertionError("not hidden")
import fastgraph.onnxruntime as f
f.install()
import onnxruntime
assert onnxruntime is f
assert metadata.version("onnxruntime") == f.__version__ == onnxruntime.__version__
assert metadata.version("numpy")
f.uninstall()
try:
    metadata.version("onnxruntime")
except metadata.PackageNotFoundError:
    pass
else:
    raise AssertionError("left behind")
"""
    )


@pytest.mark.parametrize("way", ["script", "module"])
def test_a_script_runs_without_being_edited(tmp_path: Path, way):
    script = tmp_path / "asks.py"
    script.write_text(
        "import sys, onnxruntime\nimport beside\n"
        "print(__name__, onnxruntime.InferenceSession.__module__, sys.argv[1:], beside.x)\n"
    )
    (tmp_path / "beside.py").write_text("x = 3\n")
    if way == "script":
        said = run("", "-m", "fastgraph.onnxruntime", str(script), "a", "-b")
    else:
        sys.path.append(str(tmp_path))
        said = run("", "-m", "fastgraph.onnxruntime", "-m", "asks", "a", "-b")
        sys.path.remove(str(tmp_path))
    assert said.split() == ["__main__", "fastgraph.onnxruntime.session", "['a',", "'-b']", "3"]


def test_nothing_is_replaced_unless_asked_for():
    run("""
import sys
import fastgraph, fastgraph.onnxruntime
assert "onnxruntime" not in sys.modules
""")
