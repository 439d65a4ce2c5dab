"""Damaged Core ML packages, one after the other; see tests/fuzzing.py.

    python -m tests.mil.mil_fuzz FIRST COUNT

Input n is the zip archive of a seed package, damaged as random numbers from n say: fields of its messages, the bytes
of its files, the archive. Seeds that are a bare model file are damaged likewise.
"""

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from struct import pack_into
from typing import Any

import numpy as np

from fastgraph.frontends import read
from fastgraph.frontends.mil.wire import message
from tests import damage, fuzzing
from tests.damage import NUMBERS, mangled
from tests.mil.mil_models import archived_files
from tests.mil.mil_write import MODEL, WEIGHTS, Program, value, zipped
from tests.mil.test_description import classifier, picture, ranged
from tests.mil.test_mil_reader import branch_with_state, counter, loops, two_functions

SHARED = Path(__file__).parents[3] / "shared" / "models" / "mil"
BIGGEST_SEED = 64 << 10
TEXTS = "x y main ../../x /etc/passwd fp16 int32 CoreML5 CoreML8 const name @model_path/weights/other.bin".split()
TEXTS += ["", "\0", "a" * 300, "@model_path/../weights/weight.bin"]


def own_seeds() -> list[dict[str, bytes]]:
    """Packages with what the folder of models lacks: states, functions, loops, images, labels, packed constants."""
    packed = Program()
    packed.const(packed.blob(np.int8([[-8, 7, 1, 0, 3, 2]]), "INT4"), "packed")
    packed.const(value(np.uint8([[1, 2, 3, 4, 5, 6]]), "UINT3"), "three")
    for name in ("packed", "three"):
        packed.op("cast", f"{name}_f", x=name, dtype=np.array("fp32", object), types=("FLOAT32", (1, 6)))
    packed.output(packed.op("add", "z", x=packed.input("x", (1, 6)), y="packed_f"), "three_f")
    made = [counter(2), branch_with_state(), two_functions(), loops(2), ranged(), picture("BGR"), packed]
    return [*(p.files() for p in made), {"": classifier(["a", "b", "c"]).spec()}]


@cache
def seeds() -> list[dict[str, bytes]]:
    """Files by name, the model alone under "": our own, those of the archive of cases, then the small ones of the
    folder, which may be absent.
    """
    found = own_seeds() + archived_files()
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

    def words(name: str) -> Sequence[str]:
        return operators() if name == "type" else TEXTS if rng.random() < 0.3 else texts(data)

    damage.edited(model, rng, words)
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
    for holder, field in damage.fields(model):
        held = getattr(holder, field.name)
        if damage.is_map(field):
            found.update(held)
        elif field.cpp_type == field.CPPTYPE_STRING:
            found.update(v for v in (held if damage.repeated(field) else [held]) if isinstance(v, str))
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
    number = rng.choice([*NUMBERS, len(data), len(data) - at, (1 << 64) - 64])
    pack_into(code, found, at + place, number % (1 << (32 if code == "<I" else 64)))
    return bytes(found)


if __name__ == "__main__":
    fuzzing.main(read, damaged)
