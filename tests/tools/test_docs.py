"""What docs/ shows is done, and what pages name is there; adding.md's blocks are carried out in a copy of the tree."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from docs.imports import picture
from docs.pages import ARCHITECTURE
from fastgraph.cli import main
from fastgraph.demo import MODEL, held_out
from tests.processes import python
from tests.tools.test_site import networks

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
ADDING = ROOT / "docs" / "adding.md"
"""The page whose blocks go into files."""
NEEDS = {"scale-out": ("ray.data", "ray.serve"), "quantize": ("onnxruntime",), "profiling": ("pytest_benchmark",)}
"""Packages of blocks that are called py, by page."""


def blocks(page: Path, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def put(tree: Path, head: str, code: str) -> None:
    """Write a block into the file that its first line names, where that says."""
    name, where = head.removeprefix("# ").split(", ", 1)
    path = tree / name
    lines = [] if where == "new" else path.read_text(encoding="utf-8").splitlines(keepends=True)
    assert where != "new" or not path.exists()
    if where in ("new", "at the end"):
        at = len(lines)
    elif where == "before the last line":
        at = len(lines) - 1
    else:
        start = where.removeprefix("before the line: ")
        (at, *_) = [i for i, line in enumerate(lines) if line.strip().startswith(start)]
    path.write_text("".join([*lines[:at], code, *lines[at:]]), encoding="utf-8")


@pytest.mark.slow
def test_what_is_to_be_added_can_be(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for folder in ("docs", "fastgraph", "kernels", "schemas", "tests"):
        ignore = shutil.ignore_patterns("__pycache__", "*.tar.xz")
        shutil.copytree(ROOT / folder, tree / folder, symlinks=True, ignore=ignore)
    env = {"PYTHONPATH": str(tree), "FASTGRAPH_CACHE_DIR": str(tmp_path / "cache")}
    tried = 0
    for block in blocks(ADDING, "(?:python)?"):
        head, _, code = block.partition("\n")
        if head.startswith("# ") and head != "# try":
            put(tree, head, code)
            continue
        command = ["-c", code] if head == "# try" else shlex.split(head)[1:]
        python(*command, cwd=tree, **env)
        tried += 1
    assert tried >= 5


@pytest.mark.parametrize("page", [page for page in PAGES if page != ADDING], ids=lambda page: page.stem)
def test_the_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page):
        exec(compile(block, page.name, "exec"), names)


def files(folder: Path) -> None:
    """What the pages' commands, and blocks that need more than fastgraph, take for granted."""
    networks(folder)
    shutil.copyfile(MODEL, folder / "net.onnx")
    np.savez(folder / "samples.npz", image=held_out()[0][:60])
    (folder / "script.py").write_text("import onnxruntime; onnxruntime.InferenceSession('net.onnx')")


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "py")], ids=lambda page: page.stem)
def test_the_python_that_needs_packages_runs(page: Path, tmp_path: Path) -> None:
    """Where they are installed. In a process of its own, as modules take the place of others."""
    for package in NEEDS.get(page.stem, ()):
        pytest.importorskip(package)
    files(tmp_path)
    code = "import numpy as np\nx = np.ones((1, 4), np.float32)\n" + "\n".join(blocks(page, "py"))
    python("-c", code, cwd=tmp_path, PYTHONPATH=str(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "sh")], ids=lambda page: page.stem)
def test_the_commands_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand there, but for those that compile for long; the machine may be busy."""
    monkeypatch.chdir(tmp_path)
    files(tmp_path)
    for line in "".join(blocks(page, "sh")).splitlines():
        words = shlex.split(line, comments=True)
        if words[0] == "python":
            monkeypatch.setenv("PYTHONPATH", str(ROOT))
            subprocess.run([sys.executable, *words[1:]], check=True)
        elif words[0] == "fastgraph" and not {"--build", "--isa"} & {*words}:
            if "quantize" in words:
                pytest.importorskip("onnxruntime")
            assert main(words[1:] + ["--allow-noise"] * (words[1] == "bench")) == 0, line


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("*.md")], ids=lambda page: page.stem)
def test_the_places_it_names_are_there(page: Path) -> None:
    folders = "fastgraph|kernels|schemas|bench|tests|docs|\\.ci"
    for place in re.findall(rf"`((?:{folders})/[\w./*]*)`", page.read_text(encoding="utf-8")):
        assert list(ROOT.glob(place.rstrip("/"))), f"{page.name} names {place}, which is not there"


def test_the_picture_of_imports_is_what_they_are() -> None:
    (shown,) = blocks(ARCHITECTURE, "mermaid")
    assert shown.strip() == picture(), "python -m docs makes it"


def test_pages_link_to_what_there_is() -> None:
    for page in [*PAGES, *ROOT.glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_the_commands_are_ones_that_there_are() -> None:
    from fastgraph.cli import parser

    for page in PAGES:
        for line in "".join(blocks(page, "sh")).splitlines():
            if line.startswith("fastgraph "):
                parser().parse_args(shlex.split(line)[1:])
