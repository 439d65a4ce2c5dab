"""The model file's description of a function's inputs and outputs: types, allowed shapes, images, defaults."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...errors import InputError, ModelError, UnsupportedError
from ...ir import Dim, Port, TensorType
from ...ir.ports import Extents, chosen, image, one, within
from .types import BIGGEST, RANK_LIMIT, MilType
from .wire import Message, wrong

MAIN = "main"
ARRAYS: dict[str, np.dtype] = {
    "FLOAT32": np.dtype(np.float32),
    "DOUBLE": np.dtype(np.float64),
    "FLOAT16": np.dtype(np.float16),
    "INT32": np.dtype(np.int32),
    "INT8": np.dtype(np.int8),
}


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
        """Text for people: image, shapes and default, where the type does not say them; else empty."""
        said = [f"an image, {self.layout}"] if self.layout else []
        said += [self.allowed()] if self.choices or self.extents else []
        said += [f"{self.fill:g} when left out"] if self.optional else []
        return ", ".join(said)

    def port(self, outside: TensorType) -> Port:
        """The port of the input. `outside`: its type, as `type` has it; call it on what `within` gave."""
        adapt: Callable[[Any], Any] | None = None
        if self.layout:
            assert outside.shape is not None
            channels = outside.shape[-3]
            assert isinstance(channels, int)
            adapt = partial(image, self.name, self.layout, channels, len(outside.shape), outside.element)
        elif outside.shape in ((), (1,)):
            adapt = partial(one, outside.shape)
        default = None
        if self.optional:
            shape = outside.dims if outside.concrete else self.shape
            if shape is not None and outside.dtype is not None:
                default = np.broadcast_to(np.asarray(self.fill).astype(outside.dtype), shape)
        return Port(adapt, None if outside.concrete else self.checker(), default, self.layout)

    def checker(self) -> Callable[[tuple[int, ...]], None] | None:
        """A check that raises InputError for a shape that is not allowed."""
        if self.choices:
            return partial(chosen, self.name, self.choices, self.allowed())
        bounds = self.bounds()
        return None if bounds is None else partial(within, self.name, bounds, self.allowed())


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


def metadata(model: Message) -> dict[str, Any]:
    """The model's description of itself, as fields of `Model.metadata`."""
    said = model.description.metadata
    return {
        "description": said.shortDescription, "author": said.author, "license": said.license,
        "version": said.versionString, "custom": dict(sorted(said.userDefined.items())),
    }  # fmt: skip


def describe(model: Message, function: str, where: str) -> Description:
    whole = model.description
    own = next((f for f in whole.functions if f.name == function), None)
    if own is None:
        own = whole if not whole.functions and function == pick(model, None, where) else None
    names = sorted(model.mlProgram.functions)
    about = {"function": f"{function}, one of {', '.join(names)}"} if len(names) > 1 else {"function": function}
    meta = metadata(model)
    said = {**{title: meta[title] for title in ("description", "version", "author", "license")}, **meta["custom"]}
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
