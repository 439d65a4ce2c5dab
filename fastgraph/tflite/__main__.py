"""Run a script, or a module, that imports tflite_runtime or ai_edge_litert, with fastgraph in its place.

python -m fastgraph.tflite script.py arguments...
python -m fastgraph.tflite -m module arguments...
"""

from ..scripts import run
from .install import install

if __name__ == "__main__":
    run(install, __doc__)
