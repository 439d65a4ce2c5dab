"""What a file is once it is loaded: mapped, shared by processes, and what it was when it was opened."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastgraph as fg
from tests.nets import Net
from tests.saved.round_trip import is_stored, same
from tests.saved.test_save import layer

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
ROOT = Path(__file__).parents[2]
X = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)


def layer_of(seed: int) -> Net:
    net = Net(seed=seed)
    net.output(net("Relu", net("MatMul", net.input("x", (2, 8)), net.weight(8, 16))))
    return net


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is mapped can't be replaced there")
def test_a_file_that_is_replaced_or_deleted(tmp_path: Path) -> None:
    """The model stays what it was, also for plans and parts of the file that are read later."""
    path = tmp_path / "m.fgm"
    models = [layer_of(seed).load() for seed in (0, 7)]
    assert not np.array_equal(models[0](X), models[1](X))
    models[0].save(path)
    first = fg.load(path, threads=1)
    models[1].save(path)
    second = fg.load(path, threads=1)
    path.unlink()
    for _ in range(2):
        for made, model in zip((first, second), models, strict=True):
            same(model, made, [{"x": X}])
            assert str(made.graph).partition("\n")[2] == str(model.graph).partition("\n")[2]
            assert str(made)
    first.save(path)
    np.testing.assert_array_equal(fg.load(path)(X), models[0](X))


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is mapped can't be replaced there")
def test_open_shapes_of_a_file_that_is_gone(tmp_path: Path) -> None:
    net = Net()
    net.output(net("MatMul", net.input("x", ("n", 8)), net.weight(8, 300)))
    model, path = net.load(), tmp_path / "m.fgm"
    model.save(path, shapes=[{"x": (n, 8)} for n in (2, 3)])
    made = fg.load(path, threads=1)
    path.unlink()
    for n in (2, 3, 4):
        same(model, made, [{"x": np.ones((n, 8), np.float32)}])
        assert is_stored(made) == (n < 4)


@LINUX
def test_models_of_a_process_share_one_mapping(tmp_path: Path) -> None:
    """As many pages as one model has, until the last of them is gone."""
    path = tmp_path / "m.fgm"
    layer_of(0).load().save(path)
    models = [fg.load(path, threads=1)]
    once = mappings(path)
    for at in range(3):
        os.utime(path, (at, at))  # as the cache does, to tell what was used last
        models.append(fg.load(path, threads=1))
    assert mappings(path) == once > 0
    results = [model(X) for model in models]
    assert all(np.array_equal(y, results[0]) for y in results)
    del models
    gc.collect()
    assert mappings(path) == 0


def mappings(path: Path) -> int:
    return sum(line.rstrip().endswith(str(path)) for line in open("/proc/self/maps"))


def test_constants_can_not_be_written(tmp_path: Path) -> None:
    net = Net()
    net.output(net("Identity", np.arange(5.0)), net("Relu", net.input("x", (2,))))
    net.load().save(tmp_path / "m.fgm")
    made = fg.load(tmp_path / "m.fgm")
    constant = made.output(made.outputs[0].name)
    assert not constant.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        constant += 1
    results = made.run({"x": np.zeros(2, np.float32)})
    assert all(y.flags.writeable and y.flags.owndata for y in results.values())


SCRIPT = """
import sys, numpy as np, fastgraph as fg
model = fg.load(sys.argv[1], threads=2)
model(np.ones((2, 4096), np.float32))
for line in sys.stdin:
    ways = [line.split()[1] for line in open("/proc/self/maps")]
    kept, found, wanted = {}, {}, ("Rss", "Pss", "Private_Dirty", "Private_Clean")
    for line in open("/proc/self/smaps"):
        first = line.split()[0]
        if "-" in first and ":" not in first:
            here = line.rstrip().endswith(sys.argv[1])
        elif here and first[:-1] in wanted:
            found[first[:-1]] = found.get(first[:-1], 0) + int(line.split()[1])
    print(sorted(set(w[:3] for w in ways)), *(found.get(name, 0) for name in wanted), flush=True)
"""


@LINUX
def test_processes_share_weights_and_no_page_is_written_and_run(tmp_path: Path) -> None:
    """Of 32 MB of weights, each of two processes counts half, and none has a copy."""
    net = Net()
    net.output(net("MatMul", net.input("x", (2, 4096)), net.weight(4096, 2048)))
    path = tmp_path / "weights.fgm"
    net.load(threads=2).save(path, graph=False)
    env = {**os.environ, "FASTGRAPH_CHECK": "0", "PYTHONPATH": str(ROOT)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(path)],
            env=env,
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    told = []
    for _ in range(2):  # the first answer says that it runs
        told = []
        for process in both:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            told.append(process.stdout.readline())
    for process in both:
        process.communicate()
        assert process.returncode == 0
    for line in told:
        ways, numbers = line.rsplit("]", 1)
        assert not [way for way in eval(ways + "]") if "w" in way and "x" in way]
        rss, pss, dirty, alone = map(int, numbers.split())
        assert rss > 30_000 and dirty == 0 and pss < 0.6 * rss and alone < 3_000, line


@LINUX
def test_code_is_placed_once_for_all_models_of_it(tmp_path: Path) -> None:
    from fastgraph.runtime import stored

    path = tmp_path / "m.fgm"
    layer().load().save(path)
    fg.load(path)
    before = len(stored._images)
    models = [fg.load(path) for _ in range(5)]
    assert len(stored._images) == before
    assert all(np.array_equal(model(X), models[0](X)) for model in models)
