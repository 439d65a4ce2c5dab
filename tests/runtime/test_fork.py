"""A process may fork while its other threads run, load or compile: the child can do all that too."""

import ast
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import _bootstrap  # type: ignore[attr-defined]
from pathlib import Path

import pytest

from fastgraph import locks
from tests.nets import Net

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
ROOT = Path(__file__).parents[2]

COMMON = """
import os, signal, sys, threading, time
import numpy as np
def child(work, seconds=60):
    "Fork; the child does `work`, and is killed if that takes too long. Its number."
    number = os.fork()
    if number: return number
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    try:
        os._exit(0 if work() else 1)
    finally:
        os._exit(2)
def ended(*children):
    found = [os.waitpid(number, 0)[1] for number in children]
    assert not any(found), f"children ended with {found}"
"""


def script(code: str, *args: str, given: bytes = b"", **env: str) -> None:
    command = [sys.executable, "-c", COMMON + code, *args]
    done = subprocess.run(command, input=given, capture_output=True, timeout=240, cwd=ROOT, env=os.environ | env)
    assert done.returncode == 0 and done.stdout == b"done\n", done.stderr.decode()


BUSY = """
from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.kernels.isa.tiers import choose
from fastgraph.runtime import pool
from fastgraph.runtime.model import Model
pool.WORTH_WAKING = 0
first = last = Value("x", TensorType(np.dtype(np.float32), (64, 256)))
nodes, w = [], Value.constant("w", np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32) / 16)
for i in range(12):
    nodes.append(Node("matmul", [last, w], [last := Value(f"v{i}")]))
model = Model(Graph("busy", [first], [last], nodes), choose(), int(sys.argv[1]))
x = np.random.default_rng(1).standard_normal((64, 256)).astype(np.float32)
expected = model(x)
def right(): return (model(x) == expected).all() and (model(x, timeout=1000) == expected).all()
"""

DURING_A_RUN = """
over = False
def work(timeout):
    while not over: assert (model(x, timeout=timeout) == expected).all()
threads = [threading.Thread(target=work, args=(timeout,)) for timeout in (None, 1000)]
for thread in threads: thread.start()
def with_a_child_of_its_own():
    ended(child(right))
    return right()
for _ in range(6):
    time.sleep(.01)
    ended(child(right), child(with_a_child_of_its_own))
over = True
for thread in threads: thread.join()
assert right()
print("done")
"""

POOL = """
import multiprocessing
over = False
def work():
    while not over: model(x)
def same(i): return bool(right())
thread = threading.Thread(target=work)
thread.start()
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map_async(same, range(6)).get(100) == [True] * 6
over = True
thread.join()
print("done")
"""

AT_THE_FIRST_LOAD = """
import fastgraph as fg
source = sys.stdin.buffer.read()
def load():
    model = fg.load(source, threads=2)
    return model(np.array([-1, 2], np.float32)).tolist() == [0, 2]
right = []
thread = threading.Thread(target=lambda: right.append(load()))
thread.start()
children = []
while thread.is_alive() and len(children) < 6:
    children.append(child(load, 200))
    thread.join(.15)
ended(*children)
thread.join()
assert right == [True]
print("done")
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_fork_during_runs(threads: str) -> None:
    """Of other threads, with and without timeouts; and a fork of the child."""
    script(BUSY + DURING_A_RUN, threads)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_pool_of_forked_processes(threads: str) -> None:
    script(BUSY + POOL, threads)


@pytest.mark.slow
def test_forks_during_the_first_load(tmp_path: Path) -> None:
    """While another thread imports, compiles and links; the children begin with what it had done by then."""
    net = Net()
    net.output(net("Relu", net.input("x", (2,))))
    script(AT_THE_FIRST_LOAD, given=net.bytes(), FASTGRAPH_CACHE_DIR=str(tmp_path))


# -- locks


def in_child(check: Callable[[], bool]) -> bool:
    """What a check says in a forked child."""
    number = os.fork()
    if not number:
        try:
            os._exit(0 if check() else 1)
        finally:
            os._exit(2)
    return os.waitpid(number, 0)[1] == 0


def free(some: object) -> bool:
    """Whether another thread can have the lock."""
    found: list[bool] = []

    def take() -> None:
        found.append(some.acquire(timeout=0))  # type: ignore[attr-defined]
        if found[0]:
            some.release()  # type: ignore[attr-defined]

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return found == [True]


def test_a_lock_that_another_thread_holds_is_free_in_the_child() -> None:
    taken, over = locks.lock(), threading.Event()

    def hold() -> None:
        with taken:
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        while free(taken):
            time.sleep(0.001)
        assert in_child(lambda: free(taken)) and not free(taken)
        assert in_child(lambda: in_child(lambda: free(taken)))
    finally:
        over.set()
        thread.join()


def test_a_lock_of_the_forking_thread_stays_held() -> None:
    taken = locks.lock()
    with taken:
        assert in_child(lambda: not free(taken) and locks.held(taken) and taken.release() is None and free(taken))
        assert locks.held(taken)
    assert free(taken)


def test_a_fork_waits_for_who_is_undisturbed() -> None:
    """But not for the forking thread itself; and nobody is undisturbed in the child, or kept from being it."""
    begun, done = threading.Event(), []

    def work() -> None:
        with locks.undisturbed(), locks.undisturbed():
            begun.set()
            time.sleep(0.2)
            done.append(1)

    def at_once() -> bool:
        with locks.undisturbed():
            return free(locks._gate)

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    assert in_child(lambda: done == [1] and not locks._undisturbed and at_once())
    thread.join()
    with locks.undisturbed():
        assert in_child(at_once)
    assert at_once() and not locks._undisturbed


def test_a_fork_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_PATIENCE", 0.01)
    begun, over = threading.Event(), threading.Event()

    def work() -> None:
        with locks.undisturbed():
            begun.set()
            over.wait()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    try:
        assert in_child(lambda: not locks._undisturbed and free(locks._gate))
    finally:
        over.set()
        thread.join()


def test_a_fork_waits_for_imports_of_our_modules() -> None:
    """Of any thread, undisturbed or not: a module that is imported at a fork would be locked in the child for ever."""
    begun, done = threading.Event(), []

    def work() -> None:
        with _bootstrap._ModuleLockManager("fastgraph.not_there"):  # as an import has it
            begun.set()
            time.sleep(0.2)
            with locks.undisturbed():  # which the fork must not keep it from
                done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    assert in_child(lambda: done == [1] and not locks._others_import())
    thread.join()


def test_imports_of_other_packages_are_undisturbed() -> None:
    """Those within functions of what a load or a run asks for; commands, actors, readers of files and planning are
    undisturbed as a whole."""
    elsewhere = ("tools", "commands", "quantize", "ray.py", "demo", "frontends", "plan", "passes")
    for file in sorted((ROOT / "fastgraph").rglob("*.py")):
        if file.relative_to(ROOT / "fastgraph").parts[0] in elsewhere:
            continue
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef):
                within = {id(n) for w in ast.walk(function) if _is_undisturbed(w) for n in ast.walk(w)}
                for node in ast.walk(function):
                    other = isinstance(node, ast.Import) or isinstance(node, ast.ImportFrom) and not node.level
                    assert not other or id(node) in within, f"{file}:{node.lineno}: import it undisturbed"  # type: ignore[attr-defined]


def _is_undisturbed(node: ast.AST) -> bool:
    return isinstance(node, ast.With) and any("undisturbed" in ast.unparse(item) for item in node.items)
