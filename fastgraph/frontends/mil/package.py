"""Where a model's files are: a package folder, a zip archive of one, a model file alone, or bytes.

A package (.mlpackage) has a Manifest.json, which names the model file among the items in its folder `Data`. Programs
name files of weights from the model file's folder on, as "@model_path/weights/weight.bin".
"""

from __future__ import annotations

import io
import json
import lzma
import os
import posixpath
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ...errors import ModelError
from ...limits import current
from ...room import need
from ..core.files import contents, inside, opened, part, size_of
from .wire import check_outermost

MODEL_PATH = "@model_path/"
VERSION = "1."
"""How fileFormatVersion of a manifest begins."""

_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, RuntimeError, ValueError, OSError)
"""The exceptions that reading a damaged archive raises."""

Files = Callable[[str], np.ndarray | None]
"""The bytes of a file by its path with slashes, None when there is none."""


class Package(NamedTuple):
    """`source`: what to call it in messages. `spec`: the model file. `folder`: where that is in `files`.

    `files` is None when there is nothing but the model file's bytes.
    """

    source: str
    spec: bytes
    folder: str
    files: Files | None

    def weights(self, name: str, where: str) -> np.ndarray:
        """The bytes of a file that the program names. ModelError when it may not be read, or isn't there."""
        if not name.startswith(MODEL_PATH):
            raise ModelError(f"{where}: expected its file as '{MODEL_PATH}...', found {name[:80]!r}")
        path = inner(name.removeprefix(MODEL_PATH), where)
        if self.files is None:
            raise ModelError(
                f"{where}: its numbers are in another file ({path}), out of reach of an .mlmodel given as "
                "bytes; load the .mlpackage by its path, or give the bytes of a zip of it"
            )
        data = self.files(posixpath.join(self.folder, path))
        if data is None:
            raise ModelError(
                f"{where}: its numbers are in {path}, which is missing; "
                "copy the whole package, with its folder of weights"
            )
        return data


def inner(path: str, where: str) -> str:
    """A path that stays within its folder, with slashes. ModelError for others."""
    parts = PureWindowsPath(path)  # knows both separators, drives and shares
    if not parts.parts or "\0" in path or parts.anchor or ".." in parts.parts:
        raise ModelError(f"{where}: expected a path within the package, found {path[:80]!r}")
    return "/".join(parts.parts)


def open_package(source: str | os.PathLike[str] | bytes, name: str = "") -> Package:
    """The package of a path, or of the bytes of an .mlmodel or a zip archive. ModelError for others."""
    if isinstance(source, bytes | bytearray | memoryview):
        data, name = bytes(source), name or "model"
        return _zipped(io.BytesIO(data), name) if data[:2] == b"PK" else Package(name, data, "", None)
    path = Path(source)
    name = name or str(path)
    if path.is_dir():
        return _packaged(_folder(path, name, path / "Manifest.json"), "", name, sorted(p.name for p in path.iterdir()))
    with opened(path) as file:
        size = size_of(file)
        if file.read(2) == b"PK":
            _archive(file, name)
        else:
            check_outermost(file, size, name)
    data = contents(path)
    if data[:2] != b"PK":
        return Package(name, data, "", _folder(path.parent, name, path))
    return _zipped(io.BytesIO(data), name)


def _folder(root: Path, source: str, first: Path) -> Files:
    """The files in a folder, and beside where `first` leads."""

    def view(name: str) -> np.ndarray | None:
        path = inside(root, name, first)
        if path is None:
            raise ModelError(f"{source}: {name} leads out of the package; copy the file there")
        try:
            with opened(path, source) as file:
                if name.endswith(".mlmodel"):
                    check_outermost(file, size_of(file), f"{source}: {name}")
                return part(file, 0, size_of(file), f"{source}: {name}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise ModelError(f"{source}: can't read {name} ({error})") from error

    return view


def _archive(file: BinaryIO, source: str) -> zipfile.ZipFile:
    """A zip archive, of which only the list of its files is read."""
    try:
        return zipfile.ZipFile(file)
    except (*_DAMAGE, NotImplementedError) as error:
        raise ModelError(f"{source}: a zip archive that is damaged or cut short ({error})") from error


def _zipped(archive: io.BytesIO, source: str) -> Package:
    """The package in a zip archive, at its top or in a folder of it; or the one .mlmodel in it."""
    entries = _archive(archive, source)  # closed when the last of `files` is forgotten
    names = [name for name in entries.namelist() if not name.startswith("__MACOSX/")]
    found = [name for name in names if posixpath.basename(name) == "Manifest.json"]
    outermost = min((name.count("/") for name in found), default=0)
    found = [name for name in found if name.count("/") == outermost]
    models = [name for name in names if name.endswith(".mlmodel")]
    files = _members(entries, source)
    if len(found) == 1:
        prefix = posixpath.dirname(found[0])
        return _packaged(files, prefix, source, sorted(names))
    if not found and len(models) == 1:
        data = files(models[0])
        assert data is not None
        return Package(source, data.tobytes(), posixpath.dirname(models[0]), files)
    if not found and not models:
        from ..core.foreign import holding

        what = holding(names, source) or f"but {', '.join(sorted(names)[:5]) or 'nothing'}"
        raise ModelError(f"{source}: expected an .mlpackage in the zip archive, found no Manifest.json in it; {what}")
    several = ", ".join(sorted(found or models)[:8])
    raise ModelError(f"{source}: expected one package in the zip archive, found {several}; zip each on its own")


def _members(archive: zipfile.ZipFile, source: str) -> Files:
    """The files in an archive, within the limits on what is made of its bytes."""
    kept: dict[str, np.ndarray] = {}

    def view(name: str) -> np.ndarray | None:
        if name not in kept:
            try:
                info = archive.getinfo(name)
            except KeyError:
                return None
            current().hold(info.file_size, f"{source}: {name}")
            need(info.file_size)
            try:
                kept[name] = np.frombuffer(archive.read(info), np.uint8)
            except _DAMAGE as error:
                raise ModelError(f"{source}: can't read {name} from the archive ({error})") from error
        return kept[name]

    return view


def _packaged(files: Files, prefix: str, source: str, names: list[str]) -> Package:
    """The package whose Manifest.json is in folder `prefix` of `files`; `names` of what else is there."""
    manifest = files(posixpath.join(prefix, "Manifest.json"))
    if manifest is None:
        from ..core.foreign import holding

        there = f"{', '.join(names[:5]) or 'nothing'}; {holding(names, source) or 'give the folder that holds it'}"
        raise ModelError(f"{source}: expected a package with a Manifest.json, found {there}")
    item = inner(_root_item(manifest.tobytes(), source), f"{source}: Manifest.json")
    path = posixpath.join(prefix, "Data", item)
    spec = files(path)
    if spec is None:
        raise ModelError(
            f"{source}: Manifest.json names the model Data/{item}, which is missing; copy the whole package"
        )
    return Package(source, spec.tobytes(), posixpath.dirname(path), files)


def _root_item(text: bytes, source: str) -> str:
    """The path, from folder Data on, of the item that a manifest names as the model."""
    try:
        manifest: Any = json.loads(text)
        items, root = manifest["itemInfoEntries"], manifest["rootModelIdentifier"]
        version, path = manifest["fileFormatVersion"], items[root]["path"]
        if not (isinstance(path, str) and isinstance(version, str)):
            raise TypeError("a path or version that is no text")
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ModelError(
            f"{source}: Manifest.json does not say where the model is ({type(error).__name__}: {error}); "
            "copy the package again"
        ) from error
    if not version.startswith(VERSION):
        raise ModelError(f"{source}: expected a package of format version {VERSION}x, found {version!r}")
    return path
