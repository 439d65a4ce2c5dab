"""Constants that plans make of a model's weights: what they are made of is their key, so layers may share weights."""

import ast
import builtins
import importlib
import itertools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.ir.weights import Weights, once
from fastgraph.ops.evaluate import run_node
from tests.nets import F32, Net, assert_close, by_onnxruntime
from tests.plan.computed import ENDS
from tests.quantized_blocks import number, real

ROOT = Path(fg.__file__).parent
TIERS = [tier.name for tier in ENDS]


# -- a packing reads nothing but its arguments


def makers() -> Iterator[tuple[str, Any]]:
    """Each function that is handed to `Emit.packed` or `once`, and where."""
    for file in sorted(ROOT.rglob("*.py")):
        calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
        found = [call for call in calls if _packs(call.func) and call.args]
        if (file.parent.name, file.name) == ("ir", "weights.py") or not found:
            continue
        module = importlib.import_module(".".join(["fastgraph", *file.relative_to(ROOT).with_suffix("").parts]))
        for call in found:
            where, make = f"{file.relative_to(ROOT)}:{call.lineno}", call.args[0]
            assert isinstance(make, ast.Name), f"{where}: expected the name of a function"
            yield where, getattr(module, make.id, None)


def _packs(called: ast.expr) -> bool:
    """Whether `Emit.packed` or `once` is called."""
    name = called.id if isinstance(called, ast.Name) else ""
    return name == "once" or isinstance(called, ast.Attribute) and called.attr == "packed"


def globals_of(code: CodeType) -> set[str]:
    inner = [globals_of(c) for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*inner)


def is_fixed(found: Any) -> bool:
    """Numbers, text, types, arrays that can't be written, and tables of such: what a module has once and for all."""
    if isinstance(found, dict):
        return all(map(is_fixed, itertools.chain(found, found.values())))
    if isinstance(found, tuple | frozenset | set | list):
        return all(map(is_fixed, found))
    return found is None or isinstance(found, bool | int | float | str | bytes | type | np.generic | np.dtype)


def other_reads(make: FunctionType, seen: set[FunctionType]) -> Iterator[str]:
    """What a function, or one that it calls, reads beside its arguments: variables whose value can change."""
    if make in seen or make is run_node:  # references are functions of a node and its operands
        return
    seen.add(make)
    if make.__closure__:
        yield f"{make.__qualname__}: the variables of a function around it"
    for name in globals_of(make.__code__) & make.__globals__.keys():
        found = getattr(make.__globals__[name], "__wrapped__", make.__globals__[name])  # of a cache
        if isinstance(found, FunctionType):
            yield from other_reads(found, seen)
        elif isinstance(found, ModuleType):
            if found.__name__.partition(".")[0] not in ("numpy", "math", "itertools", "functools"):
                yield f"{make.__qualname__}: the module {found.__name__}"
        elif not isinstance(found, BuiltinFunctionType | np.ufunc) and not is_fixed(found) and not _typing(found):
            yield f"{make.__qualname__}: {name}"
    if globals_of(make.__code__) & {"open", "input", "globals", "eval", "exec"} - make.__globals__.keys():
        yield f"{make.__qualname__}: a builtin that reads more"


def _typing(found: Any) -> bool:
    """Types for annotations, and builtins."""
    return type(found).__module__ in ("typing", "types", "collections.abc") or found in vars(builtins).values()


def test_packings_read_nothing_but_their_arguments() -> None:
    found = list(makers())
    assert len(found) > 30, "the sources call packed and once in another way"
    for where, make in found:
        assert isinstance(make, FunctionType), f"{where}: {make}"
        assert not (reads := list(other_reads(make, set()))), f"{where}: {make.__qualname__} reads {reads}"


STRIDE = ContextVar("stride", default=1)


def by_a_variable(data: np.ndarray) -> np.ndarray:
    return data * STRIDE.get()


def by_another(data: np.ndarray) -> np.ndarray:
    return by_a_variable(data) + 1


def nested(stride: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda data: data * stride


def test_a_packing_that_reads_more_is_found() -> None:
    assert list(other_reads(by_another, set())) == ["by_a_variable: STRIDE"]
    with Weights([]).planning(), pytest.raises(TypeError, match="reads only its arguments"):
        once(nested(2), np.ones(3))


# -- layers that share weights


def together(weights: tuple[int, ...], nodes: list[dict[str, Any]], op: str = "Conv", groups: int = 1) -> Net:
    """Some layers of one input and the same weights and bias."""
    net = Net()
    rank = len(weights) - 2
    channels = weights[0] if op == "ConvTranspose" else weights[1] * groups
    outputs = weights[1] * groups if op == "ConvTranspose" else weights[0]
    x = net.input("x", ("n", channels, *"hw"[:rank]))
    w, b = net.weight(*weights), net.weight(outputs, scale=0.5)
    for attrs in nodes:
        net.output(net(op, x, w, b, group=groups, **attrs))
    return net


def windows(*strides: tuple[int, ...], kernel: int = 3, **attrs: Any) -> list[dict[str, Any]]:
    """One node for each strides; attrs: of all."""
    return [{"strides": s, "pads": [kernel // 2] * (2 * len(s)), **attrs} for s in strides]


SHARED: dict[str, tuple[Net, int]] = {
    "strides of a row": (together((2, 3, 3, 3), windows((1, 1), (1, 2), (2, 1), (2, 2), (1, 3))), 3),
    "many channels": (
        together((48, 16, 3, 3), windows((1, 1), (1, 2), (2, 2)) + windows((1, 1), dilations=[2, 2])),
        16,
    ),
    "large windows": (together((3, 4, 5, 5), windows((1, 2), (1, 4), (2, 1), kernel=5)), 4),
    "rows": (together((4, 3, 5), windows((1,), (2,), (3,), kernel=5)), 3),
    "dilations": (together((8, 8, 3, 3), [d for n in (1, 2, 3) for d in windows((1, 1), (2, 1), dilations=[1, n])]), 8),
    "depthwise": (together((24, 1, 3, 3), windows((1, 1), (1, 2), (2, 2), (1, 3)), groups=24), 24),
    "depthwise, two each": (together((24, 1, 3, 3), windows((1, 1), (1, 2), (2, 2)), groups=12), 12),
    "groups": (together((12, 4, 3, 3), windows((1, 1), (1, 2), (2, 2)), groups=3), 12),
    "pixels": (together((8, 12, 1, 1), windows((1, 1), (1, 2), (2, 1), kernel=1)), 12),
    "transposed": (together((6, 5, 3, 3), windows((1, 1), (1, 2), (2, 2)), "ConvTranspose"), 6),
    "transposed, groups": (together((6, 4, 2, 2), windows((2, 2), (1, 2), kernel=1), "ConvTranspose", 2), 6),
}


def shapes(channels: int, rank: int) -> list[tuple[int, ...]]:
    return [(1, channels, *s[:rank]) for s in ((16, 64), (20, 64), (9, 31))] + [(2, channels, *(9, 48)[:rank])]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", SHARED)
def test_convolutions_share_weights(name: str, tier: str) -> None:
    """One packing for all that read it alike, and another for the others: from the second shape on, too."""
    net, channels = SHARED[name]
    model, rng = fg.load(net.bytes(), isa=tier, threads=1), np.random.default_rng(0)
    for shape in shapes(channels, len(net.inputs[0].type.tensor_type.shape.dim) - 2):
        x = rng.standard_normal(shape).astype(F32)
        found = list(model.run({"x": x}).values())
        assert_close(found, by_onnxruntime(net.bytes(), {"x": x}), 1e-5, f"{name}, {shape}")


def dense_forms() -> Net:
    """A matrix as it is, transposed, in part, as the table of a lookup, and with two biases."""
    net = Net()
    x, w = net.input("x", ("n", 24)), net.weight(24, 24)
    first = net("MatMul", x, w)
    part = net("Slice", w, [0], [12], [1])
    net.output(first, net("Gemm", x, w, net.weight(24), transB=1), net("Gemm", x, w, net.weight(24)))
    net.output(net("MatMul", first, net("Transpose", w, perm=[1, 0])), net("MatMul", x, part))
    net.output(net("Gather", w, net("ArgMax", x, axis=1, keepdims=0)))
    return net


def cells() -> Net:
    """The same recurrent weights forward, in reverse, with another bias and another activation."""
    net = Net()
    x, w, r, b = net.input("x", ("t", "n", 6)), net.weight(1, 32, 6), net.weight(1, 32, 8), net.weight(1, 64)
    for bias, attrs in ((b, {}), (b, {"direction": "reverse"}), (net.weight(1, 64), {}), (b, {"input_forget": 1})):
        net.output(net("LSTM", x, w, r, bias, outputs=1, hidden_size=8, **attrs))
    return net


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", ["dense_forms", "cells"])
def test_products_share_weights(name: str, tier: str) -> None:
    net: Net = globals()[name]()
    model, rng = fg.load(net.bytes(), isa=tier, threads=1), np.random.default_rng(0)
    for extents in ((1, 1), (7, 2), (40, 3), (1, 1)):
        shape = (extents[0], 24) if name == "dense_forms" else (*extents, 6)
        x = rng.standard_normal(shape).astype(F32)
        assert_close(
            list(model.run({"x": x}).values()), by_onnxruntime(net.bytes(), {"x": x}), 1e-5, f"{name}, {shape}"
        )


def quantized_forms(groups: int) -> Net:
    """The same int8 numbers with other strides, scales, zero points, biases and scales of the input."""
    net = Net()
    channels, outputs = 12, 12
    x = net.input("x", ("n", channels, "h", "w"))
    stored = net.const(net.rng.integers(-127, 128, (outputs, channels // groups, 3, 3), np.int8))
    bias = net.const(net.rng.integers(-900, 900, outputs, np.int32))

    def layer(scale: float, strides: tuple[int, int], per_channel: bool, take: float = 0.02, zero: int = 128) -> str:
        scales = np.full(outputs, scale, F32) * (1 + np.arange(outputs, dtype=F32) / 7 if per_channel else 1)
        axis = {"axis": 0} if per_channel else {}
        scales = scales if per_channel else scales[0]
        w = net("DequantizeLinear", stored, scales, np.zeros_like(scales, np.int8), **axis)
        b = net("DequantizeLinear", bias, (scales * np.float32(take)).astype(F32), **axis)
        own = real(net, number(net, x, take, zero), take, zero)
        y = net("Conv", own, w, b, strides=strides, pads=[1] * 4, group=groups)
        return real(net, number(net, y, 0.05, 131), 0.05, 131)

    for scale, strides, per_channel, take, zero in (
        (0.01, (1, 1), False, 0.02, 128), (0.01, (1, 2), False, 0.02, 128), (0.02, (1, 1), False, 0.02, 128),
        (0.01, (1, 1), True, 0.02, 128), (0.01, (2, 2), True, 0.03, 100), (0.01, (1, 1), False, 0.02, 117),
    ):  # fmt: skip
        net.output(layer(scale, strides, per_channel, take, zero))
    return net


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("groups", [1, 3, 12])
def test_quantized_convolutions_share_weights(groups: int, tier: str) -> None:
    """To a step: onnxruntime rounds a product of scales at another place."""
    net = quantized_forms(groups)
    model, rng = fg.load(net.bytes(), isa=tier, threads=1), np.random.default_rng(0)
    for shape in shapes(12, 2):
        x = rng.standard_normal(shape).astype(F32)
        for one, other in zip(model.run({"x": x}).values(), by_onnxruntime(net.bytes(), {"x": x}), strict=True):
            assert np.abs(one - other).max() <= 0.05001, f"{groups} groups, {shape}"
            assert np.mean(one != other) < 0.01
