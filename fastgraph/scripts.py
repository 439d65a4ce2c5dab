"""Running a script, or a module, as Python itself would, after something was put in place for what it imports."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable


def run(install: Callable[[], None], usage: str | None) -> None:
    """Run what the command line names, `script.py arguments...` or `-m module arguments...`, after `install`. Without
    either it says `usage`, and exits with 1.
    """
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help") or sys.argv[1:] == ["-m"]:
        sys.exit(usage)
    install()
    if sys.argv[1] == "-m":
        name, sys.argv = sys.argv[2], sys.argv[2:]
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
