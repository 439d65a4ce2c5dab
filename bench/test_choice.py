"""Each candidate that suits a layer, timed on one thread: the one that is chosen should be within 10 % of the best."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import pytest
from test_kernels import conv, conv_int8, fed, u8

from fastgraph.freedoms import without
from fastgraph.ir import Graph, Node, Quantization, Value
from fastgraph.plan.lower.gemm import layer_amx, layer_f32, layer_int8
from fastgraph.runtime.executable import Executable
from fastgraph.tools.bench import pinned

CANDIDATES = *layer_f32.CANDIDATES, *layer_amx.CANDIDATES["float32"], *layer_int8.CANDIDATES
NAMES = frozenset(candidate.name for candidate in CANDIDATES)
ROUNDS, SECONDS = 9, 0.02
"""How often a candidate is timed, and for how long each time at least."""


def depthwise_int8(channels: int, size: int, kernel: int, stride: int = 1) -> Graph:
    graph = conv_int8(1, size, channels, kernel, stride)
    (node,) = graph.nodes
    x = u8("x", (1, size, size, channels))
    return Graph("depthwise_int8", [x], graph.outputs, [Node("conv", [x, *node.inputs[1:]], node.outputs,
                 {**node.attrs, "groups": channels})])  # fmt: skip


def dense_int8(k: int, n: int) -> Graph:
    (node,) = conv_int8(k, 1, n, 1).nodes
    _, w, b = node.inputs
    assert w is not None and w.data is not None and w.type.quant is not None
    flat = Value.constant("w", w.data.reshape(n, k), Quantization(w.type.quant.scale, w.type.quant.zero_point, 0))
    x, y = u8("x", (1, k)), u8("y", None)
    return Graph("dense_int8", [x], [y], [Node("dense", [x, flat, b], [y])])


CONVS = [
    (64, 56, 64, 3, 1), (128, 28, 128, 3, 1), (256, 14, 256, 3, 1), (512, 7, 512, 3, 1), (512, 4, 512, 3, 1),
    (16, 112, 16, 3, 1), (32, 56, 32, 3, 1), (16, 14, 64, 3, 1), (32, 28, 64, 5, 1), (192, 14, 192, 5, 1),
]  # fmt: skip
"""Channels, pixels of a side, output channels, taps of a side, stride."""
DEPTHWISE = [
    (8, 48, 3, 1), (24, 56, 3, 1), (32, 112, 3, 1), (96, 112, 3, 2), (144, 56, 3, 1), (384, 14, 3, 1), (576, 14, 3, 2),
    (960, 7, 3, 1), (240, 28, 5, 2), (480, 14, 5, 1), (1152, 7, 5, 1), (64, 28, 9, 1),
]  # fmt: skip
GROUPS = [(64, 56, 3, 1, 2), (128, 56, 3, 2, 4), (256, 28, 3, 1, 8), (64, 28, 5, 1, 8), (128, 28, 1, 1, 4)]
"""Channels, pixels of a side, taps of a side, stride, channels of a group."""
DENSE = [(1280, 1000), (2048, 1000), (768, 768), (768, 3072), (3072, 768), (64, 10)]
LAYERS: dict[str, Callable[[], Graph]] = {
    **{f"conv {k}x{k} {c}>{n} at {size}": lambda a=(c, size, n, k, s): conv(*a) for c, size, n, k, s in CONVS},
    **{f"depthwise {k}x{k}/{s} {c} at {size}": lambda a=(c, size, c, k, s, c): conv(*a) for c, size, k, s in DEPTHWISE},
    **{f"groups of {g} {k}x{k}/{s} {c} at {size}": lambda a=(c, size, c, k, s, c // g): conv(*a)
       for c, size, k, s, g in GROUPS},
    **{f"int8 depthwise {k}x{k}/{s} {c} at {size}": lambda a=(c, size, k, s): depthwise_int8(*a)
       for c, size, k, s in DEPTHWISE},
    **{f"int8 dense {k}>{n}": lambda a=(k, n): dense_int8(*a) for k, n in DENSE},
}  # fmt: skip


def kernels(plan: Executable) -> set[str]:
    return {kernel.name for kernel in plan.kernels()} & NAMES


def compiled(layer: Callable[[], Graph], *gone: str) -> Executable:
    with without(*gone):
        return fed(layer())


def fastest(plans: dict[str, Executable]) -> dict[str, float]:
    """Seconds of each, the least of rounds in which all take turns."""
    least = dict.fromkeys(plans, float("inf"))
    for _ in range(ROUNDS):
        for name, plan in plans.items():
            start = perf_counter()
            while perf_counter() - start < SECONDS:
                begin = perf_counter()
                plan.execute()
                least[name] = min(least[name], perf_counter() - begin)
    return least


@pytest.mark.parametrize("name", LAYERS)
def test_choice(goal: Any, name: str) -> None:
    layer = LAYERS[name]
    (chosen,) = kernels(compiled(layer))
    forced = {other: compiled(layer, *(NAMES - {other})) for other in sorted(NAMES)}
    plans = {other: plan for other, plan in forced.items() if other in kernels(plan)}
    with pinned(1):
        times = fastest(plans)
    others = ", ".join(f"{other} {seconds * 1e6:.1f} us" for other, seconds in times.items())
    goal(f"{name}: {chosen} of {others}", times[chosen] / min(times.values()), "x", 1.1)
