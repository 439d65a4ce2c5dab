"""What the model file says of a function's inputs and outputs: types, shapes that are allowed, images, defaults."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...errors import InputError, ModelError, UnsupportedError
from ...ir import Dim, Port, TensorType
from .types import BIGGEST, RANK_LIMIT, MilType
from .wire import Message, wrong

MAIN = "main"
ARRAYS: dict[str, np.dtype] = {
    "FLOAT32": np.dtype(np.float32), "DOUBLE": np.dtype(np.float64), "FLOAT16": np.dtype(np.float16),
    "INT32": np.dtype(np.int32), "INT8": np.dtype(np.int8),
}  # fmt: skip

Extents = tuple[tuple[int, int | None], ...]
"""The least and the greatest extent (None: any) of each dimension."""


class Feature(NamedTuple):
    """An input or output. `dtype` is None where the program's own type holds.

    `shape`: the default one, of an image without batch and channels: (height, width). `choices`: the shapes that are
    allowed, `extents`: the bounds, both empty where only the default is. `layout`: an image's colors.
    """

    name: str
    dtype: np.dtype | None = None
    shape: tuple[int, ...] | None = None
    choices: tuple[tuple[int, ...], ...] = ()
    extents: Extents = ()
    layout: str = ""
    optional: bool = False
    fill: float = 0

    def within(self, kind: MilType, where: str) -> Feature:
        """The feature with shapes of as many dimensions as the program's. ModelError when they can't agree."""
        feature, dims = self, kind.shape
        if self.layout:
            if dims is None or len(dims) not in (3, 4):
                raise ModelError(f"{where}: expected a tensor [1, channels, height, width] for an image, found {kind}")
            head = (*(d if isinstance(d, int) else 1 for d in dims[:-3]), 1 if "GRAY" in self.layout else 3)
            feature = self.after(head)
        elif dims == () and self.shape == (1,):
            feature = Feature(self.name, self.dtype, (), optional=self.optional, fill=self.fill)
        for shape in filter(None, (feature.shape, feature.extents, *feature.choices)):
            if dims is not None and len(shape) != len(dims):
                raise wrong(f"{where}: its description has {len(shape)} dimensions, the program says {kind}")
        return feature

    def after(self, head: tuple[int, ...]) -> Feature:
        """The feature with fixed dimensions before its own."""
        shape = None if self.shape is None else head + self.shape
        extents = tuple((d, d) for d in head) + self.extents if self.extents else ()
        return self._replace(shape=shape, choices=tuple(head + c for c in self.choices), extents=extents)

    def type(self, kind: MilType, where: str) -> TensorType:
        """The type that callers feed: open extents are those that may differ. ModelError when the program disagrees."""
        dtype = self.dtype or kind.api
        if self.dtype is not None and kind.api is not None and (self.dtype.kind == "f") != (kind.api.kind == "f"):
            raise wrong(f"{where}: its description says {self.dtype}, the program {kind}")
        bounds = self.bounds()
        if bounds is None:
            return TensorType(dtype, kind.shape)
        dims: list[Dim] = []
        for said, (low, high) in zip(kind.shape or (None,) * len(bounds), bounds, strict=True):
            if isinstance(said, int) and not low <= said <= (said if high is None else high):
                raise wrong(f"{where}: its description allows {self.allowed()}, the program says {kind}")
            dims.append(said if isinstance(said, int) else low if low == high else None)
        return TensorType(dtype, tuple(dims))

    def bounds(self) -> Extents | None:
        """The least and greatest extents of all shapes that are allowed; None when nothing is said."""
        if self.extents:
            return self.extents
        if self.choices:
            return tuple((min(dims), max(dims)) for dims in zip(*self.choices, strict=True))
        return None if self.shape is None else tuple((d, d) for d in self.shape)

    def allowed(self) -> str:
        """The shapes that are allowed, as text."""
        if self.choices:
            return " or ".join(str(list(choice)) for choice in self.choices)
        bounds = self.bounds()
        if bounds is None:
            return "any shape"
        return "[" + ", ".join(str(a) if a == b else f"{a}..{'' if b is None else b}" for a, b in bounds) + "]"

    def text(self) -> str:
        """What there is to say beyond the type: image, shapes, default; empty when there is nothing."""
        said = [f"an image, {self.layout}"] if self.layout else []
        said += [self.allowed()] if self.choices or self.extents else []
        said += [f"{self.fill:g} when left out"] if self.optional else []
        return ", ".join(said)

    def port(self, outside: TensorType) -> Port:
        """What the input takes. `outside`: its type, as `type` has it; call it on what `within` gave."""
        adapt: Callable[[Any], Any] | None = None
        if self.layout:
            adapt = _adapter(self.name, self.layout, outside)
        elif outside.shape in ((), (1,)):
            adapt = partial(_one, outside.shape)
        default = None
        if self.optional:
            shape = outside.dims if outside.concrete else self.shape
            if shape is not None and outside.dtype is not None:
                default = np.broadcast_to(np.asarray(self.fill).astype(outside.dtype), shape)
        return Port(adapt, None if outside.concrete else self.checker(), default, self.layout)

    def checker(self) -> Callable[[tuple[int, ...]], None]:
        """What raises InputError for a shape that is not allowed."""
        bounds = self.bounds()

        def check(shape: tuple[int, ...]) -> None:
            if self.choices:
                fits = shape in self.choices
            else:
                fits = bounds is None or (len(shape) == len(bounds) and all(
                    low <= d and (high is None or d <= high) for d, (low, high) in zip(shape, bounds, strict=True)
                ))  # fmt: skip
            if not fits:
                raise InputError(f"input {self.name!r} has shape {list(shape)}, the model allows {self.allowed()}")

        return check


class Description(NamedTuple):
    """A function's inputs and outputs by name, and what there is to read of the model, by title."""

    inputs: dict[str, Feature]
    outputs: dict[str, Feature]
    about: dict[str, str]


def pick(model: Message, function: str | None, source: str) -> str:
    """The function of that name, or the default one. InputError with the names that there are, ModelError for none."""
    names = sorted(model.mlProgram.functions)
    if not names:
        raise ModelError(f"{source}: expected a program with a function, found none; it was not written correctly")
    if function is not None:
        if function not in names:
            raise InputError(f"{source}: no function is called {function!r}, the functions are {', '.join(names)}")
        return function
    default = model.description.defaultFunctionName or MAIN
    if default not in names and len(names) > 1:
        raise ModelError(f"{source}: expected its function {default!r}, found {', '.join(names)}; name one: function=")
    return default if default in names else names[0]


def describe(model: Message, function: str, where: str) -> Description:
    """What the model says of a function."""
    whole = model.description
    own = next((f for f in whole.functions if f.name == function), None)
    if own is None:
        own = whole if not whole.functions and function == pick(model, None, where) else None
    names = sorted(model.mlProgram.functions)
    about = {"function": f"{function}, one of {', '.join(names)}"} if len(names) > 1 else {"function": function}
    meta = whole.metadata
    said = {"description": meta.shortDescription, "version": meta.versionString, "author": meta.author,
            "license": meta.license, **dict(sorted(meta.userDefined.items()))}  # fmt: skip
    about |= {title: text for title, text in said.items() if text}
    if own is None:
        return Description({}, {}, about)
    for kind, features in (("input", own.input), ("output", own.output), ("state", own.state)):
        about |= {f"{kind} {f.name}": f.shortDescription for f in features if f.shortDescription}
    return Description(_features(own.input, f"{where}: input"), _features(own.output, f"{where}: output"), about)


def _features(protos: Message, where: str) -> dict[str, Feature]:
    found: dict[str, Feature] = {}
    for proto in protos:
        if proto.name in found:
            raise wrong(f"{where} {proto.name!r} is described twice")
        found[proto.name] = _feature(proto, f"{where} {proto.name!r}")
    return found


def _feature(proto: Message, where: str) -> Feature:
    kind = proto.type.WhichOneof("Type")
    if kind == "multiArrayType":
        return _array(proto.name, proto.type.multiArrayType, proto.type.isOptional, where)
    if kind == "imageType":
        return _image(proto.name, proto.type.imageType, proto.type.isOptional, where)
    if kind in ("int64Type", "doubleType") and "input" in where:
        return Feature(proto.name, optional=proto.type.isOptional)
    if "input" in where and kind is not None:
        raise UnsupportedError(f"{where}: inputs of {kind}")
    return Feature(proto.name)


def _array(name: str, proto: Message, optional: bool, where: str) -> Feature:
    field = proto.DESCRIPTOR.fields_by_name["dataType"].enum_type.values_by_number.get(proto.dataType)
    if field is None or (proto.dataType and field.name not in ARRAYS):
        raise ModelError(f"{where}: expected one of Core ML's array types, found number {proto.dataType}")
    default = proto.WhichOneof("defaultOptionalValue")
    shape = _shape(proto.shape, where) if proto.shape else None
    choices = tuple(_shape(s.shape, where) for s in proto.enumeratedShapes.shapes)
    if len({len(choice) for choice in choices}) > 1:
        raise ModelError(f"{where}: expected shapes of one number of dimensions, found {choices[:8]}")
    extents = tuple(_range(r, where) for r in proto.shapeRange.sizeRanges)
    if shape is None and choices:
        shape = choices[0]
    dtype = ARRAYS[str(field.name)] if proto.dataType else None
    return Feature(name, dtype, shape, choices, extents, "", optional, getattr(proto, default) if default else 0)


def _image(name: str, proto: Message, optional: bool, where: str) -> Feature:
    field = proto.DESCRIPTOR.fields_by_name["colorSpace"].enum_type.values_by_number.get(proto.colorSpace)
    if field is None or not proto.colorSpace:
        raise ModelError(f"{where}: expected one of Core ML's color spaces, found number {proto.colorSpace}")
    choices = tuple(_shape((s.height, s.width), where) for s in proto.enumeratedSizes.sizes)
    sizes = proto.imageSizeRange
    flexible = proto.WhichOneof("SizeFlexibility") == "imageSizeRange"
    extents = (_range(sizes.heightRange, where), _range(sizes.widthRange, where)) if flexible else ()
    return Feature(name, None, _shape((proto.height, proto.width), where), choices, extents, field.name, optional)


def _shape(dims: Any, where: str) -> tuple[int, ...]:
    if len(dims) > RANK_LIMIT or any(d < 0 for d in dims) or prod(max(d, 1) for d in dims) > BIGGEST:
        raise ModelError(f"{where}: expected a shape of extents that some memory can hold, found {list(dims)[:80]}")
    return tuple(dims)


def _range(proto: Message, where: str) -> tuple[int, int | None]:
    low, high = proto.lowerBound, proto.upperBound
    if 0 <= high < low:
        raise ModelError(f"{where}: expected a range of extents, found {low} to {high}")
    return low, None if high < 0 else high


# -- what callers feed


def _one(shape: tuple[int, ...], fed: Any) -> Any:
    """One number, as a scalar or as an array of one element: Core ML does not tell them apart."""
    if isinstance(fed, np.ndarray | np.generic):
        return fed.reshape(shape) if fed.shape in ((), (1,)) else fed
    if isinstance(fed, list | tuple) and len(fed) == 1 and shape == ():
        return fed[0]
    return [fed] if isinstance(fed, bool | int | float) and shape == (1,) else fed


def _adapter(name: str, layout: str, outside: TensorType) -> Callable[[Any], Any]:
    """What makes the input's own array, [1, channels, height, width], of an image, whose pixels are 0 to 255.

    It takes Pillow images, and uint8 arrays [height, width, channels] (RGB) or [height, width] (gray), as NumPy has
    Pillow images; all else is passed on. Colors become the model's, sizes stay what they are; programs scale pixels.
    """
    assert outside.shape is not None
    channels, rank, dtype = outside.shape[-3], len(outside.shape), outside.dtype

    def adapt(fed: Any) -> Any:
        pillow = sys.modules.get("PIL.Image")
        if pillow is not None and isinstance(fed, pillow.Image):
            fed = np.asarray(fed.convert("F" if "FLOAT" in layout else "L" if channels == 1 else "RGB"))
        elif not (isinstance(fed, np.ndarray) and fed.dtype == np.uint8):
            return fed
        elif fed.ndim == rank == 4:
            return fed.astype(dtype)
        if fed.ndim == 2:
            fed = fed[:, :, None]
        if fed.ndim != 3 or fed.shape[2] != channels:
            raise InputError(f"input {name!r} is an image of {channels} channels ({layout}), an array of shape "
                             f"{list(fed.shape)} was given: feed [height, width, {channels}] as uint8")  # fmt: skip
        pixels = fed[:, :, ::-1] if layout == "BGR" else fed
        planes = np.ascontiguousarray(pixels.transpose(2, 0, 1), dtype)
        return planes[None] if rank == 4 else planes

    return adapt
