"""Blocks of real networks: on every ISA tier, step by step, and without copies where views do."""

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.kernels.isa.tiers import Tier
from tests.blocks import BLOCKS, conv
from tests.kernels.harness import each_tier
from tests.nets import F32, I64, Net, feeds_for, numpy_steps
from tests.plan.step_by_step import check_steps, poison, within


def built(name: str) -> Net:
    net = Net()
    BLOCKS[name](net)
    return net


@pytest.mark.parametrize("name", BLOCKS)
def test_block_step_by_step(name: str) -> None:
    model = built(name).load()
    assert not numpy_steps(model)
    check_steps(model.plan, feeds_for(model), within(1e-5))
    arena = model.plan.program.arena
    assert arena is not None and model.arena_bytes == arena.size >= arena.bound > 0


@pytest.mark.slow
@each_tier
@pytest.mark.parametrize("name", ["squeeze_excite", "classifier", "channel_shuffle", "decoder"])
def test_tiers_agree(name: str, tier: Tier) -> None:
    assert built(name).agrees(1e-5, isa=tier.name).tier is tier


@pytest.mark.parametrize("name", BLOCKS)
def test_same_bits_on_any_number_of_threads(name: str) -> None:
    source, results = built(name).bytes(), []
    for threads in (1, 2, 3):
        model = fg.load(source, threads=threads)
        poison(model.plan)
        results += [[y.tobytes() for y in model.run(feeds_for(model)).values()] for _ in range(2)]
    assert all(each == results[0] for each in results)


def moves(net: Net) -> int:
    """Steps for operators that only say where things lie."""
    return sum(s.node.op in ("concat", "split", "slice", "reshape") for s in net.load().plan.program.steps)


def test_concat_of_convolutions_copies_nothing() -> None:
    assert moves(built("concat_of_branches")) == 0
    assert moves(built("dense_block")) == 0


def test_split_read_in_place_copies_nothing() -> None:
    net = Net()
    x = conv(net, net.input("x", (1, 16, 8, 8)), 16, 32, 1)
    left, right = net("Split", x, [16, 16], outputs=2, axis=1)
    net.output(net("Add", conv(net, left, 16, 16), conv(net, right, 16, 16)))
    assert moves(net) == 0


def test_concat_of_a_concat_copies_nothing() -> None:
    net = Net()
    x = conv(net, net.input("x", (1, 16, 8, 8)), 16, 16, 1)
    inner = net("Concat", conv(net, x, 16, 16, 1), conv(net, x, 16, 16, 1), axis=1)
    net.output(conv(net, net("Concat", inner, conv(net, x, 16, 16, 1), axis=1), 48, 16, 1))
    assert moves(net) == 0


def test_a_value_twice_in_a_concat_and_the_input_in_a_concat_are_copied() -> None:
    net = Net()
    x = net.input("x", (2, 4, 6))
    y = net("Relu", x)
    net.output(net("Concat", y, x, y, axis=1), y)
    model = net.agrees()
    check_steps(model.plan, feeds_for(model), within())


def test_an_elementwise_result_overwrites_an_operand_nobody_reads_again() -> None:
    """The arena holds the input, and one more tensor."""
    net = Net()
    x = net.input("x", (4, 64, 64))
    net.output(net("ReduceMax", net("Add", net("Softmax", x, axis=-1), x), axes=[2]))
    assert net.load().arena_bytes < 2.5 * 4 * 64 * 64 * 4


def test_an_operand_read_again_is_not_overwritten() -> None:
    net = Net()
    x = net.input("x", (4, 8))
    y = net("Softmax", x, axis=-1)
    z = net("Relu", y)
    net.output(net("Softmax", net("Concat", z, y, axis=0), axis=0), net("Softmax", y, axis=0))
    model = net.load()
    check_steps(model.plan, feeds_for(model), within())


def test_an_input_is_never_overwritten() -> None:
    net = Net()
    x = net.input("x", (4, 8))
    net.output(net("Relu", x))
    model = net.load()
    feed = np.full((4, 8), -1, F32)
    model.input("x")[...] = feed
    model.execute()
    np.testing.assert_array_equal(model.input("x"), feed)
    assert not model.output(model.outputs[0].name).any()


def part(net: Net, x: str, axis: int, start: int, end: int) -> str:
    return net("Slice", x, *(np.array([v], I64) for v in (start, end, axis)))


OVERLAPS = [
    (0, (1, 64), (0, 63)), (0, (0, 63), (1, 64)), (0, (0, 64), (0, 1)), (0, (0, 64), (5, 6)), (1, (0, 96), (0, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("axis", "left", "right"), OVERLAPS)
def test_parts_of_one_value_that_overlap(axis: int, left: tuple, right: tuple) -> None:
    """Neither may be overwritten: places of one are read after the same places of the other."""
    net = Net()
    x = net("Softmax", net.input("x", (64, 96)), axis=-1)
    net.output(net("ReduceMax", net("Sub", part(net, x, axis, *left), part(net, x, axis, *right)), axes=[1]))
    net.agrees_on_threads(1e-6)


@pytest.mark.parametrize("size", [5, 7, 9, 13])
@pytest.mark.parametrize("k", [1, 3])
def test_a_residual_that_is_overwritten_is_read_once(size: int, k: int) -> None:
    """Images that are no multiple of a tile: no place may be computed twice over its own operand."""
    net = Net()
    x = net("Relu", conv(net, net.input("x", (2, 16, size, size)), 16, 16, 1))
    y = net("Add", conv(net, conv(net, x, 16, 16, 1), 16, 16, k), x)
    net.output(conv(net, net("Relu", y), 16, 16, 1))
    net.agrees_on_threads()


MASKS = [
    ((2, 1, 1, 3), (2, 1, 3, 1), (2, 1, 1, 3)), ((2, 1, 1, 5), (2, 4, 3, 6), (2, 4, 6, 5)),
    ((2, 1, 5), (2, 3, 6), (6, 5)), ((2, 1, 5), (2, 3, 6), (2, 6, 5)), ((3, 5), (2, 3, 6), (6, 5)),
]  # fmt: skip


@pytest.mark.parametrize(("mask", "a", "b"), MASKS)
def test_a_mask_for_each_image_is_added_to_the_products_of_that_image(mask: tuple, a: tuple, b: tuple) -> None:
    """As attention does it, of one head or of several."""
    net = Net()
    scores = net("Mul", net("MatMul", net.input("a", a), net.input("b", b)), 0.5)
    net.output(net("Add", scores, net.input("mask", mask)))
    net.agrees_on_threads(1e-6)
