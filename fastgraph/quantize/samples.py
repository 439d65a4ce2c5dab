"""Samples to calibrate by: feeds of one run each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..runtime.feeds import instance
from ..runtime.model import Model, TensorSpec
from ..tools.feeds import read_inputs, samples_of

Feeds = dict[str, np.ndarray]


def samples(data: Any, model: Model, most: int | None = None) -> list[Feeds]:
    """The feeds of at most `most` runs.

    `data`: a folder, each of whose files or folders of ONNX's test data is one sample, as `fastgraph run --input` reads
    it, those in other folders in it (classes of images) too: `most` are spread over all. Or an .npz, whose arrays have
    the input's shape behind an axis of samples, or more rows in the place of its batch; or an iterable of arrays, for
    the only input, or of arrays by input. InputError where there are none, or one does not fit.
    """
    specs = {spec.name: spec for spec in model.inputs}
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        if not path.exists():
            raise InputError(f"{path}: no such file or folder: expected samples, a folder or an .npz")
        found = _folder(path, model, most) if path.is_dir() else _npz(path, specs, most)
    else:
        found = _given(data, specs, most)
    if not found:
        raise InputError(f"{data}: no samples: calibration needs some, a hundred are usual")
    where = str(data) if isinstance(data, str | os.PathLike) else "data"
    return [{name: _typed(array, specs[name], f"{where}, sample {i}") for name, array in each.items() if name in specs}
            for i, each in enumerate(found)]  # fmt: skip


def _typed(array: np.ndarray, spec: TensorSpec, where: str) -> np.ndarray:
    """The array in the input's type where that is one of its kind, as onnxruntime wants it. InputError for NaNs."""
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError(f"{where}: {spec.name} has numbers that are NaN, of which no range can be found: leave it out")
    if spec.dtype is None or array.dtype == object or not np.can_cast(array.dtype, spec.dtype, "same_kind"):
        return array
    return array.astype(spec.dtype, copy=False)


def _folder(path: Path, model: Model, most: int | None) -> list[Feeds]:
    places = _places(path)
    count = len(places) if most is None else min(most, len(places))
    paths, source = [str(places[i * len(places) // count]) for i in range(count)], model.signature.source
    return [_checked(read_inputs([path], model, file=source), model.inputs, path) for path in paths]


def _places(folder: Path) -> list[Path]:
    """The files in a folder and in those in it, but for links that lead back to a folder on the way; of ONNX's test
    data, the folder itself."""
    places = sorted(place for place in folder.iterdir() if not place.name.startswith("."))
    if any(place.suffix == ".pb" for place in places):
        return [folder]
    for place in places:
        if place.is_symlink() and not place.exists():
            raise InputError(f"{place}: a link to {place.readlink()}, which is not there: remove it")
    on_the_way = (folder.absolute(), *folder.absolute().parents)
    further = [place for place in places if not any(place.samefile(each) for each in on_the_way)]
    return [each for place in further for each in (_places(place) if place.is_dir() else [place])]


def _npz(path: Path, specs: Mapping[str, TensorSpec], most: int | None) -> list[Feeds]:
    if path.suffix != ".npz":
        raise InputError(f"{path}: expected a folder, or an .npz with an array for each of {', '.join(specs)}")
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if name in specs or len(file.files) == len(specs) == 1}
    if len(specs) == 1 and len(arrays) == 1:
        arrays = dict(zip(specs, arrays.values(), strict=True))
    if missing := [name for name in specs if name not in arrays]:
        raise InputError(f"{path}: it has no array for the input {missing[0]!r}; the inputs are {', '.join(specs)}")
    rows = {name: _rows(array, specs[name], str(path)) for name, array in arrays.items()}
    count = min(map(len, rows.values()))
    if any(len(each) != count for each in rows.values()):
        said = ", ".join(f"{name} {len(each)}" for name, each in rows.items())
        raise InputError(f"{path}: expected as many samples of each input, found {said}")
    return [{name: each[i] for name, each in rows.items()} for i in range(count)[:most]]


def _rows(array: np.ndarray, spec: TensorSpec, where: str) -> list[np.ndarray]:
    """The samples that an array holds, each in the shape of the input."""
    found = samples_of(array, spec.shape or ())
    if found is None:
        wanted = ", ".join(map(str, spec.shape or ()))
        raise InputError(f"{where}: {spec.name} has shape {list(array.shape)}, expected samples x [{wanted}]")
    return found


def _given(data: Iterable[Any], specs: Mapping[str, TensorSpec], most: int | None) -> list[Feeds]:
    found: list[Feeds] = []
    for each in data:
        if most is not None and len(found) == most:
            break
        if not isinstance(each, Mapping):
            if len(specs) != 1:
                raise InputError(f"sample {len(found)}: expected arrays by input, the inputs are {', '.join(specs)}")
            each = dict.fromkeys(specs, each)
        feeds = {name: np.asarray(array) for name, array in each.items()}
        found.append(_checked(feeds, specs.values(), f"sample {len(found)}"))
    return found


def _checked(feeds: Feeds, specs: Iterable[TensorSpec], where: str) -> Feeds:
    for spec in specs:
        if spec.name not in feeds:
            raise InputError(f"{where}: it has no array for the input {spec.name!r}")
        if spec.shape is not None and not instance(spec.shape, feeds[spec.name].shape):
            found, wanted = list(feeds[spec.name].shape), ", ".join(map(str, spec.shape))
            raise InputError(f"{where}: {spec.name} has shape {found}, expected [{wanted}]")
    return feeds
