"""What lives on from run to run: variable tensors, and the resources that operators know by name.

Both have a key, a text. Inside a graph their present values are passed on like any others; the main graph keeps them
as its states, and a sub-graph takes them as inputs and gives them back as outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import TensorType, Value
from ...limits import current
from .options import options_of
from .reader import Reader
from .tensors import type_of

BIGGEST = 1 << 31
"""Most bytes of a variable."""


RANDOM = ("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL")
"""Operators that go on drawing where they ended in the last run."""


def tensor_key(subgraph: int, tensor: int) -> str:
    """The key of a variable tensor."""
    return f"variable tensor {subgraph}.{tensor}"


def variable_key(options: Any) -> str:
    """The key of the variable that VAR_HANDLE's options name."""
    return f"variable {options.container}/{options.shared_name}"


def random_key(operator: str) -> str:
    """The key of how far an operator that draws random numbers got, by its `Call.name`."""
    return f"numbers drawn by {operator}"


def touched(reader: Reader, indices: tuple[int, ...], caller: str) -> list[str]:
    """Keys of what sub-graphs, and those they call, may read or write, in order. Handles they are given excepted."""
    keys: dict[str, None] = {}
    seen: set[int] = set()
    waiting = list(indices)
    while waiting:
        index = waiting.pop()
        if index in seen:
            continue
        seen.add(index)
        reader.check(index, caller)
        if index not in reader.uses:
            reader.uses[index] = _uses(reader, index)
        own, callees = reader.uses[index]
        keys.update(dict.fromkeys(own))
        waiting += callees
    return list(keys)


def _uses(reader: Reader, index: int) -> tuple[list[str], list[int]]:
    """The keys that a sub-graph itself uses, and the sub-graphs that it calls."""
    table = reader.subgraphs[index]
    where = f"{reader.source}: sub-graph {index}"
    keys: dict[str, None] = {}
    callees: list[int] = []
    for place, tensor in enumerate(table.tensors):
        current().count(8, where)
        if tensor.is_variable:
            key = tensor_key(index, place)
            reader.types.setdefault(key, type_of(tensor, f"{where}: tensor {place}"))
            keys[key] = None
    for place, operator in enumerate(table.operators):
        current().count(8, where)
        code = reader.code(operator.opcode_index, where)
        if code.custom or code.name == "CALL_ONCE":  # what the latter runs comes before all runs
            continue
        options = options_of(operator, code.name, where)
        if code.name == "VAR_HANDLE":
            keys[variable_key(options)] = None
        if code.name in RANDOM and (options.seed or options.seed2):
            key = random_key(f"{code.name}:{index}.{place}")
            reader.types[key] = TensorType(np.dtype(np.int64), ())
            reader.initial[key] = Value(key, reader.types[key], np.array(0, np.int64))
            keys[key] = None
        for field in options._table.fields:
            if field == "subgraph" or field.endswith("subgraph_index"):
                callees.append(getattr(options, field))
            elif field.endswith("subgraph_indices"):
                callees += getattr(options, field)
    return list(keys), callees
