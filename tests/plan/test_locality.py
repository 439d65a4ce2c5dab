"""Buffers near the threads that write them: plans stay safe and the same, and so do bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastgraph as fg
from fastgraph.freedoms import thresholds, without
from fastgraph.kernels.isa.tiers import usable
from fastgraph.plan.arena import Packing, plan
from fastgraph.plan.locality import ROOM, Users, nearer
from fastgraph.plan.packing import Buffer
from fastgraph.plan.verify import verify
from tests.blocks import conv
from tests.nets import Net, feeds_for

LINE = 64


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[Buffer], Users]:
    threads = draw(st.integers(1, 5))
    of = st.tuples(st.integers(0, 20), st.integers(0, 8), st.integers(0, 4000), st.sampled_from((1, 64, 96)))
    found = [
        (Buffer(f"b{i}", first, first + life, size, align), draw(st.integers(0, threads)))
        for i, (first, life, size, align) in enumerate(draw(st.lists(of, min_size=1, max_size=24)))
    ]
    clock = [0]
    for _ in range(30):
        clock.append(clock[-1] + draw(st.sampled_from((0, 1000, 1 << 20))))
    return [buffer for buffer, _ in found], Users(threads, [part for _, part in found], clock)


@settings(max_examples=150, deadline=None)
@given(rows())
def test_none_that_are_alive_at_once_overlap(given: tuple[list[Buffer], Users]) -> None:
    buffers, users = given
    usual = plan(buffers)
    with thresholds(locality_worth=1):
        found = nearer(buffers, usual, users)
        assert nearer(list(buffers), usual, users) == found
    verify(buffers, found.offsets, found.size)
    cell = 96 * LINE
    assert found.bound == usual.bound and found.size <= usual.size * ROOM + cell


def scratch(count: int) -> tuple[list[Buffer], Users]:
    """Steps that two threads do in parts, with scratch of their own sizes: the smallest arena mixes it."""
    sizes = [(3 - i % 3) << 18 for i in range(count)]
    buffers = [Buffer(f"{part} of {i}", i, i, size, LINE) for i, size in enumerate(sizes) for part in (1, 2)]
    return buffers, Users(2, [1, 2] * count, [i << 10 for i in range(count + 1)])


def test_threads_keep_their_scratch() -> None:
    buffers, users = scratch(12)
    usual = plan(buffers)
    found = nearer(buffers, usual, users)
    verify(buffers, found.offsets, found.size)

    def written(packing: Packing) -> list[set[int]]:
        """Who wrote each line."""
        lines: list[set[int]] = [set() for _ in range(packing.size // LINE + 1)]
        for buffer, offset, part in zip(buffers, packing.offsets, users.parts, strict=True):
            for line in range(offset // LINE, (offset + buffer.size) // LINE):
                lines[line].add(part)
        return lines

    mixed, apart = (sum(len(line) > 1 for line in written(packing)) for packing in (usual, found))
    assert mixed > 4000 and apart <= mixed // 50 and found.size <= ROOM * usual.size + (1 << 14)


def test_even_parts_have_one_middle() -> None:
    buffers = [Buffer(f"scratch {i}", i, i, (2, 1)[i % 2] << 20, LINE) for i in range(10)]
    users = Users(2, [0] * len(buffers), [i << 10 for i in range(11)])
    found = nearer(buffers, Packing((0,) * len(buffers), 2 << 20, 2 << 20, "all from 0 on"), users)
    verify(buffers, found.offsets, found.size)
    ends = zip(found.offsets, buffers, strict=True)
    assert {round((offset + buffer.size / 2) / (1 << 16)) for offset, buffer in ends} == {16}


def test_few_or_very_many_bytes_and_buffers_stay() -> None:
    buffers, users = scratch(12)
    usual = plan(buffers)
    with thresholds(locality_worth=usual.size + 1):
        assert nearer(buffers, usual, users) is usual
    with thresholds(arena_many=len(buffers) - 1):
        assert nearer(buffers, usual, users) is usual


def network() -> bytes:
    """Inverted residual blocks in parts, products of tiles, a sum."""
    net = Net()
    x = conv(net, net.input("x", (1, 16, 20, 20)), 16, 32, 3)
    for _ in range(3):
        wide = net("Relu", conv(net, x, 32, 96, 1))
        deep = net("Relu", conv(net, wide, 96, 96, 3, group=96))
        x = net("Add", x, conv(net, deep, 96, 32, 1))
    net.output(net("Softmax", conv(net, x, 32, 40, 1, 2), axis=1))
    return net.bytes()


@pytest.mark.parametrize("isa", [tier.name for tier in usable()])
@pytest.mark.parametrize("bands", [1, 1 << 40])
def test_the_same_bits(isa: str, bands: int) -> None:
    source = network()
    bounds = {"bands_worth": bands, "bands_budget": 1 << 13, "bands_kept": 0, "locality_worth": 1, "waking_work": 0}
    with thresholds(**bounds, tiles_least=1):
        one, *others = [fg.load(source, threads=threads, isa=isa) for threads in (1, 2, 3, 5)]
        with without("locality"):
            alone, usual = [fg.load(source, threads=threads, isa=isa) for threads in (1, 2)]
    feeds = feeds_for(one)
    expected = one.run(feeds)
    for model in (*others, usual):
        for name, found in model.run(feeds).items():
            np.testing.assert_array_equal(found, expected[name])
    assert str(alone.plan) == str(one.plan) and str(usual.plan) != str(others[0].plan)
    assert others[0].arena_bytes <= ROOM * usual.arena_bytes + (1 << 13)
