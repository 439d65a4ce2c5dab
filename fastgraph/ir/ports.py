"""Functions that an interface names: they convert feeds, check shapes, and convert results.

They take their facts first, as plain values, so that a saved program can name them too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import InputError, ModelError

Extents = tuple[tuple[int, int | None], ...]
"""The least and the greatest extent (None: any) of each dimension."""


def one(shape: tuple[int, ...], fed: Any) -> Any:
    """One number, as a scalar or as an array of one element: Core ML does not tell them apart."""
    if isinstance(fed, np.ndarray | np.generic):
        return fed.reshape(shape) if fed.shape in ((), (1,)) else fed
    if isinstance(fed, list | tuple) and len(fed) == 1 and shape == ():
        return fed[0]
    return [fed] if isinstance(fed, bool | int | float) and shape == (1,) else fed


def image(name: str, layout: str, channels: int, rank: int, dtype: np.dtype, fed: Any) -> Any:
    """The input's own array, [1, channels, height, width], of an image, whose pixels are 0 to 255.

    Images are Pillow's, and uint8 arrays [height, width, channels] (RGB) or [height, width] (gray), as NumPy has Pillow
    images; all else is passed on. Colors become the model's, sizes stay what they are; programs scale pixels.
    """
    pillow = sys.modules.get("PIL.Image")
    if pillow is not None and isinstance(fed, pillow.Image):
        fed = np.asarray(fed.convert("F" if "FLOAT" in layout else "L" if channels == 1 else "RGB"))
    elif not (isinstance(fed, np.ndarray) and fed.dtype == np.uint8):
        return fed
    elif fed.ndim == rank == 4:
        return fed.astype(dtype)
    if fed.ndim == 2:
        fed = fed[:, :, None]
    if fed.ndim != 3 or fed.shape[2] != channels:
        raise InputError(
            f"input {name!r} is an image of {channels} channels ({layout}), an array of shape "
            f"{list(fed.shape)} was given: feed [height, width, {channels}] as uint8"
        )
    pixels = fed[:, :, ::-1] if layout == "BGR" else fed
    planes = np.ascontiguousarray(pixels.transpose(2, 0, 1), dtype)
    return planes[None] if rank == 4 else planes


def chosen(name: str, choices: tuple[tuple[int, ...], ...], allowed: str, shape: tuple[int, ...]) -> None:
    """InputError unless the shape is one of these; `allowed` says them."""
    if shape not in choices:
        raise InputError(f"input {name!r} has shape {list(shape)}, the model allows {allowed}")


def within(name: str, bounds: Extents, allowed: str, shape: tuple[int, ...]) -> None:
    """InputError unless the shape is within these bounds; `allowed` says them."""
    fits = len(shape) == len(bounds) and all(
        low <= extent and (high is None or extent <= high) for extent, (low, high) in zip(shape, bounds, strict=True)
    )
    if not fits:
        raise InputError(f"input {name!r} has shape {list(shape)}, the model allows {allowed}")


def label(labels: list[Any], scores: np.ndarray) -> Any:
    """The label of the greatest score. ModelError where there are not as many labels, here and below."""
    return _suiting(labels, scores)[int(np.argmax(scores))]


def by_label(labels: list[Any], scores: np.ndarray) -> dict[Any, float]:
    """The scores by their labels."""
    return dict(zip(_suiting(labels, scores), scores.reshape(-1).tolist(), strict=True))


def _suiting(labels: list[Any], scores: np.ndarray) -> list[Any]:
    if len(labels) != scores.size:
        raise ModelError(f"the model has {len(labels)} labels for {scores.size} scores")
    return labels


def _is(kind: Any) -> Callable[[Any], bool]:
    return lambda fact: isinstance(fact, kind)


def _each(sound: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda fact: type(fact) is tuple and all(map(sound, fact))


FACTS: Mapping[str, tuple[Callable[[Any], bool], ...]] = {
    "one": (_each(_is(int)),),
    "image": (_is(str), _is(str), _is(int), _is(int), _is(np.dtype)),
    "chosen": (_is(str), _each(_each(_is(int))), _is(str)),
    "within": (_is(str), _each(lambda ends: len(ends) == 2 and _each(_is(int | None))(ends)), _is(str)),
    "label": (_is(list),),
    "by_label": (_is(list),),
}
"""What the facts of each function are."""
