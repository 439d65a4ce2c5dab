"""`fastgraph compile`, and what `fastgraph inspect` says of a saved program: it reads the file, and runs none of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import FileError, InputError, MissingFileError
from ..frontends import read
from ..ir import Graph, TensorType, Value
from ..loading import load
from ..runtime.model import TensorSpec
from ..saved.codec import decoded
from ..saved.container import Container, opened
from ..saved.source import saved_in
from ..text import bytes_text, table
from .feeds import parse_shapes

Shapes = dict[str, tuple[int, ...]]


def shape_sets(texts: Sequence[str]) -> list[Shapes]:
    """Sets of shapes of ["x=1,3", "y=2", "x=4,3"]: a name that comes again begins another set, whose other shapes are
    those of the set before.
    """
    sets: list[Shapes] = []
    named: set[str] = set()
    for text in texts:
        ((name, shape),) = parse_shapes([text]).items()
        if not sets or name in named:
            sets.append(dict(sets[-1]) if sets else {})
            named = set()
        named.add(name)
        sets[-1][name] = shape
    return sets


def counts(text: str) -> list[int]:
    """[1, 2] of "1,2". InputError for anything else."""
    found = [int(part) for part in text.split(",") if part.strip().isdecimal()]
    if len(found) != len(text.split(",")) or 0 in found:
        raise InputError(f"--threads {text}: expected whole numbers from 1 on, as in 1,2")
    return found


def graph_of(path: str, function: str | None = None) -> Graph:
    """The graph of a model file, or of a saved program whose author is trusted. InputError when that has none."""
    if not saved_in(path):
        return read(path, function)
    return load(path, function=function).graph


def signature_of(path: str, function: str | None) -> Graph:
    """The graph of a model file, at least its inputs and outputs. None of a saved program is run."""
    if not saved_in(path):
        return read(path, function)
    file = _open(path)
    return decoded(file.json("interface"), file.array)


def facts(path: str, check: bool = False) -> dict[str, Any]:
    """What a saved program says of itself, for JSON. `check`: compare all checksums. ModelError when it is damaged."""
    file = _open(path)
    if check:
        file.check()
    directory, signature = file.directory, decoded(file.json("interface"), file.array)
    specs = {kind: [_spec(v) for v in getattr(signature, kind)] for kind in ("inputs", "outputs")}
    names = [v.name for v in signature.inputs]
    return {
        "file": {"path": path, "bytes": os.path.getsize(path), "format": "fgm", "fastgraph": directory["fastgraph"]},
        "source": directory["source"],
        "about": signature.interface.about,
        **specs,
        "plans": [_plan(plan, names) for plan in directory["plans"]],
        "sections": {name: size for name, (_, size, _) in file.sections.items()},
        "graph": "graph" in file.sections,
        "any_shape": [name for name, image in directory["images"].items() if image.get("complete")],
        "checked": check,
    }


def _open(path: str) -> Container:
    if not os.path.exists(path):
        raise MissingFileError(f"{path}: there is no such file")
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    try:
        return opened(handle, path)
    finally:
        os.close(handle)


def _spec(value: Value) -> dict[str, Any]:
    spec = TensorSpec.of(value)
    found: dict[str, Any] = {"name": spec.name, "type": str(TensorType(value.type.dtype, value.type.shape))}
    return found if spec.quantization is None else found | {"quantization": str(value.type.quant)}


def _plan(plan: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    flat = plan["flat"]
    return {
        "tier": plan["tier"], "threads": plan["threads"],
        "shapes": dict(zip(names, plan["shapes"], strict=True)), "decided_by": [name for name, _ in plan["values"]],
        "planned": flat is not None, "arena_bytes": None if flat is None else flat["arena"],
    }  # fmt: skip


def _further(complete: Sequence[str]) -> str:
    """What is said of shapes that a file has no plan for; `complete`: the tiers of which it has all kernels."""
    without = f"with all kernels of {', '.join(complete)}, or " if complete else ""
    return f"further shapes are planned {without}where there is a compiler"


def text(found: Mapping[str, Any]) -> str:
    """What a saved program says of itself, for people."""
    file, source = found["file"], found["source"]
    parts = ", ".join(f"{name} {bytes_text(size)}" for name, size in found["sections"].items())
    rows = [
        ("program", f"{file['path']}, {bytes_text(file['bytes'])}, saved by fastgraph {file['fastgraph']}"),
        ("of", f"{source['name'] or 'a graph'}" + (f", SHA-256 {source['sha256']}" if "sha256" in source else "")),
        ("parts", parts),
        ("graph", f"in it: {_further(found['any_shape'])}" if found["graph"] else "not in it"),
        ("checksums", "all hold" if found["checked"] else "those of the directory hold; --check compares all"),
    ]
    rows += [(title, said) for title, said in found["about"].items()]
    for kind in ("inputs", "outputs"):
        for spec in found[kind]:
            quant = f" {{{spec['quantization']}}}" if "quantization" in spec else ""
            rows.append((kind[:-1], f"{spec['name']}: {spec['type']}{quant}"))
    lines = table(rows)
    plans = [("plan", "threads", "shapes", "arena")]
    for plan in found["plans"]:
        shapes = " ".join(f"{name}={','.join(map(str, shape))}" for name, shape in plan["shapes"].items())
        arena = bytes_text(plan["arena_bytes"]) if plan["planned"] else "planned by each load: NumPy computes a part"
        plans.append((plan["tier"], str(plan["threads"]), shapes, arena))
    return "\n".join([*lines, "", *table(plans, right=(1,))])
