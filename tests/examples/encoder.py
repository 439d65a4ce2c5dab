"""A small text encoder with random weights: embeddings, one layer of masked attention, a feed-forward layer."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

WORDS, WIDTH, HEADS = 40, 32, 4


def encoder() -> bytes:
    """An .onnx file: input_ids, attention_mask int64 [batch, length] -> float32 [batch, length, WIDTH]."""
    rng = np.random.default_rng(0)
    shapes = {"words": (WORDS, WIDTH), "scale": (WIDTH,), "wide": (WIDTH, 64), "narrow": (64, WIDTH)}
    shapes |= {name: (WIDTH, WIDTH) for name in ("q", "k", "v", "o")}
    held = [numpy_helper.from_array(rng.normal(0, 0.3, s).astype(np.float32), name) for name, s in shapes.items()]
    held += [
        numpy_helper.from_array(np.array([0, 0, HEADS, WIDTH // HEADS]), "split"),
        numpy_helper.from_array(np.array([0, 0, WIDTH]), "join"),
        numpy_helper.from_array(np.array([1, 2]), "axes"),
        numpy_helper.from_array(np.float32(1), "one"),
        numpy_helper.from_array(np.float32(-1e9), "low"),
        numpy_helper.from_array(np.float32((WIDTH // HEADS) ** -0.5), "root"),
    ]
    nodes = [helper.make_node("Gather", ["words", "input_ids"], ["x"])]

    def node(op: str, inputs: str, output: str, **attrs: object) -> None:
        nodes.append(helper.make_node(op, inputs.split(), [output], **attrs))

    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        node("MatMul", f"x {name}", f"{name}1")
        node("Reshape", f"{name}1 split", f"{name}2")
        node("Transpose", f"{name}2", f"{name}3", perm=order)
    node("Cast", "attention_mask", "seen", to=TensorProto.FLOAT)
    node("Unsqueeze", "seen axes", "there")
    node("Sub", "one there", "away")
    node("Mul", "away low", "mask")
    node("MatMul", "q3 k3", "products")
    node("Mul", "products root", "scores")
    node("Add", "scores mask", "masked")
    node("Softmax", "masked", "weights", axis=-1)
    node("MatMul", "weights v3", "mixed")
    node("Transpose", "mixed", "turned", perm=[0, 2, 1, 3])
    node("Reshape", "turned join", "joined")
    node("MatMul", "joined o", "attended")
    node("Add", "x attended", "sum")
    node("LayerNormalization", "sum scale", "normal", axis=-1)
    node("MatMul", "normal wide", "hidden")
    node("Relu", "hidden", "active")
    node("MatMul", "active narrow", "fed")
    node("Add", "normal fed", "tokens")
    ports = [helper.make_tensor_value_info(n, TensorProto.INT64, ["b", "n"]) for n in ("input_ids", "attention_mask")]
    out = helper.make_tensor_value_info("tokens", TensorProto.FLOAT, ["b", "n", WIDTH])
    graph = helper.make_graph(nodes, "encoder", ports, [out], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
