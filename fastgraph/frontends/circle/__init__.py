"""The Circle and TensorFlow Lite frontend: a file or its bytes to a Graph of canonical operators."""

from __future__ import annotations

import os

from ...ir import Graph
from .registry import custom_rule
from .wire import MAGIC

__all__ = ["MAGIC", "custom_rule", "read"]


def read(source: str | os.PathLike[str] | bytes, name: str = "") -> Graph:
    """The graph of sub-graph 0 of a TensorFlow Lite (version 3) or Circle (version 0) model.

    `source` is a path or the file's bytes, `name` stands for it in messages (default: the path). Inputs and outputs
    are called as in the signature of the sub-graph, when the file has one that names them all ("serving_default",
    else the first), and else by their tensors' names. Variable tensors and resources are the graph's states.

    Constants are read-only views of the file's bytes where numpy has their type; bfloat16 and GGML's blocks are held
    in float32, integers of 4 and 2 bits in 8, text in object arrays of str, sparse ones dense.

    Raises ModelError for a file that is broken, one UnsupportedError that names all operators that are not supported,
    and OSError when the file can't be read.
    """
    from .load import load

    return load(source, name)
