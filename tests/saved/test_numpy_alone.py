"""Where only NumPy is installed, saved programs run."""

import shutil
import subprocess
import venv
from pathlib import Path

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.demo import MODEL
from tests.nets import I64, Net, feeds_for
from tests.plan.control_nets import until
from tests.processes import python
from tests.saved.common import backwards, found_rows, random_feeds
from tests.wheels import built, copied

CODE = """
import importlib.util, sys
import numpy as np
import fastgraph as fg
for path in sys.argv[1:]:
    model = fg.load(path, threads=2, trusted=True)
    with np.load(path + ".feeds.npz") as feeds, np.load(path + ".results.npz") as expected:
        found = model.run(dict(feeds))
        assert list(found) == list(expected)
        for name, array in found.items():
            assert array.dtype == expected[name].dtype and array.tobytes() == expected[name].tobytes(), (path, name)
    model.clone().run(dict(np.load(path + ".feeds.npz")))
    try:
        fg.load(b"\\x08\\x07")
    except fg.FastgraphError:
        pass
    else:
        raise AssertionError
missing = "numba", "llvmlite", "google", "flatbuffers"
print([name for name in missing if name in sys.modules], [name for name in missing if importlib.util.find_spec(name)])
"""


def host() -> Net:
    """Results whose extents depend on data, some by NumPy."""
    net = Net()
    x = net.input("x", (60, 50))
    net.output(net("NonZero", net("Relu", x)), backwards(net, x), dtype=I64)
    net.output(net("Unique", x), net("Softmax", x))
    return net


def open_net() -> Net:
    net = Net()
    net.output(net("MatMul", net.input("x", ("n", 4)), net.weight(4, 3)))
    return net


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Saved programs, each with feeds and results beside it."""
    folder = tmp_path_factory.mktemp("programs")
    models = {"digits": fg.load(MODEL, threads=2), "host": host().load(), "until": until().load()}
    models["open"] = open_net().load(shapes={"x": (3, 4)})
    models["rows"] = found_rows().load(shapes={"x": (30, 4)})
    for name, model in models.items():
        feeds = random_feeds(model) if name == "until" else feeds_for(model)
        np.savez(folder / f"{name}.fgm.feeds.npz", **feeds)
        np.savez(folder / f"{name}.fgm.results.npz", **model.run(feeds))
        model.save(folder / f"{name}.fgm")
    return [str(folder / f"{name}.fgm") for name in models]


def test_they_are_not_imported(files: list[str]) -> None:
    """Where they are installed: a process that can't find them."""
    block = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite", "google", "flatbuffers"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
"""
    code = block + CODE.replace("if importlib.util.find_spec(name)", "if False")
    assert python("-c", code, *files) == "[] []\n"


@pytest.mark.slow
def test_they_are_not_installed(files: list[str], tmp_path: Path) -> None:
    """In an environment of NumPy's own; the package takes at most 6 MB there."""
    wheel = built("wheel", copied(tmp_path / "copy"), tmp_path)
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    for part in Path(np.__file__).parents[1].glob("numpy*"):
        if part.is_dir():
            shutil.copytree(part, site / part.name)
    pip = [str(python), "-m", "pip", "install", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    size = sum(path.stat().st_size for path in (site / "fastgraph").rglob("*") if path.is_file())
    assert size < 6e6
    done = subprocess.run([str(python), "-c", CODE, *files], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "[] []\n", done.stderr
