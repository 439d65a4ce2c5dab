"""Random chains of the operators that rules of lengths know, beside onnxruntime: one plan runs all lengths."""

from collections.abc import Callable

import numpy as np
import pytest

from fastgraph.freedoms import thresholds
from fastgraph.ir import is_open
from fastgraph.runtime.keys import Credit
from tests.nets import F32, Net, assert_close, session
from tests.random_nets import unchecked

ROWS = 3
Piece = Callable[[Net, str, np.random.Generator], str]
"""Writes nodes that make rows of some length out of ROWS rows of another."""


def length(net: Net, x: str) -> str:
    """The length of rows, as a vector of one number."""
    return net("Slice", net("Shape", x), [1], [2])


def padded(net: Net, x: str, rng: np.random.Generator) -> str:
    before, after = (int(n) for n in rng.integers(0, 3, 2))
    return net("Pad", x, [0, before, 0, after], net.const(float(rng.integers(3)), F32))


def cut(net: Net, x: str, rng: np.random.Generator) -> str:
    first, last = int(rng.integers(0, 3)), int(rng.integers(0, 3))
    end = net("Sub", length(net, x), [last]) if last % 2 else net.const([-last if last else 1 << 40])
    return net("Slice", x, [first], end, [1])


def from_the_end(net: Net, x: str, rng: np.random.Generator) -> str:
    return net("Slice", x, net("Neg", length(net, x)), [1 << 40], [1])


def triangle(net: Net, x: str, rng: np.random.Generator) -> str:
    return net("Trilu", x, int(rng.integers(-1, 2)), upper=int(rng.integers(2)))


def of_a_table(net: Net, x: str, rng: np.random.Generator) -> str:
    """Adds rows of a table, from a place that the length tells."""
    n, more = length(net, x), int(rng.integers(1, 4))
    rows = net("Slice", net.weight(200, 1), n, net("Add", n, [more]), [0])
    return net("Add", x, net("ReduceSum", rows, [0, 1], keepdims=1))


def places(net: Net, x: str, rng: np.random.Generator) -> str:
    """Adds the places, counted from some number on."""
    n, first = net("Squeeze", length(net, x)), net.const(int(rng.integers(4)))
    return net("Add", x, net("Cast", net("Range", first, net("Add", first, n), 1), to=1))


def in_another_order(net: Net, x: str, rng: np.random.Generator) -> str:
    """Rows by indices that count elements row after row."""
    n = net("Squeeze", length(net, x))
    starts = net("Mul", rng.integers(0, ROWS, (ROWS, 1)), n)
    found = net("Add", starts, net("Unsqueeze", net("Range", 0, n, 1), [0]))
    return net("Gather", net("Reshape", x, [-1]), found)


def normalized(net: Net, x: str, rng: np.random.Generator) -> str:
    channels = net("Unsqueeze", x, [0])
    y = net("InstanceNormalization", channels, net.weight(ROWS), net.weight(ROWS), epsilon=1e-2)
    return net("Squeeze", y, [0])


def less_its_mean(net: Net, x: str, rng: np.random.Generator) -> str:
    return net("Sub", x, net("ReduceMean", x, axes=[1]))


def twice(net: Net, x: str, rng: np.random.Generator) -> str:
    return net("Add", net("Softmax", x, axis=1), net("CumSum", net("Tanh", x), 1))


def rewritten(net: Net, x: str, rng: np.random.Generator) -> str:
    """Written to all places by their indices."""
    n, shape = net("Squeeze", length(net, x)), net("Shape", x)
    row = net("Range", 0, net("Squeeze", net("Slice", shape, [0], [1])), 1)
    parts = [net("Expand", net("Reshape", row, [-1, 1]), shape)]
    parts.append(net("Expand", net("Range", 0, n, 1), shape))
    every = net("Concat", *(net("Unsqueeze", part, [-1]) for part in parts), axis=-1)
    return net("ScatterND", net("Expand", 0.0, shape), every, x)


def mirrored(net: Net, x: str, rng: np.random.Generator) -> str:
    before, after = (int(n) for n in rng.integers(0, 4, 2))
    return net("Pad", x, [0, before, 0, after], mode=str(rng.choice(["reflect", "edge"])))


def in_blocks(net: Net, x: str, rng: np.random.Generator) -> str:
    """Padded to whole blocks, in each of which elements become shares."""
    n, size = length(net, x), net.const([int(rng.integers(2, 9))])
    more = net("Mod", net("Sub", size, net("Mod", n, size)), size)
    y = net("Pad", x, net("Concat", [0, 0, 0], more, axis=0))
    y = net("Softmax", net("Reshape", y, net("Concat", [0, -1], size, axis=0)), axis=-1)
    return net("Slice", net("Reshape", y, [0, -1]), [0], n, [1])


def turned(net: Net, x: str, rng: np.random.Generator) -> str:
    """From one of the last elements on back to one of the first ones."""
    start, end = net.const([-int(rng.integers(1, 3))]), net.const([int(rng.choice([0, 1, -(1 << 40)]))])
    return net("Slice", x, start, end, [1], [-1])


def some_twice(net: Net, x: str, rng: np.random.Generator) -> str:
    """Every second element, and each of these twice."""
    y = net("Slice", x, [int(rng.integers(2))], [1 << 40], [1], [2])
    if rng.integers(2):
        return net("Concat", y, y, axis=1)
    return net("Tile", y, [1, 2])


def images(net: Net, x: str) -> str:
    return net("Unsqueeze", x, [1])


def resampled(net: Net, x: str, rng: np.random.Generator) -> str:
    mode, n = str(rng.choice(["nearest", "linear", "cubic"])), net("Cast", net("Shape", x), to=7)
    attrs = {
        "mode": mode,
        "coordinate_transformation_mode": str(rng.choice(["half_pixel", "asymmetric", "align_corners"])),
    }
    if rng.integers(2):
        y = net("Resize", x, "", net.const([1, float(rng.choice([0.7, 1.0, 1.5, 2.0]))], F32), **attrs)
    else:
        sizes = net("Add", n, [0, int(rng.integers(-3, 4))])
        y = net("Resize", x, "", "", sizes, **attrs)
    return y


def pooled(net: Net, x: str, rng: np.random.Generator) -> str:
    """Windows, two elements apart, and twice as many again."""
    op, attrs = str(rng.choice(["AveragePool", "MaxPool", "LpPool"])), {"kernel_shape": [3], "strides": [2]}
    more = {"count_include_pad": int(rng.integers(2))} if op == "AveragePool" else {}
    y = net(op, images(net, x), pads=[int(n) for n in rng.integers(0, 2, 2)], **attrs, **more)
    size, padding = int(rng.integers(2, 5)), int(rng.integers(2))
    y = net("ConvTranspose", y, net.weight(1, 1, size), strides=[2], pads=[0, padding], output_padding=[1])
    return net("Squeeze", y, [1])


def shifted(net: Net, x: str, rng: np.random.Generator) -> str:
    """Scores of distances, row after row shifted by one, as attention with relative positions has them."""
    n, one = length(net, x), net.const([1])
    wide = net("Concat", x, net("Slice", x, one, [1 << 40], one), axis=1)
    scores = net("Mul", net("Unsqueeze", x, [2]), net("Unsqueeze", wide, one))
    column = net("Mul", net("Unsqueeze", x, [2]), 0.0)
    rows, twice = net.const([ROWS]), net("Mul", n, [2])
    y = net("Reshape", net("Concat", column, scores, axis=2), net("Concat", rows, twice, n, axis=0))
    y = net("Slice", y, one, [1 << 40], one)
    y = net("Reshape", y, net("Concat", rows, n, net("Sub", twice, one), axis=0))
    return net("ReduceMean", net("Slice", y, [0], n, [2]), axes=[2], keepdims=0)


def best(net: Net, x: str, rng: np.random.Generator) -> str:
    """Adds the greatest, and where it is the least, the best few and one at a place that the length tells."""
    least = net("GatherElements", x, net("ArgMin", x, axis=1), axis=1)
    few, _ = net("TopK", x, [int(rng.integers(1, 4))], outputs=2, axis=1, largest=int(rng.integers(2)))
    one = net("Gather", x, net("Div", length(net, x), [2]), axis=1)
    parts = [least, net("ReduceSum", few, [1]), one, net("Cast", net("ArgMax", least, axis=1), to=1)]
    return net("Add", x, net("Sum", *parts))


def from_behind(net: Net, x: str, rng: np.random.Generator) -> str:
    y = net("CumSum", net("Mul", x, 0.1), 1, reverse=1, exclusive=int(rng.integers(2)))
    return net("Sub", x, y)


def in_parts(net: Net, x: str, rng: np.random.Generator) -> str:
    """The first and the last elements change places; and a mean for each."""
    first = net.const([int(rng.integers(1, 5))])
    sizes = net("Concat", first, net("Sub", length(net, x), first), axis=0)
    parts = net("Split", x, sizes, outputs=2, axis=1)
    mean = net("Tile", net("ReduceMean", x, axes=[1]), net("Concat", [1], length(net, x), axis=0))
    return net("Sub", net("Concat", *parts[::-1], axis=1), mean)


def all_rows(net: Net, x: str, rng: np.random.Generator) -> str:
    """Shares of all elements, row after row."""
    y = net("Softmax", net("Reshape", x, [1, -1]), axis=1)
    return net("Mul", net("Reshape", y, net("Shape", x)), net("Cast", length(net, x), to=1))


def chosen(net: Net, x: str, rng: np.random.Generator) -> str:
    bits = net("OneHot", net("Cast", net("Greater", x, 0.5), to=7), 2, [0.0, 1.0])
    return net("Add", x, net("ReduceSum", bits, [2], keepdims=0))


def in_windows(net: Net, x: str, rng: np.random.Generator) -> str:
    """A map of outer products, cut into windows of which each is normalized, as attention in windows does."""
    n, side = length(net, x), net.const([4])
    more = net("Mod", net("Sub", side, net("Mod", n, side)), side)
    y = net("Mul", net("Unsqueeze", x, [1]), net("Unsqueeze", x, [2]))
    y = net("Pad", y, net("Concat", [0, 0, 0, 0], more, more, axis=0))
    count = net("Div", net("Add", n, more), side)
    y = net("Reshape", y, net("Concat", [ROWS], count, side, count, side, axis=0))
    y = net("Reshape", net("Transpose", y, perm=[0, 1, 3, 2, 4]), [-1, 16])
    y = net("Softmax", y, axis=1)
    y = net("Reshape", y, net("Concat", [ROWS], count, count, side, side, axis=0))
    whole = net("Concat", [ROWS], net("Add", n, more), net("Add", n, more), axis=0)
    y = net("Reshape", net("Transpose", y, perm=[0, 1, 3, 2, 4]), whole)
    y = net("Slice", y, [0, 0], net("Concat", n, n, axis=0), [1, 2])
    return net("ReduceMean", y, axes=[2], keepdims=0)


PIECES: tuple[Piece, ...] = (
    padded, cut, from_the_end, triangle, of_a_table, places, in_another_order, normalized, less_its_mean, twice,
    rewritten, mirrored, in_blocks, turned, some_twice, resampled, pooled, shifted, best, from_behind, in_parts,
    all_rows, chosen, in_windows,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_chains(seed: int) -> None:
    rng, net = np.random.default_rng(seed), Net(seed=seed)
    x = net.input("x", [ROWS, "n"])
    for piece in rng.choice(len(PIECES), rng.integers(2, 7)):
        x = PIECES[piece](net, x, rng)
    net.output(net("Mul", x, x), net("ReduceMean", net("Abs", x), axes=[1]))
    ort = session(net.bytes())
    with thresholds(native_work=1 << 40):
        model = net.load(threads=1 + seed % 2)
        model._planner.lengths._credit = Credit(1, 0)
        for n in (40, 41, 38, 64, 45, 32):
            fed = {"x": rng.standard_normal((ROWS, n)).astype(F32)}
            with unchecked(seed % 4 > 1):
                model.run({"x": np.full((ROWS, 63), np.nan, F32)})  # what lies in memory afterwards is no number
                found = list(model.run(fed).values())
            assert_close(found, ort.run(None, fed), 1e-4, f"{n}")
    assert any(is_open(key.shapes) for key in model._plans.keys())
