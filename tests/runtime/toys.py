"""Small kernels to run: each reads what other threads wrote, so that a missing barrier shows."""

from functools import cache, cached_property

import numpy as np

from fastgraph.kernels.core.build import build
from fastgraph.kernels.core.primitives import arg, put, put_flag
from fastgraph.kernels.isa.tiers import BY_NAME
from fastgraph.kernels.lang import F32, I64, U32, Value, traced
from fastgraph.objects.link import link

FAIL = ("error", "code")
COUNT = ("counts", "work")


@traced
def halved(address: Value) -> Value:
    """The bits of the f32 at `address`, times one half."""
    return (F32[address] * 0.5).bits(U32).to(I64)


def rotate(args, thread, threads):
    """target[i] = 3 * source[(i + shift) % n] + 1, each thread a part of i."""
    n = arg(args, 2)
    for i in range(n * thread // threads, n * (thread + 1) // threads):
        put(arg(args, 1), i, 3 * arg(arg(args, 0), (i + arg(args, 3)) % n) + 1)


def denormal(args, thread, threads):
    """cells[1 + thread] = the bits of half of the f32 in cells[0]."""
    put(arg(args, 0), 1 + thread, halved(arg(args, 0)))


def fail(args, thread, threads):
    """Report an error from the last thread."""
    if thread == threads - 1:
        put(arg(args, 0), 0, arg(args, 1))


def count(args, thread, threads):
    """counts[8 * thread] += 1, after `work` rounds of writing."""
    for i in range(arg(args, 1)):
        put(arg(args, 0), 8 * thread + 1, i)
    put(arg(args, 0), 8 * thread, arg(arg(args, 0), 8 * thread) + 1)


def down(args, thread, threads):
    """cells[0] -= 1 in thread 0; the byte at cells[1] says whether it is above 0."""
    if thread == 0:
        cells = arg(args, 0)
        put(cells, 0, arg(cells, 0) - 1)
        put_flag(cells + 8, arg(cells, 0) > 0)


@cache
def toys() -> dict[str, int]:
    """The kernels' addresses."""
    tier = BY_NAME["generic"]
    made = {f"toy_{f.__name__}": build(f, f"toy_{f.__name__}", tier) for f in (rotate, denormal, fail, count, down)}
    return {symbol.removeprefix("toy_"): address for symbol, address in link(made).items()}


class Ring:
    """A chain of rotations between two buffers, as a table of steps, and what must come out."""

    def __init__(self, steps: int, n: int, shift: int = 13) -> None:
        self.buffers = np.zeros((2, n), np.int64)
        ends = [row.ctypes.data for row in self.buffers]
        self.args = np.array([[ends[i % 2], ends[(i + 1) % 2], n, shift] for i in range(steps)], np.int64)
        self.table = np.array([[toys()["rotate"], row.ctypes.data] for row in self.args], np.int64)
        expected = np.arange(n, dtype=np.int64)
        for _ in range(steps):
            expected = 3 * np.roll(expected, -shift) + 1
        self.expected = expected

    def start(self) -> None:
        self.buffers[0] = np.arange(self.buffers.shape[1])
        self.buffers[1] = -1

    @property
    def result(self) -> np.ndarray:
        return self.buffers[len(self.table) % 2]


class Laps:
    """A ring that is run `laps` times in one run: a jump leads back to its first step, another over what counts once
    more. `work`: that of its steps, none of it in what counts.
    """

    def __init__(self, laps: int, steps: int, n: int) -> None:
        assert steps % 2 == 0
        self.ring, self.laps = Ring(steps, n), laps
        self.cells = np.zeros(2, np.int64)
        self.args = np.array([self.cells.ctypes.data], np.int64)
        flag = self.cells.ctypes.data + 8
        self.jumps = np.array([[flag, 1, -steps - 1], [flag, 0, 2]], np.int64)
        down = [toys()["down"], self.args.ctypes.data]
        rows = [*self.ring.table, down, *([0, jump.ctypes.data] for jump in self.jumps), down]
        self.table = np.array(rows, np.int64)
        self.work = [1] * steps + [0, 0, 0, 0]

    @cached_property
    def expected(self) -> np.ndarray:
        """What the first buffer holds in the end."""
        found = np.arange(self.ring.buffers.shape[1], dtype=np.int64)
        for _ in range(len(self.ring.table) * self.laps):
            found = 3 * np.roll(found, -13) + 1
        return found

    def start(self) -> None:
        self.ring.start()
        self.cells[:] = self.laps, 0


class Counter:
    """A table of `steps` slow steps and then `quick` quick ones, and how often each share of the two kinds ran."""

    def __init__(self, steps: int, work: int, quick: int = 0) -> None:
        self.counts = np.zeros((2, 64), np.int64)
        self.args = np.array([[row.ctypes.data, n] for row, n in zip(self.counts, (work, 0), strict=True)], np.int64)
        rows = [[toys()["count"], args.ctypes.data] for args in self.args]
        self.table = np.array([rows[0]] * steps + [rows[1]] * quick, np.int64)

    def done(self, threads: int) -> list[list[int]]:
        """[of slow steps, of quick ones], a number for each share."""
        return [row[: 8 * threads : 8].tolist() for row in self.counts]
