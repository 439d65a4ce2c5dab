"""Kernels are written in their language: values compute, and what is traced takes few operands."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import fastgraph.kernels

FOLDER = Path(fastgraph.kernels.__file__).parent
BUILDER = re.compile(
    r"\b(?:b|builder\(\))\.(?:add|sub|mul|[us]div|[us]rem|fadd|fsub|fmul|fdiv|fneg|neg|and_|or_|xor|not_|shl|lshr|ashr|"
    r"icmp_\w+|fcmp_\w+|select|zext|sext|trunc|[us]itofp|fpto[us]i|fpext|fptrunc|bitcast|inttoptr|ptrtoint)\("
)
OPERANDS = 8


def sources() -> Iterator[tuple[str, str]]:
    """(place, text) of what is no part of the language or of an instruction set."""
    for path in sorted(FOLDER.rglob("*.py")):
        place = path.relative_to(FOLDER)
        if place.parts[0] not in ("lang", "isa"):
            yield str(place), path.read_text(encoding="utf-8")


def test_kernels_compute_with_values() -> None:
    found = {place: count for place, text in sources() if (count := len(BUILDER.findall(text)))}
    assert found == {"core/primitives.py": 1}


def test_traced_functions_have_few_operands() -> None:
    wrong = []
    for place, text in sources():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and any("traced" in ast.dump(each) for each in node.decorator_list):
                count = len(node.args.args) + len(node.args.kwonlyargs)
                if count > OPERANDS:
                    wrong.append(f"{place}:{node.lineno}: {node.name} has {count} operands")
    assert not wrong, "\n".join(wrong)
