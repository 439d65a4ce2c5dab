"""Damaged files are refused in our own words, or run: no other exception, no crash, no hang, no flood of memory.

FUZZ_INPUTS=50000 tries that many of each format; without it 1,000, the same ones every time.
"""

import sys
from importlib import import_module

import pytest

from tests import fuzzing
from tests.circle.circle_models import SHARED


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and processor time are set as Linux has them")
@pytest.mark.parametrize("first", range(0, fuzzing.INPUTS, fuzzing.PORTION))
@pytest.mark.parametrize("name", fuzzing.SCRIPTS)
def test_damaged_files(name: str, first: int) -> None:
    fuzzing.test(fuzzing.SCRIPTS[name], first)


@pytest.mark.slow
@pytest.mark.parametrize("name, own, least", [("circle", 4, 100), ("mil", 150, 300), ("onnx", 500, 500)])
def test_files_to_damage(name: str, own: int, least: int) -> None:
    assert len(import_module(fuzzing.SCRIPTS[name]).seeds()) > (least if SHARED.exists() else own)
