"""What commands share: results and errors on the terminal, files one after another, shapes that are open."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FastgraphError, InputError, writing
from ..text import shorten, visible

if TYPE_CHECKING:
    from ..ir import Graph
    from ..runtime.model import Model

Shapes = Mapping[str, Sequence[int]]


def terminal_width() -> int:
    """Columns of the terminal, or what COLUMNS says; where there is none, as many as lines take."""
    return shutil.get_terminal_size((1 << 16, 24)).columns


def show(text: object) -> None:
    with writing("standard output"):
        print(visible(str(text)))


def flush() -> None:
    """Write out everything that was shown."""
    with writing("standard output"):
        sys.stdout.flush()


def note(text: str) -> None:
    """Print a line about the work that was done, on stderr."""
    print(visible(text), file=sys.stderr)


def as_json(found: Any) -> str:
    return json.dumps(found, indent=2)


def write(path: str, text: str) -> None:
    """Write a file of text."""
    with writing(path):
        Path(path).write_text(text, encoding="utf-8")


def writable(flag: str, name: str | None, *read: str, kinds: Sequence[str] = ()) -> None:
    """InputError, before there is something to write, when the file can't be written, is one of those `read`, or is
    called as no file of these `kinds`.
    """
    if name in (None, "-"):
        return
    path = Path(str(name))
    for other in read:
        if path.exists() and Path(other).exists() and path.samefile(other):
            raise InputError(f"{flag} {name}: it is the file that is read; give another name")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        what = "it is a folder" if path.is_dir() else f"no file can be written in {path.parent}"
        raise InputError(f"{flag} {name}: {what}")
    if kinds and path.suffix.lower() not in kinds:
        raise InputError(f"{flag} {name}: expected a name that ends in {' or '.join(filter(None, kinds))}")


def loaded(args: argparse.Namespace, path: str, shapes: Shapes) -> Model:
    """A file's model, as the options say."""
    from ..loading import load

    how = {"threads": args.threads, "isa": args.isa, "precision": args.precision, "function": args.function}
    return load(path, shapes=shapes, **how)


def granted(graph: Graph, given: Container[str]) -> dict[str, tuple[int, ...]]:
    """The shapes assumed for open inputs, which it prints. InputError when more than a batch is open."""
    from ..tools import feeds

    found = feeds.proposed_shapes(graph, given)
    if found:
        said = " ".join(f"--shape {name}={','.join(map(str, shape))}" for name, shape in found.items())
        note(f"{graph.source}: taken for granted: {said}")
    return found


def filled(model: Model, shapes: Shapes, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Feeds for all inputs: those `given`, else random arrays, of the shapes that are known or taken for granted."""
    from ..tools import feeds

    known = {**shapes, **{name: array.shape for name, array in (given or {}).items()}}
    granted(model.signature, known)
    return {**feeds.random_feeds(model, known), **(given or {})}


def each_file(args: argparse.Namespace, command: Callable[[str, Shapes], int]) -> tuple[int, dict[str, str]]:
    """Run a command on each file with its shapes, on those that are not there first; errors are printed, and the next
    file follows. The greatest exit code, and why files failed.
    """
    shapes = _shapes_of(args)
    code, failed = 0, {}
    for path in sorted(args.model, key=os.path.exists):
        try:
            code = max(code, command(path, shapes[path]))
        except BrokenPipeError:
            raise
        except (FastgraphError, MemoryError, OSError) as error:
            failed[path] = str(error)
            code = max(code, say(error if path in str(error) else InputError(f"{path}: {error}")))
        flush()
    return code, failed


def addressed(texts: Sequence[str], paths: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Of "[FILE:]NAME=..." those that name no file; those that do, without it, by file. A file is named by its path, or
    by the last part of it.
    """
    shared: list[str] = []
    own: dict[str, list[str]] = {path: [] for path in paths}
    for text in texts:
        heads = {f"{head}:": path for path in paths for head in (path, Path(path).name)}
        found = max((head for head in heads if text.startswith(head)), key=len, default=None)
        (shared if found is None else own[heads[found]]).append(text.removeprefix(found or ""))
    return shared, own


def _shapes_of(args: argparse.Namespace) -> dict[str, Shapes]:
    """The shapes for each file: those that name it, and of the others, where there are several files, those of inputs
    that it has. InputError when none has such an input.
    """
    from ..tools import feeds, saved

    texts, addressees = addressed(args.shape, args.model)
    own = {path: feeds.parse_shapes(each) for path, each in addressees.items()}
    shapes = feeds.parse_shapes(texts)
    if len(args.model) == 1 or not shapes:
        return {path: shapes | each for path, each in own.items()}
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for path in args.model:
        found[path] = {}
        with suppress(FastgraphError, MemoryError, OSError):  # said when its turn comes
            names = {value.name for value in saved.signature_of(path, args.function).inputs}
            found[path] = {name: shape for name, shape in shapes.items() if name in names}
    unused = set(shapes).difference(*found.values())
    if unused:
        raise InputError(f"--shape {', '.join(sorted(unused))}: no model has an input of that name")
    return {path: found[path] | each for path, each in own.items()}


def say(error: Exception) -> int:
    """Print an error; its exit code, 2 by default."""
    what = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        what = f"{error.filename}: {error.strerror}"
    print("error: " + visible(shorten(" ".join(what.split()), 4000)), file=sys.stderr)
    return getattr(error, "exit_code", 2)
