"""From a file to a model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from .errors import ModelError, UnsupportedError
from .frontends import read
from .kernels.isa.tiers import choose
from .limits import Limits, spending
from .runtime.model import Model, declared
from .runtime.pool import default_threads


def load(
    source: str | os.PathLike[str] | bytes,
    *,
    threads: int | None = None,
    isa: str | None = None,
    precision: str = "float32",
    shapes: Mapping[str, Sequence[int]] | None = None,
    function: str | None = None,
    limits: Limits | None = None,
) -> Model:
    """A model from an ONNX, TensorFlow Lite or Circle file, or its bytes; or from a Core ML package (.mlpackage), a zip
    archive of one, an .mlmodel, or the bytes of the last two.

    `threads`: how many to run on (default: the CPUs that this process may use); results don't depend on it. `isa`: a
    tier ("generic", "avx2", "avxvnni", "avx512", "avx512vnni", "amx") instead of the widest this CPU has. `shapes`:
    sizes for inputs whose shapes the file leaves open, by name; without them a plan is made at the first run with a
    shape, and kept. `function`: which one of a Core ML program that has several (default: the one that the model names,
    else "main"). `limits`: what loading may cost, for files that want more than `Limits()` and can be trusted.

    Raises ModelError for a broken file, UnsupportedError for one that uses what fastgraph does not have, InputError
    for arguments that don't fit the model.
    """
    if precision != "float32":
        raise UnsupportedError(f"precision={precision!r}: this version computes in float32 only")
    if threads is not None and threads < 1:
        raise ValueError(f"threads={threads}: at least 1")
    try:
        with spending(limits or Limits()):
            graph = read(source, function)
    except (RecursionError, MemoryError) as error:
        raise ModelError(f"{source if isinstance(source, str) else 'model'}: too large or too deep: {error}") from None
    for value in graph.inputs:
        if value.type.dtype is None:
            raise UnsupportedError(
                f"{graph.source}: input {value.name!r} is no tensor (but a sequence, optional, map or resource): "
                "cut the model behind what reads it"
            )
    declared(graph, shapes)
    return Model(graph, choose(isa), threads or default_threads())
