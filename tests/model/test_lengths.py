"""Shapes that are new in each run: one plan serves many lengths, and gives what plans of their own give."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.freedoms import thresholds
from fastgraph.ir import Open, is_open
from fastgraph.runtime import lengths
from fastgraph.runtime.keys import Key
from tests.nets import F32, I64, Net, assert_close, numpy_steps, session

HEADS, SIZE = 4, 16
WIDTH = HEADS * SIZE

Feeds = dict[str, np.ndarray]
RNG = np.random.default_rng(0)


def heads(net: Net, x: str) -> str:
    split = net("Reshape", x, [0, -1, HEADS, SIZE])
    return net("Transpose", split, perm=[0, 2, 1, 3])


def attended(net: Net, q: str, k: str, v: str, bias: str) -> str:
    scores = net("Mul", net("MatMul", q, net("Transpose", k, perm=[0, 1, 3, 2])), net.const(SIZE**-0.5, F32))
    y = net("MatMul", net("Softmax", net("Add", scores, bias), axis=-1), v)
    return net("Reshape", net("Transpose", y, perm=[0, 2, 1, 3]), [0, -1, WIDTH])


def mask_bias(net: Net, mask: str) -> str:
    seen = net("Cast", net("Unsqueeze", mask, [1, 2]), to=1)
    return net("Mul", net("Sub", 1.0, seen), -1e9)


def caches(net: Net, layers: int) -> list[list[str]]:
    return [[net.input(f"{name}{i}", [1, HEADS, "past", SIZE]) for name in ("key", "value")] for i in range(layers)]


def decoded(net: Net, ids: str, mask: str, pasts: list[list[str]]) -> Net:
    """A step of a decoder whose keys and values grow."""
    x, bias = net("Gather", net.weight(50, WIDTH), ids), mask_bias(net, mask)
    for past in pasts:
        q, *new = (heads(net, net("MatMul", x, net.weight(WIDTH, WIDTH))) for _ in range(3))
        k, v = (net("Concat", old, more, axis=2) for old, more in zip(past, new, strict=True))
        x = net("Add", x, net("MatMul", attended(net, q, k, v, bias), net.weight(WIDTH, WIDTH)))
        net.output(k, v)
    net.output(net("MatMul", x, net.weight(WIDTH, 50)))
    return net


def length(net: Net, x: str, axis: int) -> str:
    return net("Squeeze", net("Slice", net("Shape", x), [axis], [axis + 1]))


def placed(layers: int = 1) -> Net:
    """A decoder as Hugging Face's are exported: places are counted from the past on, the mask is read by flat indices,
    and written by indices of all places; a cache is a concatenation of one before it grows.
    """
    net = Net()
    ids, mask = net.input("ids", [1, "t"], np.int64), net.input("mask", [1, "total"], np.int64)
    pasts, zero, one = caches(net, layers), net.const(0), net.const(1)
    past, words = length(net, pasts[0][0], 2), length(net, ids, 1)
    total = net("Add", past, words)
    places, keys, row = net("Range", past, total, one), net("Range", zero, total, one), net("Range", zero, one, one)
    flat = net("Add", net("Unsqueeze", keys, [0]), net("Mul", row, length(net, mask, 1)))
    seen = net("Gather", net("Reshape", net("Cast", mask, to=9), [-1]), flat)
    before = net("LessOrEqual", net("Unsqueeze", keys, [0]), net("Unsqueeze", places, [1]))
    bias = net("Where", net("And", before, seen), 0.0, -1e9)
    shape = net("Shape", bias)
    rows = net("Range", zero, net("Gather", shape, zero), one)
    parts = [net("Expand", net("Reshape", rows, [-1, 1]), shape), net("Expand", keys, shape)]
    every = net("Concat", *(net("Unsqueeze", part, [-1]) for part in parts), axis=-1)
    bias = net("ScatterND", net("Expand", 0.0, shape), every, bias)
    x = net("Add", net("Gather", net.weight(50, WIDTH), ids), net("Gather", net.weight(300, WIDTH), places))
    for past in pasts:
        q, *new = (heads(net, net("MatMul", x, net.weight(WIDTH, WIDTH))) for _ in range(3))
        old = [net("Concat", each, axis=2) for each in past]
        k, v = (net("Concat", a, b, axis=2) for a, b in zip(old, new, strict=True))
        x = net("Add", x, attended(net, q, k, v, bias))
        net.output(k, v)
    net.output(x)
    return net


def rows() -> Net:
    """Rows in another order, by indices that count elements row after row; of a table, the rows from one length to
    another, and their elements twice; and a triangle.
    """
    net = Net()
    x, past = net.input("x", [3, "total"]), net.input("past", ["past"])
    n, first, one = length(net, x, 1), length(net, past, 0), net.const(1)
    keys = net("Range", 0, n, one)
    places = net("Add", net("Unsqueeze", keys, [0]), net("Mul", [[2], [0], [-2]], n))
    y = net("Gather", net("Flatten", x, axis=2), places)
    y = net("Reshape", net("Reshape", y, [-1]), net("Concat", [3, 1], net("Shape", keys), axis=0))
    whole = net("Unsqueeze", net("Add", n, one), [0])
    start = net("Unsqueeze", first, [0])
    table, two, one_axis = (net("Slice", net.weight(100, 8), start, whole, [0]), net.const(2.0), net.const([1]))
    twos = net("Add", net("ConstantOfShape", net("Slice", net("Shape", table), [1], [2])), two)
    mask = net("Less", net("Range", 0.0, net("ReduceMax", twos, keepdims=0), 1.0),
               net("Unsqueeze", twos, [1]))  # fmt: skip
    pairs = net("Expand", net("Unsqueeze", net("ReduceSum", table, [0], keepdims=0), one_axis), net("Shape", mask))
    twice = net("GatherND", pairs, net("Transpose", net("NonZero", mask), perm=[1, 0]))
    last = [net("Slice", past, net("Unsqueeze", net("Neg", m), [0]), [1 << 40]) for m in (n, first)]
    net.output(net("Softmax", net("Trilu", y, upper=1), axis=-1), net("Relu", table), net("ReduceSum", past), twice)
    net.output(*(net("Mul", y, y) for y in last))
    amounts = [0, 1, 0, 2], [0, 2, 0, -1], [1, 0, 2, 0]
    padded = [net("Pad", x, n, net.const(fill, F32)) for n, fill in zip(amounts, (0.0, 3.0, 0.5), strict=True)]
    net.output(*padded, *(net("ReduceMean", y, axes=[1]) for y in padded))
    net.output(net("Pad", x, [1, 0, 1, 0], mode="reflect"))
    channels = net("Unsqueeze", x, [0])
    net.output(net("InstanceNormalization", channels, net.weight(3), net.weight(3), epsilon=1e-3))
    return net


def decoder(layers: int = 2) -> Net:
    net = Net()
    ids, mask = net.input("ids", [1, "t"], np.int64), net.input("mask", [1, "total"], np.int64)
    return decoded(net, ids, mask, caches(net, layers))


def merged(layers: int = 2) -> Net:
    """Decoders with a past and without one, as exporters merge them: a switch says which."""
    net, first, later = Net(), Net(prefix="first"), Net(prefix="later")
    ids, mask = net.input("ids", [1, "t"], np.int64), net.input("mask", [1, "total"], np.int64)
    pasts, switch = caches(net, layers), net.input("has_past", [1], bool)
    nothing = [first.const([n]) for n in (0, 0, 2)]
    decoded(first, ids, mask, [[first("Slice", past, *nothing) for past in pair] for pair in pasts])
    bodies = {"then_branch": decoded(later, ids, mask, pasts).graph(), "else_branch": first.graph()}
    net.output(*net("If", switch, outputs=len(first.outputs), **bodies))
    return net


def step(past: int, t: int = 1, layers: int = 2) -> Feeds:
    pasts = {
        f"{name}{i}": RNG.standard_normal((1, HEADS, past, SIZE)).astype(F32)
        for i in range(layers) for name in ("key", "value")
    }  # fmt: skip
    mask = (RNG.random((1, past + t)) < 0.9).astype(np.int64)
    mask[:, -1] = 1
    return {"ids": RNG.integers(0, 50, (1, t)), "mask": mask, **pasts}


def encoder() -> Net:
    """Words of any number: normalized, attended, their mean, the first and the last of them, and their places."""
    net = Net()
    ids, mask = net.input("ids", ["batch", "n"], np.int64), net.input("mask", ["batch", "n"], np.int64)
    x = net("Gather", net.weight(50, WIDTH), ids)
    x = net("LayerNormalization", x, net.weight(WIDTH), net.weight(WIDTH), axis=-1)
    q, k, v = (heads(net, net("MatMul", x, net.weight(WIDTH, WIDTH))) for _ in range(3))
    x = net("Add", x, attended(net, q, k, v, mask_bias(net, mask)))
    real = net("Cast", net("Unsqueeze", mask, [-1]), to=1)
    mean = net("Div", net("ReduceSum", net("Mul", x, real), [1], keepdims=0),
               net("ReduceSum", real, [1], keepdims=0))  # fmt: skip
    last = net("Slice", x, [-1], [1 << 40], [1])
    places = net("Range", 0, net("Squeeze", net("Slice", net("Shape", x), [1], [2])),
                 1)  # fmt: skip
    net.output(x, mean, net("Gather", x, 0, axis=1), last)
    net.output(places, dtype=np.int64)
    return net


def words(n: int, batch: int = 1) -> Feeds:
    mask = (RNG.random((batch, n)) < 0.8).astype(np.int64)
    mask[:, 0] = 1
    return {"ids": RNG.integers(0, 50, (batch, n)), "mask": mask}


def recognizer() -> Net:
    """Lines of text of any width: convolutions, pools, and a layer that goes along the line both ways."""
    net = Net()
    x = net.input("x", [1, 1, 16, "width"])
    x = net("Relu", net("Conv", x, net.weight(8, 1, 3, 3), pads=[1] * 4))
    x = net("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net("Relu", net("Conv", x, net.weight(16, 8, 3, 3), net.weight(16), pads=[1] * 4, strides=[2, 1]))
    x = net("Conv", x, net.weight(16, 16, 4, 2))
    x = net("Transpose", net("Squeeze", x, [2]), perm=[2, 0, 1])
    y, _, _ = net("LSTM", x, net.weight(2, 48, 16), net.weight(2, 48, 12), outputs=3, hidden_size=12,
                  direction="bidirectional")  # fmt: skip
    y = net("Reshape", net("Transpose", y, perm=[0, 2, 1, 3]), [0, 0, -1])
    net.output(net("Softmax", net("MatMul", y, net.weight(24, 30)), axis=-1))
    return net


def sequences(layout: int = 0) -> Net:
    """A batch of sequences, each of its own length, with a state for each."""
    net = Net()
    x = net.input("x", ["n", "t", 6] if layout else ["t", "n", 6])
    each, state = net.input("each", ["n"], np.int32), net.input("state", ["n", 2, 8] if layout else [2, "n", 8])
    options = {"hidden_size": 8, "direction": "bidirectional", "layout": layout}
    y, last, _ = net("LSTM", x, net.weight(2, 32, 6), net.weight(2, 32, 8), net.weight(2, 64), each, state, state,
                     outputs=3, **options)  # fmt: skip
    rows = net("Reshape", net("Transpose", y, perm=[0, 1, 2, 3] if layout else [0, 2, 1, 3]), [0, 0, -1])
    _, final = net("GRU", rows, net.weight(2, 24, 16), net.weight(2, 24, 8), outputs=2, **options)
    net.output(rows, last, final)
    return net


def sequence(n: int, t: int, layout: int = 0) -> Feeds:
    x, state = RNG.standard_normal((t, n, 6)).astype(F32), RNG.standard_normal((2, n, 8)).astype(F32)
    x, state = (a.swapaxes(0, 1) if layout else a for a in (x, state))
    return {"x": x, "each": RNG.integers(1, t + 1, n, np.int32), "state": state}


def normalized() -> Net:
    net = Net()
    x = net.input("x", ["n", 3, 5])
    net.output(net("InstanceNormalization", x, net.weight(3), net.weight(3), epsilon=1e-3))
    return net


def line(width: int) -> Feeds:
    return {"x": RNG.standard_normal((1, 1, 16, width)).astype(F32)}


NETS: dict[str, tuple[Callable[[], Net], Callable[[int], Feeds]]] = {
    "decoder": (decoder, step),
    "merged decoders": (merged, lambda n: step(n) | {"has_past": np.array([True])}),
    "decoder with places": (placed, lambda n: step(n, layers=1)),
    "decoder of several words with places": (placed, lambda n: step(7, n, layers=1)),
    "decoder of several words": (decoder, lambda n: step(5, n)),
    "rows by indices of all": (
        rows,
        lambda n: {"x": RNG.standard_normal((3, n)).astype(F32), "past": np.ones(n - 2, F32)},
    ),
    "batches of sequences": (sequences, lambda n: sequence(n, 7)),
    "sequences of lengths": (sequences, lambda n: sequence(3, n)),
    "batches, each normalized": (normalized, lambda n: {"x": RNG.standard_normal((n, 3, 5)).astype(F32)}),
    "encoder": (encoder, words),
    "encoder of batches": (encoder, lambda n: words(6, n)),
    "recognizer": (recognizer, line),
}


def opened(model: fg.Model) -> int:
    """How many of the plans kept are for many lengths."""
    return sum(is_open(key.shapes) for key in model._plans.keys())


def agree(model: fg.Model, source: bytes, feeds: Callable[[int], dict[str, np.ndarray]], counts: Iterable[int]) -> None:
    """The model gives what onnxruntime gives for feeds of each of these lengths, one after the other."""
    ort = session(source)
    for n in counts:
        fed = feeds(n)
        assert_close(list(model.run(fed).values()), ort.run(None, fed), 1e-4, f"{n}")


def used_encoder(last: int = 20, **options: Any) -> fg.Model:
    """An encoder that ran for texts of 10 words and more, to below `last`."""
    model = fg.load(encoder().bytes(), **options)
    for n in range(10, last):
        model.run(words(n))
    return model


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("threads, isa", [(1, None), (2, None), (1, "avx2"), (1, "generic")])
def test_one_plan_for_many_lengths(name: str, threads: int, isa: str | None) -> None:
    build, feeds = NETS[name]
    source = build().bytes()
    model = fg.load(source, threads=threads, isa=isa)
    agree(model, source, feeds, [*range(33, 44), 62, 63, 40, 64, 65, 66])
    assert 1 <= opened(model) <= 3 and len(model._plans.keys()) <= lengths.PLANS + opened(model)


@pytest.mark.parametrize("axis", [0, 1])
def test_sequences_with_their_batch_first(axis: int) -> None:
    source = sequences(layout=1).bytes()
    model, own = fg.load(source), fg.load(source, isa="numpy")
    for n in range(9, 16):
        fed = sequence(*((n, 5) if axis == 0 else (3, n)), layout=1)
        assert_close(list(model.run(fed).values()), list(own.run(fed).values()), 1e-5, f"{n}")
    assert opened(model)


def test_a_sequence_longer_than_there_are_steps() -> None:
    """Room is no step: what asks for more than is fed is an error in a plan for many lengths, too."""
    model = fg.load(sequences().bytes())
    for n in range(9, 14):
        model.run(sequence(3, n))
    assert opened(model)
    fed = sequence(3, 14)
    with pytest.raises(fg.FastgraphError):
        model.run(fed | {"each": np.array([3, 15, 1], np.int32)})
    assert_close(list(model.run(fed).values()), list(fg.load(sequences().bytes()).run(fed).values()), 1e-5)


def test_switches_between_branches() -> None:
    """A text begins without a past, and each branch has plans of its own."""
    source = merged().bytes()
    model, ort = fg.load(source), session(source)
    for begin in (5, 9, 12):
        for n in range(begin, begin + 8):
            fed = (step(0, n) if n == begin else step(n)) | {"has_past": np.array([n != begin])}
            assert_close(list(model.run(fed).values()), ort.run(None, fed), 1e-4, f"{n}")
    assert opened(model) >= 1 and not numpy_steps(model)


def test_values_that_are_new_in_each_run() -> None:
    """A number that is fed and decides shapes, along with lengths: few plans for many lengths are tried."""
    net = Net()
    x, n = net.input("x", [4, "n"]), net.input("rows", [1], np.int64)
    y = net("Slice", x, [0], n, [0])
    net.output(net("MatMul", net("Transpose", y, perm=[1, 0]), net("MatMul", y, net("Transpose", x, perm=[1, 0]))))
    model = net.load()
    fed = lambda i: {"x": RNG.standard_normal((4, 10 + i)).astype(F32), "rows": np.array([i % 12 + 1])}  # noqa: E731
    agree(model, net.bytes(), fed, range(12))
    assert opened(model) <= 4


def scaled_sizes(factor: float) -> Net:
    """A shape that is computed in float32 from an open extent and a known one, as scale_factor of torch does."""
    net = Net()
    x = net.input("x", ["n", 10])
    sizes = net("Cast", net("Mul", net("Cast", net("Shape", x), to=1), net.const([1, factor], F32)), to=7)
    net.output(net("Expand", net("ReduceSum", x, keepdims=1), net("Mul", sizes, [1, 2])))
    return net


@pytest.mark.parametrize("factor", [0.25, 0.7, 1.33])
def test_numbers_beside_an_open_extent_have_their_type(factor: float) -> None:
    """2 * int(2.5) is 4; in float32 10 * 0.7 is 7, in doubles less."""
    source = scaled_sizes(factor).bytes()
    model = fg.load(source)
    agree(model, source, lambda n: {"x": RNG.standard_normal((n, 10)).astype(F32)}, range(40, 46))
    assert opened(model) == 1


def test_places_that_a_run_computes() -> None:
    """Those behind the last real element are out of range, though there is room."""
    net = Net()
    x, at = net.input("x", ["n", 4]), net.input("at", [2], np.int64)
    net.output(net("Gather", x, net("Mul", at, 1), axis=0))
    net.output(net("ScatterElements", x, net("Unsqueeze", at, [1]), net.weight(2, 1), axis=0))
    model = net.load()
    agree(
        model,
        net.bytes(),
        lambda n: {"x": RNG.standard_normal((n, 4)).astype(F32), "at": RNG.permutation(n)[:2] - n * (n % 2)},
        range(40, 60),
    )
    for place in (50, 63, 64, 1000, -51, -64):
        with pytest.raises(fg.InputError, match="out of range"):
            model.run({"x": np.ones((50, 4), F32), "at": np.array([0, place])})
    assert opened(model) >= 1


@pytest.mark.parametrize("limit, plans", [(8, 1), (45, 0)])
def test_branches_that_the_length_decides(limit: int, plans: int) -> None:
    """One is known where it is the same for all lengths of a plan."""
    net, more, less = Net(), Net(prefix="more"), Net(prefix="less")
    x = net.input("x", ["n", 4])
    n = net("Gather", net("Shape", x), 0)
    more.output(more("Slice", "x", [1], [1 << 40]))
    less.output(less("Mul", "x", 2.0))
    bodies = {"then_branch": more.graph(), "else_branch": less.graph()}
    net.output(net("Relu", net("If", net("Greater", n, limit), **bodies)))
    model = net.load()
    agree(model, net.bytes(), lambda n: {"x": RNG.standard_normal((n, 4)).astype(F32)}, range(40, 52))
    assert opened(model) == plans


@pytest.mark.parametrize("mode", ["wrap", "reflect", "edge"])
def test_pads_before_and_behind_all_lengths(mode: str) -> None:
    net = Net(opset=19)
    x = net.input("x", ["n", 3, 4])
    amounts = net("Concat", [2, 1, 0], net("Sub", net("Shape", x, end=1), [20]), [0, 2], axis=0)
    net.output(net("Pad", x, amounts, mode=mode))
    model = net.load()
    agree(model, net.bytes(), lambda n: {"x": RNG.standard_normal((n, 3, 4)).astype(F32)}, range(22, 40))
    assert opened(model) >= 1


def test_the_shortest_lengths() -> None:
    """A past of nothing has a plan of its own; a line too narrow for a window is refused in any plan."""
    source = decoder().bytes()
    model = fg.load(source)
    agree(model, source, step, (9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2))
    assert opened(model) == 1
    narrow = fg.load(recognizer().bytes())
    for n in (40, 41, 42, 43, 44):
        narrow.run(line(n))
    assert opened(narrow) == 1
    for n in (3, 2):
        with pytest.raises(fg.InputError):
            narrow.run(line(n))


@pytest.mark.parametrize("dirt", [np.nan, np.inf, -np.inf])
def test_what_lay_in_memory_before_does_not_matter(dirt: float) -> None:
    """Long inputs leave what is no number where shorter ones have room."""
    for name, (build, feeds) in NETS.items():
        source = build().bytes()
        model = fg.load(source)
        for n in (40, 41, 42, 43, 60):
            fed = feeds(n)
            spoiled = {k: np.full_like(v, dirt) if v.dtype == F32 else v for k, v in fed.items()}
            model.run(spoiled)
        assert opened(model) == 1, name
        agree(model, source, feeds, [45])


@pytest.mark.parametrize("weight", [np.nan, np.inf])
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_weights_that_are_no_numbers_reach_the_same_results_in_any_plan(op: str, weight: float) -> None:
    """Taps that lie in padding are skipped, and so are those in the room for longer inputs."""
    weights = np.ones((2, 1, 3, 3), F32)
    weights[1, 0, 2, 2] = weight
    net = Net()
    form = {"pads": [1, 1, 3, 1]} if op == "Conv" else {"strides": [2, 2]}
    net.output(net(op, net.input("x", (1, 2, "h", 7)), net.const(weights, F32), group=2, **form))
    model = fg.load(net.bytes())
    for h in (5, 7, 8, 6, 9, 4):
        x = np.ones((1, 2, h, 7), F32)
        assert np.array_equal(model(x), fg.load(net.bytes())(x), equal_nan=True), h


def test_what_comes_again_gets_its_own_plan() -> None:
    model = used_encoder()
    assert is_open(model._plans.key.shapes)
    runs = 0
    while is_open(model._plans.key.shapes):
        model.run(words(15))
        runs += 1
    assert runs <= lengths.PRICE + 1
    model.run(words(16))
    assert is_open(model._plans.key.shapes)
    model.resize({"ids": (1, 17), "mask": (1, 17)})
    model.run(words(17))
    assert not is_open(model._plans.key.shapes), "a plan that there is"


LOOKS: list[Callable[[fg.Model], Any]] = [
    lambda m: m.execute(), lambda m: m.input(m.inputs[0].name), lambda m: m.output(m.outputs[0].name), lambda m: m.plan,
    lambda m: m.arena_bytes, str, lambda m: m.clone(),
    lambda m: m.prepare([{spec.name: [d if isinstance(d, int) else 40 for d in spec.shape] for spec in m.inputs}]),
]  # fmt: skip


@pytest.mark.parametrize("name", NETS)
def test_memory_and_plan_of_the_last_run(name: str) -> None:
    """After a run by a plan for many, what looks at the plan in use sees one for the shapes that were run."""
    build, feeds = NETS[name]
    source = build().bytes()
    for look in LOOKS if name == "encoder" else LOOKS[:3]:
        model = fg.load(source)
        for n in range(40, 48):
            fed = feeds(n)
            found = model.run(fed)
        assert is_open(model._plans.key.shapes)
        look(model)
        assert all(np.array_equal(model.input(key), array) for key, array in fed.items())
        assert not is_open(model._plans.key.shapes)
        for key, y in found.items():
            assert model.output(key).shape == y.shape
            assert_close([model.output(key)], [y], 1e-5)
        model.execute()
        assert_close([model.output(key)], [y], 1e-5)


def test_a_clone_has_the_shapes_of_the_last_run() -> None:
    model = used_encoder()
    twin = model.clone()
    assert twin.input("ids").shape == model.input("ids").shape == (1, 19)
    fed = words(19)
    for each in (twin, model):
        assert_close(list(each.run(fed).values()), session(encoder().bytes()).run(None, fed), 1e-4)


def test_saved_programs(tmp_path: Any) -> None:
    """Plans for many lengths are not saved; a loaded program makes them, too."""
    model = used_encoder()
    model.save(str(tmp_path / "net.fgm"))
    again = fg.load(str(tmp_path / "net.fgm"))
    assert opened(again) == 0
    agree(again, encoder().bytes(), words, range(20, 30))
    assert opened(again) == 1


def test_where_a_plan_for_many_does_not_pay() -> None:
    """An operator without a rule, or work beyond that of planning: each shape has its own plan."""
    net = Net()
    net.output(net("LpNormalization", net.input("x", [1, 2, "n"]), axis=2))
    model = net.load()
    for n in range(1, 10):
        model(np.ones((1, 2, n), F32))
    assert opened(model) == 0 and len(model._plans.keys()) == 9
    with thresholds(native_work=0):
        model = used_encoder()
    assert opened(model) == 0 and len(model._plans.keys()) == 10


def test_isa_numpy_plans_each_shape() -> None:
    assert opened(used_encoder(18, isa="numpy")) == 0


def test_a_slice_from_a_computed_place_to_a_number() -> None:
    """One of two numbers is new in each run; what says which shapes a plan is for has both."""
    net = Net()
    x, numbers = net.input("x", [1, "n", 4]), net.input("numbers", [2], I64)
    first = net("Cast", net("ReduceMax", x, keepdims=0), to=7)
    end = net("Gather", numbers, [0])
    net.output(net("Slice", x, net("Unsqueeze", first, [0]), end, [1]))
    model, reference = net.load(), session(net.bytes())
    for n in range(10, 20):
        feeds = {"x": np.arange(4 * n, dtype=F32).reshape(1, n, 4) % 3, "numbers": np.array([n - 2, 5])}
        assert_close(list(model.run(feeds).values()), reference.run(None, feeds))
    row = Open(1, 9, 0), 5
    assert "'numbers': [Open(" in model._planner.keys.asked(Key(((1, 9, 4), (2,)), (("numbers", row),)))


def test_a_clone_after_lengths_beside_a_number_that_decides_shapes() -> None:
    net = Net()
    rows, x = net.input("rows", [1], I64), net.input("x", [40, "n"])
    net.output(net("Relu", net("Slice", x, [0], rows, [0])))
    model, reference = net.load(), session(net.bytes())
    for i in range(8):
        fed = {"x": RNG.standard_normal((40, 10 + i)).astype(F32), "rows": np.array([3])}
        model.run(fed)
    assert any(is_open(key.opens) for key in model._plans.keys())
    assert_close(list(model.clone().run(fed).values()), reference.run(None, fed))
    assert model.input("x").shape == fed["x"].shape


def test_shapes_that_no_length_of_a_plan_suits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice is of one column for six columns and more, and of none for fewer: then nothing can be joined to it."""
    monkeypatch.setenv("FASTGRAPH_CHECK", "0")  # checks refuse such a plan
    net = Net()
    x, other = net.input("x", ["rows", "columns"]), net.input("other", ["n"])
    column = net("Slice", x, [5], [4], [1], [-1])
    net.output(net("Concat", column, [[1.0]], axis=0), net("Relu", other))
    model = net.load()
    for rows, columns, n in [(1, 7, 2), (1, 6, 8), (3, 6, 8)]:
        model.run({"x": np.zeros((rows, columns), F32), "other": np.zeros(n, F32)})
    with pytest.raises(fg.InputError, match="extents disagree"):
        model.run({"x": np.zeros((3, 3), F32), "other": np.zeros(2, F32)})
