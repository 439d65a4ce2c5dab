"""A network in a benchmark of pytest-benchmark.

    from fastgraph.testing import benchmark_model

    def test_speed(benchmark):
        benchmark_model(benchmark, "net.onnx", against="onnxruntime")

`pip install 'fastgraph-runtime[bench]'` brings pytest-benchmark. It is no plugin of pytest, as those are imported by
every session of pytest, of all projects in the environment.
"""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__, disturbance
from .errors import FastgraphError, InputError
from .loading import load
from .plan.describe import steps
from .runtime.model import Model
from .tools.bench import agrees, compare, pinned
from .tools.engines import Engine, loaded
from .tools.feeds import random_feeds

WARM_UP = 10
"""Calls before those that are measured."""


def benchmark_model(
    benchmark: Any,
    model: Model | str | os.PathLike[str] | bytes,
    feeds: Mapping[str, Any] | None = None,
    against: str | Sequence[str] | None = None,
    *,
    seconds: float = 1.0,
    **options: Any,
) -> dict[str, Any]:
    """Measure a model's native call with pytest-benchmark's fixture `benchmark`; its results, by name.

    `model`: one that is loaded, or what `fastgraph.load` takes, with its `options` (`threads` is 1 here, unless they
    say otherwise). `feeds`: arrays by input; random ones, the same in every session, where there are none, and a batch
    of 1 where the file leaves it open. A call copies the feeds into the plan's memory, as a run may overwrite them, and
    runs the network; what has no fixed memory is run as `model.run`. On one thread it is pinned to one CPU.

    `against`: engines (onnxruntime, openvino, litert) that take turns with fastgraph on the model's file for `seconds`
    more, in rounds of their own; their results must agree with fastgraph's.

    `benchmark.extra_info`, which pytest-benchmark saves, gets `model`, `tier`, `threads`, `cpu` (None: not pinned),
    `arena_bytes`, `kernels` (steps by kernel; None for a saved program without its graph), `versions`, `disturbance`
    (what other programs did meanwhile: `lost_share`, `noisy`), and with `against` `engines`, each with its `ratio`,
    fastgraph's time / its own.

    AssertionError when results are not the same before and after, to the bit, or an engine's differ from them;
    InputError when `feeds` or `options` don't fit.
    """
    model, feeds = _prepared(model, feeds, options)
    with pinned(model.threads) as cpu:
        before = _results(model, feeds)
        engine = loaded(model, feeds)
        for _ in range(WARM_UP):
            engine.call()
        used = disturbance.now()
        benchmark(engine.call)
        noise = disturbance.report([[disturbance.now() - used]], 1)
        after = _results(model, feeds)
    different = [name for name in before if not _same(before[name], after[name])]
    assert not different, f"results are not the same before and after: {', '.join(different)}"
    benchmark.extra_info.update(_facts(model, engine), cpu=cpu, disturbance=noise)
    if against:
        names = [against] if isinstance(against, str) else list(against)
        benchmark.extra_info["engines"] = _rows(model, feeds, names, seconds, options.get("function"))
    return after


def _prepared(model: Any, feeds: Mapping[str, Any] | None, options: dict[str, Any]) -> tuple[Model, dict[str, Any]]:
    """The model with a plan for its feeds, and these."""
    if isinstance(model, Model):
        if options:
            raise InputError(f"{', '.join(options)}: the model is loaded already, give these to fastgraph.load")
    else:
        model = load(model, **{"threads": 1, **options})
    feeds = random_feeds(model, {}) if feeds is None else dict(feeds)
    model.run(feeds)
    return model, feeds


def _results(model: Model, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """The results of a run from the first values of states."""
    model.reset_states()
    found = model.run(feeds)
    model.reset_states()
    return found


def _same(a: Any, b: Any) -> bool:
    """Whether results are the same to the bit, lists and dictionaries too."""
    if isinstance(a, np.ndarray) and a.dtype != object:
        return isinstance(b, np.ndarray) and (a.dtype, a.shape) == (b.dtype, b.shape) and a.tobytes() == b.tobytes()
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(np.all(a == b))


def _facts(model: Model, engine: Engine) -> dict[str, Any]:
    return {
        "model": model.signature.source or model.signature.name,
        "tier": model.tier.name,
        "threads": model.threads,
        "arena_bytes": model.arena_bytes,
        "kernels": _kernels(model),
        "versions": {"fastgraph": __version__, "numpy": np.__version__, "python": platform.python_version()},
    }


def _kernels(model: Model) -> dict[str, int] | None:
    try:
        return dict(Counter(step["kernel"] for step in steps(model.plan.program)))
    except FastgraphError:
        return None


def _rows(
    model: Model, feeds: Mapping[str, Any], names: Sequence[str], seconds: float, function: str | None
) -> list[dict[str, Any]]:
    """What `compare` says of each engine but fastgraph."""
    path = model.signature.source
    if not path or not Path(path).exists():
        raise InputError(f"against={list(names)}: engines read a file: give its path, not a model of bytes")
    how: dict[str, Any] = {"threads": model.threads, "isa": model.tier.name, "function": function}
    found = compare(path, feeds, names, seconds=seconds, **how)
    assert agrees(found), f"results disagree: {found['engines']}"
    return found["engines"][1:]
