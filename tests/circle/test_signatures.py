"""The table of operators: what each entry says is so, and files that don't keep to it are told what was expected."""

import inspect
from contextlib import suppress
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pytest

from fastgraph.errors import FastgraphError, ModelError, UnsupportedError
from fastgraph.frontends.circle import read, signature_table
from fastgraph.frontends.circle.options import _ALIASES, table_of
from fastgraph.frontends.circle.signatures import _COMPARED, _TAKE, CONVERSIONS, Signature, _rule, signature
from fastgraph.frontends.circle.wire import Wire
from fastgraph.frontends.core.signatures import arity, entries
from fastgraph.ir import Node
from fastgraph.ops import OPS
from fastgraph.schemas import circle, tflite
from tests.circle.write import Model

BUILTIN, *CUSTOM = (
    [key.partition("=")[0] for key in entries(getattr(signature_table, name))]
    for name in ("BUILTIN", "TENSORFLOW", "CUSTOM")
)
ALIKE = "same alike reals fused wraps clamped moved rounded".split()
RESULTS = [*ALIKE, "any", "activated", "stored", "declared"]
ALL = [(name, signature(name)) for name in BUILTIN]
ALL += [(name, signature(name, custom=True)) for names in CUSTOM for name in names]
REFUSED = [(name, told) for name, told in ALL if told is not None and told.refused]
TAKEN = [(name, told) for name, told in ALL if told is not None and not told.refused]
each = pytest.mark.parametrize("name, told", TAKEN, ids=[name for name, _ in TAKEN])


def schema_of(name: str) -> str:
    """The schema that has an operator."""
    return "tflite" if name not in BUILTIN or name in tflite.ENUMS["BuiltinOperator"][1].values() else "circle"


def test_every_operator_of_the_schemas_is_there() -> None:
    for schema in (tflite, circle):
        assert set(schema.ENUMS["BuiltinOperator"][1].values()) - {"CUSTOM"} <= set(BUILTIN)


def options(name: str) -> set[str]:
    """The fields of a builtin operator's options."""
    schema = import_module(f"fastgraph.schemas.{schema_of(name)}")
    table = table_of(name, Wire(b"\0" * 8, "", schema))
    fields = set(schema.TABLES[table]) if table is not None else set()
    return fields | {name for name, other in _ALIASES.items() if other in fields}


@each
def test_an_entry_makes_sense(name: str, told: Signature) -> None:
    """Its words are known, its options are in the schema, and what it names takes the attributes that it lists."""
    assert {kind for _, kind in told.inputs} <= set(_TAKE)
    assert {word.rstrip("?*+") for word in told.results} <= set(RESULTS)
    for attribute, source, _, conversion in told.attributes:
        assert conversion is None or conversion in CONVERSIONS
        for word in (attribute if source is None else source).split(","):
            held = any(word == other and kind.startswith("number") for other, kind in told.inputs)
            assert word == "" or word[0] in "'-0123456789" or held or name not in BUILTIN or word in options(name)
    attributes = {attribute for attribute, *_ in told.attributes}
    if not told.rule:
        assert told.operator in OPS and attributes <= set(OPS[told.operator].attrs)
        return
    operands = [None for _ in told.inputs]
    inspect.signature(_rule(told.rule)).bind(None, *operands, **dict.fromkeys(attributes))


def file(name: str, inputs: list[Any], outputs: int, dtype: Any = np.float32) -> bytes:
    """A model of one operator: of inputs of those element types; arrays are constants."""
    m = Model(schema_of(name))
    operands = [m.const(x) if isinstance(x, np.ndarray) else m.input((2, 2), x) for x in inputs]
    m.now["outputs"] = m.op(name, operands, [((), dtype)] * outputs, custom=None if name in BUILTIN else b"")
    return m.bytes()


@each
def test_numbers_of_inputs_and_outputs(name: str, told: Signature) -> None:
    (least, most), outputs = arity([name for name, _ in told.inputs]), arity(told.results)
    for count in {least - 1, most + 1} - {-1, float("inf")}:
        with pytest.raises(ModelError, match=rf"operator 0 \({name}\): expected {least}.* inputs, found {count}"):
            read(file(name, [np.float32] * int(count), outputs[0]))
    for count in {outputs[0] - 1, outputs[1] + 1} - {-1, float("inf")}:
        with pytest.raises(ModelError, match=rf"operator 0 \({name}\): expected {outputs[0]}.* outputs, found {count}"):
            read(file(name, [np.float32] * least, int(count)))


@each
def test_element_types_are_compared(name: str, told: Signature) -> None:
    """Of operands that are to be alike, and of those that are whole numbers or bools."""
    least = arity([name for name, _ in told.inputs])[0]
    kinds = [kind for _, kind in told.inputs][:least]
    right = [np.zeros(1, np.int32) if kind.startswith(("vec", "who", "num", "index")) else "f" for kind in kinds]
    right = [np.bool_ if kind == "bool" else x for kind, x in zip(kinds, right, strict=True)]
    for i, kind in enumerate(kinds):
        what = "bools" if kind == "bool" else "int32 or int64 numbers"
        if kind not in _COMPARED:
            with pytest.raises(ModelError, match=rf"\({name}\): expected .*{what}"):
                read(file(name, [np.float32 if j >= i else x for j, x in enumerate(right)], arity(told.results)[0]))
    compared = [i for i, kind in enumerate(kinds) if kind in _COMPARED]
    if len(compared) > 1 and told.results and told.results[0].strip("?*+") in ALIKE:
        right[compared[1]] = np.uint32
        with pytest.raises(ModelError, match=rf"\({name}\): expected operands of one element type, found float32"):
            read(file(name, right, arity(told.results)[0]))


SPECIAL = ("DenseImageWarp", "HASHTABLE_LOOKUP", "MATRIX_SET_DIAG", "RANGE")
"""Operators of operands of particular shapes, which tests of their own have."""


def is_plain(name: str, told: Signature) -> bool:
    """Whether an entry is a canonical operator without options, on operands of any kind."""
    given = all(source == "" or (source or "option")[0] in "'-0123456789" for _, source, *_ in told.attributes)
    kinds = [kind for _, kind in told.inputs]
    return given and bool(kinds) and not any(kinds) and not told.rule and name not in SPECIAL


@pytest.mark.parametrize("name, told", [entry for entry in TAKEN if is_plain(*entry)])
def test_it_is_that_operator(name: str, told: Signature) -> None:
    """On operands and for results of some element types, with the attributes whose values the table gives."""
    count, outputs = arity([name for name, _ in told.inputs])[0], arity(told.results)[0]
    made: list[Node] = []
    for dtype, result in product((np.float32, np.bool_, np.int32, np.complex64), (np.float32, np.bool_, np.int32)):
        with suppress(FastgraphError):
            made = made or read(file(name, [dtype] * count, outputs, result)).nodes
    found = [node for node in made if node.op == told.operator]
    assert found, f"{name} makes {[node.op for node in made]}"
    for attribute, source, *_ in told.attributes:
        given = found[0].attrs[attribute]
        assert not source or source == f"'{given}'" or float(source) == given


@pytest.mark.parametrize("name, told", REFUSED, ids=[name for name, _ in REFUSED])
def test_what_has_no_kernel_says_why(name: str, told: Signature) -> None:
    with pytest.raises(UnsupportedError, match=f"{name} {told.refused}"):
        read(file(name, [np.float32], 1))
