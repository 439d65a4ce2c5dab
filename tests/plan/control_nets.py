"""ONNX networks with control flow: what random ones do not have, by hand, and these."""

import random
from collections.abc import Callable

import numpy as np

from tests.nets import I64, Net

BOOL = np.dtype(bool)
SHAPE = (3, 8)


def body(name: str, loop: bool = False, *carried: tuple[str, tuple[int, ...]]) -> Net:
    """A body; that of a loop takes its round as NAMEi, the condition as NAMEgo, and what is carried."""
    net = Net(prefix=f"{name}_")
    if loop:
        net.input(f"{name}i", (), I64)
        net.input(f"{name}go", (), BOOL)
    for value, shape in carried:
        net.input(value, shape)
    return net


def branches() -> Net:
    """Two branches with convolutions on what is around them, which one of them gives as it is."""
    net = Net()
    x = net("Relu", net.input("x", (1, 8, 12, 12)))
    one, other = body("one"), body("other")
    for inner, size in ((one, 3), (other, 1)):
        pads = [size // 2] * 4
        y = inner("Conv", x, inner.weight(16, 8, size, size), pads=pads)
        inner.output(inner("Sigmoid", y) if size == 1 else inner("Relu", y))
    one.output(one("Identity", x))
    other.output(other("Neg", x))
    names = net("If", net.input("c", (), BOOL), outputs=2, then_branch=one.graph(), else_branch=other.graph())
    net.output(net("Exp", names[0]), names[1])
    return net


def until() -> Net:
    """A loop whose condition is computed, whose carried values change places, with a trip count that is fed."""
    net = Net()
    x, y = net.input("x", SHAPE), net.input("y", SHAPE)
    around = net("Relu", x)
    inner = body("b", True, ("p", SHAPE), ("q", SHAPE))
    grown = inner("Add", inner("Tanh", inner("MatMul", "p", inner.weight(8, 8))), around)
    go = inner("Less", inner("ReduceSum", grown, keepdims=0), 40.0)
    inner.output(go, dtype=BOOL)
    inner.output("q", grown)
    p, q = net("Loop", net.input("most", (), I64), net.input("c", (), BOOL), x, y, outputs=2, body=inner.graph())
    net.output(net("Sub", p, q), q)
    return net


def scanned() -> Net:
    """Slices along different axes, from the front and from the back."""
    net = Net()
    x, one, other = net.input("x", SHAPE), net.input("one", (5, *SHAPE)), net.input("other", (3, 5, 8))
    inner = body("b", False, ("s", SHAPE), ("r", SHAPE), ("w", SHAPE))
    t = inner("Tanh", inner("Sub", inner("Add", inner("MatMul", "s", inner.weight(8, 8)), "r"), "w"))
    inner.output(t, inner("Relu", t), inner("Exp", t), inner("Identity", "r"))
    along = {"scan_input_axes": [0, 1], "scan_output_axes": [1, -1, 0]}
    ways = {"scan_input_directions": [0, 1], "scan_output_directions": [1, 0, 1]}
    net.output(*net("Scan", x, one, other, outputs=4, body=inner.graph(), num_scan_inputs=2, **along, **ways))
    return net


NETS: dict[str, Callable[[], Net]] = {f.__name__: f for f in (branches, until, scanned)}


# -- random ones


def drawn(seed: int) -> Net:
    """A random network of loops and branches, in one another."""
    pick = random.Random(seed)
    net = Net(seed=seed)
    values = [net.input(f"x{i}", SHAPE) for i in range(2)]
    net.input("flag", (), BOOL)
    net.input("most", (), I64)
    found = _grown(pick, net, values, 0, "g")
    net.output(*{*pick.sample(found, min(3, len(found))), found[-1]})
    return net


def _grown(pick: random.Random, net: Net, values: list[str], depth: int, name: str) -> list[str]:
    """Add a few nodes, of control flow where it isn't too deep; the values made by now."""
    found = list(values)
    for k in range(pick.randint(2, 5)):
        kind = pick.random()
        if depth < 3 and kind < 0.25:
            found += _branch(pick, net, found, depth, f"{name}{k}")
        elif depth < 3 and kind < 0.5:
            found += _loop(pick, net, found, depth, f"{name}{k}")
        else:
            found.append(_plain(pick, net, found))
    return found


def _plain(pick: random.Random, net: Net, values: list[str]) -> str:
    """A node that keeps shape and magnitude."""
    op = pick.choice(("Add", "Sub", "Tanh", "Relu", "Neg", "MatMul", "Sigmoid", "Concat", "Transpose", "CumSum"))
    one, other = pick.choice(values), pick.choice(values)
    if op in ("Add", "Sub"):
        return str(net("Mul", net(op, one, other), 0.5))
    if op == "MatMul":
        return str(net(op, one, net.weight(8, 8)))
    if op == "CumSum":  # no kernel does it
        return str(net("Mul", net(op, one, 1), 0.3))
    if op == "Concat":
        halves = net("Split", one, axis=1, outputs=2)
        return str(net("Concat", halves[1], net("Tanh", halves[0]), axis=1))
    if op == "Transpose":
        return str(net("Reshape", net("Relu", net("Transpose", one, perm=[1, 0])), SHAPE))
    return str(net(op, one))


def _condition(pick: random.Random, net: Net, values: list[str]) -> str:
    kind = pick.random()
    if kind < 0.3:
        return "flag"
    if kind < 0.4:
        return net.const(np.array(pick.random() < 0.5))
    total = net("ReduceSum", pick.choice(values), keepdims=0)
    return str(net("Less", total, np.float32(pick.choice((-1.37, 0.613, 2.71)))))


def _branch(pick: random.Random, net: Net, values: list[str], depth: int, name: str) -> list[str]:
    count, graphs = pick.randint(1, 3), []
    for side in "te":
        inner = Net(seed=pick.randrange(1000), prefix=f"{name}{side}_")
        made = _grown(pick, inner, values, depth + 1, f"{name}{side}")
        inner.output(*_results(pick, inner, made[len(values) :], values, count))
        graphs.append(inner.graph())
    outputs = net("If", _condition(pick, net, values), outputs=count, then_branch=graphs[0], else_branch=graphs[1])
    return outputs if count > 1 else [outputs]


def _loop(pick: random.Random, net: Net, values: list[str], depth: int, name: str) -> list[str]:
    count, known = pick.randint(1, 3), pick.random() < 0.4
    own = [f"{name}s{i}" for i in range(count)]
    inner = body(name, True, *((value, SHAPE) for value in own))
    made = _grown(pick, inner, [*values, *own], depth + 1, f"{name}b")
    go = inner("Identity", f"{name}go") if known or pick.random() < 0.3 else _condition(pick, inner, made)
    inner.output(inner("Identity", go), dtype=BOOL)
    fresh = made[len(values) :]
    results = _results(pick, inner, fresh, values, count + known)
    inner.output(*results)
    most = net.const(np.array(pick.randint(1, 4))) if known or pick.random() < 0.5 else "most"
    first = [pick.choice(values) for _ in own]
    outputs = net("Loop", most, "" if known else _condition(pick, net, values), *first, outputs=count + known,
                  body=inner.graph())  # fmt: skip
    outputs = outputs if count + known > 1 else [outputs]
    mean = [net("ReduceSum", outputs.pop(), [0], keepdims=0)] if known else []
    return [*outputs, *mean]


def _results(pick: random.Random, net: Net, made: list[str], around: list[str], count: int) -> list[str]:
    """What a body gives: of what it made, now and then what it was given, all by names of its own."""
    chosen = [pick.choice(around if pick.random() < 0.15 else made) for _ in range(count)]
    return [net("Identity", v) if v in around or chosen.count(v) > 1 or pick.random() < 0.1 else v for v in chosen]
