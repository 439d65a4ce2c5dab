"""What lives on from run to run: variables, hash tables, random numbers. Semantics: tflite/kernels/{var_handle,
read_variable, assign_variable, hashtable, hashtable_find, hashtable_import, hashtable_size, random_ops, rng_util}.cc,
and its kernel of StableHLO's bit generator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir import INT64, TensorType, Value
from .call import Call
from .reader import random_key, variable_key


def _handle(c: Call, key: str) -> None:
    """Let the output be a handle of resource `key`."""
    c.write("identity", [c.const(np.array(key, object))])
    c.scope.reader.handles[c.outputs[0]] = key


FORMULAS: dict[str, Callable[..., Value | None]] = {
    "var_handle": lambda c: _handle(c, variable_key(c.options)),
    "read_variable": lambda c, handle: c.scope.present(c.resource(handle), c.outputs[0].type),
    "assign_variable": lambda c, handle, value: c.scope.assign(c.resource(handle), value),
    "hashtable": lambda c: _handle(c, f"table {c.options.table_id}"),
}


def _tables(c: Call) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Keys and values of the tables that were filled so far."""
    return c.scope.reader.facts.setdefault("tables", {})


def hashtable_import(c: Call, handle: Value, keys: Value, values: Value) -> None:
    """Fills a table, once: what is imported after that is passed over."""
    if keys.data is None or values.data is None:
        c.unsupported("of keys or values that are computed; expected constants")
    if keys.data.size != values.data.size:
        c.fail(f"expected a value for each of {keys.data.size} keys, found {values.data.size}")
    _tables(c).setdefault(c.resource(handle), (keys.data.reshape(-1), values.data.reshape(-1)))


def hashtable_find(c: Call, handle: Value, x: Value, default: Value) -> Value:
    nothing = np.zeros(0, x.type.dtype), np.zeros(0, default.type.dtype)
    keys, values = _tables(c).get(c.resource(handle), nothing)
    return c("hashtable_find", x, keys, values, default)


def hashtable_size(c: Call, handle: Value) -> Value:
    keys, _ = _tables(c).get(c.resource(handle), (np.zeros(0), None))
    return c.vector(len(set(keys.tolist())))


def drawn(c: Call, *inputs: Value, seeds: tuple[int, int], **attrs: Any) -> None:
    """Write an operator that also takes how many blocks were drawn before and gives how many were after it: with a
    seed, each run goes on where the last one ended, as in TensorFlow.
    """
    before, after, key = c.const(np.int64(0)), c.fresh(TensorType(INT64, ())), random_key(c.name)
    if any(seeds):
        c.initialize(key, np.array(0, np.int64))
        before = c.scope.present(key, TensorType(INT64, ()))
        c.scope.assign(key, after)
    c.add(c.canonical, [*inputs, before], [c.outputs[0], after], seeds=seeds if any(seeds) else None, **attrs)


def tensorflow(c: Call, shape: Value, seeds: tuple[int, int]) -> None:
    """TensorFlow's own. Within sub-graphs they are not followed from run to run, and draw afresh."""
    drawn(c, shape, seeds=(0, 0) if c.scope.index else seeds)


def bits(c: Call, state: Value, algorithm: str) -> None:
    """(next state, bits) of a state that the model keeps itself."""
    out = c.outputs[1].type
    if out.dtype is None or out.dtype.kind not in "iu" or not out.concrete:
        c.fail(f"expected bits of an integer type and a known shape, found {out}")
    c.write("random_bits", [state], algorithm=algorithm, dtype=out.dtype, shape=out.dims)
