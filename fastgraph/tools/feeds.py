"""What a command feeds a model: arrays from files, random ones, shapes from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..runtime.model import Model, TensorSpec


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """{"x": (1, 3)} of ["x=1,3"]; InputError for anything else. "x=" is a scalar."""
    shapes = {}
    for text in texts:
        name, equals, dims = text.rpartition("=")
        try:
            shapes[name] = tuple(int(d) for d in dims.split(",") if d.strip())
        except ValueError:
            equals = ""
        if not (name and equals) or any(d < 0 for d in shapes[name]):
            raise InputError(f"--shape {text!r}: write it as name=1,3,224,224")
    return shapes


def parse_inputs(texts: Sequence[str]) -> dict[str, np.ndarray]:
    """Arrays of ["name=file.npy", "file.npz"] by name. InputError when a file does not hold plain arrays."""
    feeds = {}
    for text in texts:
        name, equals, path = text.partition("=")
        path = path if equals else text
        try:
            found: Any = np.load(path, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise InputError(f"--input {text!r}: {path} is no NumPy file ({error})") from None
        if isinstance(found, np.ndarray):
            if not equals:
                raise InputError(f"--input {text!r}: write it as name=file.npy, or give an .npz with the names in it")
            feeds[name] = found
        else:
            with found:
                feeds |= {key: found[key] for key in ([name] if equals else found.files)}
    return feeds


def random_feeds(model: Model, shapes: Mapping[str, Sequence[int]], seed: int = 0) -> dict[str, np.ndarray]:
    """An array for each input: seeded normal floats, integers 0 and 1 (they may be indices), random truths."""
    rng = np.random.default_rng(seed)
    return {spec.name: _random(spec, shapes.get(spec.name), rng) for spec in model.inputs}


def _random(spec: TensorSpec, shape: Sequence[int] | None, rng: np.random.Generator) -> np.ndarray:
    dims = shape if shape is not None else spec.shape
    if dims is None or not all(isinstance(d, int) for d in dims):
        said = "unknown" if dims is None else ",".join(str(d or "?") for d in dims)
        raise InputError(f"input {spec.name!r} has an open shape ({said}): give it with --shape {spec.name}=...")
    if spec.dtype is None or spec.dtype.kind not in "fiubc":
        raise InputError(f"input {spec.name!r} is {spec.dtype}: no random values for that, feed it with --input")
    size = tuple(int(d) for d in dims)  # type: ignore[arg-type]
    if spec.dtype.kind in "fc":
        return rng.standard_normal(size).astype(spec.dtype)
    return rng.integers(0, 2, size).astype(spec.dtype)
