"""From a file to a model."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from .cpus import default_threads
from .errors import CopyError, FileError, InputError, MissingFileError, ModelError, UnsupportedError
from .ir import Graph
from .kernels.isa.tiers import PRECISIONS, Tier, choose
from .limits import Limits, spending
from .locks import undisturbed
from .runtime.check_feeds import boolean
from .runtime.feeds import declared
from .runtime.model import Model
from .runtime.plans import Plans
from .saved.source import container, saved_in

_BYTES_OF = ("read", "SerializeToString", "tobytes")
"""How files, messages of protobuf and arrays give their bytes."""

Asked = tuple[list[str] | None, bool, str]
"""The outputs that a caller wants, whether quantized inputs and outputs are to be floats, and the precision."""


def load(
    source: str | os.PathLike[str] | bytes,
    *,
    threads: int | None = None,
    isa: str | None = None,
    precision: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    function: str | None = None,
    limits: Limits | None = None,
    plans: Plans | int | str | None = None,
    outputs: Iterable[str] | None = None,
    float_io: bool = False,
    trusted: bool | None = None,
) -> Model:
    """A model from an ONNX, TensorFlow Lite or Circle file, or its bytes; from a Core ML package (.mlpackage), a zip
    archive of one, an .mlmodel, or the bytes of the last two; or from a saved program (.fgm: `Model.save`).

    `threads`: how many to run on (default: the CPUs that this process may use); results don't depend on it. `isa`: a
    tier ("generic", "avx2", "avxvnni", "avx512", "avx512vnni", "amx") instead of the widest this CPU has, or "numpy",
    which has no kernels: it is slow, and needs no compiler. `shapes`: sizes for inputs whose shapes the file leaves
    open, by name; without them a plan is made at the first run with a shape, and kept. `function`: which one of a Core
    ML program that has several (default: the one that the model names, else "main"), or the key of a TensorFlow Lite
    file's signature (default: sub-graph 0). `limits`: what loading, and
    a plan, may cost, for files that want more than `Limits()` and can be trusted (of a saved program default what it
    was saved with). `plans`: how many plans are kept (a number), or how many bytes of them ("512MB"), or both
    (`Plans`; 64 and "256MiB" by default); those least recently used go.
    `outputs`: names of the values to give instead of the file's outputs; inner ones too, and nothing else is computed.
    `float_io`: whether quantized inputs and outputs are float32, converted by the file's quantization.
    `precision`: what float32 may be computed in. "float32", the default: errors are no larger than those of chains of
    fused multiply-adds, whatever units compute them; "float32-fma": by no others; "float16": products of large
    convolutions and dense layers may be of operands rounded to float16's 11 bits or more (16 on CPUs with AMX, which
    are faster at it, 11 with AMX-FP16), summed in float32; "bfloat16": products of convolutions and dense layers, and
    attention, are of operands rounded to bfloat16, summed in float32, on CPUs with AMX or AVX512_BF16 for them. Else
    all is float32.
    `trusted`: whether the machine code of a saved program may be run (default: if only you, or the system's owner, can
    write the file, or FASTGRAPH_TRUST=1).

    Raises ModelError for a broken file, UnsupportedError for one that uses what fastgraph does not have, InputError
    for arguments that don't fit the model, and for files that can't be read errors that are OSErrors too
    (FileNotFoundError when there is none).
    """
    given: dict[str, Any] = {
        "threads": threads, "isa": isa, "shapes": shapes, "function": function, "limits": limits, "plans": plans,
        "outputs": _names(outputs), "float_io": boolean("float_io", float_io), "trusted": trusted,
        "precision": precision,
    }  # fmt: skip
    _check(given)
    count, kept = _count(threads), Plans.of(plans)
    try:
        with undisturbed():  # modules are imported on the way
            tier = choose(isa)
    except ValueError as error:
        raise InputError(str(error)) from None
    source = _existing(source)
    times = _times(source)
    model = (_from_program if saved_in(source) else _from_file)(source, tier, count, kept, given)
    model._reduced = partial(_reduced, source, times, dict(model.signature.beside), given)
    return model


def _check(given: Mapping[str, Any]) -> None:
    """InputError for arguments of `load` that are wrong for any file."""
    precision, trusted, function, limits = (given[name] for name in ("precision", "trusted", "function", "limits"))
    if not isinstance(precision, str | None) or precision not in (None, *PRECISIONS):
        raise InputError(
            f"precision={precision!r}: expected one of {', '.join(PRECISIONS)}; for integers load a quantized network, "
            "as `fastgraph quantize` or LiteRT's converter make them"
        )
    if not isinstance(trusted, bool | None):
        raise InputError(f"trusted={trusted!r}: expected True, False or None")
    if function is not None and not isinstance(function, str):
        raise InputError(f"function={function!r}: expected the name of a function")
    if not isinstance(limits, Limits | None):
        raise InputError(f"limits={limits!r}: expected fastgraph.Limits(constants=..., work=..., nodes=...)")


def _names(outputs: Iterable[str] | None) -> list[str] | None:
    """The names that are asked for; they may come from an iterator, and are asked for again where a program is kept."""
    if outputs is None:
        return None
    try:
        return [outputs] if isinstance(outputs, str) else list(outputs)
    except TypeError:
        raise InputError(f"outputs={outputs!r}: expected names of values, as in outputs=['name']") from None


def _from_program(source: str | bytes, tier: Tier, threads: int, plans: Plans, given: dict[str, Any]) -> Model:
    """The model of a saved program, of a tier if one is asked for."""
    for name in ("function", "outputs", "float_io", "precision"):
        if given[name] not in (None, False):
            raise InputError(f"{name}={given[name]!r}: a saved program is what it was saved as: save one with this")
    with undisturbed():
        from .runtime.stored import Saved
    asked = None if given["isa"] is None else tier
    saved = Saved(container(source, given["trusted"]), asked, threads, given["shapes"], limits=given["limits"])
    return Model(saved.graph, saved.tier, threads, plans, saved)


def _from_file(source: str | bytes, tier: Tier, threads: int, plans: Plans, given: dict[str, Any]) -> Model:
    """The model of a file in a format of others: from its program in the cache, or read and planned."""
    with undisturbed():
        from .runtime.kept import find, keeper, place_of
    function, shapes, limits = given["function"], given["shapes"], given["limits"] or Limits()
    asked = given["outputs"], given["float_io"], given["precision"] or PRECISIONS[0]
    place = place_of(source, tier, (threads, function, shapes, vars(limits), asked))
    found = None if place is None else find(place, str(source))
    if found is not None:
        with suppress(ModelError), undisturbed():  # a damaged one: the file itself is read
            from .runtime.stored import Saved

            reread = partial(_reread, source, _times(source), function, limits, asked)
            saved = Saved(found, tier, threads, shapes, reread)
            return Model(saved.graph, tier, threads, plans, saved)
    graph = _read(source, function, limits, asked)
    declared(graph, shapes)
    return Model(graph, tier, threads, plans, keep=None if place is None else keeper(place))


def _read(source: str | bytes, function: str | None, limits: Limits, asked: Asked) -> Graph:
    """The graph of a model file, with the outputs that the caller wants, and floats for quantized ones."""
    outputs, float_io, precision = asked
    try:
        with undisturbed(), spending(limits):
            from .frontends import read
            from .frontends.edges import choose_outputs, use_floats

            graph = read(source, function)
            if outputs is not None:
                choose_outputs(graph, outputs)
            if float_io:
                use_floats(graph)
            graph.precision = precision
    except (RecursionError, MemoryError) as error:
        raise ModelError(f"{source if isinstance(source, str) else 'model'}: too large or too deep: {error}") from None
    except OSError as error:
        raise error if isinstance(error, FileError) else FileError(f"{source!r}: {error}") from None
    for value in graph.inputs:
        if value.type.dtype is None and value.name not in graph.interface.ports:
            raise UnsupportedError(
                f"{graph.source or graph.name}: input {value.name!r} is no tensor, sequence or optional of a "
                "known element type: only such can be fed, so let the file say its element type"
            )
    return graph


def _times(source: str | bytes) -> Any:
    """Sizes and times of a file, or of a package's files, by which a changed one is told; None for bytes, and for a
    file that is gone.
    """
    try:
        if isinstance(source, str) and os.path.isdir(source):
            with undisturbed():
                from .runtime.kept import files
            return [_times(path) for path in files(source)]
        info = None if isinstance(source, bytes) else os.stat(source)
    except OSError:
        return None
    return info and (info.st_size, info.st_mtime_ns)


def _reduced(source: str | bytes, times: Any, beside: dict[str, Any], given: dict[str, Any]) -> tuple[Any, ...]:
    """What a model pickles as: bytes, or the path of a file with its digest and the names of those `beside` it that it
    has data in. CopyError when a file has changed.
    """
    if isinstance(source, bytes):
        return again, (source, "", given)
    from .runtime.kept import digest

    try:
        if times is not None and _times(source) == times and all(_times(path) == beside[path] for path in beside):
            folder = os.path.realpath(os.path.dirname(source))
            names = sorted(os.path.relpath(path, folder) for path in beside)
            return again, (os.path.abspath(source), digest(source, beside=_in_folder(source, names)), given, names)
    except OSError:
        pass
    raise CopyError(
        f"{source}: the file, or data beside it, has changed since the model was loaded, so it can't be pickled: load "
        "it again, or copy it with clone()"
    )


def again(source: str | bytes, digest: str, given: dict[str, Any], beside: Sequence[str] = ()) -> Model:
    """The model that was pickled. FileError when its files are others here; else raises what `load` does."""
    paths = [] if isinstance(source, bytes) else [source, *_in_folder(source, beside)]
    if paths and all(map(os.path.exists, paths)):  # else `load` says what there is not
        from .runtime import kept

        if kept.digest(paths[0], beside=paths[1:]) != digest:
            files = " with ".join([paths[0], ", ".join(beside)] if beside else paths)
            raise FileError(f"{files}: this is not the file that the pickled model was loaded from: copy that one here")
    return load(source, **given)


def _in_folder(source: str, names: Iterable[str]) -> list[str]:
    """The paths of files beside a model's own."""
    return [os.path.join(os.path.dirname(os.path.abspath(source)), name) for name in names]


def _reread(source: str | bytes, times: Any, function: str | None, limits: Limits, asked: Asked) -> Graph:
    """The graph of a file whose program was kept. FileError when the file has changed since that was loaded."""
    assert isinstance(source, str)
    if times is None or _times(source) != times:
        raise FileError(f"{source}: the file has changed since the model was loaded, so its graph can't be shown")
    return _read(source, function, limits, asked)


def _count(threads: int | None) -> int:
    try:
        count = default_threads() if threads is None else operator.index(threads)
    except TypeError:
        count = 0
    if count < 1:
        raise InputError(f"threads={threads!r}: expected a whole number from 1 on, or None for one per CPU")
    return count


def _existing(source: str | os.PathLike[str] | bytes) -> str | bytes:
    """The path as text, or the bytes; MissingFileError when nothing is there."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    if not isinstance(source, str | os.PathLike):
        ways = [way for way in _BYTES_OF if hasattr(source, way)]
        said = f": give its bytes, source.{ways[0]}()" if ways else ""
        raise InputError(f"expected the path of a model file or its bytes, found {type(source).__name__}{said}")
    path = os.fsdecode(source)
    if not os.path.exists(path):
        raise MissingFileError(f"{path or repr(path)}: there is no such file{_instead(path)}")
    return path


def _instead(path: str) -> str:
    """Advice about a path at which there is nothing, where the path itself shows why."""
    if path.startswith(("https://", "http://")):
        return "; nothing is fetched from the net: download it, and give the file's path"
    if path.startswith("file://"):
        return f"; give a path, not an address: {path.removeprefix('file://')!r}"
    if os.path.islink(path):
        return f"; it is a link to {os.readlink(path)!r}, where there is none"
    above = os.path.dirname(path)
    if os.path.isfile(above):
        return f"; {above!r} is a file, not a folder: unpack it if it is an archive"
    home = os.path.expanduser(path)
    return f"; ~ is a shell's word for a home: give {home!r}" if home != path and os.path.exists(home) else ""
