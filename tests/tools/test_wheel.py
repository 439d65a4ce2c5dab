"""The wheel: all that is needed is in it, nothing else. It works from anywhere, as do a checkout and a link to one."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.processes import python
from tests.wheels import built, copied

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", checkout, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sites(checkout: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders in which packages are installed, and a checkout itself."""
    made = tmp_path_factory.mktemp
    found = {"checkout": checkout, "wheel": made("site"), "editable": made("link")}
    link = built("editable", checkout, made("editable"))
    for kind, archive in (("wheel", wheel), ("editable", link)):
        with ZipFile(archive) as opened:
            opened.extractall(found[kind])
    return found


def test_it_is_pure_python_for_any_platform(wheel: Path) -> None:
    assert re.fullmatch(r"fastgraph_runtime-[\d.]+-py3-none-any\.whl", wheel.name)
    assert wheel.stat().st_size < 2_000_000


def test_every_source_file_is_in_it_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {path.relative_to(ROOT).as_posix() for path in (ROOT / "fastgraph").rglob("*.py")}
    for package in ("kernels", "schemas"):
        expected |= {f"fastgraph/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / package).rglob("*.py")}
    data = {f"fastgraph/demo/digits.{end}" for end in ("onnx", "npz")}
    schemas = ("onnx.proto", "onnx.desc", "MIL.proto", "CoreML.proto", "mil.desc")
    data |= {f"fastgraph/schemas/{name}" for name in schemas} | {"fastgraph/py.typed"}
    assert names == expected | data


def test_what_it_asks_for_is_what_it_needs(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        lines = archive.read(name).decode().splitlines()
    needs = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    always = {need.split(">")[0].split("<")[0].strip() for need in needs if "extra ==" not in need}
    assert always == {"numpy", "numba", "protobuf", "flatbuffers"}


USE = """
import sys, site
site.addsitedir(sys.argv[1])
import fastgraph, fastgraph.kernels.isa, fastgraph.schemas.fbs
from fastgraph.cli import main
print(fastgraph.__file__)
print(fastgraph.kernels.__file__)
main(["digits"])
"""


@pytest.mark.parametrize("kind, within, source", [
    ("checkout", "", "checkout"), ("checkout", "checkout", "checkout"), ("editable", "", "checkout"),
    ("editable", "checkout", "checkout"), ("wheel", "", "wheel"), ("wheel", "checkout", "checkout"),
])  # fmt: skip
def test_it_works_from_any_directory(
    kind: str, within: str, source: str, sites: dict[str, Path], tmp_path: Path
) -> None:
    """As it lies there, linked, or installed; in a checkout, what lies there is found first. Without this
    interpreter's own packages but for the ones that fastgraph needs.
    """
    path = [str(sites[kind])] + [sysconfig.get_paths()[name] for name in ("purelib", "platlib")]
    where = sites[within] if within else tmp_path

    def run(*arguments: str) -> list[str]:
        said = python("-S", *arguments, cwd=where, timeout=120, PYTHONPATH=os.pathsep.join(path))
        return said.splitlines()

    package, kernels, *rest = run("-c", USE, str(sites[kind] if kind == "editable" else tmp_path))
    assert Path(package).is_relative_to(sites[source]) and Path(kernels).is_relative_to(sites[source])
    assert rest[0].startswith("accuracy") and float(rest[0].split()[1].rstrip("%")) >= 97
    if kind != "editable":
        assert run("-m", "fastgraph", "--version")[0].startswith("fastgraph ")


TYPED = """
import numpy as np
import fastgraph as fg

model = fg.load("net.onnx", threads=2)
x = np.zeros((1, 3), np.float32)
reveal_type(model)
reveal_type(model.execute)
reveal_type(model.run({"x": x}))
reveal_type(model(x))
reveal_type(model.input("x"))
reveal_type(model.inputs[0].shape)
reveal_type(fg.verify(model, {"x": x}).ok)
reveal_type(fg.Plans(count=2))
reveal_type(fg.InputError("x").args)
fg.lod("net.onnx")
model.thread
fg.load("net.onnx", threads="2")
"""

REVEALED = [
    "fastgraph.runtime.model.Model", "def () -> object", "dict[str, numpy.ndarray", "numpy.ndarray", "numpy.ndarray",
    "tuple[int | str | None, ...] | None", "bool", "fastgraph.runtime.plans.Plans", "tuple[Any, ...]",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_type_checkers_see_its_types(kind: str, sites: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    venv.create(tmp_path / "venv", symlinks=os.name != "nt")
    python = next(path for path in (tmp_path / "venv").glob("*/python*") if path.stem == "python")
    (packages,) = (tmp_path / "venv").rglob("site-packages")
    shutil.copytree(sites[kind], packages, dirs_exist_ok=True)
    (packages / "zz_others.pth").write_text(sysconfig.get_paths()["purelib"])  # NumPy's
    (tmp_path / "typed.py").write_text(TYPED)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--python-executable", python, "--cache-dir", tmp_path / "cache", "typed.py"],
        cwd=tmp_path, env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"}, capture_output=True, text=True,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    found = [line.partition('type is "')[2] for line in lines if "Revealed type" in line]
    assert len(found) == len(REVEALED) and all(map(str.startswith, found, REVEALED)), done.stdout + done.stderr
    errors = [line.split("[")[-1] for line in lines if ": error:" in line]
    assert errors == ["attr-defined]", "attr-defined]", "arg-type]"], done.stdout
