"""A hook of MkDocs: pages that are made from the sources, so that they can't be out of date, and the navigation.

The command line is what --help prints, the operators are those that `docs.coverage` counts. Pages that `NAV` does not
know stand in its last part, so that a new file in docs/ needs no entry.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # MkDocs runs a hook as a file, not as a part of a package

LAST = "For those who carry on"
NAV: dict[str, tuple[str, ...]] = {
    "": ("index", "guide", "examples", "migrating", "porting", "quantize", "troubleshooting"),
    "Reference": ("api", "cli", "operators", "numerics", "determinism"),
    "In use": ("deploy", "custom", "profiling"),
    LAST: ("architecture", "glossary", "adding"),
}
"""Parts of the navigation, and their pages in order; of those, the ones that there are."""


def command_line() -> str:
    """The page of the command line: the help of each command."""
    from fastgraph.cli import DESCRIPTION, parser

    lines = ["# Command line", "", "What `fastgraph --help`, and `--help` of each command, print.", ""]
    lines += ["```text", DESCRIPTION.rstrip(), "```", ""]
    commands = next(a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, sub in commands.choices.items():
        lines += [f"## fastgraph {name}", "", "```text", sub.format_help().rstrip(), "```", ""]
    return "\n".join(lines)


def operators() -> str:
    """The page of formats and operators."""
    from docs.coverage import counts, text
    from fastgraph.frontends.onnx.contrib import CONTRIB

    lines = [
        "# Formats and operators", "",
        "Operators that have a rule here. Not every form of an operator need be supported by that: what is not is said",
        "when the file is loaded. `fastgraph inspect --host FILE` says what NumPy computes, since no kernel does.",
        "", text(), "",
    ]  # fmt: skip
    named = [(title, sorted(done)) for title, _, done in counts()]
    mine = [name if "." in name else f"com.microsoft.{name}" for name in CONTRIB]
    for title, names in [*named, ("Operators of onnxruntime's and other domains in ONNX files", sorted(mine))]:
        lines += [f"## {title}", "", ", ".join(f"`{name}`" for name in names), ""]
    return "\n".join(lines)


MADE = {"cli.md": command_line, "operators.md": operators}


def on_config(config: Any) -> Any:
    """The navigation over the pages that there are."""
    there = {page.stem for page in HERE.glob("*.md")} | {name.removesuffix(".md") for name in MADE}
    known = {name for names in NAV.values() for name in names}
    config.nav = []
    for part, names in NAV.items():
        rest = sorted(there - known) if part == LAST else []
        pages: list[Any] = [f"{name}.md" for name in (*names, *rest) if name in there]
        config.nav += [{part: pages}] if part else pages
    return config


def on_files(files: Any, config: Any) -> Any:
    """The pages that are made."""
    from mkdocs.structure.files import File

    for name, made in MADE.items():
        files.append(File.generated(config, name, content=made()))
    return files
