"""How many operators of each format have rules, counted: `python -m docs` writes it into README.md.

Needs the onnx package, whose schemas say which operators ONNX has.
"""

from __future__ import annotations

import csv
from pathlib import Path

import onnx

from fastgraph.frontends.circle.signatures import signature as circle_signature
from fastgraph.frontends.mil.signatures import find
from fastgraph.frontends.onnx.rules import _RULES, canonical
from fastgraph.frontends.onnx.signatures import signature
from fastgraph.ops import OPS
from fastgraph.schemas import circle, tflite

MIL = Path(__file__).parents[1] / "tests" / "mil" / "operators.csv"

Count = tuple[str, set[str], set[str]]
"""(of what, the names that there are, those of them that have rules)."""


def of_onnx() -> Count:
    """Operators of ai.onnx, in their newest form."""
    every = {s.name for s in onnx.defs.get_all_schemas() if not s.domain and not s.deprecated}
    done = {name for name in every if signature(name) and (name in _RULES or canonical(name) in OPS)}
    return f"ONNX operators (ai.onnx, operator sets 1 to {onnx.defs.onnx_opset_version()})", every, done


def of_circle(schema: object, title: str) -> Count:
    """Builtin operators of TensorFlow Lite, or of Circle."""
    every = set(schema.ENUMS["BuiltinOperator"][1].values()) - {"CUSTOM"}  # type: ignore[attr-defined]
    return title, every, {name for name in every if circle_signature(name) is not None}


def of_mil() -> Count:
    """Operators of MIL programs: coremltools' but for those that it only has while it converts."""
    with MIL.open(newline="") as file:
        every = {row["operator"] for row in csv.DictReader(file) if not row["state"].startswith("coremltools' own")}
    return "Core ML (MIL) operators, iOS 15 to 18", every, {n for n in every if n == "const" or find(n)}


def counts() -> list[Count]:
    return [
        of_onnx(),
        of_circle(tflite, "TensorFlow Lite builtin operators"),
        of_circle(circle, "Circle builtin operators"),
        of_mil(),
    ]


def text() -> str:
    """The table of README.md, and what is missing."""
    lines = ["| format | supported | of |", "|---|---|---|"]
    missing = []
    for title, every, done in counts():
        lines.append(f"| {title} | {len(done)} | {len(every)} |")
        missing += [f"`{name}` ({title.split()[0]})" for name in sorted(every - done)]
    return "\n".join([*lines, "", f"Missing: {', '.join(missing) or 'none'}."])
