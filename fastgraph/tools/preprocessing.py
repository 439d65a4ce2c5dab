"""Preprocessing of images and audio: from options of the command line, and from the metadata of files.

TensorFlow Lite: the NormalizationOptions, ImageProperties and AudioProperties of a file's TFLITE_METADATA. ONNX: the
model's metadata_props Image.BitmapPixelFormat and Image.NominalPixelRange, as ONNX's documents define them. Core ML's
programs scale pixels themselves; their inputs say which colors they take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from ..errors import InputError, ModelError
from ..runtime.model import Model


class Preprocessing(NamedTuple):
    """`mean` and `std` are in pixels, one number or one a channel; `stored`: an image's bytes are the stored numbers;
    `layout`: "NHWC" or "NCHW"; `colors`: "RGB", "BGR" or "GRAY"; `rate`: Hz, of audio. What is None, "" or 0 is not
    said. `source` names who said what becomes of a pixel.
    """

    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    stored: bool = False
    layout: str = ""
    colors: str = ""
    rate: int = 0
    source: str = ""

    @property
    def scaled(self) -> bool:
        """Whether it says what becomes of a pixel's number."""
        return self.stored or self.mean is not None or self.std is not None

    def over(self, other: Preprocessing) -> Preprocessing:
        """This preprocessing, with the other's settings where it has none."""
        scale = self if self.scaled else other
        return Preprocessing(
            scale.mean, scale.std, scale.stored, self.layout or other.layout, self.colors or other.colors,
            self.rate or other.rate, scale.source if scale.scaled else "",
        )  # fmt: skip


NOTHING = Preprocessing()
OF_IMAGES = {"mean": "--mean", "std": "--std", "stored": "--stored-pixels", "layout": "--layout", "colors": "--colors"}
OF_AUDIO = {"rate": "--rate"}
"""The fields of Preprocessing for images and for audio, with their options on the command line."""


def check_used(given: Preprocessing, images: bool, audio: bool) -> None:
    """InputError when something is `given` for images or audio, and none are fed."""
    for there, flags, what in ((images, OF_IMAGES, "an image, as cat.jpg"), (audio, OF_AUDIO, "audio, as word.wav")):
        unused = [flag for name, flag in flags.items() if getattr(given, name) != getattr(NOTHING, name)]
        if unused and not there:
            raise InputError(
                f"{', '.join(unused)}: for inputs that are fed {what}, found none of --input: leave it out, or feed one"
            )


def of_model(model: Model, file: str) -> dict[str, Preprocessing]:
    """What the metadata of a model, and of the file that it is loaded from, says by input; empty where it says nothing,
    and where it can't be read.
    """
    inputs = [spec.name for spec in model.inputs]
    if Path(file).suffix.lower() != ".tflite":
        return dict.fromkeys(inputs, _of_properties(model.metadata.custom))
    with suppress(ModelError, OSError):
        return dict(zip(inputs, _of_tflite(file), strict=False))
    return {}


# -- ONNX

RANGES = {
    "NominalRange_0_255": (0.0, 1.0),
    "Normalized_0_1": (0.0, 255.0),
    "Normalized_1_1": (127.5, 127.5),
    "NominalRange_16_235": (-16 * 255 / 219, 255 / 219),
}
"""Mean and standard deviation that bring pixels 0..255 into each of ONNX's nominal ranges."""


def _of_properties(said: Mapping[str, str]) -> Preprocessing:
    mean, std = RANGES.get(said.get("Image.NominalPixelRange", ""), (None, None))
    order = said.get("Image.BitmapPixelFormat", "").upper()
    colors = next((name for name in ("RGB", "BGR", "GRAY") if order.startswith(name)), "")
    if mean is None or std is None:
        return Preprocessing(colors=colors)
    return Preprocessing((mean,), (std,), colors=colors, source="the file's metadata")


# -- TensorFlow Lite

SCHEMA: Any = SimpleNamespace(
    TABLES={
        "ModelMetadata": {"subgraph_metadata": (10, "[:SubGraphMetadata", None)},
        "SubGraphMetadata": {"input_tensor_metadata": (8, "[:TensorMetadata", None)},
        "TensorMetadata": {"content": (10, ":Content", None), "process_units": (12, "[:ProcessUnit", None)},
        "Content": {"content_properties": (6, "|ContentProperties", None)},
        "ImageProperties": {"color_space": (4, "b", 0)},
        "AudioProperties": {"sample_rate": (4, "I", 0)},
        "ProcessUnit": {"options": (6, "|ProcessUnitOptions", None)},
        "NormalizationOptions": {"mean": (4, "[f", None), "std": (6, "[f", None)},
        "Other": {},
    },
    ENUMS={},
    UNIONS={
        "ContentProperties": {1: "Other", 2: "ImageProperties", 3: "Other", 4: "AudioProperties"},
        "ProcessUnitOptions": {1: "NormalizationOptions", 2: "Other", 3: "Other", 4: "Other", 5: "Other", 6: "Other"},
    },
)
"""The tables and fields of metadata_schema.fbs that are read here, in the form of `schemas/tflite.py`."""
COLORS = {1: "RGB", 2: "GRAY"}
"""Of ColorSpaceType."""


def _of_tflite(path: str) -> list[Preprocessing]:
    from ..frontends.circle.load import root
    from ..frontends.circle.tensors import buffer
    from ..frontends.circle.wire import Wire

    model = root(path)
    for entry in model.metadata:
        if entry.name == "TFLITE_METADATA":
            data = buffer(model.buffers, entry.buffer, path).data
            about = Wire(data, f"{path}: its metadata", SCHEMA).root("ModelMetadata")
            graphs = about.subgraph_metadata
            return [_of_tensor(tensor) for tensor in graphs[0].input_tensor_metadata] if len(graphs) else []
    return []


def _of_tensor(tensor: Any) -> Preprocessing:
    content: Any = tensor.content.content_properties if tensor.content is not None else None
    kind = "" if content is None else content.kind
    colors = COLORS.get(content.color_space, "") if kind == "ImageProperties" else ""
    rate = content.sample_rate if kind == "AudioProperties" else 0
    mean: Mapping[str, Any] = {}
    for unit in tensor.process_units:
        if unit.options is not None and unit.options.kind == "NormalizationOptions":
            mean = {"mean": unit.options.mean or None, "std": unit.options.std or None}
    return Preprocessing(**mean, colors=colors, rate=rate, source="the file's metadata")
