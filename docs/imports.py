"""Who imports whom: the folders in layers, held against the sources, and as a picture.

python docs/imports.py            # a mermaid flowchart; an arrow says "imports"; those that follow are left out
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = {"fastgraph": "fastgraph", "fastgraph.kernels": "kernels", "fastgraph.schemas": "schemas"}
"""Where the modules of a package lie in a checkout."""

BASE = (
    "errors", "text", "room", "limits", "deadline", "disturbance", "locks", "cpus", "freedoms", "families", "named",
    "settings",
    "scripts", "page", "svg",
)  # fmt: skip
"""Small modules of `fastgraph/` that everybody may use; together they count as the folder `base`."""

KERNELS = ("kernels.lang", "kernels.isa", "kernels.core")
FAMILIES = (
    "kernels.move", "kernels.pointwise", "kernels.gemm", "kernels.amx", "kernels.window", "kernels.recurrent",
    "kernels.attention",
)  # fmt: skip
FORMATS = ("frontends.onnx", "frontends.circle", "frontends.mil")

LAYERS: dict[str, tuple[str, ...]] = {
    "base": (),
    "fastgraph": ("base",),
    "schemas": (),
    "kernels": (),
    "kernels.lang": (),
    "kernels.isa": ("kernels.lang",),
    "kernels.core": ("kernels.lang", "kernels.isa"),
    "kernels.move": KERNELS,
    "kernels.pointwise": (*KERNELS, "kernels.move"),
    "kernels.gemm": (*KERNELS, "kernels.move", "kernels.pointwise"),
    "kernels.amx": (*KERNELS, "kernels.pointwise", "kernels.gemm"),
    "kernels.window": (*KERNELS, "kernels.move", "kernels.pointwise", "kernels.gemm"),
    "kernels.recurrent": (*KERNELS, "kernels.gemm"),
    "kernels.attention": (*KERNELS, "kernels.move", "kernels.gemm", "kernels.amx"),
    "ir": ("base",),
    "ops": ("base", "ir", "kernels.move", "kernels.pointwise"),
    "frontends.core": ("base", "schemas", "ir", "ops"),
    **{name: ("base", "ir", "ops", "frontends.core") for name in FORMATS},
    "frontends": ("base", "ir", "frontends.core", *FORMATS),
    "rules": ("base", "ir", "ops"),
    "passes": ("base", "ir", "ops", "rules"),
    "plan": ("base", "ir", "ops", *KERNELS, *FAMILIES),
    "extras": ("base", "ir", "ops", "rules", *KERNELS, *FAMILIES, "plan"),
    "objects": ("base", "kernels", *KERNELS),
    "saved": ("base", "ir", "objects"),
    "shared": ("base", "ir", *KERNELS, "passes"),
    "compile": ("base", "ir", *KERNELS, "passes", "plan", "objects", "shared"),
    "runtime": ("base", "fastgraph", "ir", "ops", *KERNELS, "passes", "plan", "objects", "shared", "compile", "saved"),
    "loading": ("base", "ir", "kernels.isa", "frontends", "runtime", "saved"),
    "onnxruntime": ("base", "fastgraph", "frontends", "frontends.core", "frontends.onnx", "runtime", "saved",
                    "loading"),
    "demo": ("base", "kernels.isa", "plan", "runtime", "loading"),
    "tools": ("base", "ir", "ops", *KERNELS, "frontends", *FORMATS, "rules", "passes",
              "plan", "objects", "saved", "shared", "compile", "runtime",
              "loading", "fastgraph", "demo"),
    "ray": ("base", "fastgraph", "kernels.isa", "objects", "saved", "runtime", "loading"),
    "testing": ("base", "fastgraph", "plan", "runtime", "loading", "tools"),
    "quantize": ("base", "runtime", "loading", "tools"),
    "commands": ("base", "fastgraph", "ir", "kernels.isa", "runtime", "loading", "demo", "tools", "quantize"),
    "cli": ("base", "fastgraph", "commands"),
    "tflite": ("base", "ir", "frontends", "frontends.circle", "kernels.isa", "runtime", "loading"),
    "backend": ("base", "frontends.onnx", "runtime", "loading"),
    "__main__": ("cli",),
}  # fmt: skip
"""Each folder or module of `fastgraph`, and those that its modules may import. They stand before it, so there are no
circles. `fastgraph` itself imports its API when it is first asked for.
"""


def modules() -> dict[str, Path]:
    """Every module's name and file."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join((package, *(part for part in parts if part != "__init__")))] = path
    return found


def imports() -> dict[str, set[str]]:
    """By module, the modules of fastgraph that it imports, within functions too; not what only type checkers see."""
    every = modules()
    graph = {}
    for name, path in every.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        named = _named(ast.parse(path.read_text("utf-8")), package)
        # Of `from a import b`, a is meant where a.b is no module.
        graph[name] = {n if n in every else n.rpartition(".")[0] for n in named} & set(every) - {name}
    return graph


def _named(tree: ast.AST, package: str) -> Iterator[str]:
    """What the import statements of a module of `package` name, as `a.b` for `from a import b`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{source}.{alias.name}" for alias in node.names)
        yield from _named(node, package)


def folder(module: str) -> str:
    """The longest name in LAYERS that the module lies under."""
    parts = module.split(".")[1:] or ["fastgraph"]
    if parts[0] in BASE:
        return "base"
    return next((name for n in (2, 1) if (name := ".".join(parts[:n])) in LAYERS), parts[0])


def arrows() -> dict[tuple[str, str], list[str]]:
    """Between different folders: the imports "module -> module" that make one know the other."""
    found: dict[tuple[str, str], list[str]] = {}
    for module, others in imports().items():
        for other in sorted(others):
            ends = folder(module), folder(other)
            if ends[0] != ends[1]:
                found.setdefault(ends, []).append(f"{module} -> {other}")
    return found


def picture() -> str:
    """The arrows between folders as a mermaid flowchart; those that follow from others are left out."""
    direct: dict[str, set[str]] = {name: set() for name in LAYERS}
    for one, other in arrows():
        direct[one].add(other)
    below: dict[str, set[str]] = {}
    for name in LAYERS:
        below[name] = direct[name].union(*(below[other] for other in direct[name]))
    lines = ["flowchart TD"]
    for name in reversed(LAYERS):
        followed = set().union(*(below[other] for other in direct[name]))
        lines += [f"    {name} --> {other}" for other in LAYERS if other in direct[name] - followed]
    return "\n".join(lines)


if __name__ == "__main__":
    print(picture())
