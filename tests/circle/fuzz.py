"""Damaged .tflite and .circle files, one after the other; see tests/fuzzing.py.

    python -m tests.circle.fuzz FIRST COUNT

Input n is a seed file, damaged as random numbers from n say.
"""

import random
from contextlib import suppress
from functools import cache
from importlib import import_module
from struct import pack_into, unpack_from
from types import ModuleType

import numpy as np

from fastgraph.frontends.circle import MAGIC, read
from fastgraph.frontends.circle.wire import Wire
from tests import fuzzing
from tests.circle.circle_models import SHARED
from tests.circle.write import Model
from tests.compositions.draw import draw
from tests.compositions.forms import Declined, flat, of_volumes
from tests.damage import NUMBERS, REALS, mangled

BIGGEST_SEED = 64 << 10
BIGGEST_COMPOSED = 16 << 10
SIZES = {"?": 1, "b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "Q": 8, "f": 4, "d": 8}
"""Bytes of numbers, by their letter in the schemas' tables."""
INDICES = frozenset("inputs outputs buffer opcode_index subgraph intermediates builtin_code version".split())


def own_seeds() -> list[bytes]:
    """Files with what the folders of models lack: sub-graphs, variables, text, sparse and packed constants."""
    found = []
    for schema in ("tflite", "circle"):
        m = Model(schema)
        x = m.input((1, 4), name="x")
        w = m.const(np.arange(8, dtype=np.int8).reshape(2, 4), ([0.1, 0.2], [0, 0], 0), name="w")
        (y,) = m.op("FULLY_CONNECTED", [x, w, None], [(1, 2)], keep_num_dims=False)
        (y,) = m.op("CALL", [y], [(1, 2)], subgraph=1)
        m.now["outputs"] = m.op("RESHAPE", [y, m.const(np.int32([2, 1]))], [(2, 1)], new_shape=[2, 1])
        m.graph()
        a, v = m.input((1, 2)), m.variable((1, 2))
        (b,) = m.op("ADD", [a, v], [(1, 2)], fused_activation_function="RELU6")
        m.op("MUL", [b, b], [v])
        found.append(m.bytes([b]))
        m = Model(schema)
        rows = ("Int32Vector", {"values": [0, 1, 2]})
        csr = {"format": "SPARSE_CSR", "array_segments": rows, "array_indices": ("Uint8Vector", {"values": [1, 3]})}
        sparsity = {"traversal_order": [0, 1], "dim_metadata": [{"format": "DENSE", "dense_size": 2}, csr]}
        m.buffers.append({"data": np.frombuffer(np.float32([1, 2]).tobytes(), np.uint8)})
        s = m.tensor((2, 4), buffer=1, sparsity=sparsity)
        m.buffers.append({"data": np.uint8([0x21, 0x43])})
        p = m.tensor((1, 4), np.int8, (0.5, 0), buffer=2)
        m.now["tensors"][p]["type"] = "INT4"
        (d,) = m.op("DEQUANTIZE", [p], [(1, 4)])
        (y,) = m.op("ADD", [m.input((2, 4)), s], [(2, 4)])
        (y,) = m.op("CONCATENATION", [y, d], [(3, 4)], axis=0)
        found.append(m.bytes([y, m.const(np.array(["a", "bc"], object))]))
    return found


def composed(wanted: int = 40) -> list[bytes]:
    """Small networks of ordinary blocks, in f32 and in bytes."""
    found, seed = [], 0
    while len(found) < wanted:
        schema, numbers = ("tflite", "circle")[seed % 2], ("f32", "int8", "dynamic")[seed % 3]
        net = draw(seed)
        seed += 1
        if of_volumes(net):
            continue
        with suppress(Declined):
            source = flat(schema, numbers)(net).source
            found += [source] if len(source) <= BIGGEST_COMPOSED else []
    return found


@cache
def seeds() -> list[bytes]:
    """Our own files first, then the small ones of the folders of models, which may be absent."""
    paths = sorted(p for pattern in ("*/*.tflite", "*/*.circle") for p in SHARED.glob(pattern))
    files = own_seeds() + composed() + [p.read_bytes() for p in paths if p.stat().st_size <= BIGGEST_SEED]
    return [data for data in files if fuzzing.readable(read, data)]


def damaged(place: int) -> bytes:
    """Input `place`."""
    rng, sources = random.Random(place), seeds()
    source = rng.choice(sources)
    data = bytearray(source)
    name = data[4:8]
    if rng.random() < 0.75:  # sound as a FlatBuffer, another model
        places = numbers(source)
        if rng.random() < 0.7:
            data[:] = opened(source)
            places = numbers(bytes(data))
        for at, code in rng.sample(places, min(len(places), rng.choice((1, 1, 2, 4)))):
            pack_into("<" + code, data, at, value(rng, code))
        if rng.random() < 0.3:
            for at, code, most in rng.sample(wires(source), min(len(wires(source)), rng.choice((1, 1, 2)))):
                pack_into("<" + code, data, at, max(rng.randrange(-1, most), -(code == "i")))
        return bytes(data)
    if rng.random() < 0.3:
        data = bytearray(mangled(source, rng))
    else:
        for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
            rng.choices((other, word, half, retarget), (12, 2, 1, 3))[0](rng, data)
    if rng.random() < 0.95:
        data[4:8] = name
    return bytes(data)


@cache
def opened(source: bytes) -> bytes:
    """The same model without the shapes of what its operators make, which would contradict all others."""
    data = bytearray(source)
    for graph in Wire(source, "", schema_of(source)).root("Model").subgraphs:
        for operator in graph.operators:
            for tensor in (graph.tensors[i] for i in operator.outputs if i >= 0):
                start, count = tensor._extent("shape", 4)
                if count:
                    pack_into("<I", data, start - 4, 0)
    return bytes(data)


def schema_of(source: bytes) -> ModuleType:
    return import_module(f"fastgraph.schemas.{MAGIC[source[4:8]]}")


@cache
def numbers(source: bytes) -> list[tuple[int, str]]:
    """Where the numbers of a sound file are, and of which kind: fields, and the first elements of short vectors."""
    schema = schema_of(source)
    found: list[tuple[int, str]] = []
    waiting = [Wire(source, "", schema).root("Model")]
    while waiting:
        table = waiting.pop()
        for field, (place, kind, _) in table.fields.items():
            at = table._place(place, field, 1)
            if not at:
                continue
            if kind[0] in "|:":
                waiting.append(getattr(table, field))
            elif kind[:2] == "[:":
                waiting += list(getattr(table, field))
            elif kind == "[B":  # axes, paddings and the like: constants of few int32
                start, count = table._extent(field, 1)
                found += [(start + at, "i") for at in range(0, count - 3, 4) if count <= 64] * 2
            elif kind[0] == "[" and kind[1] in SIZES and field not in INDICES:
                start, count = table._extent(field, SIZES[kind[1]])
                found += [(start + i * SIZES[kind[1]], kind[1]) for i in range(min(count, 6))]
            elif field in INDICES:
                continue  # the damage that knows no fields does enough of it
            elif kind[0] == "=" or kind[0] in SIZES:
                found.append((at, schema.ENUMS[kind[1:]][0] if kind[0] == "=" else kind))
    return found


@cache
def wires(source: bytes) -> list[tuple[int, str, int]]:
    """Where a sound file says which tensor, buffer or operator is meant, of which kind and how many there are."""
    model = Wire(source, "", schema_of(source)).root("Model")
    found: list[tuple[int, str, int]] = []
    for graph in model.subgraphs:
        lists = [(graph, field) for field in ("inputs", "outputs")]
        lists += [(operator, field) for operator in graph.operators for field in ("inputs", "outputs")]
        for table, field in lists:
            start, count = table._extent(field, 4)
            found += [(start + 4 * i, "i", len(graph.tensors)) for i in range(count)]
        codes, buffers = len(model.operator_codes), len(model.buffers)
        for tables, field, most in ((graph.operators, "opcode_index", codes), (graph.tensors, "buffer", buffers)):
            for table in tables:
                at = table._place(table.fields[field][0], field, 4)
                found += [(at, "I", most)] if at else []
    return found


def value(rng: random.Random, code: str) -> int | float:
    """A number that a field of that kind can hold, and more often than not one that some file may hold."""
    if code in "fd":
        return rng.choice(REALS)
    if code == "?":
        return rng.randrange(2)
    signed = code in "bhiq"
    bits = 8 * SIZES[code] - signed
    number = rng.getrandbits(bits) if rng.random() < 0.1 else rng.choice(NUMBERS)
    return max(-(signed << bits), min(number, (1 << bits) - 1))


def word(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(0, len(data) - 3, 4)
    value = rng.choice((*NUMBERS, len(data) - at, len(data), rng.getrandbits(32), rng.randrange(len(data))))
    pack_into("<I", data, at, value % (1 << 32))


def other(rng: random.Random, data: bytearray) -> None:
    """A word that is no offset becomes another number of the kind that sizes, indices and enums are."""
    words = np.frombuffer(bytes(data), "<i4", len(data) // 4)
    places = np.flatnonzero((words > -256) & (words < 4)) * 4
    at = rng.choice(places[places >= 8].tolist() or [8])
    pack_into("<i", data, at, value(rng, "i"))


def half(rng: random.Random, data: bytearray) -> None:
    pack_into("<H", data, rng.randrange(0, len(data) - 1, 2), rng.choice((0, 2, 4, 5, 6, 8, 12, 40, 65535)))


def retarget(rng: random.Random, data: bytearray) -> None:
    """One offset leads where another one leads: offsets may be all words that point ahead into the file."""
    words = np.frombuffer(bytes(data), "<u4", len(data) // 4)
    places = np.arange(len(words)) * 4
    places = places[(words >= 4) & (words < len(data) - places)].tolist()
    if len(places) > 1:
        at, other = sorted(rng.sample(places, 2))
        target = other + unpack_from("<I", data, other)[0]
        pack_into("<I", data, at, target - at)


if __name__ == "__main__":
    fuzzing.main(read, damaged)
