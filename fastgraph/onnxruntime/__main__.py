"""Run a script, or a module, that imports onnxruntime, with fastgraph in its place.

python -m fastgraph.onnxruntime script.py arguments...
python -m fastgraph.onnxruntime -m module arguments...
"""

from ..scripts import run
from .install import install

if __name__ == "__main__":
    run(install, __doc__)
