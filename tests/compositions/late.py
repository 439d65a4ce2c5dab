"""An ONNX model whose inputs have as many rows as the run computes: all that follows is planned when they are known."""

import numpy as np
import onnx
from onnx import TensorProto, helper

MORE = 70
"""Elements of what the number of rows is computed from: more than values that decide shapes may have."""

Feeds = dict[str, np.ndarray]


def late(source: bytes, feeds: Feeds) -> tuple[bytes, Feeds]:
    """The model, whose inputs of at least one axis lose no row, which nobody knows before the run; and its feeds."""
    model = onnx.load_from_string(source)
    nodes, new, made = [], {}, dict(feeds)
    for name, array in feeds.items():
        if array.ndim and array.size and array.dtype != object:
            model.graph.input.append(helper.make_tensor_value_info(f"{name}.rows", TensorProto.FLOAT, [MORE]))
            made[f"{name}.rows"] = np.full(MORE, array.shape[0], np.float32)
            nodes += _picked(name)
            new[name] = f"{name}.late"
    _rename(model.graph, new)
    zero, one = (helper.make_tensor(f"late.{n}", TensorProto.INT64, [], [n]) for n in (0, 1))
    model.graph.initializer.extend([zero, one])
    rest = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*nodes, *rest])
    return model.SerializeToString(), made


def _picked(name: str) -> list[onnx.NodeProto]:
    """All rows of a value, by their numbers."""
    return [
        helper.make_node("ReduceMax", [f"{name}.rows"], [f"{name}.most"], keepdims=0),
        helper.make_node("Cast", [f"{name}.most"], [f"{name}.count"], to=TensorProto.INT64),
        helper.make_node("Range", ["late.0", f"{name}.count", "late.1"], [f"{name}.numbers"]),
        helper.make_node("Gather", [name, f"{name}.numbers"], [f"{name}.late"], axis=0),
    ]


def _rename(graph: onnx.GraphProto, new: dict[str, str]) -> None:
    """What nodes read, those of bodies too."""
    for node in graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = new.get(name, name)
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                _rename(body, new)
