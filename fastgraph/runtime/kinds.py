"""Inputs and outputs whose element types NumPy lacks, or that are sequences or optional."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..errors import InputError
from ..ir import Kind, Value, fits
from ..locks import undisturbed
from ..ops.narrow import FLOATS, INTEGERS, rounded
from .feeds import array_of, shape_advice

_SPELLED = {
    "bfloat16": "bfloat16", "float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2", "float8e5m2fnuz": "float8_e5m2fnuz", "float8e8m0": "float8_e8m0fnu",
    "float6e2m3": "float6_e2m3fn", "float6e3m2": "float6_e3m2fn", "float4e2m1": "float4_e2m1fn",
    "int4": "int4", "uint4": "uint4", "int2": "int2", "uint2": "uint2",
}  # fmt: skip
"""Names of element types in the package ml_dtypes."""


def taken(name: str, kind: Kind, fed: Any) -> Any:
    """A feed for an input of this kind, as graphs hold it: array, list, or None. InputError if it doesn't fit."""
    if kind.item is not None and kind.form == "optional":
        return None if fed is None else taken(name, kind.item, fed)
    if kind.item is not None:
        if not isinstance(fed, list | tuple):
            raise InputError(f"input {name!r} is a {kind}: feed a list of arrays, {type(fed).__name__} was given")
        return [taken(f"{name}[{i}]", kind.item, item) for i, item in enumerate(fed)]
    if fed is None:
        raise InputError(f"input {name!r} has no value, the model declares {kind}: feed such an array")
    value = Value(name, kind.type)
    array = narrowed(name, kind, array_of(value, fed))
    fits(value, array.shape, shape_advice)
    return array


def narrowed(name: str, kind: Kind, array: np.ndarray) -> np.ndarray:
    """An array's numbers as numbers of an element type, floats rounded. InputError for those out of its range."""
    element = kind.element
    if element in INTEGERS:
        low, high = INTEGERS[element]
        if array.size and not low <= array.min() <= array.max() <= high:
            raise InputError(
                f"input {name!r}, which the model declares {kind}, takes numbers from {low} to {high}, "
                f"found {array.min()} to {array.max()}"
            )
        return array
    if not element or element == "bfloat16" and not _low_bits(array):
        return array
    with np.errstate(all="ignore"):
        result = rounded(array, array.dtype, element, saturate=False)
        if element == "float8e8m0":
            wrong = (array < 2.0**-127) | (array > 2.0**127)
            limits = "from 2 ** -127 to 2 ** 127"
        else:
            _, _, greatest, beyond = FLOATS[element]
            wrong = np.abs(array) > greatest
            limits = f"from {-greatest} to {greatest}"
            if beyond in ("overflow", "inf"):
                wrong &= np.isfinite(array) & (beyond != "overflow")
            elif beyond == "none":
                wrong |= np.isnan(array)
    if wrong.any():
        raise InputError(
            f"input {name!r}, which the model declares {kind}, takes numbers {limits}, found {array[wrong].flat[0]}"
        )
    return result


def _low_bits(array: np.ndarray) -> bool:
    """Whether a number has bits that bfloat16 lacks."""
    return bool((np.ascontiguousarray(array).view(np.uint32) & 0xFFFF).any())


def shown(element: str) -> Callable[[Any], Any]:
    """A function that turns results into arrays of the package ml_dtypes, if it is installed; else they stay as they
    are.
    """
    return partial(_shown, element)


def _shown(element: str, held: Any) -> Any:
    if isinstance(held, list):
        return [_shown(element, item) for item in held]
    if held is None:
        return None
    try:
        with undisturbed():
            import ml_dtypes
    except ImportError:
        return held
    dtype = getattr(ml_dtypes, _SPELLED.get(element, ""), None)
    with np.errstate(all="ignore"):
        return held if dtype is None else held.astype(dtype)
