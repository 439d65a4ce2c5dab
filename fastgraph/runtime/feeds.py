"""Feeds as arrays of the inputs' types; where that is impossible, an error with the code that converts them."""

from __future__ import annotations

import itertools
import math
import operator
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakSet

import numpy as np

from ..errors import InputError, UnknownNameError
from ..ir import Graph, Quantization, Shape, TensorType, Value, fits
from ..room import need

TO_FIRST = {3: (0, 2, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}
TO_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


_WIDER = dict.fromkeys(("bfloat16", "float8_", "float6_", "float4_"), "f4")
_WIDER |= {"int4": "i1", "int2": "i1", "uint4": "u1", "uint2": "u1"}


_warned: WeakSet[Value] = WeakSet()
"""Inputs of which a caller was told that pixels are fed as they are."""


def widened(array: np.ndarray) -> np.ndarray:
    """The array; one of the package ml_dtypes in the NumPy type that graphs hold its elements in."""
    if array.dtype.isbuiltin == 1:
        return array
    name = array.dtype.name
    wider = _WIDER.get(name[:7] if name.startswith("float") else name)
    return array if wider is None else array.astype(wider)


def array_of(value: Value, fed: Any) -> np.ndarray:
    """A feed in the input's element type. InputError, with a conversion that works, where that would change numbers.

    Arrays, also those of the package ml_dtypes, are converted where no number changes. Python's own numbers and lists
    of them are read as the input's type, floats rounded. Quantized inputs take stored numbers, and arrays of no other
    type.
    """
    dtype = value.type.dtype
    if type(fed) is np.ndarray and fed.dtype == dtype:
        return fed
    array = _read(value, fed)
    if dtype is not None and dtype.kind == "O" and array.dtype.kind in "UST":
        array = array.astype(object)
    if dtype is None or array.dtype == dtype:
        return array
    if array.dtype.kind not in "fiubc" or dtype.kind not in "fiubc":
        found = f"{array.dtype} ({type(fed).__name__})"
        raise InputError(
            f"input {value.name!r} has dtype {found}, the model declares {value.type}: {_instead(array, fed, dtype)}"
        )
    untyped = isinstance(fed, list | tuple | bool | int | float | complex) and not isinstance(fed, np.generic)
    if value.type.quant is None or (untyped and array.dtype.kind in "iu"):
        try:
            need(array.size * (2 * array.itemsize + dtype.itemsize))
        except MemoryError as error:
            raise InputError(f"input {value.name!r}: not enough memory for shape {array.shape}: {error}") from None
        made = _converted(array, dtype, rounds=untyped)
        if made is not None:
            if array.dtype == np.uint8 and dtype.kind == "f" and array.ndim > 2 and value not in _warned:
                _warn_of_pixels(value)
            return made
    advice = _advice(value, array, untyped)
    raise InputError(f"input {value.name!r} has dtype {array.dtype}, the model declares {value.type}: {advice}")


def _read(value: Value, fed: Any) -> np.ndarray:
    """A feed as an array of its own type, or a wider one. InputError for what is no array, or is masked in part."""
    masked = isinstance(fed, np.ndarray) and np.count_nonzero(getattr(fed, "mask", False))
    if masked:
        raise InputError(
            f"input {value.name!r}: {masked} of its elements are masked: say what they are, as x.filled(0) does"
        )
    try:
        return widened(_as_array(fed))
    except Exception as error:
        said = " ".join(str(error).split())
        feed = "x.detach().cpu().float().numpy()" if hasattr(fed, "detach") else "a numpy.ndarray"
        raise InputError(
            f"input {value.name!r}: {type(fed).__name__} can't be read as an array ({said}): feed {feed}"
        ) from None


def _warn_of_pixels(value: Value) -> None:
    """Warn, once for each input, of bytes that are fed as floats."""
    _warned.add(value)
    warnings.warn(
        f"input {value.name!r}: uint8 pixels are fed as they are, as floats from 0 to 255: scale them if "
        f"the network wants others (x / 255), or feed x.astype(np.{value.type.dtype}) if it does not",
        RuntimeWarning,
        stacklevel=_outside(),
    )


def _as_array(fed: Any) -> np.ndarray:
    """Anything that NumPy takes for an array; without a copy where it speaks DLPack only."""
    if hasattr(fed, "__dlpack__") and not hasattr(fed, "__array__"):
        return np.from_dlpack(fed)
    return np.asarray(fed)


def _outside() -> int:
    """The stack level, for a warning of the caller's, of the first function outside of this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(__package__.partition(".")[0]):
        frame, level = frame.f_back, level + 1
    return level


def _converted(array: np.ndarray, dtype: np.dtype, rounds: bool) -> np.ndarray | None:
    """The array in another type if no number changes, or with `rounds` if floats are only rounded; else None."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = array.astype(dtype)
        back = made.astype(array.dtype)
        same = (back == array) | ((back != back) & (array != array))
        if array.dtype.kind in "iu" and dtype.kind in "iu":
            same &= (made < 0) == (array < 0)
        if rounds and array.dtype.kind in "fiu" and dtype.kind in "fc":
            same |= np.isfinite(made)
    return made if np.all(same) else None


def _advice(value: Value, array: np.ndarray, untyped: bool) -> str:
    """The code that converts a feed x, for an error's text."""
    dtype, quant, kind = value.type.element, value.type.quant, array.dtype.kind
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    if quant is not None and limits is not None:
        if kind in "iu" and {array.dtype.name, dtype.name} == {"uint8", "int8"}:
            sign = "-" if dtype.kind == "i" else "+"
            return (
                f"pixels are (x.astype(np.int16) {sign} 128).astype(np.{dtype}), real numbers {_stored(quant, dtype)}"
            )
        if kind in "fb":
            return f"feed what real numbers x are stored as: {_stored(quant, dtype)}"
        return (
            f"it takes stored numbers from {limits.min} to {limits.max} as np.{dtype}; "
            f"of real numbers x these are {_stored(quant, dtype)}"
        )
    if dtype.kind == "b":
        return "feed x != 0"
    if limits is not None and kind in "iu":
        return f"it takes numbers from {limits.min} to {limits.max}, found {array.min()} to {array.max()}"
    if limits is not None:
        return f"round it with np.rint(x).astype(np.{dtype})"
    if kind == "c" and dtype.kind != "c":
        return f"feed x.real.astype(np.{dtype}), or another real part of it"
    return f"convert it with {f'np.array(x, np.{dtype})' if untyped else f'.astype(np.{dtype})'}"


def _instead(array: np.ndarray, fed: Any, dtype: np.dtype) -> str:
    """The advice of an error about x, which holds no numbers: what to feed instead."""
    if isinstance(fed, bytes | bytearray | memoryview):
        return f"of bytes x, feed np.frombuffer(x, np.{dtype}) in that shape"
    if array.dtype.names:
        return f"feed one of its fields, as x[{array.dtype.names[0]!r}]"
    kinds = {type(item) for item in array.flat} if array.dtype.kind == "O" and array.ndim else set()
    if kinds & {list, tuple, np.ndarray}:
        return "its elements are arrays: feed them in one, as np.stack(x) makes it of arrays of one shape"
    if kinds:
        made = isinstance(fed, np.ndarray) and type(None) not in kinds
        instead = f"feed x.astype(np.{dtype})" if made else f"feed numbers that np.{dtype} holds"
        return f"its elements are Python's ({', '.join(sorted(kind.__name__ for kind in kinds))}): {instead}"
    return f"feed x.astype(np.{dtype})" if isinstance(fed, np.ndarray) else "feed such an array"


def _stored(quant: Quantization, dtype: np.dtype) -> str:
    """The expression of stored numbers for reals x."""
    limits = np.iinfo(dtype)
    if quant.axis is not None:
        return "model.inputs[i].quantization.quantize(x)"
    zero = int(quant.zero_point[0])
    shift = f" {'-' if zero < 0 else '+'} {abs(zero)}" if zero else ""
    return f"np.clip(np.rint(x / {quant.scale[0]:.9g}){shift}, {limits.min}, {limits.max}).astype(np.{dtype})"


def without_overlap(feeds: Mapping[str, Any], written: Sequence[np.ndarray]) -> dict[str, Any]:
    """The feeds, with copies of those that overlap memory that is about to be `written`, also in lists.

    Only the bounds of memory are compared, so that a few are copied needlessly. NumPy's own check for overlap does not
    do: another input may be written first, and it copies vectors of different strides wrongly.
    """
    return {name: _apart(fed, written) for name, fed in feeds.items()}


def _apart(fed: Any, written: Sequence[np.ndarray]) -> Any:
    if isinstance(fed, list):
        return [_apart(item, written) for item in fed]
    if isinstance(fed, np.ndarray) and any(np.may_share_memory(fed, memory) for memory in written):
        return fed.copy()
    return fed


def picked(
    results: dict[str, Any], names: Sequence[str] | None, out: Mapping[str, np.ndarray] | None
) -> dict[str, Any]:
    """The results of these names, and of those that are to be written into arrays: these. UnknownNameError for a name
    that there is not, InputError for an array that is not exactly what the result is. What is its result holds it.
    """
    out = {} if out is None else out
    if not isinstance(out, Mapping):
        form = f"{{{next(iter(results), '')!r}: array}}"
        raise InputError(f"out: expected arrays by output, as {form}, found {type(out).__name__}")
    wanted = list(out) if names is None else [names] if isinstance(names, str) else list(names)
    for name in (*wanted, *out):
        if name not in results:
            raise UnknownNameError(f"no output is called {name!r}: the outputs are {', '.join(results)}")
    for name, array in out.items():
        if results[name] is not array:
            _refuse_unlike(name, array, results[name])
    _refuse_overlap(out)
    for name, array in out.items():
        if results[name] is not array:
            array[...] = results[name]
    return {name: out.get(name, results[name]) for name in wanted}


def _refuse_unlike(name: str, array: Any, result: Any) -> None:
    """InputError for an array that is not exactly what a result is."""
    same = isinstance(result, np.ndarray) and type(array) is np.ndarray and array.flags.writeable
    if not same or (array.dtype, array.shape) != (result.dtype, result.shape):
        said = f"{result.dtype}{list(result.shape)}" if isinstance(result, np.ndarray) else type(result).__name__
        found = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
        found += " that is read-only" if isinstance(array, np.ndarray) and not array.flags.writeable else ""
        raise InputError(f"out: output {name!r} is {said}, found {found}: give an array like it, to be written")


def _refuse_overlap(out: Mapping[str, np.ndarray]) -> None:
    for name, array in out.items():
        if not _is_without_overlap(array):
            raise InputError(f"out: elements of the array of output {name!r} lie in the same memory: give an array")
    for (a, first), (b, second) in itertools.combinations(out.items(), 2):
        if _overlap(first, second):
            raise InputError(f"out: the arrays of outputs {a!r} and {b!r} overlap: give each an array of its own")


def _is_without_overlap(array: np.ndarray) -> bool:
    """Whether no two elements share memory: steps along an axis pass over all that the shorter ones reach."""
    if not array.size or array.flags.c_contiguous:
        return True
    reach = array.itemsize
    for stride, n in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < reach:
            return False
        reach += stride * (n - 1)
    return True


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return np.shares_memory(a, b, max_work=10**6)  # type: ignore[arg-type]  # any number, as NumPy documents it
    except np.exceptions.TooHardError:
        return True


def dims_of(name: str, shape: Any) -> tuple[int, ...]:
    """The extents that a caller gives for an input, as ints. InputError unless they are whole numbers."""
    try:
        return tuple(operator.index(d) for d in shape)
    except TypeError:
        raise InputError(f"shape {shape!r} of input {name!r}: expected whole numbers, as in (1, 3, 224, 224)") from None


def shape_advice(declared: Shape, shape: Sequence[int]) -> str:
    """The code that gives an array x the declared shape, for an error's text."""
    rank, n = len(declared), len(shape)
    for code, made, why in _other_axes(declared, shape):
        if instance(declared, made):
            return f"{why}: feed {code}"
    if n == rank and n and instance(declared[1:], shape[1:]) and isinstance(declared[0], int) and declared[0]:
        at = declared[0]
        some = f"np.concatenate([model(x[i : i + {at}]) for i in range(0, len(x), {at})])"
        return f"the file fixes the batch at {at}: run {at} at a time, as in {some}"
    if n == rank + 1 and instance(declared, shape[1:]):
        return f"it seems to hold {shape[0]} samples: feed one at a time, x[0] the first"
    sizes = [d for d in declared if isinstance(d, int)]
    if len(sizes) == rank and math.prod(sizes) == math.prod(shape):
        return f"if its numbers are in that order, feed x.reshape({', '.join(map(str, declared))})"
    return "feed an array that fits"


def _other_axes(declared: Shape, shape: Sequence[int]) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """(code, shape, why): ways to give an array x other axes, or another order of them, than it has."""
    rank, n = len(declared), len(shape)
    yield "x[None]", (1, *shape), "it has no batch"
    yield "x[None, ..., None]", (1, *shape, 1), "it has neither batch nor channels"
    yield "x[None, None]", (1, 1, *shape), "it has neither batch nor channels"
    for perm, channels, said in (
        (TO_FIRST, 1, "its channels are last, the model takes them first"),
        (TO_LAST, -1, "its channels are first, the model takes them last"),
    ):
        if rank not in perm or not isinstance(declared[channels], int):
            continue
        if n == rank:
            order = perm[rank]
            yield f"x.transpose{order}", tuple(shape[i] for i in order), said
        if n == rank - 1:
            order = tuple(i - 1 for i in perm[rank][1:])
            yield f"x.transpose{order}[None]", (1, *(shape[i] for i in order)), f"it has no batch, and {said}"
    if n == rank + 1 and shape[0] == 1:
        yield "x[0]", tuple(shape[1:]), "it has an axis more"


def instance(declared: Shape, shape: Sequence[int]) -> bool:
    """Whether a shape matches a declared one."""
    return len(declared) == len(shape) and all(
        not isinstance(d, int) or d == s for d, s in zip(declared, shape, strict=True)
    )


def declared(graph: Graph, shapes: Mapping[str, Sequence[int]] | None) -> None:
    """Set input shapes as the caller of load asked. InputError when a name or a rank is wrong."""
    inputs = {v.name: v for v in graph.inputs}
    if not isinstance(shapes, Mapping | None):
        example = f"{{{next(iter(inputs), 'x')!r}: (1, 3)}}"
        raise InputError(f"shapes={shapes!r}: expected shapes by input name, as in {example}")
    where = graph.source or graph.name or "model"
    for name, shape in (shapes or {}).items():
        if name not in inputs:
            raise InputError(f"{where}: shapes names {name!r}, the inputs are {', '.join(inputs) or 'none'}")
        try:
            dims = dims_of(name, shape)
            allowed(graph, inputs[name], dims, extents_advice)
        except InputError as error:
            raise InputError(f"{where}: shapes: {error}") from None
        inputs[name].type = TensorType(inputs[name].type.dtype, dims, inputs[name].type.quant)


def extents_advice(declared: Shape, shape: Sequence[int]) -> str:
    """What shape to give for an input where one was given, for an error's text."""
    if all(isinstance(d, int) for d in declared):
        return "the file fixes it: leave it out"
    return f"give {len(declared)} extents, those of the file where it fixes them"


def allowed(
    graph: Graph, value: Value, shape: tuple[int, ...], advise: Callable[[Shape, Sequence[int]], str] = shape_advice
) -> None:
    """InputError unless an input may have this shape; `advise` says what to do instead, given both shapes."""
    fits(value, shape, advise)
    port = graph.interface.ports.get(value.name)
    if port is not None and port.check is not None:
        port.check(shape)
