"""An operator that fastgraph lacks, written in Python: numba compiles it, and it runs within the one native call.

    pip install fastgraph-runtime onnx
    python gate.py

The network has one node, Gate of the domain my.domain: y = x * sigmoid(slope * gate).
"""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto, helper

import fastgraph as fg


def gate(x, g, y, *, slope=1.0):
    """Operands, then the result, which it writes; attributes are keywords."""
    for i in range(x.size):
        y.flat[i] = x.flat[i] / (1.0 + math.exp(-slope * g.flat[i]))


def network(slope: float) -> bytes:
    """The file: in real life somebody else's."""
    x, g, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8]) for name in ("x", "g", "y"))
    node = helper.make_node("Gate", ["x", "g"], ["y"], domain="my.domain", slope=slope)
    graph = helper.make_graph([node], "gated", [x, g], [y])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.domain", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def main() -> tuple[np.ndarray, np.ndarray]:
    """The result, and what NumPy makes of the same."""
    fg.register_custom_op("my.domain", "Gate", infer=lambda types, attrs: [types[0]], kernel=gate, replace=True)
    x, g = np.random.default_rng(0).standard_normal((2, 4, 8)).astype(np.float32)
    return fg.load(network(slope=2.0))(x, g), x / (1 + np.exp(-2 * g))


if __name__ == "__main__":
    found, expected = main()
    print(f"largest difference from NumPy: {np.abs(found - expected).max():.2e}")
