"""Feeds of commands: arrays from files, random arrays, shapes from the command line; floats for quantized inputs and
outputs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ..errors import InputError
from ..ir import Graph, Kind, Shape
from ..ir.quantization import to_real, to_stored
from ..runtime.feeds import instance
from ..runtime.model import Model, TensorSpec
from . import audio, images, preprocessing, tensors
from .preprocessing import NOTHING, Preprocessing

MAGIC = {
    b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz", b"\xff\xd8\xff": ".jpg", b"\x89PNG\r\n": ".png", b"GIF8": ".gif",
    b"fLaC": ".flac", b"OggS": ".ogg",
}  # fmt: skip
"""How files begin that need no other sign of what they are."""
IN_RIFF = {b"WAVE": ".wav", b"WEBP": ".webp"}


class Source:
    """A file by its name, or standard input for "-", all of which is read at once: then `data` is its bytes.

    `kind` is the file's suffix; that of standard input goes by its first bytes, and is "" where they are no sign.
    """

    def __init__(self, path: str) -> None:
        piped = path == "-"
        self.name = "standard input" if piped else path
        self.data = sys.stdin.buffer.read() if piped else None
        self.kind = Path(path).suffix.lower() if self.data is None else _kind(self.data)

    @property
    def piped(self) -> BytesIO | None:
        """Standard input as a file that is read from its beginning; None for a file."""
        return None if self.data is None else BytesIO(self.data)


def _kind(data: bytes) -> str:
    if data[:4] == b"RIFF":
        return IN_RIFF.get(data[8:12], "")
    return next((kind for magic, kind in MAGIC.items() if data.startswith(magic)), "")


Shapes = Mapping[str, Sequence[int]]


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


def read_inputs(
    texts: Sequence[str], model: Model, given: Preprocessing = NOTHING, *, file: str = "",
    shapes: Shapes | None = None, float_io: bool = False, say: Callable[[str], None] = lambda said: None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Arrays by input of ["name=file", "file", ...]: .npy, .npz, .pb (TensorProto), images, audio, folders of ONNX's
    test data, and any other file as raw numbers. The file "-" is standard input: .npy, .npz, an image or audio by its
    first bytes, else raw numbers.

    The name may be left out for the only input, and for an .npz, which has names. `given` says what becomes of images
    and audio; what it leaves open, the metadata of the model's `file` does; `say` is told of both. With `float_io` raw
    files for quantized inputs hold float32, and floats are quantized. InputError when a file does not fit the input.
    """
    specs = {spec.name: spec._replace(shape=model.signature.usual.get(spec.name, spec.shape)) for spec in model.inputs}
    feeds: dict[str, np.ndarray] = {}
    piped, kinds = False, set()
    for text in texts:
        name, path = _named(text, specs)
        if path == "-" and piped:
            raise InputError(f"--input {text!r}: standard input was read already, for another input")
        source = Source(path)
        piped |= path == "-"
        kinds.add(source.kind)
        if source.kind == ".npz":
            feeds |= _npz(text, name, source)
            continue
        if name is None and Path(path).is_dir():
            feeds |= tensors.numbered(path, "input", list(specs))
            continue
        name = _input_name(text, name, list(specs), feeds)
        spec = specs[name]
        if source.kind == ".npy":
            feeds[name] = _numpy(text, source)
        elif source.kind == ".pb":
            feeds[name] = tensors.read_pb(path)
        elif source.kind in images.SUFFIXES | audio.SUFFIXES:
            wanted = given.over(preprocessing.of_model(model, file).get(name, NOTHING))
            if source.kind in audio.SUFFIXES:
                feeds[name] = audio.audio_input(source.name, source.piped, spec, wanted, say)
            else:
                feeds[name] = _image(source, spec, model, wanted, say)
        else:
            feeds[name] = _raw(source, spec, (shapes or {}).get(name), float_io)
    if piped:
        preprocessing.check_used(given, bool(kinds & images.SUFFIXES), bool(kinds & audio.SUFFIXES))
    return {name: edge_in(array, specs[name], float_io) if name in specs else array for name, array in feeds.items()}


def _input_name(text: str, name: str | None, inputs: Sequence[str], feeds: Collection[str]) -> str:
    """The input that a file is for: the only one where no name is given. InputError unless it is one that has no array
    among `feeds` yet.
    """
    if name is None and len(inputs) == 1:
        name = inputs[0]
    if name is None or name not in inputs:
        found = f"no input is called {name!r}; " if name else "write it as name=file; "
        raise InputError(f"--input {text!r}: {found}the inputs are {', '.join(inputs) or 'none'}")
    if name in feeds:
        raise InputError(f"--input {text!r}: input {name!r} was given already; give each once")
    return name


def _image(
    source: Source, spec: TensorSpec, model: Model, wanted: Preprocessing, say: Callable[[str], None]
) -> np.ndarray:
    """An image file for an input; an input that is declared to be an image takes plain pixels in its colors."""
    port = model.signature.interface.ports.get(spec.name)
    if port is not None and port.layout:
        model_scales = Preprocessing(mean=[0], std=[1], colors=port.layout, source="the model scales pixels itself")
        wanted = wanted.over(model_scales)
    pixels = images.read_image(source.name, source.data)
    array, said = images.image_input(pixels, spec, wanted)
    say(f"input {spec.name!r}: {source.name}: {said}; {wanted.source or 'the default of its type: --mean, --std'}")
    return array


def _named(text: str, names: Container[str]) -> tuple[str | None, str]:
    """The name, if any, and the path. Both may contain "=": a name of an input is preferred."""
    for at, sign in enumerate(text):
        if sign == "=" and text[:at] in names:
            return text[:at], text[at + 1 :]
    name, equals, path = text.partition("=")
    return (name, path) if equals and not Path(text).exists() else (None, text)


def _npz(text: str, name: str | None, source: Source) -> dict[str, np.ndarray]:
    found, path = _numpy(text, source), source.name
    if isinstance(found, np.ndarray):
        raise InputError(f"--input {text!r}: {path} is a single array: call it .npy")
    with found:
        if name is not None and name not in found.files:
            raise InputError(f"--input {text!r}: {path} has no array {name!r}, it has {', '.join(found.files)}")
        try:
            return {key: found[key] for key in ([name] if name is not None else found.files)}
        except (ValueError, EOFError, BadZipFile) as error:
            raise InputError(f"--input {text!r}: {path} holds what is no plain array ({error})") from None


def _numpy(text: str, source: Source) -> Any:
    try:
        return np.load(source.piped or source.name, allow_pickle=False)
    except (ValueError, EOFError, BadZipFile) as error:
        raise InputError(f"--input {text!r}: {source.name} is no NumPy file ({error})") from None


def _raw(source: Source, spec: TensorSpec, shape: Sequence[int] | None, float_io: bool) -> np.ndarray:
    """The bytes of a file as an array, in this machine's byte order."""
    dims = _dims(spec, shape)
    dtype = np.dtype(np.float32) if float_io and spec.quantization is not None else spec.dtype
    if dtype is None or dtype.kind not in "fiubc":
        raise InputError(
            f"input {spec.name!r} is {spec.dtype}: no raw file holds that; of text give an .npy, as np.save makes "
            "it of an array of str"
        )
    data = Path(source.name).read_bytes() if source.data is None else source.data
    want = math.prod(dims) * dtype.itemsize
    if len(data) != want:
        said = f"{dtype}[{','.join(map(str, dims))}]"
        raise InputError(f"{source.name}: {len(data)} bytes, input {spec.name!r} takes {want} of {said} as a raw file")
    return np.frombuffer(data, dtype).reshape(dims)


def samples_of(array: np.ndarray, shape: Shape) -> list[np.ndarray] | None:
    """The samples in an array that has an axis of them before those of an input's shape, or more rows in the place of
    its batch, each in that shape; None where it has neither.
    """
    if array.ndim and instance(shape, array.shape[1:]):
        return list(array)
    if array.ndim != len(shape) or not shape or not instance(shape[1:], array.shape[1:]):
        return None
    size = shape[0] if isinstance(shape[0], int) else 1
    return [array[i : i + size] for i in range(0, len(array) - size + 1, size)]


def edge_in(array: np.ndarray, spec: TensorSpec, float_io: bool) -> np.ndarray:
    """An array as the model takes it: with `float_io` floats for a quantized input are quantized."""
    quantized = spec.quantization is not None and spec.dtype is not None and spec.dtype.kind in "iu"
    if not quantized or array.dtype.kind != "f":
        return array
    if not float_io:
        raise InputError(
            f"input {spec.name!r} takes {spec.dtype} that stands for {spec.quantization}, {array.dtype} was given: "
            "quantize it by adding --float-io, or feed the stored numbers"
        )
    return to_stored(array, spec.dtype, spec.quantization)  # type: ignore[arg-type]


def edge_out(outputs: Mapping[str, Any], specs: Sequence[TensorSpec]) -> dict[str, Any]:
    """The outputs, with quantized ones as float32."""
    quants = {spec.name: spec.quantization for spec in specs}

    def real(name: str, array: Any) -> Any:
        quant = quants.get(name)
        plain = quant is None or not isinstance(array, np.ndarray) or array.dtype.kind not in "iu"
        return array if plain else to_real(array, quant).astype(np.float32)  # type: ignore[arg-type]

    return {name: real(name, array) for name, array in outputs.items()}


def proposed_shapes(graph: Graph, given: Container[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of open inputs that are not among those `given`: as the file proposes, else with a batch of 1.
    InputError when more is open.
    """
    return {
        v.name: _dims(TensorSpec.of(v), graph.usual.get(v.name))
        for v in graph.inputs
        if v.type.dtype is not None and not v.type.concrete and v.name not in given
    }


def random_feeds(model: Model, shapes: Shapes, seed: int = 0) -> dict[str, np.ndarray]:
    """An array for each input, seeded: normal floats, random booleans, bytes and quantized integers over their whole
    range; other integers, and those of 4 and 2 bits, are 0 and 1 (they may be indices). Open shapes are those that the
    file proposes, else with a batch of 1. InputError when more is open.
    """
    rng = np.random.default_rng(seed)
    known = model.signature.usual | dict(shapes)
    ports = model.signature.interface.ports
    kinds = {name: port.kind for name, port in ports.items()}
    return {spec.name: _random(spec, kinds.get(spec.name), known.get(spec.name), rng) for spec in model.inputs}


def _random(spec: TensorSpec, kind: Kind | None, shape: Sequence[int] | None, rng: np.random.Generator) -> np.ndarray:
    if kind is not None and kind.form != "tensor":
        raise InputError(f"input {spec.name!r} is a {kind}: no random values for that, feed it from Python")
    dims = _dims(spec, shape)
    if spec.dtype is None or spec.dtype.kind not in "fiubc":
        raise InputError(f"input {spec.name!r} is {spec.dtype}: no random values for that, feed it with --input")
    if kind is not None and kind.element == "float8e8m0":
        return np.ldexp(np.float32(1), rng.integers(-4, 5, dims)).astype(spec.dtype)
    if spec.dtype.kind in "fc":
        return rng.standard_normal(dims).astype(spec.dtype)
    whole = spec.dtype.kind in "iu" and (kind is None or not kind.element)
    if whole and (spec.quantization is not None or spec.dtype.itemsize == 1):
        limits = np.iinfo(spec.dtype)
        return rng.integers(limits.min, limits.max, dims, spec.dtype, endpoint=True)
    return rng.integers(0, 2, dims).astype(spec.dtype)


def _dims(spec: TensorSpec, shape: Sequence[int] | None) -> tuple[int, ...]:
    """The given shape, or the input's own, with a batch of 1 where only the first of several extents is open."""
    dims = shape if shape is not None else spec.shape
    if dims is not None and len(dims) > 1 and not isinstance(dims[0], int):
        dims = (1, *dims[1:])
    if dims is None or not all(isinstance(d, int) for d in dims):
        said = "unknown" if dims is None else ",".join(str(d or "?") for d in dims)
        raise InputError(f"input {spec.name!r} has an open shape ({said}): give it with --shape {spec.name}=...")
    return tuple(int(d) for d in dims)  # type: ignore[arg-type]
