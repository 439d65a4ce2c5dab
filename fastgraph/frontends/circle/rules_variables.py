"""Variables and hash tables. Semantics: tflite/kernels/{var_handle, read_variable, assign_variable, hashtable,
hashtable_find, hashtable_import, hashtable_size}.cc.
"""

from __future__ import annotations

import numpy as np

from ...ir import Value
from .call import Call
from .resources import variable_key


def _handle(c: Call, key: str) -> None:
    """Let the output be a handle of resource `key`."""
    c.write("identity", [c.const(np.array(key, object))])
    c.scope.reader.handles[c.outputs[0]] = key


def var_handle(c: Call) -> None:
    _handle(c, variable_key(c.options))


def read_variable(c: Call, handle: Value) -> Value:
    return c.scope.present(c.resource(handle), c.outputs[0].type)


def assign_variable(c: Call, handle: Value, value: Value) -> None:
    c.scope.assign(c.resource(handle), value)


def _tables(c: Call) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Keys and values of the tables that were filled so far."""
    return c.scope.reader.facts.setdefault("tables", {})


def hashtable(c: Call) -> None:
    _handle(c, f"table {c.options.table_id}")


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
