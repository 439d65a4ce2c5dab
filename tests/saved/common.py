"""What the tests of saved programs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fastgraph as fg
from fastgraph.tools.verify import _random as random_feeds

Feeds = Mapping[str, Any]


def bits(results: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Results to be compared: names, element types, shapes, bytes."""
    return [(name, _bits(each)) for name, each in results.items()]


def _bits(result: Any) -> Any:
    if isinstance(result, list | tuple):
        return [_bits(each) for each in result]
    if isinstance(result, np.ndarray) and result.dtype != object:
        return str(result.dtype), result.shape, result.tobytes()
    return repr(result)


def same(model: fg.Model, other: fg.Model, feeds: Sequence[Feeds]) -> None:
    """Both give the same bits for these feeds, one after the other."""
    for each in feeds:
        assert bits(model.run(each)) == bits(other.run(each))


def again(model: fg.Model, folder: Path, feeds: Sequence[Feeds] | None = None, **options: Any) -> fg.Model:
    """The model saved and loaded: with the same inputs and outputs, and the same results in two runs, for random feeds
    where none are given.
    """
    if feeds is None:
        feeds = [random_feeds(model), random_feeds(model)]
    model.reset_states()
    path = folder / "net.fgm"
    model.save(path)
    found = fg.load(path, **{"threads": model.threads, "isa": model.tier.name} | options)
    assert (found.inputs, found.outputs) == (model.inputs, model.outputs)
    same(model, found, feeds)
    return found


def is_stored(model: fg.Model) -> bool:
    """Whether its plan in use is one of the file's, and none that was made again."""
    return type(model._plans.current).__name__ == "StoredRunnable"
