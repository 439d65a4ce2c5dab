"""The two sides of a comparison, and the numbers that both are fed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..ir.quantization import to_real, to_stored
from ..loading import load
from ..runtime.feeds import instance, widened
from ..runtime.model import Model, TensorSpec
from . import agreement, feeds, pairing
from .engines import PEERS, Unavailable, peer, there_are
from .pairing import Pair, Sizes, arranged

Arrays = Mapping[str, np.ndarray]
SPREAD = 8
"""Standard deviations within the range that a network was calibrated for at an input, of numbers drawn for it: as in
data few lie at its ends, where many would saturate the layers.
"""


class Side(NamedTuple):
    """A network: what it takes and gives; `run` gives outputs, as real numbers, by name; `model`: where it is ours."""

    name: str
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    usual: Mapping[str, Sequence[int]]
    run: Callable[[Arrays], dict[str, Any]]
    loaded: Model
    model: Model | None


def sides(a: Any, b: Any, options: Mapping[str, Any]) -> tuple[Side, Side]:
    engines = [each in PEERS if isinstance(each, str) else False for each in (a, b)]
    if all(engines):
        raise InputError(f"compare {a} {b}: expected a file beside an engine, found two engines")
    loaded = [None if e else _loaded(each, options) for each, e in zip((a, b), engines, strict=True)]
    one, two = (_ours(m) if m is not None else None for m in loaded)
    return one or _engine(a, loaded[1]), two or _engine(b, loaded[0])


def _loaded(source: Any, options: Mapping[str, Any]) -> Model:
    if isinstance(source, str) and not os.path.exists(source) and "." not in source:
        raise InputError(f"{source}: there is no such file; {there_are(source)}")
    return source if isinstance(source, Model) else load(source, **{"threads": 1, **options})


def _ours(model: Model) -> Side:
    def run(arrays: Arrays) -> dict[str, Any]:
        model.reset_states()
        found = feeds.edge_out(model.run(dict(arrays)), model.outputs)
        return {name: widened(y) if isinstance(y, np.ndarray) else y for name, y in found.items()}

    title = model.signature.source or model.signature.name or "model"
    return Side(title, model.inputs, model.outputs, model.signature.usual, run, model, model)


def _engine(name: str, model: Model | None) -> Side:
    """An engine with the file of a model that was loaded."""
    assert model is not None
    path = model.signature.source
    if not os.path.exists(path):
        raise InputError(f"{name!r}: the model was not loaded from a file, which the engine could load too")

    def run(arrays: Arrays) -> dict[str, Any]:
        try:
            results = peer(name, path, arrays, model.threads, as_written=True).results()
        except Unavailable as error:
            raise Unavailable(f"{name}: {error}") from error
        names = [spec.name for spec in model.outputs]
        return feeds.edge_out(dict(zip(names, map(widened, results), strict=True)), model.outputs)

    return Side(name, model.inputs, model.outputs, model.signature.usual, run, model, None)


def is_rounded(side: Side) -> bool:
    if any(spec.quantization is not None for spec in (*side.inputs, *side.outputs)):
        return True
    try:
        return agreement.tolerance(side.loaded.graph) > agreement.TOLERANCE
    except InputError:
        return False


# -- inputs


def inputs(one: Side, two: Side, shapes: feeds.Shapes, pairs: Sequence[str]) -> tuple[list[list[Pair]], Sizes]:
    """Ways to pair the inputs; and the shapes of both, by pair."""
    names = [[spec.name for spec in side.inputs] for side in (one, two)]
    given = pairing.mapped(pairs, *names)
    outputs = [[spec.name for spec in side.outputs] for side in (one, two)]
    for text in pairs:
        if not (pairing.mapped([text], *names) or pairing.mapped([text], *outputs)):
            raise InputError(
                f"--map {text!r}: expected NAME=NAME of A and B; inputs: {', '.join(names[0])} and "
                f"{', '.join(names[1])}; outputs: {', '.join(outputs[0])} and {', '.join(outputs[1])}"
            )
    sizes = _sizes(one, two, shapes)
    found = pairing.candidates(names[0], names[1], sizes, given)
    if not found:
        kinds = (
            [f"{s.name!r} {s.dtype}[{','.join(map(str, s.shape or ()))}]" for s in side.inputs] for side in (one, two)
        )
        said = [", ".join(each) or "none" for each in kinds]
        raise InputError(
            f"the inputs of {one.name} ({said[0]}) have no partners in {two.name} ({said[1]}): "
            "pair them with --map A=B, and give open shapes with --shape"
        )
    return found, sizes


def _sizes(one: Side, two: Side, shapes: feeds.Shapes) -> Sizes:
    """The shapes of each two inputs that may have the same numbers; of one's own open extents the first is 1."""
    sizes: Sizes = {}
    for x in one.inputs:
        for y in two.inputs:
            a, b = shapes.get(x.name, one.usual.get(x.name, x.shape)), two.usual.get(y.name, y.shape)
            if a is not None and b is not None:
                a, b = pairing.completed(a, b), pairing.completed(b, a)
                a = tuple(n if isinstance(n, int) or i else 1 for i, n in enumerate(a))
                b = pairing.completed(b, a)
                if all(isinstance(n, int) for n in (*a, *b)):
                    sizes[x.name, y.name] = a, b  # type: ignore[assignment]
    return sizes


def samples(side: Side, fed: Arrays) -> list[Arrays]:
    """What is fed, a sample each: arrays that hold several (feeds.samples_of) are taken apart, others are in all.

    InputError where an array is neither a sample nor several, and where there are not as many of each input.
    """
    many: dict[str, list[np.ndarray]] = {}
    for spec in side.inputs:
        array = np.asarray(fed[spec.name]) if spec.name in fed and spec.shape is not None else None
        if (
            array is None
            or instance(spec.shape or (), array.shape)
            or spec.name in side.loaded.signature.interface.ports
        ):
            continue
        found = feeds.samples_of(array, spec.shape or ())
        if not found:
            wanted = ",".join(map(str, spec.shape or ()))
            raise InputError(
                f"input {spec.name!r} of {side.name} has shape {list(array.shape)}: expected [{wanted}], or samples x "
                f"[{wanted}]; of an array of another kind feed a part that fits"
            )
        many[spec.name] = found
    counts = {name: len(each) for name, each in many.items()}
    if len(set(counts.values())) > 1:
        raise InputError(f"expected as many samples of each input of {side.name}, found {counts}")
    return [{**fed, **{name: each[i] for name, each in many.items()}} for i in range(max(counts.values(), default=1))]


def all_fed(side: Side, fed: Arrays) -> bool:
    return all(spec.name in fed for spec in side.inputs)


def draw(one: Side, two: Side, inputs: Sequence[Pair], sizes: Sizes, fed: Arrays, seed: int) -> dict[str, Any]:
    """Feeds for A: those given, else random ones, of numbers that B can take where that rounds them first."""
    shapes = [{(pair.a, pair.b)[side]: sizes[pair.a, pair.b][side] for pair in inputs} for side in (0, 1)]
    if all_fed(one, fed):
        return dict(fed)
    mine, theirs = feeds.random_feeds(one.loaded, shapes[0], seed), feeds.random_feeds(two.loaded, shapes[1], seed)
    specs = [{spec.name: spec for spec in side.inputs} for side in (one, two)]
    for pair in inputs:
        x, y = specs[0][pair.a], specs[1][pair.b]
        if x.quantization is None and y.quantization is not None:
            stored = to_real(theirs[pair.b], y.quantization)
            mine[pair.a] = arranged(stored, pair.way[::-1], sizes[pair.a, pair.b][0]).astype(x.dtype)
        elif (limits := _limits(one, pair.a) or _limits(two, pair.b)) and mine[pair.a].dtype.kind == "f":
            low, high = limits
            drawn = np.random.default_rng(seed).normal((low + high) / 2, (high - low) / SPREAD, mine[pair.a].shape)
            mine[pair.a] = drawn.clip(low, high).astype(mine[pair.a].dtype)
    return mine | dict(fed)


def _limits(side: Side, name: str) -> tuple[float, float] | None:
    """The least and greatest number of a float input that QuantizeLinear reads with constants; None of others."""
    try:
        nodes = side.loaded.graph.nodes if side.model else []
    except InputError:
        return None
    for node in nodes:
        if node.op == "quantize_linear" and node.inputs[0] is not None and node.inputs[0].name == name:
            scale, zero = node.inputs[1], node.input(2)
            if scale is None or scale.data is None or scale.data.size != 1 or zero is None or zero.data is None:
                continue
            stored = np.iinfo(zero.data.dtype) if zero.data.dtype.kind in "iu" else None
            if stored is not None:
                step, start = float(scale.data.item()), int(zero.data.item())
                return step * (stored.min - start), step * (stored.max - start)
    return None


def fed(one: Side, two: Side, inputs: Sequence[Pair], sizes: Sizes, draw: Arrays) -> dict[str, np.ndarray]:
    """The feeds of A as B takes them: laid out, quantized, of its element type."""
    specs = [{spec.name: spec for spec in side.inputs} for side in (one, two)]
    found = {}
    for pair in inputs:
        x, y, array = specs[0][pair.a], specs[1][pair.b], np.asarray(draw[pair.a])
        if x.quantization != y.quantization or x.dtype != y.dtype:
            array = array if x.quantization is None else to_real(array, x.quantization)
            if y.quantization is not None and y.dtype is not None:
                array = to_stored(array, y.dtype, y.quantization)
            elif y.dtype is not None and y.dtype.kind in "iu" and array.dtype.kind == "f":
                array = np.rint(array)
            array = array if y.dtype is None else array.astype(y.dtype)
        found[pair.b] = np.ascontiguousarray(arranged(array, pair.way, sizes[pair.a, pair.b][1]))
    return found
