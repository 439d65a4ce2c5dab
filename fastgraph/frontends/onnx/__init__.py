"""The ONNX frontend: a file or its bytes to a Graph of canonical operators."""

from __future__ import annotations

import os

from ...ir import Graph


def read(source: str | os.PathLike[str] | bytes, name: str = "") -> Graph:
    """The graph of an ONNX model, IR versions 1 to 14, operator sets 1 to 28 of ai.onnx.

    `source` is a path or the file's bytes, `name` stands for it in messages (default: the path).
    Initializers are constants even where IR version 3 lists them as inputs. Constants may be read-only
    views of the file's bytes. Element types that numpy lacks are held in wider ones: bfloat16 and smaller
    floats in float32, (u)int4 and (u)int2 in (u)int8; strings in object arrays of str.

    Raises ModelError for a file that is broken, UnsupportedError naming all operators that are not
    supported, and OSError when the file can't be read.
    """
    from .load import load

    return load(source, name)
