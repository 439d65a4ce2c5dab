"""Damaged ONNX files, one after the other; see tests/fuzzing.py.

    python -m tests.onnx.onnx_fuzz FIRST COUNT

Input n is a small model, our own or one of the onnx package's node cases, changed as random numbers from n say: shapes,
types, attributes, wiring, operators, constants, where external data lies; or the bytes of the file.
"""

import random
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from fastgraph.frontends import read
from tests import damage, fuzzing
from tests.damage import NUMBERS, REALS, mangled
from tests.onnx.onnx_seeds import seeds

TEXTS = "x linear cubic reflect edge SAME_UPPER VALID constant mul sum reverse bidirectional LIFO align_corners".split()
TEXTS += ["", "\xff", "...", "ij,jk->ik", "../x", "com.microsoft", "ai.onnx.ml"]
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
    if rng.random() < 0.35:
        with suppress(TypeError, ValueError, KeyError, NotImplementedError):  # what numpy or protobuf can't hold
            constant(model, rng)
    else:
        damage.edited(model, rng, lambda name: operators() if name == "op_type" else words(model, rng))
    return model.SerializeToString(deterministic=True)


def words(model: Any, rng: random.Random) -> list[str]:
    """Names of values and attributes, or any text."""
    held = [name for node in nodes(model) for name in (*node.input, *node.output, *(a.name for a in node.attribute))]
    return held if held and rng.random() < 0.7 else TEXTS


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


@cache
def operators() -> list[str]:
    return sorted({node.op_type for data in seeds() for node in onnx.ModelProto.FromString(data).graph.node})


def dims_of(value: Any) -> list[int] | None:
    kind = value.type.tensor_type
    if not kind.HasField("shape") or any(not d.HasField("dim_value") for d in kind.shape.dim):
        return None
    return [d.dim_value for d in kind.shape.dim]


if __name__ == "__main__":
    fuzzing.main(read, damaged)
