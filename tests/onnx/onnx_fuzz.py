"""Damaged ONNX files, one after the other; see tests/fuzzing.py.

    python -m tests.onnx.onnx_fuzz FIRST COUNT

Input n is a small model, our own or one of the onnx package's node cases, changed as random numbers from n say: shapes,
types, attributes, wiring, operators, constants, where external data lies; or the bytes of the file.
"""

from __future__ import annotations

import random
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from fastgraph.frontends import read
from tests import fuzzing
from tests.onnx.onnx_seeds import seeds

NUMBERS = (-1, -2, -3, -100, 0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 31, 64, 100, 1000, 65535, 1 << 20, 1 << 30,
           (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))  # fmt: skip
REALS = (0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, float("nan"), float("inf"))
TEXTS = (b"", b"x", b"linear", b"cubic", b"reflect", b"edge", b"SAME_UPPER", b"VALID", b"constant", b"mul", b"sum",
         b"reverse", b"bidirectional", b"LIFO", b"\xff", b"Relu", b"align_corners", b"ij,jk->ik", b"...")  # fmt: skip
TYPES = tuple(TensorProto.DataType.Value(name) for name in (
    "FLOAT", "FLOAT", "INT64", "INT32", "UINT8", "INT8", "BOOL", "DOUBLE", "FLOAT16", "STRING", "INT4"))  # fmt: skip
DTYPES = (np.float32, np.float64, np.int64, np.int32, np.uint8, np.int8, np.float16, np.bool_)


def damaged(place: int) -> bytes:
    """Input `place`."""
    rng = random.Random(place)
    data = rng.choice(seeds())
    if rng.random() < 0.1:
        return mangled(data, rng)
    model = onnx.ModelProto.FromString(data)
    if rng.random() < 0.7:  # what is declared would contradict what is changed
        del model.graph.value_info[:]
        for value in model.graph.output:
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        with suppress(TypeError, ValueError, KeyError, NotImplementedError):  # what numpy or protobuf can't hold
            rng.choices(CHANGES, (9, 6, 3, 2, 4, 1, 1))[0](model, rng)
    return model.SerializeToString(deterministic=True)


def nodes(model: Any) -> list[Any]:
    """All nodes, those of sub-graphs too."""
    found, waiting = [], [model.graph]
    while waiting:
        graph = waiting.pop()
        found += graph.node
        waiting += [a.g for node in graph.node for a in node.attribute if a.type == AttributeProto.GRAPH]
    return found


def constants(model: Any) -> list[Any]:
    held = [a.t for node in nodes(model) for a in node.attribute if a.type == AttributeProto.TENSOR]
    return [*model.graph.initializer, *held]


def constant(model: Any, rng: random.Random) -> None:
    """Another shape, type or numbers of a constant, sound as such; an input that is as small becomes one."""
    if not constants(model) or rng.random() < 0.2:
        given = [v for v in model.graph.input if dims_of(v) is not None and np.prod(dims_of(v)) <= 64]
        if given:
            value = rng.choice(given)
            array = np.zeros(dims_of(value), helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
            model.graph.initializer.append(numpy_helper.from_array(changed(array, rng), value.name))
            model.graph.input.remove(value)
        return
    tensor = rng.choice(constants(model))
    try:
        array = numpy_helper.to_array(tensor)
    except Exception:
        return
    name = tensor.name
    if array.size <= 1 << 12 and array.dtype.kind in "fiub":
        tensor.CopyFrom(numpy_helper.from_array(changed(array, rng), name))


def changed(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """Shorter, longer, of another shape or type, or with other numbers."""
    kind = rng.randrange(8)
    if kind == 0 and array.ndim:
        axis = rng.randrange(array.ndim)
        half = range(array.shape[axis] // 2)
        return np.ascontiguousarray(np.repeat(array, 2, axis) if rng.random() < 0.5 else array.take(half, axis))
    if kind == 1:
        shape = list(array.shape)
        shape.insert(rng.randrange(len(shape) + 1), 1)
        return array.reshape(shape)
    if kind == 2:
        return array.reshape(-1)[: rng.choice((0, 1, 2, 3))]
    if kind == 3 and array.ndim > 1:
        return np.ascontiguousarray(array.swapaxes(0, rng.randrange(1, array.ndim)))
    if kind == 4:
        with np.errstate(all="ignore"):
            return array.astype(rng.choice(DTYPES))
    array = array.copy()
    flat = array.reshape(-1)
    for _ in range(rng.choice((1, 1, 2))):
        if flat.size:
            at = rng.randrange(flat.size)
            if array.dtype.kind == "f":
                flat[at] = rng.choice(REALS) if array.dtype != np.float16 else rng.choice((0.0, np.nan, 1.0))
            elif array.dtype.kind == "b":
                flat[at] = not flat[at]
            else:
                limits = np.iinfo(array.dtype)
                flat[at] = min(max(rng.choice(NUMBERS), limits.min), limits.max)
    return array


def attribute(model: Any, rng: random.Random) -> None:
    """Another value of an attribute, one more or less of a list, or the attribute dropped, or that of another node."""
    holders = [node for node in nodes(model) if node.attribute]
    if not holders:
        return operator(model, rng)
    node = rng.choice(holders)
    a = rng.choice(list(node.attribute))
    what = rng.random()
    if what < 0.1:
        node.attribute.remove(a)
    elif what < 0.15:
        a.name = rng.choice([b.name for other in nodes(model) for b in other.attribute])
    elif a.type == AttributeProto.INT:
        a.i = rng.choice(NUMBERS) if rng.random() < 0.8 else a.i + rng.choice((-1, 1))
    elif a.type == AttributeProto.FLOAT:
        a.f = rng.choice(REALS)
    elif a.type == AttributeProto.STRING:
        a.s = rng.choice(TEXTS)
    elif a.type in (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS):
        lists = {AttributeProto.INTS: (a.ints, NUMBERS), AttributeProto.FLOATS: (a.floats, REALS)}
        held, pool = lists.get(a.type, (a.strings, TEXTS))
        if not held or what < 0.3:
            held.append(rng.choice(pool))
        elif what < 0.45:
            del held[rng.randrange(len(held))]
        else:
            held[rng.randrange(len(held))] = rng.choice(pool)
    return None


def wiring(model: Any, rng: random.Random) -> None:
    """A node reads something else, nothing, one more or one less; or gives something else."""
    node = rng.choice(nodes(model) or [onnx.NodeProto(op_type="Relu", input=["x"], output=["y"])])
    names = [v.name for v in (*model.graph.input, *model.graph.initializer)]
    names += [*(o for n in nodes(model) for o in n.output), ""]
    what = rng.randrange(7)
    if what == 0:
        node.input.append(rng.choice(names))
    elif what == 1 and node.input:
        del node.input[rng.randrange(len(node.input))]
    elif what == 2 and node.output:
        node.output[rng.randrange(len(node.output))] = rng.choice([*names, "new"])
    elif what == 3 and node.output:
        node.output.append(f"{node.output[0]}_more")
    elif what == 4 and model.graph.output:
        rng.choice(list(model.graph.output)).name = rng.choice(names)
    elif node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)


@cache
def operators() -> list[str]:
    return sorted({node.op_type for data in seeds() for node in onnx.ModelProto.FromString(data).graph.node})


def operator(model: Any, rng: random.Random) -> None:
    """Another operator, operator set or domain."""
    node = rng.choice(nodes(model) or [onnx.NodeProto()])
    what = rng.random()
    if what < 0.7:
        node.op_type = rng.choice(operators())
    elif what < 0.95 and model.opset_import:
        rng.choice(list(model.opset_import)).version = rng.choice((0, 1, 6, 7, 9, 11, 13, 17, 18, 21, 23, 99, -1))
    else:
        node.domain = rng.choice(("", "com.microsoft", "ai.onnx.ml", "x"))


def dims_of(value: Any) -> list[int] | None:
    kind = value.type.tensor_type
    if not kind.HasField("shape") or any(not d.HasField("dim_value") for d in kind.shape.dim):
        return None
    return [d.dim_value for d in kind.shape.dim]


def declared(model: Any, rng: random.Random) -> None:
    """Another type of an input or output."""
    value = rng.choice([*model.graph.input, *model.graph.output] or [onnx.ValueInfoProto()])
    kind = value.type.tensor_type
    what = rng.randrange(6)
    if what == 0:
        kind.elem_type = rng.choice(TYPES)
    elif what == 1:
        kind.ClearField("shape")
    elif what == 2:
        kind.shape.dim.add(dim_value=rng.choice((0, 1, 2, 3)))
    elif what == 3 and kind.shape.dim:
        del kind.shape.dim[rng.randrange(len(kind.shape.dim))]
    elif kind.shape.dim:
        d = rng.choice(list(kind.shape.dim))
        if rng.random() < 0.3:
            d.Clear()
            d.dim_param = rng.choice(("", "n", "m"))
        else:
            d.dim_value = rng.choice((0, 1, 2, 3, 5, 8, 16, 17, 33)) if rng.random() < 0.9 else rng.choice(NUMBERS)


def graph(model: Any, rng: random.Random) -> None:
    """A node twice, gone or elsewhere; an input or output gone or twice."""
    held = rng.choice((model.graph.node, model.graph.node, model.graph.input, model.graph.output))
    if not held:
        return
    at, what = rng.randrange(len(held)), rng.randrange(3)
    if what == 0:
        del held[at]
    elif what == 1:
        held.add().CopyFrom(held[at])
    else:
        other = rng.randrange(len(held))
        one = type(held[at]).FromString(held[at].SerializeToString())
        held[at].CopyFrom(held[other])
        held[other].CopyFrom(one)


def external(model: Any, rng: random.Random) -> None:
    """A constant that is said to lie in a file."""
    if not constants(model):
        return
    tensor = rng.choice(constants(model))
    tensor.data_location = rng.choice((TensorProto.EXTERNAL, TensorProto.EXTERNAL, TensorProto.DEFAULT))
    del tensor.external_data[:]
    for key, values in (
        ("location", ("x.bin", "", "../x", "/etc/passwd", "\0")), ("offset", ("0", "-1", "1e3", "9" * 20)),
        ("length", ("0", "4", "-4", "x", str(1 << 62))),
    ):  # fmt: skip
        if rng.random() < 0.7:
            tensor.external_data.add(key=key, value=rng.choice(values))


CHANGES = (constant, attribute, wiring, operator, declared, graph, external)


def mangled(data: bytes, rng: random.Random) -> bytes:
    """Bytes with some changed, doubled or dropped."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        if not found:
            break
        at, what = rng.randrange(len(found)), rng.randrange(4)
        if what == 0:
            found[at] ^= 1 << rng.randrange(8)
        elif what == 1:
            found[at] = rng.choice((0, 1, 2, 8, 10, 18, 127, 128, 255))
        elif what == 2:
            del found[at : at + rng.choice((1, 2, 8, 64))]
        else:
            found[at:at] = found[at : at + rng.choice((1, 4, 16))]
    return bytes(found)


if __name__ == "__main__":
    fuzzing.main(read, damaged)
