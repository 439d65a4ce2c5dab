"""FASTGRAPH_CHECK=guard: buffers and constants lie between pages that nobody may touch; results are the same."""

import ctypes
import faulthandler
import mmap
import os
import signal
import sys

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.plan.program import Ref, Step
from fastgraph.room import SLACK
from fastgraph.runtime.allocate import allocate_apart
from fastgraph.runtime.bind import bind
from tests.blocks import BLOCKS
from tests.nets import Net, feeds_for

SIZES = [1, 64, 100, mmap.PAGESIZE - SLACK, mmap.PAGESIZE, 3 * mmap.PAGESIZE + 5]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="ordinary memory on Windows")


def dies(touch: object) -> bool:
    """Whether a child that calls it is killed by a fault."""
    child = os.fork()
    if child == 0:
        try:
            faulthandler.disable()
            touch()  # type: ignore[operator]
        finally:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGSEGV, signal.SIGBUS)


def test_blocks_lie_between_guard_pages() -> None:
    memory, address, starts = allocate_apart(SIZES)
    for size, start in zip(SIZES, starts, strict=True):
        block = memory[start : start + size]
        assert (address + start) % 64 == 0 and not block.any()
        block[...] = 1
        ctypes.string_at(address + start + size, SLACK)
        end = start + size + SLACK + 63
        assert dies(lambda end=end: ctypes.string_at(address + end, 1))
        assert dies(lambda end=end: ctypes.memset(address + end, 1, 1))
        assert dies(lambda at=start - mmap.PAGESIZE: ctypes.string_at(address + at, 1))
    assert allocate_apart([])[2] == []
    for size in (1 << 60, 1 << 70):
        with pytest.raises(MemoryError):
            allocate_apart([size])


@pytest.mark.parametrize("name", ["residual", "inverted_residual", "classifier"])
def test_results_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    BLOCKS[name](net)
    results = []
    for how in ("0", "guard"):
        monkeypatch.setenv("FASTGRAPH_CHECK", how)
        model = fg.load(net.bytes(), threads=2)
        results += [model.run(feeds_for(model)), model.run(feeds_for(model))]
    for other in results[1:]:
        for output, array in results[0].items():
            np.testing.assert_array_equal(array, other[output])


def test_a_step_that_leaves_its_constant_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or its buffer, by a little more than it may."""
    monkeypatch.setenv("FASTGRAPH_CHECK", "guard")
    net = Net()
    net.output(net("Relu", net("Gemm", net.input("x", (3, 7)), net.weight(7, 20))))
    plan = net.load().plan
    (step,) = plan.program.steps
    assert isinstance(step, Step)
    for slot in (2, 3):
        kept, base = step.args, step.args[slot].base  # type: ignore[union-attr]
        step.args = (*kept[:slot], Ref(base, SLACK + 64), *kept[slot + 1 :])
        assert dies(bind(plan.compiled, plan.memory, 1).run) and not plan.results()["v1"].any()
        step.args = kept
    bind(plan.compiled, plan.memory, 1).run()
