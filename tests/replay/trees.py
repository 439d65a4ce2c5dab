"""The kernels' IR of a source tree, in a process of its own; that of a commit is kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

from fastgraph.objects.toolchain import directory
from tests.replay import collect

ROOT = Path(__file__).parents[2]
_KEPT_COMMITS = 8


class CollectError(RuntimeError):
    """The kernels of a source tree can't be built, or not in this way."""


class Texts(Mapping[str, str]):
    """IR texts by kernels' names, read as they are asked for."""

    def __init__(self, path: Path, prefixes: Sequence[str]) -> None:
        self._file = ZipFile(path)
        chosen = tuple(prefixes) or ("",)
        self._names = dict.fromkeys(name for name in self._file.namelist() if name.startswith(chosen))

    def __getitem__(self, name: str) -> str:
        if name not in self._names:
            raise KeyError(name)
        return self._file.read(name).decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def commit(name: str) -> str | None:
    """The hash of the commit that git calls so; None when there is none, or no git or history."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


@contextmanager
def here(tier: str, prefixes: Sequence[str]) -> Iterator[Texts]:
    """Of this working tree."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "texts.zip")
        write(ROOT, path, tier, prefixes)
        yield Texts(path, prefixes)


@contextmanager
def there(hash: str, tier: str, prefixes: Sequence[str], history: History) -> Iterator[Texts]:
    """Of a commit. All of a tier is kept for the next time."""
    place = directory()
    place = place.with_name(f"{place.name}-replay")
    name = f"{hash}-{version('numba')}-{version('llvmlite')}"
    kept = place / name / f"{tier}.zip"
    with tempfile.TemporaryDirectory() as folder:
        if kept.exists():
            os.utime(kept.parent)
            path = kept
        else:
            path = Path(folder, "texts.zip")
            history.export(hash, Path(folder, "tree"))
            history.write(Path(folder, "tree"), path, tier, prefixes)
            if not prefixes:
                _keep(path, kept)
        yield Texts(path, prefixes)


def _keep(path: Path, kept: Path) -> None:
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    half = kept.with_suffix(f".{os.getpid()}")
    shutil.copy(path, half)
    half.replace(kept)
    newest = sorted(kept.parents[1].iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in newest[_KEPT_COMMITS:]:
        shutil.rmtree(old, ignore_errors=True)


def export(hash: str, to: Path) -> None:
    to.mkdir()
    archive = to.with_suffix(".tar")
    subprocess.run(["git", "-C", str(ROOT), "archive", "-o", str(archive), hash], check=True)
    shutil.unpack_archive(archive, to, filter="data")


def write(tree: Path, out: Path, tier: str, prefixes: Sequence[str]) -> None:
    """CollectError when that fails. Python must find no other tree's modules: PYTHONPATH names this one, -P keeps the
    script's folder out.
    """
    env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", str(Path(collect.__file__)), str(out), tier, *prefixes]
    done = subprocess.run(command, env=env, cwd=out.parent, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise CollectError(f"the kernels of {'this tree' if tree == ROOT else 'that commit'} can't be built: {said}")


class History(NamedTuple):
    """Where commits are: what a name means, their trees, and the IR of a tree."""

    commit: Callable[[str], str | None] = commit
    export: Callable[[str, Path], None] = export
    write: Callable[[Path, Path, str, Sequence[str]], None] = write
