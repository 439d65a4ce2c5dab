"""Descriptions that a model's file has of itself."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..named import NamedTuple

NONE: Mapping[str, Any] = MappingProxyType({})


class Metadata(NamedTuple):
    """What a file says of its model; what it does not say is empty. Text is as the file has it.

    `description`: ONNX's doc_string, TensorFlow Lite's description, Core ML's short description. `author`, `license`:
    Core ML's. `version`: of the model. `domain`, `producer`, `producer_version`, `graph` (its name),
    `graph_description`, and `opsets`, versions by domain ("ai.onnx" is the usual one): ONNX's. `buffers`: names of
    TensorFlow Lite's metadata. `custom`: text by key, ONNX's metadata_props and Core ML's user-defined metadata.
    """

    description: str = ""
    author: str = ""
    license: str = ""
    version: str = ""
    domain: str = ""
    producer: str = ""
    producer_version: str = ""
    graph: str = ""
    graph_description: str = ""
    opsets: Mapping[str, int] = NONE
    buffers: tuple[str, ...] = ()
    custom: Mapping[str, str] = NONE

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Metadata:
        """The metadata of these fields, which nobody can change any more."""
        frozen = {name: _frozen(item) for name, item in fields.items() if name in Metadata._fields}
        return Metadata(**frozen)

    def __repr__(self) -> str:
        said = {name: item for name, item in self._asdict().items() if item}
        return f"Metadata({', '.join(f'{name}={_plain(item)!r}' for name, item in said.items())})"


def _frozen(item: Any) -> Any:
    if isinstance(item, Mapping):
        return MappingProxyType(dict(item))
    return tuple(item) if isinstance(item, list) else item


def _plain(item: Any) -> Any:
    return dict(item) if isinstance(item, Mapping) else item
