"""Several processes compile what one load misses."""

from __future__ import annotations

import pickle
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest

from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.isa.tiers import BY_NAME
from fastgraph.objects import cache, store, workers

TIER = BY_NAME["generic"]
KERNELS = [Kernel.of("copy", mode="run", itemsize=size) for size in (1, 2, 4, 8)]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTGRAPH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(store, "_unsaved", {})
    monkeypatch.setattr(store, "_said", [])


def test_work_is_dealt_out_whole_and_only_where_it_is_worth_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "default_threads", lambda: 4)
    many = [Kernel("copy", (("itemsize", i),)) for i in range(19)]
    dealt = workers.shares(many)
    assert len(dealt) == 4 and sorted(str(k) for share in dealt for k in share) == sorted(map(str, many))
    assert workers.shares(many[:7]) == [many[:7]] and workers.shares([]) == [[]]
    monkeypatch.setattr(sys, "executable", "/opt/some/app")
    assert workers.shares(many) == [many]


def test_workers_leave_the_same_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "default_threads", lambda: 2)
    monkeypatch.setattr(workers, "WORTH", 2)
    compiled = []
    keep = store.keep
    monkeypatch.setattr(store, "keep", lambda kernel, tier: compiled.append(kernel) or keep(kernel, tier))
    together = cache.objects(KERNELS, TIER)
    assert compiled == KERNELS[::2], "the other half came from the worker"
    assert all(kernel.symbol.encode() in obj for kernel, obj in zip(KERNELS, together, strict=True))


def test_a_worker_that_dies_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "default_threads", lambda: 2)
    monkeypatch.setattr(workers, "WORTH", 2)
    monkeypatch.setattr(workers, "_WORKER", "import os; os._exit(3)")
    assert all(cache.objects(KERNELS, TIER))


@pytest.mark.parametrize(
    "worker",
    ["import time; time.sleep(1000)", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "raise SystemExit(1)"],
    ids=["hangs", "is killed", "fails"],
)
def test_what_a_worker_leaves_undone_is_done_here(worker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no worker is left behind."""
    monkeypatch.setattr(workers, "default_threads", lambda: 2)
    monkeypatch.setattr(workers, "WORTH", 2)
    monkeypatch.setattr(workers, "PATIENCE", 0.1)
    monkeypatch.setattr(workers, "_WORKER", worker)
    start, called = workers.start, []
    monkeypatch.setattr(workers, "start", lambda *args: called.append(start(*args)) or called[-1])
    assert all(cache.objects(KERNELS, TIER))
    assert len(called) == 1 and called[0].returncode is not None


def test_an_interrupted_load_leaves_no_worker_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "default_threads", lambda: 2)
    monkeypatch.setattr(workers, "WORTH", 2)
    monkeypatch.setattr(workers, "_WORKER", "import time; time.sleep(1000)")
    start, called = workers.start, []
    monkeypatch.setattr(workers, "start", lambda *args: called.append(start(*args)) or called[-1])

    def interrupt(done: int, total: int, label: str) -> None:
        if label:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.objects(KERNELS, TIER, interrupt)
    assert called[0].returncode is not None
    assert cache.objects(KERNELS[:1], TIER), "the next load works"


def test_no_worker_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **more: object) -> None:
        raise PermissionError("no processes here")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert workers.start(KERNELS, TIER) is None


def test_a_worker_compiles_what_it_is_told() -> None:
    workers.work(BytesIO(pickle.dumps(("generic", KERNELS[:1]))))
    place = store.folder()
    assert store.read(store.entry(place, KERNELS[0], TIER), True)
