"""The wheel: all that is needed is in it, nothing else. It works from anywhere, as do a checkout and a link to one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is installed, so that no build directory stays behind."""
    source = tmp_path_factory.mktemp("source")
    for name in ("fastgraph", "kernels", "schemas"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    return source


def built(kind: str, source: Path, out: Path) -> Path:
    pytest.importorskip("setuptools", minversion="77")
    code = f"from setuptools.build_meta import build_{kind}; build_{kind}({str(out)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=source, check=True, capture_output=True, timeout=120)
    (found,) = out.glob("*.whl")
    return found


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
    assert wheel.name.endswith("-py3-none-any.whl")
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
    assert always == {"numpy", "llvmlite", "protobuf", "flatbuffers"}


USE = """
import sys, site
site.addsitedir(sys.argv[1])
import fastgraph, fastgraph.kernels.isa, fastgraph.schemas.fbs
from fastgraph.tools.cli import main
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
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    where = sites[within] if within else tmp_path

    def run(*arguments: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-S", *arguments], cwd=where, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    package, kernels, *rest = run("-c", USE, str(sites[kind] if kind == "editable" else tmp_path))
    assert Path(package).is_relative_to(sites[source]) and Path(kernels).is_relative_to(sites[source])
    assert rest[0].startswith("accuracy") and float(rest[0].split()[1].rstrip("%")) >= 97
    if kind != "editable":
        assert run("-m", "fastgraph", "--version")[0].startswith("fastgraph ")
