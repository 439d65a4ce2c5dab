"""A network in no format: operators over values of logical shapes (channels second), with seeded constants."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Shape = tuple[int, ...]


@dataclass
class Input:
    """A float input, or (`below` > 0) one of indices smaller than that."""

    shape: Shape
    below: int = 0


@dataclass
class Const:
    """f32 numbers that follow from shape, kind and seed, `times` a power of two.

    A `view` has those of its source: "turned" (axes in reverse), "flat" (on one axis), its "first" or "second" half.
    """

    shape: Shape
    kind: str = "weight"
    seed: int = 0
    times: float = 1.0
    view: str = ""

    def source(self) -> np.ndarray:
        """The numbers that it is a view of."""
        if self.view == "flat":
            return replace(self, view="").array().reshape(-1)
        shape = self.shape[::-1] if self.view == "turned" else (2 * self.shape[0], *self.shape[1:])
        return replace(self, shape=shape, view="").array()

    def array(self) -> np.ndarray:
        match self.view:
            case "turned":
                return self.source().T
            case "flat":
                return self.source().reshape(self.shape)
            case "first" | "second":
                return self.source().reshape(2, *self.shape)[int(self.view == "second")]
        rng = np.random.default_rng(self.seed)
        data = rng.standard_normal(self.shape)
        match self.kind:
            case "weight":  # out, in, ...: products keep the magnitude
                data = data / max(np.prod(self.shape[1:]), 1) ** 0.5
            case "matrix":  # ..., in, out
                data = data / max(self.shape[-2], 1) ** 0.5
            case "bias":
                data = data / 4
            case "positive":
                data = np.abs(data) / 2 + 0.5
            case "mask":
                data = np.where(rng.random(self.shape) < 0.3, -30.0, 0.0)
            case "causal":
                data = np.triu(np.full(self.shape, -30.0), 1 + self.shape[-1] - self.shape[-2])
            case "zero" | "half" | "one":
                data = np.full(self.shape, {"zero": 0.0, "half": 0.5, "one": 1.0}[self.kind])
        return (data * self.times).astype(np.float32)


@dataclass
class Op:
    """An operator of `shapes.py`."""

    kind: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Composition:
    """Operators in an order in which they can run. A result may be an input, or one that is read on.

    `open`: which extents of inputs a file leaves open: those of the "batch", of "places", "both", or none.
    """

    inputs: dict[str, Input] = field(default_factory=dict)
    consts: dict[str, Const] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    open: str = ""

    def copy(self) -> Composition:
        return copy.deepcopy(self)

    def shapes(self) -> dict[str, Shape]:
        """Of all values; Misfit when an operator does not take what it is given."""
        from .shapes import infer

        found = {name: given.shape for name, given in (self.inputs | self.consts).items()}
        for op in self.ops:
            made = infer(op.kind, [found[name] for name in op.inputs], op.attrs)
            found.update(zip(op.outputs, made, strict=True))
        return found

    def prune(self) -> Composition:
        """Without what no output depends on. Inputs stay."""
        wanted = set(self.outputs)
        ops = []
        for op in reversed(self.ops):
            if wanted.intersection(op.outputs):
                ops.append(op)
                wanted.update(op.inputs)
        consts = {name: const for name, const in self.consts.items() if name in wanted}
        return Composition(self.inputs, consts, ops[::-1], self.outputs, self.open)

    def open_axes(self, name: str) -> tuple[int, ...]:
        """Of an input. A place that is the only one is spread over the others, a row over all."""
        given = self.inputs[name]
        rank = len(given.shape)
        if not self.open or rank < 2:
            return ()
        places = tuple(axis for axis in {5: (2, 3, 4), 4: (2, 3), 3: (1,)}.get(rank, ()) if given.shape[axis] > 1)
        return {"batch": (0,), "places": places, "both": (0, *places)}[self.open]

    def made(self) -> Iterator[str]:
        for op in self.ops:
            yield from op.outputs

    def feeds(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Numbers for every input: in a range that activations of real networks have."""
        rng = np.random.default_rng(seed)
        return {
            name: rng.integers(0, given.below, given.shape) if given.below
            else rng.standard_normal(given.shape).astype(np.float32)
            for name, given in self.inputs.items()
        }  # fmt: skip

    def __str__(self) -> str:
        """Python that makes it again."""
        lines = [f"    inputs={self.inputs!r},", "    consts={"]
        lines += [f"        {name!r}: {const!r}," for name, const in self.consts.items()]
        lines += ["    },", "    ops=["] + [f"        {op!r}," for op in self.ops]
        lines += ["    ],", f"    outputs={self.outputs!r},"] + [f"    open={self.open!r},"] * bool(self.open)
        return "\n".join(["Composition(", *lines, ")"])


def opened(net: Composition, given: Shape, made: Shape) -> Shape:
    """What a file says that a reshape makes: where extents are open, -1 for the one that follows.

    >>> opened(Composition(open="places"), (1, 8, 4, 4), (1, 8, 16))
    (1, 8, -1)
    """
    if not net.open:
        return tuple(made)
    others = [i for i, d in enumerate(made) if given[i : i + 1] != (d,)]
    along = any(len(i.shape) == 3 for i in net.inputs.values()) and given[1:2] == made[1:2]
    at = 0 if net.open == "batch" else 1 if along or not others else others[-1]
    return tuple(-1 if i == at else d for i, d in enumerate(made))
