"""The system under test: engines that take samples from LoadGen, one at a time, each on its own thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Any

import numpy as np

import fastgraph as fg
from fastgraph.tools import engines
from fastgraph.tools.engines import Engine
from fastgraph.tools.feeds import random_feeds

Arrays = dict[str, np.ndarray]
TRIES = 20
"""Calls that tell how long one takes."""


@dataclass(frozen=True)
class Stream:
    """An engine, and the arrays that it reads its inputs from."""

    engine: Engine
    places: Arrays

    def run(self, sample: Arrays) -> None:
        """Run on a sample; its copy into the inputs is part of the time."""
        for name, place in self.places.items():
            place[...] = sample[name]
        self.engine.refresh()
        self.engine.call()

    def seconds(self, sample: Arrays) -> float:
        """What a sample takes, the median."""
        marks = [perf_counter()]
        for _ in range(TRIES):
            self.run(sample)
            marks.append(perf_counter())
        return float(np.median(np.diff(marks)))


def samples(path: str, count: int) -> list[Arrays]:
    """Random inputs, the same in every process; a batch of 1 where the file leaves it open."""
    model = fg.load(path, threads=1)
    return [random_feeds(model, {}, seed=i) for i in range(count)]


def stream(path: str, engine: str, sample: Arrays, threads: int) -> Stream:
    """An engine on arrays of its own. engines.Unavailable, with the reason, when it can't run the file."""
    places = {name: np.array(array, order="C") for name, array in sample.items()}
    if engine == "fastgraph":
        return Stream(engines.fastgraph(path, places, threads), places)
    return Stream(engines.peer(engine, path, places, threads), places)


@contextmanager
def issued(
    streams: Sequence[Stream], data: Sequence[Arrays], complete: Callable[[Any], None], waits: bool
) -> Iterator[Callable[[list[Any]], None]]:
    """A function that takes queries of LoadGen and calls `complete` with each one that was run. With `waits` it runs
    them itself, on the thread of LoadGen, which issues the next one only then; else a thread for each stream does.
    """
    if waits:

        def run(queries: list[Any]) -> None:
            for query in queries:
                streams[0].run(data[query.index])
                complete(query)

        yield run
        return

    queue: SimpleQueue[Any] = SimpleQueue()

    def work(one: Stream) -> None:
        while (query := queue.get()) is not None:
            one.run(data[query.index])
            complete(query)

    threads = [Thread(target=work, args=(one,), daemon=True) for one in streams]
    for thread in threads:
        thread.start()
    try:
        yield lambda queries: [queue.put(query) for query in queries] and None
    finally:
        for _ in threads:
            queue.put(None)
        for thread in threads:
            thread.join()
