"""What rules share: parameters of whole numbers, and types of what lies between two nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir import Quantization, TensorType, Value
from ..core import common
from ..core.common import FLOAT32, INT64, ints
from .call import Call, Rule, rule


def one_to_one(
    table: dict[str, str], inputs: int | tuple[int, int] = 1, check: Callable[[Call], None] | None = None,
    register: Callable[[str], Callable[[Rule], Rule]] = rule, **attrs: Any,
) -> None:  # fmt: skip
    """Register rules of operators that have a canonical twin: the same inputs, no options that matter.

    `check` looks at the operands, `attrs` are the twin's.
    """

    def twin(op: str) -> Rule:
        def translate(c: Call) -> None:
            c.count(inputs)
            if check is not None:
                check(c)
            c.write(op, **attrs)

        return translate

    for name, op in table.items():
        register(name)(twin(op))


def alike(c: Call) -> None:
    """ModelError unless inputs and output are of one element type."""
    same_dtype(c, *c.inputs, c.outputs[0])


def inputs_alike(c: Call) -> None:
    """ModelError unless the inputs are of one element type."""
    same_dtype(c, *c.inputs)


def real(c: Call) -> TensorType:
    """The type of a result before the last step: not yet rounded where the operator's own result is quantized."""
    declared = c.outputs[0].type
    return TensorType(FLOAT32 if declared.quant is not None else declared.dtype)


def scalar(c: Call, number: float, like: Value | None = None) -> Value:
    """A constant of rank 0 in the element type that `like` (the first output) has, or stands for."""
    return common.scalar(c, number, like or c.outputs[0])


def whole(c: Call, index: int, *others: str) -> Value:
    """Input `index`, which must hold plain int32 or int64 numbers, or some of `others`."""
    value, types = c.x(index), (*others, "int32", "int64")
    if value.type.quant is not None or str(value.type.dtype) not in types:
        c.fail(f"expected {' or '.join(types)} numbers as input {index}, found {value.type}")
    return value


def known(c: Call, index: int, what: str) -> list[int]:
    """The whole numbers of input `index`; UnsupportedError when they are not constant."""
    value = whole(c, index)
    if value.data is None:
        c.unsupported(f"with {what} that are computed; expected a constant")
    return [int(v) for v in value.data.reshape(-1)]


def vector(c: Call, index: int, *others: str) -> Value:
    """Input `index` as a vector of int64, constant where it is constant; of types that `whole` takes."""
    value = whole(c, index, *others)
    if value.data is not None:
        return c.const(value.data.reshape(-1).astype(np.int64))
    shape = value.type.shape
    if shape is None or len(shape) != 1:
        value = c.add("reshape", [value, ints(c, [-1])], type=TensorType(value.type.dtype))
    return value if value.type.dtype == INT64 else c.add("cast", [value], type=TensorType(INT64), to=INT64)


def as_declared(c: Call, index: int, op: str, inputs: Sequence[Value | None], **attrs: Any) -> None:
    """Write `op`, which gives int64, as output `index`, in the declared type of whole numbers."""
    out = c.outputs[index]
    if out.type.dtype == INT64:
        c.add(op, inputs, [out], **attrs)
    else:
        narrowed(c, c.add(op, inputs, type=TensorType(INT64), **attrs), out)


def narrowed(c: Call, x: Value, out: Value) -> None:
    """Write int64 `x` as `out`, in its declared type of whole numbers."""
    if out.type.dtype is None or out.type.dtype.kind not in "iu" or out.type.quant is not None:
        c.fail(f"expected an output of whole numbers, found {out.type}")
    c.add("cast", [x], [out], to=out.type.dtype)


def moved(
    c: Call, op: str, inputs: Sequence[Value | None], outputs: Sequence[Value] | None = None, **attrs: Any
) -> None:
    """Write an operator that moves elements of its first input unchanged, stored numbers and all.

    Where the file declares another quantization for the result, the stored numbers are what is kept.
    """
    x = inputs[0]
    assert x is not None
    outs = c.outputs if outputs is None else list(outputs)
    for out in outs:
        if out.type.dtype != x.type.dtype:
            c.fail(f"expected an output of the input's type {x.type}, found {out.type}")
    per_axis = any(v.type.quant is not None and v.type.quant.axis is not None for v in (x, *outs))
    if per_axis or all(out.type.quant == x.type.quant for out in outs):
        c.add(op, inputs, outs, **attrs)
        return
    kept = [c.fresh(TensorType(x.type.dtype, None, x.type.quant)) for _ in outs]
    c.add(op, inputs, kept, **attrs)
    for value, out in zip(kept, outs, strict=True):
        c.add("reinterpret", [value], [out])


def matched(c: Call, x: Value, out: Value, both: bool = False) -> Value:
    """What gives its elements to a result, by the quantization that the file declares of that: stored numbers are what
    is kept. both: so too where either has one.
    """
    kinds = x.type.quant, out.type.quant
    by_channel = any(kind is not None and kind.axis is not None for kind in kinds)
    if kinds[0] == kinds[1] or by_channel or (None not in kinds and not both):
        return x
    if x.data is not None:
        return c.const(x.data, out.type.quant)
    return c.add("reinterpret", [x], type=TensorType(x.type.dtype, x.type.shape, out.type.quant))


def stored(c: Call, value: Value) -> Value:
    """The plain numbers that are stored for a value."""
    if value.type.quant is None:
        return value
    plain = TensorType(value.type.dtype, value.type.shape)
    return c.const(value.data) if value.data is not None else c.add("reinterpret", [value], type=plain)


def on_stored(c: Call, op: str, inputs: Sequence[Value | None], **attrs: Any) -> None:
    """Write an operator that takes, and makes, the numbers that are stored, whatever they stand for."""
    plain = [None if v is None else stored(c, v) for v in inputs]
    out = c.outputs[0]
    if out.type.quant is None:
        c.add(op, plain, [out], **attrs)
    else:
        c.add("reinterpret", [c.add(op, plain, type=TensorType(out.type.dtype), **attrs)], [out])


def rounded(c: Call, op: str, inputs: Sequence[Value | None], **attrs: Any) -> None:
    """Write an operator of fractions: on plain integers each stands for itself, and the result is rounded."""
    x, out = inputs[0], c.outputs[0]
    assert x is not None
    if x.type.quant is not None or x.type.dtype is None or x.type.dtype.kind not in "iu":
        c.add(op, inputs, [out], **attrs)
        return
    itself = Quantization((1.0,), (0,))
    x = c.add("reinterpret", [x], type=TensorType(x.type.dtype, x.type.shape, itself))
    made = c.add(op, [x, *inputs[1:]], type=TensorType(out.type.dtype, None, itself), **attrs)
    c.add("reinterpret", [made], [out])


def same_dtype(c: Call, *values: Value | None) -> None:
    """ModelError unless all are stored as one element type, and all or none of them are quantized."""
    present = [v for v in values if v is not None]
    if len({(v.type.dtype, v.type.quant is None) for v in present}) > 1:
        c.fail(f"expected operands of one element type, found {', '.join(str(v.type) for v in present)}")


def computed(c: Call, *values: Value | None) -> None:
    """ModelError when 8-bit or 16-bit integers that stand for reals lack their quantization."""
    for value in values:
        if value is None or value.type.quant is not None or value.type.dtype is None:
            continue
        if value.type.dtype.kind in "iu" and value.type.dtype.itemsize <= 2:
            c.fail(f"expected a scale and a zero point of {value}, found {value.type} without them")
