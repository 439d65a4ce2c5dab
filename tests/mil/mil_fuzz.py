"""Damaged Core ML packages, one after the other; see tests/fuzzing.py.

    python -m tests.mil.mil_fuzz FIRST COUNT

Input n is the zip archive of a seed package, damaged as random numbers from n say: fields of its messages, the bytes
of its files, the archive. Seeds that are a bare model file are damaged likewise.
"""

from __future__ import annotations

import io
import random
import zipfile
from functools import cache
from pathlib import Path
from struct import pack_into
from typing import Any

import numpy as np

from fastgraph.frontends import read
from fastgraph.frontends.mil.wire import message
from tests import fuzzing
from tests.mil.mil_models import archived_files
from tests.mil.mil_write import MODEL, WEIGHTS, Program, list_value, value, zipped

SHARED = Path(__file__).parents[3] / "shared" / "models" / "mil"
BIGGEST_SEED = 64 << 10
NUMBERS = (-1, -2, -3, -100, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 32, 64, 100, 200, 1000, 4096, 65535, 1 << 20,
           1 << 30, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 63) - 1)  # fmt: skip
REALS = (0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, float("nan"), float("inf"))
TEXTS = ("", "x", "y", "main", "\0", "../../x", "@model_path/../weights/weight.bin", "@model_path/weights/other.bin",
         "/etc/passwd", "a" * 300, "fp16", "int32", "CoreML5", "CoreML8", "const", "name")  # fmt: skip


def own_seeds() -> list[dict[str, bytes]]:
    """Packages with what the folder of models lacks: states in blocks, functions, images, labels, packed constants."""
    found = []
    p = Program("CoreML8", 9)
    x, s = p.input("x", (4,), "FLOAT16"), p.state("s", (4,))
    p.op("reduce_sum", "total", x=x, axes=np.int32([0]), keep_dims=np.bool_(False), types=("FLOAT16", ()))
    p.op("greater", "big", x="total", y=np.float16(0), types=("BOOL", ()))

    def add() -> str:
        p.op("read_state", "r", input=s)
        p.op("add", "a", x="r", y=x)
        p.op("write_state", [], input=s, data="a")
        return "a"

    def keep() -> str:
        return p.op("mul", "n", x=x, y=np.float16(-1))

    p.op("cond", ["c"], pred="big", types=[("FLOAT16", (4,))], blocks=[p.block(add), p.block(keep)])

    def test() -> str:
        return p.op("less", "t", x="v", y=np.float32(3), types=("BOOL", (1,)))

    def body() -> str:
        return p.op("add", "more", x="v", y=np.float32([1]), types=("FLOAT32", (1,)))

    blocks = [p.block(build, [("v", ("FLOAT32", (1,)))]) for build in (test, body)]
    p.op("while_loop", ["w"], types=[("FLOAT32", (1,))], loop_vars=[p.const(np.float32([0]))], blocks=blocks)
    p.output("c", "w")
    found.append(p.files())

    p = Program()
    p.describe_functions("second")
    img = p.input("img", (1, 3, 8, 8), image="BGR")
    w = p.const(p.blob(np.linspace(-1, 1, 108, dtype=np.float32).reshape(4, 3, 3, 3)))
    p.op("conv", "y", x=img, weight=w, strides=np.int32([1, 1]), pad_type=np.array("valid", object), groups=np.int32(1),
         pad=np.int32([0, 0, 0, 0]), dilations=np.int32([1, 1]), types=("FLOAT32", (1, 4, 6, 6)))  # fmt: skip
    p.output("y")
    p.function("second")
    x = p.input("x", (1, None), default=(1, 6))
    sizes = p.description.input[0].type.multiArrayType.shapeRange.sizeRanges
    for low, high in ((1, 1), (2, 9)):
        sizes.add(lowerBound=low, upperBound=high)
    p.const(p.blob(np.int8([[-8, 7, 1, 0, 3, 2]]), "INT4"), "packed")
    p.const(value(np.uint8([[1, 2, 3, 4, 5, 6]]), "UINT3"), "three")
    p.op("cast", "f", x="three", dtype=np.array("fp32", object), types=("FLOAT32", (1, 6)))
    p.op("cast", "g", x="packed", dtype=np.array("fp32", object), types=("FLOAT32", (1, 6)))
    p.output(p.op("add", "z", x=x, y="f"), p.op("mul", "q", x=x, y="g"))
    found.append(p.files())

    p = Program("CoreML5", 6)
    p.op("softmax", "p", x=p.input("x", (1, 3)), axis=np.int32(-1))
    table = message("MILSpec.ValueType")()
    classes = list_value(["a", "b", "c"])
    table.dictionaryType.keyType.CopyFrom(classes.type.listType.type)
    table.dictionaryType.valueType.CopyFrom(p.types["p"])
    p.op("classify", ["label", "all"], [("STRING", ()), table], direct=("classes",), probabilities="p", classes=classes)
    p.output("label", "all")
    found.append({"": p.spec()})
    return found


@cache
def seeds() -> list[dict[str, bytes]]:
    """Files by name, the model alone under "": our own, those of the archive of cases, then the small ones of the
    folder, which may be absent.
    """
    found = own_seeds() + archived_files("cases.tar.xz")
    for path in sorted(SHARED.glob("*/model.mlpackage")):
        files = {str(f.relative_to(path)): f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file()}
        if sum(map(len, files.values())) <= BIGGEST_SEED:
            found.append(files)
    return [files for files in found if fuzzing.readable(read, whole(files))]


def whole(files: dict[str, bytes]) -> bytes:
    return files[""] if "" in files else zipped(files)


def damaged(place: int) -> bytes:
    """Input `place`."""
    rng = random.Random(place)
    files = dict(rng.choice(seeds()))
    spec = next(name for name in files if name in ("", MODEL))
    kind = rng.random()
    if kind < 0.7:
        files[spec] = edited(files[spec], rng)
    elif kind < 0.85:
        files[spec] = mangled(files[spec], rng)
    elif kind < 0.95 and WEIGHTS in files:
        files[WEIGHTS] = weights(files[WEIGHTS], rng)
    elif kind < 0.97:
        name = rng.choice(sorted(files))
        if rng.random() < 0.3 and len(files) > 1:
            del files[name]
        else:
            files[name] = mangled(files[name], rng)
    else:
        return mangled(whole(files), rng)
    return whole(files)


def edited(data: bytes, rng: random.Random) -> bytes:
    """The model with some of its fields changed, sound as a message."""
    model = message("Model").FromString(data)
    if rng.random() < 0.6:
        opened(model)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places = list(fields(model))
        holder, field = rng.choice(places)
        change(holder, field, model, rng)
    try:
        return model.SerializeToString(deterministic=True)
    except Exception:  # deeper than protobuf allows
        return data


def opened(model: Any) -> None:
    """Let the results of operations be of any rank: declared shapes would contradict all that is changed."""
    for function in model.mlProgram.functions.values():
        for block in function.block_specializations.values():
            for operation in block.operations:
                if operation.type != "const" and not operation.blocks:
                    for out in operation.outputs:
                        if out.type.WhichOneof("type") == "tensorType":
                            out.type.tensorType.rank = -1
                            out.type.tensorType.ClearField("dimensions")


def fields(proto: Any, depth: int = 0) -> Any:
    """(message, field) of all that is set, at any depth; maps as lists of their values."""
    for field, held in proto.ListFields():
        yield proto, field
        if field.message_type is None or depth > 60:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                for key in sorted(held):
                    yield from fields(held[key], depth + 1)
        elif repeated(field):
            for item in held[:50]:
                yield from fields(item, depth + 1)
        else:
            yield from fields(held, depth + 1)


def repeated(field: Any) -> bool:
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def change(holder: Any, field: Any, model: Any, rng: random.Random) -> None:
    """Another value for a field, one less or one more of a list, or the field not set."""
    held = getattr(holder, field.name)
    if rng.random() < 0.08:
        holder.ClearField(field.name)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        keys = sorted(held)
        if rng.random() < 0.5:
            del held[rng.choice(keys)]
        elif field.message_type.fields_by_name["value"].message_type is not None:
            held[rng.choice(keys)].CopyFrom(held[rng.choice(keys)])
    elif repeated(field) and len(held):
        at = rng.randrange(len(held))
        if field.message_type is not None:
            action = rng.randrange(4)
            if action == 0:
                del held[at]
            elif action == 1 and held[at].ByteSize() < 1 << 16:
                held.add().CopyFrom(held[at])
            elif action == 2:
                held[at].CopyFrom(held[rng.randrange(len(held))])
            elif len(held) > 1:
                held.insert(at, held.pop()) if hasattr(held, "insert") else held[at].CopyFrom(held[-1])
        elif rng.random() < 0.2:
            del held[at]
        else:
            held[at] = scalar(field, held[at], model, rng)
    elif field.message_type is None:
        setattr(holder, field.name, scalar(field, held, model, rng))


def scalar(field: Any, held: Any, model: Any, rng: random.Random) -> Any:
    """A value that a field of that type can hold, and more often than not one that some model may hold."""
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        if isinstance(held, bytes):
            return mangled(held, rng) if held else b"\1"
        own = texts(model.SerializeToString(deterministic=True))
        return rng.choice(operators() if field.name == "type" else TEXTS if rng.random() < 0.3 else own)
    if kind == field.CPPTYPE_BOOL:
        return not held
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice(REALS)
    if kind == field.CPPTYPE_ENUM:
        return rng.choice([v.number for v in field.enum_type.values] + [99])
    bits = 32 if kind in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 64
    low = 0 if kind in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64) else -(1 << (bits - 1))
    number = rng.choice(NUMBERS) if rng.random() < 0.8 else held + rng.choice((-1, 1, 2, 64))
    return max(low, min(number, (1 << (bits - (low < 0))) - 1))


@cache
def operators() -> list[str]:
    """The names of all operations of the seeds."""
    found = set()
    for files in seeds():
        model = message("Model").FromString(next(data for name, data in files.items() if name in ("", MODEL)))
        for function in model.mlProgram.functions.values():
            for block in function.block_specializations.values():
                found.update(operation.type for operation in block.operations)
    return sorted(found)


@cache
def texts(data: bytes) -> list[str]:
    """All names in a model."""
    model = message("Model").FromString(data)
    found = {""}
    for holder, field in fields(model):
        held = getattr(holder, field.name)
        if field.cpp_type == field.CPPTYPE_STRING and field.message_type is None:
            found.update(v for v in (held if repeated(field) else [held]) if isinstance(v, str))
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            found.update(held)
    return sorted(found)


def weights(data: bytes, rng: random.Random) -> bytes:
    """The file of weights with a number of its header or records changed, or cut."""
    found = bytearray(data)
    records = [at for at in range(0, len(found) - 63, 64) if not at or found[at : at + 4] == b"\xef\xbe\xad\xde"]
    if rng.random() < 0.15 or not records:
        del found[rng.randrange(len(found) + 1) :]
        return bytes(found)
    at = rng.choice(records)
    code, place = rng.choice((("<I", 0), ("<I", 4), ("<I", 4), *(("<Q", at) for at in (8, 8, 16, 16, 24))))
    number = rng.choice([n for n in NUMBERS if n >= 0] + [len(data), len(data) - at, (1 << 64) - 1, (1 << 64) - 64])
    pack_into(code, found, at + place, number % (1 << (32 if code == "<I" else 64)))
    return bytes(found)


def mangled(data: bytes, rng: random.Random) -> bytes:
    """Bytes with some changed, doubled, dropped or taken from elsewhere."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        if not found:
            break
        at = rng.randrange(len(found))
        action = rng.randrange(5)
        if action == 0:
            found[at] ^= 1 << rng.randrange(8)
        elif action == 1:
            found[at] = rng.choice((0, 1, 2, 8, 10, 18, 26, 127, 128, 255))
        elif action == 2:
            del found[at : at + rng.choice((1, 2, 8, 64, len(found)))]
        elif action == 3:
            found[at:at] = found[at : at + rng.choice((1, 4, 16, 64))]
        else:
            other = rng.randrange(len(found))
            found[at:at] = found[other : other + rng.choice((4, 16, 64))]
    return bytes(found)


def files_of(data: bytes) -> list[str]:
    """What is in an input: for a look at one that went wrong."""
    return zipfile.ZipFile(io.BytesIO(data)).namelist() if data[:2] == b"PK" else [""]


if __name__ == "__main__":
    fuzzing.main(read, damaged)
