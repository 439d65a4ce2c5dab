"""Checks of a session's feeds, in onnxruntime's order and with its messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .described import NodeArg
from .errors import InvalidArgument
from .values import DTYPES, NUMBER_OF, OrtValue, element_of


class Inputs:
    """The inputs of a session, by name."""

    def __init__(self, args: Sequence[NodeArg], fixed: Sequence[NodeArg]) -> None:
        """`fixed`: initializers that the file would let callers replace."""
        self.args = {arg.name: arg for arg in args}
        self.fixed = {arg.name for arg in fixed}
        self.fitted: dict[str, tuple[int, ...]] = {}  # the last shapes that were found to fit
        self.required = [arg.name for arg in args if not arg.type.startswith("optional")]
        self.elements = {arg.name: arg.type.removeprefix("tensor(").removesuffix(")") for arg in args}
        self.dtypes = {name: DTYPES.get(NUMBER_OF.get(text, 0)) for name, text in self.elements.items()}

    def missing(self, fed: Mapping[str, Any]) -> None:
        """ValueError unless all that must be fed are there."""
        names = fed.keys()
        missing = [name for name in self.required if name not in names]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(names)}).")

    def checked(self, fed: Mapping[str, Any]) -> dict[str, Any]:
        """The feeds as the model takes them. InvalidArgument for a wrong name, element type, rank or extent."""
        feeds = {}
        for name, value in fed.items():
            if name not in self.args:
                raise InvalidArgument(self._unknown(name))
            arg = self.args[name]
            if isinstance(value, OrtValue):
                value = value._value
            if type(value) is not np.ndarray or value.dtype != self.dtypes[name]:
                value = self._converted(arg, value)
            if type(value) is np.ndarray and value.shape != self.fitted.get(name):
                _check_shape(arg, value)
                self.fitted[name] = value.shape
            feeds[name] = value
        if len(feeds) < len(self.args):
            feeds = dict.fromkeys(self.args) | feeds
        return feeds

    def _unknown(self, name: str) -> str:
        if name in self.fixed:
            return f"Invalid input name: {name}: it has a value in the file, which fastgraph takes for a constant"
        return f"Invalid input name: {name}"

    def _converted(self, arg: NodeArg, value: Any) -> Any:
        """An array of the input's element type: of a list, or one whose bytes are in another order."""
        dtype = self.dtypes[arg.name]
        if value is None or not arg.type.startswith("tensor("):
            return value
        if isinstance(value, list):
            value = np.array(value, dtype)
        if not isinstance(value, np.ndarray):
            raise RuntimeError(
                f"Unable to handle object of type {type(value)} for input {arg.name!r}: feed a numpy.ndarray"
            )
        found, wanted = element_of(value.dtype), self.elements[arg.name]
        if found != wanted:
            raise InvalidArgument(
                f"Unexpected input data type. Actual: (tensor({found})) , expected: (tensor({wanted})), "
                f"input {arg.name!r}"
            )
        if value.dtype.kind == "S":
            value = np.char.decode(value, "utf-8")
        return value if dtype is None or value.dtype.itemsize == 0 else value.astype(_held(value, dtype), copy=False)


def _held(value: np.ndarray, dtype: np.dtype) -> np.dtype:
    """The type to convert to: that of ml_dtypes stays."""
    return value.dtype if value.dtype.kind == "V" or value.dtype.isbuiltin == 2 else dtype


def _check_shape(arg: NodeArg, array: np.ndarray) -> None:
    """InvalidArgument unless the shape is one that the input has."""
    wanted = arg.shape
    if not arg.type.startswith("tensor(") or not wanted:  # a scalar is checked later, as it may be any of one element
        return
    if array.ndim != len(wanted):
        raise InvalidArgument(
            f"Invalid rank for input: {arg.name} Got: {array.ndim} Expected: {len(wanted)} "
            "Please fix either the inputs/outputs or the model."
        )
    wrong = [
        f" index: {axis} Got: {found} Expected: {extent}\n"
        for axis, (found, extent) in enumerate(zip(array.shape, wanted, strict=True))
        if found != extent and isinstance(extent, int)
    ]
    if wrong:
        raise InvalidArgument(
            f"Got invalid dimensions for input: {arg.name} for the following indices\n"
            + "".join(wrong)
            + " Please fix either the inputs/outputs or the model."
        )
