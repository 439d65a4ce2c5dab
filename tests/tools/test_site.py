"""The pages of the site: what is made for it, that both sides of migrating.md give the same, and that errors which
troubleshooting.md names are ones that there are."""

import ast
import importlib.util
import re
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import fastgraph as fg
from docs import site
from tests.circle import write
from tests.mil.mil_write import Program
from tests.processes import python

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def sections() -> dict[str, list[tuple[str, str]]]:
    """By title of migrating.md its blocks: (title of the block, code)."""
    parts = re.split(r"^## (.+)$", (DOCS / "migrating.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    block = re.compile(r'^```python title="(\w+)"\n(.*?)^```', re.DOTALL | re.MULTILINE)
    return {title: block.findall(text) for title, text in zip(parts[::2], parts[1::2], strict=True)}


def networks(folder: Path) -> None:
    """y = relu(x) as each format."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4)) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "net.onnx")
    m = write.Model()
    (folder / "net.tflite").write_bytes(m.bytes(m.op("RELU", [m.input((1, 4), name="x")], [(1, 4)])))
    p = Program()
    p.output(p.op("relu", "y", x=p.input("x", (1, 4))))
    p.save(folder / "net.mlpackage")


@pytest.mark.parametrize("title", sections())
def test_both_sides_give_the_same(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    networks(tmp_path)
    (engine, theirs), (ours, code) = sections()[title]
    assert ours == "fastgraph"
    x = np.array([[-1, 2, 0, 3.5]], np.float32)
    names: dict[str, Any] = {"x": x}
    there = importlib.util.find_spec(engine) is not None and (engine != "coremltools" or sys.platform == "darwin")
    if there:
        exec(compile(theirs, title, "exec"), names)
        np.testing.assert_array_equal(names["y"], np.maximum(x, 0))
    compile(theirs, title, "exec")
    names = {"x": x}
    exec(compile(code, title, "exec"), names)
    np.testing.assert_array_equal(names["y"], np.maximum(x, 0))


@cache
def messages() -> str:
    """All texts of the sources, with {} for what is filled in."""
    found = []
    for path in (ROOT / "fastgraph").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def test_errors_that_are_named_are_ones_that_there_are() -> None:
    named = re.findall(r"^\| `(.+?)`", (DOCS / "troubleshooting.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) > 15
    assert not [text for text in named if text not in messages()]


def test_every_command_is_on_its_page() -> None:
    from fastgraph.cli import COMMANDS

    page = site.command_line()
    for module in COMMANDS:
        assert f"## fastgraph {module.__name__.rpartition('.')[2]}\n" in page
    assert "--allow-noise" in page and "--isa TIER" in page


def test_every_operator_is_on_its_page() -> None:
    page = site.operators()
    for name in ("Conv", "ImageDecoder", "CONV_2D", "scaled_dot_product_attention", "com.microsoft.MatMulNBits"):
        assert f"`{name}`" in page


def test_the_api_has_all_that_is_public() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    shown = {line.rpartition(".")[2] for line in page.splitlines() if line.startswith(":::")} | set(vars(fg.errors))
    assert not set(fg.__all__) - shown
    methods = re.findall(r"\w+", page.partition("members: [")[2].partition("]")[0])
    assert not [name for name in methods if not hasattr(fg.Model, name)]


def test_every_example_is_on_its_page() -> None:
    """By the line that puts a file's text there, which a formatter may take for Python, and change."""
    shown = re.findall(r'^--8<-- "(.+)"$', (DOCS / "examples.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(shown) == sorted(f"examples/{path.name}" for path in (DOCS / "examples").glob("*.py"))


def test_every_page_is_in_the_navigation_once() -> None:
    class Config:
        nav: list[Any] = []

    shown = [page for entry in site.on_config(Config).nav for page in ([entry] if isinstance(entry, str) else [
        page for pages in entry.values() for page in pages])]  # fmt: skip
    assert sorted(shown) == sorted([*(page.name for page in DOCS.glob("*.md")), *site.MADE])


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    if not all(importlib.util.find_spec(name) for name in ("mkdocs", "material", "mkdocstrings_handlers")):
        pytest.skip("mkdocs-material or mkdocstrings is not installed")
    where = ["-f", ".ci/mkdocs.yml", "-d", str(tmp_path / "site")]
    python("-m", "mkdocs", "build", "--strict", *where)
    page = (tmp_path / "site" / "api" / "index.html").read_text(encoding="utf-8")
    assert "fastgraph.loading.load" in page and "trusted" in page
    shutil.rmtree(tmp_path / "site")
