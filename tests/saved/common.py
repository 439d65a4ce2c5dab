"""What the tests of saved programs share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fastgraph as fg
from fastgraph.tools.verify import _random as random_feeds
from tests.nets import I64, Net

Feeds = Mapping[str, Any]


def found_rows() -> Net:
    """The rows of x of any length that begin above 0, and which ones these are."""
    net = Net()
    x = net.input("x", ("n", 4))
    over = net("Greater", net("Gather", x, net.const(np.array(0)), axis=1), net.const(np.array(0, np.float32)))
    net.output(net("Relu", net("Compress", x, over, axis=0)), net("Add", x, net.const(np.ones(4, np.float32))))
    net.output(net("NonZero", over), dtype=I64)
    return net


def backwards(net: Net, x: str) -> str:
    """The places in x that are not 0, the last one first: NumPy reads them so, as their number depends on data."""
    return net("Slice", net("NonZero", x), net.const([-1]), net.const([-(2**40)]), net.const([1]), net.const([-1]))


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
