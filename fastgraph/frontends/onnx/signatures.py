"""Inputs, outputs and attributes of every operator of ai.onnx, in its newest operator set: see `signature_table`."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple

from ...ops.registry import REQUIRED
from ..core.signatures import arity, entries
from .signature_table import TABLE

NEWEST = 28
"""The newest operator set of ai.onnx that the table knows."""


class Signature(NamedTuple):
    """Parameter names end in `?` (optional) or `*` (variadic). `attrs` maps a name to (type, default)."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, tuple[str, Any]]

    def arity(self, kind: str) -> tuple[int, float]:
        """The fewest and the most `inputs` or `outputs`."""
        return arity(getattr(self, kind))


@cache
def signature(name: str) -> Signature | None:
    """The signature of an operator of ai.onnx, or None."""
    text = _entries().get(name)
    return None if text is None else parsed(text)


def parsed(text: str) -> Signature:
    """A signature as `signature_table` writes it, behind the name."""
    head, _, tail = text.partition("|")
    inputs, _, outputs = head.partition("->")
    return Signature(tuple(inputs.split()), tuple(outputs.split()), dict(map(_attribute, tail.split())))


@cache
def _entries() -> dict[str, str]:
    return entries(TABLE)


def _attribute(text: str) -> tuple[str, tuple[str, Any]]:
    left, given, default = text.partition("=")
    name, _, kind = left.partition(":")
    if not given:
        return name, (kind[:-1], REQUIRED if kind[-1] == "!" else None)
    if kind == "ints":
        return name, (kind, tuple(map(int, default.split(","))))
    if kind == "dtype" or default.lstrip("-").isdigit():
        return name, (kind or "int", int(default))
    try:
        return name, ("float", struct.unpack("f", struct.pack("f", float(default)))[0])
    except ValueError:
        return name, ("str", default)
