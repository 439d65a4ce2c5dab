"""Random networks whose operands of shapes are fed, and change from run to run, against onnxruntime."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from fastgraph.ir import is_open
from fastgraph.runtime.keys import Credit
from tests.model.test_deciding import native
from tests.nets import F32, I64, Net, assert_close, session
from tests.random_nets import examples, unchecked

pytestmark = pytest.mark.slow

Draw = Callable[[Any], Any]
Shape = list[int]
MOST = 4000
"""Elements of a value."""


class Step:
    """An operator with operands that are fed. `rank`: of its result."""

    def __init__(self, draw: Draw, net: Net, x: str, rank: int, number: int) -> None:
        self.names: list[str] = []
        self.kind = draw(st.sampled_from(["reshape", "slice", "pad", "tile", "reduce", "unsqueeze", "top_k", "expand"]))
        if self.kind == "unsqueeze" and rank > 4:
            self.kind = "reduce"
        self.count = draw(st.integers(1, 4)) if self.kind == "reshape" else draw(st.integers(1, rank))
        self.axis = draw(st.integers(0, rank - 1))
        self.keep = draw(st.booleans()) or self.count == rank
        self.far = draw(st.booleans())
        lengths = {"reshape": [self.count], "slice": [self.count] * 4, "pad": [2 * rank], "tile": [rank],
                   "reduce": [self.count], "unsqueeze": [1], "top_k": [1], "expand": [rank]}[self.kind]  # fmt: skip
        for i, n in enumerate(lengths):
            self.names.append(net.input(f"a{number}_{i}", (n,), I64))
        fed = [net("Add", name, [0] * n) if self.far else name
               for name, n in zip(self.names, lengths, strict=True)]  # fmt: skip
        op = {"reshape": "Reshape", "slice": "Slice", "pad": "Pad", "tile": "Tile", "unsqueeze": "Unsqueeze"}
        if self.kind == "reduce":
            y = net(draw(st.sampled_from(["ReduceSum"])), x, *fed, keepdims=int(self.keep))
        elif self.kind == "top_k":
            y = net("TopK", x, *fed, axis=self.axis, outputs=2)[0]
        elif self.kind == "expand":
            y = net("Expand", net("ReduceMax", x, axes=[self.axis]), *fed)
        else:
            y = net(op[self.kind], x, *fed)
        self.out = net(draw(st.sampled_from(["Relu", "Neg", "Sigmoid"])), y)
        gone = self.count if self.kind == "reduce" and not self.keep else 0
        self.rank = {"reshape": self.count, "unsqueeze": rank + 1}.get(self.kind, rank - gone)

    def values(self, draw: Draw, shape: Shape) -> tuple[list[list[int]], Shape]:
        """Operands for a shape, and the shape that follows."""
        rank, size = len(shape), int(np.prod(shape))
        axes = list(draw(st.permutations(range(rank))))[: self.count]
        signed = [a - rank if draw(st.booleans()) else a for a in axes]
        match self.kind:
            case "reshape":
                left, dims = size, []
                for _ in range(self.count - 1):
                    dims.append(draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0][:6])))
                    left //= dims[-1]
                dims.append(left)
                given = list(dims)
                if draw(st.booleans()):
                    given[draw(st.integers(0, self.count - 1))] = -1
                return [given], dims
            case "slice":
                starts, ends, steps, after = [], [], [], list(shape)
                for a in axes:
                    step = draw(st.sampled_from([1, 1, 2, -1]))
                    first = draw(st.integers(0, shape[a] - 1))
                    last = draw(st.integers(first + 1, shape[a] + 2)) if step > 0 else draw(st.integers(0, first)) - 1
                    last = -(1 << 40) if last < 0 else last
                    after[a] = len(range(shape[a])[first : None if last < 0 else last : step])
                    starts.append(first - shape[a] if draw(st.booleans()) else first)
                    ends.append(last)
                    steps.append(step)
                return [starts, ends, signed, steps], after
            case "pad":
                pads = [draw(st.integers(0, 2)) for _ in range(2 * rank)]
                return [pads], [n + pads[i] + pads[i + rank] for i, n in enumerate(shape)]
            case "tile":
                times = [draw(st.integers(1, 2)) for _ in shape]
                return [times], [n * t for n, t in zip(shape, times, strict=True)]
            case "reduce":
                kept = [1 if i in axes else n for i, n in enumerate(shape)]
                return [signed], kept if self.keep else [n for i, n in enumerate(shape) if i not in axes]
            case "unsqueeze":
                at = draw(st.integers(0, rank))
                return [[at - rank - 1 if draw(st.booleans()) else at]], [*shape[:at], 1, *shape[at:]]
            case "top_k":
                k = draw(st.integers(1, shape[self.axis]))
                return [[k]], [k if i == self.axis else n for i, n in enumerate(shape)]
            case _:
                wide = [draw(st.integers(1, 4)) if i == self.axis else draw(st.sampled_from([1, n]))
                        for i, n in enumerate(shape)]  # fmt: skip
                return [wide], [
                    max(n, 1 if i == self.axis else m) for i, (n, m) in enumerate(zip(wide, shape, strict=True))
                ]


@examples(60)
@given(st.data())
def test_values_from_run_to_run(data: Any) -> None:
    draw, net = data.draw, Net()
    opened = draw(st.booleans())
    rank = draw(st.integers(1, 3))
    y = net.input("x", [f"d{i}" if opened else 4 for i in range(rank)])
    steps: list[Step] = []
    for number in range(draw(st.integers(1, 4))):
        steps.append(Step(draw, net, y, steps[-1].rank if steps else rank, number))
        y = steps[-1].out
    net.output(y)
    model, other = net.load(plans=draw(st.sampled_from([1, 2, 64]))), session(net.bytes())
    runs: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(2, 5))):
        shape = [draw(st.integers(1, 5)) if opened else 4 for _ in range(rank)]
        feeds: dict[str, Any] = {"x": net.rng.standard_normal(shape).astype(F32)}
        for step in steps:
            if np.prod(shape) > MOST:
                break
            values, shape = step.values(draw, shape)
            feeds |= {name: np.array(v, I64) for name, v in zip(step.names, values, strict=True)}
        else:
            runs.append(feeds)
    for feeds in [*runs, *runs[::-1]]:
        assert_close(list(model.run(feeds).values()), other.run(None, feeds))
        assert native(model), str(model)
    for feeds in runs:
        if all(model.input(name).shape == array.shape for name, array in feeds.items()):
            for name, array in feeds.items():
                model.input(name)[...] = array
            model.execute()
            assert_close([model.output(spec.name) for spec in model.outputs], other.run(None, feeds))


KINDS = ["first", "rest", "expand", "tile", "pad", "range", "best", "reshape", "last"]


def by_number(net: Net, x: str, n: str, kind: str) -> str:
    """x [rows, 6] by a number: some of its rows, or more of them."""
    zero, rows = net.const([0]), net("Slice", net("Shape", x), [0], [1])
    match kind:
        case "first" | "rest":
            fewer = net("Min", n, rows)
            ends = (zero, fewer) if kind == "first" else (net("Sub", fewer, [1]), rows)
            return net("Slice", x, *ends, zero)
        case "expand":
            row = net("ReduceMax", x, axes=[0])
            return net("Expand", row, net("Concat", n, [6], axis=0))
        case "tile":
            return net("Tile", net("ReduceSum", x, zero), net("Concat", n, [1], axis=0))
        case "pad":
            return net("Pad", x, net("Concat", zero, zero, n, zero, axis=0))
        case "range":
            places = net("Range", 0, net("Squeeze", n), 1)
            added = net("Unsqueeze", net("Cast", places, to=1), [1])
            return net("Add", net("ReduceMean", x, axes=[0]), added)
        case "best":
            return net("TopK", x, net("Min", n, rows), axis=0, outputs=2)[0]
        case "reshape":
            wide = net("Expand", net("ReduceMin", x, axes=[0]), net("Concat", n, [6], axis=0))
            flat = net("Reshape", wide, net("Mul", n, [6]))
            return net("Reshape", flat, net("Concat", n, [6], axis=0))
    return net("Slice", x, net("Neg", net("Min", n, rows)), [1 << 40], zero)


@examples(60)
@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3), st.integers(1, 2), st.integers(0, 1 << 20))
def test_a_plan_for_many_numbers_gives_what_onnxruntime_gives(kinds: list[str], threads: int, seed: int) -> None:
    """Numbers around the ends of room, in any order, with large ones among them where they only cut."""
    net, rng = Net(opset=17), np.random.default_rng(seed)
    x, n = net.input("x", (9, 6)), net.input("n", (1,), I64)
    for kind in kinds:
        x = net("Relu", by_number(net, x, n, kind))
    net.output(net("MatMul", x, net.weight(6, 5)))
    cuts = {"first", "rest", "best", "last"}.issuperset(kinds)
    model, other = net.load(threads=threads), session(net.bytes())
    model._planner.lengths._credit = Credit(1, 0)
    large = [(1 << 24) - 1, 1 << 24, 1 << 31, 1 << 62] if cuts else []
    for number in rng.permutation([1, 2, 3, 7, 8, 9, 31, 32, 33, 64, *large]):
        fed = {"x": rng.standard_normal((9, 6)).astype(F32), "n": np.array([number])}
        with unchecked(seed % 2 == 1):
            found = list(model.run(fed).values())
        assert_close(found, other.run(None, fed), what=f"{kinds} of {number}")
    event("many" if any(is_open(key.opens) for key in model._plans.keys()) else "each")


def test_numbers_reach_them() -> None:
    """One plan is for many numbers, whatever reads them."""
    for kind in KINDS:
        net = Net(opset=17)
        x, n = net.input("x", (9, 6)), net.input("n", (1,), I64)
        net.output(net("MatMul", by_number(net, x, n, kind), net.weight(6, 5)))
        model = net.load()
        model._planner.lengths._credit = Credit(1, 0)
        for number in (3, 4, 5):
            model.run({"x": np.ones((9, 6), F32), "n": np.array([number])})
        assert any(is_open(key.opens) for key in model._plans.keys()), kind
