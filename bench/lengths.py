"""A text encoder of open batch and length that is fed 20 lengths in turn: milliseconds a run, and memory.

    python bench/lengths.py [ENCODER.onnx]      its inputs are ids and mask, [batch, length]; without one, one is made

Each engine has a process of its own, on one CPU. A round runs each length once: in the first all are new. What other
programs disturbed is nan.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

LENGTHS = random.Random(0).sample(range(8, 257), 20)
ROUNDS = 4


def resident() -> int:
    """MiB of this process."""
    fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) >> 10


def measured(engine: str, path: str) -> dict[str, list[float]]:
    """Milliseconds a run of each round; MiB before the model was loaded, then, and after all rounds."""
    from test_dynamic_shapes import ENGINES, words

    from fastgraph import disturbance
    from fastgraph.tools.bench import pinned

    with pinned(1):
        memory, rounds = [resident()], []
        call = ENGINES[engine](path)
        memory.append(resident())
        for _ in range(ROUNDS):
            before = disturbance.now()
            for length in LENGTHS:
                call(words((1, length)))
            used = disturbance.now() - before
            rounds.append(float("nan") if disturbance.disturbed([used]) else 1e3 * used.wall / len(LENGTHS))
    return {"ms": rounds, "MiB": [*memory, resident()]}


def main(path: str) -> None:
    print(f"{'engine':12} {'new ms':>8} {'again ms':>9} {'load MiB':>9} {'run MiB':>8}")
    for engine in ("fastgraph", "onnxruntime", "openvino"):
        done = subprocess.run([sys.executable, __file__, path, engine], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            print(f"{engine:12} not measured")
            continue
        found = json.loads(done.stdout)
        (first, *later), (bare, loaded, end) = found["ms"], found["MiB"]
        print(f"{engine:12} {first:8.1f} {np.fmin.reduce(later):9.1f} {loaded - bare:9} {end - bare:8}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measured(sys.argv[2], sys.argv[1])))
    elif len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        from zoo.opened import encoder

        with tempfile.TemporaryDirectory() as folder:
            main(encoder(Path(folder) / "encoder.onnx"))
