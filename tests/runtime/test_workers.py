"""Several processes compile what one load misses."""

import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from fastgraph import RunTimeout, deadline
from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.core.table import kernels_of, row
from fastgraph.kernels.isa.tiers import BY_NAME
from fastgraph.objects import cache, store, turns, workers
from fastgraph.objects.cache import _ordered as ordered

TIER = BY_NAME["generic"]
KERNELS = [kernel for kernel in kernels_of(TIER) if row(kernel.name).family == "move"][:4]
Started = list[subprocess.Popen[bytes]]


pytestmark = pytest.mark.usefixtures("place")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """Two CPUs, and two kernels are worth a worker; those that were started."""
    found: Started = []
    real = subprocess.Popen

    def start(*args: Any, **more: Any) -> subprocess.Popen[bytes]:
        found.append(real(*args, **more))
        return found[-1]

    monkeypatch.setattr(workers, "default_threads", lambda: 2)
    monkeypatch.setattr(turns, "_cpus", lambda: [0, 1])
    monkeypatch.setattr(workers, "WORTH", 2)
    monkeypatch.setattr(subprocess, "Popen", start)
    return found


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> list[Kernel]:
    """What this process compiles."""
    found: list[Kernel] = []
    real = store.compiled
    monkeypatch.setattr(store, "compiled", lambda kernel, tier: found.append(kernel) or real(kernel, tier))
    return found


def all_of(kernels: list[Kernel], made: list[bytes]) -> bool:
    return all(kernel.symbol.encode() in obj for kernel, obj in zip(kernels, made, strict=True))


def nobody_is_left(started: Started) -> bool:
    threads = [thread.name for thread in threading.enumerate()]
    return all(worker.returncode is not None for worker in started) and "fastgraph compiles" not in threads


def wait_for_a_worker(monkeypatch: pytest.MonkeyPatch, own: list[Kernel]) -> None:
    """This process takes one kernel only: the worker gets the others."""
    take = workers.Crew.take
    monkeypatch.setattr(workers.Crew, "take", lambda crew: None if own else take(crew))


def test_workers_are_as_many_as_are_worth_it_and_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "default_threads", lambda: 4)
    monkeypatch.setattr(workers, "free_memory", lambda: None)
    assert [workers.count(n) for n in (0, 3, 6, 9, 12, 1000)] == [0, 0, 1, 2, 3, 3]
    monkeypatch.setattr(workers, "free_memory", lambda: 3 * workers.MEMORY)
    assert workers.count(1000) == 2
    monkeypatch.setattr(workers, "free_memory", lambda: 0)
    assert workers.count(1000) == 0
    monkeypatch.setattr(workers, "free_memory", lambda: 1 << 40)
    monkeypatch.setattr(workers, "default_threads", lambda: 500)
    assert workers.count(1000) == workers.MOST - 1
    monkeypatch.setattr(sys, "executable", "/opt/some/app")
    assert workers.count(1000) == 0


def test_a_worker_takes_its_share(started: Started, own: list[Kernel], monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for_a_worker(monkeypatch, own)
    made = cache.objects(KERNELS, TIER)
    assert len(started) == 1 and len(own) == 1 and all_of(KERNELS, made)
    assert nobody_is_left(started)
    place = store.folder()
    assert all(store.read(store.entry(place, kernel, TIER), True) for kernel in KERNELS), "all are kept"
    assert cache.objects(KERNELS, TIER) == made and len(started) == 1


def test_what_a_worker_makes_serves_without_a_folder(
    started: Started, own: list[Kernel], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A cache that can't be written: nothing is compiled twice."""
    file = tmp_path / "file"
    file.write_text("where the directory should be")
    monkeypatch.setenv("FASTGRAPH_CACHE_DIR", str(file))
    wait_for_a_worker(monkeypatch, own)
    with pytest.warns(RuntimeWarning, match="FASTGRAPH_CACHE_DIR"):
        made = cache.objects(KERNELS, TIER)
    assert len(own) == 1 and all_of(KERNELS, made)
    assert cache.objects(KERNELS, TIER) == made and len(started) == 1


@pytest.mark.parametrize(
    "worker",
    [
        "import time; time.sleep(1000)",
        "import sys; sys.stdin.buffer.read()",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "raise SystemExit(1)",
        "print('hello')",
        "import pickle, sys; sys.stdout.buffer.write(pickle.dumps(None)); sys.stdout.flush(); sys.stdin.buffer.read()",
    ],
    ids=["sleeps", "only listens", "is killed", "fails", "talks nonsense", "can't compile"],
)
def test_what_a_worker_leaves_undone_is_done_here(
    worker: str, started: Started, own: list[Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no worker is left behind."""
    monkeypatch.setattr(workers, "PATIENCE", 0.3)
    monkeypatch.setattr(workers, "_WORKER", worker)
    assert all_of(KERNELS, cache.objects(KERNELS, TIER))
    assert len(started) == 1 and sorted(map(str, own)) == sorted(map(str, KERNELS)) and nobody_is_left(started)


def test_a_kernel_that_no_worker_can_compile_raises_here(started: Started, own: list[Kernel]) -> None:
    kernels = [*KERNELS, *(Kernel.of("nonsense", n=n) for n in range(4))]
    with pytest.raises(KeyError, match="no kernel is called 'nonsense'"):
        cache.objects(kernels, TIER)
    assert nobody_is_left(started)
    assert all_of(KERNELS, cache.objects(KERNELS, TIER))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RunTimeout])
def test_a_load_that_ends_early_leaves_no_worker_and_keeps_what_was_made(
    error: type[BaseException], started: Started, own: list[Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for_a_worker(monkeypatch, own)
    finished = workers.Crew.finished

    def stop(crew: workers.Crew, wait: float) -> Any:
        for kernel, obj in finished(crew, wait):
            yield kernel, obj
            if wait and error is KeyboardInterrupt:
                raise KeyboardInterrupt
            deadline._mine.end = 0.0

    monkeypatch.setattr(workers.Crew, "finished", stop)
    with deadline.within(1000), pytest.raises(error):
        cache.objects(KERNELS, TIER)
    assert nobody_is_left(started)
    place = store.folder()
    kept = [kernel for kernel in KERNELS if store.read(store.entry(place, kernel, TIER), True)]
    assert own[0] in kept and len(kept) >= 2
    monkeypatch.undo()


def test_an_interrupt_between_two_kernels(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_WORKER", "import time; time.sleep(1000)")

    def interrupt(done: int, total: int, label: str) -> None:
        if label:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.objects(KERNELS, TIER, interrupt)
    assert len(started) == 1 and nobody_is_left(started)
    assert cache.objects(KERNELS[:1], TIER), "the next load works"


def _no_process(*args: object, **more: object) -> None:
    raise PermissionError("no processes here")


def _no_thread(*args: object, **more: object) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("what", ["process", "thread"])
def test_no_worker_to_be_had(what: str, started: Started, own: list[Kernel], monkeypatch: pytest.MonkeyPatch) -> None:
    if what == "process":
        monkeypatch.setattr(subprocess, "Popen", _no_process)
    else:
        monkeypatch.setattr(threading.Thread, "start", _no_thread)
    assert all_of(KERNELS, cache.objects(KERNELS, TIER)) and len(own) == len(KERNELS)
    assert nobody_is_left(started)


def worker(code: str = "") -> subprocess.Popen[bytes]:
    """A worker that has heard its path and tier, after more code than it usually runs."""
    pipe = subprocess.PIPE
    found = subprocess.Popen([sys.executable, "-c", code + workers._WORKER], stdin=pipe, stdout=pipe)
    for each in (sys.path, "generic"):
        workers._send(found.stdin, each)
    return found


def test_a_worker_compiles_what_it_is_told_until_there_is_no_more() -> None:
    with worker() as process:
        assert process.stdin is not None and process.stdout is not None
        for each in (KERNELS[0], Kernel("nonsense"), KERNELS[1]):
            workers._send(process.stdin, each)
        first, none, second = (pickle.load(process.stdout) for _ in range(3))
        process.stdin.close()
        assert process.wait(60) == 0
    assert none is None and all_of(KERNELS[:2], [first, second])


def test_a_worker_ends_with_its_parent_in_the_midst_of_a_kernel() -> None:
    """A parent that is killed closes the pipe; nothing else tells a worker."""
    endless = "import time; from fastgraph.objects import store; store.compiled = lambda *_: time.sleep(1000); "
    with worker(endless) as process:
        assert process.stdin is not None
        workers._send(process.stdin, KERNELS[0])
        process.stdin.close()
        assert process.wait(60) == 0


def test_products_come_first() -> None:
    """They take longest, and nobody shall wait for one at the end. Else processes begin with different ones."""
    dot, (a, b, c, d) = Kernel.of("dot", nv=1), KERNELS
    assert ordered([*KERNELS, dot], 2) == [dot, c, d, a, b]
    assert ordered([*KERNELS, dot], 15) == [dot, *KERNELS] and not ordered([], 15)


@pytest.mark.parametrize("hired", [0, 2])
def test_what_another_process_made_meanwhile_is_not_compiled(
    hired: int, started: Started, own: list[Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the search for all and the turn of each."""
    for kernel in KERNELS:
        store.keep(kernel, TIER, kernel.symbol.encode())
    monkeypatch.setattr(store, "find", lambda kernels, tier: [None] * len(kernels))
    monkeypatch.setattr(workers, "count", lambda kernels: hired)
    monkeypatch.setattr(turns, "_cpus", lambda: [0, 1, 2])
    if hired:
        monkeypatch.setattr(workers.Crew, "take", lambda crew: None)
    sent: list[Any] = []
    monkeypatch.setattr(workers, "_send", lambda pipe, what: sent.append(what))
    assert all_of(KERNELS, cache.objects(KERNELS, TIER))
    assert not own and not [each for each in sent if isinstance(each, Kernel)] and nobody_is_left(started)
