"""No more processes compile at once than there are CPUs; nobody waits for one that is gone or does nothing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fastgraph import RunTimeout, deadline
from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.core.table import kernels_of, row
from fastgraph.kernels.isa.tiers import BY_NAME
from fastgraph.objects import cache, store, turns
from fastgraph.objects.turns import Turns

pytest.importorskip("fcntl")
pytestmark = pytest.mark.usefixtures("place")
TIER = BY_NAME["generic"]
KERNELS = [kernel for kernel in kernels_of(TIER) if row(kernel.name).family == "move"][:2]
HOLD = """
import sys, time
from pathlib import Path
from fastgraph.objects import turns
turns._cpus = lambda: [0, 1]
held = turns.Turns(Path(sys.argv[1]))
assert held.take() and held.take() and not held.take()
print("held", flush=True)
"""
MAKE = """
from fastgraph.kernels.core.table import kernels_of, row
from fastgraph.kernels.isa.tiers import BY_NAME
from fastgraph.objects import store
tier = BY_NAME["generic"]
for kernel in [kernel for kernel in kernels_of(tier) if row(kernel.name).family == "move"][:2]:
    time.sleep(0.3)
    store.keep(kernel, tier, kernel.symbol.encode())
"""


@pytest.fixture(autouse=True)
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_cpus", lambda: [0, 1])


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> list[Kernel]:
    """What this process compiles."""
    found: list[Kernel] = []
    monkeypatch.setattr(store, "compiled", lambda kernel, tier: found.append(kernel) or kernel.symbol.encode())
    return found


@contextmanager
def another(code: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process that has both turns, does something, and sleeps."""
    store.prepare(store.folder())
    command = [sys.executable, "-c", f"{HOLD}{code}\ntime.sleep(1000)", str(store.folder())]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_what_others_make_is_waited_for(own: list[Kernel]) -> None:
    with another(MAKE):
        assert cache.objects(KERNELS, TIER) == [kernel.symbol.encode() for kernel in KERNELS] and not own


def test_a_process_that_was_killed_has_no_turn() -> None:
    with another() as process:
        mine = Turns(store.folder())
        assert not mine.take() and mine.wait()
        process.kill()
        process.wait()
        assert mine.take() and mine.take() and not mine.take()
        mine.close()


def test_one_process_goes_on_soon_where_nobody_makes_its_kernels(
    own: list[Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "SOON", 0.2)
    with another():
        assert len(cache.objects(KERNELS[:1], TIER)) == len(own) == 1
        first = Turns(store.folder())
        while first.wait():
            pass
        assert not first.take(), "its workers have no turn"
        code = f"{HOLD.partition('assert')[0]}turns.SOON = 0\nprint(held.take())"
        done = subprocess.run([sys.executable, "-c", code, str(store.folder())], capture_output=True, text=True)
        assert done.stdout == "False\n", done.stderr
        first.close()


def test_a_process_that_is_stopped_is_not_waited_for(own: list[Kernel], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE", 0.2)
    with another() as process:
        process.send_signal(signal.SIGSTOP)
        assert len(cache.objects(KERNELS, TIER)) == len(own) == 2


def test_waiting_has_the_time_limit_of_a_load(own: list[Kernel]) -> None:
    with another(), deadline.within(0.2), pytest.raises(RunTimeout):
        cache.objects(KERNELS, TIER)
    assert not own


def test_a_forked_child_has_no_turn_of_its_parent() -> None:
    store.prepare(store.folder())
    mine = Turns(store.folder())
    assert mine.take() and mine.take()
    child = os.fork()
    if not child:
        os._exit(int(Turns(store.folder()).take()))
    assert os.waitpid(child, 0)[1] == 0
    mine.close()


def test_without_files_to_lock_all_go_on(tmp_path: Path) -> None:
    assert Turns(tmp_path / "nowhere").take() and not Turns(tmp_path / "nowhere").wait()
