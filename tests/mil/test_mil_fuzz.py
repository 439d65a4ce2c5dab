"""Damaged packages are refused in our own words, or run: no other exception, no crash, no hang, no flood of memory.

FUZZ_INPUTS=50000 tries that many; the quick run tries 1,000, the same ones every time.
"""

from __future__ import annotations

import sys
from pathlib import Path

import fuzzing
import pytest
from mil_fuzz import SHARED, seeds


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and processor time are set as Linux has them")
@pytest.mark.parametrize("first", range(0, fuzzing.INPUTS, fuzzing.PORTION))
def test_damaged_packages(first):
    fuzzing.test(Path(__file__).with_name("mil_fuzz.py"), first)


def test_packages_to_damage():
    assert len(seeds()) > 150
    if not SHARED.exists():
        pytest.skip("no shared/models beside the repository: only our own packages were damaged")
    assert len(seeds()) > 300
