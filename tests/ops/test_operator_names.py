"""Every operator that something in fastgraph/ is said of by name is one that is defined."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fastgraph
from fastgraph.frontends.mil.signature_table import TABLE
from fastgraph.frontends.mil.signatures import parsed
from fastgraph.ops import OPS
from fastgraph.passes import layout
from fastgraph.passes.quantized import dynamic_layer, integer_product
from fastgraph.plan.lower import LOWERINGS
from fastgraph.plan.lower.build import KEEP

ROOT = Path(fastgraph.__file__).parent

FIRST = {"add", "add_many", "write", "finish", "activate", "Node", "moved", "made_by", "_maker", "_finish",
         "_convolution", "_pool", "_global", "_channelwise", "several", "c", "g"}  # fmt: skip
"""Functions whose first argument that is a string names an operator."""
ALL = {"lowers"}
"""Those whose arguments do that are strings."""
OWNERS = {"state", "call", "c", "self", ""}
"""Whose methods they are, if they are any: sets have an `add` too."""


def literals(node: ast.AST) -> Iterator[str]:
    """The strings that an expression may be, or has as its elements."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from literals(node.body)
        yield from literals(node.orelse)
    elif isinstance(node, ast.Tuple | ast.Set | ast.List):
        for item in node.elts:
            yield from literals(item)


def named(source: str) -> Iterator[tuple[str, int]]:
    """(operator, line) where a file's code takes one by a name that stands there."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "op":
            yield from ((name, node.lineno) for side in node.comparators for name in literals(side))
        if isinstance(node, ast.Match) and isinstance(node.subject, ast.Attribute) and node.subject.attr == "op":
            parts = [p for case in node.cases for p in ast.walk(case.pattern) if isinstance(p, ast.MatchValue)]
            yield from ((name, p.lineno) for p in parts for name in literals(p.value))
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        owner = getattr(function.value, "id", "") if isinstance(function, ast.Attribute) else ""
        if called in FIRST and owner in OWNERS:
            found = [list(literals(argument)) for argument in node.args[:3]]
            yield from ((name, node.lineno) for name in next(filter(None, found), []))
        elif called in ALL:
            yield from ((name, node.lineno) for argument in node.args for name in literals(argument))


def files() -> list[Path]:
    """All but those that speak of kernels' records and of the command line."""
    others = ROOT / "plan" / "reach", ROOT / "tools" / "cli.py"
    return sorted(path for path in ROOT.rglob("*.py") if not any(path.is_relative_to(other) for other in others))


def of_a_format(name: str) -> bool:
    """Whether a file's format calls an operator so: circle's in capitals, ONNX's in camel case."""
    return name != name.lower()


def test_operators_named_in_code_are_defined() -> None:
    found = [(name, f"{path.relative_to(ROOT)}:{line}") for path in files() for name, line in named(path.read_text())]
    known = {*OPS, KEEP}
    assert not [where for where in found if where[0] not in known and not of_a_format(where[0])]
    assert len(found) > 700


@pytest.mark.parametrize(
    "code",
    [
        'node.op == "cumsum"', 'maker.op not in ("conv", "cumsum")', 'state.add("cumsum", [x], t, node)',
        'Node("cumsum", [x], [y])', 'state.made_by(x, "cumsum")', '@lowers("add", "cumsum")\ndef f(): ...',
        'moved(c, "cumsum" if x else "add", [y])', 'match node.op:\n    case "cumsum" | "add": ...',
    ],
)  # fmt: skip
def test_a_wrong_name_is_found(code: str) -> None:
    assert "cumsum" in {name for name, _ in named(code)}


def test_tables_name_operators_that_are_defined() -> None:
    assert set(LOWERINGS) <= set(OPS)
    assert set(layout.RULES) <= set(OPS)
    for table in (dynamic_layer.DYNAMIC, integer_product.REAL):
        assert {*table, *table.values()} <= set(OPS)


def test_rows_of_signatures_name_operators_and_attributes_that_are_defined() -> None:
    rows = [said for _, said in parsed(TABLE)]
    assert len(rows) > 60
    for said in rows:
        assert {*said.constants, *(p.attribute for p in said.attributes)} <= set(OPS[said.op].attrs), said
