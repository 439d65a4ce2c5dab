"""Audio files as inputs: read by soundfile, mixed to one channel, brought to a rate by soxr."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..errors import InputError
from ..ir.quantization import to_stored
from ..runtime.model import TensorSpec
from .preprocessing import Preprocessing

SUFFIXES = frozenset({".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif", ".opus"})


def audio_input(
    path: str, stream: BinaryIO | None, spec: TensorSpec, wanted: Preprocessing, say: Callable[[str], None]
) -> np.ndarray:
    """The samples of an audio file for `spec`, -1..1 in floats, the integers of 16 bits in int16; a quantized input
    takes floats by its scale. `stream` is read in place of the file, if it is not None.

    Channels become their mean; with `wanted.rate` samples are brought to that rate, else they are fed at the file's.
    An input of fixed length gets zeros behind a shorter file, and the first samples of a longer one. What was done is
    said. InputError when the input takes no samples: all its extents but one must be 1.
    """
    place = _place(spec)
    samples, rate = read_audio(path, stream)
    done = [f"{rate} Hz, {len(samples) / rate:.2f} s"]
    if samples.shape[1] > 1:
        done.append(f"the mean of {samples.shape[1]} channels")
    samples = samples.mean(axis=1)
    if wanted.rate and wanted.rate != rate:
        samples = _library("soxr", path).resample(samples, rate, wanted.rate)
        done.append(f"resampled to {wanted.rate} Hz")
    elif not wanted.rate:
        done.append("at the file's own rate, as neither --rate nor the model says which it wants")
    length = (spec.shape or ())[place]
    if isinstance(length, int) and length != len(samples):
        cut = f"the first {length} of {len(samples)} samples"
        done.append(cut if length < len(samples) else f"{length - len(samples)} zeros behind it")
        samples = np.pad(samples, (0, max(length - len(samples), 0)))[:length]
    say(f"input {spec.name!r}: {path}: {', '.join(done)}")
    shape = [1] * len(spec.shape or ())
    shape[place] = len(samples)
    return _typed(samples, spec).reshape(shape)


def _place(spec: TensorSpec) -> int:
    """Which dimension samples lie along: the only one that is not 1; of an open batch and an open length, the last."""
    shape = spec.shape or ()
    places = [i for i, extent in enumerate(shape) if extent != 1]
    if len(places) == 2 and places[0] == 0 and not isinstance(shape[0], int):
        places = places[1:]
    floats = spec.dtype is not None and (spec.dtype.kind == "f" or spec.dtype == np.int16)
    if len(places) != 1 or not (floats or spec.quantization is not None):
        said = ",".join(str(d or "?") for d in shape)
        raise InputError(
            f"input {spec.name!r} is {spec.dtype}[{said}], which takes no audio file: samples are floats or int16 "
            "along one dimension, all others are 1. Where a model takes a spectrogram, compute it and feed an .npy file"
        )
    return places[0]


def _typed(samples: np.ndarray, spec: TensorSpec) -> np.ndarray:
    assert spec.dtype is not None
    if spec.dtype.kind == "f":
        return samples.astype(spec.dtype)
    if spec.quantization is not None:
        return to_stored(samples, spec.dtype, spec.quantization)
    return np.clip(np.rint(samples * 2**15), -(2**15), 2**15 - 1).astype(np.int16)


def read_audio(path: str, stream: BinaryIO | None) -> tuple[np.ndarray, int]:
    """Samples as float32 [n, channels] in -1..1, and how many there are a second. InputError when the file can't be
    decoded, OSError when it can't be read.
    """
    soundfile = _library("soundfile", path)
    if stream is None and not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        return soundfile.read(path if stream is None else stream, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise InputError(f"{path}: no audio file that can be read: {error}") from None


def _library(name: str, path: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        more = ", or resample the file before" if name == "soxr" else ""
        raise InputError(f"{path}: {name} is not installed: pip install 'fastgraph-runtime[audio]'{more}") from None
