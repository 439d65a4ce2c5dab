"""Run a script, or a module, that imports onnxruntime, with fastgraph in its place.

python -m fastgraph.onnxruntime script.py arguments...
python -m fastgraph.onnxruntime -m module arguments...
"""

from __future__ import annotations

import os
import runpy
import sys

from .install import install


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help") or sys.argv[1:] == ["-m"]:
        sys.exit(__doc__)
    install()
    if sys.argv[1] == "-m":
        name, sys.argv = sys.argv[2], sys.argv[2:]
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
