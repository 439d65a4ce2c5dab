"""Damaged files are refused in our own words, or run: no other exception, no crash, no hang, no flood of memory.

FUZZ_INPUTS=50000 tries that many; the quick run tries 1,000, the same ones every time.
"""

from __future__ import annotations

import sys

import pytest

from tests import fuzzing
from tests.circle.fuzz import SHARED, seeds


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and processor time are set as Linux has them")
@pytest.mark.parametrize("first", range(0, fuzzing.INPUTS, fuzzing.PORTION))
def test_damaged_files(first):
    fuzzing.test("tests.circle.fuzz", first)


def test_models_to_damage():
    assert len(seeds()) >= 4
    if not SHARED.exists():
        pytest.skip("no shared/models beside the repository: only our own files were damaged")
    assert len(seeds()) > 100
