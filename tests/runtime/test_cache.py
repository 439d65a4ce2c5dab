"""The object cache: built once, kept, checked, shared; and what it never does: run what it didn't write."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fastgraph.kernels.isa.tiers import BY_NAME
from fastgraph.kernels.kernel import Kernel
from fastgraph.runtime import cache
from fastgraph.runtime.link import link
from fastgraph.runtime.pool import KERNELS as ALL
from fastgraph.runtime.pool import TIER

KERNELS = ALL[::2]
ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
if {block}:
    sys.modules["numba"] = None
from fastgraph.runtime import cache, link, pool
labels = []
kernels = pool.KERNELS[::2]
found = cache.objects(kernels, pool.TIER, lambda done, total, label: labels.append(label))
addresses = link.link(dict(zip([kernel.symbol for kernel in kernels], found)))
assert len(addresses) == 2 and all(addresses.values())
print(len([label for label in labels if label]), bool(sys.modules.get("numba")))
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache directory, and nothing remembered."""
    monkeypatch.setenv("FASTGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_unsaved", {})
    monkeypatch.setattr(cache, "_said", [])
    yield tmp_path / "cache"


def labels_of(kernels: tuple[Kernel, ...] = KERNELS) -> list[str]:
    """What had to be compiled."""
    labels: list[str] = []
    cache.objects(kernels, TIER, lambda done, total, label: labels.append(label))
    return [label for label in labels if label]


def entries(place: Path) -> list[Path]:
    return sorted(place.glob("objects/*/*.o"))


def spawn(block: bool = False) -> subprocess.Popen:
    command = [sys.executable, "-c", SCRIPT.format(block=block)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=ROOT)


def finish(process: subprocess.Popen) -> str:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out.strip()


def test_a_second_process_compiles_nothing_and_needs_no_numba(place: Path) -> None:
    assert finish(spawn()) == "2 True"
    assert finish(spawn(block=True)) == "0 False"
    assert len(entries(place)) == 2


def test_concurrent_writers_agree(place: Path) -> None:
    processes = [spawn() for _ in range(3)]
    for process in processes:
        finish(process)
    assert len(entries(place)) == 2
    assert not [path for path in place.rglob(".new-*")]
    assert labels_of() == []


def test_only_what_is_missing_is_compiled(place: Path) -> None:
    assert labels_of() == [str(kernel) for kernel in KERNELS]
    assert labels_of() == []
    entries(place)[0].unlink()
    assert labels_of() == [str(KERNELS[0])]


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "longer", "swapped", "text"])
def test_a_damaged_entry_is_built_again(place: Path, damage: str) -> None:
    good = dict(zip(KERNELS, cache.objects(KERNELS, TIER), strict=True))
    first, second = entries(place)
    data = first.read_bytes()
    at = len(data) // 2
    first.write_bytes(
        {
            "cut": data[:at],
            "empty": b"",
            "flipped": data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :],
            "longer": data + b"\0",
            "swapped": second.read_bytes(),
            "text": b"hello" * 100,
        }[damage]
    )
    assert labels_of() == [str(KERNELS[0])]
    rebuilt = dict(zip(KERNELS, cache.objects(KERNELS, TIER), strict=True))
    assert rebuilt[KERNELS[1]] == good[KERNELS[1]]
    assert len(rebuilt[KERNELS[0]]) == len(good[KERNELS[0]])
    assert link({kernel.symbol: obj for kernel, obj in rebuilt.items()})


def test_what_cannot_be_kept_is_built_once_per_process_with_a_warning(place: Path) -> None:
    place.write_text("a file where the directory should be")
    with pytest.warns(RuntimeWarning, match="FASTGRAPH_CACHE_DIR"):
        first = cache.objects(KERNELS, TIER)
    assert labels_of() == []
    assert cache.objects(KERNELS, TIER) == first


def test_a_read_only_directory_still_serves(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.objects(KERNELS[:1], TIER)

    def refuse(**_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.warns(RuntimeWarning, match="Read-only file system"):
        assert labels_of() == [str(KERNELS[1])]
    assert labels_of() == []


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX permissions")
def test_a_directory_that_others_can_write_is_not_trusted(place: Path) -> None:
    cache.objects(KERNELS, TIER)
    folder = entries(place)[0].parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in entries(place))
    folder.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="other users"):
        assert len(labels_of()) == 2


def test_old_toolchains_make_room(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_KEPT_TOOLCHAINS", 3)
    for age in range(5):
        old = place / "objects" / f"old{age}"
        old.mkdir(parents=True)
        os.utime(old, (1000 - age, 1000 - age))
    cache.objects(KERNELS[:1], TIER)
    assert {path.name for path in (place / "objects").iterdir()} == {"old0", "old1", cache.toolchain()}


def test_a_failing_compile_leaves_the_line_clean_and_raises(place: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    with pytest.raises(KeyError, match="no kernel is called 'nonsense'"):
        cache.objects([Kernel("nonsense")], TIER, lambda *args: seen.append(args))
    assert seen == [(0, 1, "nonsense()"), (1, 1, "")]


def test_what_names_an_entry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sources, versions, flags, scheduling, kernel and parameters each make another entry."""
    place = Path("x")
    kernel, tier = Kernel.of("dot", rows=2), BY_NAME["avx2"]
    names = {
        cache._entry(place, kernel, tier),
        cache._entry(place, Kernel.of("dot", rows=3), tier),
        cache._entry(place, Kernel.of("dot", rows=2.0), tier),
        cache._entry(place, Kernel.of("dot2", rows=2), tier),
        cache._entry(place, kernel, replace(tier, needs=("avx2",))),
        cache._entry(place, kernel, replace(tier, cpu="skylake")),
        cache._entry(place, kernel, replace(tier, name="other")),
    }
    assert len(names) == 7

    (tmp_path / "isa").mkdir()
    (tmp_path / "kernel.py").write_text("a = 1")
    monkeypatch.setattr(cache._kernel, "__file__", str(tmp_path / "kernel.py"))
    fresh = cache.toolchain.__wrapped__
    toolchains = {fresh(), fresh()}
    assert len(toolchains) == 1
    for package in ("numba", "llvmlite"):
        with monkeypatch.context() as patch:
            real = cache._version
            other = {package: b"9"}
            patch.setattr(cache, "_version", lambda name, o=other, r=real: o.get(name) or r(name))
            toolchains.add(fresh())
    (tmp_path / "isa" / "more.py").write_text("")
    toolchains.add(fresh())
    (tmp_path / "kernel.py").write_text("a = 2")
    toolchains.add(fresh())
    (tmp_path / "isa" / "more.py").rename(tmp_path / "more.py")
    toolchains.add(fresh())
    assert len(toolchains) == 6


def test_versions_are_those_of_the_packages() -> None:
    import llvmlite
    import numba

    assert numba.__version__.encode() in cache._version("numba")
    assert llvmlite.__version__.encode() in cache._version("llvmlite")
    assert cache._version("no_such_package_here") == b""


@pytest.mark.parametrize(
    ("system", "env", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/fastgraph"),
        ("linux", {}, "/home/me/.cache/fastgraph"),
        ("darwin", {}, "/home/me/Library/Caches/fastgraph"),
        ("linux", {"FASTGRAPH_CACHE_DIR": "/mine"}, "/mine"),
    ],
)
@pytest.mark.skipif(os.name != "posix", reason="POSIX paths")
def test_where_objects_are_kept(
    monkeypatch: pytest.MonkeyPatch, system: str, env: dict[str, str], expected: str
) -> None:
    for name in ("XDG_CACHE_HOME", "FASTGRAPH_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **env}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", system)
    assert str(cache.directory()) == expected


def test_a_cached_object_links_and_runs(place: Path) -> None:
    found = dict(zip([kernel.symbol for kernel in KERNELS], cache.objects(KERNELS, TIER), strict=True))
    assert link(found) == link(found)
