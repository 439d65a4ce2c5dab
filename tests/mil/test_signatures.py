"""What signatures say of Core ML operators, held against programs of each: parameters that are missing or of another
kind are named, and rows become the operator that they name."""

from typing import Any

import numpy as np
import pytest

from fastgraph.errors import ModelError, UnsupportedError
from fastgraph.frontends import read
from fastgraph.frontends.mil.call import REQUIRED
from fastgraph.frontends.mil.signature_table import TABLE
from fastgraph.frontends.mil.signatures import CHOICES, Parameter, find, parsed, signatures
from fastgraph.frontends.mil.wire import message
from tests.mil.mil_models import archived_files
from tests.mil.mil_write import MODEL, value, zipped

ROWS = dict(parsed(TABLE))
NUMBERS = ("float", "int", "flag", "Axis", "Seed", "Ints", "Perm")
find("")  # imports all files of rules


def _operations() -> dict[str, tuple[Any, dict[str, bytes]]]:
    """For each operator a stored program that has it, parsed, and the program's files."""
    found: dict[str, tuple[Any, dict[str, bytes]]] = {}
    for files in archived_files():
        model = message("Model").FromString(files[MODEL])
        for operation in _block(model).operations:
            found.setdefault(operation.type, (model, files))
    return found


def _block(model: Any) -> Any:
    (function,) = model.mlProgram.functions.values()
    return function.block_specializations[function.opset]


OPERATIONS = _operations()
PARAMETERS = [
    (op, parameter)
    for op, said in signatures().items()
    if op in OPERATIONS
    for parameter in {p.name: p for p in (*said.operands, *said.attributes)}.values()
]


def _changed(op: str, parameter: str, other: Any = None) -> bytes:
    """The program of an operator with another constant as its parameter, or without that."""
    model, files = OPERATIONS[op]
    edited = message("Model")()
    edited.CopyFrom(model)
    operation = next(o for o in _block(edited).operations if o.type == op)
    operation.inputs.pop(parameter, None)
    operation.attributes.pop(parameter, None)
    if other is not None:
        value(other, into=operation.inputs[parameter].arguments.add().value)
    return zipped(files | {MODEL: edited.SerializeToString()})


def _id(case: Any) -> str:
    return case.name if isinstance(case, Parameter) else str(case)


@pytest.mark.parametrize("op, parameter", [c for c in PARAMETERS if c[1].default is REQUIRED], ids=_id)
def test_a_missing_parameter_is_named(op: str, parameter: Parameter) -> None:
    with pytest.raises(ModelError, match=rf"\({op}\): expected its parameter '{parameter.name}', found"):
        read(_changed(op, parameter.name))


@pytest.mark.parametrize("op, parameter", [c for c in PARAMETERS if c[1].kind in (*NUMBERS, *CHOICES)], ids=_id)
def test_a_parameter_of_another_kind_is_named(op: str, parameter: Parameter) -> None:
    for wrong in ["no such text", np.float32([1.5, 2.5])]:
        with pytest.raises(ModelError, match=rf"\({op}\): expected its parameter '{parameter.name}' (to be a|as ')"):
            read(_changed(op, parameter.name, wrong))


@pytest.mark.parametrize("op", [op for op in ROWS if op in OPERATIONS])
def test_a_row_is_the_operator_that_it_names(op: str) -> None:
    files, said = OPERATIONS[op][1], ROWS[op]
    nodes = [node for node in read(zipped(files)).nodes if node.op == said.op]
    attributes = {**said.constants, **{p.attribute: None for p in said.attributes}}
    assert any(set(attributes) <= set(node.attrs) for node in nodes)


def test_parameters_that_may_be_absent() -> None:
    """Without them programs are read, or say what else they need them for."""
    for op, parameter in PARAMETERS:
        if parameter.default is not REQUIRED:
            try:
                read(_changed(op, parameter.name))
            except (ModelError, UnsupportedError) as error:
                assert f"expected its parameter '{parameter.name}'" not in str(error)


def test_programs_hold_most_operators() -> None:
    assert {*ROWS} <= {*OPERATIONS}
    assert len(PARAMETERS) > 350
