"""Large tensor data kept out of the protobuf parser, which would copy it twice.

Only the few nested messages on the way to initializers are walked. Whatever looks odd is left for the
parser to judge.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...errors import ModelError
from ...limits import current
from ..core.protobuf import fields, read_of
from .wire import GRAPH

LARGE = 4096
"""Bytes of tensor data from which it is worth the walk."""

Held = dict[int, dict[str, np.ndarray]]
"""For an initializer's position, the bytes of one of its fields, as a view of the file."""

_INITIALIZER = 5
_DATA = {4: "float_data", 9: "raw_data", 10: "double_data"}


def hold_back(data: memoryview) -> tuple[bytes | memoryview, Held]:
    """The file without the data of its large initializers, and that data by the initializer's position."""
    if len(data) < LARGE:
        return data, {}
    try:
        graphs = [field for field in _fields(data, 0, len(data)) if field[0] == GRAPH]
        if len(graphs) != 1:
            return data, {}
        _, start, first, end = graphs[0]
        graph, held = _graph(data, first, end)
    except ValueError:  # not how a sound file is laid out
        return data, {}
    if not held:
        return data, {}
    return b"".join((data[:start], _prefix(GRAPH, len(graph)), graph, data[end:])), held


def _graph(data: memoryview, first: int, end: int) -> tuple[bytes, Held]:
    parts: list[bytes | memoryview] = []
    held: Held = {}
    position, done = -1, first
    for number, start, inside, after in _fields(data, first, end):
        if number != _INITIALIZER:
            continue
        position += 1
        if after - inside < LARGE:
            continue
        large = [f for f in _fields(data, inside, after) if f[0] in _DATA]
        if len(large) != 1 or large[0][3] - large[0][2] < LARGE:
            continue
        number, cut, begin, stop = large[0]
        held[position] = {_DATA[number]: np.frombuffer(data, np.uint8, stop - begin, begin)}
        rest = b"".join((data[inside:cut], data[stop:after]))
        parts += (data[done:start], _prefix(_INITIALIZER, len(rest)), rest)
        done = after
    return b"".join((*parts, data[done:end])), held


def _fields(data: memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(number, start of its tag, start and end of its content) of every field of a message."""
    most = current().limits.nodes
    for count, (number, first, after) in enumerate(fields(read_of(data), at, end)):
        if count == most:
            raise ModelError(
                f"ONNX model: a message of more than {most} fields: the file is damaged, or was made to "
                "exhaust memory; if it can be trusted, load it with "
                f"limits=fastgraph.Limits(nodes={10 * most})"
            )
        yield number, at, first, after
        at = after


def _prefix(number: int, size: int) -> bytes:
    """The tag of a length-delimited field and its length."""
    result = bytearray([number << 3 | 2])
    while size > 127:
        result.append(size & 127 | 128)
        size >>= 7
    return bytes([*result, size])
