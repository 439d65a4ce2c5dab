"""Chains for the elementwise kernel where operands or results are stored in types other than f32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir import Node, Value
from ....ir.quantization import reals
from ...quantized import LARGE, bounds, clamps_only, per_tensor, quant, zero_point
from ..elements import Operand, element, plain
from ..registry import Emit
from ..walk import Out
from .calls import call_walk, joined_loops

RESULTS = (np.uint8, np.int8, np.int16)
"""Types that the elementwise kernel rounds to."""
BOUNDED = 2.0**30
"""The magnitude above which results are clamped before they are rounded."""
EXACT = 2.0**18
"""The greatest constant, from the zero points of a sum, up to which cancellation in f32 is accurate enough."""


class Chain:
    """A chain over stored tensors. Operands are ("tensor", i) or ("step", i); `steps` are counted."""

    def __init__(self) -> None:
        self.tensors: list[Operand] = []
        self.parts: list[tuple[Any, ...]] = []

    def tensor(self, value: Operand) -> Any:
        for i, known in enumerate(self.tensors):
            if known is value:
                return "tensor", i
        self.tensors.append(value)
        return "tensor", len(self.tensors) - 1

    def step(self, *step: Any) -> Any:
        self.parts.append(step)
        return "step", len(self.parts) - 1

    @property
    def steps(self) -> tuple[tuple[Any, ...], ...]:
        """The chain in the form of kernels/pointwise/chain.py."""
        first = {"tensor": 0, "step": len(self.tensors)}
        return tuple(
            (name, *(o if isinstance(o, float) else first[o[0]] + o[1] for o in operands))
            for name, *operands in self.parts
        )


def as_read(value: Value) -> Operand:
    """A constant of several scales as f32; anything else as it lies."""
    if value.data is None or value.type.quant is None or per_tensor(value, np.uint8, np.int8):
        return value
    return reals(value.data, value.type.quant).astype(np.float32)


def _affine(value: Operand) -> tuple[float, float]:
    """(scale, zero point) of an operand as the kernel reads it."""
    if isinstance(value, np.ndarray) or value.type.quant is None:
        return 1.0, 0.0
    return quant(value).scale[0], zero_point(value)


def _largest(value: Operand) -> float:
    """The greatest magnitude of an operand's reals: infinite for f32."""
    scale, zero = _affine(value)
    if isinstance(value, np.ndarray):
        return float(np.abs(value).max(initial=0))
    if value.data is not None:
        return float(np.abs(reals(value.data, value.type.quant)).max(initial=0))
    if value.type.dtype is None or value.type.dtype.kind == "f":
        return np.inf
    limits = np.iinfo(value.type.dtype)
    return float(max(limits.max - zero, zero - limits.min)) * scale


def _minus_zero(chain: Chain, value: Operand) -> Any:
    zero = _affine(value)[1]
    return chain.step("sub", chain.tensor(value), f32(zero)) if _is_stored(value) else chain.tensor(value)


def _is_stored(value: Operand) -> bool:
    return isinstance(value, Value) and value.type.quant is not None


def _linear(chain: Chain, terms: Sequence[tuple[Operand | float, float]], unit: float) -> float:
    """Write the sum of sign * operand, in units: one fma per tensor. Returns its greatest magnitude."""
    total, most, factors = 0.0, 0.0, []
    for operand, sign in terms:
        if isinstance(operand, float):
            total += sign * operand / unit
        else:
            scale, zero = _affine(operand)
            factors.append((chain.tensor(operand), sign * scale / unit))
            total -= sign * scale / unit * zero
            most += _largest(operand) / unit
    sum_: Any = f32(total)
    for tensor, factor in factors:
        sum_ = chain.step("fma", tensor, f32(factor), sum_)
    return most + abs(total)


def product(chain: Chain, factors: Sequence[Operand | float], unit: float) -> float:
    """Write the product of operands, in units: of differences from zero points, exact for bytes, times one number.
    Returns its greatest magnitude."""
    scale, most, result = 1.0 / unit, 1.0 / unit, None
    for operand in factors:
        if isinstance(operand, float):
            scale, most = scale * operand, most * abs(operand)
            continue
        scale, most = scale * _affine(operand)[0], most * _largest(operand)
        x = _minus_zero(chain, operand)
        result = x if result is None else chain.step("mul", result, x)
    chain.step("mul", result, f32(scale))
    return most


def real(chain: Chain, operand: Operand) -> Any:
    """The reals that an operand stands for."""
    x = _minus_zero(chain, operand)
    return chain.step("mul", x, f32(_affine(operand)[0])) if _is_stored(operand) else x


def _general(chain: Chain, node: Node, inputs: Sequence[Operand], unit: float) -> None:
    """Write any chain, on reals."""
    places = [real(chain, operand) for operand in inputs]
    for name, *operands in node.attrs["chain"]:
        places.append(chain.step(name, *(o if isinstance(o, float) else places[o] for o in operands)))
    if node.out.type.quant is not None:
        chain.step("mul", places[-1], f32(1 / unit))


def chain_of(node: Node) -> tuple[Chain, Out]:
    """The chain of a `fused` node over its stored operands, and the form of its result."""
    chain, steps, count = Chain(), node.attrs["chain"], len(node.inputs)
    inputs = [as_read(v) for v in node.inputs if v is not None]
    unit = node.out.type.quant.scale[0] if node.out.type.quant is not None else 1.0
    name, *operands = steps[0]
    tail = tuple((s[0], *(o if isinstance(o, float) else o - count for o in s[1:])) for s in steps[1:])
    then = Node("fused", [], node.outputs, {"chain": tail})
    taken = [o if isinstance(o, float) else inputs[o] for o in operands]
    if not _in_units(name, taken, then, unit):
        _general(chain, node, inputs, unit)
        return chain, held(Node("fused", [], node.outputs))
    if name == "mul":
        most = product(chain, taken, unit)
    else:
        most = _linear(chain, list(zip(taken, (1.0, 1.0 if name == "add" else -1.0), strict=True)), unit)
    return chain, held(then, most)


def _in_units(name: str, operands: Sequence[Operand | float], then: Node, unit: float) -> bool:
    """Whether a step is a sum or product that is computed in units of its result: of an operand at least, with clamps
    behind where the result is quantized, else with nothing. Sums are of numbers that f32 holds exactly.
    """
    if name not in ("add", "sub", "mul") or all(isinstance(o, float) for o in operands):
        return False
    if then.out.type.quant is None:
        return not then.attrs["chain"]
    sizes = [abs(o) if isinstance(o, float) else _largest(o) for o in operands]
    # A NaN passes clamps, and not bounds.
    if not clamps_only(then) or (then.attrs["chain"] and np.inf in sizes):
        return False
    return name == "mul" or sum(s for s in sizes if s < np.inf) <= EXACT * unit


def held(node: Node, most: float = np.inf) -> Out:
    """How results of a magnitude up to `most`, in units, are rounded and clamped; the node's chain has only clamps."""
    if node.out.type.quant is None:
        return Out()
    return Out(element(node.out), zero_point(node.out), *bounds(node), most < BOUNDED)


def f32(x: float) -> float:
    """A number of a chain as f32; what exceeds f32 becomes its greatest or least number."""
    return float(min(max(x, -LARGE), LARGE) if np.isfinite(x) else x)


# -- kernel calls


def call_stored(e: Emit, node: Node, chain: Chain, out: Out) -> None:
    """Call the kernel for the whole result of a node."""
    loops, addresses = joined_loops(e, node, chain.tensors)
    xs = [(element(tensor), address) for tensor, address in zip(chain.tensors, addresses, strict=True)]
    call_walk(e, chain.steps, loops, e.address(node.out), xs, out)


# -- what is accepted


def readable(value: Value) -> bool:
    """Whether the kernel can read it: f32 that is not quantized, or stored numbers of one scale, or a constant."""
    if not plain(value.type):
        return False
    if value.type.quant is None:
        return value.type.dtype == np.float32
    return value.data is not None or per_tensor(value, np.uint8, np.int8, np.int16, np.uint16, np.int32)


def writable(value: Value) -> bool:
    """Whether the kernel can write it: f32, or stored numbers of one scale."""
    return plain(value.type) and (
        per_tensor(value, *RESULTS) if value.type.quant is not None else value.type.dtype == np.float32
    )
