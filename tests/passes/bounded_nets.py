"""Random networks whose shapes depend on data: what makes such values, and what follows on them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.nets import F32, I64, Net

Draw = Callable[[st.SearchStrategy], Any]
Dims = tuple[Any, ...]
"""Extents: numbers, or a name for each that depends on data."""

ROWS, COLUMNS, MOST = 12, 3, 5


class Growing:
    """A net under construction: the extents of its values, by element type, and of which extents indices stay below."""

    def __init__(self, draw: Draw) -> None:
        self.draw, self.net = draw, Net(18)
        self.real: dict[str, Dims] = {}
        self.places: dict[str, tuple[Dims, Any]] = {}
        self.x = self.net.input("x", (ROWS, COLUMNS))
        self.t = self.net.input("t", ())
        self.boxes, self.scores = self.net.input("boxes", (1, ROWS, 4)), self.net.input("scores", (1, 2, ROWS))
        self.whole = self.net.input("whole", (ROWS,), I64)
        # Of three axes, it is none of the inputs that plans are made for.
        self.k = self.net("Reshape", self.net.input("k", (1, 1, 1), I64), self.ints(1))
        self.real[self.x] = (ROWS, COLUMNS)
        self.count = 0

    def new(self) -> str:
        self.count += 1
        return f"n{self.count}"

    def pick(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def value(self, fits: Callable[[Dims], bool]) -> tuple[str, Dims] | None:
        found = [(name, dims) for name, dims in self.real.items() if fits(dims)]
        return self.draw(st.sampled_from(found[::-1])) if found else None

    def ints(self, *numbers: int) -> str:
        return self.net.const(np.array(numbers, I64))

    def over(self, value: str) -> str:
        return self.net("Greater", value, self.t)

    def keep(self, name: str, dims: Dims) -> str:
        self.real[name] = dims
        return name


def makes(g: Growing) -> None:
    """One more value of an extent of its own."""
    net, n = g.net, g.new()
    kind = g.pick("rows", "elements", "compress", "flat", "top_k", "boxes", "unique", "from_bounded", "slice", "cut")
    if kind == "rows":
        column = net("Gather", g.x, g.pick(0, 1, 2), axis=1)
        found = net("Squeeze", net("NonZero", g.over(column)), g.ints(0))
        g.places[found] = (n,), ROWS
        g.keep(net("Gather", g.x, found, axis=0), (n, COLUMNS))
    elif kind == "elements":
        found = net("Transpose", net("NonZero", g.over(g.x)), perm=[1, 0])
        g.keep(net("GatherND", g.x, found), (n,))
        g.places[net("Squeeze", net("Slice", found, g.ints(0), g.ints(1), g.ints(1)), g.ints(1))] = (n,), ROWS
    elif kind == "compress":
        column = net("Gather", g.x, 1, axis=1)
        g.keep(net("Compress", g.x, g.over(column), axis=0), (n, COLUMNS))
    elif kind == "flat":
        flat = net("Reshape", g.over(g.x), g.ints(-1))
        g.keep(net("Compress", g.x, flat), (n,))
    elif kind == "top_k":
        values, places = net("TopK", g.x, g.k, outputs=2, axis=0, largest=g.pick(0, 1))
        g.keep(values, (n, COLUMNS))
        g.keep(net("Cast", places, to=1), (n, COLUMNS))
    elif kind == "boxes":
        limits = g.ints(g.pick(1, 4, 100)), net.const(np.array([g.pick(0.0, 0.3, 1.0)], F32))
        found = net("NonMaxSuppression", g.boxes, g.scores, *limits, net("Reshape", g.t, g.ints(1)))
        column = net("Squeeze", net("Gather", found, g.ints(2), axis=1), g.ints(1))
        g.places[column] = (n,), ROWS
        g.keep(net("Cast", found, to=1), (n, 3))
        g.keep(net("Gather", g.x, column, axis=0), (n, COLUMNS))
    elif kind == "unique":
        found = net("Unique", g.whole, outputs=4, sorted=g.pick(0, 1))
        for part in (found[0], found[1], found[3]):
            g.keep(net("Cast", part, to=1), (n,))
        g.keep(net("Cast", found[2], to=1), (ROWS,))
    elif kind == "cut":
        two = net("Mul", g.k, g.ints(g.pick(-2, -1, 1, 2)))
        start = g.pick(g.ints(0), g.ints(3), g.ints(-4), net("Sub", two, g.ints(5)))
        end = g.pick(two, net("Add", two, g.ints(2)))
        g.keep(net("Slice", g.x, start, end, g.ints(0)), (n, COLUMNS))
    elif kind == "slice":
        values, _ = net("TopK", g.x, g.k, outputs=2, axis=0)
        size = net("Slice", net("Shape", values), g.ints(0), g.ints(1))
        g.keep(net("Slice", g.x, g.ints(0), size, g.ints(0)), (n, COLUMNS))
    else:
        value, dims = g.value(lambda d: len(d) == 1 and isinstance(d[0], str)) or (None, ())
        if value is not None:
            found = net("Squeeze", net("NonZero", net("Greater", value, 1.0)), g.ints(0))
            g.places[found] = (n,), dims[0]
            g.keep(net("Gather", value, found, axis=0), (n,))


def follows(g: Growing) -> None:
    """One more value that comes of others."""
    net = g.net
    chosen = g.value(lambda d: any(isinstance(n, str) for n in d))
    if chosen is None:
        return makes(g)
    v, dims = chosen
    rank, axis = len(dims), next(i for i, n in enumerate(dims) if isinstance(n, str))
    kind = g.pick(*FOLLOWERS)
    if kind == "unary":
        g.keep(net(g.pick("Relu", "Neg", "Abs", "Identity"), v), dims)
    elif kind == "binary":
        other = g.value(lambda d: d == dims)
        assert other is not None
        g.keep(net(g.pick("Add", "Mul", "Sub", "Max"), v, other[0]), dims)
    elif kind == "constant":
        g.keep(net("Add", v, 1.5), dims)
    elif kind == "cast":
        g.keep(net("Cast", net("Cast", v, to=7), to=1), dims)
    elif kind == "transpose" and rank > 1:
        perm = list(g.draw(st.permutations(range(rank))))
        g.keep(net("Transpose", v, perm=perm), tuple(dims[p] for p in perm))
    elif kind == "unsqueeze" and rank < 4:
        at = g.draw(st.integers(0, rank))
        g.keep(net("Unsqueeze", v, g.ints(at)), (*dims[:at], 1, *dims[at:]))
    elif kind == "squeeze" and 1 in dims:
        at = dims.index(1)
        g.keep(net("Squeeze", v, g.ints(at)), (*dims[:at], *dims[at + 1 :]))
    elif kind == "flatten" and sum(isinstance(n, str) for n in dims) == 1:
        size = np.prod([n for n in dims if not isinstance(n, str)], dtype=int)
        g.keep(net("Reshape", v, g.ints(-1)), (dims[axis],) if size == 1 else (f"{dims[axis]}*{size}",))
    elif kind == "rows" and rank == 1:
        size = net("Shape", v)
        g.keep(net("Reshape", v, net("Concat", size, g.ints(1), axis=0)), (*dims, 1))
    elif kind == "back" and rank == 1 and dims[0].endswith("*3"):
        g.keep(net("Reshape", v, g.ints(-1, 3)), (dims[0][:-2], 3))
    elif kind == "expand" and rank == 1:
        target = net("Concat", g.ints(2), net("Shape", v), axis=0)
        g.keep(net("Expand", v, target), (2, *dims))
    elif kind == "full" and rank < 3:
        g.keep(net("Expand", 2.0, net("Shape", v)), dims)
    elif kind == "range":
        size = net("Gather", net("Shape", v), axis, axis=0)
        made = net("Range", 0, size, 1)
        g.keep(net("Cast", made, to=1), (dims[axis],))
    elif kind == "concat":
        other = g.value(lambda d: len(d) == rank and all(a == b for i, (a, b) in enumerate(zip(d, dims, strict=True))
                                                          if i != axis))  # fmt: skip
        assert other is not None
        g.keep(net("Concat", v, other[0], v, axis=axis), (*dims[:axis], g.new(), *dims[axis + 1 :]))
    elif kind == "beside" and rank > 1:
        at = 0 if axis else rank - 1
        if isinstance(dims[at], int):
            g.keep(net("Concat", v, v, axis=at), tuple(2 * n if i == at else n for i, n in enumerate(dims)))
    elif kind == "first":
        cut = net("Slice", v, g.ints(0), g.ints(g.pick(1, MOST, 100)), g.ints(axis))
        g.keep(cut, (*dims[:axis], g.new(), *dims[axis + 1 :]))
    elif kind == "later":
        cut = net("Slice", v, g.ints(2), g.ints(2**40), g.ints(axis))
        g.keep(cut, (*dims[:axis], g.new(), *dims[axis + 1 :]))
    elif kind == "backwards":
        cut = net("Slice", v, g.ints(-1), g.ints(-(2**40)), g.ints(axis), g.ints(-1))
        g.keep(cut, dims)
    elif kind == "best":
        size = net("Gather", net("Shape", v), axis, axis=0)
        both = net("Concat", g.ints(MOST), net("Unsqueeze", size, g.ints(0)), axis=0)
        k = net("Reshape", net("ReduceMin", both, keepdims=0), g.ints(1))
        values, places = net("TopK", v, k, outputs=2, axis=axis, largest=g.pick(0, 1))
        new = g.new()
        g.keep(values, (*dims[:axis], new, *dims[axis + 1 :]))
        if rank == 1:
            g.places[places] = (new,), dims[0]
            g.keep(net("Gather", v, places, axis=0), (new,))
    elif kind == "reduce":
        at = g.draw(st.lists(st.integers(0, rank - 1), min_size=1, max_size=rank, unique=True))
        op = g.pick("ReduceMax", "ReduceMin", "ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceMean")
        y = net(op, v, g.ints(*at), keepdims=1)
        g.keep(y, tuple(1 if i in at else n for i, n in enumerate(dims)))
    elif kind == "softmax":
        g.keep(net("Softmax", v, axis=g.draw(st.integers(0, rank - 1))), dims)
    elif kind == "running":
        g.keep(net("CumSum", v, axis), dims)
    elif kind == "extreme" and rank > 1:
        at = 0 if axis else rank - 1
        if isinstance(dims[at], int):
            g.keep(net("Cast", net("ArgMax", v, axis=at, keepdims=1), to=1),
                   tuple(1 if i == at else n for i, n in enumerate(dims)))  # fmt: skip
    elif kind == "matmul" and rank == 2 and isinstance(dims[1], int):
        g.keep(net("MatMul", v, net.weight(dims[1], 2)), (dims[0], 2))
    elif kind == "gram" and rank == 2:
        turned = net("Transpose", v, perm=[1, 0])
        y = net("MatMul", v, turned) if g.pick(0, 1) else net("MatMul", turned, v)
        own = net.nodes[-1].input[0] == v
        g.keep(y, (dims[0], dims[0]) if own else (dims[1], dims[1]))
    elif kind == "pairs" and rank == 1:
        g.keep(net("Sub", net("Unsqueeze", v, g.ints(1)), net("Unsqueeze", v, g.ints(0))), (*dims, *dims))
    elif kind == "where":
        g.keep(net("Where", g.over(v), v, 0.5), dims)
    elif kind == "size":
        g.keep(net("Add", net("Cast", net("Size", v), to=1), 0.5), ())
    elif kind == "split" and rank > 1 and dims[-1] == 3:
        first, second = net("Split", v, g.ints(1, 2), outputs=2, axis=rank - 1)
        g.keep(first, (*dims[:-1], 1))
        g.keep(second, (*dims[:-1], 2))
    elif kind in ("scatter", "elements", "gather") and g.places:
        places, (extents, below) = g.pick(*g.places.items())
        if kind == "gather":
            found = g.value(lambda d: len(d) > 0 and d[0] == below)
            if found is not None:
                g.keep(net("Gather", found[0], places, axis=0), (*extents, *found[1][1:]))
            return None
        rows = g.value(lambda d: d == (*extents, COLUMNS))
        if rows is None or below != ROWS:
            return None
        # Of places that are the same, onnxruntime and NumPy take the last; sums don't depend on order.
        if kind == "scatter":
            at = net("Unsqueeze", places, g.ints(1))
            g.keep(net("ScatterND", g.x, at, rows[0], reduction="add"), (ROWS, COLUMNS))
        else:
            at = net("Expand", net("Unsqueeze", places, g.ints(1)), net("Shape", rows[0]))
            g.keep(net("ScatterElements", g.x, at, rows[0], axis=0, reduction="add"), (ROWS, COLUMNS))
    return None


FOLLOWERS = """
    unary binary constant cast transpose unsqueeze squeeze flatten rows back expand full range concat beside first later
    backwards best reduce softmax running extreme matmul gram pairs where size split scatter elements gather
""".split()


def network(draw: Draw) -> Net:
    """A net of some makers and many followers; all that it computes are its outputs."""
    g = Growing(draw)
    for _ in range(draw(st.integers(1, 3))):
        makes(g)
    for _ in range(draw(st.integers(2, 12))):
        if g.pick(*[0] * 6, 1):
            makes(g)
        else:
            follows(g)
    made = [name for name in g.real if name != g.x]
    g.net.output(*made)
    for name in g.places:
        g.net.output(name, dtype=I64)
    return g.net


def feeds(seed: int, level: float) -> dict[str, np.ndarray]:
    """Small whole numbers, so that sums are exact; `level`: elements above it count."""
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 9, (1, ROWS, 2))
    return {
        "x": rng.integers(-4, 5, (ROWS, COLUMNS)).astype(F32), "t": np.array(level, F32),
        "boxes": np.concatenate([low, low + rng.integers(1, 6, (1, ROWS, 2))], 2).astype(F32),
        "scores": rng.permutation(2 * ROWS).reshape(1, 2, ROWS).astype(F32) / 4 - 3,
        "whole": rng.integers(-3, 4, ROWS), "k": rng.integers(0, ROWS + 1, (1, 1, 1)),
    }  # fmt: skip
