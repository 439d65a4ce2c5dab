"""No compiler, or one that is broken: an error that says what to do; and isa="numpy", which needs none."""

import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.demo import MODEL, held_out
from fastgraph.kernels.core import build
from fastgraph.kernels.isa import tiers
from fastgraph.objects import link, store
from tests.blocks import BLOCKS, RARE
from tests.circle.write import Model
from tests.nets import F32, Net
from tests.processes import python
from tests.quantized_blocks import QDQ, TFLITE

ROOT = Path(__file__).parents[2]
SAYS = ("not in the cache", "pip install", "fastgraph kernels --build", "FASTGRAPH_CACHE_DIR", "isa='numpy'")


def run(script: str) -> str:
    """What a Python in which neither numba nor llvmlite can be imported prints."""
    return python("-c", "import sys; sys.modules.update(numba=None, llvmlite=None)\n" + script)


LOAD = """
import fastgraph as fg
from fastgraph.demo import MODEL, held_out
try:
    fg.load(MODEL, threads=1)
except fg.CompilerError as error:
    print(error)
"""


def test_without_a_compiler_an_error_says_what_to_do(place: Path) -> None:
    said = run(LOAD)
    assert said.startswith("kernel ") and "can't be imported" in said and all(word in said for word in SAYS)
    assert not list(place.rglob("*.o"))


def test_without_what_reads_a_format(tmp_path: Path) -> None:
    """As where --no-deps installed what runs saved programs: a file of ONNX is not called damaged; LiteRT's is read."""
    m = Model()
    (tmp_path / "m.tflite").write_bytes(m.bytes(m.op("RELU", [m.input((3,), F32, name="x")], [((3,), F32, None)])))
    said = run(f"""
sys.modules.update(google=None)
import fastgraph as fg
print(fg.load({str(tmp_path / "m.tflite")!r}, isa="numpy")([-1, 0, 1]))
from fastgraph.demo import MODEL
try:
    fg.load(MODEL, isa="numpy")
except fg.UnsupportedError as error:
    print(error)
""")
    assert said.startswith("[0. 0. 1.]\n") and "can't be imported" in said and "pip install fastgraph-runtime" in said


def test_a_cache_that_is_not_trusted_is_named(place: Path) -> None:
    """What the cache holds is not used, so the error is not that it lacks something."""
    store.folder().mkdir(parents=True)
    place.chmod(0o777)
    said = run(LOAD)
    assert f"not in the cache (compiled kernels in {place}" in said and f"other users can write in {place}" in said


def test_without_a_compiler_numpy_still_computes(place: Path) -> None:
    images, _ = held_out()
    expected = fg.load(MODEL).run({"image": images[0]})["probabilities"]
    found = run(
        "import fastgraph as fg; from fastgraph.demo import MODEL, held_out\n"
        "model = fg.load(MODEL, isa='numpy')\n"
        "out = model.run({'image': held_out()[0][0]}, timeout=60)['probabilities']\n"
        "print(model.tier.name, [n for n in sys.modules if n.startswith(('llvmlite', 'numba')) and sys.modules[n]])\n"
        "print(*out.ravel())"
    ).splitlines()
    assert found[0] == "numpy []"
    np.testing.assert_allclose([float(x) for x in found[1].split()], expected.ravel(), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_a_full_cache_needs_neither_numba_nor_llvmlite(place: Path, tmp_path: Path) -> None:
    """Nor their files: an installation may leave them out."""
    packages, here = tmp_path / "packages", Path(np.__file__).parents[1]
    packages.mkdir()
    for each in here.iterdir():
        if not each.name.startswith(("numba", "llvmlite", "__pycache__")):
            (packages / each.name).symlink_to(each)
    printed = []
    for found in (here, packages):
        script = (
            f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(found)!r}]\n"
            "import importlib.util as util; print(*map(bool, map(util.find_spec, ('numba', 'llvmlite'))))\n"
            "import fastgraph as fg; from fastgraph.demo import MODEL, held_out\n"
            "print(fg.load(MODEL, threads=1).run({'image': held_out()[0][0]})['probabilities'].view('i4'))\n"
        )
        printed.append(python("-S", "-W", "error", "-c", script, cwd=tmp_path).partition("\n"))
    (first, _, computed), (second, _, again) = printed
    assert (first, second) == ("True True", "False False") and computed == again


@pytest.mark.parametrize("error", [RuntimeError("LLVM has no such thing"), OSError("no room")])
def test_an_llvm_that_fails_is_told(error: Exception, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> bytes:
        raise error

    monkeypatch.setattr(build, "build", fail)
    with pytest.raises(fg.CompilerError, match=f"LLVM can't compile it .*: {error}") as found:
        fg.load(MODEL, threads=1)
    assert all(word in str(found.value) for word in SAYS)


def test_an_object_that_needs_others_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As any that no process could link."""
    monkeypatch.setattr(build, "build", lambda *_: b"\x7fELF and then nothing")
    with pytest.raises(fg.CompilerError, match="is not a.* object file"):
        fg.load(MODEL, threads=1)


def test_a_library_of_llvm_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where that links, and tells the CPU's flags."""
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    monkeypatch.setattr(tiers, "_linux_flags", frozenset)
    assert tiers.cpu_flags.__wrapped__() == frozenset()
    with pytest.raises(fg.CompilerError, match="can't be linked.*isa='numpy'"):
        link._llvm.__wrapped__()


# -- isa="numpy"


FLOATS = {**BLOCKS, **RARE, **QDQ}


@pytest.mark.parametrize("name", [*FLOATS, *TFLITE])
def test_networks_of_all_kinds(name: str) -> None:
    """As near to what kernels compute as their sums' order allows; no kernel is called."""
    if name in FLOATS:
        net = Net()
        FLOATS[name](net)
        data = net.bytes()
    else:
        model = Model()
        data = model.bytes(TFLITE[name](model))
    native, plain = fg.load(data, threads=1), fg.load(data, isa="numpy")
    draw = np.random.default_rng(0)
    feeds = {
        spec.name: draw.normal(size=spec.shape).astype(F32) if spec.dtype == F32
        else draw.integers(0, 100, spec.shape).astype(spec.dtype)
        for spec in native.inputs
    }  # fmt: skip
    wanted, found = native.run(feeds), plain.run(feeds)
    assert plain.plan.kernels() == []
    for name, array in wanted.items():
        if array.dtype.kind == "f":
            np.testing.assert_allclose(
                found[name], array, rtol=1e-3, atol=1e-4 * max(1.0, np.abs(array).max(initial=0))
            )
        else:
            assert np.abs(found[name].astype(int) - array.astype(int)).max(initial=0) <= 1


def test_shapes_that_change_and_networks_without_steps() -> None:
    net = Net()
    net.output(net("Relu", net.input("x", ("n", 3))))
    model = fg.load(net.bytes(), isa="numpy")
    for n in (1, 4, 0, 1):
        assert model(np.full((n, 3), -1, np.float32)).tolist() == [[0, 0, 0]] * n
    net = Net()
    net.output(net.input("x", (2,)))
    model = fg.load(net.bytes(), isa="numpy")
    assert model(np.ones(2, np.float32)).tolist() == [1, 1]
    model.execute()


def slow() -> fg.Model:
    """A hundred steps, each of which takes milliseconds."""
    net = Net()
    x = net.input("x", (300, 300))
    for _ in range(100):
        x = net("Softmax", net("MatMul", x, x), axis=-1)
    net.output(x)
    return fg.load(net.bytes(), isa="numpy")


def test_a_deadline_ends_a_run() -> None:
    model, x = slow(), np.ones((300, 300), np.float32)
    with pytest.raises(fg.RunTimeout):
        model.run({"x": x}, timeout=0.001)
    assert np.isfinite(model.run({"x": x}, timeout=1000)[model.outputs[0].name]).all()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_ctrl_c_ends_a_run() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    model, x = slow(), np.ones((300, 300), np.float32)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            while True:
                model.run({"x": x})
                time.sleep(0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_command_line_has_it(capsys: Any, tmp_path: Path) -> None:
    assert main(["run", str(MODEL), "--random", "--isa", "numpy"]) == 0
    assert "numpy" in capsys.readouterr().out
    assert main(["inspect", str(MODEL), "--isa", "numpy"]) == 0
    assert "0 kernels" in capsys.readouterr().out
    assert main(["verify", str(MODEL), "--isa", "numpy"]) == 0
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["kernels", "--isa", "numpy"])
