"""The options of builtin operators, with the schema's defaults where a file leaves them out."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..core.signatures import entries
from .tensors import dtype_of
from .wire import Table, Wire

_TABLES = """
Pool2DOptions: AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D
L2NormOptions: L2_NORMALIZATION
SequenceRNNOptions: UNIDIRECTIONAL_SEQUENCE_RNN
MaximumMinimumOptions: MAXIMUM MINIMUM
Conv3DOptions: CONV_3D_TRANSPOSE
RandomOptions: RANDOM_STANDARD_NORMAL RANDOM_UNIFORM MULTINOMIAL
ReducerOptions: MEAN SUM REDUCE_PROD REDUCE_MAX REDUCE_MIN REDUCE_ANY REDUCE_ALL
"""
_ELSEWHERE = {op: table for table, ops in entries(_TABLES).items() for op in ops.split()}
"""Tables that are not called as their operators."""

_ALIASES = {"adj_x": "adjoint_lhs", "adj_y": "adjoint_rhs"}
"""TensorFlow Lite's names of fields that Circle calls otherwise."""


@cache
def _tables(names: frozenset[str]) -> dict[str, str]:
    return {name.removesuffix("Options").lower(): name for name in names if name.endswith("Options")}


def table_of(op: str, wire: Wire) -> str | None:
    """The table that holds the options of a builtin operator; None: it has none."""
    if op in _ELSEWHERE:
        return _ELSEWHERE[op]
    return _tables(frozenset(wire.tables)).get(op.replace("_", "").lower())


class Options:
    """The options of an operator: attributes are the fields of its table. Tensor types are dtypes, vectors tuples."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __getattr__(self, field: str) -> Any:
        table = self._table
        field = field if field in table.fields else _ALIASES.get(field, field)
        value = getattr(table, field)
        if table.fields[field][1] == "=TensorType":
            value = dtype_of(value)
        self.__dict__[field] = value
        return value


def options_of(operator: Table, op: str, where: str) -> Options:
    """The options of a builtin operator. ModelError when the file gives it those of another one."""
    wire = operator.wire
    table = operator.builtin_options or ("builtin_options_2" in operator.fields and operator.builtin_options_2) or None
    expected = table_of(op, wire)
    if table is None:
        return Options(Table(wire, expected or "RankOptions", None))
    if expected is not None and table.kind != expected:
        wire.fail(where, operator.at or 0, f"expected {expected}, found {table.kind}")
    return Options(table)
