"""Damaged files of saved programs: each is refused in our own words, or runs, between guard pages.

File n is the same in every run. Damage that checksums see must not change a bit of any result; where they are made
right again, what is behind them must refuse what would reach beyond memory. Not tried with right checksums: other code,
and other names for it, as nothing but a checksum can tell.

    python -m tests.saved.damage FIRST COUNT

tries that many in this process, `python -m tests.saved.damage campaign FIRST COUNT` in others, which may crash.
"""

import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import fastgraph as fg
from fastgraph.errors import GraphError, PlanError
from tests.blocks import BLOCKS, RARE
from tests.damage import NUMBERS, REALS, mangled
from tests.fuzzing import SECONDS, Hang, Uncompiled, campaign, each, guarded, kernels, timed, told
from tests.hostile import alike
from tests.mil.test_description import classifier, picture, ranged
from tests.nets import I64, Net
from tests.plan.control_nets import NETS, drawn
from tests.quantized_blocks import QDQ, TFLITE
from tests.saved.common import backwards, found_rows
from tests.saved.files import HEAD, Parts, signed
from tests.saved.round_trip import drawn as feeds_of
from tests.saved.test_networks import onnx, tflite


def weighted() -> bytes:
    """A layer whose weights are a section of their own."""
    net = Net()
    net.output(net("Relu", net("MatMul", net.input("x", (3, 256)), net.weight(256, 256))))
    return net.bytes()


def opened() -> bytes:
    net = Net()
    net.output(net("Softmax", net("MatMul", net.input("x", ("n", 8)), net.weight(8, 6))))
    return net.bytes()


def deciding() -> bytes:
    net = Net()
    y = net("Relu", net("Reshape", net.input("x", (4, 6)), net.input("shape", (2,), I64)))
    net.output(net("MatMul", net("Transpose", y), net.weight(8, 3)))
    return net.bytes()


def hosted() -> bytes:
    net = Net()
    net.output(net("Cast", backwards(net, net("Relu", net.input("x", (3, 3)))), to=1), dtype=None)
    return net.bytes()


def seeds() -> list[tuple[str, Callable[[], fg.Model], dict[str, Any]]]:
    """Models, and how they are saved."""

    def loaded(source: bytes) -> Callable[[], fg.Model]:
        return lambda: fg.load(source, threads=2)

    eight = np.array([8, 3])
    return [
        ("conv", loaded(onnx(BLOCKS["conv_bn_relu"])), {}),
        ("attention", loaded(onnx(BLOCKS["attention"])), {"threads": [1, 2]}),
        ("weights", loaded(weighted()), {"graph": False}),
        ("int8", loaded(tflite(TFLITE["int8_residual"])), {"isa": ["generic", "avx2"]}),
        ("states", loaded(tflite(TFLITE["filters_that_remember"])), {}),
        ("lstm", loaded(tflite(TFLITE["projected_lstm"])), {}),
        ("qdq", loaded(onnx(next(iter(QDQ.values())))), {"graph": False}),
        ("types", loaded(onnx(RARE["element_types"])), {}),
        ("branches", loaded(NETS["branches"]().bytes()), {}),
        ("loops", loaded(drawn(4).bytes()), {}),
        ("open", loaded(opened()), {"shapes": [{"x": (2, 8)}, {"x": (5, 8)}]}),
        ("deciding", loaded(deciding()), {"shapes": [{"shape": eight}]}),
        ("host", loaded(hosted()), {}),
        ("rows", loaded(found_rows().bytes()), {"shapes": [{"x": (8, 4)}]}),
        ("image", loaded(picture("RGB").zip()), {}),
        ("labels", loaded(classifier(["cat", "dog", "eel"]).zip()), {}),
        ("ranges", loaded(ranged().zip()), {}),
    ]


@cache
def files() -> list[tuple[bytes, dict[str, Any], dict[str, Any]]]:
    """The files to damage, what they are fed, and what that gives."""
    found = []
    fed: dict[str, dict[str, Any]] = {
        "open": {"x": np.ones((2, 8), np.float32)},
        "rows": {"x": np.eye(8, 4, dtype=np.float32)},
        "deciding": {"x": np.ones((4, 6), np.float32), "shape": np.array([8, 3])},
        "image": {"x": np.arange(24, dtype=np.uint8).reshape(2, 4, 3)},
        "ranges": {"x": np.ones((1, 4), np.float32)},
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, load, how in seeds():
            path = Path(folder) / "m.fgm"
            load().save(path, **how)
            model = fg.load(path, threads=2)
            feeds = fed.get(name) or feeds_of(model, 0)
            found.append((path.read_bytes(), feeds, model.run(feeds)))
    return found


# -- damage


def damaged(number: int) -> tuple[bytes, int, bool]:
    """(a file, the number of the sound one, whether its checksums are right)."""
    rng = random.Random(number)
    at = rng.randrange(len(files()))
    data = files()[at][0]
    kinds = (_bytes, _bit, _cut, _swapped, _directory, _directory, _tables, _text, _tables, _crossed)
    kind = kinds[number % len(kinds)]
    return kind(data, rng), at, kind in (_directory, _text, _tables, _crossed)


def _bytes(data: bytes, rng: random.Random) -> bytes:
    return mangled(data, rng)


def _bit(data: bytes, rng: random.Random) -> bytes:
    """One bit, or a byte, of the head, the directory, or any section."""
    parts = Parts(data)
    spans = [(0, HEAD.size), (HEAD.size, parts.start)]
    spans += [(parts.start + at, parts.start + at + n) for at, n, _ in parts.directory["sections"].values() if n]
    begin, end = rng.choice(spans)
    found, place = bytearray(data), rng.randrange(begin, end)
    found[place] = rng.randrange(256) if rng.random() < 0.3 else found[place] ^ 1 << rng.randrange(8)
    return bytes(found)


def _cut(data: bytes, rng: random.Random) -> bytes:
    parts = Parts(data)
    bounds = [parts.start + at + d for at, n, _ in parts.directory["sections"].values() for d in (0, n, n - 1)]
    return data[: rng.choice([*bounds, 8, HEAD.size, parts.start, len(data) - 1, rng.randrange(len(data))])]


def _swapped(data: bytes, rng: random.Random) -> bytes:
    """Two sections change places, which the directory doesn't know."""
    parts = Parts(data)
    one, other = rng.sample(list(parts.sections), 2)
    parts.sections[one], parts.sections[other] = parts.sections[other], parts.sections[one]
    body = b"".join(bytes(part) for part in parts.sections.values())
    return signed(parts.directory, body + bytes(4096))


def _crossed(data: bytes, rng: random.Random) -> bytes:
    """An entry of the directory, or a section that is no code, of another file."""
    parts, other = Parts(data), Parts(rng.choice(files())[0])
    texts = [name for name in other.sections if not name.startswith("code") and name in parts.sections]
    if rng.random() < 0.5:
        parts.sections[name] = other.sections[(name := rng.choice(texts))]
    else:
        entry = rng.choice([name for name in parts.directory if name not in ("images", "sections")])
        parts.directory[entry] = other.directory[entry]
    return parts.bytes()


def _directory(data: bytes, rng: random.Random) -> bytes:
    """Values of the directory become others; its places of sections too."""
    parts = Parts(data)
    body = data[parts.start :]
    places = [p for p in _places(parts.directory) if not _names_code(p[2])]
    heads = [p for p in places if p[2][0] not in ("arrays", "sections")]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        holder, key, way = rng.choice(places if rng.random() < 0.3 else heads)
        with suppress(LookupError):
            _change(holder, key, rng, way)
    return signed(parts.directory, body)


def _names_code(way: tuple[Any, ...]) -> bool:
    return way[0] == "images" and len(way) > 2 and way[2] == "kernels"


def _text(data: bytes, rng: random.Random) -> bytes:
    """Values of the signature or the graph."""
    parts = Parts(data)
    name = rng.choice([name for name in ("interface", "graph", "graph") if name in parts.sections] or ["interface"])
    item = parts.json(name)
    places = list(_places(item))
    for _ in range(rng.choice((1, 1, 2, 3))):
        holder, key, way = rng.choice(places)
        with suppress(LookupError):
            _change(holder, key, rng, way)
    parts.set_json(name, item)
    return parts.bytes()


def _tables(data: bytes, rng: random.Random) -> bytes:
    """Numbers of the arrays of plans, or of constants that are no weights."""
    parts = Parts(data)
    arrays = range(len(parts.directory["arrays"]))
    flats = [plan["flat"] for plan in parts.directory["plans"] if plan["flat"]]
    own = [flat[name] for flat in flats for name in ("buffers", "words", "addresses", "steps", "tables", "words")]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not arrays:
            break
        array = parts.array(rng.choice(own) if own and rng.random() < 0.8 else rng.choice(arrays)).reshape(-1)
        if not array.size:
            continue
        at = rng.randrange(array.size)
        if array.dtype.kind in "iu":
            low, high = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max
            near = int(array[at]) + rng.choice((-64, -8, -4, -1, 1, 4, 8, 64, 4096))
            array[at] = min(max(rng.choice((near, near, rng.choice(NUMBERS), int(rng.choice(array)))), low), high)
        elif array.dtype.kind in "fc":
            with np.errstate(all="ignore"):
                array[at] = rng.choice(REALS)
        else:
            array[at] = not array[at]
    return parts.bytes()


def _places(item: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    """(holder, key, the way there) of all that JSON holds, at any depth."""
    for key in item if isinstance(item, dict) else range(len(item)):
        yield item, key, (*way, key)
        if isinstance(item[key], dict | list):
            yield from _places(item[key], (*way, key))


WORDS = ("", "avx2", "generic", "numpy", "x", "graph", "f4", "i8", "O", "V8", "f4,f4", "a", "v", "T", "relu", "n", "if")


def _change(holder: Any, key: Any, rng: random.Random, way: tuple[Any, ...]) -> None:
    """Another value, of another type at times; a list that is cut, or has an item twice; an entry that is gone."""
    held, action = holder[key], rng.random()
    inside = way[0] == "images"  # numbers of these that are in range are addresses of code
    if action < 0.08:
        if isinstance(holder, dict) or not inside:
            del holder[key]
    elif action < 0.2 or held is None:
        holder[key] = rng.choice((None, True, [], {}, "", "x", -1, 1 << 70, 0.5, float("inf"), [[]], [1, 2]))
    elif isinstance(held, bool):
        holder[key] = not held
    elif isinstance(held, int):
        holder[key] = rng.choice((-1, 1 << 40, 1 << 63, -(1 << 63), 0.5)) if inside else rng.choice(
            (*NUMBERS, held + 1, held - 1, held + 64, held * 2, float(held), str(held))
        )  # fmt: skip
    elif isinstance(held, float):
        holder[key] = rng.choice(REALS)
    elif isinstance(held, str):
        holder[key] = rng.choice((*WORDS, held[:-1], held + "x"))
    elif isinstance(held, list) and held and not inside:
        if rng.random() < 0.5:
            del held[rng.randrange(len(held)) :]
        else:
            held.append(rng.choice(held))
    elif isinstance(held, list) and held:
        del held[rng.randrange(len(held)) :]


# -- one file, and many


def one(number: int, compiled: bool) -> str:
    """What became of a file. AssertionError for results that damage has changed."""
    data, at, right = damaged(number)
    _, feeds, wanted = files()[at]
    try:
        with kernels(compiled):
            model = fg.load(data, threads=2, trusted=True)
            found = model.run(feeds, timeout=SECONDS)
            again = model.run(feeds, timeout=SECONDS)
            if right and number % 2:
                fg.load(data, isa="numpy", trusted=True).run(feeds, timeout=SECONDS)  # which is planned from the graph
    except Uncompiled:
        return "uncompiled"
    except (GraphError, PlanError) as error:
        if not right or "numbers that make no sense together" not in str(error):
            raise
        return "refused by planning"
    except fg.FastgraphError:
        return "refused by checks" if right else "refused"
    assert right or alike(found, wanted), "damage that no checksum saw has changed results"
    assert again.keys() == found.keys()
    return "ran changed" if right else "ran"


def tried(number: int, alone: bool) -> tuple[str, str]:
    """(what became of a file, what is wrong with that), within limits."""
    timed(SECONDS)
    try:
        return one(number, alone), ""
    except Hang:
        return "wrong", f"more than {SECONDS} seconds"
    except BaseException as error:
        return "wrong", told(error, alone)
    finally:
        timed(0)


def main(first: int, count: int) -> None:
    """Prints a JSON line for each file that goes wrong, and one with the counts; with -v each number before."""
    guarded()
    files()
    each(first, count, tried)


if __name__ == "__main__":
    if sys.argv[1] == "campaign":
        campaign(int(sys.argv[2]), int(sys.argv[3]), {"saved": "tests.saved.damage"})
    else:
        main(int(sys.argv[1]), int(sys.argv[2]))
