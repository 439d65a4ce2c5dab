import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.instances import CAPACITY, CUTS, NETWORKS, cut, minimalloc, network
from fastgraph.freedoms import thresholds
from fastgraph.plan.arena import Packing, draw, lower_bound, plan
from fastgraph.plan.packing import Buffer
from fastgraph.plan.verify import PlanError, verify


@st.composite
def buffer_lists(draw: st.DrawFn, aligns: tuple[int, ...]) -> list[Buffer]:
    rows = draw(
        st.lists(
            st.tuples(st.integers(-3, 20), st.integers(0, 8), st.integers(0, 400), st.sampled_from(aligns)), max_size=24
        )
    )
    return [Buffer(f"b{i}", first, first + life, size, a) for i, (first, life, size, a) in enumerate(rows)]


def aligned(buffer: Buffer) -> int:
    return -(-buffer.size // buffer.align) * buffer.align


@pytest.mark.parametrize("align", [1, 64])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_same_alignment_stays_within_bound_and_naive_size(align: int, data: st.DataObject) -> None:
    buffers = data.draw(buffer_lists((align,)))
    result = plan(buffers, rounds=2, target=1.0)
    verify(buffers, result.offsets, result.size)
    assert lower_bound(buffers) == result.bound <= result.size <= sum(map(aligned, buffers))


@settings(max_examples=60, deadline=None)
@given(buffer_lists((1, 12, 16, 64)))
@pytest.mark.slow
def test_mixed_alignments_never_overlap(buffers: list[Buffer]) -> None:
    result = plan(buffers, rounds=2, target=1.0)
    verify(buffers, result.offsets, result.size)
    assert result.bound <= result.size <= sum(b.size + b.align - 1 for b in buffers)


@settings(max_examples=40, deadline=None)
@given(buffer_lists((1, 64)))
def test_bound_counts_every_step(buffers: list[Buffer]) -> None:
    steps = {step for b in buffers for step in range(b.first, b.last + 1)}
    live = [sum(b.size for b in buffers if b.first <= step <= b.last) for step in steps]
    assert lower_bound(buffers) == max(live, default=0)


@settings(max_examples=20, deadline=None)
@given(buffer_lists((1, 64)))
def test_same_buffers_same_plan(buffers: list[Buffer]) -> None:
    assert plan(buffers, rounds=2, target=1.0) == plan(list(buffers), rounds=2, target=1.0)


@settings(max_examples=40, deadline=None)
@given(buffer_lists((1,)), st.integers(0, 2**32))
def test_any_overlap_is_caught(buffers: list[Buffer], seed: int) -> None:
    """Random offsets: verify refuses them exactly when a comparison of all pairs finds an overlap."""
    offsets = [seed * (i + 7) % 1009 for i in range(len(buffers))]
    spans = [(b, o, o + b.size) for b, o in zip(buffers, offsets, strict=True) if b.size]
    overlap = any(
        a.first <= b.last and b.first <= a.last and low < end and start < high
        for k, (a, low, high) in enumerate(spans)
        for b, start, end in spans[:k]
    )
    if overlap:
        with pytest.raises(PlanError, match="overlap"):
            verify(buffers, offsets, 2000)
    else:
        verify(buffers, offsets, 2000)


def test_nothing_to_place() -> None:
    assert plan([]) == Packing((), 0, 0, "empty")
    assert plan([Buffer("shape", 0, 3, 0)]).offsets == (0,)


def test_chain_alternates_between_two_ends() -> None:
    chain = [Buffer(f"x{i}", i, i + 1, 640) for i in range(40)]
    result = plan(chain)
    assert result.size == result.bound == 1280
    assert result.heuristic.startswith("greedy")


def test_search_reaches_the_bound_where_greedy_does_not() -> None:
    rows = [(0, 1, 4), (5, 5, 3), (2, 6, 3), (1, 2, 5), (4, 8, 3)]
    buffers = [Buffer(f"b{i}", first, last, size, 1) for i, (first, last, size) in enumerate(rows)]
    assert plan(buffers, rounds=0).size > plan(buffers).size == lower_bound(buffers)


@pytest.mark.parametrize(
    ("offsets", "size", "message"),
    [
        ((0, 32), 4096, "misaligned.*'b'.*32"),
        ((0, 64), 4096, "overlap.*'a'.*bytes 0..100.*steps 0..2.*'b'.*bytes 64..164.*steps 2..4"),
        ((0, -64), 4096, "negative offset.*'b'"),
        ((0, 128), 227, "ends beyond the arena.*'b'.*228.*227"),
        ((0,), 4096, "2 buffers but 1 offsets"),
    ],
)
def test_verify_names_the_fault(offsets: tuple[int, ...], size: int, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        verify([Buffer("a", 0, 2, 100), Buffer("b", 2, 4, 100)], offsets, size)


@settings(max_examples=40, deadline=None)
@given(buffer_lists((64,)), st.data())
def test_verify_catches_a_moved_buffer(buffers: list[Buffer], data: st.DataObject) -> None:
    """Moving a buffer onto another alive at the same time is always caught."""
    result = plan(buffers, rounds=0)
    pairs = [
        (i, j)
        for i, a in enumerate(buffers)
        for j, b in enumerate(buffers)
        if i != j and a.size and b.size and a.first <= b.last and b.first <= a.last
    ]
    if pairs:
        i, j = data.draw(st.sampled_from(pairs))
        offsets = list(result.offsets)
        offsets[i] = offsets[j]
        with pytest.raises(PlanError):
            verify(buffers, offsets, sum(map(aligned, buffers)) + result.size)


@pytest.mark.parametrize(("first", "last", "size", "align"), [(2, 1, 4, 1), (0, 1, -4, 1), (0, 1, 4, 0)])
def test_bad_buffers_are_refused(first: int, last: int, size: int, align: int) -> None:
    with pytest.raises(ValueError, match="'bad'"):
        Buffer("bad", first, last, size, align)


def test_drawing() -> None:
    buffers = [Buffer("a", 0, 1, 64), Buffer("b", 1, 2, 64), Buffer("c", 2, 3, 128)]
    picture = draw(buffers, Packing((0, 64, 128), 256, 192, "hand"), width=16)
    assert picture.splitlines() == [
        "arena 256 bytes, bound 192 (1.333 x), hand",
        "one column = 16 bytes",
        "  0 |aaaa............|",
        "  1 |aaaabbbb........|",
        "  2 |....bbbbcccccccc|",
        "  3 |........cccccccc|",
        "  a a: bytes 0..64, steps 0..1",
        "  b b: bytes 64..128, steps 1..2",
        "  c c: bytes 128..256, steps 2..3",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CUTS, *"ABCDEF"])
def test_buffers_that_fit_are_placed_with_a_twentieth_more(name: str | int) -> None:
    buffers = cut(name) if isinstance(name, int) else minimalloc(name)
    result = plan(buffers, target=1.05 * CAPACITY / lower_bound(buffers), rounds=2000, effort=1 << 40)
    verify(buffers, result.offsets, result.size)
    assert result.size <= 1.05 * CAPACITY


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_need_no_more_than_their_bound(name: str) -> None:
    buffers = network(name)
    result = plan(buffers)
    verify(buffers, result.offsets, result.size)
    assert result.size <= 1.02 * result.bound


@settings(max_examples=100, deadline=None)
@given(buffer_lists((1, 64)), st.sampled_from([0, 5, 1000]), st.sampled_from([0, 5]))
def test_plans_of_many_buffers_are_safe(buffers: list[Buffer], pairs: int, many: int) -> None:
    """Best fit alone, and beside first fit."""
    with thresholds(arena_pairs=pairs, arena_many=many):
        result = plan(buffers, target=1.0)
        assert result == plan(list(buffers), target=1.0)
    verify(buffers, result.offsets, result.size)
    assert result.bound <= result.size


def test_an_effort_that_is_spent_ends_the_search() -> None:
    rows = [(0, 1, 4), (5, 5, 3), (2, 6, 3), (1, 2, 5), (4, 8, 3)]
    buffers = [Buffer(f"b{i}", first, last, size, 1) for i, (first, last, size) in enumerate(rows)]
    assert plan(buffers, effort=0).size == plan(buffers, rounds=0).size > plan(buffers).size


@pytest.mark.parametrize("alive", [2, 50, 20_000])
def test_twenty_thousand_buffers(alive: int) -> None:
    """In a chain, in a band, and all at once: within a tenth of the bound."""
    buffers = [Buffer(f"b{i}", i, i + alive - 1, 64 + i * 7919 % 1000 // 64 * 64, 64) for i in range(20_000)]
    result = plan(buffers)
    verify(buffers, result.offsets, result.size)
    assert result.size <= 1.1 * result.bound
