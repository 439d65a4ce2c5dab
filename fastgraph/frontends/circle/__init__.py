"""The Circle and TensorFlow Lite frontend: a file or its bytes to a Graph of canonical operators."""

from __future__ import annotations

import os

from ...ir import Graph
from .registry import custom_rule
from .wire import MAGIC

__all__ = ["MAGIC", "custom_rule", "read"]


def read(source: str | os.PathLike[str] | bytes, name: str = "", function: str | None = None) -> Graph:
    """The graph of a signature of a TensorFlow Lite (version 3) or Circle (version 0) model, or of its sub-graph 0.

    `source` is a path or the file's bytes, `name` stands for it in messages (default: the path). `function`: the key of
    a signature, which calls inputs and outputs. Without it they are called as in the signature of sub-graph 0, when
    there is one that names them all ("serving_default", else the first), and else by their tensors' names. Variable
    tensors and resources are the graph's states; one that only another signature gives a value begins with zeros.

    Constants are read-only views of the file's bytes where numpy has their type; bfloat16 and GGML's blocks are held
    in float32, integers of 4 and 2 bits in 8, text in object arrays of str, sparse ones dense.

    Raises ModelError for a file that is broken, one UnsupportedError that names all operators that are not supported,
    InputError for a signature that is not there, and OSError when the file can't be read.
    """
    from .load import load

    return load(source, name, function)
