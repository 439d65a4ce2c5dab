"""The object cache: built once, kept, checked, shared; and what it never does: run what it didn't write."""

import inspect
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from fastgraph import RunTimeout, deadline
from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.core.table import rows
from fastgraph.kernels.isa.tiers import BY_NAME
from fastgraph.objects import cache, store, toolchain, trust
from fastgraph.objects.link import link
from fastgraph.runtime.pool import KERNELS as ALL
from fastgraph.runtime.pool import TIER

KERNELS = ALL[::2]
ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
if {block}:
    sys.modules["fastgraph.kernels.core.build"] = None
from fastgraph.objects import cache, link
from fastgraph.runtime import pool
labels = []
kernels = pool.KERNELS[::2]
found = cache.objects(kernels, pool.TIER, lambda done, total, label: labels.append(label))
addresses = link.link(dict(zip([kernel.symbol for kernel in kernels], found)))
assert len(addresses) == 2 and all(addresses.values())
print(len([label for label in labels if label]), bool(sys.modules.get("fastgraph.kernels.core.build")))
"""


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


def test_a_second_process_compiles_nothing_and_needs_no_compiler(place: Path) -> None:
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


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is really compiled: for tests of what becomes of objects."""
    monkeypatch.setattr(store, "compiled", lambda kernel, tier: kernel.symbol.encode())


POSIX = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX permissions")
AS_ROOT = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
SOMEBODY = 54321


@POSIX
@pytest.mark.parametrize("levels", range(1, 4))
def test_a_directory_above_that_others_can_write_is_not_trusted(quick: None, place: Path, levels: int) -> None:
    """They could put another cache in its place. Said once, with what to do; nothing is kept there."""
    cache.objects(KERNELS, TIER)
    open_one = entries(place)[0].parents[levels]
    open_one.chmod(0o777)
    before = {path: path.stat().st_mtime_ns for path in entries(place)}
    with pytest.warns(RuntimeWarning, match=f"write in {open_one}; set FASTGRAPH_CACHE_DIR") as said:
        assert len(labels_of()) == 2
        assert labels_of() == [], "this process keeps them"
    assert len(said) == 1 and before == {path: path.stat().st_mtime_ns for path in entries(place)}
    open_one.chmod(0o1777)
    store._unsaved.clear()
    assert labels_of() == [], "like /tmp"


@AS_ROOT
@pytest.mark.parametrize("levels", range(4))
def test_a_directory_of_somebody_else_is_not_trusted(quick: None, place: Path, levels: int) -> None:
    cache.objects(KERNELS, TIER)
    given = entries(place)[0].parents[levels]
    os.chown(given, SOMEBODY, -1)
    with pytest.warns(RuntimeWarning, match=rf"{given} belongs to another user \(number {SOMEBODY}\)"):
        assert len(labels_of()) == 2


@AS_ROOT
def test_a_link_of_somebody_else_is_not_followed(
    quick: None, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link of one's own is, and what it leads to is held to the same."""
    cache.objects(KERNELS, TIER)
    link = tmp_path / "link"
    link.symlink_to("cache")
    monkeypatch.setenv("FASTGRAPH_CACHE_DIR", str(link))
    assert labels_of() == []
    os.lchown(link, SOMEBODY, -1)
    with pytest.warns(RuntimeWarning, match=f"{link} belongs to another user"):
        assert len(labels_of()) == 2
    store._unsaved.clear(), store._warned.clear()
    os.lchown(link, 0, -1)
    place.chmod(0o777)
    with pytest.warns(RuntimeWarning, match=f"write in {place}"):
        assert len(labels_of()) == 2


def _link_to_copy(path: Path) -> None:
    path.rename(path.with_suffix(".copy"))
    path.symlink_to(path.with_suffix(".copy"))


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


UNSAFE = {
    "somebody's": (lambda path: os.chown(path, SOMEBODY, -1), "belongs to another user"),
    "all write": (lambda path: path.chmod(0o666), "other users can write to"),
    "group writes": (lambda path: path.chmod(0o620), "other users can write to"),
    "a link": (_link_to_copy, "is a symbolic link"),
    "a pipe": (_fifo, "is no plain file"),
}


@POSIX
@pytest.mark.parametrize("fault", UNSAFE)
def test_an_entry_that_others_can_have_written_is_built_again(quick: None, place: Path, fault: str) -> None:
    """Its bytes are right, and yet nobody knows for how long. The new one is as it should be."""
    if fault == "somebody's" and os.geteuid() != 0:
        pytest.skip("only root gives files away")
    cache.objects(KERNELS, TIER)
    spoil, reason = UNSAFE[fault]
    entry = entries(place)[0]
    for path in entries(place):
        spoil(path)
    with pytest.warns(RuntimeWarning, match=f"{entry}.*|{reason}") as said:
        assert len(labels_of()) == 2
    assert len(said) == 1 and reason in str(said[0].message) and "FASTGRAPH_CACHE_DIR" in str(said[0].message)
    assert labels_of() == [] and not store._unsaved
    info = os.lstat(entry)
    assert info.st_mode & 0o177777 == 0o100600 and info.st_uid == os.geteuid()


@POSIX
def test_a_directory_where_an_entry_should_be(quick: None, place: Path) -> None:
    cache.objects(KERNELS, TIER)
    entry = entries(place)[0]
    entry.unlink()
    entry.mkdir()
    with pytest.warns(RuntimeWarning, match="is no plain file"):
        assert len(labels_of()) == 1
    assert labels_of() == []


def test_what_is_checked_is_what_is_read(quick: None, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that is exchanged after it was opened changes nothing."""
    cache.objects(KERNELS, TIER)
    real = os.fstat

    def exchange(handle: int) -> os.stat_result:
        for path in entries(place):
            other = path.with_suffix(".other")
            other.write_bytes(b"something else")
            os.replace(other, path)
        return real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(trust.os, "fstat", exchange)
        assert store.read(store.entry(entries(place)[0].parent, KERNELS[0], TIER), True)
    assert len(labels_of()) == 2


@POSIX
def test_directories_are_made_for_this_user_alone(quick: None, place: Path) -> None:
    before = os.umask(0)
    try:
        cache.objects(KERNELS[:1], TIER)
    finally:
        os.umask(before)
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in (place, *place.rglob("*")) if path.is_dir())
    assert labels_of(KERNELS[:1]) == []


@POSIX
def test_nothing_is_pruned_where_others_write(quick: None, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They could make the directory a link to another one."""
    cache.objects(KERNELS[:1], TIER)
    monkeypatch.setattr(store, "_KEPT_TOOLCHAINS", 0)
    (place / "objects").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="other users"):
        cache.objects(KERNELS, TIER)
    assert len(entries(place)) == 1


def test_without_owners_everything_is_trusted(quick: None, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    cache.objects(KERNELS, TIER)
    entries(place)[0].chmod(0o666)
    monkeypatch.delattr(os, "geteuid", raising=False)
    assert labels_of() == []


# -- what can go wrong meanwhile


def test_a_full_disk(quick: None, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is half written is gone, all but files to lock; this process goes on with what it compiled."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.warns(RuntimeWarning, match="No space left on device; free some room, or set FASTGRAPH_CACHE_DIR"):
            assert len(labels_of()) == 2
        assert labels_of() == []
    assert not [path for path in place.rglob("*") if path.is_file() and path.stat().st_size]


def test_a_cache_that_is_deleted_while_it_is_filled(quick: None, place: Path) -> None:
    seen: list[str] = []

    def delete(done: int, total: int, label: str) -> None:
        shutil.rmtree(place, ignore_errors=True)
        seen.append(label)

    first = cache.objects(KERNELS, TIER, delete)
    assert all(first) and seen == [*map(str, KERNELS), ""] and not place.exists()
    assert len(labels_of()) == 2 and labels_of() == []


def test_a_directory_that_vanishes_under_a_writer(quick: None, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tempfile.mkstemp

    def vanish(**options: Any) -> Any:
        made = real(**options)
        shutil.rmtree(place)
        return made

    monkeypatch.setattr(tempfile, "mkstemp", vanish)
    with pytest.warns(RuntimeWarning, match="can't be kept"):
        assert len(labels_of()) == 2
    assert labels_of() == []


def test_what_a_killed_writer_left_goes_after_a_day(quick: None, place: Path) -> None:
    cache.objects(KERNELS[:1], TIER)
    folder = entries(place)[0].parent
    old, new = folder / ".new-old", folder / ".new-new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1000, 1000))
    cache.objects(KERNELS, TIER)
    assert not old.exists() and new.exists()


def test_a_deadline_ends_a_load_between_two_kernels(quick: None, place: Path) -> None:
    """What was compiled by then is kept."""

    def first_only(done: int, total: int, label: str) -> None:
        if done == 1:
            deadline._mine.end = 0.0

    with deadline.within(1000), pytest.raises(RunTimeout):
        cache.objects([*KERNELS, Kernel("nonsense")], TIER, lambda *args: first_only(*args))
    assert len(entries(place)) == 2
    assert labels_of() == []


def test_old_toolchains_make_room(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_KEPT_TOOLCHAINS", 3)
    for age in range(5):
        old = place / "objects" / f"old{age}"
        old.mkdir(parents=True)
        os.utime(old, (1000 - age, 1000 - age))
    cache.objects(KERNELS[:1], TIER)
    assert {path.name for path in (place / "objects").iterdir()} == {"old0", "old1", "-".join(toolchain.toolchain())}


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
        store.entry(place, kernel, tier),
        store.entry(place, Kernel.of("dot", rows=3), tier),
        store.entry(place, Kernel.of("dot", rows=2.0), tier),
        store.entry(place, Kernel.of("dot2", rows=2), tier),
        store.entry(place, kernel, tier._replace(needs=("avx2",))),
        store.entry(place, kernel, tier._replace(cpu="skylake")),
        store.entry(place, kernel, tier._replace(name="other")),
    }
    assert len(names) == 7

    (tmp_path / "isa").mkdir()
    (tmp_path / "kernel.py").write_text("a = 1")
    monkeypatch.setattr(toolchain, "KERNELS", [str(tmp_path)])
    fresh = toolchain.toolchain.__wrapped__
    toolchains = {fresh(), fresh()}
    assert len(toolchains) == 1
    with monkeypatch.context() as patch:
        patch.setattr(toolchain, "_version", lambda name: b"9")
        toolchains.add(fresh())
        patch.setattr(toolchain, "_version", lambda name: b"9" * (name == "numba"))
        assert fresh()[1] == ""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "version_info", (3, 99, 0))
        assert fresh()[0] == next(iter(toolchains))[0], "a ready object is for any Python"
        toolchains.add(fresh())
    (tmp_path / "isa" / "more.py").write_text("")
    toolchains.add(fresh())
    (tmp_path / "kernel.py").write_text("a = 2")
    toolchains.add(fresh())
    (tmp_path / "isa" / "more.py").rename(tmp_path / "more.py")
    toolchains.add(fresh())
    assert len(toolchains) == 6


def test_the_sources_of_every_kernel_name_the_toolchain() -> None:
    sources = toolchain._sources(toolchain.KERNELS[0])
    for row in rows().values():
        assert inspect.getsourcefile(inspect.unwrap(row.make())) in sources, row.name


def test_versions_are_those_of_the_packages() -> None:
    import llvmlite
    import numba

    assert llvmlite.__version__.encode() in toolchain._version("llvmlite")
    assert numba.__version__.encode() in toolchain._version("numba")
    assert toolchain._version("no_such_package_here") == b""


@pytest.mark.parametrize(
    ("system", "env", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/fastgraph"),
        ("linux", {}, "/home/me/.cache/fastgraph"),
        ("darwin", {}, "/home/me/Library/Caches/fastgraph"),
        ("linux", {"FASTGRAPH_CACHE_DIR": "/mine"}, "/mine"),
        ("linux", {"FASTGRAPH_CACHE_DIR": "~/mine"}, "/home/me/mine"),
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
    assert str(toolchain.directory()) == expected


@pytest.mark.skipif(os.name != "posix", reason="POSIX paths")
def test_a_user_without_a_home_keeps_objects_among_temporary_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "FASTGRAPH_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert toolchain.directory() == tmp_path / f"fastgraph-{os.geteuid()}"
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert str(toolchain.directory()) == "/caches/fastgraph"


def test_a_cached_object_links_and_runs(place: Path) -> None:
    found = dict(zip([kernel.symbol for kernel in KERNELS], cache.objects(KERNELS, TIER), strict=True))
    assert link(found) == link(found)
