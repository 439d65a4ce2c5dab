"""A composition that grows operator by operator, from a random source and a palette of numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from .composition import Composition, Const, Input, Op, Shape
from .shapes import Misfit, infer, need
from .tie import Ties

LIMIT = 1 << 14
"""No value has more elements."""


@dataclass(frozen=True)
class Palette:
    """The numbers that networks are made of: kernels carry shapes and chains, and are compiled once for a palette."""

    channels: tuple[int, ...]
    sizes: tuple[int, ...]
    lengths: tuple[int, ...]
    batches: tuple[int, ...]
    kernels: tuple[int, ...]
    activations: tuple[str, ...]
    gates: tuple[str, ...]
    binaries: tuple[str, ...]

    @staticmethod
    def of(number: int) -> Palette:
        """Always the same for a number. Few numbers each, since what is made of them multiplies."""
        r = random.Random(f"palette {number}")
        return Palette(
            channels=(r.choice([3, 4, 5, 7, 8, 12, 17]), r.choice([8, 16, 16, 24, 32, 33])),
            sizes=(r.choice([1, 2, 3, 5, 6, 7, 8, 8, 9, 13, 16, 17, 33]), r.choice([6, 7, 8, 12, 16])),
            lengths=(r.choice([1, 2, 3, 5, 7, 8, 16, 17, 31, 33]), r.choice([3, 8, 13])),
            batches=(1, 1, r.randint(1, 5)),
            kernels=(3, r.choice([1, 2, 3, 5])),
            activations=("relu", r.choice(["relu", "relu6", "hard_swish", "swish", "gelu", "leaky_relu", "elu"])),
            gates=(r.choice(["sigmoid", "hard_sigmoid", "tanh"]),),
            binaries=("add", r.choice(["mul", "sub", "max", "min"])),
        )


class TooLarge(Exception):
    """What was asked for has more elements than LIMIT."""


class Grow:
    """Give a value's name to an operator, get its result's. `pick` and `chance` are the only source of choice."""

    def __init__(self, seed: int, palette: Palette, depth: int = 0) -> None:
        """`depth`: how many compositions this one lies in."""
        self.depth = depth
        self.random = random.Random(f"composition {seed}")
        self.palette = palette
        self.net = Composition()
        self.ties = Ties(seed)
        self.shapes: dict[str, Shape] = {}

    # -- choices

    def pick(self, *options: Any) -> Any:
        need(bool(options), "nothing to choose from")
        return self.random.choice(options)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def channels(self) -> int:
        return self.pick(*self.palette.channels)

    def act(self, x: str) -> str:
        """An activation of the palette, or none."""
        kind = self.pick(*self.palette.activations, "")
        return self.op(kind, x) if kind else x

    def gate(self, x: str) -> str:
        return self.op(self.pick(*self.palette.gates), x)

    def combine(self, x: str, y: str) -> str:
        """A binary operator of the palette, on both in either order."""
        return self.op(self.pick(*self.palette.binaries), *self.random.sample([x, y], 2))

    # -- values

    def input(self, *shape: int, below: int = 0) -> str:
        name = f"x{len(self.net.inputs)}"
        self.net.inputs[name] = Input(shape, below)
        self.shapes[name] = shape
        return name

    def const(self, *shape: int, kind: str = "weight") -> str:
        """A new one, or one that others read, or one with some of their numbers."""
        fresh = Const(shape, kind, self.random.randrange(1 << 16))
        name = self.ties.name(fresh, self.net.consts)
        self.shapes[name] = shape
        return name

    def ops(self, kind: str, *inputs: str, **attrs: Any) -> list[str]:
        """The results of an operator. Misfit when it can't take these, TooLarge when they would be."""
        made = infer(kind, [self.shapes[name] for name in inputs], attrs)
        if any(prod(shape) > LIMIT for shape in made):
            raise TooLarge
        base = f"v{len(self.net.ops)}"
        names = [base] if len(made) == 1 else [f"{base}_{i}" for i in range(len(made))]
        self.net.ops.append(Op(kind, list(inputs), names, attrs))
        self.shapes.update(zip(names, made, strict=True))
        return names

    def op(self, kind: str, *inputs: str, **attrs: Any) -> str:
        (name,) = self.ops(kind, *inputs, **attrs)
        return name

    def attempt(self, family: Callable[[Grow, str], str], x: str) -> str:
        """What the family makes of x; x itself, and nothing else is left of it, when it does not fit."""
        counts = len(self.net.ops), len(self.net.outputs), list(self.net.inputs), list(self.net.consts)
        try:
            return family(self, x)
        except (TooLarge, Misfit):
            del self.net.ops[counts[0] :], self.net.outputs[counts[1] :]
            for held, before in ((self.net.inputs, counts[2]), (self.net.consts, counts[3])):
                for name in set(held) - set(before):
                    del held[name]
            return x

    # -- layers that several families use

    def conv(
        self, x: str, out: int, kernel: int | tuple[int, ...] = 1, stride: int = 1, group: int = 1, dilation: int = 1,
        pads: tuple[int, ...] | None = None, bias: bool | None = None,
    ) -> str:  # fmt: skip
        """A convolution that keeps the image's or volume's size at a stride of one, unless told how to pad."""
        places = len(self.shapes[x]) - 2
        sides = (kernel,) * places if isinstance(kernel, int) else kernel
        reach = [(k - 1) * dilation for k in sides]
        if pads is None:
            pads = (*(r // 2 for r in reach), *(r - r // 2 for r in reach))
        inputs = [x, self.const(out, self.shapes[x][1] // group, *sides)]
        if self.chance(0.6) if bias is None else bias:
            inputs.append(self.const(out, kind="bias"))
        return self.op("conv", *inputs, strides=(stride,) * places, pads=pads, dilations=(dilation,) * places,
                       group=group)  # fmt: skip

    def norm(self, x: str) -> str:
        """Perhaps a batch normalization."""
        if self.chance(0.6):
            return x
        c = self.shapes[x][1]
        parameters = [self.const(c, kind=kind) for kind in ("positive", "bias", "bias", "positive")]
        return self.op("batch_norm", x, *parameters)

    def layer(self, x: str, out: int, kernel: int | tuple[int, ...] = 1, **options: Any) -> str:
        """A convolution with normalization and activation."""
        return self.act(self.norm(self.conv(x, out, kernel, **options)))

    def depthwise(self, x: str, kernel: int | None = None, stride: int = 1, dilation: int = 1) -> str:
        c = self.shapes[x][1]
        return self.conv(x, c, kernel or self.pick(*self.palette.kernels), stride, c, dilation)

    def dense(self, x: str, out: int, bias: bool | None = None) -> str:
        inputs = [x, self.const(self.shapes[x][-1], out, kind="matrix")]
        if self.chance(0.6) if bias is None else bias:
            inputs.append(self.const(out, kind="bias"))
        return self.op("dense", *inputs, gemm=self.chance(0.5))

    def layer_norm(self, x: str) -> str:
        c = self.shapes[x][-1]
        return self.op("layer_norm", x, self.const(c, kind="positive"), self.const(c, kind="bias"))

    def mean(self, x: str, *axes: int, keep: bool = True, how: str = "mean") -> str:
        return self.op("reduce", x, how=how, axes=axes, keep=keep)

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("reshape", x, shape=shape)

    def transpose(self, x: str, *perm: int) -> str:
        return self.op("transpose", x, perm=perm)

    def concat(self, *parts: str, axis: int = 1) -> str:
        return self.op("concat", *parts, axis=axis)

    def split(self, x: str, *sizes: int, axis: int = 1) -> list[str]:
        return self.ops("split", x, sizes=sizes, axis=axis) if len(sizes) > 1 else [x]

    def slice(self, x: str, axis: int, start: int, end: int, step: int = 1) -> str:
        return self.op("slice", x, axis=axis, start=start, end=end, step=step)

    def output(self, x: str) -> None:
        if x not in self.net.outputs:
            self.net.outputs.append(x)
