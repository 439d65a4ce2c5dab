"""All operators that coremltools defines: each has a rule, which a program checks, or is listed with the reason."""

import csv
from pathlib import Path

import pytest

import fastgraph as fg
from fastgraph.frontends import read
from fastgraph.frontends.mil.package import open_package
from fastgraph.frontends.mil.signatures import find
from fastgraph.frontends.mil.wire import Message, parse
from tests.mil.mil_models import FOLDER, archived, arrays, by_references, compare, feeds, unpack

HERE = Path(__file__).parent
with (HERE / "operators.csv").open(newline="") as _file:
    OPERATORS = {row["operator"]: row["state"] for row in csv.DictReader(_file)}
"""All that coremltools defines: "done", or the reason why not."""
CASES = archived()

ELSEWHERE = {
    "classify": "test_description.py",
    "conv_quantized": "coremltools can't write it: test_mil_rules.py",
    "coreml_update_state": "in files it is write_state and read_state: test_mil_reader.py",
    "read_state": "test_mil_reader.py",
    **dict.fromkeys((name for name in OPERATORS if name.startswith("random_")), "test_mil_rules.py"),
}
"""Operators that neither coremltools' own programs nor the stored cases have."""


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    unpack(folder)
    return folder


def _relative(name: str) -> float:
    return 2e-3 if name.endswith("f16") else 2e-5


@pytest.mark.parametrize("name", CASES)
def test_a_case_by_its_references(cases: Path, name: str) -> None:
    given, wanted = arrays(cases / name)
    compare(by_references(read(cases / name / "model.mlpackage"), given), wanted, _relative(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_case_by_its_kernels(cases: Path, name: str) -> None:
    given, wanted = arrays(cases / name)
    path = cases / name / "model.mlpackage"
    compare(fg.load(path, threads=1).run(feeds(read(path), given)), wanted, _relative(name))


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_has_a_rule_or_a_reason(name: str) -> None:
    known = name == "const" or find(name) is not None
    assert known == (OPERATORS[name] == "done") and OPERATORS[name]


def _used(block: Message) -> set[str]:
    """The operators of a block, and of those within."""
    found = {operation.type for operation in block.operations}
    return found.union(*(_used(inner) for operation in block.operations for inner in operation.blocks))


@pytest.mark.skipif(not FOLDER.exists(), reason="no shared/models/mil beside the repository")
def test_every_operator_with_a_rule_is_run_by_a_program(cases: Path) -> None:
    used: set[str] = set()
    for path in (*FOLDER.glob("*/model.mlpackage"), *cases.glob("*/model.mlpackage")):
        for function in parse(open_package(path, path.name).spec, path.name).mlProgram.functions.values():
            used |= _used(function.block_specializations[function.opset])
    assert {name for name, state in OPERATORS.items() if state == "done"} - set(ELSEWHERE) <= used
