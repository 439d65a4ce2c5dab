"""Damaged packages are refused in our own words, or run: no other exception, no crash, no hang, no flood of memory.

FUZZ_INPUTS=50000 tries that many; the quick run tries 1,000, the same ones every time.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from fastgraph.errors import ModelError
from fastgraph.frontends import read
from fastgraph.frontends.mil.wire import message
from tests import fuzzing
from tests.mil.mil_fuzz import SHARED, seeds
from tests.mil.mil_write import Program, list_value


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and processor time are set as Linux has them")
@pytest.mark.parametrize("first", range(0, fuzzing.INPUTS, fuzzing.PORTION))
@pytest.mark.slow
def test_damaged_packages(first):
    fuzzing.test("tests.mil.mil_fuzz", first)


def test_packages_to_damage():
    assert len(seeds()) > 150
    if not SHARED.exists():
        pytest.skip("no shared/models beside the repository: only our own packages were damaged")
    assert len(seeds()) > 300


# -- what was found, in its smallest form


def test_outputs_that_an_operation_lacks():
    p = Program()
    p.op("relu", ["y", "z"], x=p.input("x", (2,)), types=[("FLOAT32", (2,)), ("FLOAT32", (2,))])
    p.output("y")
    with pytest.raises(ModelError, match="'y' .relu.: expected 1 outputs or fewer, found 2"):
        read(p.spec())


def test_classes_of_what_is_no_number():
    p = Program("CoreML5", 6)
    text = p.const(np.array("a", object))
    p.op("softmax", "p", x=p.input("x", (1, 3)), axis=np.int32(-1))
    table = message("MILSpec.ValueType")()
    classes = list_value(["a"])
    table.dictionaryType.keyType.CopyFrom(classes.type.listType.type)
    table.dictionaryType.valueType.CopyFrom(p.types["p"])
    types = [("STRING", ()), table]
    p.op("classify", ["label", "all"], types, direct=("classes",), probabilities=text, classes=classes)
    p.output("label", "all")
    with pytest.raises(ModelError, match="expected probabilities of a float type"):
        read(p.spec())
