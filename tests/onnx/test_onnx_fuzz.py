"""Damaged ONNX models are refused in our own words, or run: no other exception, no crash, no hang, no flood of memory.

FUZZ_INPUTS=50000 tries that many; the quick run tries 1,000, the same ones every time.
"""

from __future__ import annotations

import sys

import pytest

from tests import fuzzing


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and processor time are set as Linux has them")
@pytest.mark.parametrize("first", range(0, fuzzing.INPUTS, fuzzing.PORTION))
@pytest.mark.slow
def test_damaged_models(first):
    fuzzing.test("tests.onnx.onnx_fuzz", first)
