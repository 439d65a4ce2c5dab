"""Damaged saved programs: every one is refused, or runs; none ends the process.

python -m tests.saved.damage FIRST COUNT     # a campaign: so many damaged files, in processes with guard pages
"""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

import fastgraph as fg
from fastgraph.demo import MODEL
from fastgraph.kernels.isa.tiers import choose
from fastgraph.saved.container import ALIGN, PAGE
from tests.blocks import BLOCKS
from tests.damage import NUMBERS, mangled
from tests.nets import Net
from tests.plan.control_nets import until
from tests.quantized_blocks import QDQ

HEAD = struct.Struct("<8sQI")
TEXTS = ["", "x", "avx2", "generic", "tables", "weights", "f4", "i8", "b1", "graph", "\0", "é" * 40]
CODE = ("offsets", "functions", "kernels", "layout")
"""What says where machine code is, and what it is: who writes that may as well write other code."""
PART = 250
"""Files of a process of the campaign."""


@cache
def programs() -> list[bytes]:
    """Saved programs of several kinds."""
    made = [fg.load(MODEL, threads=2)]
    for build in (BLOCKS["residual"], next(iter(QDQ.values()))):
        net = Net()
        build(net)
        made.append(net.load(threads=1))
    net = Net()
    net.output(net("NonZero", net.input("x", (20, 30))), dtype=np.dtype(np.int64))
    net.output(net("Softmax", net("Relu", "x")))
    made += [net.load(), until().load()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.fgm"
        found = []
        for model in made:
            model.save(path)
            found.append(path.read_bytes())
    return found


def damaged(number: int) -> bytes:
    """A file damaged in a way that depends on the number alone."""
    rng = random.Random(number)
    data = rng.choice(programs())
    match rng.randrange(5):
        case 0:
            return data[: rng.randrange(len(data))]
        case 1:
            return mangled(data, rng)
        case 2:  # near the beginning, where the directory is
            return mangled(data[: 6 * PAGE], rng) + data[6 * PAGE :]
        case 3:
            return _moved(data, rng)
    return edited(data, rng)


def _moved(data: bytes, rng: random.Random) -> bytes:
    """With a part of it copied over another."""
    size = ALIGN * rng.randrange(1, 200)
    source, target = (ALIGN * rng.randrange(len(data) // ALIGN) for _ in range(2))
    return data[:target] + data[source : source + size] + data[target + size :]


def edited(data: bytes, rng: random.Random) -> bytes:
    """With some entries of the directory changed, and its checksum right."""
    _, size, _ = HEAD.unpack_from(data)
    directory = json.loads(data[HEAD.size : HEAD.size + size])
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _change(directory, rng)
    text = json.dumps(directory).encode()
    head = HEAD.pack(data[:8], len(text), crc32(text)) + text
    return head + bytes(-len(head) % PAGE) + data[-(-(HEAD.size + size) // PAGE) * PAGE :]


def _change(item: Any, rng: random.Random) -> None:
    """Change an entry, at any depth."""
    while True:
        keys = [key for key in item if key not in CODE] if isinstance(item, dict) else range(len(item))
        if not keys:
            return
        key = rng.choice(list(keys))
        if not isinstance(item[key], dict | list) or rng.random() < 0.1:
            break
        item = item[key]
    if isinstance(item, list) and rng.random() < 0.2:
        item.pop(key)  # type: ignore[arg-type]
        return
    number = item[key] if type(item[key]) is int else 0
    near = [number + rng.choice((-64, -8, -1, 1, 8, 64)), number * 2, -number]
    item[key] = rng.choice(
        [*near, *near, rng.choice(NUMBERS), rng.choice(TEXTS), None, True, 0.5, [], {}, [number] * 2]
    )


def tried(data: bytes) -> str:
    """What becomes of such a file: "ran", or the error that says what is wrong with it. Raises any other."""
    try:
        model = fg.load(data, threads=2, isa=choose().name, trusted=True)
        feeds = {spec.name: np.zeros(_small(spec.shape), spec.dtype or np.float32) for spec in model.inputs}
        model.run(feeds)
        repr(model)
    except fg.FastgraphError as error:
        assert str(error)
        return type(error).__name__
    return "ran"


def _small(shape: Any) -> list[int]:
    return [d if isinstance(d, int) and 0 <= d < 100 else 1 for d in shape or ()]


def campaign(first: int, count: int) -> Counter[str]:
    """What became of files `first` to `first + count`, in processes of their own."""
    found: Counter[str] = Counter()
    for begin in range(first, first + count, PART):
        command = [
            sys.executable,
            "-m",
            "tests.saved.damage",
            "part",
            str(begin),
            str(min(PART, first + count - begin)),
        ]
        env = {"FASTGRAPH_CHECK": "guard"} | os.environ
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        lines = done.stdout.splitlines()
        found.update(line.split()[1] for line in lines if len(line.split()) > 1)
        if done.returncode:
            found[f"FAILED at {lines[-1] if lines else begin}: {done.stderr[-800:]}"] += 1
    return found


def main() -> None:
    if sys.argv[1] == "part":
        first, count = map(int, sys.argv[2:])
        for number in range(first, first + count):
            print(number, end=" ", flush=True)
            print(tried(damaged(number)), flush=True)
    else:
        for what, count in campaign(*map(int, sys.argv[1:])).most_common():
            print(count, what)


if __name__ == "__main__":
    main()
