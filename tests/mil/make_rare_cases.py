"""The cases of rarer operators: as make_cases.py, into rare_cases.tar.xz.

python -m tests.mil.make_rare_cases        needs coremltools and torch
"""

from __future__ import annotations

import warnings

from tests.mil import make_cases
from tests.mil.case_tables_images import resizing, sampling
from tests.mil.case_tables_rare import attention, compressed, control, indices, recurrent, sorting

if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    make_cases.TABLES = (recurrent, control, compressed, indices, sorting, attention, resizing, sampling)
    make_cases.write_cases(make_cases.HERE / "rare_cases.tar.xz")
