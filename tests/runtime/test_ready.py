"""Kernels that came with the package: found before the cache, where they were made of the sources that are there."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from fastgraph.cli import main
from fastgraph.errors import FastgraphError
from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.isa.tiers import BY_NAME, TIERS
from fastgraph.objects import cache, ready, store, toolchain, workers
from fastgraph.objects.link import link
from fastgraph.runtime.pool import KERNELS, TIER
from fastgraph.tools import kernels
from tests.wheels import built, copied

ORIGIN = "a compiler"


@pytest.fixture
def path(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the package's archive would be; nothing is remembered of another one, nor of what was said."""
    monkeypatch.setattr(ready, "PATH", tmp_path / "ready.objects")
    ready.opened.cache_clear()
    ready._say.cache_clear()
    return tmp_path / "ready.objects"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is really compiled."""
    monkeypatch.setattr(workers, "count", lambda kernels: 0)
    monkeypatch.setattr(store, "compiled", lambda kernel, tier: f"{tier.name} {kernel}".encode() * 9)


def named(found: tuple[Kernel, ...] = KERNELS) -> dict[str, bytes]:
    """Objects by name, as an archive takes them."""
    return {store.entry(Path(), kernel, TIER).name: store.compiled(kernel, TIER) for kernel in found}


def compiled_now(found: tuple[Kernel, ...] = KERNELS) -> list[str]:
    """What had to be compiled."""
    labels: list[str] = []
    cache.objects(found, TIER, lambda done, total, label: labels.append(label))
    return [label for label in labels if label]


def test_what_came_with_the_package_is_linked_and_no_cache_is_made(path: Path, place: Path) -> None:
    ready.write(path, named(), ORIGIN)
    assert compiled_now() == [] and not place.exists()
    objects = cache.objects(KERNELS, TIER)
    assert all(link({kernel.symbol: obj for kernel, obj in zip(KERNELS, objects, strict=True)}).values())


def test_it_comes_before_the_cache_which_is_not_even_looked_at(quick: None, path: Path, place: Path) -> None:
    assert len(compiled_now()) == len(KERNELS)
    place.chmod(0o777)
    ready.write(path, dict.fromkeys(named(), b"ready"), ORIGIN)
    ready.opened.cache_clear()
    assert cache.objects(KERNELS, TIER) == [b"ready"] * len(KERNELS)


def test_what_it_lacks_is_compiled_and_kept(quick: None, path: Path, place: Path) -> None:
    ready.write(path, named(KERNELS[1:]), ORIGIN)
    assert compiled_now() == [str(KERNELS[0])]
    assert len(list(place.rglob("*.o"))) == 1 and compiled_now() == []


def test_objects_are_of_a_tier_and_its_features(quick: None, path: Path) -> None:
    ready.write(path, named(), ORIGIN)
    names = [store.entry(Path(), KERNELS[0], tier).name for tier in (TIER, BY_NAME["amx"], TIER._replace(cpu="other"))]
    assert list(ready.find(names)) == names[:1]


def test_any_compiler_and_python_can_have_made_them(quick: None, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They need neither, so a wheel is for each Python 3."""
    ready.write(path, named(), ORIGIN)
    sources = toolchain.toolchain()[0]
    for compiler in ("", "another"):
        monkeypatch.setattr(store, "toolchain", lambda compiler=compiler: (sources, compiler))
        assert compiled_now() == []


def test_those_of_other_sources_are_not_used_and_that_is_said(
    quick: None, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ready, "toolchain", lambda: ("0" * 32, ""))
        ready.write(path, dict.fromkeys(named(), b"old"), ORIGIN)
    with pytest.warns(RuntimeWarning, match=f"other sources of kernels, or for another platform, by {ORIGIN}") as said:
        assert len(compiled_now()) == len(KERNELS)
        assert cache.objects(KERNELS, TIER) == [*named().values()]
    assert len(said) == 1 and str(path) in str(said[0].message)
    assert main(["kernels", "--isa", "generic", "--json"]) == 0
    assert "other sources" in json.loads(capsys.readouterr().out)["ready"]


DAMAGE = {
    "cut": lambda data: data[:-1],
    "cut in its start": lambda data: data[:40],
    "empty": lambda data: b"",
    "longer": lambda data: data + b"\0",
    "text": lambda data: b"hello" * 1000,
    "the start": lambda data: data[: len(ready.FORMAT) + 32] + b"\xff" * 8 + data[len(ready.FORMAT) + 40 :],
    "the head": lambda data: data[:120] + bytes([data[120] ^ 1]) + data[121:],
    "an object": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_archive_is_not_used_and_that_is_said(quick: None, path: Path, damage: str) -> None:
    ready.write(path, named(), ORIGIN)
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with pytest.warns(RuntimeWarning, match=r"ready\.objects.*install fastgraph again") as said:
        assert cache.objects(KERNELS, TIER) == [*named().values()]
        assert compiled_now() == []
    assert len(said) == 1


def test_what_can_not_be_read_is_said(quick: None, path: Path) -> None:
    path.mkdir()
    with pytest.warns(RuntimeWarning, match="ready.objects can't be read"):
        assert len(compiled_now()) == len(KERNELS)


def test_an_archive_that_goes_away_is_no_error(quick: None, path: Path) -> None:
    ready.write(path, named(), ORIGIN)
    assert compiled_now() == []
    path.unlink()
    with pytest.warns(RuntimeWarning, match="can't be read"):
        assert len(compiled_now()) == len(KERNELS)


def test_the_same_objects_make_the_same_archive_and_lie_in_it_once(quick: None, path: Path) -> None:
    objects = {name: os.urandom(5000) for name in named()}
    ready.write(path, objects, ORIGIN)
    first = path.read_bytes()
    ready.write(path, dict(reversed(objects.items())), ORIGIN)
    assert path.read_bytes() == first
    one = next(iter(objects.values()))
    ready.write(path, dict.fromkeys(objects, one), ORIGIN)
    assert len(first) - path.stat().st_size > 5000 * (len(objects) - 1)
    assert ready.find(objects) == dict.fromkeys(objects, one)


def test_the_command_shows_what_came_and_compiles_the_rest(
    quick: None, path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "kernels_of", lambda tier: [*KERNELS, Kernel("pad")])
    assert kernels.report(TIERS[0])["ready"] == "none"
    ready.opened.cache_clear()
    ready.write(path, named(), ORIGIN)
    assert main(["kernels", "--isa", "generic", "--build", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ready"] == f"{len(KERNELS)} objects of {path}, made by {ORIGIN}"
    assert [one["kernel"] for one in found["kernels"] if not one["ready"]] == ["pad"]
    assert main(["kernels", "--isa", "generic"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last.split()[1:5] == [str(len(KERNELS) + 1), str(len(KERNELS)), "1", "0"]


def test_an_archive_has_all_kernels_of_its_tiers(quick: None, path: Path) -> None:
    kernels.archive(["avx2", "amx"], path)
    ready.opened.cache_clear()
    for tier in (BY_NAME["avx2"], BY_NAME["amx"]):
        assert all(one["ready"] for one in kernels.report(tier)["kernels"])
    assert not all(one["ready"] for one in kernels.report(BY_NAME["avx512"])["kernels"])
    assert f"for {sys.platform}" in ready.state() and "numba" in ready.state()
    with pytest.raises(FastgraphError, match="avx9 is no tier: choose of generic, avx2"):
        kernels.archive(["avx2", "avx9"], path)


# -- wheels

LOAD = """
import json, sys
sys.modules.update(numba=None, llvmlite=None)
import fastgraph as fg
from fastgraph.demo import MODEL, held_out
fg.load(MODEL, isa="generic", threads=2).run({"image": held_out()[0][0]})
print(fg.__file__)
"""


@pytest.mark.slow
def test_the_first_load_of_a_wheel_with_ready_kernels_compiles_nothing(tmp_path: Path) -> None:
    """In an environment of its own, beside NumPy and the readers of formats, without numba."""
    source = copied(tmp_path / "source")
    wheel = built("wheel", source, tmp_path, ready="generic")
    assert wheel.name.split("-")[2:4] == ["py3", "none"] and not wheel.name.endswith("-any.whl")
    assert wheel.stat().st_size < 4_000_000
    venv.create(tmp_path / "venv", with_pip=True, symlinks=os.name != "nt")
    python = next(path for path in (tmp_path / "venv").glob("*/python*") if path.stem == "python")
    env = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    env["FASTGRAPH_CACHE_DIR"] = str(tmp_path / "never")

    def run(*arguments: str) -> str:
        done = subprocess.run([python, *arguments], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("-m", "pip", "install", "--no-deps", "--no-index", str(wheel))
    (packages,) = (tmp_path / "venv").rglob("site-packages")
    (packages / "zz_others.pth").write_text(sysconfig.get_paths()["purelib"])  # NumPy's
    assert Path(run("-W", "error", "-c", LOAD).strip()).is_relative_to(packages)
    assert not (tmp_path / "never").exists()
    assert "ready with the package: " in (said := run("-m", "fastgraph", "kernels", "--isa", "generic"))
    assert said.split()[-6:-3] == [said.split()[-6]] * 2 + ["0"], "all are ready, none in the cache"

    with ZipFile(built("wheel", source, tmp_path)) as pure:
        assert not [name for name in pure.namelist() if name.endswith(".objects")], "nothing stays from another build"


def test_a_tier_that_is_none_ends_the_build(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        built("wheel", copied(tmp_path / "source"), tmp_path, ready="avx9")
    assert "FASTGRAPH_READY: ready kernels: avx9 is no tier" in failed.value.stderr
