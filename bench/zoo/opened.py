"""ONNX networks whose input shapes are open: a text encoder with random weights, and files with an extent opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WORDS, WIDTH, LAYERS, HEADS, INNER = 8000, 384, 6, 12, 1536
"""MiniLM-L6's, with fewer words."""


def with_open_batch(source: str, to: Path) -> str:
    """The network with any number of images: the first extent of what goes in and out is a symbol."""
    model = onnx.load(source)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del model.graph.value_info[:]
    onnx.save(model, str(to))
    return str(to)


class _Writer:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def const(self, data: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(data), f"c{len(self.constants)}"))
        return str(self.constants[-1].name)

    def weight(self, *shape: int) -> str:
        return self.const((self.rng.standard_normal(shape) * shape[0] ** -0.5).astype(np.float32))

    def __call__(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attrs))
        return name

    def norm(self, x: str) -> str:
        ones, zeros = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
        return self("LayerNormalization", x, self.const(ones), self.const(zeros), axis=-1)

    def layer(self, x: str, columns: int) -> str:
        rows = WIDTH if columns != WIDTH else INNER
        return self("Add", self("MatMul", x, self.weight(rows, columns)), self.const(np.zeros(columns, np.float32)))

    def projected(self, x: str, perm: Sequence[int]) -> str:
        """x times a square matrix, cut into heads."""
        y = self("Add", self("MatMul", x, self.weight(WIDTH, WIDTH)), self.const(np.zeros(WIDTH, np.float32)))
        heads = self("Reshape", y, self.const(np.array([0, -1, HEADS, WIDTH // HEADS])))
        return self("Transpose", heads, perm=list(perm))

    def attention(self, x: str, bias: str) -> str:
        q, k, v = (self.projected(x, perm) for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
        scores = self("Div", self("MatMul", q, k), self.const(np.float32((WIDTH / HEADS) ** 0.5)))
        found = self("MatMul", self("Softmax", self("Add", scores, bias), axis=-1), v)
        joined = self("Reshape", self("Transpose", found, perm=[0, 2, 1, 3]), self.const(np.array([0, -1, WIDTH])))
        return self("MatMul", joined, self.weight(WIDTH, WIDTH))

    def gelu(self, x: str) -> str:
        half = self("Mul", x, self.const(np.float32(0.5)))
        erf = self("Erf", self("Div", x, self.const(np.float32(2**0.5))))
        return self("Mul", half, self("Add", erf, self.const(np.float32(1))))


def encoder(to: Path) -> str:
    """ids, mask: int64 [n, t] -> float32 [n, t, WIDTH], by six layers of attention."""
    w = _Writer()
    x = w.norm(w("Gather", w.weight(WORDS, WIDTH), "ids"))
    mask = w("Unsqueeze", w("Cast", "mask", to=TensorProto.FLOAT), w.const(np.array([1, 2])))
    bias = w("Mul", w("Sub", w.const(np.float32(1)), mask), w.const(np.float32(-10000)))
    for _ in range(LAYERS):
        x = w.norm(w("Add", x, w.attention(x, bias)))
        x = w.norm(w("Add", x, w.layer(w.gelu(w.layer(x, INNER)), WIDTH)))
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "t"]) for name in ("ids", "mask")]
    outputs = [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["n", "t", WIDTH])]
    graph = helper.make_graph(w.nodes, "encoder", inputs, outputs, w.constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(to))
    return str(to)
