"""A model, saved and loaded again: the same inputs and outputs, and the same bits from run to run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fastgraph as fg
from fastgraph.runtime.stored import StoredRunnable
from tests.hostile import alike

Feeds = Mapping[str, Any]


def again(model: fg.Model, folder: Path, threads: int | None = None, **how: Any) -> fg.Model:
    """The model, by way of a file; `how`: of `save`."""
    path = folder / "model.fgm"
    model.save(path, **how)
    return fg.load(path, threads=threads or model.threads, isa=model.tier.name)


def is_stored(model: fg.Model) -> bool:
    """Whether the plan in use is one of the file, and not made by this process."""
    return isinstance(model._plans.current, StoredRunnable)


def drawn(model: fg.Model, seed: int) -> dict[str, np.ndarray]:
    """Random feeds; integers are small, as they may be indices."""
    rng, found = np.random.default_rng(seed), {}
    for name, shape, dtype, _ in model.inputs:
        assert dtype is not None and shape is not None
        if dtype.kind in "fc":
            found[name] = rng.standard_normal(shape).astype(dtype)
        else:
            found[name] = rng.integers(0, 2 if dtype.kind == "b" else 3, shape).astype(dtype)
    return found


def same(one: fg.Model, other: fg.Model, feeds: Sequence[Feeds], what: object = "") -> None:
    """AssertionError unless both say the same of themselves, and give the same for these feeds one after the other."""
    assert (one.inputs, one.outputs) == (other.inputs, other.outputs), what
    for model in (one, other):
        if model._plans.current is not None:
            model.reset_states()
    for each in feeds:
        first, second = one.run(each), other.run(each)
        assert list(first) == list(second), what
        assert alike(first, second), f"{what}: other bits"
        assert [type(y) for y in first.values()] == [type(y) for y in second.values()], what


def check(model: fg.Model, folder: Path, feeds: Sequence[Feeds] = (), what: object = "", **how: Any) -> fg.Model:
    """AssertionError unless the saved model does the same as the model; gives the saved one. `how`: of `save`."""
    made = again(model, folder, **how)
    same(model, made, feeds or [drawn(model, seed) for seed in range(2)], what)
    return made
