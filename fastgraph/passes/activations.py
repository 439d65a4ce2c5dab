"""Activations that chains spell out, as one step."""

from __future__ import annotations

from functools import cache

import numpy as np

from ..ir import Node
from ..ops.chain import Chain, evaluate_chain
from ..ops.registry import OPS

SMOOTH = frozenset("add sub mul div pow square neg erf tanh".split())
"""Operations of formulas that are told by their values: two that agree on many numbers are the same function."""
NAMES = ("gelu", "gelu_tanh")
MOST = 12
"""Steps of a formula."""
NEAR = 3e-7
"""How far apart values may be: the constants of a file are of f32."""
PLACES = np.linspace(-6, 6, 61)


def named(node: Node) -> Node:
    """Given a node whose chain ends with ``x / 1.4142135, erf, + 1, * x, * 0.5``, in any order or spelling; result the
    step ``gelu(x)`` there. GELU by tanh likewise."""
    at, chain = OPS[node.op].extras_at, node.attrs["chain"]
    inputs = 1 + len(node.inputs) - at if at else len(node.inputs)
    behind = inputs + len(chain)
    for x in (0, *range(max(inputs, behind - 1 - MOST), behind - 4)):
        steps = _over(x, chain, inputs)
        if not 4 <= len(steps) <= MOST:
            continue
        found = evaluate_chain(steps, [PLACES])
        for name in NAMES:
            if np.abs(found - _values(name)).max() < NEAR:
                return node.with_(attrs={**node.attrs, "chain": (*chain[: len(chain) - len(steps)], (name, x))})
    return node


def _over(x: int, chain: Chain, inputs: int) -> Chain:
    """The steps behind value x as a chain over it; none where they read other values, or are not SMOOTH."""
    first = max(x + 1, inputs)
    steps = []
    for name, *taken in chain[first - inputs :]:
        if name not in SMOOTH or any(isinstance(o, int) and x != o < first for o in taken):
            return ()
        steps.append((name, *(o if isinstance(o, float) else max(o - first + 1, 0) for o in taken)))
    return tuple(steps)


@cache
def _values(name: str) -> np.ndarray:
    return evaluate_chain(((name, 0),), [PLACES])
