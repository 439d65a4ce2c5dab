"""Operators on every element type that LiteRT's kernels take: what it computes is read here, and gives the same."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.errors import ModelError
from fastgraph.frontends.circle import read
from fastgraph.ir import check
from fastgraph.kernels.isa import tiers
from fastgraph.ops.evaluate import evaluate
from fastgraph.passes.dynamic import cut_dynamic
from fastgraph.passes.specialize import specialize
from fastgraph.passes.stages import optimize
from fastgraph.plan.lower import Matches
from tests.circle import write
from tests.circle.write import TYPES, Const, Fed, Model, at, build, litert, ours, vec
from tests.tables import entries

pytest.importorskip("ai_edge_litert.interpreter")

TIERS = [tier.name for tier in tiers.usable() if tier.name != "generic"][:: max(len(tiers.usable()) - 2, 1)]
"""The narrowest that is quick to compile, and the widest."""
RNG = np.random.default_rng(11)
FLOATS = ("float32", "float16", "float64")
WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
EVERY = (*FLOATS, *WHOLE, "bool", "complex64", "complex128")
QUANT: dict[str, Any] = {"int8": (0.05, -3), "uint8": (0.05, 120), "int16": (0.002, 0)}
PROBABILITY = {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)}
SIGNED_UNIT = {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)}
IDS = {"int32": np.int32, "int64": np.int64}


def some(dtype: str, *shape: int, low: int = 0, high: int = 6) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind == "c":
        return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(kind)
    return (RNG.standard_normal(shape) if kind.kind == "f" else RNG.integers(low, high, shape)).astype(kind)


def as_planned(data: bytes, feeds: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs by the references of what the passes make of the graph."""
    graph = read(data)
    names = [v.name for v in graph.inputs]
    specialize(graph, {})
    check(graph)
    tail, wanted = cut_dynamic(graph), list(graph.outputs)
    optimize(graph, Matches())
    ready = dict(zip(wanted, evaluate(graph, dict(zip(names, feeds, strict=True))), strict=True))
    if tail is None:
        return list(ready.values())
    ready.update(zip(tail.outputs, evaluate(tail, {v.name: ready[v] for v in tail.inputs}), strict=True))
    return [v.data if v.data is not None else ready[v] for v in tail.outputs]


def close(found: Any, wanted: np.ndarray, steps: int) -> None:
    found = np.asarray(found)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind in "fc":
        size = 1e-3 if wanted.dtype.itemsize == 2 else 1e-5
        np.testing.assert_allclose(found, wanted, rtol=size, atol=size)
    elif steps:
        assert np.abs(found.astype(np.int64) - wanted.astype(np.int64)).max(initial=0) <= steps
    else:
        np.testing.assert_array_equal(found, wanted)


def agrees(op: str, inputs: list[Const | None], outputs: list[Any], version: int = 1, **options: Any) -> bool:
    """Whether LiteRT takes it; what it gives is then what we give, on quantized values within a step."""
    data, feeds = build(op, inputs, outputs, version, options)
    try:
        (expected,) = litert(data, [feeds])
    except (RuntimeError, ValueError):
        return False
    # LiteRT's own resize of integers rounds its weights to 10 bits.
    steps = int(op == "RESIZE_BILINEAR" or any(x is not None and x.quant is not None for x in inputs))
    for found in (ours(data, [feeds])[0], as_planned(data, feeds)):
        for mine, wanted in zip(found, expected, strict=True):
            close(mine, wanted, steps)
    return True


def kinds(*dtypes: str, plain: bool = True) -> Iterator[tuple[str, Any]]:
    """Element types with what they stand for: plain numbers, and where they may be quantized that too."""
    for dtype in dtypes:
        if plain:
            yield dtype, None
        if dtype in QUANT:
            yield dtype, QUANT[dtype]


MOVED = """
RESHAPE | a, vec(4, 6) | (4, 6) | new_shape=[4, 6]
TRANSPOSE | a, vec(2, 0, 1) | (4, 2, 3)
PACK | a, a | (2, 2, 3, 4) | values_count=2, axis=1
UNPACK | a, | *[(2, 4)] * 3 | num=3, axis=1
GATHER | a, vec(1, 0, 2) | (2, 3, 4) | axis=1
SQUEEZE | some(2, 1, 3), | (2, 3) | squeeze_dims=[1]
REVERSE_V2 | a, vec(1) | (2, 3, 4)
SLICE | a, vec(0, 1, 1), vec(2, -1, 2) | (2, 2, 2)
TILE | a, vec(1, 2, 1) | (2, 6, 4)
SPACE_TO_DEPTH | image, | (2, 2, 2, 16) | block_size=2
DEPTH_TO_SPACE | image, | (2, 8, 8, 1) | block_size=2
EXPAND_DIMS | a, at(1) | (2, 1, 3, 4)
"""
"""Operator, inputs, shapes of outputs, options; of any element type."""
MOVED_WITH = """
SLICE | a, vec(0, 1, 1, dtype=ids), vec(2, -1, 2, dtype=ids) | (2, 2, 2)
PAD | a, pads | (3, 4, 8)
PADV2 | a, pads, held() | (3, 4, 8)
MIRROR_PAD | a, pads | (3, 4, 8) | mode='REFLECT'
GATHER_ND | a, Fed(np.array([[0, 1], [1, 2]], ids)) | (2, 4)
TILE | a, vec(1, 2, 1, dtype=ids) | (2, 6, 4)
BROADCAST_TO | a, vec(2, 2, 3, 4, dtype=ids) | (2, 2, 3, 4)
FILL | vec(2, 3, dtype=ids), some() | (2, 3)
REVERSE_SEQUENCE | a, vec(1, 3, dtype=ids) | (2, 3, 4) | seq_dim=1, batch_dim=0
SCATTER_ND | Fed(np.array([[0], [2], [0]], ids)), some(3, 4), vec(4, 4, dtype=ids) | (4, 4)
SPARSE_TO_DENSE | Const(np.array([[0, 1], [1, 2]], ids)), vec(3, 4, dtype=ids), held(2), held() | (3, 4)
ONE_HOT | Fed(np.array([0, 2, 1], ids)), at(4), held(), held() | (3, 4) | axis=-1
DYNAMIC_UPDATE_SLICE | a, some(1, 2, 2), Fed(np.array([1, 0, 1], ids)) | (2, 3, 4)
"""
"""The same, with indices of several types."""
OF_ONE_SCALE = """
TRANSPOSE | some(2, 1, 3, 2, 2, 2), vec(2, 0, 1, 5, 4, 3) | (3, 2, 1, 2, 2, 2)
CONCATENATION | a, a | (2, 6, 4) | axis=1
SPLIT | at(2), a | *[(2, 3, 2)] * 2 | num_splits=2
SPLIT_V | a, vec(1, 3), at(2) | (2, 3, 1), (2, 3, 3) | num_splits=2
GATHER | a, Fed(np.array([1, 0, 2], np.int16)) | (2, 3, 4) | axis=1
GATHER | a, Fed(np.array([1, 0, 2], np.int32)) | (2, 3, 4) | axis=1
GATHER | a, Fed(np.array([1, 0, 2], np.int64)) | (2, 3, 4) | axis=1
STRIDED_SLICE | a, vec(0, 2, 0), vec(2, 0, 4), vec(1, -1, 2) | (2, 2, 2)
STRIDED_SLICE | some(2, 3, 2, 2, 3), vec(0, 2, 0, 0, 0), vec(2, 0, 2, 2, 3), vec(1, -1, 1, 1, 2) | (2, 2, 2, 2, 2)
STRIDED_SLICE | a, vec(0, 0, 1, 0), vec(2, 1, 2, 4), vec(1, 1, 1, 1) | (2, 1, 4) | new_axis_mask=2, shrink_axis_mask=4
SPACE_TO_BATCH_ND | image, vec(2, 2), Const(np.array([[0, 0], [2, 0]], np.int32)) | (8, 2, 3, 4)
BATCH_TO_SPACE_ND | some(4, 2, 2, 3), vec(2, 2), Const(np.array([[0, 0], [1, 0]], np.int32)) | (1, 4, 3, 3)
ZEROS_LIKE | a, | (2, 3, 4)
EMBEDDING_LOOKUP | Fed(np.array([1, 0, 1], np.int32)), held(3, 4) | (3, 4)
SELECT | truth, a, some(2, 3, 4) | (2, 3, 4)
SELECT_V2 | truth, a, some(2, 1, 4) | (2, 3, 4)
"""
DIAGONALS = """
MATRIX_DIAG | some(2, 3), | (2, 3, 3)
MATRIX_SET_DIAG | some(2, 3, 3), some(2, 3) | (2, 3, 3)
"""
COPIED = ("float32", "int8", "uint8", "int16", "int32", "int64")
"""LiteRT copies diagonals of others as if they were these."""


def told(table: str, t: str, q: Any, **names: Any) -> Iterator[tuple[Any, ...]]:
    """(op, inputs, outputs, options) of a table, whose results are all of one element type."""
    known: dict[str, Any] = vars(write) | {"np": np, "truth": Fed(some("bool", 2, 3, 4, high=2))} | names
    known["some"] = lambda *shape: Fed(some(t, *shape), names["given"])
    known["held"] = lambda *shape: Const(some(t, *shape), names["given"])
    known |= {"a": known["some"](2, 3, 4), "image": known["some"](2, 4, 4, 4)}
    for op, inputs, shapes, *options in entries(table):
        made = [(shape, t, q) for shape in eval(f"[{shapes}]")]
        yield op, list(eval(f"({inputs})", known)), made, eval(f"dict({''.join(options)})")


def moves(t: str, q: Any) -> Iterator[tuple[Any, ...]]:
    """Operators that move elements: (op, inputs, outputs, options)."""
    for again in dict.fromkeys((q, q and (q[0] * 2, q[1]))):  # a file may name another quantization of what is moved
        yield from told(MOVED, t, again, given=q)
    for ids in IDS.values():
        yield from told(MOVED_WITH, t, q, given=q, ids=ids, pads=Const(np.array([[0, 1], [1, 0], [2, 2]], ids)))
    yield from told(OF_ONE_SCALE + (DIAGONALS if t in COPIED else ""), t, q, given=q)


def questions(t: str, q: Any) -> Iterator[tuple[Any, ...]]:
    """Operators that give places and counts."""
    a, b = Fed(some(t, 2, 3, 4), q), Fed(some(t, 3, 1), q)
    for name, ids in IDS.items():
        yield "UNIQUE", [Fed(some(t, 7), q)], [((1,), t, q), ((7,), ids)], {"idx_out_type": TYPES[name]}
        for op in ("ARG_MAX", "ARG_MIN"):
            yield op, [a, at(1, ids)], [((2, 4), np.int32)], {"output_type": "INT32"}
            yield op, [a, at(1)], [((2, 4), ids)], {"output_type": TYPES[name]}
        yield "SHAPE", [a], [((3,), ids)], {"out_type": TYPES[name]}
    yield "RANK", [a], [((), np.int32)], {}
    yield "WHERE", [a], [((1, 3), np.int64)], {}
    for places, k in product((np.int16, np.int32), repeat=2):
        yield "TOPK_V2", [a, at(2, k)], [((2, 3, 2), t, q), ((2, 3, 2), places)], {}
    # Of int16 LiteRT compares something else; of plain bytes it divides by a scale of 0.
    if t != "int16" and (q is not None or t not in QUANT):
        for op in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
            yield op, [a, b], [((2, 3, 4), np.bool_)], {}


def casts(t: str, q: Any) -> Iterator[tuple[Any, ...]]:
    a = Fed(np.abs(some(t, 2, 3, 4)) if q is None and t in FLOATS else some(t, 2, 3, 4), q)
    for to in EVERY:
        if t[0] != "c" or to[0] != "u":  # LiteRT saturates negative parts
            yield "CAST", [a], [((2, 3, 4), to)], {"in_data_type": TYPES[t], "out_data_type": TYPES[to]}
        size, other = np.dtype(t).itemsize, np.dtype(to).itemsize
        if other <= size:
            shape = (2, 3, 4) if other == size else (2, 3, 4, size // other)
            yield "BITCAST", [a], [(shape, to)], {}


PLAIN_MATH = """ABS NEG SIGN SQUARE FLOOR CEIL ROUND EXP SIN COS TANH LOGISTIC ELU RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1
  HARD_SWISH GELU LEAKY_RELU SOFTMAX LOG_SOFTMAX L2_NORMALIZATION""".split()
PAIRS = (
    "ADD SUB MUL DIV MAXIMUM MINIMUM SQUARED_DIFFERENCE POW FLOOR_DIV FLOOR_MOD ATAN2 BITWISE_XOR RIGHT_SHIFT".split()
)
RANGES = {"SOFTMAX": PROBABILITY, "LOGISTIC": PROBABILITY, "TANH": SIGNED_UNIT, "L2_NORMALIZATION": SIGNED_UNIT}
RANGES["LOG_SOFTMAX"] = {"int8": (1 / 16, 127), "uint8": (1 / 16, 255), "int16": (1 / 16, 255)}
WINDOW = {"stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2, "padding": "VALID"}


def plain_bytes(t: str) -> Iterator[tuple[Any, ...]]:
    """Bytes and int16 without a scale."""
    if t == "int16":  # they wrap
        for op in ("ADD", "MUL"):
            yield op, [Fed(some(t, 2, 3, low=-9, high=32000)), Fed(some(t, 3, high=32000))], [((2, 3), t)], {}
    for op in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
        image = Fed(some(t, 1, 4, 4, 3, low=-9 if t != "uint8" else 0, high=100))
        yield op, [image], [((1, 2, 2, 3), t)], WINDOW
    yield from resizes(t, None)
    for op in ("MAXIMUM", "MINIMUM", "BITWISE_XOR", "RIGHT_SHIFT"):
        yield op, [Fed(some(t, 2, 3, 4)), Fed(some(t, 3, 1))], [((2, 3, 4), t)], {}


def arithmetic(t: str, q: Any) -> Iterator[tuple[Any, ...]]:
    """On floats, wide integers, and quantized bytes and int16: where LiteRT computes what the operator means."""
    if q is None and t in QUANT:
        yield from plain_bytes(t)
        return
    a, b = Fed(some(t, 2, 3, 4), q), Fed(some(t, 3, 1, low=1), q)
    exact = q is None or t != "int16"  # LiteRT's tables of int16 are coarse, and it ignores scales here and there
    for op in PLAIN_MATH:
        made = q if q is None else RANGES.get(op, QUANT)[t]
        # LiteRT negates what is stored
        if (exact or op not in ("EXP", "GELU")) and (q is None or op != "NEG" or not q[1]):
            yield op, [a], [((2, 3, 4), t, made)], {"SOFTMAX": {"beta": 1.5}, "LEAKY_RELU": {"alpha": 0.3}}.get(op, {})
    for op in PAIRS:
        if q is None or op not in ("FLOOR_DIV", "FLOOR_MOD"):
            yield op, [a, b], [((2, 3, 4), t, q)], {}
    yield "PRELU", [a, Const(some(t, 1, 4), q)], [((2, 3, 4), t, q)], {}
    yield "ADD_N", [a, a], [((2, 3, 4), t, q)], {}
    yield "CUMSUM", [a, at(1)], [((2, 3, 4), t, q)], {"exclusive": True}
    for op in ("SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        if exact or op != "SUM":
            yield op, [a, vec(1, 2)], [((2,), t, q)], {}
            yield op, [a, vec(-1)], [((2, 3, 1), t, q)], {"keep_dims": True}
    for op in ("MAX", "MIN", "SUM", "PROD"):
        yield f"UNSORTED_SEGMENT_{op}", [a, Fed(np.int32([1, 1])), at(3)], [((3, 3, 4), t, q)], {}
    for op in ("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D"):
        yield op, [Fed(some(t, 2, 4, 4, 3), q)], [((2, 2, 2, 3), t, q)], WINDOW
    yield from resizes(t, q)


def resizes(t: str, q: Any) -> Iterator[tuple[Any, ...]]:
    image = Fed(some(t, 2, 4, 4, 3, high=100), q)
    for half in (False, True):
        for op in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
            yield op, [image, vec(7, 3)], [((2, 7, 3, 3), t, q)], {"half_pixel_centers": half}


def conversions(t: str, q: Any) -> Iterator[tuple[Any, ...]]:
    """Between floats and stored numbers, and from one quantization to another."""
    a, channels = Fed(some(t, 2, 3, 4), q), ([0.1, 0.2, 0.3, 0.4], [0] * 4, 2)
    if t == "float32" or q is not None:
        for to, quant in QUANT.items():
            yield "QUANTIZE", [a], [((2, 3, 4), to, quant)], {}
        if q is None:
            yield "QUANTIZE", [a], [((2, 3, 4), "int8", channels)], {}
    if q is not None or t == "float16":
        yield "DEQUANTIZE", [a], [((2, 3, 4), "float32")], {}
    if q is not None:
        for of in (Fed, Const):
            yield "DEQUANTIZE", [of(a.array, channels)], [((2, 3, 4), "float32")], {}
        rows = [Fed(np.array([1, 0, 1], np.int32)), Const(some("int8", 3, 4), (0.1, 0))]
        yield "EMBEDDING_LOOKUP", rows, [((3, 4), "float32")], {}
    if q is not None and t != "int16":
        yield "SOFTMAX", [a], [((2, 3, 4), "int16", (1 / 65536, -32768))], {"beta": 1.0}
        yield "SOFTMAX", [a], [((2, 3, 4), "int16", (1 / 65536, -32768))], {"beta": 0.7}


FAMILIES = {moves: (EVERY, 650), questions: (EVERY, 200), casts: (EVERY, 290), arithmetic: ((*FLOATS, *WHOLE), 250)}
FAMILIES[conversions] = (("float32", "float16", *QUANT), 24)


def all_agree(cases: Iterator[tuple[Any, ...]], least: int) -> None:
    """Everything that LiteRT takes is taken, and gives the same; `least` of the combinations are such."""
    taken, wrong = 0, []
    for op, inputs, outputs, options in cases:
        try:
            taken += agrees(op, inputs, outputs, **options)
        except (AssertionError, fg.FastgraphError) as error:
            wrong.append(f"{op} -> {outputs}: {' '.join(str(error).split())[:300]}")
    assert not wrong, "\n".join(wrong)
    assert taken >= least


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_element_types(family: Any) -> None:
    dtypes, least = FAMILIES[family]
    all_agree((case for t, q in kinds(*dtypes) for case in family(t, q)), least)


@pytest.mark.slow
@pytest.mark.parametrize("t", ["float32", "int8"])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_kernels_give_what_the_references_give(family: Any, t: str) -> None:
    for op, inputs, outputs, options in family(t, QUANT.get(t)):
        data, feeds = build(op, inputs, outputs, 1, options)
        if op in ("BITWISE_XOR", "RIGHT_SHIFT") and t == "float32":
            continue
        model = fg.load(data, threads=1)
        found = model.run(dict(zip((spec.name for spec in model.inputs), feeds, strict=True))).values()
        for mine, wanted in zip(found, ours(data, [feeds])[0], strict=True):
            close(mine, wanted, int(t == "int8"))


PICK = ("MAXIMUM", "MINIMUM", "MAX_POOL_2D", "RESIZE_NEAREST_NEIGHBOR")
"""Of arithmetic, operators that give elements of their operands."""


def unlike(t: str) -> Iterator[tuple[Any, ...]]:
    """Operators that give elements of quantized operands, where the file names no quantization of their results; then
    of plain ones, with a quantized result.
    """
    found = [*moves(t, QUANT[t]), *questions(t, QUANT[t]), *(f for f in arithmetic(t, QUANT[t]) if f[0] in PICK)]
    for op, inputs, outputs, options in found:
        if any(len(out) > 2 for out in outputs) and (op != "CONCATENATION" or t == "int16"):
            yield op, inputs, [out[:2] for out in outputs], options
            yield op, [None if x is None else type(x)(x.array, None, **x.fields) for x in inputs], outputs, options


@pytest.mark.parametrize("t", QUANT)
def test_results_keep_stored_numbers_that_have_no_scale(t: str) -> None:
    all_agree(unlike(t), 65)


@pytest.mark.parametrize("schema", ["tflite", "circle"])
@pytest.mark.parametrize("kinds", [(QUANT["uint8"], None), (None, QUANT["uint8"])], ids=["plain result", "plain input"])
def test_unique_bytes(schema: str, kinds: Any) -> None:
    m, x = Model(schema), np.array([3, 3, 250, 7, 250, 0], np.uint8)
    given = m.input(x.shape, np.uint8, kinds[0])
    ends = m.op("UNIQUE", [given], [((6,), np.uint8, kinds[1]), ((6,), np.int32)], idx_out_type="INT32")
    model = fg.load(m.bytes(ends), threads=1)
    values, places = model.run({model.inputs[0].name: x}).values()
    assert (values.dtype, values.tolist(), places.tolist()) == (np.uint8, [3, 250, 7, 0], [0, 0, 1, 2, 1, 3])


# -- layers

IN = {"float32": None, "int8": (0.05, -3), "int16": (0.002, 0)}
CHANNELS = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06]


def layer(op: str, t: str, scales: Any, bias: str | None, bits: str = "") -> tuple[str, list[Any], list[Any], Any]:
    """A layer of six channels, with int8 (or 4-bit) weights of these scales."""
    q, n = IN[t], 6
    shape = {"FULLY_CONNECTED": (n, 4), "DEPTHWISE_CONV_2D": (1, 2, 2, n)}.get(op, (n, 2, 2, 3))
    axis = 3 if op == "DEPTHWISE_CONV_2D" else 0
    wide = np.ndim(scales) > 0
    low, high = (-8, 8) if bits else (-99, 99)
    stored = some("int8", *shape, low=low, high=high)
    fields: dict[str, Any] = {}
    if bits:
        fields, pairs = {"type": "INT4", "shape": list(shape)}, stored.reshape(-1, 2).astype(np.uint8) & 15
    held = stored if not bits else (pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8)
    w = Const(held, (scales, [0] * n, axis) if wide else (scales, 0), **fields)
    b = None
    if bias is not None:
        units = None if q is None else [q[0] * s for s in scales] if wide else q[0] * scales
        b = Const(some(bias, n, low=-500, high=500), None if q is None else (units, [0] * n, 0) if wide else (units, 0))
    if op == "FULLY_CONNECTED":
        return op, [Fed(some(t, 5, 4), q), w, b], [((5, n), t, q)], {}
    x = Fed(some(t, 1, 4, 4, 3), q)
    step = {"stride_w": 1, "stride_h": 1, "padding": "VALID"}
    if op == "TRANSPOSE_CONV":
        return op, [vec(1, 5, 5, n), w, x, *([] if b is None else [b])], [((1, 5, 5, n), t, q)], step
    depth = {"depth_multiplier": 2} if op == "DEPTHWISE_CONV_2D" else {}
    return op, [x, w, b], [((1, 3, 3, n), t, q)], step | depth


LAYERS = ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
DEAD = {"one": [0.01, 0.0, *CHANNELS[2:]], "all": [0.0] * 6, "alive": CHANNELS, "the only": 0.0, "tensor": 0.02}


def layers() -> Iterator[Any]:
    for op in LAYERS:
        for t, bias in (("float32", "float32"), ("int8", "int32"), ("int16", "int64")):
            for dead, scales in DEAD.items():
                for given in (None, bias):
                    # LiteRT reads a bias that is not there, and past a depthwise layer's only scale.
                    bare = given is None and op in ("CONV_2D", "DEPTHWISE_CONV_2D")
                    lost = np.ndim(scales) == 0 and op == "DEPTHWISE_CONV_2D" and t == "float32"
                    # Of a transposed convolution of floats we keep the activations' digits.
                    finer = op == "TRANSPOSE_CONV" and t == "float32" and dead not in ("all", "the only")
                    if not (bare or lost or finer):
                        yield pytest.param(op, t, scales, given, id=f"{op}-{t}-{dead}-{given}")


@pytest.mark.parametrize("op, t, scales, bias", list(layers()))
def test_layers_with_dead_channels(op: str, t: str, scales: Any, bias: str | None) -> None:
    """A channel whose weights have a scale of 0 is its bias; of integers, whose unit is 0 too, 0.0."""
    kind, inputs, outputs, options = layer(op, t, scales, bias)
    assert agrees(kind, inputs, outputs, 3 if op == "TRANSPOSE_CONV" and bias else 1, **options)


BELOW: dict[str, Any] = {"some": [0.01, -0.02, 0.0, -0.04, 0.05, -0.06], "all": [-0.01] * 6, "tensor": -0.02}


@pytest.mark.parametrize("least", [-127, -128], ids=["negated", "complemented"])
@pytest.mark.parametrize("scales", BELOW)
@pytest.mark.parametrize("t, bias", [("float32", "float32"), ("int8", "int32"), ("int16", "int64")])
@pytest.mark.parametrize("op", LAYERS)
def test_weights_with_scales_below_zero(op: str, t: str, bias: str, scales: str, least: int) -> None:
    """LiteRT takes them but for a dense layer's only one, and computes what the negated numbers give."""
    kind, inputs, outputs, options = layer(op, t, BELOW[scales], bias)
    w, activation = inputs[1], "RELU" if op != "TRANSPOSE_CONV" else "NONE"
    w.array.reshape(-1)[::7] = least
    options = {**options, "fused_activation_function": activation}
    version = 3 if op == "TRANSPOSE_CONV" else 1
    data, feeds = build(kind, inputs, outputs, version, options)
    # Past a depthwise layer's only scale LiteRT reads what lies there; of transposed floats we keep the digits.
    alone = scales == "tensor" and (t == "float32" or op == "FULLY_CONNECTED")
    if not alone and (op, t) != ("TRANSPOSE_CONV", "float32"):
        assert agrees(kind, inputs, outputs, version, **options)
    (wanted,) = ours(data, [feeds])[0]
    for tier in TIERS:
        found = fg.load(data, threads=2, isa=tier)(*feeds)  # type: ignore[arg-type]
        if t == "float32":
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
        else:
            close(found, wanted, 1)


@pytest.mark.parametrize("t", ["int8", "float32"])
def test_a_fed_bias_beside_scales_below_zero(t: str) -> None:
    kind, (x, w, b), outputs, options = layer("FULLY_CONNECTED", t, BELOW["some"], "int32" if t == "int8" else t)
    data, feeds = build(kind, [x, w, Fed(b.array, b.quant and (0.1, 0))], outputs, 1, options)
    constant, (only,) = build(kind, [x, w, b], outputs, 1, options)
    close(fg.load(data, threads=1)(*feeds), fg.load(constant, threads=1)(only), 1)


@pytest.mark.parametrize("scales", [[0.01, np.nan, 0.02, 0.02, 0.02, 0.02], [np.inf] * 6, -np.inf, np.nan], ids=str)
def test_scales_that_are_no_numbers(scales: Any) -> None:
    kind, inputs, outputs, options = layer("CONV_2D", "int8", scales, None)
    with pytest.raises(ModelError, match=r"tensor 1 .*expected finite scales, found \["):
        read(build(kind, inputs, outputs, 1, options)[0])


@pytest.mark.parametrize("scale", [-0.05, np.nan, np.inf])
def test_activations_have_scales_above_zero(scale: float) -> None:
    x = Fed(some("int8", 2, 3), (scale, 0))
    with pytest.raises(ModelError, match=r"tensor 0 .*expected finite scales above 0, found \["):
        read(build("NEG", [x], [((2, 3), "int8", (0.05, 0))], 1, {})[0])


@pytest.mark.parametrize("op", ["ADD", "DEQUANTIZE", "CONCATENATION"])
@pytest.mark.parametrize("t, zero", [("int8", 4), ("uint8", 130)])
def test_other_constants_with_scales_below_zero(op: str, t: str, zero: int) -> None:
    held = Const(np.array([[-128, -5, 127]] if t == "int8" else [[0, 130, 255]], t), (-0.02, zero))
    x = Fed(some(t, 1, 3), (0.05, zero))
    inputs = {"DEQUANTIZE": [held]}.get(op, [x, held])
    out = {"DEQUANTIZE": ((1, 3), "float32"), "CONCATENATION": ((2, 3), t, (0.05, zero))}.get(op, ((1, 3), t, x.quant))
    data, feeds = build(op, inputs, [out], 1, {"axis": 0} if op == "CONCATENATION" else {})
    reals = -0.02 * (held.array.astype(float) - zero)
    given = [] if op == "DEQUANTIZE" else 0.05 * (x.array.astype(float) - zero)
    wanted = {
        "ADD": given + reals if op == "ADD" else 0,
        "CONCATENATION": np.vstack([given, reals]) if op[0] == "C" else 0,
    }
    found = fg.load(data, threads=1)(*feeds)
    if op == "DEQUANTIZE":
        np.testing.assert_allclose(found, reals, rtol=1e-6)
    else:
        limits = np.iinfo(t)
        close(found, np.clip(np.rint(wanted[op] / 0.05) + zero, limits.min, limits.max).astype(t), 1)


@pytest.mark.parametrize("op, t", [*((op, "int8") for op in LAYERS[:3]), *((op, "float32") for op in LAYERS[:2])])
def test_layers_of_four_bits(op: str, t: str) -> None:
    bias = None if op == "FULLY_CONNECTED" else "float32" if t == "float32" else "int32"
    kind, inputs, outputs, options = layer(op, t, CHANNELS, bias, "INT4")
    assert agrees(kind, inputs, outputs, **options)


BATCHED = """
float32 | None | float32 | None
float32 | None | int8 | (0.05, 0)
int8 | (0.05, -3) | int8 | (0.04, 0)
int8 | (0.05, -3) | int8 | (0.04, 2)
int16 | (0.002, 0) | int16 | (0.003, 0)
"""


@pytest.mark.parametrize("x, x_quant, y, y_quant", entries(BATCHED))
@pytest.mark.parametrize("of", [Fed, Const])
def test_batched_products(x: str, x_quant: str, y: str, y_quant: str, of: Any) -> None:
    """Of what the first operand is the result is, too."""
    a = Fed(some(x, 2, 3, 4, low=-9, high=9), eval(x_quant))
    b = of(some(y, 2, 4, 5, low=-9, high=9), eval(y_quant))
    assert agrees("BATCH_MATMUL", [a, b], [((2, 3, 5), x, a.quant)])


@pytest.mark.parametrize("t", ["float32", "int32"])
def test_nothing_at_all(t: str) -> None:
    """Tensors without elements."""
    z, a = Fed(some(t, 0, 4)), Fed(some(t, 3, 4))
    for case in (
        ("ABS", [z], (0, 4), {}),
        ("ADD", [z, Fed(some(t, 4))], (0, 4), {}),
        ("SUM", [z, vec(0)], (4,), {}),
        ("CONCATENATION", [z, a], (3, 4), {"axis": 0}),
        ("RESHAPE", [z, vec(0, 2, 2)], (0, 2, 2), {"new_shape": [0, 2, 2]}),
        ("SLICE", [a, vec(1, 0), vec(0, 4)], (0, 4), {}),
        ("TRANSPOSE", [z, vec(1, 0)], (4, 0), {}),
        ("PAD", [z, Const(np.int32([[1, 1], [0, 0]]))], (2, 4), {}),
        ("TILE", [a, vec(0, 1)], (0, 4), {}),
        ("BATCH_MATMUL", [Fed(some(t, 2, 3, 0)), Fed(some(t, 2, 0, 4))], (2, 3, 4), {}),
        ("GATHER", [a, Fed(np.zeros(0, np.int32))], (0, 4), {"axis": 0}),
    ):
        op, inputs, shape, options = case
        agrees(op, inputs, [(shape, t)], **options)
    assert agrees("ARG_MAX", [z, at(1)], [((0,), np.int32)], output_type="INT32")


def test_a_scale_of_0_is_for_weights() -> None:
    m = Model()
    x = m.input((1, 2), np.int8, ([0.1, 0.0], [0, 0], 1))
    with pytest.raises(ModelError, match="scales above 0"):
        read(m.bytes(m.op("RELU", [x], [((1, 2), np.int8, (0.1, 0))])))
