"""What commands share: results and errors on the terminal, files one after another, shapes that are open."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FastgraphError, InputError
from ..text import shorten, visible

if TYPE_CHECKING:
    from ..ir import Graph

Shapes = Mapping[str, Sequence[int]]


def show(text: object) -> None:
    print(visible(str(text)))


def note(text: str) -> None:
    """A line of what was done, on stderr."""
    print(visible(text), file=sys.stderr)


def as_json(found: Any) -> str:
    return json.dumps(found, indent=2)


def writable(flag: str, name: str | None) -> None:
    """InputError when the file can't be written, before there is something to write."""
    if name in (None, "-"):
        return
    path = Path(str(name))
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        what = "it is a folder" if path.is_dir() else f"no file can be written in {path.parent}"
        raise InputError(f"{flag} {name}: {what}")


def granted(graph: Graph, given: Container[str]) -> dict[str, tuple[int, ...]]:
    """The shapes assumed for open inputs, which it prints. InputError when more than a batch is open."""
    from ..tools import feeds

    found = feeds.taken_for_granted(graph, given)
    if found:
        said = " ".join(f"--shape {name}={','.join(map(str, shape))}" for name, shape in found.items())
        note(f"{graph.source}: taken for granted: {said}")
    return found


def each_file(args: argparse.Namespace, command: Callable[[str, Shapes], int]) -> tuple[int, dict[str, str]]:
    """Run a command on each file with its shapes; errors are printed, and the next file follows. The greatest exit
    code, and why files failed.
    """
    shapes = _shapes_of(args)
    code, failed = 0, {}
    for path in args.model:
        try:
            code = max(code, command(path, shapes[path]))
        except BrokenPipeError:
            raise
        except (FastgraphError, MemoryError, OSError) as error:
            failed[path] = str(error)
            code = max(code, say(error if path in str(error) else InputError(f"{path}: {error}")))
        sys.stdout.flush()
    return code, failed


def _shapes_of(args: argparse.Namespace) -> dict[str, Shapes]:
    """The shapes for each file: of several files, each takes those of inputs that it has. InputError when none has such
    an input.
    """
    from ..tools import feeds, saved

    shapes = feeds.parse_shapes(args.shape)
    if len(args.model) == 1 or not shapes:
        return dict.fromkeys(args.model, shapes)
    found: dict[str, Shapes] = {}
    for path in args.model:
        found[path] = {}
        with suppress(FastgraphError, MemoryError, OSError):  # said when its turn comes
            names = {value.name for value in saved.signature_of(path, args.function).inputs}
            found[path] = {name: shape for name, shape in shapes.items() if name in names}
    unused = set(shapes).difference(*found.values())
    if unused:
        raise InputError(f"--shape {', '.join(sorted(unused))}: no model has an input of that name")
    return found


def say(error: Exception) -> int:
    """Print an error; its exit code, 2 by default."""
    what = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        what = f"{error.filename}: {error.strerror}"
    print("error: " + visible(shorten(" ".join(what.split()), 4000)), file=sys.stderr)
    return getattr(error, "exit_code", 2)
