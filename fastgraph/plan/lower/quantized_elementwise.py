"""Elementwise work where operands or results are stored in other types than f32.

Chains over quantised values, changes of quantisation, tables, comparisons and selection, casts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...ir import Node, TensorType, Value
from ...kernels.isa.tiers import cpu_flags
from ...kernels.pointwise.elementwise_shape import Loops
from ...ops.reals import flips, to_real
from .quantized import LARGE, TINY, bounds, clamps_only, f32_bits, per_tensor, quant, zero_point
from .registry import Emit, lowers
from .walks import ELEMENTS, Operand, element, joined_rows, loops_of, row_steps, together, walk, walk_over

RESULTS = (np.uint8, np.int8, np.int16)
"""Types that the elementwise kernel rounds to."""
BOUNDED = 2.0**30
"""Results beyond this are held within bounds before they are rounded."""
EXACT = 2.0**18
"""Up to this the constants that zero points make of a sum cancel well enough in f32."""

# -- chains for the kernel


@dataclass
class Chain:
    """A chain as the kernel has it. Its parts name ("tensor", i), ("number", i), ("step", i); `steps` are counted."""

    tensors: list[Operand] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    parts: list[tuple[Any, ...]] = field(default_factory=list)

    def tensor(self, value: Operand) -> Any:
        for i, known in enumerate(self.tensors):
            if known is value:
                return "tensor", i
        self.tensors.append(value)
        return "tensor", len(self.tensors) - 1

    def number(self, x: float) -> Any:
        self.numbers.append(float(x))
        return "number", len(self.numbers) - 1

    def step(self, *step: Any) -> Any:
        self.parts.append(step)
        return "step", len(self.parts) - 1

    @property
    def steps(self) -> tuple[tuple[Any, ...], ...]:
        """In the form of kernels/chain.py."""
        first = {"tensor": 0, "number": len(self.tensors), "step": len(self.tensors) + len(self.numbers)}
        return tuple(
            (name, *(o if isinstance(o, float) else first[o[0]] + o[1] for o in operands))
            for name, *operands in self.parts
        )


def _reals(value: Value) -> np.ndarray:
    """What a constant stands for."""
    assert value.data is not None
    return np.asarray(value.data if value.type.quant is None else to_real(value.data, value.type.quant))


def as_read(value: Value) -> Operand:
    """A constant of several scales as f32; anything else as it lies."""
    if value.data is None or value.type.quant is None or per_tensor(value, np.uint8, np.int8):
        return value
    return _reals(value).astype(np.float32)


def _affine(value: Operand) -> tuple[float, float]:
    """(scale, zero point) of what the kernel reads."""
    if isinstance(value, np.ndarray) or value.type.quant is None:
        return 1.0, 0.0
    return quant(value).scale[0], zero_point(value)


def _largest(value: Operand) -> float:
    """The greatest size of a real that an operand may have: infinite for f32."""
    scale, zero = _affine(value)
    if isinstance(value, np.ndarray):
        return float(np.abs(value).max(initial=0))
    if value.data is not None:
        return float(np.abs(_reals(value)).max(initial=0))
    if value.type.dtype is None or value.type.dtype.kind == "f":
        return np.inf
    limits = np.iinfo(value.type.dtype)
    return float(max(limits.max - zero, zero - limits.min)) * scale


def _minus_zero(chain: Chain, value: Operand) -> Any:
    zero = _affine(value)[1]
    return chain.step("sub", chain.tensor(value), chain.number(zero)) if _is_stored(value) else chain.tensor(value)


def _is_stored(value: Operand) -> bool:
    return isinstance(value, Value) and value.type.quant is not None


def _linear(chain: Chain, terms: Sequence[tuple[Operand | float, float]], unit: float) -> float:
    """Sum of sign * operand, in units: one fma per tensor. Gives the greatest size that it may have."""
    total, most, factors = 0.0, 0.0, []
    for operand, sign in terms:
        if isinstance(operand, float):
            total += sign * operand / unit
        else:
            scale, zero = _affine(operand)
            factors.append((chain.tensor(operand), sign * scale / unit))
            total -= sign * scale / unit * zero
            most += _largest(operand) / unit
    sum_ = chain.number(total)
    for tensor, factor in factors:
        sum_ = chain.step("fma", tensor, chain.number(factor), sum_)
    return most + abs(total)


def _product(chain: Chain, factors: Sequence[Operand | float], unit: float) -> float:
    """The product of operands, in units: of differences from zero points, exact for bytes, times one number."""
    scale, most, result = 1.0 / unit, 1.0 / unit, None
    for operand in factors:
        if isinstance(operand, float):
            scale, most = scale * operand, most * abs(operand)
            continue
        scale, most = scale * _affine(operand)[0], most * _largest(operand)
        x = _minus_zero(chain, operand)
        result = x if result is None else chain.step("mul", result, x)
    chain.step("mul", result, chain.number(scale))
    return most


def real(chain: Chain, operand: Operand) -> Any:
    """The reals that an operand stands for."""
    x = _minus_zero(chain, operand)
    return chain.step("mul", x, chain.number(_affine(operand)[0])) if _is_stored(operand) else x


def _general(chain: Chain, node: Node, inputs: Sequence[Operand], unit: float) -> float:
    """Any chain, on reals."""
    places = [real(chain, operand) for operand in inputs]
    for name, *operands in node.attrs["chain"]:
        places.append(chain.step(name, *(o if isinstance(o, float) else places[o] for o in operands)))
    if node.out.type.quant is not None:
        chain.step("mul", places[-1], chain.number(1 / unit))
    return np.inf


def chain_of(node: Node) -> tuple[Chain, str, tuple[int, int, int]]:
    """The kernel's chain for a `fused` node, its `limits`, and zero point, low, high of what it stores."""
    chain, steps, count = Chain(), node.attrs["chain"], len(node.inputs)
    inputs = [as_read(v) for v in node.inputs if v is not None]
    unit = node.out.type.quant.scale[0] if node.out.type.quant is not None else 1.0
    name, *operands = steps[0]
    tail = tuple((s[0], *(o if isinstance(o, float) else o - count for o in s[1:])) for s in steps[1:])
    then = Node("fused", [], node.outputs, {"chain": tail})
    simple = name in ("add", "sub", "mul") and (clamps_only(then) if node.out.type.quant is not None else not tail)
    taken = [o if isinstance(o, float) else inputs[o] for o in operands]
    if simple and node.out.type.quant is not None:
        sizes = [abs(o) if isinstance(o, float) else _largest(o) for o in taken]
        # A NaN passes clamps, and not bounds.
        simple = not (tail and np.inf in sizes)
        if name != "mul":
            simple = simple and sum(s for s in sizes if s < np.inf) <= EXACT * unit
    if simple and any(not isinstance(o, float) for o in operands):
        if name == "mul":
            most = _product(chain, taken, unit)
        else:
            most = _linear(chain, list(zip(taken, (1.0, 1.0 if name == "add" else -1.0), strict=True)), unit)
    else:
        most, then = _general(chain, node, inputs, unit), Node("fused", [], node.outputs)
    return chain, *limits_of(then, most)


def limits_of(node: Node, most: float) -> tuple[str, tuple[int, int, int]]:
    """How the kernel holds results within limits; the node's chain has clamps only."""
    if node.out.type.quant is None:
        return "type", (0, 0, 0)
    assert node.out.type.dtype is not None
    limits, (low, high) = np.iinfo(node.out.type.dtype), bounds(node)
    held = "any" if not most < BOUNDED else "type" if (low, high) == (limits.min, limits.max) else "bounds"
    return held, (zero_point(node.out), low, high)


# -- kernel calls


def call(e: Emit, node: Node, chain: Chain, limits: str, rounding: Sequence[int]) -> None:
    kinds = ("number",) * len(chain.numbers)
    params = {"chain": chain.steps, "kinds": kinds, "out": element(node.out), "limits": limits}
    walk(e, node, "elementwise_stored", params, chain.tensors, [*map(f32_bits, chain.numbers), *rounding])


# -- what is accepted


def _plain(*types: TensorType) -> bool:
    return all(t.concrete and t.dtype in ELEMENTS and t.size for t in types)


def operand(value: Value) -> bool:
    """Whether the kernel can read it: f32 that is not quantised, or stored numbers of one scale, or a constant."""
    if not _plain(value.type):
        return False
    if value.type.quant is None:
        return value.type.dtype == np.float32
    return value.data is not None or per_tensor(value, np.uint8, np.int8, np.int16, np.uint16, np.int32)


def result(value: Value) -> bool:
    return _plain(value.type) and (
        per_tensor(value, *RESULTS) if value.type.quant is not None else value.type.dtype == np.float32
    )


def _fits(node: Node) -> bool:
    return loops_of(None, node, [v for v in node.inputs if v is not None]) is not None


def _fused(node: Node) -> bool:
    values = [v for v in node.inputs if v is not None]
    if all(v.type.quant is None for v in (*values, *node.outputs)):
        return False
    return result(node.out) and all(map(operand, values)) and _fits(node)


@lowers("fused", match=_fused, strided_in=True, strided_out=True, in_place=True)
def fused(e: Emit, node: Node, _: Any) -> None:
    """A chain over quantised values: two fused multiply-adds for a sum of two."""
    chain, limits, rounding = chain_of(node)
    if not _scales_channels(e, node, chain, limits, rounding):
        call(e, node, chain, limits, rounding)


PRODUCT = (("sub", 0, 2), ("sub", 1, 3), ("mul", 5, 6), ("mul", 7, 4))
"""What `_product` makes of two quantised tensors, with the numbers zero point, zero point, factor."""


def _scales_channels(e: Emit, node: Node, chain: Chain, limits: str, rounding: Sequence[int]) -> bool:
    """Squeeze and excite: bytes times one row of bytes, which becomes f32 factors first, for some rows at a time."""
    x, w = (chain.tensors + [None, None])[:2]
    if chain.steps != PRODUCT or not isinstance(x, Value) or not isinstance(w, Value):
        return False
    plan = loops_of(e, node, [x, w])
    steps = None if plan is None else row_steps(plan)
    if plan is None or steps is None or sorted(steps) != [0, plan.dims[-1]]:
        return False
    zx, zw, factor = chain.numbers
    if steps[0] == 0:
        x, w, zx, zw = w, x, zw, zx
    rows, cols = plan.dims[-2:]
    many = together(rows, cols, 4 * e.tier.lanes)
    factors = e.scratch(4 * many * cols)
    params = {"chain": (("sub", 0, 1), ("mul", 3, 2)), "kinds": ("number",) * 2, "out": "f32", "limits": "type"}
    numbers = [*map(f32_bits, (zw, factor)), 0, 0, 0]
    repeated = Loops((1, 1, 1, many, cols), (0, 0, 0, cols, 1), ((0, 0, 0, 0, 1),))
    walk_over(e, "elementwise_stored", params, repeated, factors, [e.address(w)], [element(w)], numbers)
    params = {"chain": (("sub", 0, 2), ("mul", 3, 1)), "kinds": ("number",), "out": element(node.out), "limits": limits}
    walk_over(e, "elementwise_stored", params, joined_rows(rows, cols, many, [cols, 0]), e.address(node.out),
              [e.address(x), factors], [element(x), "f32"], [f32_bits(zx), *rounding])  # fmt: skip
    return True


# -- changes of quantisation


def _requantizes(node: Node) -> bool:
    if not result(node.out) or node.x.data is not None or node.out.type.dims != node.x.type.dims:
        return False
    same = node.x.type.quant is None and node.out.type.quant is None
    return not same and operand(node.x) and _fits(node)


@lowers("requantize", match=_requantizes, strided_in=True, strided_out=True, in_place=True)
def requantize(e: Emit, node: Node, _: Any) -> None:
    """Rounded once: (x - zx) * (sx / sy) between quantised values, x / sy from f32, (x - zx) * sx to f32."""
    x, out = node.x, node.out
    if _bytes(x) and _bytes(out) and flips(x, out):
        walk(e, node, "flip", {}, [x], [])
        return
    if _bytes(x) and _bytes(out) and has_vbmi(e):
        _lookup(e, node, _requantized(x, out))
        return
    chain = Chain()
    if x.type.quant is None:
        # Runs take a subnormal scale for zero, and 0 / 0 is no number.
        chain.step("div", chain.tensor(x), chain.number(max(quant(out).scale[0], TINY)))
        most = np.inf
    else:
        most = _product(chain, [x], quant(out).scale[0] if out.type.quant is not None else 1.0)
    call(e, node, chain, *limits_of(Node("requantize", [], [out]), most))


def _bytes(value: Value) -> bool:
    return per_tensor(value, np.uint8, np.int8)


def _requantized(x: Value, out: Value) -> np.ndarray:
    """What the elementwise kernel makes of each stored byte."""
    assert x.type.dtype is not None and out.type.dtype is not None
    stored = np.arange(256).astype(np.uint8).view(x.type.dtype)
    factor = np.float32(min(quant(x).scale[0] / quant(out).scale[0], LARGE))
    with np.errstate(all="ignore"):
        real = (stored.astype(np.float32) - np.float32(zero_point(x))) * factor
    limits = np.iinfo(out.type.dtype)
    return np.clip(np.rint(real.astype(np.float64)) + zero_point(out), limits.min, limits.max).astype(out.type.dtype)


# -- tables


def has_vbmi(e: Emit) -> bool:
    """Whether kernels of this tier may permute bytes across a 512-bit register here."""
    return e.tier.lanes == 16 and "avx512vbmi" in cpu_flags()


def _lookup(e: Emit, node: Node, values: np.ndarray) -> None:
    small = values.itemsize == 1 and values.size == 256
    params = {"index": element(node.x), "value": ELEMENTS[values.dtype], "vbmi": small and has_vbmi(e)}
    walk(e, node, "table", params, [node.x], [e.constant(values)])


def _tables(node: Node) -> bool:
    if not _plain(node.x.type, node.out.type) or node.x.type.dims != node.out.type.dims:
        return False
    assert node.x.type.dtype is not None
    size = node.x.type.dtype.itemsize
    return size <= 2 and node.attrs["values"].size == 1 << 8 * size and _fits(node)


@lowers("table", match=_tables, strided_in=True, strided_out=True, in_place=True)
def table(e: Emit, node: Node, _: Any) -> None:
    assert node.out.type.dtype is not None
    _lookup(e, node, np.ascontiguousarray(node.attrs["values"].reshape(-1), node.out.type.dtype))
