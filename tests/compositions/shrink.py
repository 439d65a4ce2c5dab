"""Make a composition that fails smaller, as long as it fails in the same way."""

import time
from collections.abc import Callable, Iterator

from .composition import Composition, Input, Op
from .shapes import Misfit

Fails = Callable[[Composition], bool]


def shrink(net: Composition, fails: Fails, seconds: float = 120.0) -> Composition:
    """The smallest that was found in so many seconds. `fails(net)`: whether it still shows what is looked for."""
    end = time.monotonic() + seconds
    better = True
    while better:
        better = False
        for smaller in candidates(net):
            if time.monotonic() > end:
                return net
            if _fits(smaller) and fails(smaller):
                net, better = smaller, True
                break
    return net


def _fits(net: Composition) -> bool:
    try:
        net.shapes()
    except Misfit:
        return False
    return bool(net.outputs)


def candidates(net: Composition) -> Iterator[Composition]:
    """Smaller ones, the much smaller first."""
    yield from _one_output(net)
    yield from _without_ops(net)
    yield from _fewer(net)
    yield from _smaller(net)
    yield from _plainer(net)


def _one_output(net: Composition) -> Iterator[Composition]:
    for name in net.outputs if len(net.outputs) > 1 else ():
        rest = [other for other in net.outputs if other != name]
        yield from (_with(net, outputs=[name]), _with(net, outputs=rest))


def _without_ops(net: Composition) -> Iterator[Composition]:
    """An operator's results become inputs, or what it was given of the same shape; the last ones are read no more."""
    shapes = net.shapes()
    for i in reversed(range(len(net.ops))):
        op = net.ops[i]
        if set(op.outputs) & set(net.outputs):
            inner = [name for name in op.inputs if name not in net.consts and name not in net.outputs]
            yield _with(net, outputs=[name for name in net.outputs if name not in op.outputs] + inner[:1])
    for i, op in enumerate(net.ops):
        fresh = {name: Input(shapes[name]) for name in op.outputs}
        read = {name for other in net.ops for name in other.inputs} | set(net.outputs)
        if set(op.outputs) & set(net.outputs) and len(net.ops) == 1:
            continue
        yield _with(
            net, inputs=net.inputs | {n: v for n, v in fresh.items() if n in read}, ops=net.ops[:i] + net.ops[i + 1 :]
        )
        for given in op.inputs:
            if given not in net.consts and len(op.outputs) == 1 and shapes[given] == shapes[op.outputs[0]]:
                yield _renamed(net, net.ops[:i] + net.ops[i + 1 :], op.outputs[0], given)


def _fewer(net: Composition) -> Iterator[Composition]:
    """Without optional operands, or with one part less of a concat."""
    for i, op in enumerate(net.ops):
        if (
            op.kind == "concat"
            and len(op.inputs) > 1
            or op.kind in ("conv", "dense", "conv_transpose")
            and len(op.inputs) > 2
        ):
            for k in range(len(op.inputs)) if op.kind == "concat" else [2]:
                yield _op(net, i, Op(op.kind, op.inputs[:k] + op.inputs[k + 1 :], op.outputs, op.attrs))


def _smaller(net: Composition) -> Iterator[Composition]:
    """One number less, wherever it is an extent."""
    held = [given.shape for given in (net.inputs | net.consts).values()]
    for number in sorted({d for shape in held for d in shape if d > 1}, reverse=True):
        for less in sorted({1, 2, 3, number // 2, number - 1} - {0}):
            if less < number:
                yield _extents(net, number, less)
    for name, given in net.inputs.items():
        for axis, d in enumerate(given.shape):
            for less in sorted({1, 2, d // 2, d - 1} - {0}):
                if less < d:
                    shape = (*given.shape[:axis], less, *given.shape[axis + 1 :])
                    yield _with(net, inputs=net.inputs | {name: Input(shape, given.below)})


def _plainer(net: Composition) -> Iterator[Composition]:
    """Attributes as they usually are."""
    usual = {"strides": (1, 1), "dilations": (1, 1), "group": 1}
    for i, op in enumerate(net.ops):
        for key, value in usual.items():
            if op.attrs.get(key, value) != value:
                yield _op(net, i, Op(op.kind, op.inputs, op.outputs, {**op.attrs, key: value}))
        if op.kind == "conv" and any(op.attrs["pads"]):
            yield _op(net, i, Op(op.kind, op.inputs, op.outputs, {**op.attrs, "pads": (0, 0, 0, 0)}))
        if op.kind in ("relu6", "hard_swish", "swish", "gelu", "leaky_relu", "elu", "sigmoid", "hard_sigmoid", "tanh"):
            yield _op(net, i, Op("relu", op.inputs, op.outputs))


def _with(net: Composition, **changes: object) -> Composition:
    new = net.copy()
    for key, value in changes.items():
        setattr(new, key, value)
    new.outputs = list(dict.fromkeys(new.outputs))
    new = new.prune()
    read = {name for op in new.ops for name in op.inputs} | set(new.outputs)
    new.inputs = {name: given for name, given in new.inputs.items() if name in read}
    return new


def _op(net: Composition, at: int, op: Op) -> Composition:
    return _with(net, ops=[*net.ops[:at], op, *net.ops[at + 1 :]])


def _renamed(net: Composition, left: list[Op], old: str, new: str) -> Composition:
    ops = [Op(op.kind, [new if n == old else n for n in op.inputs], op.outputs, op.attrs) for op in left]
    return _with(net, ops=ops, outputs=[new if n == old else n for n in net.outputs])


def _extents(net: Composition, old: int, new: int) -> Composition:
    def change(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(new if v == old else v for v in value)
        return new if value == old and not isinstance(value, bool) else value

    made = net.copy()
    for given in (*made.inputs.values(), *made.consts.values()):
        given.shape = change(given.shape)  # type: ignore[assignment]
    for op in made.ops:
        op.attrs.update({k: change(v) for k, v in op.attrs.items() if k in ("shape", "sizes", "start", "end", "group")})
    return made
