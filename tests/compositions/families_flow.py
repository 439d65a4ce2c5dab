"""Blocks with branches, loops and recurrent layers of all kinds."""

from typing import Any

import numpy as np

from .grow import Grow
from .nodes import Piece
from .shapes import need

BOOL, F32, I64 = np.bool_, np.float32, np.int64


def _step(p: Piece, v: str, *others: str) -> str:
    """Some work that keeps shape and magnitude."""
    g = p.g
    v = p(g.pick("Add", "Sub", "Max"), v, g.pick(*others)) if others and g.chance(0.6) else v
    return p(g.pick("Tanh", "Sigmoid", "Relu", "Neg", "Abs", "Softplus", "Identity"), v)


def branches(g: Grow, x: str) -> str:
    """One way or the other, by what is fed: the two give several values, perhaps what they were given."""
    shape, p = g.shapes[x], Piece(g, g.act(x))
    y, count = p.operands[0], g.pick(1, 2)
    around = p("Mul", y, p.const(0.5))
    ways = []
    for name in ("a", "b"):
        inner = p.inner(name)
        results = [_step(inner, _step(inner, g.pick(y, around), y, around), y) for _ in range(count)]
        ways.append(inner.body((), *((r, F32) for r in results)))
    flag = p.cast(p("Squeeze", g.input(1, below=2)), BOOL)
    made = p("If", flag, outputs=count, then_branch=ways[0], else_branch=ways[1])
    made = [made] if count == 1 else made
    return p.end(p("Add", made[0], made[-1]), *shape)


def rounds(g: Grow, x: str) -> str:
    """Several rounds, known or fed, of which perhaps each leaves something behind."""
    shape, p = g.shapes[x], Piece(g, x)
    fed, keeps = g.chance(0.5), g.chance(0.4)
    trips = p("Squeeze", g.input(1, below=4)) if fed else p.const(g.pick(1, 3), I64)
    inner = p.inner("l")
    given = [("li", I64, ()), ("lgo", BOOL, ()), ("ls", F32, shape)]
    made = _step(inner, _step(inner, "ls", x), inner("Cast", "li", to=1))
    go: tuple[Any, Any] = (inner("Identity", "lgo"), BOOL)
    if fed and not keeps and g.chance(0.5):  # while it is small
        mean = inner("ReduceMax", inner("Round", inner("Mul", "ls", inner.const(0.0))), keepdims=0)
        go = inner("Less", mean, inner.const(1.0)), BOOL
    more = [(inner("ReduceMean", made, inner.ints(0), keepdims=1), F32)] if keeps and not fed else []
    out = p("Loop", trips, "", x, outputs=1 + len(more), body=inner.body(given, go, (made, F32), *more))
    if not more:
        return p.end(out, *shape)
    return p.end(p("Add", out[0], p("ReduceMean", out[1], p.ints(0), keepdims=0)), *shape)


def scanned(g: Grow, x: str) -> str:
    """Along an axis, from the front or the back, with a state."""
    shape = g.shapes[x]
    need(len(shape) > 1, "rank")
    axis, back, front = g.pick(*range(len(shape))), g.pick(0, 1), g.pick(0, 1)
    row = (*shape[:axis], *shape[axis + 1 :])
    p = Piece(g, x)
    start = p("ReduceMean", x, p.ints(axis), keepdims=0)
    inner = p.inner("c")
    state = inner("Tanh", inner("Add", inner("Mul", "cs", inner.const(0.5)), "cr"))
    body = inner.body([("cs", F32, row), ("cr", F32, row)], (state, F32), (_step(inner, state, "cr"), F32))
    last, rows = p("Scan", start, x, outputs=2, body=body, num_scan_inputs=1, scan_input_axes=[axis],
                   scan_output_axes=[axis], scan_input_directions=[back], scan_output_directions=[front])  # fmt: skip
    return p.end(p("Add", rows, p("Unsqueeze", last, p.ints(axis))), *shape)


def recurrent(g: Grow, x: str) -> str:
    """Of every kind and direction, with lengths, states and weights that are fed, perhaps."""
    n, t, c = g.shapes[x]
    kind, hidden = g.pick("RNN", "GRU", "LSTM"), g.pick(c, *g.palette.channels)
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    direction = g.pick("forward", "reverse", "bidirectional")
    ways = 1 + (direction == "bidirectional")
    p = Piece(g, x)
    parameters = [g.const(ways, gates * hidden, c), g.const(ways, gates * hidden, hidden)]
    if g.chance(0.25):  # made at run time
        spread = p.const(hidden**-0.5)
        parameters = [p("Mul", g.input(*g.shapes[w]), spread) for w in parameters]
    parameters.append(g.const(ways, 2 * gates * hidden, kind="bias") if g.chance(0.7) else "")
    if g.chance(0.3):
        parameters.append(p("Cast", p("Add", g.input(n, below=t), p.ints(1)), to=6))
    else:
        parameters.append("")
    if g.chance(0.4):
        parameters += [g.input(ways, n, hidden) for _ in range(1 + (kind == "LSTM"))]
        if kind == "LSTM" and g.chance(0.5):
            parameters.append(g.const(ways, 3 * hidden, kind="bias"))
    more: dict[str, Any] = {"linear_before_reset": g.pick(0, 1)} if kind == "GRU" else {}
    if kind == "RNN":
        more["activations"] = [g.pick("Tanh", "Relu", "Sigmoid") for _ in range(ways)]
    if g.chance(0.2):
        more["clip"] = 0.75
    turned = p("Transpose", x, perm=[1, 0, 2])
    y, last = p(kind, turned, *parameters, outputs=2, hidden_size=hidden, direction=direction, **more)
    rows = p("Transpose", p("Add", y, last) if g.chance(0.3) else y, perm=[2, 0, 1, 3])
    return p.end(p("Reshape", rows, p.ints(n, t, ways * hidden)), n, t, ways * hidden)


FLOW: tuple[Any, ...] = (branches, rounds, scanned)
SEQUENCE_RARE = recurrent, recurrent
