"""The operators of rare_kinds.py that TensorFlow Lite has."""

from collections.abc import Callable

import numpy as np

from .composition import Op
from .nodes import MOST
from .write_tflite import F32, I32, Declined, Flat


def take_each(f: Flat, op: Op) -> None:
    x, at = map(f.read, op.inputs)
    f.give(op.outputs[0], f.op("GATHER", [x, at], op.outputs[0], False, axis=1, batch_dims=1))


def _begin(f: Flat, x: str, axis: int, start: str | int) -> int:
    """A place from which on something is: 0 along the other axes."""
    rank = f.rank(x)
    if isinstance(start, int):
        return f.ints(*(start if i == axis else 0 for i in range(rank)))
    before, after = f.ints(*[0] * axis), f.ints(*[0] * (rank - axis - 1))
    parts = [*([before] if axis else []), f.read(start), *([after] if axis < rank - 1 else [])]
    return f.raw("CONCATENATION", parts, (rank,), I32, axis=0) if len(parts) > 1 else parts[0]


def window(f: Flat, op: Op) -> None:
    x, start = op.inputs
    inputs = [f.read(x), _begin(f, x, op.attrs["axis"], start), f.ints(*f.shapes[op.outputs[0]])]
    f.give(op.outputs[0], f.op("SLICE", inputs, op.outputs[0], False))


def update(f: Flat, op: Op) -> None:
    x, u, *start = op.inputs
    begin = _begin(f, x, op.attrs["axis"], start[0] if start else op.attrs["start"])
    f.give(op.outputs[0], f.op("DYNAMIC_UPDATE_SLICE", [f.read(x), f.read(u), begin], op.outputs[0], False))


def diagonal(f: Flat, op: Op) -> None:
    kind = "MATRIX_DIAG" if op.kind == "diagonal" else "MATRIX_SET_DIAG"
    f.give(op.outputs[0], f.op(kind, list(map(f.read, op.inputs)), op.outputs[0], False))


def marks(f: Flat, op: Op) -> None:
    """Indices that follow the last one mean nothing."""
    if f.edges:
        raise Declined("scores that are fed as bytes, of which some are equal: which comes first is anybody's choice")
    a, (n,) = op.attrs, f.shapes[op.outputs[0]]
    most = min(a["most"], n)
    bounds = [f.model.const(np.array(v, t)) for v, t in ((most, I32), (a["limit"], F32), (a["least"], F32))]
    kept, count = f.model.op("NON_MAX_SUPPRESSION_V4", [*map(f.read, op.inputs), *bounds], [((most,), I32), ((), I32)])
    valid = f.raw("LESS", [f.ints(*range(most)), count], (most,), np.bool_)
    kept = f.raw("SELECT_V2", [valid, kept, f.ints(*[-1] * most)], (most,), I32)
    numbers = [f.model.const(np.array(v, t)) for v, t in ((n, I32), (1, F32), (0, F32))]
    rows = f.raw("ONE_HOT", [kept, *numbers], (most, n), axis=-1)
    f.give(op.outputs[0], f.op("REDUCE_MAX", [rows, f.ints(0)], op.outputs[0], False, keep_dims=False))


def memory(f: Flat, op: Op) -> None:
    x, _, time, _ = op.inputs
    state = f.model.variable((f.shapes[x][0], f.shapes[time][0] * f.shapes[time][1]))
    inputs = [f.read(name) for name in op.inputs] + [state]
    f.give(op.outputs[0], f.op("SVDF", inputs, op.outputs[0], False, rank=op.attrs["rank"]))


def floor_div(f: Flat, op: Op) -> None:
    x, out = op.inputs[0], op.outputs[0]
    shape = f.shapes[x]
    held = f.raw("MINIMUM", [f.raw("MAXIMUM", [f.read(x), f.number(-MOST)], shape), f.number(MOST)], shape)
    v = f.raw("CAST", [f.raw("ROUND", [held], shape)], shape, I32, in_data_type="FLOAT32", out_data_type="INT32")
    v = f.raw("FLOOR_DIV", [v, f.model.const(np.array(op.attrs["by"], I32))], shape, I32)
    f.give(out, f.op("CAST", [v], out, False, in_data_type="INT32", out_data_type="FLOAT32"))


def bucketize(f: Flat, op: Op) -> None:
    shape, limits = f.shapes[op.inputs[0]], list(op.attrs["boundaries"])
    v = f.raw("BUCKETIZE", [f.raw("ROUND", [f.read(op.inputs[0])], shape)], shape, I32, boundaries=limits)
    out = op.outputs[0]
    f.give(out, f.op("CAST", [v], out, False, in_data_type="INT32", out_data_type="FLOAT32"))


def fake_quant(f: Flat, op: Op) -> None:
    options = {"min": -MOST, "max": MOST - 1 / 4, "num_bits": 6}
    f.give(op.outputs[0], f.op("FAKE_QUANT", [f.read(op.inputs[0])], op.outputs[0], False, **options))


def spectrum(f: Flat, op: Op) -> None:
    shape, out = f.shapes[op.inputs[0]], op.outputs[0]
    y = f.raw("RFFT2D", [f.read(op.inputs[0]), f.ints(*shape[-2:])], f.shapes[out], np.complex64)
    f.give(out, f.op(PARTS[op.attrs["part"]], [y], out, False))


PARTS = {"ABS": "COMPLEX_ABS", "REAL": "REAL", "IMAG": "IMAG"}


def add_rows(f: Flat, op: Op) -> None:
    """The sum of two numbers is a graph of its own: the network's is the last one until all is written."""
    x, u = op.inputs
    m, rank = f.model, f.rank(x)
    m.graph()
    m.now["outputs"] = m.op("STABLEHLO_ADD", [m.input(()), m.input(())], [()])
    m.graphs.append(m.graphs.pop(-2))
    body = len(m.graphs) - 1
    places = m.const(np.array(op.attrs["places"], np.int32)[:, None])
    y = f.op("STABLEHLO_SCATTER", [f.read(x), places, f.read(u)], op.outputs[0], False,
             update_window_dims=list(range(1, rank)), inserted_window_dims=[0], scatter_dims_to_operand_dims=[0],
             index_vector_dim=1, update_computation_subgraph_index=body)  # fmt: skip
    f.give(op.outputs[0], y)


KINDS: dict[str, Callable[[Flat, Op], None]] = {
    "take_each": take_each, "window": window, "update": update, "diagonal": diagonal, "with_diagonal": diagonal,
    "marks": marks, "memory": memory, "floor_div": floor_div, "add_rows": add_rows,
    "bucketize": bucketize, "fake_quant": fake_quant, "spectrum": spectrum,
}  # fmt: skip
