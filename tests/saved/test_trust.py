"""Whose machine code is run: of files that only this user or the system's owner can have written, or as he says."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.saved.test_save import layer

POSIX = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX permissions")
SOMEBODY = 54321
SAYS = "holds machine code, which is not run, as .*: if you trust .* trusted=True, or set FASTGRAPH_TRUST=1"


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FASTGRAPH_TRUST", raising=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in a folder of its own, which is nobody's but this user's."""
    folder = tmp_path / "models"
    folder.mkdir(mode=0o755)
    layer().load().save(folder / "m.fgm")
    (folder / "m.fgm").chmod(0o644)
    return folder / "m.fgm"


def distrusted(path: Any, why: str = "") -> None:
    """It is refused, and for one who trusts it, it runs."""
    with pytest.raises(fg.InputError, match=SAYS) as found:
        fg.load(path)
    assert why in str(found.value)
    assert runs(fg.load(path, trusted=True))


def runs(model: fg.Model) -> bool:
    return bool(np.isfinite(model(np.ones((2, 8), np.float32))).all())


def test_a_file_of_ones_own(path: Path) -> None:
    for trusted in (None, True):
        assert runs(fg.load(path, trusted=trusted))
    with pytest.raises(fg.InputError, match="trusted=False: if you trust"):
        fg.load(path, trusted=False)


def test_bytes_come_from_anywhere(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = path.read_bytes()
    distrusted(data, "nobody can tell who wrote them")
    assert runs(fg.load(memoryview(data), trusted=True))  # type: ignore[arg-type]
    with pytest.raises(fg.InputError, match="trusted=False"):
        fg.load(data, trusted=False)
    monkeypatch.setenv("FASTGRAPH_TRUST", "1")
    assert runs(fg.load(data))
    with pytest.raises(fg.InputError, match="trusted=False"):
        fg.load(data, trusted=False)
    monkeypatch.setenv("FASTGRAPH_TRUST", "0")
    with pytest.raises(fg.InputError, match=SAYS):
        fg.load(data)


@pytest.mark.parametrize("wrong", ["yes", "", 1, 0, [], object()])
def test_trust_is_said_clearly(wrong: Any, path: Path) -> None:
    with pytest.raises(fg.InputError, match="expected True, False or None"):
        fg.load(path, trusted=wrong)


@POSIX
@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646, 0o622])
def test_a_file_that_others_can_write(mode: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.chmod(mode)
    distrusted(path, f"other users can write to {path}")
    monkeypatch.setenv("FASTGRAPH_TRUST", "1")
    assert runs(fg.load(path))


@POSIX
def test_a_folder_that_others_can_write(path: Path) -> None:
    path.parent.chmod(0o777)
    distrusted(path, f"other users can write in {path.parent}")
    path.parent.chmod(0o1777)  # as /tmp: they can't touch this file
    assert runs(fg.load(path))
    path.parent.chmod(0o755)
    path.parent.parent.chmod(0o777)
    distrusted(path, f"other users can write in {path.parent.parent}")
    path.parent.parent.chmod(0o700)


def seen_by(user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this process were somebody's."""
    monkeypatch.setattr("fastgraph.objects.trust.os.geteuid", lambda: user)


@POSIX
def test_a_file_of_another_user(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root's files are the system's; root himself trusts nobody else's."""
    mine = os.geteuid()
    if mine != 0:
        seen_by(SOMEBODY, monkeypatch)
        distrusted(path, f"belongs to another user (number {mine})")
        return
    seen_by(SOMEBODY, monkeypatch)
    assert runs(fg.load(path))
    monkeypatch.undo()
    os.chown(path, SOMEBODY, SOMEBODY)
    distrusted(path, f"{path} belongs to another user (number {SOMEBODY})")
    seen_by(SOMEBODY, monkeypatch)
    assert runs(fg.load(path))
    seen_by(SOMEBODY + 1, monkeypatch)
    distrusted(path, "belongs to another user")
    monkeypatch.undo()
    os.chown(path, 0, 0)
    os.chown(path.parent, SOMEBODY, SOMEBODY)
    distrusted(path, f"{path.parent} belongs to another user (number {SOMEBODY})")


@POSIX
def test_symbolic_links_lead_to_the_file_that_counts(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.fgm"
    link.symlink_to(path)
    assert runs(fg.load(link))
    path.chmod(0o666)
    distrusted(link, f"other users can write to {path}")
    path.chmod(0o644)
    (tmp_path / "models2").symlink_to(path.parent)
    assert runs(fg.load(tmp_path / "models2" / "m.fgm"))
    path.unlink()
    with pytest.raises(FileNotFoundError):
        fg.load(link)


@POSIX
@pytest.mark.parametrize("make", [os.mkfifo if hasattr(os, "mkfifo") else None, os.mkdir])
def test_what_is_no_plain_file(make: Callable[[str], None], tmp_path: Path) -> None:
    """Nobody waits for one who writes into a pipe."""
    make(str(tmp_path / "m.fgm"))
    with pytest.raises(fg.FastgraphError):
        fg.load(tmp_path / "m.fgm", trusted=True)


@POSIX
def test_a_file_that_changes_places_after_the_first_look(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is checked is what is mapped, and not what the name stands for by then."""
    from fastgraph.objects import trust

    real, bad = trust.check_file, path.read_bytes()

    def swapped(handle: int, name: Any) -> None:
        real(handle, name)
        path.unlink()
        path.write_bytes(b"others" + bad)

    monkeypatch.setattr(trust, "check_file", swapped)
    assert runs(fg.load(path))


@POSIX
def test_where_there_are_no_owners_all_is_trusted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.chmod(0o666)
    from fastgraph.objects import trust

    here = SimpleNamespace(**{name: getattr(os, name) for name in dir(os) if name != "geteuid"})
    monkeypatch.setattr(trust, "os", here)
    assert runs(fg.load(path)) and sys.platform
